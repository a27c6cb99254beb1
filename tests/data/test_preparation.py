"""From pairs of sentences to a prepared folder."""

import dataclasses
import errno
import json
import re
import time
import tracemalloc

import numpy as np
import pytest

from keras_transformer import config, tokenization
from keras_transformer.data import (
    EncodedCorpus,
    TextFiles,
    corpora,
    part_reader,
    prepare,
    prepare_corpora,
    read_metadata,
    report,
)
from keras_transformer.documents.protection import Glossary, Term
from tests.data.word_tokenizer import WordTokenizer, write_lines
from tests.preparation_options import with_values

TRAIN = [("a b", "x y z"), ("c", "y"), ("b c a", "z")]
VALID = [("a c", "x"), ("b", "y z")]


def text_files(folder, **splits):
    """A source over files that hold these pairs; lines are str or bytes."""
    paths = {}
    for split, pairs in {"train": TRAIN, "valid": VALID, **splits}.items():
        paths[split] = []
        for side, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            path = folder / f"{split}.{side}"
            encoded = [x if isinstance(x, bytes) else x.encode() for x in lines]
            path.write_bytes(b"".join(line + b"\n" for line in encoded))
            paths[split].append(path)
    return TextFiles(paths, "en", "de")


def prepared(folder, data_dir="data", tokenizer=WordTokenizer, options=None, **splits):
    options = with_values(**options or {})
    source = text_files(folder, **splits)
    return prepare(source, folder / data_dir, tokenizer, options)


def decoded(data_dir, split="train"):
    """The encoded pairs as text."""
    corpus = EncodedCorpus.open(data_dir, split)
    words = json.loads((data_dir / "tokenizer" / "words.json").read_text())
    return [
        tuple(" ".join(words[id - 4] for id in side[:-1]) for side in corpus[index])
        for index in range(len(corpus))
    ]


def test_folder_holds_what_later_programs_read(tmp_path):
    prepared(tmp_path, test=VALID)
    found = {path.name for path in (tmp_path / "data").iterdir()}
    assert found == {
        "metadata.json",
        "tokenizer",
        "train",
        "valid",
        "test",
        "valid.source",
        "valid.target",
        "test.source",
        "test.target",
    }
    assert (tmp_path / "data" / "valid.source").read_bytes() == b"a c\nb\n"
    assert (tmp_path / "data" / "test.target").read_bytes() == b"x\ny z\n"


def test_encoded_pairs_are_the_text(tmp_path):
    prepared(tmp_path)
    assert decoded(tmp_path / "data") == TRAIN
    assert decoded(tmp_path / "data", "valid") == VALID


def test_metadata_describes_the_corpus(tmp_path):
    """Six words of source and five of target, and one EOS a sentence."""
    returned = prepared(tmp_path, options={"max_length": 7, "seed": 5})
    assert returned == read_metadata(tmp_path / "data")
    assert (returned.source_language, returned.target_language) == ("en", "de")
    assert (returned.tokenizer_kind, returned.tokenizer_hash) == ("words", "f00d")
    assert returned.vocab_size == 4 + 6
    assert (returned.pad_id, returned.eos_id) == (0, 3)
    train = returned.splits["train"]
    assert (train.pairs_read, train.pairs) == (3, 3)
    assert (train.source_tokens, train.target_tokens) == (6 + 3, 5 + 3)
    assert (train.source_words, train.target_words) == (6, 5)
    assert set(returned.splits) == {"train", "valid"}


def test_padding_is_told_for_two_batch_sizes(tmp_path):
    """Sources of 4, 2 and 3 tokens, targets of 2, 2 and 4, in one batch of 3 rows."""
    small, paper = prepared(tmp_path).padding
    assert (small.tokens_per_batch, paper.tokens_per_batch) == (4_096, 25_000)
    assert small.shapes == ((3, 4, 4),)
    assert small.padding_rate == round(1 - (9 + 8) / (3 * (4 + 4)), 4)
    assert small.batches_per_epoch == 1


