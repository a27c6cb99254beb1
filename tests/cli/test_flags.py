"""Flags that do not fit each other are refused before TensorFlow is imported."""

import dataclasses
import json
import subprocess
import sys

import pytest
from absl import flags

from keras_transformer import presets
from keras_transformer.cli import startup
from keras_transformer.cli.flags import ModelFlags, field_comments
from keras_transformer.config import (
    DecodingConfig,
    ModelConfig,
    PairFilters,
    TrainingConfig,
)
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training.run_options import RunOptions


@pytest.mark.parametrize(
    "groups",
    [
        "ModelFlags('A model', has_languages=True, has_search=True)",
        "DeviceFlags(), flags.ProtectionFlags(), flags.SamplingFlags()",
    ],
)
def test_flags_are_defined_without_tensorflow(groups, repository):
    code = "import sys; from keras_transformer.cli import flags\n"
    code += f"flags.{groups}\n"
    code += "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=repository, check=True)


def test_flags_of_a_run_are_its_options(program_of, monkeypatch):
    """Every option has a flag, with the option's default and comment."""
    found = {}
    monkeypatch.setattr(
        presets, "table", lambda: found.update(flags.FLAGS.flag_values_dict())
    )
    program_of("bin/train.py")(preset="help")
    options = dataclasses.asdict(RunOptions())
    options["preflight"] = options.pop("has_preflight")
    assert options.items() <= found.items()
    comments = field_comments(RunOptions)
    assert comments["log_every_steps"] == "Steps between two lines of progress."


@pytest.mark.parametrize(
    "config_class",
    [RunOptions, ModelConfig, TrainingConfig, DecodingConfig, PairFilters],
)
def test_every_field_has_a_comment_for_its_flags_help(config_class):
    comments = field_comments(config_class)
    for field in dataclasses.fields(config_class):
        assert comments[field.name].endswith("."), field.name


