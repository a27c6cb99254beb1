"""Groups of flags that programs share: each defines its flags, checks and uses them.

A program makes a group where it defines its own flags. The flags then belong to the
program, whose --help shows them. Importing this module defines none.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

if TYPE_CHECKING:  # imports what loads models, and TensorFlow
    from keras_transformer.documents.protection import Protection
    from keras_transformer.inference.translator import Translator
    from keras_transformer.runs.checkpoints import Checkpoint
    from keras_transformer.runs.model_dir import ModelDir
    from keras_transformer.runs.run_config import RunConfig
    from keras_transformer.translation.opened_model import ModelFacts, OpenedModel
    from keras_transformer.translation.sampling import Sampling

# A flag belongs to the module that asks for it, whose --help then shows it.
flags.disclaim_key_flags()

_FIELD = re.compile(r"    (\w+): ")
_COMMENT = re.compile(r"    # (.*)")


class ModelFlags:
    """The flags that name one model, and say how it searches.

    Args:
        export: What the help of --saved_model calls the export that may be given
            instead of --model_dir; None: there is no --saved_model.
        has_languages: Whether there are --source_language and --target_language.
        has_search: Whether there are the flags of `define_search`, and --precision.
        has_ensemble: Whether there are --ensemble and --shortlist.

    Attributes:
        model_dir, checkpoint, saved_model, source_language, target_language, ensemble,
        shortlist, precision: The flags; None: the program has no such flag.
        search: The flags of `define_search` by field name.
    """

    def __init__(
        self,
        export: str | None = None,
        *,
        has_languages: bool = False,
        has_search: bool = False,
        has_ensemble: bool = False,
    ):
        self.model_dir = flags.DEFINE_string(
            "model_dir",
            None,
            "Folder of a trained model, or the name of a published one on the Hugging "
            "Face Hub, such as Helsinki-NLP/opus-mt-en-de.",
        )
        self.checkpoint = flags.DEFINE_string(
            "checkpoint",
            None,
            "averaged, best, latest, or the path of a checkpoint; default: the first "
            "of these that exists, except an average older than the latest checkpoint.",
        )
        self.saved_model = self.source_language = self.target_language = None
        self.ensemble = self.shortlist = None
        self.search = define_search() if has_search else {}
        self.precision = _define_precision() if has_search else None
        if export is not None:
            self.saved_model = flags.DEFINE_string(
                "saved_model",
                None,
                f"{export}, EXPORT_DIR/VERSION, instead of --model_dir.",
            )
        if has_languages:
            self._define_languages()
        if has_ensemble:
            self._define_ensemble()

    def _define_languages(self) -> None:
        self.source_language = flags.DEFINE_string(
            "source_language",
            None,
            "Code of the source language, for a multilingual model that was imported; "
            "default: the one chosen then. Models that are told only the target "
            "language need none.",
        )
        self.target_language = flags.DEFINE_string(
            "target_language",
            None,
            "Code of the target language, for a multilingual model; default: the one "
            "that a text begins with, as in '>>de<< A dog.', or the only one of "
            "training or import.",
        )

    def _define_ensemble(self) -> None:
        self.ensemble = flags.DEFINE_list(
            "ensemble",
            None,
            "Folders of further trained models with the vocabulary of --model_dir. All "
            "of them choose the pieces of a translation together, by the mean of their "
            "probabilities: better than each alone, and as slow as all. Default: none.",
        )
        self.shortlist = flags.DEFINE_bool(
            "shortlist",
            None,
            "Search among the pieces of MODEL_DIR/shortlist.npz that go with the "
            "source, which bin/make_shortlist.py makes: faster, and a few translations "
            "differ. Default: off.",
        )

    def check(self, *fixed: flags.FlagHolder) -> None:
        """Raise ValueError unless the flags name one model and fit it.

        Args:
            *fixed: Flags of the program that an export has fixed, beside those here.
        """
        if (self.model_dir.value is None) == (self.saved_model.value is None):
            raise ValueError("Give one of --model_dir and --saved_model.")
        if self.model_dir.value is not None:
            return
        ours = (self.shortlist, self.ensemble, self.checkpoint, self.precision)
        languages = (self.source_language, self.target_language)
        for flag in (*self.search.values(), *ours, *languages, *fixed):
            if flag is not None and flag.value != flag.default:
                raise ValueError(
                    f"--{flag.name} is fixed when a model is exported; drop it, or use "
                    "--model_dir."
                )

    def check_num_best(self, num_best: flags.FlagHolder) -> None:
        """Raise ValueError if more hypotheses are requested than are kept alive.

        Args:
            num_best: The flag with the requested number, for a model of --model_dir.
        """
        if num_best.value is None:
            return
        beam_size, owner = self.search["beam_size"].value, ""
        if beam_size is None:
            beam_size = self.config.get("decoding", {}).get("beam_size")
            owner = ", the model's own"
        if beam_size is not None and num_best.value > beam_size:
            raise ValueError(
                f"--{num_best.name}={num_best.value} must be at most --beam_size="
                f"{beam_size}{owner}. Give a larger --beam_size."
            )

    @functools.cached_property
    def folder(self) -> str | os.PathLike:
        """The folder of --model_dir; a published model is imported at first."""
        from keras_transformer.opening import folder_of

        has_languages = self.source_language is not None
        languages = self.languages() if has_languages else (None, None)
        return folder_of(self.model_dir.value, languages)

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The `config.json` of --model_dir, read without importing TensorFlow.

        It is {} if there is none or it cannot be read; loading the model reports that.
        """
        try:
            path = pathlib.Path(self.model_dir.value) / "config.json"
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return config if isinstance(config, dict) else {}

    def run(self) -> ModelDir:
        """Return the folder of --model_dir; FileNotFoundError if it has no model."""
        from keras_transformer.runs.model_dir import ModelDir

        model_dir = ModelDir(self.folder)
        model_dir.check_is_run()
        return model_dir

    def choose(self) -> Checkpoint:
        """Return the weights that --checkpoint chooses in --model_dir."""
        return self.run().choose(self.checkpoint.value)

    def weights(self) -> pathlib.Path:
        """Return the path of the weights, or of the export, that the flags choose."""
        export = self._export()
        return self.choose().path if export is None else pathlib.Path(export)

    def _export(self) -> str | None:
        return None if self.saved_model is None else self.saved_model.value

    def choose_ensemble(
        self, tokenizer: Any = None
    ) -> list[tuple[pathlib.Path, pathlib.Path]]:
        """Return what `ensembles.choose` finds for --ensemble.

        Args:
            tokenizer: Of the run of --model_dir, if it is loaded already.

        Raises:
            FileNotFoundError: If a folder has no model.
            ValueError: If a model cannot search together with that of --model_dir.
        """
        if not self.ensemble.value:
            return []
        from keras_transformer.opening import ensembles

        return ensembles.choose(
            self.folder, self.ensemble.value, self.languages(), tokenizer
        )

    def languages(self) -> tuple[str | None, str | None]:
        """Return the codes of source and target language, for `open_model`."""
        return self.source_language.value, self.target_language.value

    def target_languages(
        self, texts: Iterable[str], config: RunConfig, tokenizer: Any
    ) -> list[str]:
        """Return the code of the language that BLEU is told of each translation.

        Args:
            texts: The sources; what one begins with comes before --target_language.
            config: Of the run of --model_dir.
            tokenizer: Of the same.
        """
        from keras_transformer.language_tokens import codes_told

        default = self.target_language.value or config.target_language or "de"
        return codes_told(texts, tokenizer.language_tokens, default)

    def options(self) -> dict[str, Any]:
        """Return what the flags say to `opening.open_model` of --model_dir."""
        options = {"checkpoint": self.checkpoint.value, **overrides(self.search)}
        if self.source_language is not None:
            options["languages"] = self.languages()
        if self.shortlist is not None:
            options["shortlist"] = self.shortlist.value
        if self.precision is not None:
            options["precision"] = self.precision.value
        return options

    def loader(
        self, use: str | None, sampling: Sampling | None = None, **options: Any
    ) -> Callable[[], OpenedModel]:
        """Return a function that loads the model, in this process or in another.

        Args:
            use: Same as in `opening.open_model`.
            sampling: Same as in `opening.open_model`.
            **options: Those for --model_dir alone, which replace those of the flags.

        Raises:
            FileNotFoundError: If --model_dir has no model.
        """
        from keras_transformer.opening import open_model

        load = functools.partial(open_model, use=use, sampling=sampling)
        if (export := self._export()) is not None:
            return functools.partial(load, export)
        folder = self.run().path
        options = {**self.options(), **options}
        return functools.partial(load, folder, **options)

    def open(
        self, use: str | None, sampling: Sampling | None = None, **options: Any
    ) -> OpenedModel:
        """Load the model; arguments and errors are those of `loader`."""
        return self.loader(use, sampling, **options)()

    def load_translator(self, **options: Any) -> Translator:
        """Load the translator of --model_dir as it was trained.

        Args:
            **options: Same as in `loader`.

        Raises:
            FileNotFoundError: If there is no model.
            ValueError: If it is a parser.
        """
        from keras_transformer import tasks

        return self.open(None, task=tasks.TRANSLATION, **options).searcher

    def language_check(self, model: ModelFacts) -> Callable[[int, Iterable[str]], None]:
        """Return `language_check` for the model that the flags name."""
        if self.model_dir.value is None:
            return language_check(model)
        return language_check(model, "give --target_language")

    def check_languages(self, texts: Iterable[str], model: ModelFacts) -> None:
        """Check that texts tell a model their target language.

        Args:
            texts: What the model will read, a line each.
            model: The model, or its tokenizer.

        Raises:
            ValueError: If the model writes several languages and a text tells none.
        """
        check = self.language_check(model)
        for number, text in enumerate(texts, start=1):
            check(number, [text])