def test_tokenizer_sees_both_sides_of_training_pairs_only(tmp_path):
    seen = []
    prepared(tmp_path, tokenizer=lambda texts: seen.append(0) or WordTokenizer(texts))
    tokenizer = WordTokenizer(["a"])
    prepared(
        tmp_path,
        data_dir="other",
        tokenizer=lambda texts: seen.extend(texts) or tokenizer,
    )
    assert seen[1:] == [text for pair in TRAIN for text in pair]


def test_tokenizer_sees_a_drawn_sample_of_whole_pairs(tmp_path):
    pairs = [(f"s{n}", f"t{n}") for n in range(101)]
    samples = []
    for seed in (0, 0, 1):
        prepared(
            tmp_path,
            tokenizer=lambda texts: samples.append(list(texts)) or WordTokenizer("a"),
            options={"sample_pairs": 11, "seed": seed, "overwrite": True},
            train=pairs,
        )
    assert [len(sample) for sample in samples] == [22, 22, 22]
    assert samples[0] == samples[1] != samples[2]
    for source, target in zip(samples[0][::2], samples[0][1::2], strict=True):
        assert source[1:] == target[1:]


def test_blank_training_pairs_are_dropped_and_counted(tmp_path):
    train = [*TRAIN, ("", "y"), ("a", " \t"), ("\u3000", "\u3000")]
    split = prepared(tmp_path, train=train).splits["train"]
    assert (split.pairs_read, split.pairs, split.dropped["blank"]) == (6, 3, 3)
    assert decoded(tmp_path / "data") == TRAIN


def test_max_length_counts_eos(tmp_path):
    """Sides of 3, 4 and 5 tokens: with a maximum of 4, the last is too long."""
    train = [("a b", "a"), ("a b c", "a"), ("a", "a b c d")]
    split = prepared(tmp_path, train=train, options={"max_length": 4}).splits["train"]
    assert (split.pairs, split.dropped["too_long"]) == (2, 1)
    assert decoded(tmp_path / "data") == train[:2]


def test_line_of_100_000_characters_is_dropped_before_it_is_tokenized(tmp_path):
    class NoLongText(WordTokenizer):
        def encode(self, texts):
            assert max(map(len, texts)) < 100_000
            return super().encode(texts)

    began = time.process_time()
    train = [*TRAIN, ("a " * 50_000, "x"), ("a", "x" * 100_000)]
    split = prepared(tmp_path, tokenizer=NoLongText, train=train).splits["train"]
    assert time.process_time() - began < 5
    assert (split.pairs, split.dropped["too_long"]) == (3, 2)


def test_length_ratio_compares_tokens_with_eos(tmp_path):
    """2 and 4 tokens: a ratio of 2, kept at 2 and dropped at 1.9; either way round."""
    train = [("a", "x"), ("a", "x y z"), ("a b c", "x")]
    kept = prepared(tmp_path, train=train, options={"max_length_ratio": 2})
    assert kept.splits["train"].pairs == 3
    options = {"max_length_ratio": 1.9, "overwrite": True}
    split = prepared(tmp_path, train=train, options=options).splits["train"]
    assert (split.pairs, split.dropped["length_ratio"]) == (1, 2)
    options = {"max_length_ratio": None, "overwrite": True}
    assert prepared(tmp_path, train=train, options=options).splits["train"].pairs == 3


def test_duplicates_are_dropped_where_asked_and_only_whole_pairs(tmp_path):
    train = [("a", "x"), ("a", "y"), ("a", "x"), ("x", "a"), ("a", "x")]
    assert prepared(tmp_path, train=train).splits["train"].pairs == 5
    options = {"drop_duplicates": True, "overwrite": True}
    split = prepared(tmp_path, train=train, options=options).splits["train"]
    assert (split.pairs, split.dropped["duplicate"]) == (3, 2)
    assert decoded(tmp_path / "data") == [("a", "x"), ("a", "y"), ("x", "a")]


def test_pairs_that_read_the_same_when_joined_are_different(tmp_path):
    train = [("a", "bb"), ("ab", "b"), ("a b", "c"), ("a", "b c")]
    options = {"drop_duplicates": True}
    split = prepared(tmp_path, train=train, options=options).splits["train"]
    assert (split.pairs, split.dropped["duplicate"]) == (4, 0)


