"""A model of two directions: its corpora, translations, signatures and scores."""

import contextlib
import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import data, tokenization
from keras_transformer.config import ModelConfig
from keras_transformer.data import corpora
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.serving.signatures import ServingModule
from keras_transformer.tokenization import mapped
from tests import small_models
from tests.searchers import load_searcher
from tests.training.small_runs import config_of, train

pytestmark = pytest.mark.long

ENGLISH = ["one", "two", "three", "four", "five"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf"]
TEXTS = ["one two three", "vier", ""]
UNTOLD = r"The model writes several languages \(de, en\), and the first line does not"
CORPORA = """
corpora:
  - {name: words, source: words.en, target: words.de, both_directions: true}
  - {name: dev, split: valid, source: dev.en, target: dev.de, both_directions: true}
  - {name: other, split: valid, source: other.en, target: other.de}
  - {name: last, split: test, source: last.de, target: last.en, source_language: de,
     target_language: en}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A mixture of two directions in data/, and a model after two steps in model/."""
    folder = tmp_path_factory.mktemp("languages")
    draw = np.random.default_rng(0)
    for name, count in (("words", 70), ("dev", 7), ("other", 5), ("last", 3)):
        rows = [draw.integers(0, 5, draw.integers(1, 5)) for _ in range(count)]
        for language, words in (("en", ENGLISH), ("de", GERMAN)):
            lines = [" ".join(words[word] for word in row) for row in rows]
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n")
    (folder / "corpora.yaml").write_text(CORPORA)
    given = corpora.read(folder / "corpora.yaml")
    data.prepare_corpora(
        given,
        folder / "data",
        lambda texts: tokenization.train_bpe(texts, 300, symbols=given.symbols),
    )
    config = config_of(folder / "data", train_steps=2, tokens_per_batch=400)
    train(str(folder / "data"), folder / "model", config)
    return folder


@pytest.fixture(scope="module")
def translator(folder):
    return load_searcher(folder / "model")


@pytest.fixture(scope="module")
def choosing(folder):
    """A run with the same vocabulary, whose weights are large enough to choose by."""
    tokenizer = tokenization.load(folder / "data" / "tokenizer")
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, num_layers=1, d_model=6, d_ff=7, num_heads=2
    )
    model = small_models.choosing_model(config, seed=3)
    made = Translator(model, tokenizer, extra_decode_length=5, max_input_length=23)
    small_models.write_model(made, folder / "choosing")
    return ModelDir(folder / "choosing")


def test_every_pair_is_encoded_in_both_directions(folder):
    """The target language before each source, one token; no target has one."""
    corpus = data.EncodedCorpus.open(folder / "data", "train")
    tokenizer = tokenization.load(folder / "data" / "tokenizer")
    there, back = tokenizer.languages["de"], tokenizer.languages["en"]
    assert len(corpus) == 140
    assert [int(corpus[row][0][0]) for row in (0, 69, 70, 139)] == [
        *(there, there),
        *(back, back),
    ]
    for row in range(70):
        np.testing.assert_array_equal(corpus[row][0][1:], corpus[70 + row][1])
        np.testing.assert_array_equal(corpus[row][1], corpus[70 + row][0][1:])


def test_the_language_may_be_in_the_text_or_an_argument(folder, translator):
    """The text has the last word; a text without words stays so."""
    told = [f">>de<< {text}" for text in TEXTS]
    expected = translator.translate(told)
    chosen = load_searcher(folder / "model", languages=(None, "de"))
    assert chosen.translate(TEXTS) == expected
    assert chosen.translate(told) == expected
    back = [f">>en<< {text}" for text in TEXTS]
    assert chosen.translate(back) == translator.translate(back) != expected
    assert (expected[2].text, expected[2].score) == ("", 0.0)


def test_ids_with_a_chosen_language_are_those_of_training():
    texts = ["one two", "eins zwei"] * 7
    plain = tokenization.train_bpe(texts, 280, symbols=[">>de<<", ">>en<<"])
    chosen = plain.with_languages(None, "de")
    given = ["one two", ">>en<< one", "", ">>de<<"]
    expected = [">>de<< one two", ">>en<< one", ">>de<<", ">>de<<"]
    for found, told in zip(chosen.encode(given), plain.encode(expected), strict=True):
        np.testing.assert_array_equal(found, told)
    tokens = chosen.tokenize(given)
    assert tokens.to_list() == plain.tokenize(expected).to_list()
    for texts in (given, given[:0]):
        batch = tf.constant(texts, tf.string)
        assert chosen.tokenize(batch).to_list() == [
            ids.tolist() for ids in chosen.encode(texts)
        ]
        assert chosen.tokenize_target(batch).to_list() == [
            ids.tolist() for ids in plain.encode(texts)
        ]
    assert [ids.tolist() for ids in chosen.encode_target(given)] == [
        ids.tolist() for ids in plain.encode(given)
    ]
    assert chosen.fingerprint == plain.fingerprint


