"""Table 3 run again: which rows, how they shrink, what is done twice, the report."""

import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from absl import flags
from absl.testing import flagsaver

from keras_transformer import data, presets
from keras_transformer.evaluation import table3, table3_report
from keras_transformer.evaluation.table3 import RowResult
from tests.small_corpus import write_corpus

MODEL_RATIOS = {"d_model": 4, "d_ff": 4, "key_dim": 4, "num_layers": 2}


def changes(preset, base):
    """Return the fields in which a preset differs from base."""
    return {
        name: value
        for part in ("model", "training")
        for name, value in dataclasses.asdict(getattr(preset, part)).items()
        if value != dataclasses.asdict(getattr(base, part))[name]
    }


@pytest.fixture
def load(repository):
    """Return what loads a program as a module; its flags are forgotten afterwards."""
    with flagsaver.flagsaver():

        def load(name):
            path = repository / "bin" / f"{name}.py"
            spec = importlib.util.spec_from_file_location(f"bin.{name}", path)
            program = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(program)
            return program

        yield load


def test_all_names_every_row_of_the_table():
    rows = table3.choose_rows("all")
    assert rows[0] == "base"
    assert rows[-1] == "big"
    assert len(rows) == 20  # Table 3 without base: 4 + 2 + 7 + 4 + 1 rows, and big


def test_rows_are_chosen_in_the_order_of_the_table_with_base():
    assert table3.choose_rows("e, A4,a1") == ["base", "A1", "A4", "E"]
    assert table3.choose_rows("A1,All") == table3.choose_rows("all")


def test_a_wrong_row_is_named_with_the_nearest():
    with pytest.raises(ValueError, match="Received: 'c8'"):
        table3.choose_rows("A1,C8")


@pytest.mark.parametrize("row", table3.choose_rows("all")[1:])
def test_a_shrunk_row_keeps_exactly_its_change(row):
    """What differs from base differs from the shrunk base, by the same ratio."""
    full = changes(table3.row_preset(row), table3.row_preset("base"))
    mini = changes(table3.row_preset(row, "mini"), table3.row_preset("base", "mini"))
    assert mini.keys() == full.keys()
    assert full
    for name, value in full.items():
        ratio = {**MODEL_RATIOS, "train_steps": 50}.get(name, 1)
        assert mini[name] == (value // ratio if ratio > 1 else value)


def test_base_shrinks_to_a_model_for_a_cpu():
    mini = table3.row_preset("base", "mini")
    assert (mini.model.num_layers, mini.model.d_model, mini.model.d_ff) == (3, 128, 512)
    assert mini.model.num_heads == 8
    assert mini.training.train_steps == 2000
    assert mini.training.warmup_steps == 400


def test_the_flags_of_a_row_make_its_preset(load):
    train = load("train")
    for scale in table3.SCALES:
        for row in table3.ROWS:
            preset = table3.row_preset(row, scale)
            given = table3.train_flags(preset).items()
            with flagsaver.flagsaver():
                flags.FLAGS(
                    ["train.py", *(f"--{name}={value}" for name, value in given)]
                )
                assert train.chosen_preset() == preset
    assert table3.train_flags(table3.row_preset("B1")) == {"preset": "table3_b1"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), "data", 285)


def tiny_preset(**training):
    preset = presets.get("base")
    values = {"train_steps": 4, "tokens_per_batch": 150, "max_length": 40}
    return dataclasses.replace(
        preset,
        model=dataclasses.replace(
            preset.model, num_layers=1, d_model=6, d_ff=7, num_heads=2
        ),
        training=dataclasses.replace(preset.training, **{**values, **training}),
    )


def run_row(program, corpus, folder, **training):
    given = {"data_dir": corpus, "output_dir": folder, "seed": 3}
    given["distribution"] = "one_device"
    flags.FLAGS(["reproduce.py", *(f"--{name}={given[name]}" for name in given)])
    return program.run_row("base", tiny_preset(**training), data.read_metadata(corpus))


