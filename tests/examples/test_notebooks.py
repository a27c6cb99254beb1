"""The examples that are notebooks, too: both have the same code, and it runs."""

import importlib.util
import re

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.pretrained import small_published
from tests.test_readme import notebook_writer


@pytest.fixture(scope="module")
def writer(repository):
    return notebook_writer(repository)


@pytest.fixture
def example(writer, repository, tmp_path, monkeypatch):
    """Return what loads the code of a notebook, without its last line, `main()`.

    It works in a folder of its own.
    """
    monkeypatch.chdir(tmp_path)

    def load(name):
        path = repository / "examples" / "notebooks" / f"{name}.ipynb"
        code = writer.code(path.read_text(encoding="utf-8"))
        code = re.sub("(?m)^[!%].*\n", "", code)
        assert code.endswith("\n\n\nmain()")
        copy = tmp_path / f"{name}.py"  # a file, because TensorFlow reads sources
        copy.write_text(code.removesuffix("main()"), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, copy)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_notebooks_are_the_examples(writer, repository):
    """Written by `python docs/hooks/notebook.py`."""
    folder = repository / "examples"
    for name in writer.NAMES:
        notebook = (folder / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
        source = (folder / f"{name}.py").read_text(encoding="utf-8")
        assert notebook == writer.notebook(writer.page_of(source)), name
    assert len([*(folder / "notebooks").iterdir()]) == len(writer.NAMES)


def test_a_notebook_prepares_explains_and_runs_its_example(writer):
    source = (
        '"""Title.\n\n    python prepare.py\n    python examples/it.py\n\nText.\n"""\n'
        "\nimport os\n\n\n# Why,\n# and how.\n"
        "def main():\n    # A detail.\n    pass\n\n\n"
        'if __name__ == "__main__":\n    main()\n'
    )
    page = writer.page_of(source)
    setup = f"```python\n{writer.SETUP}!python prepare.py\n```\n"
    main = "def main():\n    # A detail.\n    pass\n\n\nmain()"
    assert page == (
        f"# Title\n\nText.\n{setup}```python\nimport os\n```\n"
        f"Why,\nand how.\n```python\n{main}\n```\n"
    )
    assert writer.code(writer.notebook(page)).endswith(f"\n\nimport os\n\n{main}")


def test_the_list_of_examples_is_complete(repository):
    folder = repository / "examples"
    listed = re.findall(r"\]\(([\w./]+)\)", (folder / "README.md").read_text("utf-8"))
    found = [*folder.glob("*.py"), *folder.glob("clients/*"), *folder.rglob("*.ipynb")]
    paths = {str(path.relative_to(folder)) for path in found if path.is_file()}
    assert set(listed) == paths


@pytest.mark.long
def test_fit_with_own_tf_data_trains_a_translator(
    example, program_of, tmp_path, capsys
):
    """On the text of examples/write_phrasebook.py, for a fourth of the usual steps."""
    write = program_of("examples/write_phrasebook.py")
    write(output_dir=tmp_path / "text", train_pairs=5000)
    translator, history = example("train_with_fit").main(steps_per_epoch=42, epochs=3)
    losses = history.history["loss"]
    assert losses[-1] < 0.6 * losses[0]
    assert history.history["token_accuracy"][-1] > 0.4
    lines = capsys.readouterr().out.splitlines()
    source = "Where is the train station?"
    assert lines[-2] == f"{source} -> {translator(source)}"


def test_a_batch_of_own_tf_data_has_pairs_that_end(example, tmp_path):
    module = example("train_with_fit")
    files = tmp_path / "one", tmp_path / "other"
    for path in files:
        path.write_text("".join(f"{path.name} {i}\n" for i in range(70)), "utf-8")
    tokenizer = kt.tokenization.train_bpe(["one other 0 1 2 3"] * 5, vocab_size=280)
    sources, targets = next(iter(module.make_dataset(tokenizer, map(str, files))))
    assert sources.shape[0] == targets.shape[0] == 64
    for source, target in zip(sources.numpy(), targets.numpy(), strict=True):
        assert source[source != tokenizer.pad_id][-1] == tokenizer.eos_id
        assert target[target != tokenizer.pad_id][-1] == tokenizer.eos_id
        text = tokenizer.decode(source)
        assert tokenizer.decode(target) == text.replace("one", "other")


def test_another_attention_without_its_bias_is_the_paper_s(example):
    """Then the model has the logits of ours, and other ones with the bias."""
    module = example("other_attention")
    paper = kt.Transformer(module.CONFIG)
    model = module.RelativeTransformer(module.CONFIG)
    bias = model.encoder.layers[0].self_attention.bias
    weights = {weight.path.partition("/")[2]: weight for weight in model.weights}
    for weight in paper.weights:
        weight.assign(weights.pop(weight.path.partition("/")[2]))
    assert [*weights.values()] == [bias]
    sources, targets = module.make_data(5, seed=1)
    inputs = sources, model.shift_right(targets)
    np.testing.assert_allclose(model(*inputs), paper(*inputs), atol=1e-5)
    bias.assign(np.arange(36).reshape(bias.shape))
    assert np.abs(model(*inputs) - paper(*inputs)).max() > 0.01
    longer = np.pad(sources, ((0, 0), (0, 3)))
    np.testing.assert_allclose(model(longer, inputs[1]), model(*inputs), atol=1e-5)


def test_the_data_of_another_attention_have_no_repetitions(example):
    sources, targets = example("other_attention").make_data(7, seed=2)
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        letters = source[: source.index(3)]
        expected = [letters[0]]
        for letter in letters[1:]:
            expected += [letter] * (letter != expected[-1])
        assert target[: target.index(3)] == expected


@pytest.mark.long
def test_another_attention_learns_and_is_saved(example, tmp_path):
    module = example("other_attention")
    model, history = module.main()
    losses = history.history["loss"]
    assert losses[-1] < 0.3 * losses[0]
    assert np.abs(model.encoder.layers[0].self_attention.bias).max() > 0.2
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    sources, targets = module.make_data(5, seed=2)
    inputs = sources, model.shift_right(targets)
    np.testing.assert_allclose(again(*inputs), model(*inputs), atol=1e-6)


@pytest.mark.long
def test_an_own_callback_ends_the_training_when_all_is_right(example, capsys):
    module = example("callback_and_schedule")
    _, history = module.main()
    found = history.history
    assert found["exact_match"][-1] == 1.0
    assert len(found["loss"]) < 40
    assert max(found["exact_match"][:-1]) < 1.0
    assert max(found["learning_rate"]) == pytest.approx(0.003)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(found["loss"])
    assert "exact match 100%" in lines[-1]


def test_an_own_schedule_rises_stays_and_falls(example):
    """Of 20 steps, it rises for 2 to the peak, and falls for the last 6 to a sixth."""
    schedule = example("callback_and_schedule").Trapezoid(6.0, 20)
    again = schedule.from_config(schedule.get_config())
    expected = [3, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 4, 3, 2, 1]
    found = [float(again(step)) for step in range(20)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.long
def test_a_published_model_learns_from_own_pairs(example, tmp_path, monkeypatch):
    """Its weights are random, so it needs a high rate."""
    small_published.write_huggingface(tmp_path / "opus-mt-en-de")
    module = example("fine_tune_published")
    pairs = [("one two three", "zwei eins"), ("A dog runs!", "Ein Hund läuft.")]
    monkeypatch.setattr(module, "PAIRS", pairs)
    monkeypatch.setattr(module, "SENTENCES", [source for source, _ in pairs])
    before, after, history = module.main(learning_rate=0.03, num_steps=60)
    losses = history.history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert before != after
    tuned = kt.open_model("runs/tuned")
    assert [each.text for each in tuned.translate(module.SENTENCES)] == after
    # The import is as it was, and is taken again.
    assert module.main(num_steps=1)[0] == before
