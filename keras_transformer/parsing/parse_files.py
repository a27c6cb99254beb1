"""Parsing files of sentences; bad sentences are errors or, if requested, left out."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from keras_transformer import atomic_files, text_files, white_space
from keras_transformer.parsing.parser import (
    Parse,
    Parser,
    ParseText,
    parse_in_batches,
)
from keras_transformer.translation.batch_sizes import PARSING_BATCH_SIZE
from keras_transformer.treebank import drawing, trees, words

AnyParse = Parse | ParseText

# Takes sentences and returns the parse of each, in order.
ParseFunction = Callable[[Sequence[str]], Sequence[AnyParse]]

# Lines that are parsed and written together.
_LINES_PER_BLOCK = 1024


@dataclasses.dataclass(frozen=True)
class Sentences:
    """The sentences of a file, with the problems of its bad lines.

    Attributes:
        texts: For each line, the sentence as words and punctuation separated by spaces;
            None for a bad line.
        name: File name, for messages.
        skip_bad: Whether to continue after a bad sentence instead of raising.
        problems: One error message for each bad line.
    """

    texts: list[str | None]
    name: str
    skip_bad: bool
    problems: list[str] = dataclasses.field(default_factory=list)

    def leave_out(self, index: int, problem: str) -> None:
        """Leave a sentence out, or raise an error.

        Args:
            index: Index of the sentence, from 0.
            problem: The error message.

        Raises:
            ValueError: Unless `skip_bad`.
        """
        if not self.skip_bad:
            raise ValueError(f"{problem} Or leave such lines out with --skip_bad.")
        self.texts[index] = None
        self.problems.append(problem)

    def kept(self, block: range) -> list[int]:
        """Return the indices of a block's sentences that are not left out."""
        return [index for index in block if self.texts[index] is not None]

    def leave_out_cut(self, indices: Sequence[int], is_cut: Sequence[bool]) -> None:
        """Leave out the sentences that the model's input limit cuts, or raise."""
        for index in itertools.compress(indices, is_cut):
            self.leave_out(
                index,
                f"{self.location(index)}, is longer than the model reads. Split the "
                "sentence.",
            )

    def location(self, index: int) -> str:
        """Return the file and line of a sentence, for messages."""
        return f"{self.name}, line {index + 1}"


def read_sentences(
    path: str | os.PathLike | None, *, tokenized: bool = False, skip_bad: bool = False
) -> Sentences:
    """Read sentences, one per line.

    Args:
        path: A text file (also .gz); None: standard input.
        tokenized: Whether words and punctuation are already separated by spaces; else a
            line is raw English, which `words.penn_words` tokenizes.
        skip_bad: Whether to continue after a bad line instead of raising.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line is not valid UTF-8 or has no words; the message names file
            and line.
    """
    name, lines = text_files.read_raw_lines(path)
    sentences = Sentences([None] * len(lines), name, skip_bad)
    for index, line in enumerate(lines):
        try:
            text = text_files.decode_line(line, name, index + 1)
        except ValueError as error:
            sentences.leave_out(index, str(error))
            continue
        text = white_space.strip(text)
        # Split at ASCII white space, same as the parser.
        found = text.encode().split() if tokenized else words.penn_words(text)
        if white_space.is_blank(text) or not found:
            sentences.leave_out(
                index,
                f"{sentences.location(index)}, has no words. Give one sentence per "
                "line.",
            )
        else:
            sentences.texts[index] = text if tokenized else " ".join(found)
    return sentences


def with_parser(parser: Parser, batch_size: int | None = None) -> ParseFunction:
    """Return a function that parses with a trained model; invalid trees are repaired.

    Args:
        parser: The model.
        batch_size: Sentences parsed at once; None: `PARSING_BATCH_SIZE`.
    """
    return lambda sentences: parser.parse(sentences, batch_size or PARSING_BATCH_SIZE)


def with_export(
    parse_batch: Callable[[Any], dict[str, Any]], batch_size: int | None = None
) -> ParseFunction:
    """Return a function that parses with an exported model.

    Invalid trees, which the export's constraint excludes unless the model is broken,
    become "".

    Args:
        parse_batch: `run_batch` of an export that `open_export` opened to parse.
        batch_size: Sentences parsed at once; None: `PARSING_BATCH_SIZE`.
    """
    return lambda sentences: parse_in_batches(
        sentences, batch_size or PARSING_BATCH_SIZE, parse_batch
    )