def language_check(
    model: ModelFacts, remedy: str = "export it with --target_language"
) -> Callable[[int, Iterable[str]], None]:
    """Return what checks that texts tell a model which language it is to write.

    It takes the number of a line, from 1, and the texts of this line that the model
    will read. It says on standard error which are not translated, and raises ValueError
    if the model writes several languages and a text tells none.

    Args:
        model: The model.
        remedy: What to do if a text tells no language; default: that of an export.
    """
    from keras_transformer.language_tokens import Reader

    reader = Reader(model.language_tokens, model.default_language, remedy)

    def check(number: int, texts: Iterable[str]) -> None:
        for text in texts:
            if problem := reader.read(number, text):
                print(problem, file=sys.stderr)

    return check


class ProtectionFlags:
    """The flags of what translations must have as it is.

    Attributes:
        glossary: The flag with the path of the terms.
    """

    def __init__(self):
        from keras_transformer.documents.protection import KINDS

        self._protect = flags.DEFINE_list(
            "protect",
            [],
            f"What translations must have as it is, among {', '.join(KINDS)}. A model "
            "with placeholders keeps each; for others the alignment of words is a "
            "guess.",
        )
        self.glossary = flags.DEFINE_string(
            "glossary",
            None,
            "Text file of terms that translations must have: a source term, a tab or "
            "' = ', and its translation a line; without translation the term stays. A "
            "third column exact: upper and lower case count.",
        )

    def is_given(self) -> bool:
        """Return whether a flag asks for protection."""
        return bool(self._protect.value or self.glossary.value)

    def read(self) -> Protection:
        """Return what the flags protect, for a model without placeholders.

        Raises:
            FileNotFoundError: If there is no such glossary.
            ValueError: If a kind is unknown, or a line of the glossary is wrong.
        """
        from keras_transformer.documents.protection import Protection, read_glossary

        terms = read_glossary(self.glossary.value) if self.glossary.value else ()
        return Protection(self._protect.value, terms)


