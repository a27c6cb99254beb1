"""Sentences and trees as strings, in the graph, for exported parsers.

Implements `trees.escape`, `linearisation.tags_of` and `trees.write` with TensorFlow
operations. Words are compared directly instead of looked up in a table, because a table
is a resource that every enclosing module would have to track.
"""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.parsing.symbols import SymbolVocabulary
from keras_transformer.treebank import linearisation, trees


def split_words(text: tf.Tensor) -> tf.RaggedTensor:
    """Split sentences at ASCII white space, the same as when trees are read.

    Args:
        text: string `[batch]`; bytes that are not valid UTF-8 become U+FFFD.

    Returns:
        string `[batch, (words)]`.
    """
    return tf.strings.split(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8"))


def escape_words(words: tf.RaggedTensor) -> tf.RaggedTensor:
    """Convert words to the treebank's form, same as `trees.escape`."""

    def escaped(flat):
        for word, name in trees.BRACKETS.items():
            flat = tf.where(flat == word, name, flat)
        for bracket in "()":
            flat = tf.strings.regex_replace(
                flat, f"[{bracket}]", trees.BRACKETS[bracket]
            )
        return flat

    return tf.ragged.map_flat_values(escaped, words)


def tags_of(words: tf.RaggedTensor) -> tf.Tensor:
    """Tag punctuation by its form, same as `linearisation.tags_of`.

    Args:
        words: string `[batch, (words)]`, unescaped.

    Returns:
        string `[batch, max_words]`: "XX" for words that are not punctuation.
    """
    dense = words.to_tensor()
    tags = tf.fill(tf.shape(dense), linearisation.UNKNOWN_TAG)
    for tag, forms in linearisation.WORDS_OF_TAG.items():
        is_form = tf.reduce_any(dense[:, :, tf.newaxis] == forms.split(), axis=2)
        tags = tf.where(is_form, tag, tags)
    return tf.where(_closes_quotation(dense), "''", tags)


def _closes_quotation(words: tf.Tensor) -> tf.Tensor:
    """Return which words are a "'" that closes an open "`", bool `[batch, n]`."""
    is_quote = words == "'"
    balance = tf.cumsum(
        tf.cast(words == "`", tf.int32) - tf.cast(is_quote, tf.int32), axis=1
    )
    # A "'" without an open "`" closes nothing, so compare with the running minimum.
    before = tf.pad(balance, [[0, 0], [1, 0]])[:, :-1]
    return is_quote & (before > _running_minimum(before))


def _running_minimum(values: tf.Tensor) -> tf.Tensor:
    """Return the cumulative minimum along the last axis, int32 `[batch, n]`."""
    length = tf.shape(values)[1]

    def double(reach, lowest):
        shifted = tf.pad(lowest, [[0, 0], [reach, 0]], constant_values=values.dtype.max)
        return 2 * reach, tf.minimum(lowest, shifted[:, :length])

    _, lowest = tf.while_loop(
        lambda reach, _: reach < length,
        double,
        (1, values),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
    )
    return lowest


def write_trees(
    vocabulary: SymbolVocabulary,
    tokens: tf.Tensor,
    words: tf.RaggedTensor,
) -> tf.Tensor:
    """Write trees as brackets on one line, same as `trees.write`.

    Tags are those of `linearisation.merge_tags`.

    Args:
        vocabulary: The vocabulary of the symbols.
        tokens: int32 `[batch, max_steps]`: each row is a tree, EOS and padding, or
            padding only.
        words: string `[batch, (words)]`, unescaped. Words without a symbol are appended
            to the root.

    Returns:
        string `[batch]`; "" for a row without symbols.
    """
    # By id: the text of a bracket, and the predicted tag of a word.
    parts = [""] * vocabulary.vocab_size
    tags = [linearisation.UNKNOWN_TAG] * vocabulary.vocab_size
    for number in vocabulary.word_ids:
        tag = vocabulary.symbols[number]
        if tag not in linearisation.WORDS_OF_TAG:
            tags[number] = tag
    for number in vocabulary.opening_ids:
        parts[number] = f" {vocabulary.symbols[number]}"
    for number in vocabulary.closing_ids:
        parts[number] = ")"
    is_word = tf.gather(vocabulary.is_word, tokens)
    position = tf.cumsum(tf.cast(is_word, tf.int32), axis=1)  # from 1
    own_tags, escaped = tags_of(words), escape_words(words).to_tensor()

    def written(own_tags, tags, escaped):
        tags = tf.where(own_tags == linearisation.UNKNOWN_TAG, tags, own_tags)
        leaves = tf.strings.join([" (", tags, " ", escaped, ")"])
        return tf.where(escaped == "", "", leaves)

    def per_symbol(per_word):
        # One more column, so that the gather is valid if no sentence has words.
        padded = tf.pad(per_word, [[0, 0], [1, 0]])
        return tf.gather(padded, tf.where(is_word, position, 0), batch_dims=1)

    own = written(per_symbol(own_tags), tf.gather(tags, tokens), per_symbol(escaped))
    body = tf.strings.reduce_join(tf.where(is_word, own, tf.gather(parts, tokens)), 1)
    num_written = tf.reduce_sum(tf.cast(is_word, tf.int32), axis=1, keepdims=True)
    is_left = tf.range(tf.shape(escaped)[1]) >= num_written
    unseen = written(
        own_tags, tf.fill(tf.shape(escaped), linearisation.UNKNOWN_TAG), escaped
    )
    left = tf.strings.reduce_join(tf.where(is_left, unseen, ""), 1)
    # Drop the space before the root, and put the words left before its closing bracket.
    is_none = body == ""
    body = tf.where(is_none, "()", body)
    length = tf.strings.length(body)
    inner = tf.strings.substr(body, tf.ones_like(length), length - 2)
    return tf.where(is_none, "", tf.strings.join([inner, left, ")"]))
