"""examples/write_phrasebook.py: the pairs of `build`, as text files."""

import pytest

from examples import phrasebook

SIZES = {"train": 211, "validation": 13, "test": 13}
FILES = {"train": "train", "validation": "valid", "test": "test"}


def test_files_have_the_pairs_line_by_line(program_of, tmp_path):
    write = program_of("examples/write_phrasebook.py")
    folder = tmp_path / "new" / "text"
    written = write(output_dir=folder, train_pairs=211, held_out_pairs=13, seed=5)
    assert written == {"train": 211, "valid": 13, "test": 13}
    assert len([*folder.iterdir()]) == 6
    for split, examples in phrasebook.build(SIZES, seed=5).items():
        sides = [
            (folder / f"{FILES[split]}.{language}").read_text("utf-8").split("\n")[:-1]
            for language in ("en", "de")
        ]
        pairs = [example.pair for example in examples]
        assert [*zip(*sides, strict=True)] == pairs


def test_what_cannot_be_written_is_refused(program_of, tmp_path):
    write = program_of("examples/write_phrasebook.py")
    with pytest.raises(ValueError, match="--output_dir is needed"):
        write()
    message = "The pairs of validation must be at most 0: .* more pairs of train help"
    with pytest.raises(ValueError, match=message):
        write(output_dir=tmp_path / "text", train_pairs=1)
    assert not (tmp_path / "text").exists()
