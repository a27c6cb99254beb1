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
    pair_encoder,
    part_reader,
    side_counts,
    sources,
)
from keras_transformer.spans import Glossary

# Batch sizes whose share of padding is reported: a small one, and that of §5.1.
REPORTED_TOKENS_PER_BATCH = (4_096, 25_000)


@dataclasses.dataclass(frozen=True)
class PreparationOptions:
    """Options of `prepare` and `prepare_corpora`.

    Raises:
        ValueError: If a number is outside its range; the message names the field.

    Examples:
        >>> filters = kt.config.PairFilters(max_length=100)
        >>> kt.data.PreparationOptions(filters, sample_pairs=10_000).overwrite
        False
    """

    # Which pairs are dropped. The corpora of a mixture have filters of their own.
    filters: config.PairFilters = config.PairFilters()
    # How training pairs are encoded.
    encoding: config.PairEncoding = config.PairEncoding()
    # Terms that placeholders stand for, too.
    glossary: Glossary | None = None
    # What is put before each source, such as ">>de<<". The corpora of a mixture have
    # symbols of their own.
    prefix: str = ""
    # Most training pairs that a vocabulary is trained on.
    sample_pairs: int = 500_000
    # Seed of that sample, and of placeholders.
    seed: int = 0
    # Whether to replace a corpus that is already in the folder.
    overwrite: bool = False

    def __post_init__(self):
        config.check_at_least("sample_pairs", self.sample_pairs, 1)
        config.check_at_least("seed", self.seed, 0)


