"""What a token rule is, and where all rules of a search are applied."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf


class Hypotheses(NamedTuple):
    """The outputs so far, as a rule sees them."""

    tokens: tf.Tensor  # int32 [batch, beam, max_steps]: the tokens so far, then padding
    limits: tf.Tensor  # int32 [batch]: most tokens of an output, EOS counted
    ids: tf.Tensor  # int32 [vocab]: the ids that the answer is about


# (hypotheses, step int32 [], source) -> bool, broadcasts to [batch, beam, vocab]:
# True = the token may come next. `step` is the number of tokens so far, `source` what
# the search was given for each sentence, a nest of tensors [batch, ...].
TokenRule = Callable[[Hypotheses, tf.Tensor, Any], tf.Tensor]


def only_allowed(
    rules: Sequence[TokenRule],
    logits: tf.Tensor,
    tokens: tf.Tensor,
    limits: tf.Tensor,
    step: int | tf.Tensor,
    source: Any,
    is_given: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return the logits with -inf for tokens that a rule does not allow.

    Args:
        rules: The rules.
        logits: float `[batch, beam, vocab]`.
        tokens: Same as in `Hypotheses`.
        limits: Same as in `Hypotheses`.
        step: Passed to the rules.
        source: Passed to the rules.
        is_given: bool `[batch]`: whose next token is given and obeys no rule.

    Raises:
        ValueError: If the answer of a rule has a wrong dtype or shape.
    """
    if not rules:
        return logits
    ids = tf.range(logits.shape[-1] or tf.shape(logits)[-1])
    hypotheses = Hypotheses(tokens, limits, ids)
    answers = [_checked(rule(hypotheses, step, source), logits) for rule in rules]
    # Small answers first: the large ones are read once.
    answers.sort(key=lambda answer: answer.shape.rank)
    allowed = functools.reduce(operator.and_, answers)
    if is_given is not None:
        allowed |= is_given[:, tf.newaxis, tf.newaxis]
    return tf.where(allowed, logits, -math.inf)


def _checked(answer, logits):
    answer, wanted = tf.convert_to_tensor(answer), logits.shape
    try:
        found = tf.broadcast_static_shape(answer.shape, wanted)
        is_shaped = found.rank == 3 and found.is_compatible_with(wanted)
    except ValueError:
        is_shaped = False
    if not (is_shaped and answer.dtype == tf.bool):
        raise ValueError(
            "A token rule must return bool that broadcasts to [batch, beam, vocab], "
            f"here {wanted}. Received: dtype={answer.dtype.name}, "
            f"shape={answer.shape}."
        )
    return answer
