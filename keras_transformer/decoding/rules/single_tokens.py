"""Rules on single tokens, whatever the hypotheses have."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.decoding.rules.token_rule import TokenRule


def never(ids: Sequence[int]) -> TokenRule:
    """Rule out some tokens, at least one."""

    def rule(hypotheses, step, source):
        del step, source
        return tf.reduce_all(hypotheses.ids[:, tf.newaxis] != [*ids], axis=1)

    return rule


def begin_with(first_id: int) -> TokenRule:
    """Allow only one token at the beginning of an output."""

    def rule(hypotheses, step, source):
        del source
        return (hypotheses.ids == first_id) | (step > 0)

    return rule