def test_repeats_are_all_but_the_first_of_equal_keys():
    draw = np.random.default_rng(3)
    keys = draw.choice(draw.integers(2**63, size=53, dtype=np.uint64), size=211)
    _, first = np.unique(keys, return_index=True)
    expected = np.isin(np.arange(211), first, invert=True)
    np.testing.assert_array_equal(part_reader._repeats(keys), expected)
    assert not len(part_reader._repeats(keys[:0]))


def test_looking_for_duplicates_takes_few_bytes_a_pair(tmp_path):
    """A key of 8 bytes and 3 of sorting; a set of integers would take over 70."""
    source = text_files(tmp_path, train=[(f"a {n}", "x") for n in range(30_011)])
    filters = config.PairFilters(8, None, drop_duplicates=True)
    peaks = []
    for drops in (False, True):
        chosen = dataclasses.replace(filters, drop_duplicates=drops)
        part = part_reader.Part(source, "train", chosen)
        tracemalloc.start()
        part_reader.scan(part)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 20 * 30_011


def test_held_out_text_keeps_every_line_and_the_loss_leaves_out_bad_ones(tmp_path):
    valid = [("a", "x"), ("", "y"), ("a b c d", "x"), ("b", "y"), ("b", "y")]
    options = {"max_length": 4, "drop_duplicates": True, "max_length_ratio": 1.0}
    train = [("a", "x"), ("b", "y")]
    split = prepared(tmp_path, train=train, valid=valid, options=options).splits[
        "valid"
    ]
    assert (split.pairs_read, split.pairs) == (5, 3)
    assert (split.dropped["blank"], split.dropped["too_long"]) == (1, 1)
    assert decoded(tmp_path / "data", "valid") == [("a", "x"), ("b", "y"), ("b", "y")]
    sides = [
        (tmp_path / "data" / name).read_text().split("\n")[:-1]
        for name in ("valid.source", "valid.target")
    ]
    assert list(zip(*sides, strict=True)) == valid


def test_pairs_of_several_chunks_keep_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(part_reader, "_CHUNK", 5)
    train = [(f"s{n}", f"t{n}") if n % 7 else ("", "") for n in range(53)]
    train[11] = ("a b c d e f", "t")
    prepared(tmp_path, train=train, options={"max_length": 6})
    kept = [pair for n, pair in enumerate(train) if n % 7 and n != 11]
    assert decoded(tmp_path / "data") == kept


INVALID = [("a", "x"), ("b", b"y \xff\xfe z"), ("c", "z")]


def test_invalid_utf8_is_refused_with_file_and_line(tmp_path):
    message = (
        f"{tmp_path / 'train.de'} line 2 is not valid UTF-8: invalid start byte at "
        "byte 3. Convert it to UTF-8, or drop such pairs with drop_invalid_utf8."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        prepared(tmp_path, train=INVALID)
    assert not (tmp_path / "data").exists()


def test_invalid_utf8_is_dropped_from_training_where_asked(tmp_path):
    options = {"drop_invalid_utf8": True}
    result = prepared(tmp_path, train=INVALID, valid=INVALID, options=options)
    train, valid = result.splits["train"], result.splits["valid"]
    assert (train.pairs, train.dropped["invalid_utf8"]) == (2, 1)
    assert valid.pairs == 3
    text = (tmp_path / "data" / "valid.target").read_text(encoding="utf-8")
    assert text == "x\ny \ufffd\ufffd z\nz\n"


def test_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    message = (
        "No pair of the train split is left. Of 3 pairs read, dropped: 1 blank, 2 too "
        "long. Give more text, or raise max_length"
    )
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, train=[("", ""), ("a b", "a"), ("a", "a b")], options=TWO)
    assert not (tmp_path / "data").exists()


TWO = {"max_length": 2}


def test_test_split_may_be_unusable_for_the_loss(tmp_path):
    result = prepared(tmp_path, test=[("a", ""), ("", "x")])
    assert result.splits["test"].pairs == 0
    assert len(EncodedCorpus.open(tmp_path / "data", "test")) == 0
    assert (tmp_path / "data" / "test.source").read_text() == "a\n\n"


