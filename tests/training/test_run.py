"""Whole runs on a tiny corpus: resumed, refused, fine-tuned, stopped early."""

import dataclasses
import json
import os
import re
import shutil
import types

import keras
import numpy as np
import pytest

from keras_transformer import data, presets, tokenization
from keras_transformer.inference.generator import fit_positions
from keras_transformer.runs import averaging, lock
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import (
    fine_tuning,
    preflight,
    run_callbacks,
    run_checks,
    run_setup,
    strategies,
)
from keras_transformer.training import run as training_run
from keras_transformer.training.run_options import RunOptions
from tests.small_corpus import write_corpus
from tests.training.small_runs import config_of, train, weights


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A run of six steps with nothing in its way."""
    folder, lines = tmp_path_factory.mktemp("whole") / "run", []
    summary = train(corpus, folder, lines=lines)
    return folder, summary, lines


def test_a_run_leaves_all_its_parts_and_says_what_it_does(whole):
    folder, summary, lines = whole
    assert summary["steps"] == 6
    for name in ("config.json", "tokenizer", "checkpoints", "best", "model.keras"):
        assert (folder / name).exists()
    assert list((folder / "logs" / "train").iterdir())
    assert "1 replica, without XLA" in lines[0]
    progress = [line for line in lines if line.startswith("step ")]
    # On a busy machine there are lines between these.
    assert {"2/6", "4/6", "6/6"} <= {line.split()[1] for line in progress}
    for part in ("perplexity", "accuracy", "learning rate", "tokens/s", " shape"):
        assert part in progress[0]
    assert all(line.endswith(" s left") for line in progress)
    assert sum(line.startswith("validation at step") for line in lines) == 2
    # 6 steps of 150 padded tokens a side at most; a token costs a few thousand FLOPs.
    assert 1e6 < summary["flops"] < 6 * 150 * 1e5
    config = json.loads((folder / "config.json").read_text())
    assert config["format_version"] == 1
    assert config["corpus"]["pairs"] == {"train": 60, "valid": 7}
    state = ModelDir(folder).choose("latest").state
    assert state["tokens"] > 60 and state["signatures"] == []
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", state["began"])
    assert re.match(r"\d{4}-\d\d-\d\d, .* cores, ", state["hardware"])
    assert state["hardware"].endswith(", 1 replica")


def test_a_run_says_how_often_xla_compiles(corpus):
    """Each shape, of trials too, and the update, for each of a process's devices."""
    config = config_of(corpus)
    _, plan = run_setup.plan_batches(corpus, config)
    model = run_setup.build(config, RunOptions(jit_compile="true"))
    process = types.SimpleNamespace(num_replicas=8, count=2)
    line = run_setup.describe(model, plan, process)
    assert f"under XLA ({4 * (len(plan.shapes) + 1)} compilations)" in line
    assert f"batches of {len(plan.shapes)} shapes" in line
    filled = preflight.filled(plan.shapes[0], 8)
    tried = {filled, (8000, *filled[1:])}
    line = run_setup.describe(model, plan, process, tried)
    assert f"under XLA ({4 * (len(plan.shapes) + 2)} compilations)" in line