def prepare(
    source: sources.ParallelSource,
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    options: PreparationOptions = PreparationOptions(),
    *,
    target: pair_encoder.TargetVocabulary | None = None,
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
        options: Which pairs are encoded, and how.
        target: Encodes the target side; None: the tokenizer encodes both sides.

    Returns:
        The content of `metadata.json`.

    Raises:
        ValueError: If the text is empty, its sides differ in length, a line is not
            valid UTF-8, no training or validation pair is left, or the tokenizer has
            other special ids than `target`. The message names file and line where there
            is one.
        FileExistsError: If `data_dir` is not empty and may not be replaced.
        OSError: If `data_dir` cannot be written.

    Examples:
        >>> paths = {name: (f"{name}.en", f"{name}.de") for name in ("train", "valid")}
        >>> source = kt.data.TextFiles(paths, "en", "de")
        >>> prepared = kt.data.prepare(
        ...     source, "data/new", lambda texts: kt.tokenization.train_bpe(texts, 300)
        ... )
        >>> prepared.splits["valid"].pairs
        2
    """
    for needed in ("train", "valid"):
        if needed not in source.splits:
            raise ValueError(
                f"Both a train and a valid split are needed; {source.description} has "
                f"{', '.join(source.splits) or 'none'}. Cut one from the other as text "
                "files."
            )
    parts = [
        part_reader.Part(source, split, options.filters, prefix=options.prefix)
        for split in source.splits
    ]
    return _prepare(parts, data_dir, make_tokenizer, options, target=target)


def prepare_corpora(
    given: corpora.Corpora,
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    options: PreparationOptions = PreparationOptions(),
    *,
    tfds_data_dir: str | os.PathLike | None = None,
) -> metadata.DataMetadata:
    """Encode a mixture of corpora into a folder, as `prepare` does with one.

    The corpora of a split follow each other, in its tokens and in its raw text. Sources
    begin with the symbols of their corpus, in the raw text too. A pair is a duplicate
    if it occurs again in the same corpus. The vocabulary is trained on a sample in
    which each corpus has at most its share: all of its pairs if it is small.

    Args:
        given: The corpora.
        data_dir: The folder to make.
        make_tokenizer: Same as in `prepare`; the symbols of the corpora must be pieces
            of its vocabulary.
        options: Same as in `prepare`; the filters are only for `metadata.json`.
        tfds_data_dir: Same as in `open_dataset`.

    Raises:
        ValueError: As in `prepare`, or if the vocabulary lacks a symbol, or a dataset
            a split.

    Examples:
        >>> from keras_transformer.data import corpora
        >>> given = corpora.read("corpora.yaml")
        >>> prepared = kt.data.prepare_corpora(
        ...     given,
        ...     "data/mixed",
        ...     lambda texts: kt.tokenization.train_bpe(
        ...         texts, 300, symbols=given.symbols
        ...     ),
        ... )
        >>> [corpus.name for corpus in prepared.corpora]
        ['news', 'dev']
    """
    # Splits of a dataset share one source.
    open_dataset = functools.cache(
        functools.partial(sources.open_dataset, tfds_data_dir=tfds_data_dir)
    )
    parts = [_open(given, each, open_dataset) for each in given.in_order()]
    return _prepare(parts, data_dir, make_tokenizer, options, given=given)


def check_symbols(given: corpora.Corpora, tokenizer: Any) -> None:
    """Raise ValueError if a vocabulary lacks a symbol of the corpora.

    Examples:
        >>> from keras_transformer.data import corpora
        >>> given = corpora.read("corpora.yaml")
        >>> kt.data.check_symbols(given, tokenizer)
    """
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


def _prepare(
    parts: Sequence[part_reader.Part],
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    options: PreparationOptions,
    *,
    target: pair_encoder.TargetVocabulary | None = None,
    given: corpora.Corpora | None = None,
) -> metadata.DataMetadata:
    """Encode the corpora of all splits, split after split; see `prepare`.

    They are a mixture if `given`.
    """
    _check_free(pathlib.Path(data_dir), options.overwrite)
    with atomic_files.naming(data_dir), atomic_files.atomic_folder(data_dir) as folder:
        selections = [part_reader.scan(part) for part in parts]
        tokenizer = make_tokenizer(
            _sample(selections, given, options, 2 if target is None else 1)
        )
        if given:
            check_symbols(given, tokenizer)
        check_placeholders(options.encoding, tokenizer)
        tokenizer.save(folder / "tokenizer")
        if target is not None:
            _check_special_ids(tokenizer)
            target.save(folder)
        encoder = pair_encoder.PairEncoder(
            tokenizer, target, options.encoding, options.glossary, options.seed
        )
        encoded = _encode(selections, folder, encoder)
        if examples := [line for each in encoded for line in each.examples]:
            text_files.write_lines(folder / metadata.EXAMPLES_NAME, examples)
        result = _describe(folder, encoder, options, encoded, given)
        json_files.write(
            folder / metadata.FILE_NAME, result.to_json(), ascii_only=False
        )
    return result


def _describe(folder, encoder, options, encoded, given) -> metadata.DataMetadata:
    """Return the description of a folder that has everything else."""
    source, target = encoded[0].part.source, encoder.target
    train = folder / "train"
    of_corpora = _corpora_metadata(given, encoded) if given else ()
    return metadata.DataMetadata(
        source_language=source.source_language,
        target_language=source.target_language,
        dataset=str(given.path) if given else source.description,
        tokenizer_kind=encoder.tokenizer.kind,
        tokenizer_hash=encoder.tokenizer.fingerprint,
        **encoder.tokenizer.ids(),
        max_length=options.filters.max_length,
        max_length_ratio=options.filters.max_length_ratio,
        drop_duplicates=options.filters.drop_duplicates,
        seed=options.seed,
        splits=_sums(encoded),
        padding=_padding(train, of_corpora, options.seed),
        task=tasks.TRANSLATION.name if target is None else target.task,
        target_vocab_size=None if target is None else target.vocab_size,
        labels_hash=None if target is None else target.fingerprint,
        corpus_hash=_corpus_hash(train, of_corpora),
        **dataclasses.asdict(options.encoding),
        corpora=of_corpora,
        default_language=_only_language([each.part for each in encoded]),
    )


def _only_language(parts: Sequence[part_reader.Part]) -> str | None:
    """Return the language that all sources begin with; None: none, or several."""
    codes = {language_tokens.code_of(part.prefix.split(" ")[0]) for part in parts}
    return codes.pop() if len(codes) == 1 else None


def _sample(selections, given, options, num_sides) -> Iterator[str]:
    """Yield a sample of the training text, at most its share from each corpus."""
    train = [each for each in selections if each.part.is_training]
    shares = given.shares([len(each.kept) for each in train]) if given else [1.0]
    for number, (selection, share) in enumerate(zip(train, shares, strict=True)):
        # Both directions of an entry are sampled differently.
        seed = [options.seed, number]
        most = math.ceil(share * options.sample_pairs)
        yield from part_reader.sample(selection, most, seed, num_sides)


def _encode(selections, folder, encoder) -> list[part_reader.EncodedPart]:
    """Write tokens and raw text of all splits; return what each corpus has."""
    encoded = []
    for split, group in itertools.groupby(selections, lambda each: each.part.split):
        of_split = list(group)
        raw_paths = [folder / f"{split}.{side}" for side in corpus.SIDES]
        if split == "train":
            raw_paths = []
        most_aligned = max(each.part.max_aligned_length for each in of_split) or None
        with contextlib.ExitStack() as stack:
            raw = [
                stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
                for path in raw_paths
            ]
            writer = stack.enter_context(
                corpus.CorpusWriter(
                    folder / split,
                    encoder.vocab_size,
                    encoder.tokenizer.eos_id,
                    most_aligned,
                )
            )
            encoded += [
                part_reader.encode(each, encoder, writer, raw) for each in of_split
            ]
    return encoded


def _corpus_hash(train, of_corpora) -> str:
    """Return the hash of what follows from the training split: tokens and batches."""
    tokens = corpus.split_hash(train)
    shares = [(each.pairs, each.share) for each in of_corpora if each.share is not None]
    if len(shares) < 2:  # the shares of a single corpus change no batch
        return tokens
    return hashlib.sha256(f"{tokens} {shares}".encode()).hexdigest()


def _corpora_metadata(given, encoded) -> tuple[metadata.CorpusMetadata, ...]:
    sizes = [each.counts.pairs for each in encoded if each.part.is_training]
    shares = itertools.chain(given.shares(sizes), itertools.repeat(None))
    return tuple(
        metadata.CorpusMetadata(
            name=each.part.name,
            pairs=each.counts.pairs,
            share=share,
            split=each.part.split,
            source_language=each.part.source.source_language,
            target_language=each.part.source.target_language,
            prefix=each.part.prefix,
            pairs_read=each.counts.pairs_read,
            dropped=each.counts.dropped,
        )
        for each, share in zip(encoded, shares, strict=False)
    )


def _sums(encoded) -> dict[str, metadata.SplitMetadata]:
    """Add up the counts of the corpora of each split."""
    sums = {}
    for each in encoded:
        before = sums.get(each.part.split)
        sums[each.part.split] = each.counts + before if before else each.counts
    return sums


def report(prepared: metadata.DataMetadata) -> str:
    """Describe a prepared folder in a few lines.

    Examples:
        >>> print(kt.data.report(kt.data.read_metadata("data/my")).splitlines()[0])
        en to de, vocabulary of 300 (bpe)
    """
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
    commonest = collections.Counter(characters).most_common(side_counts.NUM_CHARACTERS)
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
