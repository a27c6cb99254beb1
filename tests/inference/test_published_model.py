"""A published model (separate vocabularies, biases, pre-norm) computes the same here.

The transliteration model of CTranslate2's own tests, with the outputs, log
probabilities and n-best lists computed for it elsewhere.
"""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig, ModelConfig
from keras_transformer.decoding import beam_search
from keras_transformer.inference import full_pass, kv_cache
from keras_transformer.inference.decoder_step import decode_step
from keras_transformer.inference.prepared_weights import step_weights
from keras_transformer.model.transformer import Transformer

CONFIG = ModelConfig(
    vocab_size=51,
    target_vocab_size=43,
    num_layers=6,
    d_model=32,
    d_ff=128,
    num_heads=8,
    norm_placement="pre",
    layer_norm_epsilon=1e-5,
    attention_bias=True,
    share_embeddings=False,
    output_bias=True,
    position_layout="halves",
    first_position=1,
    pad_id=0,
    bos_id=1,
    eos_id=2,
)
ATTENTION, NORM, FFN = ("query", "key", "value"), ("gamma", "beta"), "feed_forward"


@pytest.fixture(scope="module")
def folder(shared_data):
    folder = shared_data / "ct2_aren"
    if not folder.is_dir():
        pytest.skip("no published model: ct2_aren is absent from the real text")
    return folder


@pytest.fixture(scope="module")
def cases(folder):
    return json.loads((folder / "golden.json").read_text(encoding="utf-8"))["cases"]


@pytest.fixture(scope="module")
def model(folder):
    model = Transformer(CONFIG)
    theirs = np.load(folder / "weights_v2_fp32.npz")
    named = dict(translated_weights(theirs))
    for weight in model.trainable_weights:
        path = weight.path.split("/", 1)[1]
        weight.assign(named.pop(path).reshape(weight.shape))
    assert not named
    return model


def translated_weights(theirs):
    """Pair our paths with their arrays; their kernels are [out, in]."""
    yield "embedding/embeddings", theirs["encoder.embeddings.weight"]
    yield "target_embedding/embeddings", theirs["decoder.embeddings.weight"]
    yield "output_embedding/embeddings", theirs["decoder.projection.weight"]
    yield "output_embedding/output_bias", theirs["decoder.projection.bias"]
    for stack in ("encoder", "decoder"):
        for part in NORM:
            yield f"{stack}/final_norm/{part}", theirs[f"{stack}.layer_norm.{part}"]
        for number in range(CONFIG.num_layers):
            ours, there = f"{stack}/layer_{number}", f"{stack}.layer_{number}"
            yield from attention(
                theirs, f"{ours}/self_attention", f"{there}.self_attention"
            )
            if stack == "decoder":
                yield from attention(
                    theirs, f"{ours}/cross_attention", f"{there}.attention"
                )
            yield from norm(theirs, f"{ours}/{FFN}", f"{there}.ffn")
            for name, linear in (("hidden", "linear_0"), ("output", "linear_1")):
                kernel = theirs[f"{there}.ffn.{linear}.weight"].T
                yield f"{ours}/{FFN}/{name}/kernel", kernel
                yield f"{ours}/{FFN}/{name}/bias", theirs[f"{there}.ffn.{linear}.bias"]


def attention(theirs, ours, there):
    """Their projections are fused: all three, or the query and the other two."""
    yield from norm(theirs, ours, there)
    linears = sorted(
        name.removesuffix(".weight")
        for name in theirs.files
        if name.startswith(f"{there}.linear_") and name.endswith(".weight")
    )
    kernels = np.concatenate([theirs[f"{name}.weight"] for name in linears])
    biases = np.concatenate([theirs[f"{name}.bias"] for name in linears])
    for name, kernel, bias in zip(
        (*ATTENTION, "output"), np.split(kernels, 4), np.split(biases, 4), strict=True
    ):
        yield f"{ours}/{name}/kernel", kernel.T
        yield f"{ours}/{name}/bias", bias