def test_failed_tokenizer_leaves_nothing_behind(tmp_path):
    def fail(texts):
        raise ValueError("`vocab_size` must be at most 7")

    with pytest.raises(ValueError, match="must be at most 7"):
        prepared(tmp_path, tokenizer=fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "train.de",
        "train.en",
        "valid.de",
        "valid.en",
    ]


def test_full_disk_names_the_folder_and_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(self, sentences):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("keras_transformer.data.corpus._FlatWriter.append", full)
    message = f"No space left on device: '{tmp_path / 'data'}'"
    with pytest.raises(OSError, match=re.escape(message)):
        prepared(tmp_path)
    assert not list(tmp_path.glob("*data*"))


def test_folder_that_cannot_be_made_is_named(tmp_path):
    write_lines(tmp_path / "file", "")
    with pytest.raises(OSError, match=r"File exists: .*file"):
        prepared(tmp_path, data_dir="file/data")


def test_prepared_corpus_is_not_replaced_unasked(tmp_path):
    prepared(tmp_path)
    message = (
        f"`data_dir` {tmp_path / 'data'} already holds a prepared corpus. Name another "
        "folder, or replace it with overwrite."
    )
    with pytest.raises(FileExistsError, match=re.escape(message)):
        prepared(tmp_path, train=TRAIN[:2])
    assert decoded(tmp_path / "data") == TRAIN


def test_prepared_corpus_is_replaced_whole_where_asked(tmp_path):
    prepared(tmp_path, test=VALID)
    prepared(tmp_path, train=TRAIN[:2], options={"overwrite": True})
    assert decoded(tmp_path / "data") == TRAIN[:2]
    assert not (tmp_path / "data" / "test.source").exists()


def test_failed_replacement_keeps_the_old_corpus(tmp_path):
    prepared(tmp_path)
    with pytest.raises(ValueError, match="is not valid UTF-8"):
        prepared(tmp_path, train=INVALID, options={"overwrite": True})
    assert len(EncodedCorpus.open(tmp_path / "data", "train")) == 3


def test_folder_of_other_files_is_never_replaced(tmp_path):
    (tmp_path / "data").mkdir()
    write_lines(tmp_path / "data" / "thesis.txt", "years of work")
    with pytest.raises(
        FileExistsError, match="files that are not a prepared corpus. They"
    ):
        prepared(tmp_path, options={"overwrite": True})
    assert (tmp_path / "data" / "thesis.txt").exists()


def test_file_in_the_place_of_the_folder_is_refused(tmp_path):
    write_lines(tmp_path / "data", "")
    with pytest.raises(FileExistsError, match="data is a file; name a folder"):
        prepared(tmp_path)


def test_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "data").mkdir()
    prepared(tmp_path)
    assert decoded(tmp_path / "data") == TRAIN


def test_unknown_split_is_refused_with_those_there_are(tmp_path):
    prepared(tmp_path)
    message = r"`split` must be one of train, valid: .* Received: split='test'"
    with pytest.raises(ValueError, match=message):
        EncodedCorpus.open(tmp_path / "data", "test")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 1}, "`max_length` must be at least 2"),
        ({"max_length_ratio": 0.5}, "`max_length_ratio` must be at least 1, or None"),
        ({"subword_encodings": 0}, "`subword_encodings` must be at least 1"),
        ({"subword_dropout": 1.0}, r"`subword_dropout` must be in \[0, 1\)"),
        ({"placeholders": -1}, "`placeholders` must be at least 0"),
        ({"placeholder_rate": 2.0}, r"`placeholder_rate` must be in \[0, 1\)"),
        ({"sample_pairs": 0}, "`sample_pairs` must be at least 1"),
        ({"seed": -1}, "`seed` must be at least 0"),
    ],
)
def test_numbers_out_of_range_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, options=options)