def test_unknown_languages_are_refused_with_those_there_are(folder):
    place = ModelDir(folder / "model")
    message = r"`target_language` must be one of the model's languages \(de, en\)"
    with pytest.raises(ValueError, match=message):
        load_searcher(place.path, languages=(None, "fr"))


def test_the_program_takes_the_target_language_or_refuses(folder, program_of):
    (folder / "text").write_text("one two three\nvier\n")
    (folder / "told").write_text(">>en<< one two three\n>>en<< vier\n")
    outputs = []
    for name, language in (("text", {"target_language": "en"}), ("told", {})):
        output = folder / f"output_{name}"
        program_of("bin/translate.py")(
            model_dir=folder / "model", input=folder / name, output=output, **language
        )
        outputs.append(output.read_text())
    assert outputs[0] == outputs[1]
    for program in ("translate", "back_translate"):
        with pytest.raises(ValueError, match=UNTOLD):
            program_of(f"bin/{program}.py")(
                model_dir=folder / "model",
                input=folder / "text",
                output=folder / "untold",
            )
    assert not [*folder.glob("untold*")]


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("name", "language"),
    [("told", {}), ("text", {"target_language": "en"}), ("text", {})],
)
def test_an_evaluation_needs_the_language(folder, program_of, name, language):
    (folder / "text").write_text("one two three\n")
    (folder / "told").write_text(">>en<< one two three\n")
    is_told = name == "told" or language
    with (
        contextlib.nullcontext() if is_told else pytest.raises(ValueError, match=UNTOLD)
    ):
        program_of("bin/evaluate.py")(
            model_dir=folder / "model",
            source=folder / name,
            reference=folder / "text",
            bootstrap_samples=0,
            **language,
        )


@pytest.mark.long(first=1)
@pytest.mark.parametrize("form", ["lines", "text"])
def test_the_first_line_that_is_told_wrong_is_named(
    folder, choosing, program_of, capfd, form
):
    """A line in a language that the model lacks is left out."""
    translate = functools.partial(
        program_of("bin/translate.py"),
        model_dir=choosing.path,
        format=form,
        input=folder / "given",
        output=folder / "found",
    )
    lines = [">>de<< one", ">>fr<< two", ">>fr<< two", "\u200b", ">>en<< four"]
    (folder / "given").write_text("\n".join(lines) + "\n")
    translate()
    told = capfd.readouterr().err
    assert told.count("Line 2 begins with >>fr<<, which is none of the model's") == 1
    found = (folder / "found").read_text().splitlines()
    assert [bool(line.strip("\u200b")) for line in found] == [
        line[2:4] in ("de", "en") for line in lines
    ]
    (folder / "given").write_text("\n\nthree\n" + "\n".join(lines))
    with pytest.raises(ValueError, match=r"\(de, en\), and line 3 does not begin"):
        translate()


@pytest.mark.long(first=1)
@pytest.mark.parametrize("default", [None, "en"])
def test_a_signature_takes_the_language_of_each_text(folder, translator, default):
    """Whatever the language of the source is said to be, and of other signatures."""
    chosen = load_searcher(folder / "model", languages=(None, default))
    module = ServingModule(chosen)
    texts = [TEXTS[0], TEXTS[0], TEXTS[2], TEXTS[0]]
    codes = ["de", "en", "de", "fr"]
    assert "multilingual" in module.signatures()
    found = module.multilingual(
        tf.constant(texts), tf.constant(["xx"] * 4), tf.constant(codes)
    )
    expected = translator.translate([f">>{code}<< {TEXTS[0]}" for code in codes[:2]])
    translations = [text.decode() for text in found["translation"].numpy()]
    assert translations == [*(each.text for each in expected), "", ""]
    scores = found["score"].numpy().tolist()
    assert scores[:2] == pytest.approx([each.score for each in expected], abs=1e-5)
    assert scores[2:] == [0.0, -1e7]


def test_scores_are_told_for_each_set_and_direction(folder, program_of, capsys):
    """7 pairs in both directions, and 5 more from English to German."""
    report = folder / "report.json"
    summary = program_of("bin/evaluate.py")(
        model_dir=folder / "model",
        data_dir=folder / "data",
        split="valid",
        report=report,
        output=folder / "hypotheses",
        bootstrap_samples=0,
    )
    assert json.loads(report.read_text()) == summary
    counts = {
        kind: {name: each["num_sentences"] for name, each in summary[kind].items()}
        for kind in ("sets", "directions")
    }
    assert counts == {
        "sets": {"dev en-de": 7, "dev de-en": 7, "other": 5},
        "directions": {"en-de": 12, "de-en": 7},
    }
    assert summary["num_sentences"] == 19
    printed = capsys.readouterr().out
    assert "directions  sentences  sacreBLEU" in printed
    alone = program_of("bin/evaluate.py")(
        hypothesis=lines_of(folder / "hypotheses", 7, 14, folder / "part"),
        reference=lines_of(folder / "data" / "valid.target", 7, 14, folder / "gold"),
        target_language="en",
        bootstrap_samples=0,
    )
    assert alone == summary["sets"]["dev de-en"] == summary["directions"]["de-en"]


