"""What do import, translation, export and load of a published model take?

    python benchmarks/published_models.py --model=opus_mt

writes a folder as Transformers does, with random weights, and then runs each program in
a process of its own: import, ten lines, export, and the same lines with the export.
--model=m2m100_418m needs 8 GB of disk and memory. Prints one line of JSON with the
seconds and the peak memory (of the whole process, in MB) of each step; "start" only
imports the package, for comparison.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure, published_folder, timed_process
from keras_transformer.cli import programs, startup

_MODEL = flags.DEFINE_enum(
    "model", "opus_mt", list(published_folder.SIZES), "Size of the model."
)
_PRECISION = flags.DEFINE_enum(
    "precision", "bfloat16", ["float32", "bfloat16"], "Precision of the export."
)
_LINES = 10


def main() -> dict:
    """Write the folder, run the programs, and print."""
    startup.import_tensorflow()
    result = {
        "benchmark": "published_models",
        "model": _MODEL.value,
        "precision": _PRECISION.value,
        **measure.environment("float32"),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights = published_folder.write(folder / "published", _MODEL.value)
        result["weights_mb"] = round(weights / 1e6)
        (folder / "text").write_text("12 345 6 7890 11 1213 14 15 1617 18\n" * _LINES)
        for step, arguments in commands(folder).items():
            took = timed_process.run([sys.executable, *arguments])
            result[f"{step}_s"] = measure.rounded(took.seconds, 3)
            result[f"{step}_peak_mb"] = round(took.peak_bytes / 1e6)
    measure.write_line(**result)
    return result


def commands(folder: pathlib.Path) -> dict[str, list[str]]:
    """Return the arguments of Python of each step, in order."""
    languages = []
    if published_folder.SIZES[_MODEL.value]["model_type"] == "m2m_100":
        languages = ["--source_language=en", "--target_language=de"]
    model_dir, text = f"--model_dir={folder}/model", f"--input={folder}/text"
    output = f"--output={folder}/output"
    return {
        "start": ["-c", "import keras_transformer.pretrained.importing"],
        "import": [
            "bin/import_model.py",
            f"--input={folder}/published",
            model_dir,
            *languages,
        ],
        "translate": ["bin/translate.py", model_dir, text, output],
        "export": [
            "export/export_saved_model.py",
            model_dir,
            f"--export_dir={folder}/export",
            f"--precision={_PRECISION.value}",
            "--signatures=serving_default",
        ],
        "load": ["bin/translate.py", f"--saved_model={folder}/export/1", text, output],
    }


if __name__ == "__main__":
    programs.run(main)
