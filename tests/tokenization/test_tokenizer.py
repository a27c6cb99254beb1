"""What every tokenizer promises, whatever its kind."""

import re
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from keras_transformer import config, tokenization

ANY_TEXT = strategies.text(strategies.characters(exclude_categories=["Cs"]))
FEW_CHARACTERS = strategies.text(" ab.#\\;19▁\ufdd0<s>é😀")


def folded(text):
    """The one thing a round trip changes in valid text."""
    return re.sub(" +", " ", text).strip(" ")


def round_trip(tokenizer, texts):
    decoded = tokenizer.detokenize(tokenizer.tokenize(tf.constant(texts, tf.string)))
    return [text.decode("utf-8") for text in decoded.numpy()]


def test_text_comes_back_as_it_was(tokenizer, round_trips):
    assert round_trip(tokenizer, round_trips) == list(round_trips)


def test_real_text_comes_back_as_it_was(tokenizer, shared_data):
    for language in ("en", "de", "fr"):
        path = shared_data / "multi30k" / f"val.{language}"
        lines = path.read_text(encoding="utf-8").split("\n")
        assert round_trip(tokenizer, lines) == [folded(line) for line in lines]


@hypothesis.given(strategies.lists(ANY_TEXT | FEW_CHARACTERS, max_size=3))
@hypothesis.settings(deadline=None, max_examples=200)
def test_no_character_of_any_text_is_lost(tokenizer, texts):
    assert round_trip(tokenizer, texts) == [folded(text) for text in texts]


@hypothesis.given(strategies.lists(ANY_TEXT | FEW_CHARACTERS, max_size=3))
@hypothesis.settings(deadline=None, max_examples=200)
def test_the_host_gives_the_ids_of_the_graph(tokenizer, texts):
    encoded = tokenizer.encode(texts)
    in_graph = tokenizer.tokenize(tf.constant(texts, tf.string))
    assert [row.tolist() for row in encoded] == in_graph.to_list()
    assert all(row.dtype == np.int32 for row in encoded)
    assert tokenizer.decode(encoded) == [folded(text) for text in texts]


@hypothesis.given(strategies.data())
@hypothesis.settings(deadline=None, max_examples=100)
def test_any_ids_a_model_may_write_decode_alike_on_host_and_in_graph(tokenizer, data):
    ids = strategies.integers(0, tokenizer.vocab_size - 1)
    rows = data.draw(strategies.lists(strategies.lists(ids, max_size=13), max_size=3))
    in_graph = tokenizer.detokenize(tf.ragged.constant(rows, tf.int32, ragged_rank=1))
    assert tokenizer.decode(rows) == [text.decode() for text in in_graph.numpy()]


def test_texts_get_no_special_ids(tokenizer, round_trips):
    """Not even where a text holds the name of a special piece."""
    special = {
        tokenizer.pad_id,
        tokenizer.unk_id,
        tokenizer.bos_id,
        tokenizer.eos_id,
    }
    for row in tokenizer.encode(round_trips):
        assert special.isdisjoint(row.tolist())


def test_special_ids_are_the_configs(tokenizer):
    assert tokenizer.ids() == {
        "vocab_size": tokenizer.vocab_size,
        "pad_id": config.PAD_ID,
        "unk_id": config.UNK_ID,
        "bos_id": config.BOS_ID,
        "eos_id": config.EOS_ID,
    }


def test_detokenize_ends_at_the_first_eos_and_passes_over_pad_and_bos(tokenizer):
    pad, bos, eos = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id
    cat, dog = (row.tolist() for row in tokenizer.encode(["the cat", "dog"]))
    rows = [[bos, *cat, eos, *dog, eos], [pad, *dog, pad, pad], [eos, *cat], []]
    expected = [b"the cat", b"dog", b"", b""]
    ragged = tf.ragged.constant(rows, tf.int64)
    assert tokenizer.detokenize(ragged).numpy().tolist() == expected
    assert tokenizer.detokenize(ragged.to_tensor(pad)).numpy().tolist() == expected
    assert tokenizer.decode(rows) == [text.decode() for text in expected]


def test_pieces_spell_the_text_and_are_empty_for_padding(tokenizer):
    tokens = tokenizer.tokenize(["the mat", "on the cat"]).to_tensor(tokenizer.pad_id)
    pieces = tokenizer.pieces(tokens)
    assert pieces.shape == tokens.shape
    spelled = [
        "".join(piece.decode().removeprefix("##") for piece in row)
        for row in pieces.numpy()
    ]
    assert spelled == ["▁the▁mat", "▁on▁the▁cat"]
    is_empty = pieces.numpy() == b""
    np.testing.assert_array_equal(is_empty, tokens.numpy() == tokenizer.pad_id)


