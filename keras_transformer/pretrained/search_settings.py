"""The search that a folder of Transformers asks for: done here, or refused by name.

`generate` reads generation_config.json; only where it is absent, config.json. Each
setting of it is in one of four groups: read, neutral only with some values, without
effect on a search, and unknown.
"""

from __future__ import annotations

import dataclasses
import pathlib

from keras_transformer.config import DecodingConfig
from keras_transformer.pretrained.published_model import (
    REMEDY,
    Options,
    check_numbers,
    check_options,
    read_json,
)

_FILE = "generation_config.json"
_SPECIAL_IDS = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
_NUMBERS = (
    "num_beams",
    "length_penalty",
    "no_repeat_ngram_size",
    "max_length",
    "max_new_tokens",
)
_LISTS = ("bad_words_ids", "suppress_tokens", "begin_suppress_tokens")
_READ = {
    *_SPECIAL_IDS,
    *_NUMBERS,
    *_LISTS,
    "early_stopping",
    "renormalize_logits",
    "forced_bos_token_id",
    "forced_eos_token_id",
}
_NOTHING = (False, 0, "", [], {})
# Settings that a search here does not have, with the values that change nothing.
_NEUTRAL = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "repetition_penalty": (1,),
    "encoder_repetition_penalty": (1,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0, 1),  # the decoder's first input counts
    "min_new_tokens": (0,),
    "guidance_scale": (1,),
    "penalty_alpha": (0,),
    **dict.fromkeys(
        (
            "begin_suppress_tokens",
            "constraints",
            "dola_layers",
            "exponential_decay_length_penalty",
            "force_bos_token_to_be_generated",
            "force_words_ids",
            "max_time",
            "sequence_bias",
            "stop_strings",
            "token_healing",
            "watermarking_config",
        ),
        _NOTHING,
    ),
}
# Settings of sampling, speed, and what `generate` returns beside the best output.
_WITHOUT_EFFECT = {
    *("_commit_hash", "_from_model_config", "transformers_version"),
    *("assistant_confidence_threshold", "assistant_early_exit"),
    *("assistant_ensemble_weight", "assistant_lookbehind", "is_assistant"),
    *("bos_token_id", "cache_config", "cache_implementation", "compile_config"),
    *("continuous_batching_config", "disable_compile", "diversity_penalty"),
    *("epsilon_cutoff", "eta_cutoff", "low_memory", "max_cache_len"),
    *("max_matching_ngram_size", "min_p", "num_assistant_tokens"),
    *("num_assistant_tokens_schedule", "num_return_sequences", "output_attentions"),
    *("output_hidden_states", "output_logits", "output_scores", "prefill_chunk_size"),
    *("prompt_lookup_num_tokens", "remove_invalid_values", "return_dict_in_generate"),
    *("speculation_type", "target_lookbehind", "temperature", "top_h", "top_k"),
    *("top_p", "typical_p", "use_cache", "use_mtp"),
}


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """What a published model's files say about its search."""

    decoding: DecodingConfig
    # Ids that are never chosen.
    suppressed_ids: tuple[int, ...]
    # What differs from Transformers, in words.
    notes: tuple[str, ...]


def read(
    folder: pathlib.Path, options: Options, max_input_length: int, prefix_id: int | None
) -> SearchSettings:
    """Read the settings of a folder.

    Args:
        folder: Has generation_config.json, or has them in config.json.
        options: Content of config.json.
        max_input_length: Most tokens of a source.
        prefix_id: The id that every target begins with, if any.

    Raises:
        ValueError: If one is damaged, or would give other outputs than a search here.
    """
    own = options
    if (folder / _FILE).is_file():
        own = read_json(folder / _FILE)
        _check_known(own)
    check_numbers(own, *_NUMBERS)
    _check_lists(own)
    ids = {name: (options[name], [options[name]]) for name in _SPECIAL_IDS}
    check_options(own, ids)
    suppressed_ids = _suppressed_ids(own, options["eos_token_id"])
    values = {name: values for name, values in _NEUTRAL.items() if name in own}
    if set(own.get("begin_suppress_tokens", ())) <= set(suppressed_ids):
        values.pop("begin_suppress_tokens", None)
    check_options(own, values, REMEDY)
    ends = (None, *ids["eos_token_id"])
    check_options(own, {"forced_eos_token_id": ends}, REMEDY)
    check_options(
        own,
        {"forced_bos_token_id": (None, prefix_id, [prefix_id])},
        "Give its language as --target_language." if prefix_id is not None else REMEDY,
    )
    notes = ()
    if "num_beams" not in own:
        notes = (
            f"{own.path} has no num_beams: a search keeps {DecodingConfig.beam_size} "
            "hypotheses, Transformers 1",
        )
    return SearchSettings(_decoding(own, max_input_length), suppressed_ids, notes)


def _check_known(settings: Options) -> None:
    """Raise ValueError if a setting is unknown and may change outputs."""
    known = _READ | _NEUTRAL.keys() | _WITHOUT_EFFECT
    for name, value in settings.items():
        if name not in known and value not in _NOTHING:
            raise ValueError(
                f"{settings.path}: {name} is {value!r:.40}, which is not known here "
                f"and may change outputs. {REMEDY}"
            )


def _check_lists(settings: Options) -> None:
    """Raise ValueError if what must be a list is something else."""
    for name in _LISTS:
        if not isinstance(settings.get(name, []), list):
            raise ValueError(
                f"{settings.path}: {name} must be a list. Received: "
                f"{settings[name]!r:.40}."
            )


def _suppressed_ids(settings: Options, eos_id: int) -> tuple[int, ...]:
    """Return the ids that are never chosen; EOS is not, as in Transformers.

    Raises:
        ValueError: If a sequence of several ids is forbidden.
    """
    never = settings.get("bad_words_ids", [])
    for ids in never:
        if not (isinstance(ids, list) and len(ids) == 1):
            raise ValueError(
                f"{settings.path}: bad_words_ids has {ids!r:.40}; lists of one id can "
                f"be read. {REMEDY}"
            )
    single = [number for (number,) in never if number != eos_id]
    return tuple(dict.fromkeys([*single, *settings.get("suppress_tokens", [])]))


def _decoding(settings: Options, max_input_length: int) -> DecodingConfig:
    if (alpha := settings.get("length_penalty", 1.0)) < 0:
        raise ValueError(
            f"{settings.path}: length_penalty is {alpha!r}; at least 0 is needed. "
            f"{REMEDY}"
        )
    is_forced = settings.get("forced_eos_token_id") is not None
    most = settings.get("max_new_tokens")
    if most is None and (longest := settings.get("max_length")) is not None:
        most = longest - 1  # the decoder's first input counts
    try:
        return DecodingConfig(
            beam_size=settings.get("num_beams", DecodingConfig.beam_size),
            length_penalty="power",
            length_penalty_alpha=alpha,
            no_repeat_ngram_size=settings.get("no_repeat_ngram_size", 0),
            # False and "never" bound what an unfinished hypothesis can reach.
            early_stopping=settings.get("early_stopping") is True,
            renormalize=settings.get("renormalize_logits", False) is True,
            force_eos=is_forced,
            certain_eos=is_forced,
            max_output_length=most,
            max_input_length=max_input_length,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{settings.path}: {error}") from error
