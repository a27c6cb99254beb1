"""A converted model gives the same probabilities and outputs in CTranslate2."""

import ctranslate2
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.config import DecodingConfig, ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.pretrained import importing
from keras_transformer.serving import ctranslate2_converter
from keras_transformer.serving.signatures import ServingModule
from tests.pretrained import small_published
from tests.searchers import load_searcher
from tests.small_models import LINES, choosing_model

PAIRS = [("one two three", "zwei eins"), ("A dog runs!", "Ein Hund läuft."), ("2", "3")]


GREEDY = DecodingConfig(beam_size=1)


def make_translator(decoding=GREEDY, **options):
    tokenizer = tokenization.train_bpe(LINES * 5, vocab_size=300)
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        num_layers=2,
        d_model=24,
        d_ff=20,
        num_heads=3,
        **options,
    )
    model = choosing_model(config, seed=5, scale=0.4)
    return Translator(
        model, tokenizer, decoding, extra_decode_length=5, length_penalty_alpha=0.0
    )


def pieces_of(translator, text):
    (ids,) = translator.tokenizer.encode([text])
    return [piece.decode() for piece in translator.tokenizer.pieces(ids).numpy()]


VARIANTS = {
    "the paper's": {},
    "pre-norm, biases, positions in halves from 1": {
        "norm_placement": "pre",
        "attention_bias": True,
        "position_layout": "halves",
        "first_position": 1,
    },
    "separate embeddings, learned positions, another epsilon": {
        "share_embeddings": False,
        "output_bias": True,
        "position_encoding": "learned",
        "num_positions": 40,
        "layer_norm_epsilon": 0.1,
    },
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_both_compute_the_same_probabilities(options, tmp_path):
    translator = make_translator(**options)
    ctranslate2_converter.convert(translator, tmp_path / "ct2")
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu")
    sources, targets = (
        [pieces_of(translator, pair[side]) for pair in PAIRS] for side in (0, 1)
    )
    module = ServingModule(translator)
    ours = module.score(
        tf.constant([pair[0] for pair in PAIRS]),
        tf.constant([pair[1] for pair in PAIRS]),
    )
    scored = [sum(row.log_probs) for row in theirs.score_batch(sources, targets)]
    np.testing.assert_allclose(scored, ours["log_probability"], atol=1e-3)


@pytest.mark.long
def test_both_find_the_same_words(tmp_path):
    translator = make_translator()
    ctranslate2_converter.convert(translator, tmp_path / "ct2")
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu")
    greedy = theirs.translate_batch(
        [pieces_of(translator, source) for source, _ in PAIRS],
        beam_size=1,
        max_decoding_length=8,
    )
    found = own_search(translator, [source for source, _ in PAIRS])
    for (own, _), result in zip(found, greedy, strict=True):
        assert own[:8] == result.hypotheses[0]


def own_search(translator, texts):
    """Return the pieces of each best hypothesis, without EOS, and its score."""
    found = translator.search(translator.source_tokens(tf.constant(texts))[0])
    rows = translator.tokenizer.pieces(found.tokens[:, 0]).numpy()
    pieces = [[p.decode() for p in row if p not in (b"", b"</s>")] for row in rows]
    return list(zip(pieces, found.scores[:, 0], strict=True))


@pytest.mark.long(first=1)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_both_find_the_same_words_without_repeated_ngrams(tmp_path, size):
    translator = make_translator(DecodingConfig(beam_size=1, no_repeat_ngram_size=size))
    ctranslate2_converter.convert(translator, tmp_path / "ct2")
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu")
    for text, (own, _) in zip(LINES, own_search(translator, LINES), strict=True):
        (result,) = theirs.translate_batch(
            [pieces_of(translator, text)],
            beam_size=1,
            no_repeat_ngram_size=size,
            max_decoding_length=len(own),
        )
        assert own == result.hypotheses[0]


@pytest.mark.long(first=1)
@pytest.mark.parametrize("size", [1, 2])
def test_a_beam_without_repeated_ngrams_keeps_the_models_probabilities(tmp_path, size):
    """CTranslate2 rescales the probabilities of the tokens that are left instead.

    So its beam may be another one, and its scoring gives the reference.
    """
    translator = make_translator(DecodingConfig(beam_size=4, no_repeat_ngram_size=size))
    ctranslate2_converter.convert(translator, tmp_path / "ct2")
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu")
    found = own_search(translator, LINES)
    for text, (own, score) in zip(LINES, found, strict=True):
        ngrams = [tuple(own[i : i + size]) for i in range(len(own) - size + 1)]
        assert len(ngrams) == len(set(ngrams)) > 10
        (scored,) = theirs.score_batch([pieces_of(translator, text)], [own])
        # Without EOS: the limit has cut it.
        np.testing.assert_allclose(sum(scored.log_probs[:-1]), score, atol=1e-2)


def test_int8_probabilities_are_close(tmp_path):
    """The quantized model gives the same target probabilities up to rounding."""
    translator = make_translator()
    for name in ("float32", "int8"):
        ctranslate2_converter.convert(translator, tmp_path / name, name)
    sources, targets = (
        [pieces_of(translator, pair[side]) for pair in PAIRS] for side in (0, 1)
    )
    exact, rounded = (
        [
            sum(row.log_probs)
            for row in ctranslate2.Translator(str(tmp_path / name)).score_batch(
                sources, targets
            )
        ]
        for name in ("float32", "int8")
    )
    np.testing.assert_allclose(rounded, exact, rtol=0.1)
    sizes = [
        (tmp_path / name / "model.bin").stat().st_size for name in ("int8", "float32")
    ]
    assert sizes[0] < sizes[1]


def test_the_tokenizer_is_saved_with_the_model(tmp_path):
    translator = make_translator()
    ctranslate2_converter.convert(translator, tmp_path / "ct2")
    loaded = tokenization.load(tmp_path / "ct2" / "tokenizer")
    assert loaded.fingerprint == translator.tokenizer.fingerprint


@pytest.mark.parametrize(("head", "read"), [((0, 0), (0, 0)), ((0, 2), (1, 0))])
def test_attention_is_that_of_the_head_that_aligns(head, read, tmp_path):
    """CTranslate2 knows only first heads; of others it gives the last layer's first.

    Without the column of EOS.
    """
    translator = make_translator(alignment_head=head)
    ctranslate2_converter.convert(translator, tmp_path / "ct2")
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu")
    pieces = pieces_of(translator, "one two three")
    (result,) = theirs.translate_batch(
        [pieces], beam_size=1, max_decoding_length=7, return_attention=True
    )
    source = translator.tokenizer.encode_rows(["one two three"])
    known = translator.tokenizer.pieces(range(translator.tokenizer.vocab_size)).numpy()
    ids = {piece.decode(): number for number, piece in enumerate(known)}
    target = np.array([[ids[piece] for piece in result.hypotheses[0]]], np.int32)
    _, weights = translator.ensemble.decode(tf.constant(source), tf.constant(target))
    layer, number = read
    expected = weights[layer][0, number, :, :-1].numpy()
    np.testing.assert_allclose(result.attention[0], expected, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_dim": 5}, "needs key_dim = value_dim = d_model / num_heads.*key_dim=5"),
        (
            {"attention_window": 3},
            "not support restricted self-attention.*attention_window=3",
        ),
    ],
)
def test_a_model_that_ctranslate2_cannot_run_is_rejected(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ctranslate2_converter.convert(make_translator(**options), tmp_path / "ct2")
    assert not (tmp_path / "ct2").exists()


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    translator = make_translator()
    ctranslate2_converter.convert(translator, tmp_path / "ct2")
    ctranslate2_converter.convert(translator, tmp_path / "ct2", "int8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "weights").write_text("dear")
    with pytest.raises(FileExistsError, match="contains files other than a CTranslate"):
        ctranslate2_converter.convert(translator, tmp_path / "other")
    assert (tmp_path / "other" / "weights").read_text() == "dear"


def test_a_file_in_place_of_the_folder_is_rejected_and_kept(tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    with pytest.raises(NotADirectoryError, match="is a file, but a folder is needed"):
        ctranslate2_converter.convert(make_translator(), path)
    assert path.read_text() == "years of work"


def test_an_unknown_quantization_is_named(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'int8'"):
        ctranslate2_converter.convert(make_translator(), tmp_path / "ct2", "int9")


@pytest.mark.long(first=1)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_an_imported_marian_model_translates_as_with_ctranslate2s_converter(
    shared_data, tmp_path, beam_size
):
    folder = shared_data / "pretrained" / "marian"
    importing.import_model(folder, tmp_path / "model")
    ctranslate2_converter.convert(load_searcher(tmp_path / "model"), tmp_path / "ours")
    vocabulary = str(folder / "vocab.yml")
    ctranslate2.converters.MarianConverter(
        str(folder / "model.npz"), [vocabulary, vocabulary]
    ).convert(str(tmp_path / "theirs"))
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    text = (shared_data / "multi30k" / "test_2016_flickr.en").read_text("utf-8")
    sources = pieces.encode(text.splitlines()[:200], out_type=str)
    ours, theirs = (
        ctranslate2.Translator(str(tmp_path / name)).translate_batch(
            sources, beam_size=beam_size, max_decoding_length=60, return_scores=True
        )
        for name in ("ours", "theirs")
    )
    assert [each.hypotheses for each in ours] == [each.hypotheses for each in theirs]
    np.testing.assert_allclose(
        [each.scores[0] for each in ours],
        [each.scores[0] for each in theirs],
        atol=1e-5,
    )


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_of_two_vocabularies_translates_as_with_ctranslate2s_converter(
    tmp_path, tied
):
    folder = tmp_path / "published"
    small_published.write_marian(folder, separate=True, tied=tied)
    importing.import_model(folder, tmp_path / "model")
    translator = load_searcher(tmp_path / "model")
    ctranslate2_converter.convert(translator, tmp_path / "ours")
    ctranslate2.converters.MarianConverter(
        str(folder / "model.npz"),
        [str(folder / n) for n in ("vocab.yml", "target.yml")],
    ).convert(str(tmp_path / "theirs"))
    tokenizer = translator.tokenizer
    sources, targets = (
        [[piece.decode() for piece in pieces_of(tokens).numpy()] for tokens in ids]
        for pieces_of, ids in (
            (tokenizer.pieces, tokenizer.encode(LINES)),
            (tokenizer.target_pieces, tokenizer.encode_target(LINES[::-1])),
        )
    )
    ours, theirs = (
        ctranslate2.Translator(str(tmp_path / name)).score_batch(sources, targets)
        for name in ("ours", "theirs")
    )
    for own, their in zip(ours, theirs, strict=True):
        # Theirs has no row of padding, whose probability is close to 0.
        np.testing.assert_allclose(own.log_probs, their.log_probs, rtol=1e-3)