def report_guess(protection: Protection) -> None:
    """Say on standard error if what is protected may get lost."""
    if protection.needs_alignment:
        print(
            "The model has no placeholders: what is protected is put where the "
            "alignment of words says, and may get lost.",
            file=sys.stderr,
        )


class SamplingFlags:
    """The flags of sampling."""

    def __init__(self):
        self._fields = (
            flags.DEFINE_float(
                "temperature",
                1.0,
                "Sampling: below 1 favours likely tokens; 0 takes the likeliest.",
                lower_bound=0.0,
            ),
            flags.DEFINE_integer(
                "top_k",
                0,
                "Sampling: draw from this many tokens; 0: all.",
                lower_bound=0,
            ),
            flags.DEFINE_float(
                "top_p",
                1.0,
                "Sampling: draw from the likeliest tokens that together have this "
                "probability.",
                lower_bound=0.0,
                upper_bound=1.0,
            ),
            flags.DEFINE_integer(
                "seed", 0, "Sampling: other seeds, other translations."
            ),
        )

    def values(self) -> dict[str, Any]:
        """Return the fields of `Sampling`, for what the output depends on."""
        return {flag.name: flag.value for flag in self._fields}

    def sampling(self) -> Sampling:
        """Return how to draw."""
        from keras_transformer.translation.sampling import Sampling

        return Sampling(**self.values())


class DeviceFlags:
    """The flags that say what a program trains on, and in which precision.

    Attributes:
        fields: The flags of fields of `RunOptions` by name.
        precision: The flag with the name of a Keras dtype policy.
    """

    def __init__(self):
        from keras_transformer.runs.run_config import RunConfig
        from keras_transformer.training.run_options import RunOptions

        names = ("distribution", "num_replicas", "max_tokens_per_replica")
        self.fields = define_fields(RunOptions, only=(*names, "jit_compile"))
        self.precision = define_fields(RunConfig, only=("precision",))["precision"]

    def options(self) -> dict[str, Any]:
        """Return the fields of `RunOptions` that these flags set.

        Raises:
            ValueError: If two flags exclude each other.
        """
        options = values(self.fields)
        num_replicas = options["num_replicas"]
        if options["distribution"] == "one_device" and num_replicas not in (None, 1):
            raise ValueError(
                f"--num_replicas={num_replicas} and --distribution=one_device exclude "
                "each other; give --distribution=mirrored."
            )
        return options


