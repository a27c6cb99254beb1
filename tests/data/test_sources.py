"""Where pairs come from: text files, TensorFlow Datasets."""

import gzip
import re

import pytest
import tensorflow_datasets as tfds

from keras_transformer.data import TextFiles, open_dataset
from keras_transformer.data.sources import TfdsSource
from tests.data.word_tokenizer import write_lines


def text_files(folder, sources=("a b", "c"), targets=("d", "e f"), suffix=""):
    """A source whose train and valid split are the same two files."""
    pair = [
        write_lines(folder / f"text.{side}{suffix}", *lines)
        for side, lines in (("en", sources), ("de", targets))
    ]
    return TextFiles({"train": pair, "valid": pair}, "en", "de")


def test_lines_of_text_files_pair_up(tmp_path):
    source = text_files(tmp_path)
    assert source.splits == ("train", "valid")
    assert list(source.pairs("train")) == [(b"a b", b"d"), (b"c", b"e f")]
    assert source.locate("train", "target", 1) == f"{tmp_path / 'text.de'} line 2"


def test_source_can_be_read_again(tmp_path):
    source = text_files(tmp_path)
    assert list(source.pairs("valid")) == list(source.pairs("valid"))


def test_gzip_files_are_read_by_their_name(tmp_path):
    plain = text_files(tmp_path)
    for side in ("en", "de"):
        packed = gzip.compress((tmp_path / f"text.{side}").read_bytes())
        (tmp_path / f"text.{side}.gz").write_bytes(packed)
    pair = [tmp_path / "text.en.gz", tmp_path / "text.de.gz"]
    zipped = TextFiles({"train": pair, "valid": pair}, "en", "de")
    assert list(zipped.pairs("train")) == list(plain.pairs("train"))


def test_windows_line_ends_and_byte_order_mark_are_no_text(tmp_path):
    for side, text in (("en", b"\xef\xbb\xbfa b\r\nc"), ("de", b"d\r\ne f")):
        (tmp_path / side).write_bytes(text)
    pair = [tmp_path / "en", tmp_path / "de"]
    source = TextFiles({"train": pair, "valid": pair}, "en", "de")
    assert list(source.pairs("train")) == [(b"a b", b"d"), (b"c", b"e f")]


def test_unusual_separators_inside_a_line_do_not_split_it(tmp_path):
    """U+2028 and form feed end a line for Python's `splitlines`, not for a corpus."""
    source = text_files(tmp_path, ["a\u2028b\x0cc"], ["d"])
    assert list(source.pairs("train")) == [("a\u2028b\x0cc".encode(), b"d")]


@pytest.mark.parametrize(("num_source", "num_target"), [(2, 5), (5, 2)])
def test_files_of_different_length_are_refused_with_both_counts(
    tmp_path, num_source, num_target
):
    source = text_files(tmp_path, "a" * num_source, "b" * num_target)
    message = (
        f"{tmp_path / 'text.en'} has {num_source} lines and {tmp_path / 'text.de'} "
        f"has {num_target}; line n of one must translate line n of the other"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        list(source.pairs("train"))


def test_empty_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"text\.de is empty; it needs one sentence a"):
        list(text_files(tmp_path, targets=()).pairs("train"))


def test_absent_file_is_refused_with_its_flag(tmp_path):
    present = write_lines(tmp_path / "train.en", "a")
    paths = {"train": (present, tmp_path / "train.de"), "valid": (present, present)}
    message = f"No file {tmp_path / 'train.de'}. Check train_target."
    with pytest.raises(FileNotFoundError, match=re.escape(message)):
        TextFiles(paths, "en", "de")


@pytest.mark.parametrize("cut", [b"no gzip at all\n", None])
def test_damaged_gzip_file_is_refused(tmp_path, cut):
    content = cut or gzip.compress(b"a b c d\n" * 1000)[:-20]
    (tmp_path / "text.gz").write_bytes(content)
    pair = (tmp_path / "text.gz", tmp_path / "text.gz")
    source = TextFiles({"train": pair, "valid": pair}, "en", "de")
    message = r"text\.gz is not a complete gzip file: .* again"
    with pytest.raises(ValueError, match=message):
        list(source.pairs("train"))


