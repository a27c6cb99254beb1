r"""Prepare parallel text for training: vocabulary, token ids, raw text for scoring.

    python bin/prepare_data.py --data_dir=data/multi30k --vocab_size=8000 \
        --train_source=train.en --train_target=train.de \
        --valid_source=val.en --valid_target=val.de

from text files with one sentence a line (plain or .gz), or, as in the paper (§5.1; the
first time, TensorFlow Datasets downloads the set):

    python bin/prepare_data.py --dataset=tfds:wmt14_translate/de-en \
        --data_dir=data/wmt14_ende --vocab_size=37000

or, from several corpora with weights, tags or languages, listed in a YAML file:

    python bin/prepare_data.py --corpora=corpora.yaml --data_dir=data/mixed

or, for parsing (§6.3), from trees in the Penn Treebank's brackets:

    python bin/prepare_data.py --task=parsing --data_dir=data/wsj --vocab_size=16000 \
        --train_trees=wsj/02-21.mrg --train_trees=silver.mrg:0.5 \
        --valid_trees=wsj/22.mrg --test_trees=wsj/23.mrg

where each tree of silver.mrg occurs in an epoch with a probability of a half.

The folder appears complete or not at all. Multi30k (29,000 pairs) takes ten seconds.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import data, language_tokens, tasks
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import define_fields, values
from keras_transformer.config import PairEncoding, PairFilters
from keras_transformer.data import corpora
from keras_transformer.documents import protection

_DATASET = flags.DEFINE_string(
    "dataset",
    None,
    "'tfds:NAME/CONFIG', such as 'tfds:wmt14_translate/de-en'; instead of the text "
    "files.",
)
_CORPORA = flags.DEFINE_string(
    "corpora",
    None,
    "YAML file that lists several corpora; instead of --dataset and the text files.",
)
_TFDS_DATA_DIR = flags.DEFINE_string(
    "tfds_data_dir", None, "Folder of TensorFlow Datasets; default: its own."
)
_PATHS = {
    f"{split}_{side}": flags.DEFINE_string(
        f"{split}_{side}",
        None,
        f"Text file of the {split} split's {side} side, one sentence a line; .gz too.",
    )
    for split in ("train", "valid", "test")
    for side in ("source", "target")
}
_ALIGNMENTS = flags.DEFINE_string(
    "train_alignments",
    None,
    "With the text files: the alignments of the training pairs, for "
    '--guided_alignment of bin/train.py. A line a pair, such as "0-0 1-2": numbers of '
    "words of source and target, which spaces separate; .gz too.",
)
_TREES = {
    split: flags.DEFINE_multi_string(
        f"{split}_trees",
        None,
        f"With --task=parsing: trees of the {split} split in the Penn Treebank's "
        "brackets, a file (.gz too) or a folder of .mrg files; may be repeated"
        + (
            "; PATH:WEIGHT repeats each tree WEIGHT times an epoch."
            if split == "train"
            else "."
        ),
    )
    for split in ("train", "valid", "test")
}
_SKIP_BAD = flags.DEFINE_bool(
    "skip_bad",
    False,
    "With --task=parsing: skip and count trees that are malformed or too long "
    "instead of stopping.",
)
_SUBSTITUTIONS = flags.DEFINE_integer(
    "substitutions",
    0,
    "With --task=parsing: new trees to make from each training tree by replacing "
    "constituents with others of the same label.",
    lower_bound=0,
)
_KEEP_TAGS = flags.DEFINE_bool(
    "keep_tags",
    False,
    "With --task=parsing: write each word as its part-of-speech tag, not as XX.",
)
_SOURCE_LANGUAGE = flags.DEFINE_string(
    "source_language",
    None,
    "Language code of the source; default: en, or that of a multilingual model in "
    "--tokenizer_from.",
)
_TARGET_LANGUAGE = flags.DEFINE_string(
    "target_language",
    None,
    "Language code of the target; default: de, or that of a multilingual model in "
    "--tokenizer_from.",
)
_DATA_DIR = flags.DEFINE_string("data_dir", None, "The folder to make.")
_TOKENIZER = flags.DEFINE_enum(
    "tokenizer",
    "bpe",
    ["bpe", "wordpiece"],
    "Kind of vocabulary to train on both sides together.",
)
_SPLIT_DIGITS = flags.DEFINE_bool(
    "split_digits", False, "With bpe: make each digit a token, for unseen numbers."
)
_TOKENIZER_MODEL = flags.DEFINE_string(
    "tokenizer_model",
    None,
    "A SentencePiece model to use instead of training one.",
)
_TOKENIZER_FROM = flags.DEFINE_string(
    "tokenizer_from",
    None,
    "A model_dir whose vocabulary to use, to fine-tune its model.",
)
_VOCAB_SIZE = flags.DEFINE_integer(
    "vocab_size",
    None,
    "Entries of the vocabulary to train; default: 37,000, for parsing 4,000, which "
    "suits thousands of trees (the paper uses 16,000 for 40,000 trees).",
    lower_bound=1,
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length",
    None,
    "Most tokens of a side of a training pair, EOS included; default: 256, for parsing "
    "1,024.",
    lower_bound=2,
)
_FILTERS = define_fields(
    PairFilters, only=("max_length_ratio", "drop_duplicates", "drop_invalid_utf8")
)
_ENCODING = define_fields(PairEncoding)
_GLOSSARY = flags.DEFINE_string(
    "glossary",
    None,
    "With --placeholders: text file of terms, as bin/translate.py --glossary reads it. "
    "They become placeholders where a pair has a term and its translation.",
)
_SEED = flags.DEFINE_integer(
    "seed",
    0,
    "Seed of the sample that the vocabulary is trained on, and of placeholders. Random "
    "encodings differ each time.",
    lower_bound=0,
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace a corpus that is already in --data_dir."
)
_TASK = flags.DEFINE_enum(
    "task", "translation", tasks.NAMES, "Task to prepare the data for."
)
# Defaults of --vocab_size and --max_length.
_DEFAULTS = {
    "translation": (37_000, PairFilters.max_length),
    "parsing": (4_000, 1024),
}
# Flags that only one task has.
_FLAGS_OF_TASK = {
    "translation": (
        "dataset",
        "corpora",
        "tfds_data_dir",
        *_PATHS,
        "train_alignments",
        "target_language",
        "max_length_ratio",
        "drop_invalid_utf8",
        "subword_encodings",
        "subword_dropout",
        "placeholders",
        "placeholder_rate",
        "glossary",
    ),
    "parsing": (
        *(flag.name for flag in _TREES.values()),
        "skip_bad",
        "keep_tags",
        "substitutions",
    ),
}
# Bad trees that are printed; the others are counted.
_NAMED_PROBLEMS = 10


def main() -> dict:
    """Prepare the folder, print the report and return it as the JSON summary."""
    if _DATA_DIR.value is None:
        raise ValueError("--data_dir is needed: the folder to make.")
    _check_flags_of_task()
    has_pairs = tasks.of(_TASK.value).writes_text
    if has_pairs:
        _check_one_source()
        _check_encoding()
    else:
        programs.check_given(_TREES["train"], _TREES["valid"])
    options = _options()
    tokenizer = _given_tokenizer()
    languages = _languages(tokenizer)
    given = _read_corpora(options.filters, languages)
    startup.import_tensorflow()
    if tokenizer is None:
        make_tokenizer = _tokenizer_maker(given, options.encoding)
    else:
        given, make_tokenizer = _for_languages(tokenizer, given, languages)
        prefix = "" if given else _language_prefix(tokenizer, languages[1])
        options = dataclasses.replace(options, prefix=prefix)
    if not has_pairs:
        prepared = _prepare_trees(make_tokenizer, languages[0], options)
    elif given:
        prepared = data.prepare_corpora(
            given,
            _DATA_DIR.value,
            make_tokenizer,
            options,
            tfds_data_dir=_TFDS_DATA_DIR.value,
        )
    else:
        prepared = data.prepare(
            _open_source(languages), _DATA_DIR.value, make_tokenizer, options
        )
    print(data.report(prepared))
    return prepared.to_json()


def _options() -> data.PreparationOptions:
    """Return what the flags say of how any source is encoded."""
    writes_text = tasks.of(_TASK.value).writes_text
    ratio = _FILTERS["max_length_ratio"].value if writes_text else None
    return data.PreparationOptions(
        PairFilters(
            max_length=_MAX_LENGTH.value or _DEFAULTS[_TASK.value][1],
            max_length_ratio=ratio or None,
            drop_duplicates=_FILTERS["drop_duplicates"].value,
            drop_invalid_utf8=_FILTERS["drop_invalid_utf8"].value,
            drop_too_long=writes_text or _SKIP_BAD.value,
        ),
        PairEncoding(**values(_ENCODING)),
        _read_glossary(),
        seed=_SEED.value,
        overwrite=_OVERWRITE.value,
    )


def _read_corpora(
    filters: PairFilters, languages: tuple[str, str | None]
) -> corpora.Corpora | None:
    if _CORPORA.value is None:
        return None
    given = corpora.read(
        _CORPORA.value,
        source_language=languages[0],
        target_language=languages[1],
        filters=filters,
    )
    if given.symbols and _TOKENIZER.value == "wordpiece":
        raise ValueError(
            "--tokenizer=wordpiece has no tags and target languages, which the corpora "
            f"need: {', '.join(given.symbols)}. Use --tokenizer=bpe."
        )
    return given


def _check_flags_of_task() -> None:
    for task, names in _FLAGS_OF_TASK.items():
        for name in names:
            if task != _TASK.value and flags.FLAGS[name].present:
                raise ValueError(
                    f"--{name} is for --task={task}; here --task={_TASK.value}."
                )


def _prepare_trees(make_tokenizer, language, options):
    from keras_transformer.parsing import preparation

    given = {split: flag.value for split, flag in _TREES.items() if flag.value}
    read = preparation.WeightedTrees.from_text
    source = preparation.TreeFiles(
        {split: [read(text) for text in texts] for split, texts in given.items()},
        language=language,
        seed=_SEED.value,
        skip_bad=_SKIP_BAD.value,
        substitutions=_SUBSTITUTIONS.value,
    )
    prepared = preparation.prepare(
        source,
        _DATA_DIR.value,
        make_tokenizer,
        options,
        keep_tags=_KEEP_TAGS.value,
    )
    for split, problems in source.problems.items():
        for problem in problems[:_NAMED_PROBLEMS]:
            print(f"left out: {problem}")
        if len(problems) > _NAMED_PROBLEMS:
            others = len(problems) - _NAMED_PROBLEMS
            print(f"left out: {others:,} others of the {split} split")
    return prepared


def _given_paths() -> dict[str, str]:
    return {name: flag.value for name, flag in _PATHS.items() if flag.value}


def _check_encoding() -> None:
    for number, rate, what, example in (
        ("subword_encodings", "subword_dropout", "several encodings of a pair", 4),
        ("placeholders", "placeholder_rate", "placeholders", 32),
    ):
        if _ENCODING[number].value > _ENCODING[number].default:
            if _TOKENIZER.value == "wordpiece":
                raise ValueError(
                    f"--{number} needs a vocabulary of BPE: drop --tokenizer."
                )
        elif _ENCODING[rate].present:
            raise ValueError(
                f"--{rate} needs {what}: give --{number}, such as {example}."
            )


def _read_glossary():
    if _GLOSSARY.value is None:
        return None
    if not _ENCODING["placeholders"].value:
        raise ValueError(
            "--glossary needs placeholders: give --placeholders, such as 32."
        )
    return protection.Glossary(protection.read_glossary(_GLOSSARY.value))


def _check_one_source() -> None:
    given = _given_paths()
    origins = [flag.name for flag in (_CORPORA, _DATASET) if flag.value] + [*given][:1]
    if len(origins) > 1:
        raise ValueError(
            f"--{origins[0]} and --{origins[1]} exclude each other; give one source."
        )
    if _CORPORA.value or _DATASET.value:
        if _ALIGNMENTS.value:
            raise ValueError(
                f"--train_alignments is for text files, not for --{origins[0]}. Give "
                "--train_source and the others, or `alignments` in the file of "
                "--corpora."
            )
        return
    has_test = "test_source" in given or "test_target" in given
    for name in _PATHS:
        if name not in given and (has_test or not name.startswith("test")):
            raise ValueError(
                f"--{name} is needed beside the other text files; or give --dataset."
            )


def _open_source(languages):
    if _DATASET.value:
        return data.open_dataset(_DATASET.value, *languages, _TFDS_DATA_DIR.value)
    given = _given_paths()
    paths = {
        split: (given[f"{split}_source"], given[f"{split}_target"])
        for split in ("train", "valid", "test")
        if f"{split}_source" in given
    }
    return data.TextFiles(
        paths,
        *languages,
        _ALIGNMENTS.value and data.WordAlignments(_ALIGNMENTS.value),
    )


def _check_tokenizer_model() -> None:
    path, model_dir = _TOKENIZER_MODEL.value, _TOKENIZER_FROM.value
    if path is not None and model_dir is not None:
        raise ValueError("Give --tokenizer_model or --tokenizer_from, not both.")
    if path is not None and not pathlib.Path(path).is_file():
        raise FileNotFoundError(f"No file {path}. Check --tokenizer_model.")
    if model_dir is not None and not (pathlib.Path(model_dir) / "tokenizer").is_dir():
        raise FileNotFoundError(
            f"No tokenizer in {model_dir}. Check --tokenizer_from, a model_dir."
        )
    taken = _TOKENIZER_FROM if path is None else _TOKENIZER_MODEL
    for flag in (_TOKENIZER, _VOCAB_SIZE, _SPLIT_DIGITS):
        if taken.value is not None and flags.FLAGS[flag.name].present:
            raise ValueError(
                f"--{flag.name} is for a vocabulary to train, and --{taken.name} takes "
                "one as it is: leave out one of the two."
            )


def _given_tokenizer():
    """Return the tokenizer that a flag names; None: one is trained."""
    _check_tokenizer_model()
    if _TOKENIZER_MODEL.value is None and _TOKENIZER_FROM.value is None:
        return None
    startup.import_tensorflow()
    from keras_transformer import tokenization

    if _TOKENIZER_MODEL.value is not None:
        return tokenization.from_sentencepiece_file(_TOKENIZER_MODEL.value)
    return tokenization.load(pathlib.Path(_TOKENIZER_FROM.value) / "tokenizer")


def _languages(tokenizer) -> tuple[str, str | None]:
    """Return the codes of source and target, where a corpus does not name its own.

    That of the target is None for a corpus that must name it.
    """
    source, target = "en", "de"
    if tokenizer is not None:
        codes = {number: code for code, number in tokenizer.languages.items()}
        if not tokenizer.language_tokens:
            source = codes.get(tokenizer.source_prefix_id, source)
        if _tells_language(tokenizer):
            target = None
        target = tokenizer.default_language or target
    languages = _SOURCE_LANGUAGE.value or source, _TARGET_LANGUAGE.value or target
    if languages[1] is None and _CORPORA.value is None:
        raise ValueError(
            "--target_language is needed: the vocabulary has several languages "
            f"({', '.join(sorted(tokenizer.languages))})."
        )
    return languages


def _tells_language(tokenizer) -> bool:
    """Return whether sources begin with one of several target languages."""
    is_told = tokenizer.is_multilingual and bool(tokenizer.language_tokens)
    return is_told and tasks.of(_TASK.value).writes_text


def _for_languages(
    tokenizer, given: corpora.Corpora | None, languages: tuple[str, str]
):
    """Return the corpora and what gives their tokenizer, fitted to each other.

    A model trained here is told the target language before each source, so its corpora
    tell it. An imported one has a pair of languages in its tokenizer.
    """
    if tokenizer.is_multilingual and tokenizer.language_tokens and given:
        given = given.telling_languages()
    elif tokenizer.target_prefix_id is not None:
        pairs = {languages}
        if given:
            pairs = {
                (each.source_language, each.target_language) for each in given.corpora
            }
        if len(pairs) > 1:
            raise ValueError(
                "The model of --tokenizer_from is fine-tuned on one pair of languages "
                f"at a time. {given.path} has "
                f"{', '.join(sorted('-'.join(pair) for pair in pairs))}: list one pair."
            )
        tokenizer = tokenizer.with_languages(*pairs.pop())
    if given:
        data.check_symbols(given, tokenizer)
    return given, lambda texts: tokenizer


def _language_prefix(tokenizer, target_language: str) -> str:
    """Return what tells the target language to a model of several, "" for others."""
    if not _tells_language(tokenizer):
        return ""
    language_tokens.check("target_language", target_language, tokenizer.languages)
    return language_tokens.token_of(target_language)


def _tokenizer_maker(given: corpora.Corpora | None, encoding: PairEncoding):
    """Return what trains the vocabulary of the corpora."""
    from keras_transformer import tokenization

    vocab_size = _VOCAB_SIZE.value or _DEFAULTS[_TASK.value][0]
    if _TOKENIZER.value == "wordpiece":
        return functools.partial(tokenization.train_wordpiece, vocab_size=vocab_size)
    return functools.partial(
        tokenization.train_bpe,
        vocab_size=vocab_size,
        split_digits=_SPLIT_DIGITS.value,
        symbols=(*(given.symbols if given else ()), *encoding.symbols),
    )


def run() -> None:
    """Run as a console script."""
    programs.run(main, may_be_urls=[_TFDS_DATA_DIR])


if __name__ == "__main__":
    run()
