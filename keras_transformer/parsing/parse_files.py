"""Files of sentences to trees, with bad sentences named and left out where asked."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from keras_transformer import atomic_files, text_files
from keras_transformer.parsing.parser import (
    BATCH_SIZE,
    Parser,
    ParseText,
    parse_in_batches,
)
from keras_transformer.treebank import drawing, trees, words

# Takes sentences and returns the parse of each, in order.
Parse = Callable[[Sequence[str]], Sequence[ParseText]]

# Lines whose trees are written together.
_LINES_OF_BLOCK = 1024


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Sentences of a file, and what was wrong with the others.

    Attributes:
        texts: Of each line: words and punctuation apart, separated by spaces; None for
            a bad line.
        name: Of the file, for messages.
        skip_bad: Whether to go on after a bad sentence; else it is an error.
        problems: What was wrong with each bad line.
    """

    texts: list[str | None]
    name: str
    skip_bad: bool
    problems: list[str] = dataclasses.field(default_factory=list)

    def leave_out(self, index: int, problem: str) -> None:
        """Leave a sentence out, or raise.

        Args:
            index: Of the sentence, from 0.
            problem: The message.

        Raises:
            ValueError: Unless `skip_bad`.
        """
        if not self.skip_bad:
            raise ValueError(f"{problem} Or leave such lines out with --skip_bad.")
        self.texts[index] = None
        self.problems.append(problem)

    def place(self, index: int) -> str:
        """Name the file and the line of a sentence."""
        return f"{self.name}, line {index + 1}"


def read_sentences(
    path: str | os.PathLike | None, *, tokenized: bool = False, skip_bad: bool = False
) -> Sentences:
    """Read sentences, one a line.

    Args:
        path: Of a text file, .gz too; None: standard input.
        tokenized: Whether words and punctuation stand apart already; else the line is
            English as people write it, and `words.penn_words` takes it apart.
        skip_bad: Whether to go on after a bad line; else it is an error.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is no UTF-8 or has no words; the message names file and
            line.
    """
    name, lines = text_files.read_raw_lines(path)
    sentences = Sentences([None] * len(lines), name, skip_bad)
    for index, line in enumerate(lines):
        try:
            text = text_files.decode_line(line, name, index + 1)
        except ValueError as error:
            sentences.leave_out(index, str(error))
            continue
        # At ASCII white space, as the parser does.
        found = line.split() if tokenized else words.penn_words(text)
        if not found:
            sentences.leave_out(
                index,
                f"{sentences.place(index)}, has no words. Give one sentence a line.",
            )
        else:
            sentences.texts[index] = text if tokenized else " ".join(found)
    return sentences


def with_parser(parser: Parser, batch_size: int | None = None) -> Parse:
    """Return what parses with a trained model; answers that are no tree are repaired.

    Args:
        parser: The model.
        batch_size: Sentences parsed at once; None: `parser.BATCH_SIZE`.
    """

    def parse(sentences):
        return [
            ParseText(str(found.tree), found.score, found.truncated, found.valid)
            for found in parser.parse(sentences, batch_size or BATCH_SIZE)
        ]

    return parse


def with_export(
    parse_batch: Callable[[Any], dict[str, Any]], batch_size: int | None = None
) -> Parse:
    """Return what parses with an exported model, as `with_parser`.

    An answer that is no tree, which an export's constraint excludes for a sound model,
    is "".

    Args:
        parse_batch: From `serving.saved_model.load_parser`.
        batch_size: Sentences parsed at once; None: `parser.BATCH_SIZE`.
    """
    return lambda sentences: parse_in_batches(
        sentences, batch_size or BATCH_SIZE, parse_batch
    )


def leave_out_too_long(sentences: Sentences, parser: Parser) -> None:
    """Leave out, or refuse, what the model would read but a part of.

    Raises:
        ValueError: If a sentence is too long, and bad ones are errors.
    """
    kept = _kept(sentences, range(len(sentences.texts)))
    if kept:
        texts = [sentences.texts[index] for index in kept]
        _leave_out(sentences, kept, parser.too_long(texts))


def parse_and_write(
    sentences: Sentences,
    parse: Parse,
    path: str | os.PathLike | None,
    draw: str = "none",
) -> list[ParseText | None]:
    """Parse what is not bad and write it as it comes; "svg" is written at the end.

    Progress is told as in `text_files.progress`.

    Args:
        sentences: What to parse.
        parse: Parses.
        path: As in `write_parses`.
        draw: As in `write_parses`.

    Returns:
        The parse of each line, None for a bad one.

    Raises:
        ValueError: If the model could read but a part of a sentence, and bad ones are
            errors; or as in `write_parses`.
    """
    count = len(sentences.texts)
    parses: list[ParseText | None] = []
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(text_files.progress(count))
        if draw != "svg":
            write = stack.enter_context(text_files.line_writer(path))
        for start in range(0, count, _LINES_OF_BLOCK):
            block = range(start, min(start + _LINES_OF_BLOCK, count))
            found = parse_sentences(sentences, parse, block)
            if draw != "svg":
                write(_to_lines(found, draw))
            progress.update(len(block))
            parses += found
    if draw == "svg":
        write_parses(path, parses, draw)
    return parses


def parse_sentences(
    sentences: Sentences, parse: Parse, block: range | None = None
) -> list[ParseText | None]:
    """Parse what is not bad; None stands for a bad sentence.

    Args:
        sentences: What to parse.
        parse: Parses.
        block: The lines to parse, from 0; None: all.

    Raises:
        ValueError: If the model could read but a part of a sentence, and bad ones are
            errors.
    """
    block = range(len(sentences.texts)) if block is None else block
    kept = _kept(sentences, block)
    answers = parse([sentences.texts[index] for index in kept]) if kept else []
    _leave_out(sentences, kept, [answer.truncated for answer in answers])
    parses = dict(zip(kept, answers, strict=True))
    return [
        parses[index] if sentences.texts[index] is not None else None for index in block
    ]


def write_parses(
    path: str | os.PathLike | None,
    parses: Sequence[ParseText | None],
    draw: str = "none",
) -> None:
    """Write trees as brackets or as pictures.

    Args:
        path: Where; None: standard output.
        parses: Of each line, None for none.
        draw: "none": brackets, line n for sentence n, an empty line for none. "text":
            pictures (`drawing.draw_text`), each followed by an empty line, which stands
            alone for none. "svg": where `path` is None or ends in ".svg", one picture
            of all trees; else `path` is a folder that gets "n.svg" for line n.

    Raises:
        ValueError: If `draw` is "svg" and there is nothing to draw.
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


def _to_lines(parses: Sequence[ParseText | None], draw: str) -> list[str]:
    """Return brackets, or with draw="text" pictures, "" for no tree."""
    if draw == "none":
        return ["" if parse is None else parse.text for parse in parses]
    found = [parse and _tree(parse) for parse in parses]
    return [f"{drawing.draw_text(tree)}\n" if tree else "" for tree in found]


def _tree(parse: ParseText) -> trees.Tree | None:
    return trees.from_string(parse.text) if parse.text else None


def _kept(sentences: Sentences, block: range) -> list[int]:
    return [index for index in block if sentences.texts[index] is not None]


def _leave_out(
    sentences: Sentences, indices: Sequence[int], truncated: Sequence[bool]
) -> None:
    for index, is_too_long in zip(indices, truncated, strict=True):
        if is_too_long:
            sentences.leave_out(
                index,
                f"{sentences.place(index)}, is longer than the model reads. Divide the "
                "sentence.",
            )
