"""Cases whose answers other systems publish with their own tests."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding import beam_search


@pytest.fixture(scope="module")
def golden(shared_data):
    folder = shared_data / "golden_beam_search"
    if not folder.is_dir():
        pytest.skip("no golden cases: golden_beam_search is absent from the real data")
    return {
        name: json.loads((folder / f"{name}_cases.json").read_text("utf-8"))
        for name in ("t2t_beam_search", "fairseq_sequence_generator")
    }


def search_slot_table(probs, eos_id, **arguments):
    """Search a model given as probabilities [step, batch, beam slot, vocab]."""
    steps, batch, beam_size, _ = probs.shape
    with np.errstate(divide="ignore"):
        logits = tf.constant(np.log(probs), tf.float32)

    def step_fn(tokens, step, past, source, cache):
        return tf.gather(logits, step), cache

    config = DecodingConfig(
        beam_size=beam_size, length_penalty_alpha=arguments.pop("alpha")
    )
    return beam_search(
        step_fn,
        (),
        (),
        max_lengths=tf.fill([batch], steps),
        max_steps=steps,
        config=config,
        bos_id=0,
        eos_id=eos_id,
        pad_id=0 if eos_id else 1,
        **arguments,
    )


def t2t_probs(case):
    """Bring the three layouts of the cases to [step, batch, beam slot, vocab]."""
    if "probs_step_batch_beam_vocab" in case:
        return np.array(case["probs_step_batch_beam_vocab"])
    if "probs_step_beam_vocab" in case:
        return np.array(case["probs_step_beam_vocab"])[:, np.newaxis]
    return np.array(case["probs_step_vocab"])[:, np.newaxis, np.newaxis]


def test_search_gives_the_answers_of_tensor2tensor(golden):
    """All six cases; their ids begin with the start symbol, ours do not."""
    cases = golden["t2t_beam_search"]["cases"]
    assert len(cases) == 6
    for case in cases:
        batch, beam_size = case.get("batch", 1), case["beam"]
        first_only = "expected_first_beam_ids" in case
        result = search_slot_table(
            t2t_probs(case),
            case["eos"],
            alpha=case["alpha"],
            stop_early=case.get("stop_early", True),
            num_best=1 if first_only else beam_size,
        )
        count = 1 if first_only else beam_size
        ids = case["expected_first_beam_ids" if first_only else "expected_ids"]
        ids = np.array(ids).reshape(batch, count, -1)[:, :, 1:]
        tokens = result.tokens.numpy()[:, :count]
        np.testing.assert_array_equal(tokens[..., : ids.shape[-1]], ids, case["name"])
        assert not np.any(tokens[..., ids.shape[-1] :])
        if "expected_scores" in case:
            expected = np.reshape(case["expected_scores"], (batch, count))
            np.testing.assert_allclose(result.scores, expected, rtol=1e-5)
        else:
            name = "expected_first_beam_prob" if first_only else "expected_prob"
            expected = np.reshape(case[name], (batch, count))
            np.testing.assert_allclose(
                np.exp(result.log_probs[:, :count]), expected, rtol=1e-5
            )


def test_search_without_penalty_agrees_with_fairseq_where_the_rules_do(golden):
    """Its first sentence: w1 eos (0.9), then w2 w1 w2 eos (0.1 * 0.9 * 0.9 * 1.0).

    Its second differs by a rule: tensor2tensor and we let any of the 2 * beam_size
    candidates end, so "w1 eos" (0.7 * 0.25) is found; fairseq only the best beam_size.
    """
    case = golden["fairseq_sequence_generator"]
    name = next(key for key in case if key.startswith("probs_step"))
    probs = np.array(case[name]).reshape(4, 2, 2, 3)
    eos_id, w1, w2 = range(3)
    result = search_slot_table(probs, eos_id, alpha=0.0, num_best=2)

    def words(row):
        rows = zip(result.tokens[row].numpy(), result.lengths[row], strict=True)
        return [tokens[: int(length)].tolist() for tokens, length in rows]

    assert words(0) == [[w1, eos_id], [w2, w1, w2, eos_id]]
    np.testing.assert_allclose(np.exp(result.log_probs[0]), [0.9, 0.081], rtol=1e-5)
    assert words(1) == [[w1, eos_id], [w1, w2, eos_id]]
    np.testing.assert_allclose(np.exp(result.log_probs[1]), [0.175, 0.168], rtol=1e-5)
