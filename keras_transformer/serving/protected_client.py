"""Asks a server for translations that must have addresses, numbers, tags and terms.

A server does not say whether the vocabulary of its model has placeholders or language
tokens, but the signature `align` shows the pieces that it makes of a text.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from keras_transformer import given_texts, language_tokens, spans
from keras_transformer.config import SPACE, TAG, PairEncoding
from keras_transformer.documents.protection import Protection
from keras_transformer.documents.text import after_signs, lines_of
from keras_transformer.serving import client
from keras_transformer.translation import pipeline

# Signatures whose answers can have what is protected. All but the first need a model
# with placeholders.
SIGNATURES = ("serving_default", "nbest", "document", "multilingual")
# Placeholders that are looked for.
_MOST = PairEncoding(placeholders=64)


def find_placeholders(config: client.ClientConfig) -> list[str]:
    """Return the placeholders and tags of a served model's vocabulary, at most 64.

    Args:
        config: Server and model.

    Raises:
        ValueError: If the server does not have the model or its signature `align`.
        ConnectionError: If the server is absent or busy until the deadline.
        TimeoutError: If the deadline passes while the server works.
    """
    config = dataclasses.replace(config, signature="align")
    singles = _MOST.symbols[: _MOST.placeholders]
    first = _pieces(config, singles[:1])
    if not first:
        return []
    # A tag alone would have nothing to be nested in.
    return [*first, *_pieces(config, [*singles[1:], *map("".join, _MOST.tags)])]


def find_tokens(config: client.ClientConfig, texts: Sequence[str]) -> list[str]:
    """Return the symbols of a served model that lines of some texts begin with.

    Language tokens and markers of corpora, also after the sign of a list.

    Args:
        config: Server and model.
        texts: The texts.

    Raises:
        ValueError: As in `find_placeholders`.
        ConnectionError: As in `find_placeholders`.
        TimeoutError: As in `find_placeholders`.
    """
    found = sorted(
        {
            marker
            for text in texts
            for line in lines_of(text)
            for marker in spans.leading(line[after_signs(line) :])
            if language_tokens.code_of(marker) or TAG.fullmatch(marker)
        }
    )
    if not found:
        return []
    config = dataclasses.replace(config, signature="align")
    # A token alone would be no text.
    answers = client.ask(config, {"text": [f"{token} a" for token in found]})
    return [
        token
        for token, answer in zip(found, answers, strict=True)
        if answer["source_pieces"][0].removeprefix(SPACE) == token
    ]


def ask(
    config: client.ClientConfig, inputs: Mapping[str, Sequence], protection: Protection
) -> Iterator[dict[str, Any]]:
    """Same as `client.ask`, with what is protected in the translations.

    Without placeholders it asks the signature `align` instead of `serving_default`. For
    `document` the sentences are found here, with the rules for texts of an unknown
    language, and each is protected; they are translated by `serving_default`.

    Args:
        config: Server and requests; its signature is among `SIGNATURES`.
        inputs: Same as in `client.ask`.
        protection: What is protected, with the placeholders and tokens of the model.

    Raises:
        ValueError: If the signature needs placeholders, and as in `client.ask`.
        ConnectionError: As in `client.ask`.
        TimeoutError: As in `client.ask`.
    """
    if protection.needs_alignment:
        if config.signature != "serving_default":
            raise ValueError(
                f"--signature={config.signature} with --protect or --glossary needs a "
                "model with placeholders, see bin/prepare_data.py --placeholders."
            )
        config = dataclasses.replace(config, signature="align")
    options, translate = pipeline.Options(protection), _translate
    if config.signature == "document":
        config = dataclasses.replace(config, signature="serving_default")
        tokens = tuple(filter(language_tokens.code_of, protection.tokens))
        options = pipeline.Options(protection, tokens, divides=True)
        translate = functools.partial(_translate_documents, config.batch_size)
    yield from client.ask(config, inputs, functools.partial(translate, options))


def _pieces(config: client.ClientConfig, texts: Sequence[str]) -> list[str]:
    """Return the pieces that texts of placeholders consist of, if these are pieces."""
    known = set(_MOST.symbols)
    return [
        piece
        for answer in client.ask(config, {"text": texts})
        for piece in answer["source_pieces"]
        if piece in known
    ]


def _translate(
    options: pipeline.Options, send: Callable, inputs: client.Batch
) -> client.Answers:
    """Return the answers to a batch, with what is protected."""
    answers = []

    def ask(protected):
        texts = [each.text for each in protected]
        answers.extend(send({**inputs, "text": texts}))
        return [*map(pipeline.Translation.of, texts, answers)]

    found = pipeline.run(pipeline.translate(inputs["text"], options), ask)
    return [*map(_with, answers, found)]


def _translate_documents(
    batch_size: int, options: pipeline.Options, send: Callable, inputs: client.Batch
) -> client.Answers:
    """Return the answers to a batch of texts, sentence by sentence.

    Args:
        batch_size: Sentences in a request.
        options: How they are translated.
        send: Sends a batch.
        inputs: The texts.
    """

    def ask(protected):
        texts = [each.text for each in protected]
        starts = range(0, len(texts), batch_size)
        batches = [texts[start : start + batch_size] for start in starts]
        answers = itertools.chain(*(send({"text": batch}) for batch in batches))
        return [*map(pipeline.Translation.of, texts, answers)]

    texts = [given_texts.as_str(text) for text in inputs["text"]]
    documents = [pipeline.segment(text, options) for text in texts]
    sentences = [sentence for each in documents for sentence in each.texts()]
    translations = pipeline.run(pipeline.translate(sentences, options), ask)
    is_cut = (each.truncated for each in translations)
    return [
        {
            "translation": best,
            "truncated": any([*itertools.islice(is_cut, len(document.sentences))]),
        }
        for document, (best, *_) in zip(
            documents, pipeline.joined(documents, translations), strict=True
        )
    ]


def _with(answer: dict[str, Any], found: pipeline.Translation) -> dict[str, Any]:
    """Return an answer of a signature with other translations."""
    if "translations" in answer:
        return answer | {"translations": [each.text for each in found.nbest]}
    kept = ("score", "truncated") if "attention" in answer else answer
    return {name: answer[name] for name in kept} | {"translation": found.text}
