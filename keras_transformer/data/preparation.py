"""Encodes pairs of sentences into a folder that training maps into memory."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_transformer import (
    atomic_files,
    config,
    json_files,
    language_tokens,
    tasks,
    text_files,
    wording,
)
from keras_transformer.data import (
    alignments,
    corpora,
    corpus,
    metadata,
    part_reader,
    sources,
    unknown_tokens,
)

# Most training pairs that a vocabulary is trained on.
SAMPLE_PAIRS = 500_000

# Batch sizes whose share of padding is reported: a small one, and that of §5.1.
REPORTED_TOKENS_PER_BATCH = (4_096, 25_000)


def prepare(
    source: sources.ParallelSource,
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    *,
    target: part_reader.TargetVocabulary | None = None,
    sample_pairs: int = SAMPLE_PAIRS,
    seed: int = 0,
    overwrite: bool = False,
    **options: Any,
) -> metadata.DataMetadata:
    """Encode a parallel corpus into a folder, which appears complete or not at all.

    The folder holds `metadata.json`, `tokenizer/`, `train/`, `valid/` and `test/` with
    tokens and offsets, and the raw text of the validation and test pairs as
    `valid.source`, `valid.target`, `test.source`, `test.target`. If pairs are dropped,
    `dropped.txt` shows up to ten for each reason.

    Training pairs are dropped if a side is blank or has more than `max_length` tokens,
    if one side has `max_length_ratio` times more tokens than the other, or (optionally)
    if the same pair came before. The raw text of the validation and test splits always
    has all pairs. Their encoded pairs, which the loss is measured on, leave out pairs
    that are blank or too long, or whose target the target vocabulary cannot encode.

    Args:
        source: Where the pairs come from.
        data_dir: The folder to make.
        make_tokenizer: Called with sentences of both sides, or only of the source if
            there is a `target`; returns a tokenizer.
        target: Encodes the target side; None: the tokenizer encodes both sides.
        sample_pairs: Most training pairs that `make_tokenizer` sees, drawn by `seed`.
        seed: Seed of that sample, at least 0.
        overwrite: Whether to replace a corpus that is already in `data_dir`.
        **options: Fields of `config.PairFilters`, such as `max_length`, and of
            `config.PairEncoding`; `glossary`, a `spans.Glossary` of terms that
            placeholders stand for; and `prefix`, what is put before each source, such
            as ">>de<<".

    Returns:
        The content of `metadata.json`.

    Raises:
        ValueError: If the text is empty, its sides differ in length, a line is not
            valid UTF-8, no training or validation pair is left, the tokenizer has other
            special ids than `target`, or an argument is out of range. The message names
            file and line where there is one.
        FileExistsError: If `data_dir` is not empty and may not be replaced.
        OSError: If `data_dir` cannot be written.
    """
    glossary, prefix = options.pop("glossary", None), options.pop("prefix", "")
    pair_filters, described = _options(options)
    for needed in ("train", "valid"):
        if needed not in source.splits:
            raise ValueError(
                f"Both a train and a valid split are needed; {source.description} has "
                f"{', '.join(source.splits) or 'none'}. Cut one from the other as text "
                "files."
            )
    return _prepare(
        [
            part_reader.Part(
                source, split, pair_filters, prefix=prefix, glossary=glossary
            )
            for split in source.splits
        ],
        data_dir,
        make_tokenizer,
        described={
            "source_language": source.source_language,
            "target_language": source.target_language,
            "dataset": source.description,
            "seed": seed,
            **described,
        },
        target=target,
        sample_pairs=sample_pairs,
        overwrite=overwrite,
    )


def prepare_corpora(
    given: corpora.Corpora,
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    *,
    tfds_data_dir: str | os.PathLike | None = None,
    sample_pairs: int = SAMPLE_PAIRS,
    seed: int = 0,
    overwrite: bool = False,
    **options: Any,
) -> metadata.DataMetadata:
    """Encode a mixture of corpora into a folder, as `prepare` does with one.

    The corpora of a split follow each other, in its tokens and in its raw text. Sources
    begin with the symbols of their corpus, in the raw text too. A pair is a duplicate
    if it occurs again in the same corpus. The vocabulary is trained on a sample in
    which each corpus has at most its share: all of its pairs if it is small.

    Args:
        given: The corpora.
        data_dir: Same as in `prepare`.
        make_tokenizer: Same as in `prepare`; the symbols of the corpora must be pieces
            of its vocabulary.
        tfds_data_dir: Same as in `open_dataset`.
        sample_pairs: Same as in `prepare`.
        seed: Same as in `prepare`.
        overwrite: Same as in `prepare`.
        **options: Same as in `prepare`; the filters are only for `metadata.json`, as
            each corpus has its own.

    Raises:
        ValueError: As in `prepare`, or if the vocabulary lacks a symbol, or a dataset
            a split.
    """

    glossary = options.pop("glossary", None)

    def checked(texts):
        tokenizer = make_tokenizer(texts)
        check_symbols(given, tokenizer)
        return tokenizer

    # Splits of a dataset share one source.
    open_dataset = functools.cache(
        functools.partial(sources.open_dataset, tfds_data_dir=tfds_data_dir)
    )
    first = given.of_split("train")[0]
    return _prepare(
        [
            dataclasses.replace(_open(given, each, open_dataset), glossary=glossary)
            for each in given.in_order()
        ],
        data_dir,
        checked,
        described={
            "source_language": first.source_language,
            "target_language": first.target_language,
            "dataset": str(given.path),
            "seed": seed,
            **_options(options)[1],
        },
        given=given,
        sample_pairs=sample_pairs,
        overwrite=overwrite,
    )


def check_symbols(given: corpora.Corpora, tokenizer: Any) -> None:
    """Raise ValueError if a vocabulary lacks a symbol of the corpora."""
    for each in given.corpora:
        for symbol in each.symbols:
            if not tokenizer.has_symbol(symbol):
                raise given.refuse(
                    each,
                    f"the vocabulary has no piece {symbol}. Let bin/prepare_data.py "
                    "train one, add the piece with bin/extend_vocabulary.py --symbols, "
                    "or leave out what needs it: a tag, or several target languages.",
                )


def check_placeholders(encoding: config.PairEncoding, tokenizer: Any) -> None:
    """Raise ValueError if a vocabulary lacks a placeholder."""
    for symbol in encoding.symbols:
        if symbol not in tokenizer.placeholders:
            raise ValueError(
                f"`placeholders` needs the piece {symbol}, which the vocabulary lacks. "
                f"Received: placeholders={encoding.placeholders}. Train a vocabulary "
                "with bin/prepare_data.py --placeholders, or use fewer."
            )


def _open(given, each, open_dataset) -> part_reader.Part:
    """Open a corpus of a mixture."""
    languages = each.source_language, each.target_language
    if each.dataset is None:
        paths = {each.split: (each.source, each.target)}
        links = each.alignments and alignments.WordAlignments(
            each.alignments, each.alignments_reversed
        )
        source = sources.TextFiles(paths, *languages, links)
    else:
        try:
            source = open_dataset(each.dataset, *languages)
        except ValueError as error:
            raise given.refuse(each, str(error)) from error
    if each.split not in source.splits:
        raise given.refuse(
            each, f"{each.dataset} has only the splits {', '.join(source.splits)}."
        )
    return part_reader.Part(
        source, each.split, each.filters, each.name, " ".join(each.symbols)
    )


def _options(given: dict[str, Any]) -> tuple[config.PairFilters, dict[str, Any]]:
    """Return the filters, and what `metadata.json` says of the options."""
    fields = {field.name for field in dataclasses.fields(config.PairEncoding)}
    encoding = config.PairEncoding(
        **{name: value for name, value in given.items() if name in fields}
    )
    filters = config.PairFilters(
        **{name: value for name, value in given.items() if name not in fields}
    )
    names = ("max_length", "max_length_ratio", "drop_duplicates")
    described = {name: getattr(filters, name) for name in names}
    return filters, described | dataclasses.asdict(encoding)


def _prepare(
    parts: Sequence[part_reader.Part],
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    *,
    described: dict[str, Any],
    sample_pairs: int,
    overwrite: bool,
    target: part_reader.TargetVocabulary | None = None,
    given: corpora.Corpora | None = None,
) -> metadata.DataMetadata:
    """Encode the parts of all splits; see `prepare`.

    Args:
        parts: The corpora, split after split.
        data_dir: Same as in `prepare`.
        make_tokenizer: Same as in `prepare`.
        described: Fields of `metadata.json` that are known before, such as `seed`.
        sample_pairs: Same as in `prepare`.
        overwrite: Same as in `prepare`.
        target: Same as in `prepare`.
        given: The corpora of a mixture, if the parts are one.
    """
    seed = described["seed"]
    config.check_at_least("sample_pairs", sample_pairs, 1)
    config.check_at_least("seed", seed, 0)
    _check_free(pathlib.Path(data_dir), overwrite)
    with atomic_files.naming(data_dir), atomic_files.atomic_folder(data_dir) as folder:
        encoding = config.PairEncoding(
            **{
                field.name: described[field.name]
                for field in dataclasses.fields(config.PairEncoding)
            }
        )
        random = np.random.Generator(np.random.Philox(seed))
        readers = [part_reader.PartReader(part, encoding, random) for part in parts]
        for reader in readers:
            reader.scan()
        num_sides = 2 if target is None else 1
        tokenizer = make_tokenizer(
            _sample(readers, given, sample_pairs, seed, num_sides)
        )
        check_placeholders(encoding, tokenizer)
        tokenizer.save(folder / "tokenizer")
        vocabulary = tokenizer.ids()
        if target is not None:
            _check_special_ids(tokenizer)
            target.save(folder)
            vocabulary |= {
                "task": target.task,
                "target_vocab_size": target.vocab_size,
                "labels_hash": target.fingerprint,
            }
        counts = _encode(readers, folder, tokenizer, target)
        _write_examples(folder, readers)
        of_corpora = _corpora_metadata(given, counts) if given else ()
        result = metadata.DataMetadata(
            **described,
            default_language=_only_language(parts),
            tokenizer_kind=tokenizer.kind,
            tokenizer_hash=tokenizer.fingerprint,
            splits=_sums(parts, counts),
            padding=_padding(folder / "train", of_corpora, seed),
            corpus_hash=_corpus_hash(folder / "train", of_corpora),
            corpora=of_corpora,
            **vocabulary,
        )
        json_files.write(
            folder / metadata.FILE_NAME, result.to_json(), ascii_only=False
        )
    return result


def _only_language(parts: Sequence[part_reader.Part]) -> str | None:
    """Return the language that all sources begin with; None: none, or several."""
    codes = {language_tokens.code_of(part.prefix.split(" ")[0]) for part in parts}
    return codes.pop() if len(codes) == 1 else None


def _sample(readers, given, sample_pairs, seed, num_sides) -> Iterator[str]:
    """Yield a sample of the training text, at most its share from each corpus."""
    train = [reader for reader in readers if reader.part.split == "train"]
    sizes = [reader.num_kept for reader in train]
    shares = given.shares(sizes) if given else [1.0]
    for number, (reader, share) in enumerate(zip(train, shares, strict=True)):
        # Both directions of an entry are sampled differently.
        most = math.ceil(share * sample_pairs)
        yield from reader.sample(most, [seed, number], num_sides)


def _encode(readers, folder, tokenizer, target) -> list[metadata.SplitMetadata]:
    """Write tokens and raw text of all splits; return the counts of each corpus."""
    counts = []
    most_ids = max(tokenizer.vocab_size, 0 if target is None else target.vocab_size)
    by_split = itertools.groupby(readers, lambda reader: reader.part.split)
    for split, of_split in by_split:
        of_split = list(of_split)
        with contextlib.ExitStack() as stack:
            raw = [
                stack.enter_context(
                    open(
                        folder / f"{split}.{side}", "w", encoding="utf-8", newline="\n"
                    )
                )
                for side in corpus.SIDES
                if split != "train"
            ]
            writer = stack.enter_context(
                corpus.CorpusWriter(
                    folder / split,
                    most_ids,
                    tokenizer.eos_id,
                    max(each.max_aligned_length for each in of_split) or None,
                )
            )
            counts += [
                reader.encode(tokenizer, target, writer, raw) for reader in of_split
            ]
    return counts


def _corpus_hash(train, of_corpora) -> str:
    """Return the hash of what follows from the training split: tokens and batches."""
    tokens = corpus.split_hash(train)
    shares = [(each.pairs, each.share) for each in of_corpora if each.share is not None]
    if len(shares) < 2:  # the shares of a single corpus change no batch
        return tokens
    return hashlib.sha256(f"{tokens} {shares}".encode()).hexdigest()


def _write_examples(folder: pathlib.Path, readers) -> None:
    """Write `dropped.txt`, if a pair was dropped."""
    lines = [line for reader in readers for line in reader.examples()]
    if lines:
        text_files.write_lines(folder / metadata.EXAMPLES_NAME, lines)


def _corpora_metadata(given, counts) -> tuple[metadata.CorpusMetadata, ...]:
    described = list(zip(given.in_order(), counts, strict=True))
    sizes = [split.pairs for each, split in described if each.split == "train"]
    shares = itertools.chain(given.shares(sizes), itertools.repeat(None))
    return tuple(
        metadata.CorpusMetadata(
            name=each.name,
            pairs=split.pairs,
            share=share,
            split=each.split,
            source_language=each.source_language,
            target_language=each.target_language,
            prefix=" ".join(each.symbols),
            pairs_read=split.pairs_read,
            dropped=split.dropped,
        )
        for (each, split), share in zip(described, shares, strict=False)
    )


def _sums(parts, counts) -> dict[str, metadata.SplitMetadata]:
    """Add up the counts of the corpora of each split."""
    sums = {}
    for part, split in zip(parts, counts, strict=True):
        sums[part.split] = split + sums[part.split] if part.split in sums else split
    return sums


def report(prepared: metadata.DataMetadata) -> str:
    """Describe a prepared folder in a few lines."""
    own = prepared.target_vocab_size
    kind = tasks.of(prepared.task).target_noun
    directions = [(prepared.source_language, prepared.target_language)] + [
        (each.source_language, each.target_language) for each in prepared.corpora
    ]
    lines = [
        ", ".join(
            f"{source} to {target}" for source, target in dict.fromkeys(directions)
        )
        + f", vocabulary of {prepared.vocab_size:,} ({prepared.tokenizer_kind})"
        + (f" and {own:,} {kind}" if own else "")
    ]
    for name, split in prepared.splits.items():
        what = "dropped" if name == "train" else "left out of the loss"
        lines.append(
            f"{name}: {wording.count(split.pairs_read, 'pair')} read, "
            f"{split.pairs:,} encoded{_in_ways(prepared, name)}, "
            f"{what}: {part_reader.listed(split.dropped)}; {split.source_tokens:,} + "
            f"{split.target_tokens:,} tokens, {_tokens_a_word(split, bool(own))}"
            + (f"; {split.aligned_pairs:,} aligned" if split.aligned_pairs else "")
        )
        lines += [f"  {_described(each)}" for each in prepared.corpora_of(name)]
        lines += _unknown(split)
    if any(sum(split.dropped.values()) for split in prepared.splits.values()):
        lines.append(
            f"{metadata.EXAMPLES_NAME} shows up to {part_reader.NUM_EXAMPLES} of the "
            "pairs left out for each reason"
        )
    for padding in prepared.padding:
        shapes = " ".join(
            f"{rows}x({source}+{target})" for rows, source, target in padding.shapes
        )
        lines.append(
            f"{padding.tokens_per_batch:,} tokens a batch: "
            f"{wording.count(padding.batches_per_epoch, 'batch', 'batches')} an epoch, "
            f"{padding.padding_rate:.1%} padding, shapes {shapes}"
        )
    return "\n".join(lines)


def _unknown(split: metadata.SplitMetadata) -> list[str]:
    """Describe what the vocabulary lacks of a split, in a line, or none."""
    sides = [
        _lacking(*side)
        for side in (
            ("source", split.source_unknown, split.source_tokens, split.source_lacking),
            ("target", split.target_unknown, split.target_tokens, split.target_lacking),
        )
        if side[1]
    ]
    if not sides:
        return []
    return [
        f"  warning: the vocabulary lacks {'; '.join(sides)}. No translation has what "
        "it lacks: let bin/prepare_data.py train a vocabulary, if that matters."
    ]


def _lacking(side: str, unknown: int, tokens: int, characters: dict[str, int]) -> str:
    commonest = collections.Counter(characters).most_common(
        unknown_tokens.NUM_CHARACTERS
    )
    shown = ", ".join(f"{character!r} {times:,}" for character, times in commonest)
    said = f"{wording.count(unknown, 'token')} of {side}s ({unknown / tokens:.2%})"
    return said + (shown and f": {shown}")


def _in_ways(prepared: metadata.DataMetadata, split: str) -> str:
    if split != "train":
        return ""
    ways = []
    if prepared.subword_encodings > 1:
        ways.append(
            f"{prepared.subword_encodings} encodings of each pair, dropout "
            f"{prepared.subword_dropout:g}"
        )
    if prepared.placeholders:
        ways.append(f"{prepared.placeholder_rate:.0%} of common spans are placeholders")
    return f" ({', '.join(ways)})" if ways else ""


def _described(each: metadata.CorpusMetadata) -> str:
    """Describe one corpus of a mixture."""
    return (
        f"{each.name}: "
        + ("" if each.share is None else f"{each.share:.1%} of an epoch, ")
        + f"{each.source_language} to {each.target_language}"
        + (f", sources begin with {each.prefix}" if each.prefix else "")
        + f"; {each.pairs_read:,} read, {each.pairs:,} encoded, "
        f"left out: {part_reader.listed(each.dropped)}"
    )


def _tokens_a_word(split: metadata.SplitMetadata, sides_differ: bool) -> str:
    if not sides_differ:
        return f"{split.tokens_per_word:.2f} a word"
    words = max(1, split.source_words)
    source = (split.source_tokens - split.pairs) / words
    target = (split.target_tokens - split.pairs) / words
    return f"{source:.2f} + {target:.2f} a word"


def _check_free(data_dir: pathlib.Path, overwrite: bool) -> None:
    """Raise if making `data_dir` would replace something unintentionally."""
    if data_dir.exists() and not data_dir.is_dir():
        raise FileExistsError(f"`data_dir` {data_dir} is a file; name a folder.")
    if not data_dir.exists() or not any(data_dir.iterdir()):
        return
    if not (data_dir / metadata.FILE_NAME).exists():
        raise FileExistsError(
            f"`data_dir` {data_dir} holds files that are not a prepared corpus. They "
            "are left as they are; name another folder."
        )
    if not overwrite:
        raise FileExistsError(
            f"`data_dir` {data_dir} already holds a prepared corpus. Name another "
            "folder, or replace it with overwrite."
        )


def _check_special_ids(tokenizer: Any) -> None:
    """Raise unless the special ids are those of tokenizers that this package trains."""
    for name in ("pad_id", "bos_id", "eos_id"):
        found, needed = getattr(tokenizer, name), getattr(config, name.upper())
        if found != needed:
            raise ValueError(
                f"The tokenizer's `{name}` must be {needed}, as in the target "
                f"vocabulary. Received: {name}={found}. Let bin/prepare_data.py train "
                "a tokenizer, or give a SentencePiece model with that id."
            )


def _padding(
    folder: pathlib.Path, of_corpora: Sequence[metadata.CorpusMetadata], seed: int
) -> tuple[metadata.PaddingMetadata, ...]:
    of_split = [each for each in of_corpora if each.split == "train"]
    train = corpus.EncodedCorpus.from_folder(folder, pad_id=0, corpora=of_split)
    plans = []
    for tokens_per_batch in REPORTED_TOKENS_PER_BATCH:
        if train.lengths.max() > tokens_per_batch:
            continue
        plan = train.batch_plan(tokens_per_batch=tokens_per_batch, seed=seed)
        plans.append(
            metadata.PaddingMetadata(
                tokens_per_batch=tokens_per_batch,
                padding_rate=round(plan.padding_rate, 4),
                batches_per_epoch=plan.batches_per_epoch,
                shapes=plan.shapes,
            )
        )
    return tuple(plans)
