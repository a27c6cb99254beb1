"""BLEU during training: an equal share of each corpus, scored as its language is."""

import json
import re
import shutil
import types

import pytest
import sacrebleu

from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import callbacks, run_callbacks
from keras_transformer.training.run_options import RunOptions
from keras_transformer.training.validation_parts import scored_parts
from tests.evaluation.texts_without_spaces import PAIRS
from tests.training.small_runs import config_of, train

GOOD = "der Hund schläft heute im Garten"
BAD = "der Hund schläft morgen im Haus"


def with_validation(corpus, folder, *parts, counted=True):
    """Return a corpus whose validation split has parts: name, language, references."""
    shutil.copytree(corpus, folder)
    references = [line for part in parts for line in part[2]]
    sources = [f"source {number}" for number in range(len(references))]
    for side, lines in (("source", sources), ("target", references)):
        (folder / f"valid.{side}").write_text("".join(f"{line}\n" for line in lines))
    path = folder / "metadata.json"
    values = json.loads(path.read_text())
    values["target_language"] = parts[0][1]
    values["splits"]["valid"]["pairs_read"] = len(references)
    values["corpora"] = [
        {
            "name": name,
            "split": "valid",
            "source_language": "en",
            "target_language": language,
            "pairs": len(lines),
            "pairs_read": len(lines) if counted else 0,
        }
        for name, language, lines in parts
    ]
    path.write_text(json.dumps(values))
    return str(folder)


def run_on(data_dir, tmp_path, sentences, lines=None):
    """What measures need of a run."""
    return types.SimpleNamespace(
        data_dir=data_dir,
        options=RunOptions(bleu_sentences=sentences),
        model_dir=ModelDir(tmp_path / "run"),
        write=(lines if lines is not None else []).append,
        model=None,
        tokenizer=None,
        config=types.SimpleNamespace(decoding=None),
    )


@pytest.fixture
def measure_of(monkeypatch):
    """Return what measures a run whose model answers from a mapping of sources."""

    def make(run, answers):
        def translate(sources):
            return [answers[source] for source in sources]

        translate.sizes_of_large_batches = lambda: []
        monkeypatch.setattr(run_callbacks, "Translator", lambda *given: translate)
        return run_callbacks.make_bleu_measure(run)

    return make


@pytest.mark.parametrize(
    ("sizes", "sentences", "expected"),
    [
        ([7], 1000, [range(7)]),
        ([7], 3, [range(3)]),
        ([7, 5], 1000, [range(7), range(7, 12)]),
        ([7, 5], 6, [range(3), range(7, 10)]),
        ([7, 2], 10, [range(5), range(7, 9)]),
        ([7, 5, 4], 2, [range(1), range(7, 8), range(12, 13)]),
        ([7, 0, 4], 4, [range(2), range(7, 9)]),
        ([7, 5], 0, []),
    ],
)
def test_each_corpus_has_an_equal_share(corpus, tmp_path, sizes, sentences, expected):
    given = [(f"dev {n}", "de", [GOOD] * size) for n, size in enumerate(sizes)]
    folder = with_validation(corpus, tmp_path / "data", *given)
    assert [part.lines for part in scored_parts(folder, sentences)] == expected


def test_a_corpus_of_an_earlier_release_is_one_part(corpus, tmp_path):
    """It did not count the lines of its corpora."""
    given = [("first", "de", [GOOD] * 4), ("second", "de", [GOOD] * 3)]
    folder = with_validation(corpus, tmp_path / "data", *given, counted=False)
    assert [part.lines for part in scored_parts(folder, 5)] == [range(5)]
    run = run_on(folder, tmp_path, 5)
    assert run_callbacks.measure_of_best(run) == {"metric": "bleu", "sentences": 5}


def test_the_best_follows_each_corpus(corpus, tmp_path, measure_of):
    """Only the second gets better, of which the first lines of all have nothing."""
    given = [("first", "de", [GOOD] * 6), ("second", "de", [GOOD] * 2)]
    folder = with_validation(corpus, tmp_path / "data", *given)
    answers = {f"source {number}": BAD for number in range(8)}
    measure = measure_of(run_on(folder, tmp_path, 4), answers)
    saved = types.SimpleNamespace(
        steps=[], save=lambda step, state, model: saved.steps.append(step)
    )
    evaluate = callbacks.Evaluate(
        lambda: {"loss": 1.0, **measure()}, lambda step: True, saved, patience=2
    )
    evaluate.set_model(types.SimpleNamespace(stop_training=False))
    evaluate.on_step(1, {})
    answers["source 6"] = GOOD
    evaluate.on_step(2, {})
    evaluate.on_step(3, {})
    assert saved.steps == [1, 2]
    found = evaluate.best_metrics
    assert found["bleu/second"] > found["bleu/first"]
    assert found["bleu"] == pytest.approx(
        (found["bleu/first"] + found["bleu/second"]) / 2
    )
    assert found["chrf"] > found["chrf/first"]