def test_empty_batches_and_texts_of_spaces_are_fine(tokenizer):
    assert tokenizer.tokenize(tf.zeros([0], tf.string)).shape == [0, None]
    assert tokenizer.tokenize(["", " ", "    "]).to_list() == [[], [], []]
    assert tokenizer.detokenize(tf.zeros([0, 5], tf.int32)).shape == [0]
    assert (
        tokenizer.detokenize(tf.zeros([3, 0], tf.int32)).numpy().tolist() == [b""] * 3
    )
    assert tokenizer.encode([]) == []
    assert tokenizer.decode([]) == []
    assert tokenizer.decode([[], []]) == ["", ""]


def test_runs_of_spaces_fold_and_other_white_space_stays(tokenizer):
    assert round_trip(tokenizer, ["  a   b ", "\u00a0a\u00a0\u00a0b\t\t"]) == [
        "a b",
        "\u00a0a\u00a0\u00a0b\t\t",
    ]


def test_invalid_utf8_becomes_replacement_characters(tokenizer):
    (text,) = round_trip(tokenizer, [b"caf\xe9 \xff!"])
    assert text == "caf\ufffd \ufffd!"


@pytest.mark.parametrize("text", ["a" * 100_000, "Hello, " * 14_286, "😀é" * 50_000])
def test_lines_of_100000_characters_come_back(tokenizer, text):
    assert round_trip(tokenizer, [text]) == [text.strip()]


def test_a_pipeline_may_tokenize(tokenizer, texts):
    dataset = tf.data.Dataset.from_tensor_slices(list(texts)).batch(3)
    batches = [tokens.to_list() for tokens in dataset.map(tokenizer.tokenize)]
    expected = [row.tolist() for row in tokenizer.encode(texts)]
    assert [row for batch in batches for row in batch] == expected


class Exported(tf.Module):
    """A module that owns a tokenizer, as the exported translator does."""

    def __init__(self, tokenizer):
        super().__init__()
        self._tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        tokens = self._tokenizer.tokenize(text)
        return {
            "text": self._tokenizer.detokenize(tokens),
            "pieces": self._tokenizer.pieces(tokens.to_tensor(self._tokenizer.pad_id)),
        }


LOAD_AND_SERVE = """
import sys
import tensorflow as tf
import tensorflow_text

texts = open(sys.argv[2], encoding="utf-8", newline="").read().split("\\x1e")
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
assert serve(text=tf.zeros([0], tf.string))["text"].shape == [0]
served = serve(text=tf.constant(texts))
with open(sys.argv[3], "w", encoding="utf-8", newline="") as file:
    file.write("\\x1e".join(text.decode("utf-8") for text in served["text"].numpy()))
    file.write("\\x1d" + str(served["pieces"].shape[1]))
assert not {"keras_nlp", "keras_hub", "keras_transformer"} & sys.modules.keys()
"""


@pytest.mark.long
def test_the_exported_tokenizer_works_in_a_fresh_process(
    tokenizer, round_trips, tmp_path
):
    module = Exported(tokenizer)
    tf.saved_model.save(module, tmp_path / "model", signatures=module.serve)
    moved = (tmp_path / "model").rename(tmp_path / "moved")
    given, served = tmp_path / "given", tmp_path / "served"
    given.write_bytes("\x1e".join(round_trips).encode())
    process = subprocess.run(
        [sys.executable, "-c", LOAD_AND_SERVE, moved, given, served],
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    text, length = served.read_bytes().decode().split("\x1d")
    assert text.split("\x1e") == list(round_trips)
    assert int(length) == max(len(row) for row in tokenizer.encode(round_trips))


def test_training_again_gives_the_same_vocabulary(texts, bpe, wordpiece):
    again = tokenization.train_bpe(iter(texts), bpe.vocab_size)
    assert again.fingerprint == bpe.fingerprint
    again = tokenization.train_wordpiece(iter(texts), wordpiece.vocab_size)
    assert again.fingerprint == wordpiece.fingerprint


def test_a_sample_of_the_text_is_drawn_the_same_each_time(texts):
    def train():
        yield tokenization.train_bpe(texts * 7, 359, max_sentences=11).fingerprint
        yield tokenization.train_wordpiece(texts * 7, 211, max_sentences=11).fingerprint

    assert list(train()) == list(train())


def test_tokens_belong_to_the_words_of_their_texts():
    """With both kinds of vocabulary, and with random pieces."""
    texts = ["a dog  runs", "", "Die Katze läuft."]
    for train, size in (
        (tokenization.train_bpe, 285),
        (tokenization.train_wordpiece, 70),
    ):
        tokenizer = train([*texts] * 5, size)
        ways = [tokenizer.encode(texts), tokenizer.encode_target(texts)]
        if tokenizer.kind == "bpe":
            ways.append(tokenizer.sample(texts, 0.5, seed=3))
        for number, tokens in enumerate(ways):
            found = tokenizer.words_of_tokens(texts, tokens, is_target=number == 1)
            for text, ids, words in zip(texts, tokens, found, strict=True):
                spelled = [
                    *map(tokenizer.decode, ([ids[words == n]] for n in range(3)))
                ]
                expected = [[word] for word in text.split()]
                assert spelled == expected + [[""]] * (3 - len(expected))
