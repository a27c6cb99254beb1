"""The package is looked around in as a Keras user does."""

import importlib.resources
import inspect
import subprocess
import sys

import pytest

import keras_transformer as kt


def test_names_are_complete_and_explained():
    assert dir(kt) == sorted(kt.__all__)
    assert importlib.resources.files(kt).joinpath("py.typed").is_file()
    for name in kt.__all__[1:]:
        assert inspect.getdoc(getattr(kt, name)), name


@pytest.mark.parametrize(
    "thing", [kt.Transformer, kt.Translator, kt.Parser, kt.tokenization.Tokenizer]
)
def test_methods_of_ones_own_are_explained(thing):
    """Those that a user sees, not Keras's, which it explains itself."""
    own = {
        name: value
        for name, value in vars(thing).items()
        if callable(value) and not name.startswith("_")
    }
    keras_own = {"build", "call", "get_config", "from_config"}
    keras_own |= {name for name in own if name.startswith("compute_")}
    for name in own.keys() - keras_own:
        assert inspect.getdoc(getattr(thing, name)), name


def test_importing_the_package_loads_neither_keras_nor_tensorflow():
    program = (
        "import sys, time; start = time.perf_counter(); import keras_transformer\n"
        "assert time.perf_counter() - start < 1.0\n"
        "assert not {'keras', 'tensorflow'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
