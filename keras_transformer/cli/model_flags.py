"""The flags that choose a trained model."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from absl import flags

if TYPE_CHECKING:  # imports what loads models
    from keras_transformer.inference.translator import Translator
    from keras_transformer.translation.opened_model import OpenedModel
    from keras_transformer.translation.sampling import Sampling

MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of a trained model.")
CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    None,
    "averaged, best, latest, or the path of a checkpoint; default: the first of these "
    "that exists, except an average older than the latest checkpoint.",
)


def weights(saved_model: flags.FlagHolder) -> pathlib.Path:
    """Return the path of the weights that the flags choose.

    Args:
        saved_model: The flag with the path of an export, which may be given instead.
    """
    if saved_model.value is not None:
        return pathlib.Path(saved_model.value)
    from keras_transformer.runs.model_dir import ModelDir

    model_dir = ModelDir(MODEL_DIR.value)
    model_dir.check_is_run()
    return model_dir.choose(CHECKPOINT.value).path


def check_one(saved_model: flags.FlagHolder, fixed: Iterable[flags.FlagHolder]) -> None:
    """Raise ValueError unless the flags name one model and fit it.

    Args:
        saved_model: Same as in `weights`.
        fixed: Flags that an export has fixed.
    """
    if (MODEL_DIR.value is None) == (saved_model.value is None):
        raise ValueError("Give one of --model_dir and --saved_model.")
    for flag in fixed:
        if saved_model.value is not None and flag.value != flag.default:
            raise ValueError(
                f"--{flag.name} is fixed when a model is exported; drop it, or use "
                "--model_dir."
            )


def open_model(
    saved_model: flags.FlagHolder,
    use: str,
    sampling: Sampling | None = None,
    **options: Any,
) -> OpenedModel:
    """Load the model that the flags name.

    Args:
        saved_model: Same as in `weights`.
        use: Same as in `opening.open_model`.
        sampling: Same as in `opening.open_model`.
        **options: Those for --model_dir alone.
    """
    from keras_transformer import opening

    if saved_model.value is not None:
        return opening.open_model(saved_model.value, use, sampling=sampling)
    from keras_transformer.runs.model_dir import ModelDir

    ModelDir(MODEL_DIR.value).check_is_run()
    options = {"checkpoint": CHECKPOINT.value, **options}
    return opening.open_model(MODEL_DIR.value, use, sampling=sampling, **options)


def load_translator(**options: Any) -> Translator:
    """Load the translator of --model_dir as it was trained.

    Args:
        **options: Those of `opening.open_model`.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If it is a parser.
    """
    from keras_transformer import tasks
    from keras_transformer.opening import open_model
    from keras_transformer.runs.model_dir import ModelDir

    config = ModelDir(MODEL_DIR.value).read_config()
    tasks.TRANSLATION.check(config.task, MODEL_DIR.value)
    options = {"checkpoint": CHECKPOINT.value, **options}
    return open_model(MODEL_DIR.value, None, **options).searcher


def read_config() -> dict[str, Any]:
    """Return the `config.json` of --model_dir, without importing TensorFlow.

    It is {} if there is none or it cannot be read; loading the model reports that.
    """
    try:
        path = pathlib.Path(MODEL_DIR.value) / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
