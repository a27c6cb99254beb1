"""No search chooses the unknown token of a vocabulary that lacks characters."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.config import ModelConfig, PairEncoding
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.inference.translator import Translator
from keras_transformer.serving import saved_model
from keras_transformer.serving.signatures import ServingModule
from keras_transformer.tokenization.mapped import MappedTokenizer, pack
from keras_transformer.tokenization.sentence_piece import SentencePieceTokenizer
from tests.small_models import LINES, choosing_model, inputs_of, vocabulary

TEXTS = ["one two three", "A dog runs!", ""]
# How SentencePiece shows the unknown token.
UNKNOWN = "\u2047"


def preferring(tokenizer, seed=3, **options):
    """Return a translator whose model prefers the unknown token."""
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        **{name: getattr(tokenizer, name) for name in ("pad_id", "bos_id", "eos_id")},
        num_layers=1,
        d_model=6,
        d_ff=7,
        num_heads=2,
        output_bias=True,
    )
    model = choosing_model(config, seed)
    bias = model.output_embedding.output_bias
    bias.assign(np.where(np.arange(config.vocab_size) == tokenizer.unk_id, 40.0, bias))
    settings = {"extra_decode_length": 5, "max_input_length": 23, **options}
    return Translator(model, tokenizer, **settings)


def searched(translator):
    """Return all hypotheses as text."""
    tokens, truncated = translator.source_tokens(tf.constant(TEXTS))
    num_best = translator.decoding.beam_size
    found = translator.search_texts(tokens, truncated, num_best=num_best)
    return found["translations"]


def exported(translator, folder):
    version = saved_model.export(
        translator, folder, signatures=["nbest"], has_packed_kernels=False
    )
    found = tf.saved_model.load(str(version)).signatures["nbest"](tf.constant(TEXTS))
    return found["translations"]


def translations_of(kind, folder, **settings):
    """Return the translations of `TEXTS` by a kind of search."""
    symbols = PairEncoding(placeholders=2).symbols if kind == "placeholders" else ()
    tokenizer = SentencePieceTokenizer(vocabulary(user_defined_symbols=[*symbols]))
    if kind == "greedy":
        settings["beam_size"] = 1
    if kind == "shortlist":
        table = np.full((tokenizer.vocab_size, 1), 40)
        settings["shortlist"] = Shortlist(np.arange(30), table)
    if kind == "ensemble":
        settings["others"] = [preferring(tokenizer, seed=5).model]
    translator = preferring(tokenizer, **settings)
    assert bool(tokenizer.placeholders) == (kind == "placeholders")
    if kind == "export":
        return exported(translator, folder)
    if kind == "sample":
        module = ServingModule(translator)
        return module.sample(**inputs_of(kind, TEXTS))["translation"]
    if kind == "prefix":
        found = translator.translate_with_prefix(*inputs_of(kind, TEXTS).values())
        return found["translations"]
    return searched(translator)


@pytest.mark.parametrize(
    ("kind", "allow_unk"),
    [
        *[("beam", True), ("beam", False), ("sample", False)],
        *(
            pytest.param(kind, False, marks=pytest.mark.long)
            for kind in ("greedy", "placeholders", "shortlist")
        ),
        *(
            pytest.param(*case, marks=pytest.mark.release)
            for case in [
                *[("sample", True), ("placeholders", True)],
                *[("prefix", False), ("ensemble", False), ("export", False)],
            ]
        ),
    ],
)
def test_the_unknown_token_comes_only_if_it_is_allowed(kind, allow_unk, tmp_path):
    found = translations_of(kind, tmp_path, allow_unk=allow_unk)
    texts = [text.decode() for text in found.numpy().flat]
    assert any(texts)
    assert any(UNKNOWN in text for text in texts) == allow_unk


@pytest.mark.long
@pytest.mark.parametrize("symbols", [(), PairEncoding(placeholders=2).symbols])
def test_a_given_beginning_may_have_what_the_vocabulary_lacks(symbols):
    tokenizer = SentencePieceTokenizer(vocabulary(user_defined_symbols=[*symbols]))
    found = preferring(tokenizer).translate_with_prefix(
        tf.constant(["one two"] * 2), tf.constant(["zwei \u2603", ""])
    )
    given, free = (text.decode() for text in found["translations"][:, 0].numpy())
    assert given.count(UNKNOWN) == 1
    assert UNKNOWN not in free
    assert found["scores"].numpy().min() > -1000


def test_vocabularies_that_write_all_characters_need_no_rule():
    own = tokenization.train_bpe(LINES * 5, vocab_size=300)
    assert own.target_unk_id is None
    assert preferring(own).suppressed_ids == ()
    proto = vocabulary(vocab_size=340, byte_fallback=True)
    assert SentencePieceTokenizer(proto).target_unk_id is None
    assert SentencePieceTokenizer(vocabulary()).target_unk_id == 0
    assert tokenization.train_wordpiece(LINES * 5, 120).target_unk_id is None


def test_targets_with_a_vocabulary_of_their_own_have_their_unknown_token():
    ids = {"</s>": 0, "<unk>": 1, "a": 2}, {"</s>": 0, "a": 1, "<unk>": 2}
    special_ids = {"pad_id": 3, "bos_id": 3, "eos_id": 0}
    for vocabularies in (ids[:1], ids):
        padded = [{**each, "<pad>": 3} for each in vocabularies]
        made = MappedTokenizer(pack(vocabulary(), vocabulary(), padded, special_ids))
        assert (made.unk_id, made.target_unk_id) == (1, len(vocabularies))