@pytest.mark.parametrize("code", ["zh", "ja", "ko", "zh_TW", "jpn", "kor_Hang"])
def test_a_language_is_scored_as_sacrebleu_does(corpus, tmp_path, measure_of, code):
    pairs = PAIRS[{"jpn": "ja"}.get(code, code[:2])][1:]
    hypotheses, references = (list(side) for side in zip(*pairs, strict=True))
    folder = with_validation(corpus, tmp_path / "data", ("dev", code, references))
    answers = {f"source {number}": line for number, line in enumerate(hypotheses)}
    run = run_on(folder, tmp_path, 1000)
    tokenize = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}[
        {"jpn": "ja"}.get(code, code[:2])
    ]
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokenize)
    found = measure_of(run, answers)()
    assert found.keys() == {"bleu", "chrf"}
    assert found["bleu"] == expected.score > 1
    [[count, tokenizer]] = run_callbacks.measure_of_best(run)["parts"].values()
    assert (count, tokenizer.startswith(tokenize)) == (5, True)


@pytest.mark.parametrize(
    ("parts", "is_kept"),
    [
        ([("dev", "de", [GOOD] * 4)], True),
        ([("dev", "zh", [GOOD] * 4)], False),
        ([("dev", "de", [GOOD] * 2), ("test", "de", [GOOD] * 2)], False),
    ],
)
@pytest.mark.parametrize("measure", [{}, {"metric": "bleu", "sentences": 4}])
def test_a_best_that_was_measured_otherwise_begins_anew(
    corpus, tmp_path, parts, is_kept, measure
):
    """Earlier releases took the first lines and 13a, and some did not say so."""
    folder, lines = with_validation(corpus, tmp_path / "data", *parts), []
    run, metrics = run_on(folder, tmp_path, 4, lines), {"bleu": 12.5, "loss": 2.0}
    run.model_dir.checkpoints("best").save(3, {"metrics": metrics})
    state = {"best": 12.5, "best_metrics": metrics, "evaluations_since_best": 1}
    if measure:
        state["best_measure"] = measure
    now = run_callbacks.measure_of_best(run)
    found = run_callbacks.with_same_measure(run, now, state)
    assert (found["best_metrics"] == metrics) == is_kept
    assert ("now chosen by BLEU of 4 sentences" in "".join(lines)) == (not is_kept)
    saved = {**state, "best_measure": json.loads(json.dumps(now))}
    assert run_callbacks.with_same_measure(run, now, saved) == saved


@pytest.mark.parametrize(("code", "extra"), [("ja_XX", "ja"), ("kor", "ko")])
def test_a_missing_tokenizer_is_named_before_training(
    corpus, tmp_path, without_mecab, code, extra
):
    given = [("first", "de", [GOOD]), ("second", code, [GOOD])]
    folder = with_validation(corpus, tmp_path / "data", *given)
    without_mecab(extra)
    message = re.escape(f'pip install "sacrebleu[{extra}]".')
    with pytest.raises(ValueError, match=message):
        train(folder, tmp_path / "run", bleu_sentences=3)
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.long
def test_a_run_shows_each_corpus_and_resumes(corpus, tmp_path):
    given = [("dev en-de", "de", [GOOD] * 2), ("dev en-ja", "ja", [GOOD] * 2)]
    folder, lines = with_validation(corpus, tmp_path / "data", *given), []
    for steps in (1, 2):
        config = config_of(folder, train_steps=steps)
        train(
            folder,
            tmp_path / "run",
            config,
            lines,
            bleu_sentences=2,
            evaluate_every_steps=1,
        )
    shown = [line for line in lines if line.startswith("validation at step")]
    assert len(shown) == 2
    assert re.search(r"bleu \S+  chrf \S+  bleu/dev en-de .*chrf/dev en-ja ", shown[0])
    assert not any("now chosen by" in line for line in lines)