def define_resume() -> flags.FlagHolder:
    """Define --resume, for `resumable_output`."""
    return flags.DEFINE_bool(
        "resume",
        False,
        "Go on with OUTPUT.partial, which a run that ended early has left; without "
        "one, begin anew.",
    )


def _define_precision() -> flags.FlagHolder:
    from keras_transformer.config import SEARCH_PRECISIONS

    return flags.DEFINE_enum(
        "precision",
        None,
        SEARCH_PRECISIONS,
        "Data type of weights and products of a search. bfloat16: half the size, "
        "rounded scores. int8: a quarter of the size, for CPUs; a few translations "
        "differ. Default: that of training; of an export float32.",
    )


def define_search() -> dict[str, flags.FlagHolder]:
    """Define flags of the search, fields of `DecodingConfig`; return them by field."""
    from keras_transformer.config import DecodingConfig

    return define_fields(
        DecodingConfig,
        only=(
            *("beam_size", "length_penalty_alpha", "no_repeat_ngram_size"),
            *("max_repetitions", "early_stopping", "allow_unk"),
        ),
        default="the model's",
    )


def define_fields(
    config_class: type,
    *,
    only: Collection[str] = (),
    leave_out: Collection[str] = (),
    default: str | None = None,
) -> dict[str, flags.FlagHolder]:
    """Define a flag for each field, with the comment above the field as its help.

    The flag has the field's name, default, range and choices. The field's metadata may
    name the flag otherwise under "flag"; None there means no flag. The metadata may
    have the "minimum" of a number, and "choices".

    Args:
        config_class: A dataclass of integers, numbers, truth values and strings.
        only: Fields that get a flag; empty: all.
        leave_out: Fields that get no flag.
        default: For flags that replace fields of a configuration, whose value is None
            unless they are given: what the help says of the default, in which {} is the
            field's.

    Returns:
        Flags by field name.
    """
    comments = field_comments(config_class)
    holders = {}
    for field in dataclasses.fields(config_class):
        is_chosen = field.name not in leave_out and (not only or field.name in only)
        if not is_chosen or field.metadata.get("flag", field.name) is None:
            continue
        value, text = field.default, comments[field.name]
        if default is not None:
            base = "none" if value is None else value
            value, text = None, f"{text} Default: {default.format(base)}."
        holders[field.name] = _define_flag(field, value, text)
    return holders


def define_overrides(
    config_class: type, leave_out: Collection[str] = ()
) -> dict[str, flags.FlagHolder]:
    """Define flags that replace fields of a preset; arguments as in `define_fields`."""
    default = "the preset's; in base: {}"
    return define_fields(config_class, leave_out=leave_out, default=default)


def values(holders: Mapping[str, flags.FlagHolder]) -> dict[str, Any]:
    """Return the value of each flag by field name."""
    return {name: holder.value for name, holder in holders.items()}


def overrides(holders: Mapping[str, flags.FlagHolder]) -> dict[str, Any]:
    """Return the values of the flags that were given, by field name."""
    return {name: value for name, value in values(holders).items() if value is not None}


def override(config: Any, holders: Mapping[str, flags.FlagHolder]) -> Any:
    """Return the configuration with the values of the flags that were given."""
    return dataclasses.replace(config, **overrides(holders))


def field_comments(config_class: type) -> dict[str, str]:
    """Return the comment above each field of a dataclass."""
    comments, lines = {}, []
    for line in inspect.getsource(config_class).splitlines():
        if match := _COMMENT.fullmatch(line):
            lines.append(match[1])
            continue
        if match := _FIELD.match(line):
            comments[match[1]] = " ".join(lines)
        lines = []
    return comments


def _define_flag(
    field: dataclasses.Field, default: Any, help_text: str
) -> flags.FlagHolder:
    """Define the flag of one field."""
    rules = field.metadata
    name = rules.get("flag", field.name)
    if "choices" in rules:
        return flags.DEFINE_enum(name, default, list(rules["choices"]), help_text)
    define_kind = {
        "bool": flags.DEFINE_bool,
        "int": flags.DEFINE_integer,
        "float": flags.DEFINE_float,
        "str": flags.DEFINE_string,
    }[str(field.type).removesuffix(" | None")]
    bounds = {"lower_bound": rules["minimum"]} if "minimum" in rules else {}
    return define_kind(name, default, help_text, **bounds)
