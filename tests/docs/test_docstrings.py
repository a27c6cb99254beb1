"""The examples in docstrings: every public name has one, and all of them run."""

import doctest
import importlib
import inspect
import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from tests import small_models

CORPORA = """\
corpora:
  - {name: news, source: train.en, target: train.de}
  - {name: dev, split: valid, source: valid.en, target: valid.de}
"""
TREE = "( (S (NP-SBJ (DT the) (NN fox)) (VP (VBZ barks))) )\n"


def test_every_public_name_has_an_example(reference):
    """Those of the reference, but for training as the programs do it."""
    listed = re.findall(r"^::: (\S+)$", reference.python_page(), re.MULTILINE)
    own = {f"keras_transformer.{kt._NAMES[name]}.{name}" for name in kt._NAMES}
    public = [
        path
        for path in listed
        if path in own or not path.startswith("keras_transformer.training.")
    ]
    assert len(public) > 90
    for path in public:
        module, _, name = path.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        if callable(value):  # constants have no docstring
            assert ">>> " in inspect.getdoc(value), path


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the examples use: modules, a small model, and files where they run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())  # examples set numbers there
    (tmp_path / "corpora.yaml").write_text(CORPORA)
    (tmp_path / "trees.mrg").write_text(TREE)
    (tmp_path / "spiece.model").write_bytes(small_models.vocabulary())
    for split in ("train", "valid"):
        (tmp_path / f"{split}.en").write_text("A dog runs.\none two three\n")
        (tmp_path / f"{split}.de").write_text("Ein Hund läuft.\neins zwei drei\n")
    translator = small_models.make_translator()
    small_models.write_model(translator, tmp_path / "runs" / "my")
    paths = {name: (f"{name}.en", f"{name}.de") for name in ("train", "valid")}
    source = kt.data.TextFiles(paths, "en", "de")
    kt.data.prepare(source, "data/my", lambda texts: translator.tokenizer)
    return {
        "keras": keras,
        "kt": kt,
        "np": np,
        "tf": tf,
        "model": translator.model,
        "parser": small_models.make_parser(),
        "tokenizer": translator.tokenizer,
        "translator": translator,
    }


@pytest.mark.long
def test_the_examples_run(repository, names):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failures = []
    for path in sorted(repository.glob("keras_transformer/**/*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            module = ".".join(path.relative_to(repository).with_suffix("").parts)
            module = importlib.import_module(module.removesuffix(".__init__"))
            for test in doctest.DocTestFinder().find(module, globs=names):
                runner.run(test, out=failures.append)
    assert runner.tries > 200
    assert not failures, "".join(failures)
