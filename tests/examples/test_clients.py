"""The clients of `examples/clients/`: each asks a SavedModel over TF Serving's REST."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.export import shouting_model
from tests.export.small_server import MODEL_NAME, BatchingModel, serve

LINES = ["A dog runs.", 'say "ä" \\ <b>', "", "tab\tend"]
TRANSLATIONS = ["A DOG RUNS.", 'SAY "Ä" \\ <B>', "", "TAB\tEND"]
CLIENTS = {"client.py": sys.executable, "client.mjs": "node", "client.sh": "sh"}
# What each needs beside its interpreter.
NEEDED = {"client.py": "python3", "client.mjs": "node", "client.sh": "curl"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The "HOST:PORT" of a server of the fake model."""
    path = tmp_path_factory.mktemp("export") / "1"
    shouting_model.save(path)
    with serve(BatchingModel(path)) as addresses:
        yield addresses["rest"]


@pytest.fixture(params=CLIENTS)
def ask(request, repository):
    """Return what runs a client; skips where a program that it needs is absent."""
    name = request.param
    if shutil.which(NEEDED[name]) is None:
        pytest.skip(f"no {NEEDED[name]} on the PATH")

    def run(*arguments, lines=LINES):
        return name, subprocess.run(
            [CLIENTS[name], repository / "examples" / "clients" / name, *arguments],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )

    return run


def test_lines_are_translated(ask, server):
    name, result = ask(server, MODEL_NAME)
    assert result.returncode == 0, result.stderr
    if name == "client.sh":  # prints the server's JSON, and has spaces for tabs
        found = json.loads(result.stdout)["outputs"]["translation"]
        assert found == [text.replace("\t", " ") for text in TRANSLATIONS]
    else:
        assert result.stdout == "".join(f"{text}\n" for text in TRANSLATIONS)


def test_the_server_s_error_is_shown(ask, server):
    _, result = ask(server, "absent")
    assert result.returncode != 0
    message = "Servable not found for /v1/models/absent:predict"
    assert message in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_javascript_of_a_page_translates(server, repository):
    """There is no `process` in a browser."""
    if shutil.which("node") is None:
        pytest.skip("no node on the PATH")
    client = (repository / "examples" / "clients" / "client.mjs").as_uri()
    code = f"""
        const log = console.log;
        delete globalThis.process;
        const {{ translate }} = await import("{client}");
        log((await translate("{server}", "{MODEL_NAME}", ["ein Hund"]))[0]);
    """
    result = subprocess.run(
        ["node", "--input-type=module", "--eval", code],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout == "EIN HUND\n", result.stderr
