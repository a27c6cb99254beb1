"""The way to a model: of a run, of an export, an imported one, or one on a hub."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, Any

from keras_transformer.config import check_choice
from keras_transformer.translation.opened_model import USES, OpenedModel

if TYPE_CHECKING:  # imports TensorFlow
    from keras_transformer.translation.sampling import Sampling


def open_model(
    path: str | os.PathLike,
    use: str | None = "translate",
    *,
    sampling: Sampling | None = None,
    **options: Any,
) -> OpenedModel:
    """Load a model for a use.

    Args:
        path: The folder of a run or of an imported model, or of a version of an export,
            EXPORT_DIR/VERSION, local or remote (gs://); or the name of a published
            model, see `folder_of`.
        use: What `run_batch` does, or "serve"; see `opened_model.USES`. None, for a
            run: its `searcher` is as trained, for what needs its model.
        sampling: For the use "sample": how to draw.
        **options: For a run; an export has fixed them. `checkpoint`: as in
            `ModelDir.choose`; `precision`: name of a Keras dtype policy, or "int8", see
            `Translator.quantized`, None: that of training; `task`: the one of `tasks`
            that its model must have, None: that of the use; `tokenizer`: the run's, if
            it is loaded already; fields of `DecodingConfig`, of which None keeps the
            run's value. For a translator also `num_best`: hypotheses to return for each
            source; `languages`: codes of source and target language, for a multilingual
            model, None: the one chosen at its import, or the run's `default_language`;
            `shortlist`: whether to search among the pieces of the run's shortlist
            alone; `ensemble`: folders and weights of further models that search
            together with this one, from `ensembles.choose`. For a parser also
            `constrained`: whether only trees are searched.

    Raises:
        FileNotFoundError: If there is no model or no shortlist, or the Hub has no model
            of this name or cannot be reached.
        ValueError: If it is not for this use, an option does not fit it, or it is
            damaged.
        TypeError: If there is no such option.

    Examples:
        >>> model = kt.open_model("runs/my", beam_size=1)
        >>> model.source_language, model.target_language
        ('en', 'de')
        >>> len(model.translate(["one two", "two"]))
        2
    """
    if use is not None:
        check_choice("use", use, USES)
    path = folder_of(path, options.get("languages", (None, None)))
    if (pathlib.Path(path) / "config.json").is_file():
        from keras_transformer.opening.of_run import open_run

        return open_run(path, use, sampling, options)
    from keras_transformer.translation.exported_model import check_use, open_export

    unset = (None, (None, None))
    given = sorted(name for name, value in options.items() if value not in unset)
    if given or use is None:
        check_use(path, use or "serve")  # its error says that there is no model
        raise ValueError(
            f"{path} is no run: an export has fixed its options. Received: "
            f"{', '.join(given) or f'use={use}'}."
        )
    return open_export(path, use, sampling)


def folder_of(
    model: str | os.PathLike, languages: tuple[str | None, str | None] = (None, None)
) -> str | os.PathLike:
    """Return the folder of a model: a path as it is, a name as the model's model_dir.

    What is no path here may be the name of a published model on the Hugging Face Hub,
    OWNER/MODEL or OWNER/MODEL@REVISION. It is downloaded and imported at first, and
    then kept in the user's cache.

    Args:
        model: The path or the name.
        languages: Codes of source and target language, which M2M-100 and NLLB need.

    Raises:
        FileNotFoundError: If the Hub has no model of this name or cannot be reached.
        ValueError: If it is a model that cannot be imported.
        OSError: If its files cannot be downloaded or written.
    """
    if os.path.exists(model):
        return model
    from keras_transformer.pretrained import hub

    name = hub.parse(model)
    return model if name is None else hub.imported(name, *languages)
