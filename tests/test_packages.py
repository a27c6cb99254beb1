"""The source archive and the wheel: what is in them, and that the wheel works alone."""

import configparser
import os
import pathlib
import shutil
import site
import subprocess
import sys
import tarfile
import zipfile

import pytest

pytestmark = pytest.mark.long

# What lies in a checkout and is not part of it (.gitignore).
LEFTOVERS = (".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__")
LEFTOVERS += (".pytest_cache", ".ruff_cache", ".hypothesis", "site")

# As in `make quickstart`, which has 1,178,624 parameters.
PREPARE = ("--train_source=train.en", "--train_target=train.de", "--data_dir=data")
PREPARE += ("--valid_source=valid.en", "--valid_target=valid.de", "--vocab_size=2000")
TRAIN = ("--preset=tiny", "--num_layers=2", "--d_ff=512", "--tokens_per_batch=500")
TRAIN += ("--train_steps=2", "--bleu_sentences=0", "--data_dir=data", "--model_dir=run")

PLAIN_FIT = """
import numpy as np
import keras_transformer as kt

config = kt.ModelConfig(vocab_size=13, num_layers=1, d_model=6, d_ff=7, num_heads=2)
model = kt.Transformer(config)
model.compile("adam", kt.LabelSmoothedCrossEntropy(0.1))
tokens = np.array([[5, 7, 3], [11, 3, 0]], np.int32)
model.fit(tokens, tokens, verbose=0)
model.save("plain.keras")
"""

LOAD = """
{imports}
print(keras_transformer.__file__)
print(keras.saving.load_model("{folder}/run/model.keras").count_params())
print(keras_transformer.load_model("{folder}/run/model.keras").count_params())
print(keras_transformer.load_model("{folder}/run").count_params())
print(keras.saving.load_model("{folder}/plain.keras").count_params())
print(keras_transformer.load_model("{folder}/plain.keras").count_params())
"""


def run(command, folder, **options):
    """Run a command as a shell of its own would; return standard output."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environment = {name: os.environ[name] for name in os.environ.keys() - hidden}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        **options,
    )
    assert result.returncode == 0, (command, result.stderr[-3000:])
    return result.stdout


def files_below(folder):
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture(scope="module")
def checkout(repository, tmp_path_factory):
    """A copy: building writes into the folder."""
    copy = tmp_path_factory.mktemp("build") / "checkout"
    leftovers = shutil.ignore_patterns(*LEFTOVERS)
    shutil.copytree(repository, copy, ignore=leftovers, symlinks=True)
    # Only here: a package has this name, too.
    shutil.rmtree(copy / "runs", ignore_errors=True)
    return copy


@pytest.fixture(scope="module")
def packages(checkout):
    """The source archive, and the wheel that was made of it alone."""
    build = [sys.executable, "-m", "build", "--no-isolation"]
    source = files_below(checkout)
    run([*build, "--outdir", checkout.parent / "dist"], checkout)
    (archive,) = (checkout.parent / "dist").glob("*.tar.gz")
    (wheel,) = (checkout.parent / "dist").glob("*.whl")
    return source, archive, wheel


@pytest.fixture(scope="module")
def environment(packages, tmp_path_factory):
    """A fresh environment with the wheel, and with everything that it requires.

    Its requirements are those of this environment, on a path after its own; how this
    one finds the checkout (a .pth file) is not passed on.
    """
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    python = folder / "bin" / "python"
    install = ["-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    run([sys.executable, *install, packages[2]], folder)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "requirements.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder


def test_the_source_archive_has_the_whole_checkout(packages):
    source, archive, _ = packages
    with tarfile.open(archive) as opened:
        members = {
            str(pathlib.PurePath(*pathlib.PurePath(member.name).parts[1:]))
            for member in opened.getmembers()
            if member.isfile()
        }
    assert {"constraints.txt", "docs/index.md", "tests/small_models.py"} <= source
    assert source <= members, source - members
    made = {name for name in members - source if ".egg-info/" not in name}
    assert made == {"PKG-INFO", "setup.cfg"}


def test_the_wheel_has_what_runs_and_what_servers_read(packages):
    source, _, wheel = packages
    expected = {name for name in source if name.startswith("keras_transformer/")}
    expected |= {
        f"keras_transformer/{name}"
        for name in source
        if name.startswith(("bin/", "export/"))
    }
    assert "keras_transformer/export/serving/batching.config" in expected
    members = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in members if ".dist-info/" not in name} == expected


def test_every_program_is_a_script_that_shows_its_flags_in_any_folder(
    packages, environment, tmp_path
):
    source, _, _ = packages
    programs = {
        name.removesuffix(".py").replace("/", ".")
        for name in source
        if name.startswith(("bin/", "export/")) and name.endswith(".py")
    }
    # It runs without this package: python -I export/run_saved_model.py.
    programs -= {"bin.__init__", "export.__init__", "export.run_saved_model"}
    (entries,) = environment.glob("lib/python*/site-packages/*/entry_points.txt")
    scripts = configparser.ConfigParser()
    scripts.read(entries)
    scripts = dict(scripts["console_scripts"])
    expected = {f"keras_transformer.{name}:run" for name in programs}
    assert set(scripts.values()) == expected
    for script in scripts:
        shown = run([environment / "bin" / script, "--help"], tmp_path)
        assert f"{environment}/bin/{script}:\n  --" in shown


@pytest.fixture(scope="module")
def saved_models(environment, repository, tmp_path_factory):
    """Models saved by the installed kt-train and after a plain `compile` and `fit`."""
    folder = tmp_path_factory.mktemp("models")
    programs = environment / "bin"
    write = repository / "examples" / "write_phrasebook.py"
    run([sys.executable, write, "--output_dir=."], folder)
    run([programs / "kt-prepare-data", *PREPARE], folder)
    run([programs / "kt-train", *TRAIN], folder)
    run([programs / "python", "-c", PLAIN_FIT], folder)
    return folder


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    "imports",
    [
        "import keras, keras_transformer",
        "import keras_transformer, keras",
        "import keras_transformer, keras; keras_transformer.Transformer",
    ],
)
def test_saved_models_load_whatever_was_imported_first(
    environment, saved_models, tmp_path, imports
):
    """The small model: 78 in the embedding, 3 x 144, 2 x 97 and 5 x 12 in layers."""
    program = LOAD.format(imports=imports, folder=saved_models)
    printed = run([environment / "bin/python", "-c", program], tmp_path).splitlines()
    place, *counts = printed
    assert place.startswith(str(environment))
    assert counts == ["1178624", "1178624", "1178624", "764", "764"]
