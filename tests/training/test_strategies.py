"""Which devices and which of several processes: what can be said without them."""

import json
import subprocess
import sys

import pytest
import tensorflow as tf
import yaml

from keras_transformer.training import strategies, workers
from keras_transformer.training.signals import Stop
from keras_transformer.training.strategies import Process

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "evaluator": ["d:1"]}


class Strategy:
    """Stands for a strategy over four replicas."""

    num_replicas_in_sync = 4


@pytest.mark.parametrize("given", ["", "{", "[]", '{"task": {}}', '{"cluster": {}}'])
def test_workers_need_to_be_told_of_each_other(monkeypatch, given):
    monkeypatch.setenv("TF_CONFIG", given)
    with pytest.raises(
        ValueError, match="needs the environment variable TF_CONFIG"
    ) as e:
        strategies.make_strategy("multi_worker")
    assert f"Received: TF_CONFIG={given!r}" in str(e.value)
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER}))
    strategies.check_cluster()


@pytest.fixture
def eight_gpus(monkeypatch):
    """A machine with eight GPUs; returns the kinds and numbers of what is used."""
    gpus = [
        tf.config.PhysicalDevice(f"/physical_device:GPU:{number}", "GPU")
        for number in range(8)
    ]
    used = {"visible": gpus, "replicas": None}

    def show(devices, kind):
        assert kind == "GPU"
        used["visible"] = devices

    def mirror(devices):
        assert len(used["visible"]) == len(devices), "hidden before they are used"
        used["replicas"] = devices

    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config, "set_visible_devices", show)
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", mirror)
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", lambda: None)
    return used


def _numbers(used):
    return [int(device.name[-1]) for device in used["visible"]]


def test_gpus_that_do_not_train_are_left_to_others(eight_gpus, monkeypatch):
    strategies.make_strategy("mirrored", 2)
    assert _numbers(eight_gpus) == [0, 1]
    assert eight_gpus["replicas"] == ["/GPU:0", "/GPU:1"]
    strategies.make_strategy("auto", 3)
    assert _numbers(eight_gpus) == [0, 1, 2]
    strategies.make_strategy("one_device")
    assert _numbers(eight_gpus) == [0]
    strategies.make_strategy()
    assert _numbers(eight_gpus) == [*range(8)]
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER}))
    strategies.make_strategy("multi_worker", 5)
    assert _numbers(eight_gpus) == [0, 1, 2, 3, 4]


def test_gpus_that_tensorflow_has_taken_are_no_reason_not_to_train(
    eight_gpus, monkeypatch
):
    """As in a notebook; workers would train on all of them, which is not asked for."""

    def fail(devices, kind):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", fail)
    made = strategies.make_strategy("one_device")
    assert made is tf.distribute.get_strategy()
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER}))
    with pytest.raises(RuntimeError, match="cannot be modified"):
        strategies.make_strategy("multi_worker", 5)


def test_the_chief_comes_first_and_an_evaluator_does_not_train():
    tasks = strategies._cluster_tasks(json.dumps({"cluster": CLUSTER}))
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1)]


def test_each_process_has_the_replicas_that_are_its_own():
    assert Process(Strategy()).shares == {}
    first, second = (Process(Strategy(), number, 2) for number in range(2))
    assert (first.is_chief, second.is_chief) == (True, False)
    assert first.shares == {"replicas": range(0, 2), "num_replicas": 4}
    assert second.shares == {"replicas": range(2, 4), "num_replicas": 4}


def test_one_process_agrees_with_itself():
    process, stop = Process(tf.distribute.get_strategy()), Stop()
    assert process.from_chief(0.5) == process.sum_over_processes(0.5) == 0.5
    assert not workers.is_asked(process, stop)
    stop.number = 15
    assert workers.is_asked(process, stop)
    dataset = object()
    assert process.distribute(lambda: dataset) is dataset


def test_a_lost_worker_is_said_in_plain_words(tmp_path):
    from keras_transformer.runs.model_dir import ModelDir

    lost = tf.errors.UnavailableError(None, None, "Connection reset\nby peer")
    second = workers.watching(ModelDir(tmp_path), Process(Strategy(), 1, 2))
    with pytest.raises(workers.LostWorkerError) as caught, second:
        raise lost
    assert str(caught.value) == (
        "Worker 1 of 2 ends: another has ended or cannot be reached (Connection "
        "reset). Start all workers again: training resumes from the beginning, with "
        "any number of workers."
    )
    alone = workers.watching(ModelDir(tmp_path), Process(Strategy()))
    with pytest.raises(tf.errors.UnavailableError), alone:
        raise lost


def test_the_manifest_of_a_cluster_trains_with_our_flags(repository):

    help_text = subprocess.run(
        [sys.executable, repository / "bin" / "train.py", "--help"],
        capture_output=True,
        text=True,
    ).stdout
    path = repository / "docs" / "kubernetes" / "tfjob.yaml"
    job = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert job["kind"] == "TFJob"
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["name"] == "tensorflow"
    program, *options = container["command"]
    assert program == "kt-train"
    names = {option.removeprefix("--").split("=")[0] for option in options}
    assert all(f"--{name}:" in help_text for name in names)
    assert {"distribution", "model_dir"} <= names
