"""Token rules: which tokens may come next in a search or a sample.

A rule is a function, and `beam_search`, `sample` and `Translator` take a list of them.
Those of a `DecodingConfig` are in `repetition`, those of a vocabulary in
`single_tokens` and `placeholders`, and that of a parser in `parsing.constraint`.
"""

from keras_transformer.decoding.rules.token_rule import (
    Hypotheses,
    TokenRule,
    only_allowed,
)

__all__ = ["Hypotheses", "TokenRule", "only_allowed"]