@pytest.mark.release
def test_a_split_of_one_direction_is_tokenized_in_its_target_language(
    folder, program_of
):
    """The first training corpus has German targets."""
    summary = program_of("bin/evaluate.py")(
        model_dir=folder / "model",
        data_dir=folder / "data",
        split="test",
        bootstrap_samples=0,
    )
    assert "moses-en" in json.dumps(summary)


def lines_of(path, start, end, part):
    """Write some lines of a file into another, and return its path."""
    part.write_text("\n".join(path.read_text().split("\n")[start:end]) + "\n")
    return part


@pytest.mark.release
def test_plain_text_is_evaluated_into_the_language_of_the_flag(folder, program_of):
    """But for text that tells another one, also to BLEU."""
    evaluate = program_of("bin/evaluate.py")
    outputs = []
    for name, language in (("plain", "de"), ("told", "en")):
        prefix = ">>de<< " if name == "told" else ""
        (folder / name).write_text(f"{prefix}one two\n{prefix}three\n")
        output = folder / f"evaluated_{name}"
        summary = evaluate(
            model_dir=folder / "model",
            source=folder / name,
            reference=folder / name,
            target_language=language,
            output=output,
            bootstrap_samples=0,
        )
        outputs.append((output.read_text(), summary["tokenized_signature"]))
    assert outputs[0] == outputs[1]
    message = r"`target_language` must be one of the model's languages \(de, en\)"
    with pytest.raises(ValueError, match=message):
        evaluate(
            model_dir=folder / "model",
            source=folder / "plain",
            reference=folder / "plain",
            target_language="fr",
        )


def test_the_files_of_marian_give_the_same_ids(translator):
    """MarianTokenizer takes the language from the text, and looks it up by itself."""
    tokenizer = translator.tokenizer
    source, target, ids = tokenizer.sentencepiece_models()
    special = {name: tokenizer.ids()[name] for name in ("pad_id", "bos_id", "eos_id")}
    theirs = mapped.MappedTokenizer(mapped.pack(source, target, [ids], special))
    texts = [">>de<< one two", ">>en<< vier", "five"]
    assert theirs.tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list()


def test_fine_tuning_on_one_direction_tells_its_language_too(folder, program_of):
    """The vocabulary has languages, so the model expects one."""
    (folder / "one.yaml").write_text(
        "corpora:\n"
        "  - {name: words, source: words.en, target: words.de}\n"
        "  - {name: dev, split: valid, source: dev.en, target: dev.de}\n"
    )
    options = {"corpora": folder / "one.yaml", "data_dir": folder / "one"}
    options |= {"tokenizer_from": folder / "model"}
    prepare = program_of("bin/prepare_data.py")
    message = "corpus 'words': `target_language` is needed: the vocabulary has several"
    with pytest.raises(ValueError, match=message):
        prepare(**options)
    summary = prepare(**options, target_language="de")
    assert [each["prefix"] for each in summary["corpora"]] == [">>de<<"] * 2
    raw = (folder / "one" / "valid.source").read_text().splitlines()
    assert all(line.startswith(">>de<< ") for line in raw)


def test_text_files_tell_their_language_to_a_vocabulary_of_several(folder, program_of):
    """A run of one direction takes its language where none is given."""
    prepare = program_of("bin/prepare_data.py")
    paths = {
        f"{split}_{side}": folder / f"{name}.{language}"
        for split, name in (("train", "words"), ("valid", "dev"))
        for side, language in (("source", "en"), ("target", "de"))
    }
    options = {"tokenizer_from": folder / "model", **paths}
    prepare(data_dir=folder / "plain_de", target_language="de", **options)
    raw = (folder / "plain_de" / "valid.source").read_text().splitlines()
    assert all(line.startswith(">>de<< ") for line in raw)
    corpus = data.EncodedCorpus.open(folder / "plain_de", "train")
    tokenizer = tokenization.load(folder / "model" / "tokenizer")
    assert int(corpus[0][0][0]) == tokenizer.languages["de"]
    config = config_of(folder / "plain_de", train_steps=1, tokens_per_batch=400)
    assert config.default_language == "de"
    model_dir = ModelDir(folder / "one_direction")
    tokenizer.save(model_dir.tokenizer_path)
    model_dir.write_config(config)
    for language, told in ((None, "de"), ("en", "en")):
        assert model_dir.told(tokenizer, (None, language)).default_language == told
    message = r"--target_language is needed: the vocabulary .*\(de, en\)"
    with pytest.raises(ValueError, match=message):
        prepare(data_dir=folder / "plain_any", **options)
    message = r"`target_language` must be one of the model's languages \(de, en\)"
    with pytest.raises(ValueError, match=message):
        prepare(data_dir=folder / "plain_fr", target_language="fr", **options)