def leave_out_too_long(sentences: Sentences, parser: Parser) -> None:
    """Leave out sentences over the model's input limit, or raise ValueError."""
    kept = sentences.kept(range(len(sentences.texts)))
    if kept:
        texts = [sentences.texts[index] for index in kept]
        sentences.leave_out_cut(kept, parser.too_long(texts))


def parse_and_write(
    sentences: Sentences,
    parse: ParseFunction,
    path: str | os.PathLike | None,
    draw: str = "none",
) -> list[AnyParse | None]:
    """Parse the sentences that are not bad, and write trees as they are found.

    With `draw="svg"`, all trees are written at the end. Progress is reported by
    `text_files.progress`.

    Args:
        sentences: The sentences to parse.
        parse: The function that parses, from `with_parser` or `with_export`.
        path: Same as in `write_parses`.
        draw: Same as in `write_parses`.

    Returns:
        The parse of each line, None for a bad line.

    Raises:
        ValueError: If a sentence is over the model's input limit and `skip_bad` is
            False, or same as `write_parses`.
    """
    count = len(sentences.texts)
    parses: list[AnyParse | None] = []
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(text_files.progress(count))
        if draw != "svg":
            write = stack.enter_context(text_files.line_writer(path))
        for start in range(0, count, _LINES_PER_BLOCK):
            block = range(start, min(start + _LINES_PER_BLOCK, count))
            found = _parse_block(sentences, parse, block)
            if draw != "svg":
                write(_to_lines(found, draw))
            progress.update(len(block))
            parses += found
    if draw == "svg":
        write_parses(path, parses, draw)
    return parses


def _parse_block(
    sentences: Sentences, parse: ParseFunction, block: range
) -> list[AnyParse | None]:
    """Return the parses of a range of lines, None for bad sentences."""
    kept = sentences.kept(block)
    answers = parse([sentences.texts[index] for index in kept]) if kept else []
    sentences.leave_out_cut(kept, [answer.truncated for answer in answers])
    parses = dict(zip(kept, answers, strict=True))
    return [
        parses[index] if sentences.texts[index] is not None else None for index in block
    ]


def write_parses(
    path: str | os.PathLike | None,
    parses: Sequence[AnyParse | None],
    draw: str = "none",
) -> None:
    """Write trees as brackets or as drawings.

    Args:
        path: A file, or a folder for several SVG files; None: standard output.
        parses: The parse of each line; None for a missing parse.
        draw: "none": brackets, line n for sentence n, an empty line for a missing
            parse. "text": drawings (`drawing.draw_text`), each followed by an empty
            line; only an empty line for a missing parse. "svg": one drawing of all
            trees if `path` is None or ends in ".svg", else a folder with "n.svg" for
            line n.

    Raises:
        ValueError: If `draw` is "svg" and there is no tree to draw.
    """
    if draw != "svg":
        text_files.write_lines(path, _to_lines(parses, draw))
        return
    found = [parse and _tree(parse) for parse in parses]
    drawn = {number: tree for number, tree in enumerate(found, 1) if tree is not None}
    if not drawn:
        raise ValueError("There is no tree to draw: the input has no sentence left.")
    if path is None or str(path).endswith(".svg"):
        text_files.write_lines(path, [drawing.draw_svg([*drawn.values()]).rstrip()])
        return
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for number, tree in drawn.items():
        atomic_files.atomic_write(folder / f"{number}.svg", drawing.draw_svg(tree))


def _to_lines(parses: Sequence[AnyParse | None], draw: str) -> list[str]:
    """Return brackets, or drawings if `draw` is "text"; "" for a missing parse."""
    if draw == "none":
        return ["" if parse is None else parse.text for parse in parses]
    found = [parse and _tree(parse) for parse in parses]
    return [f"{drawing.draw_text(tree)}\n" if tree else "" for tree in found]


def _tree(parse: AnyParse) -> trees.Tree | None:
    return trees.from_string(parse.text) if parse.text else None
