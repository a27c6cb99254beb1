"""A card tells what is known, stays up to date, and leaves what others write."""

import dataclasses
import logging
import re
import subprocess
import sys

import pytest

from keras_transformer import tokenization
from keras_transformer.config import DecodingConfig, ModelConfig, TrainingConfig
from keras_transformer.runs import model_card
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from tests import model_cards
from tests.small_models import LINES

CONFIG = RunConfig(
    preset="tiny",
    model=ModelConfig(vocab_size=310, num_layers=1, d_model=6, d_ff=7, num_heads=2),
    training=TrainingConfig(),
    decoding=DecodingConfig(),
    source_language="no",
    target_language="zh_Hant",
    tokenizer_hash="hash",
    corpus={
        "dataset": "news.no /home/me/texts/news.zh",
        "pairs": {"train": 12345, "valid": 13},
        "tokenizer": "bpe",
        "corpora": [
            {"name": "a|b", "languages": ["no", "zh"], "pairs": 7, "share": 0.25}
        ],
    },
)
STATE = {
    "seconds": 3725.0,
    "tokens": 1_234_567,
    "began": "2026-11-28",
    "hardware": "2026-11-29, a CPU, 2 cores, 3 replicas",
    "best_measure": {"metric": "bleu", "sentences": 11},
    "signatures": ["nrefs:1|tok:zh"],
}
MEASURES = {"loss": 2.5, "bleu": 31.25, "chrf": 50.0}


def make_run(folder, symbols=(), **fields):
    """Write what a card reads of a run: step 5 was the best, step 7 is the last."""
    place = ModelDir(folder)
    tokenizer = tokenization.train_bpe(LINES * 5, vocab_size=300, symbols=symbols)
    tokenizer.save(place.tokenizer_path)
    place.write_config(dataclasses.replace(CONFIG, **fields))
    place.checkpoints().save(7, STATE)
    place.checkpoints("best").save(5, {"metrics": MEASURES})
    return place


@pytest.fixture
def place(tmp_path):
    return make_run(tmp_path / "run")


def card_of(place):
    model_card.update(place, place.choose(), 1234)
    return place.card_path.read_text(encoding="utf-8")


def test_the_hub_reads_what_it_knows(place):
    assert model_cards.head(card_of(place)) == {
        "language": ["no", "zh"],
        "library_name": "keras_transformer",
        "pipeline_tag": "translation",
        "tags": ["translation", "keras", "keras_transformer"],
        "metrics": ["bleu", "chrf"],
    }


def test_a_reader_finds_data_training_and_scores(place):
    lines = card_of(place).splitlines()
    for line in (
        "| parameters | 1,234 |",
        "| search | beam 4, length penalty alpha 0.6 |",
        "| from | news.no news.zh |",
        "| pairs for train | 12,345 |",
        r"| corpus a\|b | 7 pairs from no to zh, 25.0% of an epoch |",
        "| weights | step 5 |",
        "| steps | 7 |",
        "| tokens, source and target | 1,234,567 |",
        "| time | 1 h 2 min |",
        "| began | 2026-11-28 |",
        "| ended | 2026-11-29, a CPU, 2 cores, 3 replicas |",
        "| step | 5, the best of the run |",
        "| sacreBLEU | 31.250 |",
        "| sentences for BLEU | 11 |",
        "Signature: `nrefs:1|tok:zh`.",
    ):
        assert line in lines, line


def test_what_an_earlier_release_did_not_save_is_left_out(place):
    place.write_config(dataclasses.replace(CONFIG, corpus=None))
    place.checkpoints().save(9, {"seconds": 5.0})
    place.checkpoints("best").save(5, {})
    lines = card_of(place).splitlines()
    assert "| steps | 9 |" in lines and "| time | 5 s |" in lines
    assert "None" not in "".join(lines)
    for title in ("## Data", "## Validation"):
        assert title not in lines


def test_a_published_model_gives_name_and_licence(place):
    origin = {"family": "marian", "name": "some/one@v1", "license": "cc-by-4.0"}
    place.write_config(dataclasses.replace(CONFIG, origin=origin, corpus=None))
    card = card_of(place)
    head = model_cards.head(card)
    assert head["license"] == "cc-by-4.0" and head["base_model"] == "some/one"
    assert "[some/one@v1](https://huggingface.co/some/one)." in card
    assert "Its licence: cc-by-4.0." in card
    assert "## Training" not in card


def test_a_model_tuned_from_a_published_one_has_its_own_licence(place):
    """Which is for its owner to choose."""
    start = {"model": "my", "family": "m2m_100"}
    place.write_config(dataclasses.replace(CONFIG, start=start))
    card = card_of(place)
    assert not {"license", "base_model"} & model_cards.head(card).keys()
    assert "Training began from the weights of `my`." in card
    assert "The published model: files of m2m_100." in card
    assert "Its licence is not recorded." in card


