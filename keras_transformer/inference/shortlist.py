"""The ids that a search chooses from: the whole vocabulary, or a lexical shortlist.

The pre-softmax map is the largest product of a step. With a shortlist it has only the
pieces that the source pieces of a batch usually go with, and some that every search may
need. The search then works with their numbers in the list: `OutputIds` translates
between these and the model's ids, and the search itself does not know of it.
"""

from __future__ import annotations

import io
import os
import pathlib
import zipfile

import numpy as np
import tensorflow as tf

from keras_transformer import atomic_files
from keras_transformer.config import ModelConfig
from keras_transformer.decoding.rules import TokenRule

FORMAT_VERSION = 1

_REMEDY = "Make it with bin/make_shortlist.py"


class OutputIds:
    """The ids that a search chooses from: here all, with the model's numbers.

    Args:
        config: Configuration of the model.
    """

    # The model's id of each number, int32 [size]; None: all ids, numbered as they are.
    listed: tf.Tensor | None = None

    def __init__(self, config: ModelConfig):
        self._config = config

    @property
    def special_ids(self) -> dict[str, int]:
        """The numbers of BOS, EOS and padding, as keyword arguments of `decoding`."""
        names = ("bos_id", "eos_id", "pad_id")
        return {name: getattr(self._config, name) for name in names}

    def of_model(self, tokens: tf.Tensor) -> tf.Tensor:
        """Return the model's ids of numbers of the search."""
        return tokens

    def of_search(self, tokens: tf.Tensor) -> tf.Tensor:
        """Return the numbers of the search for ids of the model, which it must have."""
        return tokens

    def rule_of_search(self, rule: TokenRule) -> TokenRule:
        """Return a rule on numbers of the search for one on ids of the model."""
        return rule


class _ListedIds(OutputIds):
    """The ids of a list, which begins with `always`."""

    def __init__(self, config: ModelConfig, always: np.ndarray, listed: tf.Tensor):
        super().__init__(config)
        self._always = always
        self.listed = listed

    @property
    def special_ids(self):
        ids = super().special_ids
        return {name: int(np.searchsorted(self._always, ids[name])) for name in ids}

    def of_model(self, tokens):
        return tf.gather(self.listed, tokens)

    def of_search(self, tokens):
        numbers = tf.scatter_nd(
            self.listed[:, tf.newaxis],
            tf.range(tf.size(self.listed)),
            [self._config.output_vocab_size],
        )
        return tf.gather(numbers, tokens)

    def rule_of_search(self, rule):
        def rule_of_numbers(hypotheses, step, source):
            tokens = self.of_model(hypotheses.tokens)
            hypotheses = hypotheses._replace(tokens=tokens, ids=self.listed)
            return rule(hypotheses, step, source)

        return rule_of_numbers


class Shortlist(tf.Module):
    """The target pieces that each source piece usually goes with.

    Args:
        always: int32 `[count]`, sorted ids that are in every list, among them all that
            a search may need whatever the source is.
        translations: int32 `[vocab_size, most]`, ids for each source piece, filled with
            one of `always`.
    """

    def __init__(self, always: np.ndarray, translations: np.ndarray):
        super().__init__(name="shortlist")
        self.always = np.asarray(always, np.int32)
        self.translations = tf.Variable(translations, trainable=False, dtype=tf.int32)

    def ids_of(
        self,
        config: ModelConfig,
        source_tokens: tf.Tensor,
        forced_prefix: tf.Tensor | None = None,
    ) -> OutputIds:
        """Return the ids for the search of a batch.

        These are `always`, then the pieces of all source tokens and of the prefixes.

        Args:
            config: Configuration of the model.
            source_tokens: int32 `[batch, source_length]`.
            forced_prefix: int32 `[batch, prefix_length]`, padded; None: no prefix.
        """
        pieces, _ = tf.unique(tf.reshape(source_tokens, [-1]))
        found = tf.reshape(tf.gather(self.translations, pieces), [-1])
        if forced_prefix is not None:
            found = tf.concat([found, tf.reshape(forced_prefix, [-1])], axis=0)
        sizes = [config.output_vocab_size]
        is_found = tf.scatter_nd(found[:, tf.newaxis], tf.ones_like(found), sizes) > 0
        is_always = np.zeros(sizes, bool)
        is_always[self.always] = True
        others = tf.where(is_found & ~is_always)[:, 0]
        listed = tf.concat([self.always, tf.cast(others, tf.int32)], axis=0)
        return _ListedIds(config, self.always, listed)

    def check(self, config: ModelConfig, beam_size: int) -> None:
        """Raise ValueError unless the list fits a model and its search."""
        special = {config.pad_id, config.bos_id, config.eos_id}
        highest = max(self.always.max(), self.translations.numpy().max(initial=0))
        if (
            self.translations.shape[0] != config.vocab_size
            or highest >= config.output_vocab_size
            or not special <= set(self.always.tolist())
        ):
            raise ValueError(
                "The shortlist is not the model's: it must have a row for each of "
                f"{config.vocab_size} source pieces, ids below "
                f"{config.output_vocab_size}, and the special ids in every list. "
                f"Received: {self.translations.shape[0]} rows, ids up to {highest}."
            )
        # The candidates of a step may all continue one hypothesis.
        if 2 * beam_size > len(self.always):
            raise ValueError(
                "`beam_size` must be at most half the number of pieces that are in "
                f"every list. Received: beam_size={beam_size}, and {len(self.always)} "
                "pieces. Make the shortlist with a larger --frequent."
            )

    def save(self, path: str | os.PathLike, tokenizer_hash: str) -> None:
        """Write the list atomically.

        Args:
            path: The file.
            tokenizer_hash: `fingerprint` of the tokenizer.
        """
        content = io.BytesIO()
        np.savez_compressed(
            content,
            format_version=FORMAT_VERSION,
            tokenizer_hash=tokenizer_hash,
            always=self.always,
            translations=self.translations.numpy(),
        )
        atomic_files.atomic_write(path, content.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike, tokenizer_hash: str) -> Shortlist:
        """Read a list that `save` wrote.

        Args:
            path: The file.
            tokenizer_hash: `fingerprint` of the tokenizer that it must be for.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it is damaged, of another format version, or was made for
                another vocabulary.
        """
        path = pathlib.Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"No {path.name} in {path.parent}. {_REMEDY} "
                f"--model_dir={path.parent}, or drop --shortlist."
            )
        try:
            with open(path, "rb") as file, np.load(file) as stored:
                values = {name: stored[name] for name in stored.files}
            version, made_for = int(values["format_version"]), values["tokenizer_hash"]
            always, translations = values["always"], values["translations"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is damaged. {_REMEDY} again.") from error
        if version != FORMAT_VERSION:
            raise ValueError(
                f"{path} has format version {version}; this program reads version "
                f"{FORMAT_VERSION}. {_REMEDY} again."
            )
        if str(made_for) != tokenizer_hash:
            raise ValueError(
                f"{path} was made for another vocabulary than the model's. {_REMEDY} "
                "again."
            )
        return cls(always, translations)