@pytest.mark.long
def test_a_row_is_finished_once_and_refuses_others(corpus, load, tmp_path, capsys):
    program = load("reproduce")
    first = run_row(program, corpus, tmp_path, train_steps=2)
    assert first.perplexity > 1
    assert first.seconds > 0
    assert "base: step 2/2" in capsys.readouterr().out
    hypotheses = tmp_path / "base" / "valid.hypothesis"
    assert len(hypotheses.read_text().splitlines()) == 7
    again = run_row(program, corpus, tmp_path, train_steps=2)
    assert capsys.readouterr().out == "base: finished before\n"
    assert dataclasses.asdict(again) == json.loads(
        (tmp_path / "base" / "result.json").read_text()
    )
    trained = json.loads((tmp_path / "base" / "model" / "config.json").read_text())
    assert trained["corpus_hash"]
    trained["corpus_hash"] = trained["training"]["pack"] = None  # decided by the run
    assert again.config == trained
    with pytest.raises(
        ChildProcessError, match="row base: .* its `label_smoothing` is 0.1, here it is"
    ):
        run_row(program, corpus, tmp_path, train_steps=2, label_smoothing=0.2)
    with pytest.raises(
        ChildProcessError, match="row base: .* holds a run of 2 steps, more than"
    ):
        run_row(program, corpus, tmp_path, train_steps=1)


def test_a_damaged_result_says_what_to_do(tmp_path):
    (tmp_path / "result.json").write_text('{"row": "base"}')
    with pytest.raises(ValueError, match=r"result.json is damaged .* Delete it"):
        table3.read_result(tmp_path)


@pytest.fixture
def run_code(load, tmp_path, monkeypatch):
    """Return what runs Python code in place of bin/train.py, for the row A1."""
    program = load("reproduce")
    monkeypatch.setattr(program, "__file__", str(tmp_path / "reproduce.py"))

    def run(code, **values):
        (tmp_path / "train.py").write_text(code)
        return program.run_program("A1", "train.py", **values)

    return run


TELL = """
import json, os, sys
print(json.dumps({"process": os.getpid(), "flags": sys.argv[1:]}), flush=True)
print("a warning at the end", file=sys.stderr)
"""


def test_a_row_has_a_process_of_its_own_and_its_death_is_named(run_code):
    summary = run_code(TELL, d_ff=7, num_replicas=None)
    assert summary["process"] != os.getpid()
    assert summary["flags"] == ["--json", "--d_ff=7"]
    with pytest.raises(
        ChildProcessError,
        match=r"row A1: bin/train.py was ended by SIGKILL, perhaps because memory ran "
        "out. Run the same command again to resume",
    ):
        run_code("import os; os.kill(os.getpid(), 9)")


def test_an_error_of_a_row_is_one_line_with_its_name(run_code, capsys):
    code = "import sys; print('step 1'); sys.exit('train.py: `d_ff` is wrong.')"
    with pytest.raises(ChildProcessError, match="^row A1: `d_ff` is wrong.$"):
        run_code(code)
    assert capsys.readouterr().out == "A1: step 1\n"
    with pytest.raises(ChildProcessError, match="^row A1: ZeroDivisionError: "):
        run_code("1 / 0")
    assert "A1: Traceback" in capsys.readouterr().out


STUB = """
import os, pathlib, signal, sys, time
def stop(number, frame):
    pathlib.Path(__file__).with_name("saved").touch()
    print("step 7 is saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print("step 6", flush=True)
time.sleep(3600)
"""
DRIVER = """
import sys
from bin import reproduce
def main():
    return reproduce.run_program("A1", "train.py")
reproduce.__file__ = "{}/reproduce.py"
reproduce.programs.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_training_saves_and_ends_with_this_program(number, repository, tmp_path):
    (tmp_path / "train.py").write_text(STUB)
    (tmp_path / "driver.py").write_text(DRIVER.format(tmp_path))
    process = subprocess.Popen(
        [sys.executable, tmp_path / "driver.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
        # A shell's background job, as a test run may be, passes an ignored SIGINT on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "A1: step 6\n"
    process.send_signal(number)
    error = process.communicate(timeout=60)[1]
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert error == "driver.py: row A1: step 7 is saved\n"
        assert process.returncode == 128 + number
    for _ in range(100):
        if (tmp_path / "saved").exists():
            return
        time.sleep(0.1)
    pytest.fail("the training goes on")


REFERENCES = [f"the {number} small cats sat on mat {number}" for number in range(60)]


def test_equal_translations_cannot_be_told_apart_and_worse_ones_can():
    worse = [line.replace("small cats", "dogs") for line in REFERENCES[:30]]
    mixed = worse + REFERENCES[30:]
    assert table3.difference_p_value(mixed, REFERENCES, REFERENCES, "en") < 0.01
    one_off = ["the 0 cats sat on mat 0", *REFERENCES[1:]]
    assert table3.difference_p_value(one_off, REFERENCES, REFERENCES, "en") > 0.05


def result_of(row, perplexity, bleu):
    return RowResult(row, {}, perplexity, bleu, 1_460_000, 90.0)


@pytest.fixture
def compared():
    """Base, a row that went as the paper's, and one that went against it."""
    names = ["base", "table3_a1", "table3_d3", "table3_e"]
    results = [
        result_of("base", 6.0, 30.0),
        result_of("A1", 6.5, 28.0),
        result_of("D3", 6.25, 30.5),
        result_of("E", 6.1, 30.1),
    ]
    return table3_report.compare(
        [presets.get(name) for name in names], results, [None, 0.001, 0.01, 0.4]
    )