@pytest.fixture
def model_dir(tmp_path):
    """What can be known of a model without TensorFlow: its `config.json`."""

    def make(task):
        config = {"task": task, "decoding": {"beam_size": 4}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path

    return make


@pytest.fixture
def refuse(program_of, monkeypatch):
    """Return what runs a program that has to refuse its flags at once."""

    def fail():
        pytest.fail("TensorFlow is imported before the flags are checked")

    def run(path, message, **given):
        monkeypatch.setattr(startup, "import_tensorflow", fail)
        with pytest.raises((ValueError, flags.Error), match=message):
            program_of(path)(**given)

    return run


@pytest.mark.parametrize(
    ("program", "given"),
    [
        ("bin/translate.py", {}),
        ("export/export_saved_model.py", {"export_dir": "none"}),
    ],
)
def test_more_translations_than_hypotheses_are_refused(
    refuse, model_dir, program, given
):
    given["model_dir"] = model_dir("translation")
    own = "--nbest=5 must be at most --beam_size=4, the model's own. Give a larger"
    refuse(program, own, nbest=5, **given)
    ours = "--nbest=3 must be at most --beam_size=2. Give a larger --beam_size"
    refuse(program, ours, nbest=3, beam_size=2, **given)
    refuse(program, "--nbest=0: 0 is not a positive", nbest=0, **given)
    refuse(program, "--beam_size=0: 0 is not a positive", beam_size=0, **given)
    message = "--length_penalty_alpha=-0.1: -0.1 is not a non-negative"
    refuse(program, message, length_penalty_alpha=-0.1, **given)
    for name in ("no_repeat_ngram_size", "max_repetitions"):
        message = f"--{name}=-1: -1 is not a non-negative"
        refuse(program, message, **{name: -1}, **given)


def test_what_an_export_has_fixed_is_no_flag_of_its_translation(refuse):
    message = "--beam_size is fixed when a model is exported"
    refuse("bin/translate.py", message, saved_model="export/1", beam_size=2)
    message = "--no_repeat_ngram_size is fixed when a model is exported"
    for program in ("bin/translate.py", "export/serve.py"):
        refuse(program, message, saved_model="export/1", no_repeat_ngram_size=0)
    message = "--shortlist is fixed when a model is exported"
    refuse("bin/translate.py", message, saved_model="export/1", shortlist=True)
    message = "--precision is fixed when a model is exported"
    for program in ("bin/translate.py", "bin/parse.py", "export/serve.py"):
        refuse(program, message, saved_model="export/1", precision="int8")


def test_what_cannot_be_exported_is_refused(refuse, model_dir):
    program = "export/export_saved_model.py"
    where = {"model_dir": model_dir("translation"), "export_dir": "none"}
    refuse(program, "`signature` must be one of", signatures="serving", **where)
    refuse(
        program,
        "--check_input needs serving_default among --signatures",
        signatures="score",
        check_input="text",
        **where,
    )
    message = "--precision=int8 is for CPUs"
    refuse(program, message, precision="int8", device="gpu", **where)
    measured = "--check_target needs --check_input, and --precision=int8 or bfloat16"
    refuse(program, measured, check_target="text", precision="int8", **where)
    for name in ({}, {"precision": "float32"}):
        refuse(program, measured, check_target="a", check_input="b", **name, **where)
    checked = {"check_input": "a", "check_target": "b", "precision": "int8"}
    message = "--check_target needs lines to translate"
    refuse(program, message, check_lines=0, **checked, **where)
    where["model_dir"] = model_dir("parsing")
    refuse(program, "--check_target is for translation", check_target="a", **where)
    refuse(program, "--nbest is for translation models", nbest=2, **where)
    refuse(program, "--shortlist is for translation models", shortlist=True, **where)


@pytest.mark.parametrize(
    ("program", "names", "given"),
    [
        (
            "export/export_saved_model.py",
            ("check_input", "check_target"),
            {"precision": "int8", "export_dir": "none", "check_lines": 1},
        ),
        ("bin/evaluate.py", ("source", "reference"), {}),
    ],
)
def test_a_text_needs_a_reference_for_each_line(
    program_of, model_dir, tmp_path, monkeypatch, program, names, given
):
    """The files are counted before a model is loaded, and as they are."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("a\nb\n")
    target.write_text("a\nb\nc\n")
    monkeypatch.setattr(ModelFlags, "choose", lambda _: pytest.fail("too late"))
    files = dict(zip(names, (source, target), strict=True))
    message = f"{source} has 2 lines and {target} has 3: line n of one must translate"
    with pytest.raises(ValueError, match=message):
        program_of(program)(model_dir=model_dir("translation"), **files, **given)


def test_an_empty_text_checks_nothing_and_is_refused(program_of, model_dir, tmp_path):
    (tmp_path / "text").touch()
    with pytest.raises(ValueError, match="text has no lines to check"):
        program_of("export/export_saved_model.py")(
            model_dir=model_dir("translation"),
            export_dir=tmp_path / "export",
            check_input=tmp_path / "text",
        )


@pytest.mark.parametrize(
    ("program", "flags"),
    [
        ("bin/visualize_attention.py", {"source": "a", "output": "a.png"}),
        ("export/convert_ctranslate2.py", {"output_dir": "out"}),
        ("export/convert_huggingface.py", {"output_dir": "out"}),
    ],
)
def test_programs_for_translators_refuse_what_is_none(
    program_of, parser_dir, tmp_path, program, flags
):
    with pytest.raises(ValueError, match="is a parser: use bin/parse.py"):
        program_of(program)(model_dir=parser_dir, **flags)
    with pytest.raises(FileNotFoundError, match="has no config.json. Train first"):
        program_of(program)(model_dir=tmp_path / "absent", **flags)


def test_the_configuration_is_read_once_to_load_a_translator(
    program_of, parser_dir, monkeypatch
):
    """A parser is refused by what is read anyway, before its weights are."""
    read, folders = ModelDir.read_config, []
    monkeypatch.setattr(
        ModelDir, "read_config", lambda self: folders.append(self.path) or read(self)
    )
    monkeypatch.setattr(ModelDir, "load_model", lambda *_: pytest.fail("too late"))
    with pytest.raises(ValueError, match="is a parser: use bin/parse.py"):
        program_of("export/convert_ctranslate2.py")(
            model_dir=parser_dir, output_dir="out"
        )
    assert folders == [parser_dir]


def test_flags_of_the_other_task_are_refused(refuse, model_dir):
    where = {"model_dir": model_dir("parsing"), "source": "a", "reference": "b"}
    refuse("bin/evaluate.py", "--source is for --task=translation", **where)
    both = {"hypothesis": "a", "reference": "b", "task": "parsing"}
    for name in ("shortlist", "ensemble"):
        message = f"--{name} and --hypothesis exclude each other"
        refuse("bin/evaluate.py", message, **{name: True}, **both)
    message = "--unconstrained and --hypothesis exclude each other"
    refuse("bin/evaluate.py", message, unconstrained=True, **both)


def test_a_corpus_needs_one_source(refuse):
    program, where = "bin/prepare_data.py", {"data_dir": "data"}
    refuse(program, "--train_source is needed beside", **where)
    refuse(program, "--valid_trees is needed", task="parsing", train_trees="a", **where)
    both = {"dataset": "tfds:a", "train_source": "a"}
    refuse(program, "--dataset and --train_source exclude each other", **both, **where)


def test_what_cannot_be_trained_is_refused(refuse):
    program, where = "bin/train.py", {"data_dir": "data", "model_dir": "model"}
    many = {"num_replicas": 2, "distribution": "one_device"}
    message = "--num_replicas=2 and --distribution=one_device exclude each other"
    refuse(program, message, **many, **where)
    message = "--log_every_steps=0: 0 is not a positive"
    refuse(program, message, log_every_steps=0, **where)
    refuse(program, "`num_heads` must divide `d_model`", num_heads=7, **where)
