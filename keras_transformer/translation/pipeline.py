"""What happens to a text before and after a model translates it.

A text is divided into sentences, what its translation must have is protected in each,
the model is asked, what was protected is restored, sentences that the model cut are
translated in parts, and all is joined in the layout of the text.

`in_parts` is a generator of these steps: it yields sentences and is sent their answers,
so that a thread (`run`), an event loop (`run_async`) and a client of a server can ask.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import itertools
import string
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, NamedTuple, TypeVar

import numpy as np

from keras_transformer import given_texts
from keras_transformer.documents import text as text_lib
from keras_transformer.documents.protection import ProtectedText, Protection
from keras_transformer.translation.batching import first_call_alone, in_batches
from keras_transformer.translation.word_alignment import arguments_of, word_alignment

# Times in a row from which on a phrase is a loop, and words of the longest phrase.
_LOOP = 4
_LONGEST_PHRASE = 8

Result = TypeVar("Result")


class Hypothesis(NamedTuple):
    """One translation."""

    text: str
    # Log probability / length penalty, in nats.
    score: float


class Translation(NamedTuple):
    """The translation of a source text."""

    text: str
    # Log probability / length penalty, in nats; 0 for a source without words; the sum
    # of its parts for a source that was divided.
    score: float
    # Whether the source was cut to its first `max_input_length` tokens.
    truncated: bool
    # The best hypotheses, best first.
    nbest: tuple[Hypothesis, ...]
    # Pairs of a source word and the word of `text` that comes from it, from 0, and the
    # pieces of `text` with their log probabilities in nats; only from functions with
    # the outputs of `Translator.align_batch`.
    alignment: tuple[tuple[int, int], ...] = ()
    token_scores: tuple[tuple[str, float], ...] = ()
    # Whether `text` repeats a phrase as the source does not; see `has_loop`.
    looped: bool = False

    @classmethod
    def of(cls, source: str, outputs: Mapping[str, Any]) -> Translation:
        """Return the translation that the outputs of a signature have for a text.

        Args:
            source: The text.
            outputs: By name, as `rows_of` returns them: "translation" or
                "translations", and what there is of "score", "scores" or
                "log_probability", "truncated" and the outputs of
                `Translator.align_batch`.
        """
        texts = outputs.get("translations") or [outputs["translation"]]
        score = outputs.get("score", outputs.get("log_probability", 0.0))
        scores = outputs.get("scores") or [score] * len(texts)
        alignment, token_scores = (), ()
        if "attention" in outputs:
            arguments = arguments_of(source, {**outputs, "translation": texts[0]})
            alignment = word_alignment(*arguments)
            pieces = filter(None, outputs["target_pieces"])
            log_probs = outputs.get("log_probabilities", ())
            token_scores = tuple(zip(pieces, log_probs, strict=False))
        return cls(
            texts[0],
            scores[0],
            bool(outputs.get("truncated")),
            tuple(map(Hypothesis, texts, scores)),
            alignment,
            token_scores,
            looped=has_loop(texts[0]) and not has_loop(source),
        )

    @classmethod
    def from_json(cls, *values: Any) -> Translation:
        """Return a translation from its fields as `json` writes and reads them."""
        found = cls(*values)
        return found._replace(
            nbest=tuple(Hypothesis(*each) for each in found.nbest),
            alignment=tuple(map(tuple, found.alignment)),
            token_scores=tuple(map(tuple, found.token_scores)),
        )


@dataclasses.dataclass(frozen=True)
class Options:
    """How texts are translated, whatever translates them."""

    # What translations must have.
    protection: Protection = Protection()
    # The model's language tokens, of which a divided text has its own in both parts.
    tokens: tuple[str, ...] = ()
    # Whether texts that the model cuts are translated in parts.
    divides: bool = False
    # For documents: one of `documents.FORMATS`, the code of the language (the rules for
    # sentences; "": unknown), and the most tokens that the model reads; None: unknown.
    format: str = "text"
    language: str = ""
    limit: int | None = None


class Part(NamedTuple):
    """A text or a part of one, as a model translates it."""

    protected: ProtectedText
    # The answer to `protected.text`.
    answer: Any
    # The spaces between this part and the next one.
    after: str = ""

    def translation(self) -> Translation:
        """Return the answer, a `Translation`, with what was protected.

        The alignment of a text with protected parts no longer fits.
        """
        if not self.protected.spans:
            return self.answer
        restore = functools.partial(
            self.protected.restore, alignment=self.answer.alignment
        )
        return self.answer._replace(
            text=restore(self.answer.text),
            nbest=tuple(
                each._replace(text=restore(each.text)) for each in self.answer.nbest
            ),
            alignment=(),
        )


_PLAIN = Options()
# What yields texts to translate, and is sent the answer to each.
Steps = Generator[list[ProtectedText], Sequence[Any], Result]


def segment(text: str, options: Options, token: str = "") -> text_lib.Document:
    """Return the sentences of a text.

    Args:
        text: Paragraphs or the source of a page.
        options: Their format, language and limit.
        token: The language token of sentences that the text gives none; "": none.
    """
    terms = options.protection
    if options.format == "text":
        return text_lib.segment(
            text, options.language, options.limit, options.tokens, token, terms
        )
    from keras_transformer.documents import web_page

    return web_page.segment(
        text,
        options.language,
        options.limit,
        options.protection.num_tag_pairs,
        options.tokens,
        token,
        terms,
    )


def in_parts(texts: Sequence[str], options: Options) -> Steps[list[list[Part]]]:
    """Protect texts, ask for their translations, and divide those that were cut.

    What is asked has whole words: without invisible characters in them, and without
    tags where these are protected.

    Args:
        texts: The sources.
        options: How.

    Yields:
        Texts to translate; is sent an answer to each, whose `truncated` tells whether
        the text was cut.

    Returns:
        The parts of each text: itself, unless it was divided.
    """
    protection = options.protection
    protected = [
        protection.protect(protection.whole_words(given_texts.as_str(text)))
        for text in texts
    ]
    answers = (yield protected) if protected else []
    found = [[Part(*each)] for each in zip(protected, answers, strict=True)]
    divisions = {
        row: division
        for row, answer in enumerate(answers)
        if options.divides
        and answer.truncated
        and (division := text_lib.divide(protected[row].original, options.tokens))
    }
    if divisions:
        # One after the other, so that none has more texts than there were.
        first = yield from in_parts(
            [each.first for each in divisions.values()], options
        )
        rest = yield from in_parts(
            [each.second for each in divisions.values()], options
        )
        for (row, division), parts, others in zip(
            divisions.items(), first, rest, strict=True
        ):
            parts[-1] = parts[-1]._replace(after=division.between)
            found[row] = [*parts, *others]
    return found


def translate(texts: Sequence[str], options: Options) -> Steps[list[Translation]]:
    """Translate texts as `in_parts` does, and return the translation of each.

    One in parts has no `nbest`. Answers must be of type `Translation`.
    """
    found = yield from in_parts(texts, options)
    return [*map(_joined, found)]


def run(steps: Steps[Result], ask: Callable[[list[ProtectedText]], Sequence]) -> Result:
    """Run steps, and ask for the answers in this thread."""
    answers = None
    while True:
        try:
            texts = steps.send(answers)
        except StopIteration as end:
            return end.value
        answers = ask(texts)


async def run_async(
    steps: Steps[Result], ask: Callable[[list[ProtectedText]], Awaitable[Sequence]]
) -> Result:
    """Run steps in a thread, as long texts take seconds; ask in the event loop."""
    answers, end = None, None
    while True:
        texts, end = await asyncio.to_thread(_next, steps, answers)
        if end is not None:
            return end.value
        answers = await ask(texts)


def answering(
    translate_batch: Callable[[Any], Mapping[str, Any]],
    options: Options = _PLAIN,
    first_alone: bool = True,
) -> Callable[[Sequence[str]], list[Translation]]:
    """Return a function that translates a batch of texts, as for `in_blocks`.

    Args:
        translate_batch: A function with the signature of `Translator.translate_batch`.
        options: What else is done with the texts.
        first_alone: Whether no batch begins before one has its answer, as a call that
            traces a graph must be alone.
    """
    import tensorflow as tf

    def ask(protected):
        sources = [each.text for each in protected]
        batch = translate_batch(text=tf.constant(sources, tf.string))
        rows = rows_of({name: values.numpy() for name, values in batch.items()})
        return [*map(Translation.of, sources, rows)]

    def answer(texts):
        return run(translate(texts, options), ask)

    return first_call_alone(answer) if first_alone else answer


def translate_in_batches(
    texts: Sequence[str],
    batch_size: int,
    translate_batch: Callable[[Any], Mapping[str, Any]],
    options: Options = _PLAIN,
    first_alone: bool = True,
) -> list[Translation]:
    """Translate texts in batches of similar length.

    Arguments as in `answering`.
    """
    answer = answering(translate_batch, options, first_alone)
    return in_batches(texts, batch_size, answer)


def translate_documents(
    lines: Iterable[str],
    block_size: int,
    translate_all: Callable[[Sequence[str]], list[Translation]],
    options: Options,
    check: Callable[[int, Sequence[str]], None],
) -> Iterator[tuple[list[str], list[Translation]]]:
    """Translate documents, and yield some as soon as they are done.

    A language token holds for the sentences of all lines until the next one.

    Args:
        lines: Paragraphs, or sources of pages.
        block_size: Number of successive lines whose sentences are translated together.
        translate_all: Translates any number of sentences.
        options: The format of the lines, and what their sentences are.
        check: Called with the number of each line, from 1, and its sentences.

    Yields:
        The translations of successive lines, and those of their sentences.
    """
    told = enumerate(text_lib.with_tokens(lines, options.tokens), start=1)
    while block := list(itertools.islice(told, block_size)):
        documents = []
        for number, (line, token) in block:
            documents.append(segment(line, options, token))
            check(number, documents[-1].texts())
        sentences = [sentence for each in documents for sentence in each.texts()]
        translations = translate_all(sentences)
        yield [best for best, *_ in joined(documents, translations)], translations


def joined(
    documents: Sequence[text_lib.Document], translations: Sequence[Translation]
) -> list[list[str]]:
    """Return the translations of documents, best first, each different.

    Args:
        documents: From `segment`.
        translations: Of the sentences of all, in order.
    """
    remaining = iter(translations)
    return [
        _hypotheses(each, list(itertools.islice(remaining, len(each.texts()))))
        for each in documents
    ]


def rows_of(batch: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return the outputs of a signature for each text of a batch by name.

    Args:
        batch: By name, arrays `[batch, ...]`.
    """
    rows = zip(*batch.values(), strict=True)
    return [values_of(dict(zip(batch, row, strict=True))) for row in rows]