def norm(theirs, ours, there):
    for part in NORM:
        yield f"{ours}_residual/norm/{part}", theirs[f"{there}.layer_norm.{part}"]


def search(model, source, beam_size):
    """Search with no length penalty; return tokens and log probabilities."""
    result = search_in_graph(model, tf.constant([source], tf.int32), beam_size)
    return result.tokens.numpy()[0], result.log_probs.numpy()[0]


@tf.function(reduce_retracing=True)
def search_in_graph(model, source, beam_size):
    steps = tf.shape(source)[1] + 20
    return beam_search(
        functools.partial(decode_step, CONFIG, step_weights(model)),
        full_pass.start(model, source),
        kv_cache.empty(CONFIG, 1, 0, "float32"),
        max_lengths=steps[tf.newaxis],
        max_steps=steps,
        config=DecodingConfig(beam_size=beam_size, length_penalty_alpha=0.0),
        bos_id=CONFIG.bos_id,
        eos_id=CONFIG.eos_id,
        pad_id=CONFIG.pad_id,
        num_best=beam_size,
    )


@pytest.mark.long
def test_greedy_outputs_and_log_probabilities_are_the_golden_ones(model, cases):
    for case in cases:
        tokens, log_probs = search(model, case["src_ids"], beam_size=1)
        expected = case["greedy_ids"][1:]  # without <s>
        assert tokens[0][: len(expected)].tolist() == expected
        assert abs(log_probs[0] - case["greedy_logprob"]) < 1e-3


def test_each_step_has_the_golden_distribution(model, cases, folder):
    """The log probabilities of all words at every step, by the whole-sentence pass."""
    golden = np.load(folder / "golden_arrays.npz")
    for number, case in enumerate(cases):
        inputs = np.array([case["greedy_ids"][:-1]])
        logits = model(np.array([case["src_ids"]]), inputs)
        np.testing.assert_allclose(
            tf.nn.log_softmax(logits)[0], golden[f"logprobs_{number}"], atol=1e-3
        )


@pytest.mark.long
def test_nbest_lists_hold_the_golden_ones(model, cases, folder):
    """Beam 30: the golden 15 in their order, with their log probabilities.

    The golden search prunes harder: ours may find more between them ("azzza"), whose
    log probability is then that of the whole-sentence pass.
    """
    path = folder / "v2-aren-transliteration" / "target_vocabulary.txt"
    words = [*path.read_text(encoding="utf-8").split("\n")[:42], "<unk>"]
    for case in cases:
        tokens, log_probs = search(model, case["src_ids"], beam_size=30)
        texts = ["".join(words[t] for t in row if t > 2) for row in tokens]
        golden = dict(case["nbest_beam30_[text,logp]"])
        assert [text for text in texts if text in golden] == list(golden)
        inputs = np.concatenate([np.ones_like(tokens[:, :1]), tokens[:, :-1]], axis=1)
        logits = model(np.array([case["src_ids"]] * len(tokens)), inputs)
        picked = tf.gather(tf.nn.log_softmax(logits), tokens, batch_dims=2)
        sums = np.sum(picked * (tokens != CONFIG.pad_id), axis=1)
        expected = [
            golden.get(text, own) for text, own in zip(texts, sums, strict=True)
        ]
        np.testing.assert_allclose(log_probs, expected, atol=1e-3)


def test_attention_of_the_last_layer_is_the_golden_one(model, cases, folder):
    golden = np.load(folder / "golden_arrays.npz")
    for number, case in enumerate(cases):
        inputs = np.array([case["greedy_ids"][:-1]])
        source = np.array([case["src_ids"]])
        _, weights = model(source, inputs, return_attention=True)
        np.testing.assert_allclose(
            weights["cross"][-1][0],
            golden[f"crossattn_last_layer_{number}"],
            atol=1e-3,
        )
