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

import pytest
from absl import flags
from absl.testing import flagsaver

from keras_transformer import presets
from keras_transformer.cli import startup
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


def run_row(corpus, folder, lines, **training):
    return table3.run_row(
        "base",
        tiny_preset(**training),
        corpus,
        str(folder),
        {"distribution": "one_device", "bleu_sentences": 0, "evaluate_every_steps": 4},
        {"seed": 3},
        write=lines.append,
    )


@pytest.mark.long
def test_a_row_is_finished_once_and_refuses_others(corpus, tmp_path):
    lines = []
    first = run_row(corpus, tmp_path, lines, train_steps=2)
    assert first.perplexity > 1
    assert first.seconds > 0
    assert any("step 2/2" in line for line in lines)
    assert len((tmp_path / "valid.hypothesis").read_text().splitlines()) == 7
    lines.clear()
    again = run_row(corpus, tmp_path, lines, train_steps=2)
    assert lines == ["base: finished before"]
    assert dataclasses.asdict(again) == json.loads(
        (tmp_path / "result.json").read_text()
    )
    with pytest.raises(ValueError, match="its `label_smoothing` is 0.1, here it is"):
        run_row(corpus, tmp_path, [], train_steps=2, label_smoothing=0.2)
    with pytest.raises(ValueError, match="holds a run of 2 steps, more than"):
        run_row(corpus, tmp_path, [], train_steps=1)


def test_a_damaged_result_says_what_to_do(tmp_path):
    (tmp_path / "result.json").write_text('{"row": "base"}')
    with pytest.raises(ValueError, match=r"result.json is damaged .* Delete it"):
        table3.read_result(tmp_path)


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_a_row_has_a_process_of_its_own_and_its_death_is_named():
    with pytest.raises(ChildProcessError, match="Run the same command again"):
        table3.in_own_process(kill_itself)
    assert table3.in_own_process(os.getpid) != os.getpid()


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
    repository, corpus, tmp_path, monkeypatch, capsys
):
    """With rows that take no time in place of trainings."""
    spec = importlib.util.spec_from_file_location(
        "bin.reproduce", repository / "bin" / "reproduce.py"
    )
    program = importlib.util.module_from_spec(spec)
    with flagsaver.flagsaver():
        spec.loader.exec_module(program)
        calls = []

        def run(
            function, row, preset, data_dir, row_dir, options, resolve_options, prepare
        ):
            calls.append((row, preset.training.train_steps, options, resolve_options))
            assert function is table3.run_row
            assert prepare is startup.import_tensorflow
            pathlib.Path(row_dir).mkdir(parents=True)
            text = pathlib.Path(data_dir, "valid.target").read_text()
            pathlib.Path(row_dir, "valid.hypothesis").write_text(text)
            return result_of(row, 5.0, 100.0)

        monkeypatch.setattr(table3, "in_own_process", run)
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
    assert [row for row, *_ in calls] == ["base", "A1", "E"]
    assert [row["row"] for row in summary["rows"]] == ["base", "A1", "E"]
    _, steps, options, resolve_options = calls[1]
    assert (steps, options["num_replicas"], options["bleu_sentences"]) == (7, 2, 0)
    assert resolve_options == {"precision": "float32", "seed": 3}
    page = (tmp_path / "table3.md").read_text()
    assert "python bin/reproduce.py --rows=E,A1" in page
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "row base, 1 of 3"  # which tells how long the others take
    assert re.fullmatch(r"row A1, 2 of 3, .* left for all", second)


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
