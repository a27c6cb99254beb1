"""Sources that are cut are aligned as the text that is left of them would be."""

import functools

import pytest
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.config import ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.pretrained import importing
from keras_transformer.serving.signatures import ServingModule
from keras_transformer.translation.pipeline import translate_in_batches
from keras_transformer.translation.word_alignment import arguments_of, word_alignment
from keras_transformer.words import words_of_text
from tests.pretrained import small_published
from tests.searchers import load_searcher
from tests.small_models import LINES, choosing_model

# Plain, with characters that vocabularies lack or normalize, with spaces, and one that
# begins as the pieces of a language.
TEXTS = [
    "one two three, A dog runs! zwei eins one two",
    "  two   \u72ac \u732b\u72d0 1\u00bd\u00a0dogs\u2026 caf\u00b4 three one\tdog x",
    "eng_Latn __en__ one two three two two two",
]
MOST = 9


def published(name, **languages):
    def load(folder, shared_data):
        path = shared_data / "pretrained" / name
        if not path.is_dir():
            pytest.skip(f"no published model: {name} is absent")
        importing.import_model(path, folder / "model", **languages)
        return functools.partial(load_searcher, folder / "model")

    return load


def nllb(folder, shared_data):
    del shared_data
    small_published.write_huggingface(folder / "published", "nllb")
    codes = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
    importing.import_model(folder / "published", folder / "model", **codes)
    return functools.partial(load_searcher, folder / "model")


def trained(train, language=None, **options):
    def load(folder, shared_data):
        del folder, shared_data
        tokenizer = train(LINES * 5, SIZES[train], **options)
        if language:
            tokenizer = tokenizer.with_languages(None, language)
        size = {"vocab_size": tokenizer.vocab_size, "d_model": 6, "d_ff": 7}
        model = choosing_model(ModelConfig(num_layers=2, num_heads=2, **size), 3)
        return lambda **given: Translator(model, tokenizer, **given)

    return load


SYMBOLS = (">>de<<", ">>fr<<", "<news>")
BPE, WORDPIECE = tokenization.train_bpe, tokenization.train_wordpiece
SIZES = {BPE: 300, WORDPIECE: 140}
KINDS = {
    "opus_mt": (published("opus_mt"), [""]),
    "marian": (published("marian"), [""]),
    "tc-big": (published("opus_mt_tc_big"), [">>deu<< ", "\u00a0>>nld<<", ""]),
    "tc-big to nld": (
        published("opus_mt_tc_big", target_language="nld"),
        [">>deu<<\u00a0", ""],
    ),
    "m2m100": (
        published("m2m100", source_language="en", target_language="de"),
        [""],
    ),
    "nllb": (nllb, [""]),
    "bpe": (trained(BPE, symbols=SYMBOLS), [">>de<< ", "\u200b>>fr<<", "<news> ", ""]),
    "bpe to fr": (trained(BPE, "fr", symbols=SYMBOLS), [">>de<< <news> ", ""]),
}
# SentencePiece, a vocabulary of our own, and one language among many.
ONE_OF_EACH = ("opus_mt", "bpe to fr", "nllb")


def left_of(translator, text):
    """Return the beginnings of a text that have its first tokens."""
    starts = [text[:size] for size in range(len(text) + 1)]
    whole, *rows = (
        row.tolist() for row in translator.tokenizer.encode([text, *starts])
    )
    assert len(whole) >= MOST
    return [
        start
        for start, row in zip(starts, rows, strict=True)
        if row == whole[: MOST - 1]
    ]


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.release] * (kind not in ONE_OF_EACH))
        for kind in KINDS
    ],
)
def test_a_text_that_was_cut_is_aligned_as_what_is_left(kind, tmp_path, shared_data):
    """By the translator and by the signature, with and without a language before it."""
    load, befores = KINDS[kind]
    load = load(tmp_path, shared_data)
    whole, cutting = load(beam_size=1), load(beam_size=1, max_input_length=MOST)
    texts = [before + text for before in befores for text in TEXTS]
    given = {text: left[-1] for text in texts if (left := left_of(whole, text))}
    assert len(given) >= len(befores)
    expected = _translated(whole, [*given.values()])
    for found in (_translated(cutting, [*given]), _served(cutting, [*given])):
        assert found == expected
    assert sum(bool(alignment) for _, alignment in expected) > len(expected) // 2


def _translated(translator, texts):
    rows = translate_in_batches(texts, len(texts), translator.align_batch)
    return [(row.text, row.alignment) for row in rows]


def _served(translator, texts):
    module = ServingModule(translator)
    outputs = module.align(tf.constant(texts))
    columns = {name: values.numpy() for name, values in outputs.items()}
    rows = []
    for number, text in enumerate(texts):
        row = {name: values[number] for name, values in columns.items()}
        for name in ("source_pieces", "target_pieces"):
            row[name] = [piece.decode() for piece in row[name]]
        row["translation"] = row["translation"].decode()
        rows.append((row["translation"], word_alignment(*arguments_of(text, row))))
    return rows


@pytest.mark.parametrize(
    ("before", "numbers"),
    [
        (">>de<< ", [0, 1, 2]),
        (">>de<<", [0, 0, 1]),
        ("\u00a0>>de<<\u200b ", [0, 1, 2]),
        ("\u00a0 >>de<< ", [1, 2, 3]),
        (" >>de<<  ", [0, 1, 2]),
        ("", [-1, 0, 1]),
    ],
)
def test_a_language_of_the_text_is_a_word_of_it(before, numbers):
    tokenizer = BPE(LINES * 5, 300, symbols=SYMBOLS).with_languages(None, "fr")
    (found,) = tokenizer.source_words(tf.constant([f"{before}one two"])).to_list()
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(numbers))
    assert len(found) == len(tokenizer.encode([f"{before}one two"])[0])


@pytest.mark.parametrize("train", [BPE, WORDPIECE])
def test_words_are_what_spaces_separate(train):
    tokenizer = train(LINES * 5, SIZES[train])
    texts = ["  one   dog ", "", "\u72ac\u00a0x\ty \U0001f600!", " ", "\u2581a \\"]
    assert tokenizer.source_words(tf.zeros([0], tf.string)).to_list() == []
    rows = tokenizer.source_words(tf.constant(texts)).to_list()
    assert [[*dict.fromkeys(n for n in row if n >= 0)] for row in rows] == [
        [*range(len(words_of_text(text)))] for text in texts
    ]
    tokens = tokenizer.tokenize(tf.constant(texts))
    assert [len(row) for row in rows] == tokens.row_lengths().numpy().tolist()
