"""Multilingual models: the languages are chosen at import, by flags, or per text."""

import pytest
import sentencepiece
import tensorflow as tf

from keras_transformer.pretrained import importing
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.serving.signatures import ServingModule
from tests.pretrained import small_published
from tests.searchers import load_searcher

TEXTS = ["one two three", "zwei eins", ""]


def imported(folder, family, source, target):
    published = folder / "published"
    if not published.exists():
        small_published.write_huggingface(published, family)
    model_dir = folder / f"{source}_{target}"
    importing.import_model(
        published, model_dir, source_language=source, target_language=target
    )
    return ModelDir(model_dir)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """The same model, imported for two pairs of languages."""
    folder = tmp_path_factory.mktemp("pairs")
    return [imported(folder, "m2m_100", *pair) for pair in (("en", "de"), ("de", "en"))]


def test_ids_of_nllb_are_its_pieces_moved_by_one(tmp_path):
    """Four special ids, the pieces from the third on, then the languages."""
    tokenizer = imported(tmp_path, "nllb", "eng_Latn", "deu_Latn").load_tokenizer()
    path = tmp_path / "published" / "sentencepiece.bpe.model"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    size = pieces.get_piece_size()
    assert tokenizer.vocab_size == size + 3
    assert tokenizer.languages == {"eng_Latn": size + 1, "deu_Latn": size + 2}
    (ids,) = tokenizer.encode(["one two"])
    assert ids.tolist() == [
        size + 1,
        *(number + 1 for number in pieces.encode("one two")),
    ]
    (unknown,) = tokenizer.encode(["\u2603"])
    assert unknown.tolist()[-1] == 3
    assert tokenizer.detokenize([[size + 2, *ids[1:]]])[0].numpy() == b"one two"


def test_nllb_with_the_language_after_the_text_is_refused(tmp_path):
    small_published.write_huggingface(tmp_path / "published", "nllb")
    small_published.write_json(
        tmp_path / "published" / "tokenizer_config.json", {"legacy_behaviour": True}
    )
    with pytest.raises(ValueError, match="legacy_behaviour is True, which is not"):
        imported(tmp_path, "nllb", "eng_Latn", "deu_Latn")


@pytest.mark.long
def test_a_model_translates_between_other_languages_than_at_its_import(pairs):
    forward, backward = pairs
    expected = load_searcher(backward.path).translate(TEXTS)
    chosen = load_searcher(forward.path, languages=("de", "en"))
    assert chosen.translate(TEXTS) == expected
    assert load_searcher(forward.path).translate(TEXTS) != expected


@pytest.mark.long
def test_the_program_takes_the_languages(pairs, program_of, tmp_path):
    forward, backward = pairs
    text = tmp_path / "text"
    text.write_text("one two three\nzwei eins\n")
    outputs = []
    for model_dir, languages in (
        (forward, {"source_language": "de", "target_language": "en"}),
        (backward, {}),
    ):
        output = tmp_path / f"output{len(outputs)}"
        program_of("bin/translate.py")(
            model_dir=model_dir.path, input=text, output=output, **languages
        )
        outputs.append(output.read_text())
    assert outputs[0] == outputs[1]


@pytest.mark.long
def test_a_signature_takes_the_languages_of_each_text(pairs):
    forward, backward = pairs
    module = ServingModule(load_searcher(forward.path))
    codes = tf.constant([["en", "de", "en", "en"], ["de", "en", "de", "tlh"]])
    texts = [TEXTS[0], TEXTS[0], TEXTS[2], TEXTS[0]]
    found = module.multilingual(tf.constant(texts), codes[0], codes[1])
    expected = [
        load_searcher(forward.path).translate(TEXTS[:1])[0],
        load_searcher(backward.path).translate(TEXTS[:1])[0],
    ]
    translations = [text.decode() for text in found["translation"].numpy()]
    assert translations == [expected[0].text, expected[1].text, "", ""]
    scores = found["score"].numpy().tolist()
    assert scores[:2] == pytest.approx([each.score for each in expected], abs=1e-5)
    assert scores[2:] == [0.0, -1e7]


@pytest.mark.long
def test_the_language_that_begins_a_translation_has_no_score(pairs):
    translator = load_searcher(pairs[0].path, length_penalty_alpha=0.0)
    found = translator.align_batch(tf.constant(TEXTS[:1]))
    (log_probs,), (score,) = found["log_probabilities"].numpy(), found["scores"].numpy()
    assert log_probs[0] == 0
    assert all(log_probs[1:] < 0)
    assert log_probs.sum() == pytest.approx(score[0], rel=1e-5)


def test_unknown_languages_are_refused_with_those_there_are(pairs, tmp_path):
    with pytest.raises(ValueError, match=r"`target_language` must be .*\(de, en\)"):
        load_searcher(pairs[0].path, languages=(None, "tlh"))
    small_published.write_huggingface(tmp_path / "published")
    importing.import_model(tmp_path / "published", tmp_path / "model")
    with pytest.raises(ValueError, match="this model translates one pair"):
        load_searcher(tmp_path / "model", languages=("en", None))