@pytest.mark.long
def test_a_resumed_run_ends_bit_for_bit_where_it_would_have(corpus, tmp_path):
    """Stopped after step 3, with dropout on: the same batches, masks and weights.

    The fixture `whole` may be of a quick test: without the graph optimizer, whose
    graphs round differently.
    """
    unbroken, lines = ModelDir(tmp_path / "unbroken"), []
    of_unbroken = train(corpus, unbroken.path)
    config = config_of(corpus, train_steps=3)
    first = train(corpus, tmp_path / "run", config, lines)
    assert lines[1].startswith("warning: training ends after 3 steps, before the")
    run = ModelDir(tmp_path / "run")
    path = run.choose("latest").path / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "began": "a day"}))
    summary = train(corpus, run.path, lines=lines)
    assert "resuming from step 3" in lines
    state = run.choose("latest").state
    assert state["began"] == "a day"
    assert state["tokens"] == unbroken.choose("latest").state["tokens"]
    assert summary["steps"] == 6
    assert summary["flops"] == pytest.approx(of_unbroken["flops"])  # of both parts
    assert summary["seconds"] > first["seconds"]
    for ours, theirs in zip(weights(run.path), weights(unbroken.path), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_finished_run_is_not_trained_on(corpus, whole):
    """Nothing is traced, tried or evaluated; the summary is that of the run."""
    before, lines = weights(whole[0]), []
    summary = train(corpus, whole[0], lines=lines, has_preflight=True)
    assert lines == [
        f"the run in {whole[0]} is complete after 6 steps; give more --train_steps to "
        "train on"
    ]
    of_this_process = {"seconds", "tokens_per_second", "num_shapes"}
    assert {k: v for k, v in summary.items() if k not in of_this_process} == {
        k: v for k, v in whole[1].items() if k not in of_this_process
    }
    for ours, theirs in zip(weights(whole[0]), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_finished_run_writes_its_model_again(corpus, whole, tmp_path):
    """Killed after its last checkpoint, it has no file, or that of fewer steps."""
    run = ModelDir(tmp_path / "run")
    shutil.copytree(whole[0], run.path)
    model = keras.saving.load_model(run.model_path)
    for weight in model.trainable_weights:
        weight.assign(0 * weight)
    keras.saving.save_model(model, run.model_path)
    train(corpus, run.path)
    written = keras.saving.load_model(run.model_path)
    assert int(written.optimizer.iterations) == run.choose().step
    for ours, theirs in zip(
        written.trainable_weights, weights(whole[0], None), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_an_averaged_run_keeps_its_average(corpus, whole, tmp_path):
    """Repeating the training command must not undo the averaging."""
    run = ModelDir(tmp_path / "run")
    shutil.copytree(whole[0], run.path)
    averaging.average_run(run.path)
    before = weights(run.path, None)
    assert train(corpus, run.path)["model_keras"] == "averaged/step-00000006"
    written = keras.saving.load_model(run.model_path)
    for ours, theirs in zip(written.trainable_weights, before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("is_evaluated", [True, False])
def test_a_run_stopped_before_its_last_evaluation_is_not_complete(
    corpus, whole, tmp_path, is_evaluated
):
    run, lines = ModelDir(tmp_path / "run"), []
    shutil.copytree(whole[0], run.path)
    path = run.choose("latest").path / "state.json"
    state = json.loads(path.read_text())
    state["evaluated_step"] = 6 if is_evaluated else 3
    path.write_text(json.dumps(state))
    train(corpus, run.path, lines=lines)
    evaluated = [line for line in lines if line.startswith("validation at step 6")]
    assert len(evaluated) == (not is_evaluated)


def test_another_run_in_the_same_folder_is_refused(corpus, whole):
    with pytest.raises(ValueError, match="holds another run: its `warmup_steps` is 5"):
        train(corpus, whole[0], config_of(corpus, warmup_steps=7))
    with pytest.raises(ValueError, match="holds another run: its `seed` is 0, here"):
        train(corpus, whole[0], config_of(corpus, seed=2))


@pytest.mark.long
def test_a_second_training_is_refused_and_touches_nothing(corpus, tmp_path):
    """What a killed training left is swept by the next one that may train there."""
    left = [
        tmp_path / folder / name
        for folder, name in (
            ("checkpoints", ".step-00000003.abcdefgh"),
            ("best", ".step-00000003.abcdefgh"),
            (".", ".config.json.abcdefgh"),
        )
    ]
    for path in left[:2]:
        (path / "new").mkdir(parents=True)
    left[2].touch()
    config = config_of(corpus, train_steps=1)
    with (
        lock.held(tmp_path),
        pytest.raises(lock.LockedError, match=f"in use: process {os.getpid()} on"),
    ):
        train(corpus, tmp_path, config)
    assert not (tmp_path / "config.json").exists()
    assert all(path.exists() for path in left)
    train(corpus, tmp_path, config)
    assert not any(path.exists() for path in left)
    with lock.held(tmp_path):  # readers come in
        assert ModelDir(tmp_path).load_model().count_params()


def test_a_corpus_of_another_vocabulary_is_refused(corpus, whole, tmp_path):
    other = write_corpus(tmp_path, "other", 280)
    with pytest.raises(ValueError, match="encoded with another vocabulary than"):
        train(other, tmp_path / "run", config_of(corpus))
    with pytest.raises(ValueError, match="has another vocabulary than the corpus"):
        train(other, tmp_path / "run", init_checkpoint=str(whole[0]))


@pytest.mark.long
def test_fine_tuning_starts_from_the_other_models_weights(corpus, whole, tmp_path):
    """With a rate of almost nothing, one step leaves them as they were."""
    config = config_of(corpus, train_steps=1, learning_rate_scale=1e-9)
    train(corpus, tmp_path / "run", config, init_checkpoint=str(whole[0]))
    start = weights(whole[0], None)
    for ours, theirs in zip(weights(tmp_path / "run"), start, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    newest = ModelDir(whole[0]).choose("latest").path
    train(corpus, tmp_path / "again", config, init_checkpoint=str(newest))
    for ours, theirs in zip(
        weights(tmp_path / "again"), weights(whole[0]), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_model_that_a_run_began_from_is_recorded(whole, tmp_path):
    """With the published one that it was itself tuned from; a resumed run keeps it."""
    config = ModelDir(whole[0]).read_config()
    names = {"family": "marian", "name": "a/b"}
    published, tuned = ModelDir(tmp_path / "published"), ModelDir(tmp_path / "tuned")
    origin = {**names, "sha256": {}}
    published.write_config(dataclasses.replace(config, origin=origin))
    start = fine_tuning.describe(str(published.path))
    assert start == {**names, "model": "published"}
    tuned.write_config(dataclasses.replace(config, start=start))
    step = tuned.checkpoints().save(3, {}).path
    assert fine_tuning.describe(str(step)) == {**names, "model": "tuned"}
    options = RunOptions(init_checkpoint=str(whole[0]))
    context = types.SimpleNamespace(model_dir=tuned, options=options)
    assert run_setup.start_of(context) == start
    context.model_dir = ModelDir(tmp_path / "new")
    assert run_setup.start_of(context) == {"model": "run"}


@pytest.mark.long
def test_frozen_parts_stay_as_they_are(corpus, whole, tmp_path):
    config = config_of(corpus, freeze="embeddings,encoder")
    train(corpus, tmp_path / "run", config, init_checkpoint=str(whole[0]))
    start = ModelDir(whole[0]).load_model()
    found = ModelDir(tmp_path / "run").load_model("latest")
    for ours, theirs in zip(found.weights, start.weights, strict=True):
        is_frozen = "/decoder/" not in ours.path
        assert np.array_equal(ours, theirs) == is_frozen, ours.path


def test_a_run_that_trains_nothing_is_refused(corpus, tmp_path):
    config = config_of(corpus, freeze="embeddings,encoder,decoder")
    with pytest.raises(ValueError, match="`freeze` leaves nothing to train"):
        train(corpus, tmp_path / "run", config)


def test_the_model_to_start_from_gives_the_architecture(whole):
    folder = ModelDir(whole[0])
    preset = presets.of_run(folder.path)
    assert preset.model == folder.read_config().model
    assert presets.of_run(folder.choose("latest").path).model == preset.model
    for find in (presets.of_run, fine_tuning.describe):
        with pytest.raises(FileNotFoundError, match="logs: .*no config.json. Correct"):
            find(folder.path / "logs")


def test_fine_tuning_starts_with_a_fresh_optimizer(corpus, whole):
    config = config_of(corpus)
    model = run_setup.build(config, RunOptions())
    fine_tuning.load_weights(str(whole[0]), model)
    assert int(model.optimizer.iterations) == 0
    assert all((slot.numpy() == 0).all() for slot in model.optimizer.variables[2:])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"d_ff": 9}, "d_ff is 7 there and 9 here"),
        (
            {"num_layers": 2, "norm_placement": "pre"},
            "num_layers is 1 there and 2 here, "
            "norm_placement is 'post' there and 'pre' here",
        ),
        ({"key_dim": 5}, "head_key_dim is 3 there and 5 here"),
        (
            {"position_encoding": "learned"},
            "position_encoding is 'sinusoidal' there and 'learned' here, "
            "num_positions is None there and 1024 here",
        ),
    ],
)
def test_fine_tuning_another_architecture_is_refused_at_once(
    corpus, whole, tmp_path, fields, said
):
    """The message names the fields; nothing is traced or written before it."""
    config = config_of(corpus)
    model = dataclasses.replace(config.model, **fields)
    config, lines = dataclasses.replace(config, model=model), []
    with pytest.raises(ValueError, match=re.escape(f"than this run: {said}. Give")):
        train(corpus, tmp_path, config, lines, init_checkpoint=str(whole[0]))
    assert not lines
    assert not (tmp_path / "config.json").exists()


def test_fine_tuning_may_change_what_is_no_weight(corpus, whole):
    config = config_of(corpus)
    model = dataclasses.replace(
        config.model, dropout_rate=0.5, attention_dropout_rate=0.5, num_positions=9
    )
    config = dataclasses.replace(config, model=model)
    fine_tuning.check_can_start_from(str(whole[0]), config)


@pytest.mark.long
def test_a_loaded_model_can_be_trained_on_from_python(whole):
    model = ModelDir(whole[0]).load_model()
    model.compile("adam")
    tokens = np.array([[5, 6, 3], [7, 3, 0]], "int32")
    model.fit(tokens, tokens, verbose=0)


@pytest.mark.long
def test_training_stops_when_nothing_gets_better(corpus, tmp_path):
    """At a rate of almost nothing the first evaluation stays the best."""
    lines = []
    config = config_of(corpus, train_steps=50, learning_rate_scale=1e-12)
    options = {"evaluate_every_steps": 1, "early_stopping_evaluations": 2}
    summary = train(corpus, tmp_path / "run", config, lines, **options)
    assert summary["stopped_early"]
    assert summary["steps"] < 10
    assert any("stopping: no better loss" in line for line in lines)
    # More steps would not go on.
    longer = config_of(corpus, train_steps=60, learning_rate_scale=1e-12)
    lines.clear()
    again = train(corpus, tmp_path / "run", longer, lines, **options)
    assert again["steps"] == summary["steps"]
    assert len(lines) == 1
    assert "raise --early_stopping_evaluations to train on" in lines[0]


@pytest.mark.long
def test_bleu_decides_the_best_where_it_is_asked_for(corpus, tmp_path):
    config = config_of(corpus, train_steps=2)
    lines = []
    train(
        corpus,
        tmp_path / "run",
        config,
        lines,
        bleu_sentences=3,
        evaluate_every_steps=2,
    )
    assert any("bleu " in line and "(best)" in line for line in lines)
    # Where another metric decides, the best begins anew.
    config, lines = config_of(corpus, train_steps=4), []
    summary = train(corpus, tmp_path / "run", config, lines, evaluate_every_steps=2)
    [said] = [line for line in lines if "best checkpoint is now chosen by" in line]
    assert "chosen by the loss, which the run did not measure before" in said
    assert any("step 4: " in line and "(best)" in line for line in lines)
    assert summary["best_metric"] > 1  # a loss
    assert "best_measure" in ModelDir(tmp_path / "run").choose("latest").state


def run_with_best(tmp_path, corpus, metrics, lines, **options):
    """What `with_same_measure` needs of a run whose best checkpoint has metrics."""
    model_dir = ModelDir(tmp_path)
    model_dir.checkpoints("best").save(3, {"metrics": metrics})
    return types.SimpleNamespace(
        model_dir=model_dir,
        data_dir=corpus,
        options=RunOptions(**options),
        write=lines.append,
    )


def test_a_best_of_the_same_measure_is_kept_and_of_another_is_not(corpus, tmp_path):
    """The validation split has 7 sentences: asking for more changes nothing."""
    metrics, lines = {"bleu": 12.5, "loss": 2.0}, []
    state = {"best": 12.5, "best_metrics": metrics, "evaluations_since_best": 2}

    def kept(before, now):
        run = run_with_best(tmp_path, corpus, metrics, lines, bleu_sentences=before)
        saved = {**state, "best_measure": run_callbacks.measure_of_best(run)}
        run = run_with_best(tmp_path, corpus, metrics, lines, bleu_sentences=now)
        measure = run_callbacks.measure_of_best(run)
        return run_callbacks.with_same_measure(run, measure, saved)

    assert kept(1000, 500)["best_metrics"] == metrics
    assert kept(3, 3)["evaluations_since_best"] == 2
    assert not lines
    anew = kept(3, 5)
    assert (anew["best_metrics"], anew["evaluations_since_best"]) == (None, 0)
    assert "now chosen by BLEU of 5 sentences" in lines[0]


def test_a_best_of_an_earlier_release_is_known_by_its_checkpoint(corpus, tmp_path):
    """Its state has neither the metric nor what it was measured on."""
    metrics, lines = {"bleu": 12.5, "loss": 2.0}, []
    state = {"best": 12.5, "evaluations_since_best": 2}
    for sentences, wanted in ((1000, metrics), (0, None)):
        run = run_with_best(tmp_path, corpus, metrics, lines, bleu_sentences=sentences)
        measure = run_callbacks.measure_of_best(run)
        found = run_callbacks.with_same_measure(run, measure, state)
        assert found["best_metrics"] == wanted
    assert len(lines) == 1


@pytest.fixture
def changed_corpus(corpus, tmp_path):
    """Other pairs, encoded with the same vocabulary."""
    for split, line in (("train", "five four"), ("valid", "one")):
        (tmp_path / f"{split}.txt").write_text(f"{line}\n" * 60)
    paths = {split: (tmp_path / f"{split}.txt",) * 2 for split in ("train", "valid")}
    data.prepare(
        data.TextFiles(paths, "en", "de"),
        tmp_path / "changed",
        lambda texts: tokenization.load(f"{corpus}/tokenizer"),
    )
    return str(tmp_path / "changed")


def test_a_run_goes_on_with_its_own_corpus_only(
    corpus, changed_corpus, whole, tmp_path
):
    place = tmp_path / "run"
    shutil.copytree(whole[0], place)
    saved = (place / "config.json").read_text()
    with pytest.raises(ValueError, match="holds a run on another corpus: the pairs in"):
        train(changed_corpus, place)
    assert (place / "config.json").read_text() == saved
    train(changed_corpus, place, allow_changed_corpus=True)
    with pytest.raises(
        ValueError, match="are not those it was.*--allow_changed_corpus resumes"
    ):
        train(corpus, place)


@pytest.mark.release
def test_the_cost_of_a_run_of_an_earlier_release_is_that_of_the_steps_it_knows(
    corpus, whole, tmp_path
):
    """That release saved no cost with its checkpoint of step 3."""
    summary = train(corpus, tmp_path, config_of(corpus, train_steps=3))
    assert summary["cost_since_step"] == 0
    path = ModelDir(tmp_path).choose("latest").path / "state.json"
    state = json.loads(path.read_text())
    for name in ("seconds", "flops", "cost_since_step"):
        del state[name]
    path.write_text(json.dumps(state))
    summary = train(corpus, tmp_path)
    assert 0 < summary["flops"] < whole[1]["flops"]
    said = training_run.describe_cost(summary)
    assert said.startswith("cost of the steps after step 3 (earlier ones have no")
    assert training_run.describe_cost(whole[1]).startswith("cost of the whole run: ")


def test_runs_and_corpora_of_earlier_releases_go_on(corpus, whole, tmp_path):
    """They have no hash of the corpus; a run has it once it was resumed."""
    place, older = ModelDir(tmp_path / "run"), tmp_path / "older"
    shutil.copytree(whole[0], place.path)
    shutil.copytree(corpus, older)
    for path in (place.config_path, older / "metadata.json"):
        values = json.loads(path.read_text())
        assert values.pop("corpus_hash")
        path.write_text(json.dumps(values))
    assert train(str(older), place.path)["steps"] == 6
    assert place.read_config().corpus_hash == data.corpus_hash(corpus)


def test_learned_positions_must_hold_every_sentence_and_its_output(corpus, tmp_path):
    """Of the validation split too; XLA would not notice, and a search cut sources."""
    config = config_of(corpus)

    def with_positions(num_positions, max_length=40):
        return dataclasses.replace(
            config,
            model=dataclasses.replace(
                config.model, position_encoding="learned", num_positions=num_positions
            ),
            training=dataclasses.replace(config.training, max_length=max_length),
        )

    sides = {
        split: data.EncodedCorpus.open(corpus, split) for split in ("train", "valid")
    }
    longest = {split: int(side.lengths.max()) for split, side in sides.items()}
    room = config.decoding.extra_decode_length
    needed = {
        split: room + int(side.source_lengths.max()) for split, side in sides.items()
    }
    for split, max_length in (("train", 40), ("valid", longest["valid"] - 1)):
        short = with_positions(needed[split] - 1, max_length)
        message = f"at least {needed[split]} .*{split} has {longest[split]} .*Pass"
        with pytest.raises(ValueError, match=message):
            train(corpus, tmp_path / "run", short)
    assert not (tmp_path / "run" / "config.json").exists()
    enough = max(needed.values())
    run_checks.check_positions(corpus, with_positions(enough))
    assert fit_positions(config.decoding, enough).max_input_length == enough - room
    run_checks.check_positions(corpus, config)


def test_options_and_devices_are_checked():
    with pytest.raises(ValueError, match="`checkpoint_every_minutes` must be above 0"):
        RunOptions(checkpoint_every_minutes=0.0)
    with pytest.raises(ValueError, match="`jit_compile` must be one of"):
        RunOptions(jit_compile="yes")
    with pytest.raises(ValueError, match="`distribution` must be one of"):
        strategies.make_strategy("mirored")
    with pytest.raises(ValueError, match="and 1 on one device"):
        strategies.make_strategy("one_device", 2)
    assert strategies.make_strategy("mirrored", 2).num_replicas_in_sync == 2
    assert strategies.make_strategy().num_replicas_in_sync == 1