def test_report_names_counts_reasons_and_shapes(tmp_path):
    lines = report(prepared(tmp_path, train=[*TRAIN, ("", "y")])).splitlines()
    assert lines[0] == "en to de, vocabulary of 10 (words)"
    assert lines[1] == (
        "train: 4 pairs read, 3 encoded, dropped: 1 blank; 9 + 8 tokens, 1.00 a word"
    )
    assert lines[2].startswith(
        "valid: 2 pairs read, 2 encoded, left out of the loss: n"
    )
    assert lines[3] == (
        "dropped.txt shows up to 10 of the pairs left out for each reason"
    )
    assert lines[4] == (
        "4,096 tokens a batch: 1 batch an epoch, 29.2% padding, shapes 3x(4+4)"
    )


def test_dropped_pairs_are_shown_with_their_places(tmp_path):
    """Ten of each reason at most, found early or late; long texts are cut."""
    train = [*TRAIN, *[(f"a {n}", "") for n in range(13)], ("a b c d e", "x\t" * 300)]
    prepared(tmp_path, train=train, options={"max_length": 5})
    lines = (tmp_path / "data" / "dropped.txt").read_text().splitlines()
    assert lines[:2] == [
        f"blank\t{tmp_path / 'train.en'} line 4\ta 0\t",
        f"blank\t{tmp_path / 'train.en'} line 5\ta 1\t",
    ]
    assert len(lines) == 11
    assert lines[-1] == (
        f"too_long\t{tmp_path / 'train.en'} line 17\ta b c d e\t" + "x " * 100
    )


def test_nothing_is_shown_where_nothing_was_dropped(tmp_path):
    result = prepared(tmp_path)
    assert not (tmp_path / "data" / "dropped.txt").exists()
    assert "dropped.txt" not in report(result)


def test_source_without_validation_is_refused(tmp_path):
    path = write_lines(tmp_path / "text", "a")
    source = TextFiles({"train": (path, path)}, "en", "de")
    message = "Both a train and a valid split are needed; .*text has train. Cut one"
    with pytest.raises(ValueError, match=message):
        prepare(source, tmp_path / "data", WordTokenizer)


def test_training_pairs_may_have_several_random_encodings(tmp_path):
    """Of 3 pairs each, equal for a seed, not longer than allowed; others have one."""
    train = [("the dog runs", "der Hund rennt"), ("the cat", "die Katze")] * 7
    sampling = {"subword_encodings": 3, "subword_dropout": 0.5, "max_length": 12}

    def bpe(texts):
        return tokenization.train_bpe(texts, 290)

    found = {}
    for name, options in (
        ("one", {"seed": 1}),
        ("same", {"seed": 1}),
        ("other", {"seed": 2}),
    ):
        result = prepared(
            tmp_path, name, bpe, {**sampling, **options}, train=train, valid=train
        )
        corpus = EncodedCorpus.open(tmp_path / name, "train")
        found[name] = [[side.tolist() for side in pair] for pair in corpus]
        assert (result.splits["train"].pairs, result.splits["valid"].pairs) == (42, 14)
        assert corpus.lengths.max() <= 12
    assert found["one"] == found["same"] != found["other"]
    tokenizer = tokenization.load(tmp_path / "one" / "tokenizer")
    for number, texts in enumerate(zip(*train, strict=True)):
        rows = [pair[number][:-1] for pair in found["one"]]
        assert tokenizer.decode(rows) == list(texts) * 3
        assert len(set(map(tuple, rows))) > 4
    assert (
        "train: 14 pairs read, 42 encoded (3 encodings of each pair, dropout 0.5)"
        in (report(result))
    )
    assert result.splits["train"].tokens_per_word > 1


def test_placeholders_stand_for_the_terms_of_a_glossary(tmp_path):
    """In training pairs only."""
    symbols = config.PairEncoding(placeholders=4).symbols
    prepared(
        tmp_path,
        "data",
        lambda texts: tokenization.train_bpe(texts, 276, symbols=symbols),
        {
            "placeholders": 4,
            "placeholder_rate": 0.999999,
            "glossary": Glossary([Term("cat", "Katze")]),
        },
        train=[("a cat", "eine Katze")] * 9,
        valid=[("a cat", "eine Katze")],
    )
    tokenizer = tokenization.load(tmp_path / "data" / "tokenizer")
    for split, source in (("train", r"a <pc1><ph\d></pc1>"), ("valid", "a cat")):
        pair = EncodedCorpus.open(tmp_path / "data", split)[0]
        assert re.fullmatch(source, tokenizer.decode([pair[0][:-1]])[0])


