"""The main job through the programs, on digits that are to be copied."""

import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from tests import model_cards

pytestmark = pytest.mark.long


def run(repository, *arguments, status=0, stdin=None, cwd=None):
    """Run a program as a user does, and return its standard output or its error.

    Standard error has that one line, or nothing: none of TensorFlow's lines.
    """
    environment = {**os.environ}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    result = subprocess.run(
        [sys.executable, str(repository / arguments[0]), *map(str, arguments[1:])],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
    )
    assert result.returncode == status, result.stderr[-3000:]
    assert result.stderr.count("\n") == bool(status), result.stderr
    return result.stderr if status else result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Lines of 1 to 5 digits, as source and as target.

    The folder's name has what means something else in patterns, addresses and shells.
    """
    folder = tmp_path_factory.mktemp("copy") / "was? [1] *#\\ü"
    folder.mkdir()
    draw = random.Random(5)
    for split, count in (("train", 3000), ("valid", 23), ("test", 29)):
        lines = [
            " ".join(draw.choices("0123456789", k=draw.randint(1, 5)))
            for _ in range(count)
        ]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def trained(repository, folder):
    """A prepared corpus and a run trained under MirroredStrategy."""
    texts = [
        f"--{split}_{side}={folder}/{split}.txt"
        for split in ("train", "valid", "test")
        for side in ("source", "target")
    ]
    data, model = folder / "data", folder / "model"
    run(
        repository,
        "bin/prepare_data.py",
        f"--data_dir={data}",
        "--vocab_size=280",
        *texts,
    )
    out = run(repository, *training(data, model, steps=300))
    return data, model, json.loads(out.splitlines()[-1])


def training(data, model, steps):
    """Return the program and its flags."""
    return (
        "bin/train.py",
        "--preset=tiny",
        f"--data_dir={data}",
        f"--model_dir={model}",
        "--distribution=mirrored",
        "--num_replicas=2",
        "--num_layers=1",
        "--d_model=32",
        "--d_ff=64",
        "--dropout_rate=0",
        "--label_smoothing=0",
        "--tokens_per_batch=800",
        "--max_length=50",
        f"--train_steps={steps}",
        "--warmup_steps=80",
        "--learning_rate_scale=1",
        "--checkpoint_every_steps=20",
        "--evaluate_every_steps=300",
        "--bleu_sentences=23",
        "--keep_checkpoints=5",
        "--average_last=3",
        "--json",
    )


def test_training_leaves_what_later_programs_need(trained):
    data, model, summary = trained
    assert summary["steps"] == 300
    kept = sorted(path.name for path in (model / "checkpoints").iterdir())
    assert kept == [f"step-{step:08d}" for step in (220, 240, 260, 280, 300)]
    for name in ("config.json", "tokenizer", "best", "logs", "model.keras"):
        assert (model / name).exists()
    card = (model / "README.md").read_text()
    assert model_cards.head(card)["metrics"] == ["bleu", "chrf"]
    for part in ("| steps | 300 |", "| sentences for BLEU | 23 |", ", 2 replicas |"):
        assert part in card


def test_the_saved_model_loads_from_another_folder(repository, folder, trained):
    """By Keras alone, and by `load_model` from the file or the run's folder."""
    _, model, _ = trained
    program = (
        "import keras_transformer as kt, keras\n"
        f"run, file = {str(model)!r}, {str(model / 'model.keras')!r}\n"
        "for load, path in ((keras.saving.load_model, file), (kt.load_model, file),\n"
        "    (kt.load_model, run)):\n"
        "    print(load(path).count_params())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(repository)},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    # One embedding of 280 x 32; attention 4 x 32 x 32, once in the encoder and twice in
    # the decoder; feed-forward 2 x 32 x 64 + 64 + 32; five norms of 2 x 32.
    expected = 280 * 32 + 3 * 4 * 32 * 32 + 2 * (2 * 32 * 64 + 96) + 5 * 64
    assert result.stdout.split() == [str(expected)] * 3


def test_average_evaluate_translate_and_export(repository, folder, trained):
    """The model copies; the export, alone and moved, says the same as the model.

    Both are asked by the commands that the model's card shows, in its folder.
    """
    data, model, _ = trained
    average = run(
        repository, "bin/average_checkpoints.py", f"--model_dir={model}", "--json"
    )
    assert json.loads(average.splitlines()[-1])["steps"] == [260, 280, 300]
    card = (model / "README.md").read_text()
    assert "| weights | mean of steps 260, 280, 300 |" in card

    report = folder / "report.json"
    run(
        repository,
        "bin/evaluate.py",
        f"--model_dir={model}",
        f"--data_dir={data}",
        f"--report={report}",
        f"--output={folder}/evaluated.txt",
    )
    scores = json.loads(report.read_text())
    assert scores["exact_match"] > 90
    assert 1 <= scores["perplexity"] < 1.2
    assert scores["num_sentences"] == 29
    assert "tok:13a" in scores["signature"]

    test = folder / "test.txt"
    shutil.copy(test, model / "source.txt")
    translate, _, export = model_cards.commands(card)
    run(repository, *translate, cwd=model)
    out = (model / "translations.txt").read_text()
    assert out == (folder / "evaluated.txt").read_text()

    run(repository, *export, "--signatures=serving_default", cwd=model)
    shutil.move(model / "export" / "1", folder / "moved")
    shutil.move(model, folder / "away")
    served = run(
        repository,
        "bin/translate.py",
        f"--saved_model={folder}/moved",
        stdin=test.read_text(),
    )
    shutil.move(folder / "away", model)
    assert served == out


@pytest.mark.release
def test_attention_is_drawn_as_page_and_as_heat_maps(repository, trained, tmp_path):
    _, model, _ = trained
    program = ("bin/visualize_attention.py", f"--model_dir={model}", "--source=1 2 3")
    page = tmp_path / "new" / "attention.html"
    out = run(repository, *program, f"--output={page}", "--json")
    summary = json.loads(out.splitlines()[-1])
    assert summary["target_pieces"] == ["▁1", "▁2", "▁3", "</s>"]  # it copies
    assert "Attention: 1 2 3" in page.read_text()
    picture = tmp_path / "attention.png"
    run(repository, *program, "--target=3 2", f"--output={picture}", "--heads=2")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_training_goes_on(repository, trained):
    data, model, _ = trained
    out = run(repository, *training(data, model, steps=320))
    assert json.loads(out.splitlines()[-1])["steps"] == 320
    card = (model / "README.md").read_text()
    assert "| steps | 320 |" in card and "mean of steps" not in card


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bin/train.py", "--preset=bse"], "Did you mean 'base'?"),
        (["bin/train.py", "--num_heads=7"], "`num_heads` must divide `d_model`"),
        (["bin/translate.py", "--model_dir=absent"], "No model in absent"),
        (["bin/evaluate.py"], "--model_dir is needed"),
        (
            ["bin/evaluate.py", "--model_dir=m", "--data_dir=absent"],
            "No metadata.json in absent: it is not a corpus",
        ),
        (
            ["bin/visualize_attention.py", "--model_dir=m", "--source=a", "--output=x"],
            "must be one of '.html', '.png'",
        ),
    ],
)
def test_bad_input_ends_in_one_line(repository, tmp_path, arguments, message):
    program, *flags = arguments
    if program == "bin/train.py":
        flags += [f"--data_dir={tmp_path}", f"--model_dir={tmp_path}/model"]
    stdin = "a\n" if program == "bin/translate.py" else None
    error = run(repository, program, *flags, status=1, stdin=stdin)
    assert message in error
    assert not (tmp_path / "model").exists()