class TinyTranslations(tfds.core.GeneratorBasedBuilder):
    """A set of TensorFlow Datasets as small as can be, German first."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.Translation(languages=("de", "en"))
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, download_manager):
        return {
            "train": self._generate_examples(7),
            "validation": self._generate_examples(3),
            "test": self._generate_examples(2),
        }

    def _generate_examples(self, count):
        for number in range(count):
            yield number, {"de": f"Zahl\n{number}", "en": f"number {number}"}


def test_tfds_set_is_prepared_and_read_with_the_source_of_choice(tmp_path):
    source = open_dataset("tfds:tiny_translations", "en", "de", tmp_path)
    assert source.splits == ("train", "valid", "test")
    pairs = [(f"number {n}".encode(), f"Zahl {n}".encode()) for n in range(7)]
    assert sorted(source.pairs("train")) == pairs
    assert len(list(source.pairs("valid"))) == 3
    assert len(list(source.pairs("test"))) == 2
    other_way = open_dataset("tfds:tiny_translations", "de", "en", tmp_path)
    assert sorted(pair[::-1] for pair in other_way.pairs("train")) == pairs


def test_tfds_set_is_read_in_the_same_order_each_time(tmp_path):
    source = open_dataset("tfds:tiny_translations", "en", "de", tmp_path)
    assert list(source.pairs("train")) == list(source.pairs("train"))


def test_place_in_tfds_set_has_a_name(tmp_path):
    source = open_dataset("tfds:tiny_translations", "en", "de", tmp_path)
    assert source.locate("valid", "target", 1) == (
        "tfds:tiny_translations split 'validation' example 2 (de)"
    )


def test_wmt14_is_read_english_first_though_filed_as_german_english(tmp_path):
    """TFDS's own test double of the paper's set (§5.1)."""

    def examples(builder, *args, **kwargs):
        import tensorflow as tf

        sides = {"de": ["ein Hund", "zwei"], "en": ["a dog", "two"]}
        return tf.data.Dataset.from_tensor_slices(sides)

    with tfds.testing.mock_data(as_dataset_fn=examples):
        source = open_dataset("tfds:wmt14_translate/de-en", "en", "de", tmp_path)
        assert list(source.pairs("valid")) == [
            (b"a dog", b"ein Hund"),
            (b"two", b"zwei"),
        ]


def test_mocked_wmt14_examples_pass_through(tmp_path):
    with tfds.testing.mock_data(num_examples=5):
        source = open_dataset("tfds:wmt14_translate/fr-en", "en", "fr", tmp_path)
        pairs = list(source.pairs("train"))
        assert source.splits == ("train", "valid", "test")
    assert len(pairs) == 5
    assert all(source and target for source, target in pairs)


def test_tfds_set_without_the_language_is_refused(tmp_path):
    message = (
        "`target_language` must be a language of tfds:tiny_translations, which has de, "
        "en. Received: target_language='fr'."
    )
    with pytest.raises(ValueError, match=message):
        open_dataset("tfds:tiny_translations", "en", "fr", tmp_path)


def test_tfds_set_that_is_no_translation_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`source_language` must be a language of tfd"):
        open_dataset("tfds:mnist", "en", "de", tmp_path)


def test_unknown_tfds_set_is_refused_with_the_nearest(tmp_path):
    message = "has no set 'wmt14_translte', nor has .* Did you mean 'tfds:wmt14"
    with pytest.raises(ValueError, match=message):
        open_dataset("tfds:wmt14_translte/de-en", "en", "de", tmp_path)


def test_unknown_configuration_of_tfds_set_is_refused_with_those_it_has(tmp_path):
    message = "'wmt14_translate' .* has no configuration 'de-xx'; it has cs-en, de-en, "
    with pytest.raises(ValueError, match=message):
        open_dataset("tfds:wmt14_translate/de-xx", "en", "de", tmp_path)


@pytest.mark.parametrize("name", ["phrasebok", "tfds:", "wmt14_translate/de-en"])
def test_unknown_dataset_is_refused(name):
    message = "`dataset` must be 'tfds:NAME/CONFIG'.* Received: "
    with pytest.raises(ValueError, match=message):
        open_dataset(name, "en", "de")


def test_failed_download_says_what_to_do(tmp_path, monkeypatch):
    def fail(self):
        raise RuntimeError("no route\nto host")

    monkeypatch.setattr(TinyTranslations, "download_and_prepare", fail)
    builder = TinyTranslations(data_dir=tmp_path)
    message = (
        r"tiny could not be downloaded and prepared \(RuntimeError: no route to ho"
    )
    with pytest.raises(OSError, match=message):
        TfdsSource(builder, "en", "de", "tiny")