def test_changes_are_from_base_and_have_a_verdict(compared):
    _, a1, d3, e = compared
    assert (a1.perplexity_change, a1.paper_perplexity_change) == (0.5, 0.37)
    assert (a1.bleu_change, a1.paper_bleu_change) == (-2.0, -0.9)
    assert (a1.perplexity_verdict, a1.bleu_verdict) == ("yes", "yes")
    # The paper: perplexity 4.67 instead of 4.92, BLEU 25.3 instead of 25.8.
    assert (d3.perplexity_verdict, d3.bleu_verdict) == ("no", "no")
    assert e.perplexity_verdict == "the paper has no change"
    assert e.bleu_verdict == "too close to tell"


def test_the_page_has_a_line_a_row_and_says_what_is_missing(compared):
    facts = {
        "scale": "mini",
        "command": "python bin/reproduce.py",
        "machine": "2 cores",
        "data": "29,000 pairs.",
        "recipe": "3 layers.",
        "missing": ["C3"],
        "picture": "table3.png",
    }
    page = table3_report.markdown(compared, facts)
    lines = page.splitlines()
    (row,) = (line for line in lines if line.startswith("| A1 |"))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "A1",
        "1 head of 512",
        "1.46 (65)",
        "6.500 (5.29)",
        "+0.50 (+0.37)",
        "yes",
        "28.00 (24.9)",
        "-2.00 (-0.9)",
        "0.001",
        "yes",
        "1.5",
    ]
    assert "Not run yet: C3." in lines
    assert "![changes from base](table3.png)" in lines
    assert (
        "Direction of the paper's change in perplexity: yes: A1; no: D3; the paper has "
        "no change: E. Direction of the paper's change in BLEU: yes: A1; no: D3; too "
        "close to tell: E." in lines
    )


def test_the_picture_draws_the_papers_changes_and_ours(compared):
    axes = table3_report.figure(compared).axes
    drawn = {
        line.get_label(): list(line.get_xdata())
        for line in axes[1].lines
        if line.get_label() in ("paper", "ours")
    }
    assert drawn["paper"] == [-0.9, -0.5, -0.1]
    assert drawn["ours"] == pytest.approx([-2.0, 0.5, 0.1])
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels[1] == "D3: no label smoothing"


def run_program(repository, *arguments):
    return subprocess.run(
        [sys.executable, repository / "bin" / "reproduce.py", *arguments],
        capture_output=True,
        text=True,
    )


def test_the_report_reads_the_translations_of_the_rows(corpus, tmp_path):
    with open(f"{corpus}/valid.target", encoding="utf-8") as file:
        references = file.read()
    results = {}
    for row, text in (("base", references), ("D3", "nothing\n" * 7)):
        (tmp_path / row).mkdir()
        (tmp_path / row / "valid.hypothesis").write_text(text)
        results[row] = result_of(row, 6.0, 100.0 if row == "base" else 0.0)
    rows = table3_report.write_report(
        tmp_path / "table3.md",
        corpus,
        {row: table3.row_preset(row, "mini") for row in ("base", "D3", "E")},
        results,
        scale="mini",
        seed=3,
        command="python bin/reproduce.py",
    )
    assert rows[1].p_value < 0.01
    assert rows[1].bleu_verdict == "yes"
    page = (tmp_path / "table3.md").read_text()
    assert "| D3 | no label smoothing |" in page
    assert "Not run yet: E." in page
    assert "60 pairs, en to de, 285 words (bpe); 7 validation pairs." in page
    assert (tmp_path / "table3.png").read_bytes().startswith(b"\x89PNG")


