"""Sentences and trees as strings, in the graph: what an exported parser needs.

The same rules as `trees.escape`, `linearisation.tags_of` and `trees.write`, in
operations on tensors. Words are looked up by comparing, not in a table: a table would
be a resource that every module around has to hold.
"""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.parsing.symbols import SymbolVocabulary
from keras_transformer.treebank import linearisation, trees


def split_words(text: tf.Tensor) -> tf.RaggedTensor:
    """Split sentences at ASCII white space, as trees are read.

    Args:
        text: string `[batch]`; bytes that are no UTF-8 become U+FFFD.

    Returns:
        string `[batch, (words)]`.
    """
    return tf.strings.split(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8"))


def escape_words(words: tf.RaggedTensor) -> tf.RaggedTensor:
    """Bring words into the treebank's form, as `trees.escape` does."""

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
    """Tag punctuation by its form, as `linearisation.tags_of` does.

    Args:
        words: string `[batch, (words)]`, unescaped.

    Returns:
        string `[batch, most words]`: "XX" for what is no punctuation.
    """
    dense = words.to_tensor()
    tags = tf.fill(tf.shape(dense), linearisation.UNKNOWN_TAG)
    for tag, forms in linearisation.WORDS_OF_TAG.items():
        is_form = tf.reduce_any(dense[:, :, tf.newaxis] == forms.split(), axis=2)
        tags = tf.where(is_form, tag, tags)
    return tf.where(_closes_quotation(dense), "''", tags)


def _closes_quotation(words: tf.Tensor) -> tf.Tensor:
    """Say which "'" has a "`" before it that no other has closed, bool `[batch, n]`."""
    is_quote = words == "'"
    balance = tf.cumsum(
        tf.cast(words == "`", tf.int32) - tf.cast(is_quote, tf.int32), axis=1
    )
    # Where nothing is open a "'" closes nothing: count from the lowest balance so far.
    before = tf.pad(balance, [[0, 0], [1, 0]])[:, :-1]
    return is_quote & (before > _running_minimum(before))


def _running_minimum(values: tf.Tensor) -> tf.Tensor:
    """The least of each number and those before it, int32 `[batch, n]`."""
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
    """Write trees as brackets on one line, as `trees.write` does.

    Tags are `linearisation.merge_tags`.

    Args:
        vocabulary: Of the symbols.
        tokens: int32 `[batch, max_steps]`: of each a tree, EOS and padding, or no
            symbol at all.
        words: string `[batch, (words)]`, unescaped. Where there are more words than
            symbols for them, those left stand last in the root.

    Returns:
        string `[batch]`; "" for no symbol.
    """
    # By id: what is written of a bracket, and the tag of a word whose form has none.
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

    def of_symbols(of_words):
        # One more, so that there is something to look up where no sentence has words.
        padded = tf.pad(of_words, [[0, 0], [1, 0]])
        return tf.gather(padded, tf.where(is_word, position, 0), batch_dims=1)

    own = written(of_symbols(own_tags), tf.gather(tags, tokens), of_symbols(escaped))
    body = tf.strings.reduce_join(tf.where(is_word, own, tf.gather(parts, tokens)), 1)
    num_written = tf.reduce_sum(tf.cast(is_word, tf.int32), axis=1, keepdims=True)
    is_left = tf.range(tf.shape(escaped)[1]) >= num_written
    unseen = written(
        own_tags, tf.fill(tf.shape(escaped), linearisation.UNKNOWN_TAG), escaped
    )
    left = tf.strings.reduce_join(tf.where(is_left, unseen, ""), 1)
    # Without the space before the root, and its bracket after what is left.
    is_none = body == ""
    body = tf.where(is_none, "()", body)
    length = tf.strings.length(body)
    inner = tf.strings.substr(body, tf.ones_like(length), length - 2)
    return tf.where(is_none, "", tf.strings.join([inner, left, ")"]))
