"""Step functions for search tests, and what a search over them must find."""

import itertools
import math

import numpy as np
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding import NEGATIVE_INFINITY, beam_search

# The ids of the fake vocabularies: EOS is written ".", then come letters. BOS and the
# padding are outside the vocabulary: neither can be mistaken for an output.
EOS_ID, BOS_ID, PAD_ID = 0, 97, 96
LETTERS = ".abcdefgh"


class PrefixModel:
    """A model whose next token depends on the whole output so far, through `Past`.

    Its cache are the tokens that were fed, one a column, never reordered, as the
    self-attention cache of a real decoder. A hypothesis that reads a wrong past gets
    the probabilities of another prefix, or, with anything but one ancestor a step, NaN.

    Args:
        logits: float `[batch, prefixes, vocab]`, the prefixes in the order of
            `prefix_number`. With fewer rows, prefixes share them in turn.
    """

    def __init__(self, logits: np.ndarray):
        self.logits = tf.cast(logits, tf.float32)
        self.vocab_size = logits.shape[-1]

    def empty_cache(self):
        return tf.zeros([tf.shape(self.logits)[0], 1, 0], tf.int32)

    def step(self, tokens, step, past, source, cache):
        beam_size = tf.shape(tokens)[1]
        is_now = tf.range(tf.shape(cache)[2]) - past.first_column
        is_own = is_now == tf.range(beam_size)[:, tf.newaxis]  # [beam, columns]
        written = tf.reduce_sum(
            tf.where(is_own, tokens[:, :, tf.newaxis], 0), axis=1, keepdims=True
        )
        cache = tf.where(tf.reduce_any(is_own, axis=0), written, cache)
        # [batch, beam, columns] by the steps of the columns: [batch, beam, steps]
        steps = tf.range(self.max_steps)
        at_step = past.steps[:, tf.newaxis, :, tf.newaxis] == steps
        at_step &= past.ancestry[..., tf.newaxis]
        ancestors = tf.reduce_sum(tf.cast(at_step, tf.int32), axis=2)
        is_seen = tf.cast(steps <= step, tf.int32)
        is_sound = tf.reduce_all(ancestors == is_seen, axis=-1)
        read = tf.where(at_step, cache[..., tf.newaxis], 0)
        read = tf.reduce_sum(read, axis=2)  # the tokens of each hypothesis
        is_sound &= read[:, :, 0] == BOS_ID
        number = tf.zeros_like(tokens)
        for position in range(1, self.max_steps):
            longer = number * self.vocab_size + read[:, :, position] + 1
            longer %= source.shape[1]
            number = tf.where(position <= step, longer, number)
        logits = tf.gather(source, number, batch_dims=1)
        return tf.where(is_sound[:, :, tf.newaxis], logits, math.nan), cache


def prefix_number(prefix, vocab_size: int, num_rows: int | None = None) -> int:
    """Number the prefixes as the nodes of a tree, level by level.

    With `num_rows`, give the row of a table that may be shorter.
    """
    number = 0
    for token in prefix:
        number = number * vocab_size + token + 1
    return number % num_rows if num_rows else number


def num_prefixes(vocab_size: int, max_steps: int) -> int:
    """Count the prefixes of fewer than `max_steps` tokens."""
    return sum(vocab_size**length for length in range(max_steps))


def random_model(seed, batch=1, vocab_size=3, max_steps=4, scale=1.5) -> PrefixModel:
    shape = (batch, num_prefixes(vocab_size, max_steps), vocab_size)
    return PrefixModel(np.random.default_rng(seed).normal(scale=scale, size=shape))


def spelling_model(*sentences, letters: str, max_steps: int) -> PrefixModel:
    """A model given by probabilities: {"": {"a": 0.6, "b": 0.4}, "a": {".": 1.0}}.

    A prefix that is not named is sure to end; a letter not named is impossible.
    """
    size = len(letters) + 1
    probs = np.zeros((len(sentences), num_prefixes(size, max_steps), size))
    probs[:, :, EOS_ID] = 1.0
    for row, sentence in zip(probs, sentences, strict=True):
        for prefix, distribution in sentence.items():
            number = prefix_number([LETTERS.index(letter) for letter in prefix], size)
            row[number] = [distribution.get(x, 0.0) for x in LETTERS[:size]]
    with np.errstate(divide="ignore"):
        return PrefixModel(np.log(probs))