def test_placeholders_leave_what_is_put_before_sources(tmp_path):
    """Before, the term within ">>de<<" and the name within "<News>" were replaced."""
    prefix = ">>de<< <News>"
    symbols = (*prefix.split(), *config.PairEncoding(placeholders=4).symbols)
    prepared(
        tmp_path,
        "data",
        lambda texts: tokenization.train_bpe(texts, 290, symbols=symbols),
        {
            "placeholders": 4,
            "placeholder_rate": 0.999999,
            "prefix": prefix,
            "glossary": Glossary([Term("de", "cat"), Term("News", "cat")]),
        },
        train=[("a 5", "News cat 5")] * 9,
        valid=[("a cat", "eine Katze")],
    )
    tokenizer = tokenization.load(tmp_path / "data" / "tokenizer")
    source, _ = EncodedCorpus.open(tmp_path / "data", "train")[0]
    (text,) = tokenizer.decode([source[:-1]])
    assert re.fullmatch(r">>de<< <News> a <pc1><ph\d></pc1>", text)


@pytest.mark.parametrize("num_encodings", [1, 3])
def test_training_pairs_may_have_placeholders(tmp_path, num_encodings):
    """The same in both texts, equal for a seed; held-out text has none."""
    train = [("Anna has 2 dogs .", "Anna hat 2 Hunde ."), ("a cat", "eine Katze")] * 9
    symbols = config.PairEncoding(placeholders=4).symbols
    options = {
        "placeholders": 4,
        "placeholder_rate": 0.5,
        "subword_encodings": num_encodings,
    }

    def bpe(texts):
        return tokenization.train_bpe(texts, 300, symbols=symbols)

    found = {}
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        result = prepared(
            tmp_path, name, bpe, {**options, "seed": seed}, train=train, valid=train
        )
        tokenizer = tokenization.load(tmp_path / name / "tokenizer")
        corpus = EncodedCorpus.open(tmp_path / name, "train")
        sides = zip(*([side[:-1] for side in pair] for pair in corpus), strict=True)
        found[name] = [*zip(*map(tokenizer.decode, sides), strict=True)]
    assert found["one"] == found["same"] != found["other"]
    assert len(found["one"]) == 18 * num_encodings
    for source, target in found["one"]:
        marks = [sorted(re.findall("<[^>]*>", text)) for text in (source, target)]
        assert marks[0] == marks[1]
    masked = [pair for pair in found["one"] if "<" in pair[0]]
    assert 0.6 < len(masked) / (9 * num_encodings) <= 1
    assert ("a cat", "eine Katze") in found["one"]
    assert "encodings" in report(result) or num_encodings == 1
    assert "50% of common spans are placeholders" in report(result)
    held_out = EncodedCorpus.open(tmp_path / "one", "valid")
    assert tokenizer.decode([held_out[0][0][:-1]]) == ["Anna has 2 dogs ."]


def test_an_encoding_that_is_too_long_is_usual_on_both_sides(tmp_path):
    """Or a placeholder would be in one text only."""
    train = [("Aa 12 b", "12 Aa")] * 20
    symbols = config.PairEncoding(placeholders=4).symbols
    prepared(
        tmp_path,
        "data",
        lambda texts: tokenization.train_bpe(texts, 276, symbols=symbols),
        {"placeholders": 4, "placeholder_rate": 0.5, "max_length": 7},
        train=train,
        valid=train,
    )
    tokenizer = tokenization.load(tmp_path / "data" / "tokenizer")
    for pair in EncodedCorpus.open(tmp_path / "data", "train"):
        source, target = tokenizer.decode([side[:-1] for side in pair])
        assert source.count("<") == target.count("<")


def test_a_vocabulary_without_the_placeholders_is_refused(tmp_path):
    def bpe(texts):
        return tokenization.train_bpe(texts, 272, symbols=["<ph1>"])

    message = "`placeholders` needs the piece <ph2>, which the vocabulary lacks. Rec"
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, options={"placeholders": 2}, tokenizer=bpe)


