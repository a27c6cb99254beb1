"""Published models by their names on the Hugging Face Hub.

Its own client downloads, once, and only what is read: HF_HOME, HF_ENDPOINT, HF_TOKEN,
HF_HUB_OFFLINE and the client's other variables have their usual meaning. What has been
imported is kept in a cache of ours, so a second start only loads it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import huggingface_hub
from huggingface_hub import errors
from huggingface_hub.utils import WeakFileLock

import keras_transformer
from keras_transformer import atomic_files, hardware
from keras_transformer.pretrained import huggingface, importing, marian

_NAME = re.compile(
    r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[^@\s]+))?",
    re.ASCII,
)
_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


class Name(NamedTuple):
    """The name of a model on the Hub."""

    repository: str  # OWNER/MODEL
    revision: str | None = None  # a branch, a tag or a commit; None: the main branch

    def __str__(self) -> str:
        return "@".join(filter(None, self))


def parse(text: str | os.PathLike) -> Name | None:
    """Read OWNER/MODEL or OWNER/MODEL@REVISION; None for all else, such as a path."""
    match = _NAME.fullmatch(os.fspath(text))
    return Name(match["repository"], match["revision"]) if match else None


def download(name: Name) -> pathlib.Path:
    """Download the files of a model that are read, into the cache of the Hub's client.

    What is there already is not downloaded again, also by two processes at once, and is
    used if the Hub cannot be reached. Another kind of model, or weights that cannot be
    read here, are refused before anything large is downloaded.

    Returns:
        The folder of the files; its name is the commit.

    Raises:
        FileNotFoundError: If there is no such model or revision, or the Hub cannot be
            reached and the cache does not have it.
        PermissionError: If the Hub gives the model only to some.
        ValueError: If the model cannot be read.
        OSError: If the download breaks off, or the disk is full.
    """
    where = {"repo_id": name.repository, "revision": name.revision}
    wanted = [*huggingface.FILES, *marian.FILES]
    with _explained(name):
        try:
            found = huggingface_hub.HfApi().model_info(**where)
        except (errors.OfflineModeIsEnabled, errors.HTTPError) as error:
            response = getattr(error, "response", None)
            if response is not None and response.status_code < 500:
                raise
            where["local_files_only"] = True  # the Hub cannot be reached
        else:
            files = [file.rfilename for file in found.siblings]
            if "config.json" in files:
                config = huggingface_hub.hf_hub_download(
                    filename="config.json", **where
                )
                huggingface.check_family(pathlib.Path(config))
            elif not any(file.endswith("decoder.yml") for file in files):
                raise ValueError(
                    f"{name} has neither config.json (Hugging Face) nor decoder.yml "
                    "(Marian), so it cannot be imported."
                )
            wanted += _pickle(name, files)
        return pathlib.Path(
            huggingface_hub.snapshot_download(allow_patterns=wanted, **where)
        )


def imported(
    name: Name,
    source_language: str | None = None,
    target_language: str | None = None,
) -> pathlib.Path:
    """Return the model_dir of a model, importing it if that was not done before.

    Args:
        name: The model.
        source_language: As in `importing.import_model`.
        target_language: As in `importing.import_model`.

    Raises:
        As `download` and `importing.import_model`.
    """
    files = download(name)
    release = keras_transformer.__version__
    languages = filter(None, (source_language, target_language))
    folder = hardware.cache_folder("models") / name.repository.replace("/", "--")
    model_dir = folder / "-".join([files.name, release, *languages])
    folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(folder / ".importing.lock"):  # another process imports it, too
        if not model_dir.exists():
            with atomic_files.atomic_folder(model_dir) as aside:
                importing.import_model(
                    files,
                    aside,
                    source_language=source_language,
                    target_language=target_language,
                    name=str(name),
                )
    return model_dir


def upload(folder: str | os.PathLike, name: Name) -> str:
    """Upload the files of a folder to the Hub; a repository that is absent is made.

    Args:
        folder: The files.
        name: The repository, and the branch; None: the main branch.

    Returns:
        The address of the repository.

    Raises:
        OSError: If the Hub does not take them.
    """
    api = huggingface_hub.HfApi()
    try:
        address = api.create_repo(name.repository, exist_ok=True)
        api.upload_folder(
            repo_id=name.repository, revision=name.revision, folder_path=folder
        )
    except errors.HTTPError as error:
        raise OSError(
            f"{api.endpoint} did not take {folder} as {name} ({_first_line(error)}): "
            f"{_LOG_IN}, of one who may write there."
        ) from error
    return str(address)


def _pickle(name: Name, files: Collection[str]) -> list[str]:
    """Return the pickle of a model that has no other weights, if it can be read.

    Raises:
        ValueError: If it cannot.
    """
    has_others = any(file.endswith((".safetensors", ".npz")) for file in files)
    if has_others or huggingface.PICKLE not in files:
        return []
    if importlib.util.find_spec("torch") is None:
        raise ValueError(
            f"{name} has its weights only as {huggingface.PICKLE}, which PyTorch "
            "reads: install keras_transformer[pytorch]."
        )
    return [huggingface.PICKLE]


@contextlib.contextmanager
def _explained(name: Name) -> Iterator[None]:
    """Turn the errors of the Hub's client into one line each."""
    endpoint = huggingface_hub.constants.ENDPOINT
    no_folder = f"There is no folder {name.repository}, and"
    try:
        yield
    except errors.GatedRepoError as error:
        raise PermissionError(
            f"{name.repository} is given to those who accept its conditions: do so at "
            f"{endpoint}/{name.repository} and {_LOG_IN}."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f"{no_folder} {endpoint} has no model of this name, or only for those who "
            f"may see it: correct the path or the name, or {_LOG_IN}."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise FileNotFoundError(
            f"{name.repository} has no revision {name.revision} at {endpoint}."
        ) from error
    except errors.LocalEntryNotFoundError as error:
        cache = huggingface_hub.constants.HF_HUB_CACHE
        cause = "cannot be reached"
        if huggingface_hub.constants.is_offline_mode():
            cause = "is not asked, because HF_HUB_OFFLINE is set"
        raise FileNotFoundError(
            f"{no_folder} {endpoint} {cause}; {cache} has no whole copy of a model of "
            "this name."
        ) from error
    except errors.HTTPError as error:
        raise OSError(
            f"{endpoint} failed to give {name}: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
