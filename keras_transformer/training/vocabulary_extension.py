"""A trained model with a larger vocabulary, to train on with new text."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer import tasks, text_files
from keras_transformer.config import PairEncoding
from keras_transformer.data import EncodedCorpus, read_metadata
from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model.transformer import Transformer, weights_by_path
from keras_transformer.runs import model_card
from keras_transformer.runs.checkpoints import Checkpoint
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.tokenization import extension

# Weights with a row, or a value, for each id.
_TABLES = ("embeddings", "output_bias")


def extend_vocabulary(
    model_dir: str | os.PathLike,
    output_dir: str | os.PathLike,
    text_paths: Sequence[str | os.PathLike],
    *,
    num_pieces: int,
    symbols: Sequence[str] = (),
    placeholders: int = 0,
    data_dir: str | os.PathLike | None = None,
    checkpoint: str | None = None,
) -> dict[str, Any]:
    """Write a trained model with more pieces into a new folder.

    Old ids stay. The rows of a new piece begin as the mean of those of the pieces that
    the old vocabulary splits it into.

    Args:
        model_dir: Folder of a trained model.
        output_dir: The folder to write, which must not hold a model.
        text_paths: Files of the new domain or language, of both sides.
        num_pieces: Same as in `tokenization.extension.extend`.
        symbols: Same as in `tokenization.extension.extend`.
        placeholders: Placeholders that the vocabulary has afterwards, if it has fewer;
            with their tags as in `config.PairEncoding.symbols`.
        data_dir: A prepared corpus of the model, whose training text is split as
            before; None: any text may be split otherwise.
        checkpoint: Which weights; see `ModelDir.choose`.

    Returns:
        "symbols", "characters" and "merges", how many were added, "vocab_size",
        "tokens_before" and "tokens_after" of the files.

    Raises:
        FileExistsError: If `output_dir` already holds a model.
        NotADirectoryError: If `output_dir` is a file.
        ValueError: If the model is a parser, its vocabulary cannot be extended, or the
            corpus has another one.
    """
    old, new = ModelDir(model_dir), ModelDir(output_dir)
    config = old.read_config()
    new.check_has_no_model("output_dir")
    tasks.TRANSLATION.check(config.task, old.path, "only translation models grow.")
    neighbours = None
    if data_dir is not None:
        _check_tells_text(data_dir, old)
        neighbours = EncodedCorpus.open(data_dir, "train").neighbours()
    lines = [line for path in text_paths for line in text_files.read_lines(path)]
    tokenizer = old.load_tokenizer()
    kept = PairEncoding(placeholders=placeholders).symbols
    symbols = [*symbols, *(each for each in kept if each not in tokenizer.placeholders)]
    found = extension.extend(
        tokenizer, lines, num_pieces, symbols=symbols, neighbours=neighbours
    )
    model = _grown(old.load_model(checkpoint), found.replaced)
    config = dataclasses.replace(
        config,
        model=model.config,
        tokenizer_hash=found.tokenizer.fingerprint,
        corpus_hash=None,
    )
    new.write(model, found.tokenizer, config)
    model_card.update(new, Checkpoint(new.model_path, 0), model.count_params())
    return {
        "symbols": len(found.symbols),
        "characters": len(found.characters),
        "merges": len(found.merges),
        "vocab_size": model.config.vocab_size,
        "tokens_before": sum(map(len, tokenizer.encode_target(lines))),
        "tokens_after": sum(map(len, found.tokenizer.encode_target(lines))),
    }


def _check_tells_text(data_dir: str | os.PathLike, model_dir: ModelDir) -> None:
    """Check that the ids of a corpus are those that a model splits its text into.

    A corpus holds no text. Where it was encoded otherwise than a text that is
    translated, nothing tells how the vocabulary splits what the ids replace.

    Raises:
        ValueError: If the corpus has another vocabulary, or other ids.
    """
    corpus = read_metadata(data_dir)
    if corpus.tokenizer_hash != model_dir.read_config().tokenizer_hash:
        raise ValueError(
            f"The corpus in {data_dir} has another vocabulary than {model_dir.path}. "
            "Give the one that the model was trained on."
        )
    if corpus.subword_encodings > 1:
        flag, has = "subword_encodings", "random encodings, which do not tell how"
    elif corpus.placeholders and corpus.placeholder_rate:
        flag, has = "placeholders", "placeholders for words, and does not tell how"
    else:
        return
    raise ValueError(
        f"The corpus in {data_dir} has {has} its text is split otherwise. Prepare the "
        f"text again with bin/prepare_data.py --tokenizer_from={model_dir.path} and "
        f"without --{flag}, and give that folder, or --resplit instead of --data_dir."
    )


def _grown(model: Transformer, replaced: Sequence[Sequence[int]]) -> Transformer:
    """Return the model with a row for each new piece, the mean of the rows given."""
    size = model.config.vocab_size + len(replaced)
    config = dataclasses.replace(model.config, vocab_size=size, target_vocab_size=None)
    with skip_weight_init():
        grown = Transformer(config, dtype=model.dtype_policy)
    old = weights_by_path(model)
    for path, weight in weights_by_path(grown).items():
        values = old[path].numpy()
        if path.rpartition("/")[2] in _TABLES:
            rows = [values[list(ids)].mean(axis=0) for ids in replaced]
            values = np.concatenate([values, np.stack(rows)])
        weight.assign(values)
    return grown