def test_corpora_with_several_encodings_keep_their_shares(tmp_path):
    given = write_mixture(tmp_path)
    result = prepare_corpora(
        given,
        tmp_path / "data",
        lambda texts: tokenization.train_bpe(texts, 274, symbols=["<news>"]),
        with_values(subword_encodings=2),
    )
    shares = [(each.pairs, each.share) for each in result.corpora_of("train")]
    assert shares == [(6, 0.25), (2, 0.75)]


MIXTURE = """
corpora:
  - {name: news, source: train.en, target: train.de, weight: 1, tag: <news>}
  - {name: back, source: other.en, target: other.de, weight: 3, max_length: 4}
  - {name: dev, split: valid, source: valid.en, target: valid.de, tag: <news>}
  - {name: devb, split: valid, source: other.en, target: valid.de}
"""


def write_mixture(folder, text=MIXTURE):
    text_files(folder)
    write_lines(folder / "other.en", "c", "a b c d")
    write_lines(folder / "other.de", "x", "y")
    (folder / "corpora.yaml").write_text(text)
    return corpora.read(folder / "corpora.yaml")


def test_corpora_follow_each_other_with_their_tags(tmp_path):
    given = write_mixture(tmp_path)
    result = prepare_corpora(given, tmp_path / "data", tags_known)
    assert decoded(tmp_path / "data") == [
        ("<news> a b", "x y z"),
        ("<news> c", "y"),
        ("<news> b c a", "z"),
        ("c", "x"),
    ]
    raw = (tmp_path / "data" / "valid.source").read_text()
    assert raw == "<news> a c\n<news> b\nc\na b c d\n"
    news, back, *dev = result.corpora
    assert (news.name, news.pairs, news.share, news.prefix) == (
        "news",
        3,
        0.25,
        "<news>",
    )
    assert (back.pairs_read, back.pairs, back.share) == (2, 1, 0.75)
    assert back.dropped["too_long"] == 1
    assert [(each.split, each.share) for each in dev] == [("valid", None)] * 2
    assert result.splits["train"].pairs == 4
    assert result.splits["train"].dropped["too_long"] == 1
    assert read_metadata(tmp_path / "data") == result
    lines = report(result).splitlines()
    assert lines[2] == (
        "  news: 25.0% of an epoch, en to de, sources begin with <news>; 3 read, "
        "3 encoded, left out: none"
    )


def test_a_tag_does_not_count_in_the_length_ratio_and_is_not_shown(tmp_path):
    """Sources of 2 and 1 tokens, EOS included, and targets of 2 and 2."""
    text = MIXTURE.replace("weight: 1,", "weight: 1, max_length_ratio: 1.3,")
    given = write_mixture(tmp_path, text)
    write_lines(tmp_path / "train.en", "a", "b c d", "c c")
    write_lines(tmp_path / "train.de", "x", "y z y", "z")
    result = prepare_corpora(given, tmp_path / "data", tags_known)
    assert result.corpora[0].dropped["length_ratio"] == 1
    assert [pair for pair in decoded(tmp_path / "data") if "<news>" in pair[0]] == [
        ("<news> a", "x"),
        ("<news> b c d", "y z y"),
    ]
    lines = (tmp_path / "data" / "dropped.txt").read_text().splitlines()
    assert f"length_ratio\t{tmp_path / 'train.en'} line 3\tc c\tz" in lines


def test_directions_of_an_entry_are_sampled_apart(tmp_path):
    """Otherwise a vocabulary would see each sampled pair twice."""
    words = [f"w{number}" for number in range(200)]
    write_lines(tmp_path / "a", *words)
    write_lines(tmp_path / "b", *(word.upper() for word in words))
    (tmp_path / "corpora.yaml").write_text(
        "corpora:\n"
        "  - {name: both, source: a, target: b, both_directions: true}\n"
        "  - {name: dev, split: valid, source: a, target: a}\n"
    )
    seen = []

    def tokenizer_of(texts):
        seen.extend(texts)
        return WordTokenizer(
            [*seen, ">>de<<", ">>en<<", *words, *map(str.upper, words)]
        )

    given = corpora.read(tmp_path / "corpora.yaml")
    options = with_values(sample_pairs=40)
    prepare_corpora(given, tmp_path / "data", tokenizer_of, options)
    assert len(seen) == 80
    assert len(set(seen)) > 60