def search(model, max_lengths, max_steps=None, beam_size=4, alpha=0.6, **arguments):
    """Beam search over a `PrefixModel`."""
    max_steps = max_steps or max(max_lengths)
    model.max_steps = max_steps
    config = DecodingConfig(
        beam_size=beam_size,
        length_penalty_alpha=alpha,
        force_eos=arguments.pop("force_eos", False),
        certain_eos=arguments.pop("certain_eos", False),
        no_repeat_ngram_size=arguments.pop("no_repeat_ngram_size", 0),
        max_repetitions=arguments.pop("max_repetitions", 0),
        early_stopping=arguments.pop("early_stopping", False),
        renormalize=arguments.pop("renormalize", False),
    )
    return beam_search(
        model.step,
        model.logits,
        model.empty_cache(),
        max_lengths=tf.convert_to_tensor(max_lengths, tf.int32),
        max_steps=max_steps,
        config=config,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        pad_id=PAD_ID,
        **arguments,
    )


def spelled(result, sentence: int = 0) -> list[str]:
    """The hypotheses of a sentence as text, best first; empty slots left out."""
    rows = zip(result.tokens[sentence], result.lengths[sentence], strict=True)
    return ["".join(LETTERS[i] for i in row[:n]) for row, n in rows if n > 0]


def token_log_probs(model, sentence: int) -> np.ndarray:
    """The log-softmax of the model's table, in float64."""
    logits = model.logits.numpy()[sentence].astype(np.float64)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return logits - total


def log_prob_of(model, sentence: int, tokens) -> float:
    """The sum of log p of an output, from the model's table."""
    table, size = token_log_probs(model, sentence), model.vocab_size
    prefixes = (prefix_number(tokens[:n], size, len(table)) for n in range(len(tokens)))
    return sum(table[p, token] for p, token in zip(prefixes, tokens, strict=True))


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def enumerated(model, sentence: int, limit: int, alpha: float):
    """Every possible output: [(finished, score, tokens)], in the order of the rules."""
    letters = range(1, model.vocab_size)
    outputs = [
        (*word, EOS_ID)
        for length in range(limit)
        for word in itertools.product(letters, repeat=length)
    ]
    outputs += itertools.product(letters, repeat=limit)
    ranked = []
    for tokens in outputs:
        score = log_prob_of(model, sentence, tokens) / penalty(len(tokens), alpha)
        if score > NEGATIVE_INFINITY:
            ranked.append((tokens[-1] == EOS_ID, score, tokens))
    return sorted(ranked, reverse=True)


def reference_search(
    model,
    sentence: int,
    limit: int,
    beam_size: int,
    alpha: float,
    is_allowed=lambda tokens: True,
    early_stopping: bool = False,
    renormalize: bool = False,
):
    """The rules of the search in lists: [(finished, score, tokens)], best first."""
    table, size = token_log_probs(model, sentence), model.vocab_size
    num_rows = len(table)
    alive, finished = [(0.0, ())], []

    def continued(log_prob, tokens):
        row = table[prefix_number(tokens, size, num_rows)]
        allowed = [x for x in range(size) if is_allowed((*tokens, x))]
        total = np.log(np.exp(row[allowed]).sum()) if renormalize else 0.0
        return [(log_prob + row[x] - total, (*tokens, x)) for x in allowed]

    for _ in range(limit):
        longer = [each for one in alive for each in continued(*one)]
        wanted = 2 * beam_size if beam_size > 1 else 1
        longer = sorted(longer, reverse=True)[:wanted]
        may_end = longer[:beam_size] if early_stopping else longer
        ending = [
            (x / penalty(len(y), alpha), y) for x, y in may_end if y[-1] == EOS_ID
        ]
        finished = sorted(finished + ending, reverse=True)[:beam_size]
        alive = [x for x in longer if x[1][-1] != EOS_ID][:beam_size]
        if early_stopping and len(finished) == beam_size:
            return [(True, *x) for x in finished]
    ranked = [(True, *x) for x in finished]
    ranked += [(False, x / penalty(limit, alpha), y) for x, y in alive]
    return ranked[:beam_size]
