"""What a prepared folder says about itself."""

import dataclasses
import json

import pytest

from keras_transformer.data import metadata, read_metadata

SPLIT = metadata.SplitMetadata(
    pairs_read=7,
    pairs=5,
    dropped={"blank": 2},
    source_tokens=23,
    target_tokens=29,
    source_words=11,
    target_words=13,
)
EXAMPLE = metadata.DataMetadata(
    source_language="en",
    target_language="de",
    dataset="text files",
    tokenizer_kind="bpe",
    tokenizer_hash="f00d",
    vocab_size=31,
    pad_id=0,
    unk_id=1,
    bos_id=2,
    eos_id=3,
    max_length=17,
    max_length_ratio=None,
    drop_duplicates=True,
    seed=19,
    splits={"train": SPLIT, "valid": SPLIT},
    padding=(metadata.PaddingMetadata(4096, 0.25, 3, ((2, 5, 3), (1, 7, 11))),),
    corpora=(
        metadata.CorpusMetadata("news", 3, 0.25, prefix="<news>"),
        metadata.CorpusMetadata("back", 2, 0.75),
        metadata.CorpusMetadata("dev", 5, split="valid"),
    ),
)


def write(folder, values):
    (folder / "metadata.json").write_text(json.dumps(values), encoding="utf-8")


def test_metadata_comes_back_as_written(tmp_path):
    write(tmp_path, EXAMPLE.to_json())
    assert read_metadata(tmp_path) == EXAMPLE


def test_a_run_records_the_corpora_that_it_learns_from():
    brief = EXAMPLE.in_brief()
    assert brief["pairs"] == {"train": 5, "valid": 5}
    assert [part["name"] for part in brief["corpora"]] == ["news", "back"]
    assert json.loads(json.dumps(brief)) == brief


def test_shapes_of_one_length_are_read_as_of_two(tmp_path):
    values = json.loads(json.dumps(EXAMPLE.to_json()))
    values["padding"][0]["shapes"] = [[2, 5], [1, 7]]
    write(tmp_path, values)
    assert read_metadata(tmp_path).padding[0].shapes == ((2, 5, 5), (1, 7, 7))


def test_a_folder_of_an_earlier_release_has_no_corpora(tmp_path):
    values = EXAMPLE.to_json()
    del values["corpora"]
    write(tmp_path, values)
    assert read_metadata(tmp_path) == dataclasses.replace(EXAMPLE, corpora=())


def test_counts_of_corpora_add_up():
    both = SPLIT + dataclasses.replace(SPLIT, pairs=11, dropped={"blank": 3})
    assert (both.pairs_read, both.pairs, both.dropped) == (14, 16, {"blank": 5})


def test_tokens_per_word_does_not_count_eos():
    """(23 - 5 + 29 - 5) tokens without EOS for 11 + 13 words."""
    assert SPLIT.tokens_per_word == 42 / 24
    assert EXAMPLE.to_json()["splits"]["train"]["tokens_per_word"] == 1.75


def test_metadata_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EXAMPLE.vocab_size = 5


def test_absent_metadata_names_the_program_that_makes_it(tmp_path):
    message = (
        f"No metadata.json in {tmp_path}. Prepare it first with bin/prepare_data.py "
        f"--data_dir={tmp_path}."
    )
    with pytest.raises(FileNotFoundError, match=message):
        read_metadata(tmp_path)


def test_other_format_version_says_what_to_do(tmp_path):
    write(tmp_path, {**EXAMPLE.to_json(), "format_version": 99})
    message = (
        "has format version 99; this program reads version 1. Use the release that "
        "wrote it, or prepare it again with bin/prepare_data.py"
    )
    with pytest.raises(ValueError, match=message):
        read_metadata(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format_version": 1}'])
def test_damaged_metadata_says_what_to_do(tmp_path, text):
    (tmp_path / "metadata.json").write_text(text)
    with pytest.raises(
        ValueError, match=r"is damaged .*, or prepare it again .*--overwri"
    ):
        read_metadata(tmp_path)
