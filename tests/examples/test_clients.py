"""The clients of `examples/clients/`: each asks a SavedModel over TF Serving's REST."""

import json
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.export.small_server import MODEL_NAME, BatchingModel, serve

LINES = ["A dog runs.", 'say "ä" \\ <b>', "", "tab\tend"]
TRANSLATIONS = ["A DOG RUNS.", 'SAY "Ä" \\ <B>', "", "TAB\tEND"]
CLIENTS = {"client.py": sys.executable, "client.mjs": "node", "client.sh": "sh"}
# What each needs beside its interpreter.
NEEDED = {"client.py": "python3", "client.mjs": "node", "client.sh": "curl"}


class ShoutingModel(tf.Module):
    """A fake model with the outputs of an export: "translates" to upper case."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        return {
            "translation": tf.strings.upper(text, "utf-8"),
            "score": -tf.cast(tf.strings.length(text), tf.float32),
            "truncated": tf.strings.length(text) > 23,
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The "HOST:PORT" of a server of the fake model."""
    path = tmp_path_factory.mktemp("export") / "1"
    model = ShoutingModel()
    tf.saved_model.save(model, path, signatures={"serving_default": model.serve})
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
