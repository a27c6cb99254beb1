"""The description of a prepared data folder: `metadata.json`."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any, NamedTuple

from keras_transformer import config, json_files

FORMAT_VERSION = 1
FILE_NAME = "metadata.json"
# Shows some of the pairs that were not encoded.
EXAMPLES_NAME = "dropped.txt"


@dataclasses.dataclass(frozen=True)
class SplitMetadata:
    """Counts of one split."""

    # Pairs in the source, and pairs that were encoded.
    pairs_read: int
    pairs: int
    # Pairs that were not encoded, by reason.
    dropped: dict[str, int]
    # Tokens of the encoded pairs, EOS included, and their words, split at white space.
    source_tokens: int
    target_tokens: int
    source_words: int
    target_words: int
    # Encoded pairs with an alignment of their words.
    aligned_pairs: int = 0
    # Tokens that stand for what the vocabulary lacks, and the commonest characters
    # that it lacks, by how often they came.
    source_unknown: int = 0
    target_unknown: int = 0
    source_lacking: dict[str, int] = dataclasses.field(default_factory=dict)
    target_lacking: dict[str, int] = dataclasses.field(default_factory=dict)

    def __add__(self, other: SplitMetadata) -> SplitMetadata:
        """Add the counts of two corpora."""
        sums = {}
        for field in dataclasses.fields(self):
            one, two = getattr(self, field.name), getattr(other, field.name)
            if isinstance(one, dict):
                names = dict.fromkeys([*one, *two])
                both = {name: one.get(name, 0) + two.get(name, 0) for name in names}
                sums[field.name] = both
            else:
                sums[field.name] = one + two
        return SplitMetadata(**sums)

    @property
    def tokens_per_word(self) -> float:
        """Mean number of tokens per word over both sides, EOS not counted."""
        tokens = self.source_tokens + self.target_tokens - 2 * self.pairs
        return tokens / max(1, self.source_words + self.target_words)


@dataclasses.dataclass(frozen=True)
class CorpusMetadata:
    """One of the corpora that a split was encoded from, in their order."""

    name: str
    # Pairs that were encoded.
    pairs: int
    # Share of the pairs of an epoch, in (0, 1]; None: not for training.
    share: float | None = None
    split: str = "train"
    source_language: str = ""
    target_language: str = ""
    # What is put before each source, such as ">>de<< <news>".
    prefix: str = ""
    # Pairs in the source, and pairs that were not encoded, by reason.
    pairs_read: int = 0
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)


class Part(NamedTuple):
    """The lines of a held-out split that come from one corpus."""

    name: str
    source_language: str
    target_language: str
    lines: range


@dataclasses.dataclass(frozen=True)
class PaddingMetadata:
    """The batch plan of the training split at one batch size."""

    tokens_per_batch: int
    # Share of padding among all positions of both sides, in [0, 1).
    padding_rate: float
    batches_per_epoch: int
    # (rows, source_length, target_length) of each kind of batch.
    shapes: tuple[tuple[int, int, int], ...]


@dataclasses.dataclass(frozen=True)
class DataMetadata:
    """Everything that other programs need to know about a data folder.

    Examples:
        >>> metadata = kt.data.read_metadata("data/my")
        >>> metadata.source_language, metadata.vocab_size
        ('en', 300)
    """

    source_language: str
    target_language: str
    # Where the pairs came from, in words.
    dataset: str
    # "bpe", "wordpiece" or "sentencepiece".
    tokenizer_kind: str
    # SHA-256 of the vocabulary, by which a model is matched to its data.
    tokenizer_hash: str
    vocab_size: int
    pad_id: int
    unk_id: int
    bos_id: int
    eos_id: int
    # The filters of `prepare`; max_length counts tokens, EOS included.
    max_length: int
    max_length_ratio: float | None
    drop_duplicates: bool
    seed: int
    # By name: train, valid and, if there is one, test.
    splits: dict[str, SplitMetadata]
    padding: tuple[PaddingMetadata, ...]
    # "translation", or "parsing", whose targets are trees with a separate vocabulary.
    task: str = "translation"
    # Size of a separate target vocabulary; None: both sides share one.
    target_vocab_size: int | None = None
    # SHA-256 of the constituent labels in the target vocabulary.
    labels_hash: str | None = None
    # SHA-256 of the encoded training split and the shares of its corpora; None: an
    # earlier release did not save it.
    corpus_hash: str | None = None
    # Random encodings of each training pair (1: the usual one), and their dropout.
    subword_encodings: int = 1
    subword_dropout: float = config.PairEncoding.subword_dropout
    # Placeholders in training pairs (0: none), and how often a span becomes one.
    placeholders: int = 0
    placeholder_rate: float = config.PairEncoding.placeholder_rate
    # The corpora of a mixture, split after split; empty: each split is one corpus.
    corpora: tuple[CorpusMetadata, ...] = ()
    # The language that all sources begin with; None: none, or several.
    default_language: str | None = None
    format_version: int = FORMAT_VERSION

    def corpora_of(self, split: str) -> tuple[CorpusMetadata, ...]:
        """Return the corpora of one split, in the order of their pairs."""
        return tuple(corpus for corpus in self.corpora if corpus.split == split)

    def parts_of(self, split: str) -> list[Part]:
        """Return where the text of each corpus lies in that of a held-out split.

        One part if the split is a single corpus, or its corpora were not counted.
        """
        parts, start, total = [], 0, self.splits[split].pairs_read
        for each in self.corpora_of(split):
            lines = range(start, start + each.pairs_read)
            languages = each.source_language, each.target_language
            parts.append(Part(each.name, *languages, lines))
            start = lines.stop
        if parts and start == total:
            return parts
        languages = self.source_language, self.target_language
        return [Part(split, *languages, range(total))]

    def in_brief(self) -> dict[str, Any]:
        """Return what a run records: where the pairs came from and how many there are.

        With "corpora", those of a mixture that are for training.
        """
        return {
            "dataset": self.dataset,
            "pairs": {name: split.pairs for name, split in self.splits.items()},
            "tokenizer": self.tokenizer_kind,
            "corpora": [
                {
                    "name": corpus.name,
                    "languages": [corpus.source_language, corpus.target_language],
                    "pairs": corpus.pairs,
                    "share": corpus.share,
                }
                for corpus in self.corpora_of("train")
            ],
        }

    def to_json(self) -> dict[str, Any]:
        """Return the content of `metadata.json`."""
        values = dataclasses.asdict(self)
        for name, split in self.splits.items():
            values["splits"][name]["tokens_per_word"] = round(split.tokens_per_word, 3)
        return values


def read_metadata(data_dir: str | os.PathLike) -> DataMetadata:
    """Read `metadata.json` of a folder that `prepare` made.

    Raises:
        FileNotFoundError: If the folder or the file is absent.
        ValueError: If the file is damaged or has another format version.

    Examples:
        >>> kt.data.read_metadata("data/my").splits["train"].pairs
        2
    """
    path = pathlib.Path(data_dir) / FILE_NAME
    if not path.exists():
        raise FileNotFoundError(
            f"No {FILE_NAME} in {data_dir}. Prepare it first with "
            f"bin/prepare_data.py --data_dir={data_dir}."
        )
    remedy = f"prepare it again with bin/prepare_data.py --data_dir={data_dir}"
    return json_files.read(path, FORMAT_VERSION, f"{remedy} --overwrite", _from_json)


def _from_json(values: dict[str, Any]) -> DataMetadata:
    splits = values.pop("splits")
    for split in splits.values():
        split.pop("tokens_per_word", None)  # derived; written for people
    values["splits"] = {
        name: config.from_dict(SplitMetadata, split) for name, split in splits.items()
    }
    values["padding"] = tuple(_padding_from_json(entry) for entry in values["padding"])
    values["corpora"] = tuple(
        config.from_dict(CorpusMetadata, corpus) for corpus in values.get("corpora", ())
    )
    return config.from_dict(DataMetadata, values)


def _padding_from_json(values: dict[str, Any]) -> PaddingMetadata:
    # Folders of earlier releases may have (rows, length), one length for both sides.
    shapes = tuple((*shape, *shape[1:])[:3] for shape in values["shapes"])
    return config.from_dict(PaddingMetadata, {**values, "shapes": shapes})
