"""A model that is loaded, from wherever: what to know of it, and what answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer import language_tokens
from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE

if TYPE_CHECKING:
    from keras_transformer.translation.pipeline import Translation

# What a model can be opened for: translations, those with the alignment of words, those
# with what is protected (aligned, unless the vocabulary has placeholders), drawn ones,
# trees, and requests of all signatures.
USES = ("translate", "align", "protect", "sample", "parse", "serve")


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """What to know of a model before it is asked."""

    version: int = 1
    # Codes of the languages of all signatures but `multilingual`; "": unknown.
    source_language: str = ""
    target_language: str = ""
    # Codes that `multilingual` takes.
    languages: tuple[str, ...] = ()
    # What a text may begin with to tell its target language, such as ">>de<<".
    language_tokens: tuple[str, ...] = ()
    # Those, and markers of corpora such as "<news>".
    markers: tuple[str, ...] = ()
    # The language of texts that tell none; None: each must tell it.
    default_language: str | None = None
    # Most tokens of a text; longer ones are cut. None: unknown.
    max_input_length: int | None = None
    # Names of the placeholders and tags of the vocabulary.
    placeholders: tuple[str, ...] = ()

    def target_token(self, target: str) -> str:
        """Return what tells a text its target language; "": nothing does."""
        token = language_tokens.token_of(target)
        return token if token in self.language_tokens else ""


@dataclasses.dataclass(frozen=True)
class OpenedModel(ModelFacts):
    """A model that is loaded; see `opening`."""

    # Takes `text`, string [batch], and returns the outputs of a signature by name; None
    # for the use "serve".
    run_batch: Callable[..., Mapping[str, Any]] | None = None
    # For the use "serve" the concrete function of each signature by name.
    signatures: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # What compiles searches beside the batches, a `CompilerBeside`; None: nothing does.
    compiler: Any = None
    # The `Translator` or `Parser` of a run; None: it is an export.
    searcher: Any = None
    # What owns the weights, which no function keeps alive.
    owner: Any = None
    # Whether no batch may run beside the first, which traces a graph.
    first_alone: bool = True

    def translate(
        self, texts: Sequence[str], batch_size: int = TRANSLATION_BATCH_SIZE
    ) -> list[Translation]:
        """Translate texts in batches of similar length; keeps the order.

        Args:
            texts: The sources; see `given_texts.each`. One is a list of itself.
            batch_size: Most sources of a batch.

        Raises:
            TypeError: If a source is no string.
        """
        from keras_transformer.translation.pipeline import translate_in_batches

        return translate_in_batches(
            texts, batch_size, self.run_batch, first_alone=self.first_alone
        )