def tags_known(texts):
    return WordTokenizer([*texts, "<news>", "d"])


def test_the_plan_of_a_mixture_has_its_shares(tmp_path):
    """An epoch of 4 pairs: 1 of three, and 3 times the only one."""
    prepare_corpora(write_mixture(tmp_path), tmp_path / "data", tags_known)
    corpus = EncodedCorpus.open(tmp_path / "data", "train")
    for make_plan in (corpus.batch_plan, corpus.packed_batch_plan):
        plan = make_plan(tokens_per_batch=500)
        pairs = plan.batch(0).rows
        assert np.count_nonzero(pairs == 3) == 3
        assert np.count_nonzero((pairs >= 0) & (pairs < 3)) == 1


def test_other_weights_make_another_corpus_hash(tmp_path):
    """Batches would differ, so a run must not go on with them."""
    given = write_mixture(tmp_path)
    hashes = [
        prepare_corpora(each, tmp_path / name, tags_known).corpus_hash
        for name, each in (
            ("data", given),
            ("same", given),
            (
                "other",
                write_mixture(tmp_path, MIXTURE.replace("weight: 3", "weight: 2")),
            ),
        )
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_blank_sources_of_held_out_text_get_no_tag(tmp_path):
    given = write_mixture(tmp_path)
    write_lines(tmp_path / "valid.en", "a", "")
    prepare_corpora(given, tmp_path / "data", tags_known)
    raw = (tmp_path / "data" / "valid.source").read_text()
    assert raw.startswith("<news> a\n\n")


def test_a_tag_that_the_vocabulary_lacks_is_refused(tmp_path):
    class NoTags(WordTokenizer):
        def has_symbol(self, symbol):
            return False

    message = "corpus 'news': the vocabulary has no piece <news>. Let bin/prepare_data"
    with pytest.raises(ValueError, match=message):
        prepare_corpora(write_mixture(tmp_path), tmp_path / "data", NoTags)


def test_a_corpus_of_which_nothing_is_left_is_named(tmp_path):
    given = write_mixture(tmp_path)
    write_lines(tmp_path / "other.en", "", "")
    message = "No pair of the corpus 'back' is left. Of 2 pairs read, dropped: 2 blank."
    with pytest.raises(ValueError, match=message):
        prepare_corpora(given, tmp_path / "data", tags_known)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("wmt14_translate", "corpus 'back': `dataset` must be 'tfds:NAME/CONFIG'"),
        (
            "tfds:wmt14_translate/de-en, target_language: fr",
            "corpus 'back': `target_language` must be",
        ),
    ],
)
def test_a_dataset_that_there_is_not_is_refused_with_its_corpus(
    tmp_path, dataset, message
):
    text = MIXTURE.replace("source: other.en, target: other.de, weight", "weight", 1)
    text = text.replace("weight: 3", f"weight: 3, dataset: {dataset}")
    with pytest.raises(ValueError, match=message):
        prepare_corpora(write_mixture(tmp_path, text), tmp_path / "data", tags_known)


def test_multi30k_pads_about_ten_percent(tmp_path, shared_data):
    """Real text, with words for tokens: 11 shapes."""
    folder = shared_data / "multi30k"
    source = TextFiles(
        {
            "train": (folder / "train.en", folder / "train.de"),
            "valid": (folder / "val.en", folder / "val.de"),
        },
        "en",
        "de",
    )
    result = prepare(source, tmp_path / "data", WordTokenizer)
    assert result.splits["train"].pairs == 29_000
    for padding in result.padding:
        assert padding.padding_rate < 0.12
        assert len(padding.shapes) <= 11
    corpus = EncodedCorpus.open(tmp_path / "data", "train")
    assert np.sum(corpus.source_lengths) == result.splits["train"].source_tokens
