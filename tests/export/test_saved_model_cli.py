"""TensorFlow's `saved_model_cli` shows and runs an export, as the documents say."""

import subprocess
import sys

import pytest

from tests.small_models import make_translator

pytestmark = pytest.mark.long

# `saved_model_cli` does not load TensorFlow Text, whose operators the model needs.
COMMAND = (
    "import tensorflow_text; "
    "from tensorflow.python.tools.saved_model_cli import main; main()"
)


def test_saved_model_cli_shows_and_runs_an_export(small_export, repository):
    page = repository / "docs" / "how_to" / "serving.md"
    assert COMMAND in page.read_text(encoding="utf-8")
    shows = start(small_export, "show")
    runs = start(small_export, "run", "--input_exprs", "text=['A dog runs!', 'one']")
    shown = shows.communicate()[0].split()
    for name, dtype in [
        ("inputs['text']", "DT_STRING"),
        ("outputs['translation']", "DT_STRING"),
        ("outputs['score']", "DT_FLOAT"),
        ("outputs['truncated']", "DT_BOOL"),
    ]:
        index = shown.index(name)
        assert shown[index + 3 : index + 6] == [dtype, "shape:", "(-1)"]
    lines = runs.communicate()[0].splitlines()
    answer = lines[lines.index("Result for output key translation:") + 1]
    wanted = make_translator()(["A dog runs!", "one"])
    assert answer == "[" + " ".join(str(text.encode()) for text in wanted) + "]"


def start(saved_model, command, *options):
    where = ["--dir", saved_model, "--tag_set", "serve"]
    signature = ["--signature_def", "serving_default"]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, command, *where, *signature, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
