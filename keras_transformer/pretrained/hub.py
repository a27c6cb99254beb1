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
import urllib.parse
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import huggingface_hub
from huggingface_hub import errors
from huggingface_hub.utils import WeakFileLock, validate_repo_id

import keras_transformer
from keras_transformer import atomic_files, hardware
from keras_transformer.pretrained import huggingface, importing, marian

_NAME = re.compile(
    r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[^@\s]+))?",
    re.ASCII,
)
_CONFIG = "config.json"
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
    if match is None:
        return None
    try:
        validate_repo_id(match["repository"])
    except errors.HFValidationError:
        return None
    return Name(match["repository"], match["revision"])


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
    with _explained(name):
        try:
            found = huggingface_hub.HfApi().model_info(**where)
        except errors.RevisionNotFoundError:
            raise
        except (errors.OfflineModeIsEnabled, errors.HTTPError) as error:
            try:
                return _of_cache(where)
            except errors.LocalEntryNotFoundError:
                if isinstance(error, errors.HfHubHTTPError):  # the Hub has answered
                    raise error from None
                raise
        wanted = _files_to_read(name, [file.rfilename for file in found.siblings])
        if _CONFIG in wanted:
            config = huggingface_hub.hf_hub_download(filename=_CONFIG, **where)
            huggingface.check_family(pathlib.Path(config), f"{name}/{_CONFIG}")
        return pathlib.Path(
            huggingface_hub.snapshot_download(
                allow_patterns=[*wanted, importing.CARD], **where
            )
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
    codes = [source_language or "", target_language or ""]
    # Quoted, a code is one part of a path, and has no "+".
    languages = "+".join(urllib.parse.quote(code, safe="") for code in codes)
    key = f"{files.name}-{keras_transformer.__version__}-{languages}"
    folder = hardware.cache_folder("models") / name.repository.replace("/", "--")
    model_dir = folder / key
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


def _of_cache(where: Mapping[str, str | None]) -> pathlib.Path:
    """Return the folder of a model that was downloaded before."""
    config = huggingface_hub.try_to_load_from_cache(filename=_CONFIG, **where)
    patterns = huggingface.FILES if isinstance(config, str) else marian.FILES
    return pathlib.Path(
        huggingface_hub.snapshot_download(
            allow_patterns=[*patterns], local_files_only=True, **where
        )
    )


def _files_to_read(name: Name, files: Collection[str]) -> list[str]:
    """Return the patterns of the files to download.

    Raises:
        ValueError: If there is no model that can be read.
    """
    if _CONFIG not in files:
        if any(file.endswith("decoder.yml") for file in files):
            return [*marian.FILES]
        raise ValueError(
            f"{name} has neither {_CONFIG} (Hugging Face) nor decoder.yml (Marian), so "
            "it cannot be imported."
        )
    if huggingface.WEIGHTS in files or huggingface.INDEX in files:
        return [*huggingface.FILES]
    if huggingface.PICKLE not in files:
        raise ValueError(f"{name} has no {huggingface.WEIGHTS}.")
    if importlib.util.find_spec("torch") is None:
        raise ValueError(
            f"{name} has its weights only as {huggingface.PICKLE}, which PyTorch "
            "reads: install keras_transformer[pytorch]."
        )
    return [*huggingface.FILES, huggingface.PICKLE]


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
