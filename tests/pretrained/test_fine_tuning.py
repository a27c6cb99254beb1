"""An imported model is fine-tuned through the programs."""

import dataclasses

import pytest

from keras_transformer import data, presets, tokenization
from keras_transformer.evaluation.perplexity import reference_perplexity
from keras_transformer.pretrained import importing
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import fine_tuning, run_setup
from tests.pretrained import small_published
from tests.searchers import load_searcher
from tests.small_models import LINES

SPLITS = ("train", "valid")
SIDES = ("source", "target")


def perplexity_of(model_dir):
    return reference_perplexity(
        load_searcher(model_dir.path), LINES, LINES, max_length=60
    )


@pytest.mark.long(first=1)
@pytest.mark.parametrize("family", ["marian", "m2m_100"])
def test_an_imported_model_learns_from_other_text(program_of, tmp_path, family):
    small_published.write_huggingface(tmp_path / "published", family)
    has_languages = family == "m2m_100"
    languages = {"source_language": "en", "target_language": "de"}
    importing.import_model(
        tmp_path / "published",
        tmp_path / "model",
        **(languages if has_languages else {}),
    )
    text = tmp_path / "text"
    text.write_text("\n".join(LINES * 20) + "\n", encoding="utf-8")
    paths = {
        f"{split}_{side}": str(text)
        for split in ("train", "valid")
        for side in ("source", "target")
    }
    program_of("bin/prepare_data.py")(
        data_dir=str(tmp_path / "data"),
        tokenizer_from=str(tmp_path / "model"),
        max_length=60,
        **paths,
        **languages,
    )
    summary = program_of("bin/train.py")(
        data_dir=str(tmp_path / "data"),
        model_dir=str(tmp_path / "tuned"),
        init_checkpoint=str(tmp_path / "model"),
        train_steps=60,
        warmup_steps=10,
        learning_rate_schedule="linear",
        learning_rate=0.03,
        tokens_per_batch=500,
        max_length=60,
        freeze="encoder",
        bleu_sentences=0,
        preflight=False,
        distribution="one_device",
    )
    assert summary["steps"] == 60
    tuned, start = ModelDir(tmp_path / "tuned"), ModelDir(tmp_path / "model")
    assert tuned.read_config().model == start.read_config().model
    assert perplexity_of(tuned) < 0.5 * perplexity_of(start)
    assert tuned.read_config().start == {"family": family, "model": "model"}
    card = tuned.card_path.read_text(encoding="utf-8")
    assert "Training began from the weights of `model`." in card
    assert "| weights | step 60 |" in card


@pytest.fixture(scope="module")
def multilingual(tmp_path_factory):
    """A model that was imported for English to German, and a text."""
    folder = tmp_path_factory.mktemp("multilingual")
    small_published.write_huggingface(folder / "published", "m2m_100")
    importing.import_model(
        folder / "published",
        folder / "model",
        source_language="en",
        target_language="de",
    )
    (folder / "text").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def prepare(multilingual, tmp_path, program_of):
    """Prepares a corpus for the model, by default of its text on both sides."""
    text = str(multilingual / "text")
    names = [f"{split}_{side}" for split in SPLITS for side in SIDES]

    def prepared(**given):
        paths = {} if "corpora" in given else dict.fromkeys(names, text)
        program_of("bin/prepare_data.py")(
            data_dir=str(tmp_path / "data"),
            tokenizer_from=str(multilingual / "model"),
            **paths,
            **given,
        )
        return tmp_path / "data"

    return prepared


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("en", "de")),
        ({"source_language": "de", "target_language": "en"}, ("de", "en")),
        ({"target_language": "en"}, ("en", "en")),
    ],
)
def test_a_corpus_begins_with_its_languages(multilingual, prepare, given, expected):
    """By default those of the import; the model may start from any pair of its own."""
    folder = prepare(**given)
    described = data.read_metadata(folder)
    assert (described.source_language, described.target_language) == expected
    ids = tokenization.load(multilingual / "model" / "tokenizer").languages
    source, target = data.EncodedCorpus.open(folder, "train")[0]
    assert (source[0], target[0]) == (ids[expected[0]], ids[expected[1]])
    model_dir = ModelDir(multilingual / "model")
    config = dataclasses.replace(
        model_dir.read_config(),
        source_language=expected[0],
        target_language=expected[1],
        tokenizer_hash=described.tokenizer_hash,
    )
    fine_tuning.check_can_start_from(str(model_dir.path), config)


@pytest.fixture
def listed(multilingual, tmp_path):
    """Writes a list of corpora for both splits, with more keys."""

    def write(keys):
        entries = ["corpora:"]
        for split, lines in zip(SPLITS, (LINES, LINES[3:]), strict=True):
            source, target = tmp_path / f"{split}.source", tmp_path / f"{split}.target"
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            target.write_text("\n".join(lines).upper() + "\n", encoding="utf-8")
            given = f"split: {split}, source: {source}, target: {target}, {keys}"
            entries.append(f"  - {{name: {split}, {given}}}")
        (tmp_path / "corpora.yaml").write_text("\n".join(entries) + "\n")
        return str(tmp_path / "corpora.yaml")

    return write


def test_a_list_of_corpora_gives_the_languages(multilingual, prepare, listed):
    folder = prepare(corpora=listed("source_language: de, target_language: en"))
    ids = tokenization.load(multilingual / "model" / "tokenizer").languages
    source, target = data.EncodedCorpus.open(folder, "train")[0]
    assert (source[0], target[0]) == (ids["de"], ids["en"])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("both_directions: true", "one pair of languages at a time.*has de-en, en-de"),
        ("target_language: xx", "must be one of the model's languages .*de, en.*'xx'"),
    ],
)
def test_languages_that_the_model_cannot_learn_are_refused(
    prepare, listed, keys, message
):
    with pytest.raises(ValueError, match=message):
        prepare(corpora=listed(keys))


def test_an_unknown_language_of_text_files_is_refused(prepare):
    with pytest.raises(ValueError, match="must be one of the model's languages"):
        prepare(target_language="xx")


def test_a_corpus_of_a_smaller_vocabulary_is_refused(multilingual, prepare):
    """Padding, which the model never chooses, has a higher id."""
    metadata = dataclasses.replace(data.read_metadata(prepare()), vocab_size=4)
    preset = presets.of_run(str(multilingual / "model"))
    preset = dataclasses.replace(
        preset, model=dataclasses.replace(preset.model, suppressed_ids=(5,))
    )
    with pytest.raises(ValueError, match="another vocabulary than the corpus.* has 4"):
        run_setup.resolve(preset, metadata)