def test_the_program_runs_the_rows_in_order_and_reports(
    load, corpus, tmp_path, monkeypatch, capsys
):
    """With programs that take no time in place of trainings."""
    program = load("reproduce")
    calls = []

    def run(row, name, **values):
        calls.append((row, name, values))
        if name == "train.py":
            return {"num_parameters": 1_460_000, "seconds": 90.0}
        text = pathlib.Path(corpus, "valid.target").read_text()
        values["output"].parent.mkdir(parents=True)
        values["output"].write_text(text)
        return {"perplexity": 5.0, "bleu_tokenized": 100.0}

    monkeypatch.setattr(program, "run_program", run)
    monkeypatch.setattr(sys, "argv", ["reproduce.py", "--rows=E,A1"])
    flags.FLAGS(
        [
            "reproduce.py",
            "--rows=E,A1",
            "--scale=mini",
            "--train_steps=7",
            "--seed=3",
            "--num_replicas=2",
            f"--data_dir={corpus}",
            f"--output_dir={tmp_path}",
        ]
    )
    summary = program.main()
    programs = ["train.py", "evaluate.py"]
    assert [call[:2] for call in calls] == [
        (row, name) for row in ("base", "A1", "E") for name in programs
    ]
    assert [row["row"] for row in summary["rows"]] == ["base", "A1", "E"]
    model_dir = tmp_path / "A1" / "model"
    mini = {"num_layers": 3, "d_model": 128, "d_ff": 512, "warmup_steps": 400}
    assert calls[2][2] == {
        "preset": "table3_a1",
        **mini,
        "tokens_per_batch": 2500,
        "train_steps": 7,
        "evaluate_every_steps": 1,
        "checkpoint_every_minutes": 1.0,
        "keep_checkpoints": 1,
        "bleu_sentences": 0,
        "precision": "float32",
        "seed": 3,
        "distribution": "auto",
        "num_replicas": 2,
        "max_tokens_per_replica": None,
        "jit_compile": "auto",
        "data_dir": corpus,
        "model_dir": model_dir,
    }
    assert calls[3][2] == {
        "split": "valid",
        "checkpoint": "latest",  # neither an average nor the best
        "bootstrap_samples": 0,
        "output": tmp_path / "A1" / "valid.hypothesis",
        "data_dir": corpus,
        "model_dir": model_dir,
    }
    assert summary["rows"][1]["num_parameters"] == 1_460_000
    assert summary["rows"][1]["seconds"] == pytest.approx(90, abs=1)
    page = (tmp_path / "table3.md").read_text()
    assert "python bin/reproduce.py --rows=E,A1" in page
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "row base, 1 of 3"  # which tells how long the others take
    assert re.fullmatch(r"row A1, 2 of 3, .* left for all", second)
    program.main()
    assert len(calls) == 6  # finished rows are not trained again
    assert "A1: finished before" in capsys.readouterr().out


def test_a_missing_tokenizer_is_named_before_any_row(
    load, corpus, tmp_path, without_mecab, monkeypatch
):
    program = load("reproduce")
    told = dataclasses.replace(data.read_metadata(corpus), target_language="ja")
    monkeypatch.setattr(data, "read_metadata", lambda _: told)
    monkeypatch.setattr(program, "run_row", lambda *_: pytest.fail("too late"))
    without_mecab("ja")
    flags.FLAGS(["reproduce.py", f"--data_dir={corpus}", f"--output_dir={tmp_path}"])
    with pytest.raises(ValueError, match=r'pip install "sacrebleu\[ja\]"'):
        program.main()


def test_a_treebank_is_refused(program_of, parser_corpus, tmp_path):
    with pytest.raises(ValueError, match="is for --task=parsing; Table 3 is of transl"):
        program_of("bin/reproduce.py")(data_dir=parser_corpus, output_dir=tmp_path)


def test_time_left_of_a_table_is_estimated_by_what_its_rows_cost():
    """C3 has eight layers where base has six, and C1 two; the softmax stays."""
    chosen = {row: table3.row_preset(row) for row in ("base", "C1", "C3")}
    assert table3.seconds_left({}, chosen) is None
    result = table3.RowResult("base", {}, 5.0, 25.0, 65, seconds=600.0)
    left = table3.seconds_left({"base": result}, chosen)
    assert 900 < left < 1200  # 10 layers and two softmaxes, for 6 and one
    done = {row: dataclasses.replace(result, row=row) for row in chosen}
    assert table3.seconds_left(done, chosen) == 0


@pytest.mark.long
def test_bad_flags_end_in_one_line(repository, tmp_path):
    result = run_program(repository, "--rows=A9", f"--data_dir={tmp_path}")
    assert result.returncode == 1
    assert "--output_dir is needed" in result.stderr
    result = run_program(
        repository, f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/out"
    )
    assert result.returncode == 1
    assert "bin/prepare_data.py" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()