def test_a_card_is_written_again_until_somebody_changes_it(place):
    card = card_of(place)
    place.checkpoints().save(9, STATE)
    newer = card_of(place)
    assert "| steps | 7 |" in card and "| steps | 9 |" in newer
    place.checkpoints().save(11, STATE)
    for own in (
        newer.replace("# Translation", "# My translation"),
        f"{newer}\nMore.\n",
        newer[: newer.index("<!--")],
        newer.replace("\n", "\r\n"),
        "My notes.\n",
        "",
    ):
        place.card_path.write_bytes(own.encode())
        card_of(place)
        assert place.card_path.read_bytes() == own.encode()
    place.card_path.unlink()
    assert "| steps | 11 |" in card_of(place)


def as_a_folder(place, monkeypatch):
    place.card_path.mkdir()


def without_configuration(place, monkeypatch):
    place.config_path.unlink()


def on_a_full_disk(place, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keras_transformer.atomic_files.atomic_write", full)


def with_a_defect(place, monkeypatch):
    monkeypatch.setattr(model_card, "make_card", lambda *arguments: {}["absent"])


@pytest.mark.parametrize(
    "change", [as_a_folder, without_configuration, on_a_full_disk, with_a_defect]
)
def test_a_card_that_cannot_be_written_is_a_warning(place, monkeypatch, caplog, change):
    checkpoint = place.choose()
    change(place, monkeypatch)
    with caplog.at_level(logging.WARNING, logger="absl"):
        model_card.update(place, checkpoint, 7)
    (message,) = caplog.messages
    assert message.startswith(f"The model card {place.card_path} was not written: ")
    assert not place.card_path.is_file()


def test_a_damaged_checkpoint_costs_only_what_it_knew(place):
    (place.choose("latest").path / "state.json").write_text("{")
    card = card_of(place)
    assert "| steps | 7 |" in card and "| time |" not in card
    assert "| sacreBLEU | 31.250 |" in card and "None" not in card


@pytest.mark.parametrize(
    ("default", "flag"), [(None, "--target_language=de"), ("fr", None)]
)
def test_a_model_of_several_languages_is_told_one(tmp_path, default, flag):
    place = make_run(
        tmp_path / "run", symbols=[">>fr<<", ">>de<<"], default_language=default
    )
    card = card_of(place)
    codes = ["no", "zh", "fr", "de", "multilingual"]
    assert model_cards.head(card)["language"] == codes
    (translate, _, _) = model_cards.commands(card)
    assert (flag in translate) if flag else len(translate) == 4


def test_no_name_is_read_as_markdown_or_by_the_shell(tmp_path):
    corpora = [
        {"name": name, "languages": ["no", "zh"], "pairs": 7, "share": 0.5}
        for name in ("from", "<!-- `*x")
    ]
    corpus = {**CONFIG.corpus, "dataset": "a\n|\\.no", "corpora": corpora}
    place = make_run(tmp_path / "run", symbols=[">>$(x)<<", ">>zz<<"], corpus=corpus)
    card = card_of(place)
    assert r"| from | a \|\\.no |" in card
    assert "| corpus from | 7 pairs" in card
    assert r"| corpus \<!-- \`\*x | 7 pairs" in card
    assert "--target_language='$(x)' " in card


PARSER = {"task": "parsing", "source_language": "en", "target_language": "trees"}


def test_programs_have_the_flags_of_the_commands(repository, tmp_path):
    runs = [
        make_run(tmp_path / "languages", symbols=[">>fr<<", ">>de<<"]),
        make_run(tmp_path / "parser", **PARSER),
    ]
    used = {}
    for program, *given in sum(
        (model_cards.commands(card_of(run)) for run in runs), []
    ):
        names = {re.fullmatch(r"--(\w+)=.+", flag)[1] for flag in given}
        used.setdefault(program, set()).update(names)
    assert used.keys() == {
        *("bin/translate.py", "bin/parse.py"),
        *("export/serve.py", "export/export_saved_model.py"),
    }
    for program, names in used.items():
        known = subprocess.run(
            [sys.executable, program, "--helpxml"],
            cwd=repository,
            capture_output=True,
            text=True,
        ).stdout
        assert names <= set(re.findall(r"<name>(\w+)</name>", known)), program


def test_a_parser_says_what_it_writes(tmp_path):
    card = card_of(make_run(tmp_path / "run", **PARSER))
    assert "# Constituency parser (en)" in card.splitlines()
    head = model_cards.head(card)
    assert head["pipeline_tag"] == "token-classification"
    assert head["language"] == ["en"] and head["tags"][0] == "parsing"


def test_an_average_names_its_steps(place):
    place.checkpoints("averaged").save(7, {"averaged_steps": [3, 7]})
    assert "| weights | mean of steps 3, 7 |" in card_of(place).splitlines()


def test_a_converted_model_is_for_transformers(place):
    card = model_card.make_card(place, place.choose(), 7, is_converted=True)
    assert model_cards.head(card)["library_name"] == "transformers"
    assert "MarianMTModel.from_pretrained" in card and "kt-" not in card
