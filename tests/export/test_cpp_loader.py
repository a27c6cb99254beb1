"""An export runs in C++ with the loader of TF Serving, without Python."""

import collections
import os
import pathlib
import random
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import hardware
from keras_transformer.pretrained import importing
from keras_transformer.serving import saved_model
from keras_transformer.translation import program_sizes
from keras_transformer.translation.program_sizes import Size
from tests.inference.test_int8_product import needs_int8
from tests.searchers import load_searcher
from tests.small_models import LINES, inputs_of, make_translator

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def runner(tmp_path_factory, repository):
    """The C++ program, built against the installed TensorFlow."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on the PATH")
    binary = tmp_path_factory.mktemp("cpp") / "run_signatures"
    libraries = tf.sysconfig.get_lib()
    subprocess.run(
        [
            "g++",
            "-O0",
            *tf.sysconfig.get_compile_flags(),
            "-w",
            str(repository / "tests" / "export" / "run_signatures.cc"),
            "-o",
            str(binary),
            f"-L{libraries}",
            "-l:libtensorflow_cc.so.2",
            "-l:libtensorflow_framework.so.2",
            f"-Wl,-rpath,{libraries}",
        ],
        check=True,
    )
    return binary


def run_program(runner, version, lines, *arguments):
    """Run the program; return its process."""
    import tensorflow_text

    operators = pathlib.Path(tensorflow_text.__file__).parent / "python" / "ops"
    return subprocess.run(
        [runner, version, operators / "_sentencepiece_tokenizer.so", *arguments],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )


def run(runner, version, lines):
    """Run the program and return {(signature, output): rows of printed values}."""
    result = run_program(runner, version, lines)
    assert result.returncode == 0, result.stderr.decode()[-3000:]
    outputs = collections.defaultdict(list)
    for line in result.stdout.decode().removesuffix("\n").split("\n"):
        signature, output, _, *values = line.split("\t")
        outputs[signature, output].append(values)
    return outputs


def escaped(text):
    """Return a text as the program prints it."""
    return text.replace("\t", "\\t").replace("\n", "\\n")


def check_same_outputs(runner, version):
    """Every signature prints for 100 sources what it returns in Python.

    Returns:
        What `run` returns.
    """
    draw = random.Random(7)
    words = " ".join(LINES).split()
    sources = [" ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(100)]
    seconds = [" ".join(draw.choices(words, k=2)) for _ in range(100)]
    lines = [f"{left}\t{right}" for left, right in zip(sources, seconds, strict=True)]
    printed = run(runner, version, lines)
    signatures = tf.saved_model.load(str(version)).signatures
    assert {signature for signature, _ in printed} == set(signatures)
    for name, signature in sorted(signatures.items()):
        for output, wanted in signature(**inputs_of(name, sources, seconds)).items():
            rows = printed[name, output]
            wanted = wanted.numpy().reshape(100, -1)
            if wanted.dtype == object:
                shown = [[escaped(text.decode()) for text in row] for row in wanted]
                assert rows == shown, (name, output)
            else:
                np.testing.assert_allclose(
                    np.array(rows, np.float64), wanted, atol=1e-4, err_msg=output
                )
    return printed


@pytest.mark.long(first=1)
@pytest.mark.parametrize("export", ["small_export", "small_parser_export"])
def test_every_signature_gives_the_same_outputs_in_cpp(runner, export, request):
    check_same_outputs(runner, request.getfixturevalue(export))


def test_a_compiled_search_gives_the_same_outputs_in_cpp(runner, tmp_path, monkeypatch):
    """The signature that compiles is the first by name, so it runs first."""
    size = Size(rows=128, width=32, prefix=1)
    monkeypatch.setattr(program_sizes, "sizes_for", lambda *_: [size])
    version = saved_model.export(
        make_translator(),
        tmp_path,
        signatures=["serving_default"],
        description={"device": "cpu"},
    )
    printed = check_same_outputs(runner, version)
    for signature in ("compile", "programs"):
        assert printed[signature, "is_compiled"] == [["1"]] * 100
    assert printed["programs", "num_missed"] == [["0"]] * 100


@pytest.mark.parametrize("flag", ["sse", pytest.param(hardware.VNNI, marks=needs_int8)])
def test_weights_of_8_bits_give_the_same_outputs_in_cpp(
    runner, flag, tmp_path, monkeypatch
):
    """C++ looks at the CPU, too: what it finds there is in a file of the test."""
    (tmp_path / "cpuinfo").write_text(f"flags : {flag}\n")
    monkeypatch.setattr(hardware, "CPU_INFO", str(tmp_path / "cpuinfo"))
    version = saved_model.export(
        make_translator().quantized(),
        tmp_path / "export",
        signatures=["serving_default", "score"],
    )
    check_same_outputs(runner, version)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("name", ["prefix", "target_text", "seed"])
def test_an_input_of_another_size_is_refused_in_cpp(runner, small_export, name):
    result = run_program(runner, small_export, ["A dog\tzwei"] * 2, name)
    assert result.returncode == 1
    error = result.stderr.decode()
    assert "The inputs must have the same number of items" in error
    assert "text=2" in error
    assert f"{name}=1" in error


@pytest.mark.long(first=1)
@pytest.mark.parametrize("name", ["opus_mt", "opus_mt_tc_big", "marian", "m2m100"])
def test_an_imported_model_gives_the_same_translations_in_cpp(
    runner, name, shared_data, tmp_path
):
    languages = {"source_language": "en", "target_language": "de"}
    importing.import_model(
        shared_data / "pretrained" / name,
        tmp_path / "model",
        **(languages if name == "m2m100" else {}),
    )
    translator = load_searcher(tmp_path / "model", extra_decode_length=5)
    check_same_outputs(
        runner,
        saved_model.export(
            translator, tmp_path / "export", signatures=["serving_default"]
        ),
    )