def values_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs for a text as Python values, and attention as an array."""
    return {
        name: value if np.ndim(value) > 1 else as_python(value)
        for name, value in row.items()
    }


def as_python(array: Any) -> Any:
    """Return an array or an item of one as Python values, with bytes as str."""
    if isinstance(array, np.ndarray | np.generic):
        array = array.tolist()
    if isinstance(array, list):
        return [as_python(item) for item in array]
    return array.decode("utf-8", "replace") if isinstance(array, bytes) else array


def has_loop(text: str) -> bool:
    """Return whether a phrase of 1 to 8 words comes four times in a row or more."""
    words = [word.strip(string.punctuation) for word in text.split()]
    if len(words) < _LOOP or max(collections.Counter(words).values()) < _LOOP:
        return False
    for size in range(1, _LONGEST_PHRASE + 1):
        num_equal = 0  # words that equal the one a phrase before them, in a row
        for before, word in zip(words, words[size:], strict=False):
            num_equal = num_equal + 1 if word == before else 0
            if num_equal == (_LOOP - 1) * size:
                return True
    return False


def _next(steps: Steps, answers: Sequence | None) -> tuple[list, StopIteration | None]:
    """Return the next texts of steps, or their end, which no future can raise."""
    try:
        return steps.send(answers), None
    except StopIteration as end:
        return [], end


def _joined(parts: Sequence[Part]) -> Translation:
    """Return the translation of a text from those of its parts."""
    found = [part.translation() for part in parts]
    if len(found) == 1:
        return found[0]
    texts = [translation.text for translation in found]
    spaces = spaces_after(parts, texts)
    return Translation(
        "".join(itertools.chain(*zip(texts, spaces, strict=True))),
        sum(translation.score for translation in found),
        any(translation.truncated for translation in found),
        nbest=(),
        looped=any(translation.looped for translation in found),
    )


def spaces_after(parts: Sequence[Part], translations: Sequence[str]) -> list[str]:
    """Return what stands after the translation of each part of a text."""
    inner = [
        part.after or text_lib.missing_space(part.protected.original, translation)
        for part, translation in zip(parts[:-1], translations, strict=False)
    ]
    return [*inner, *(part.after for part in parts[-1:])]


def _hypotheses(
    document: text_lib.Document, translations: Sequence[Translation]
) -> list[str]:
    """Return the translations of a document whose sentences have several each."""
    each = [
        [hypothesis.text for hypothesis in translation.nbest] or [translation.text]
        for translation in translations
    ]
    # The n-th of each sentence; its best where there are fewer.
    texts = [
        document.join([(texts[n : n + 1] or [""])[0] or texts[0] for texts in each])
        for n in range(max(map(len, each), default=1))
    ]
    return list(dict.fromkeys(texts))
