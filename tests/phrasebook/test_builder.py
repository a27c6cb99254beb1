"""The phrasebook through TensorFlow Datasets, with the network shut off."""

import socket

import pytest
import tensorflow_datasets as tfds

from keras_transformer import phrasebook
from keras_transformer.phrasebook import builder

SIZES = {"train": 211, "validation": 13, "test": 17}


@pytest.fixture
def no_network(monkeypatch):
    """Let every connection fail."""

    def refuse(*args, **kwargs):
        raise AssertionError("the phrasebook needs no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def small_builder(data_dir, **changes) -> builder.Phrasebook:
    sizes = {f"{split}_size": size for split, size in SIZES.items()}
    config = builder.PhrasebookConfig(name="small", **{**sizes, **changes})
    return builder.Phrasebook(data_dir=data_dir, config=config)


def read(data_dir, split, **changes) -> set[tuple[str, str]]:
    prepared = small_builder(data_dir, **changes)
    prepared.download_and_prepare()
    rows = tfds.as_numpy(prepared.as_dataset(split=split))
    return {(row["en"].decode(), row["de"].decode()) for row in rows}


@pytest.mark.parametrize("split", SIZES)
def test_tfds_gives_the_pairs_of_generate(tmp_path, no_network, split):
    splits = phrasebook.build(SIZES)
    assert read(tmp_path, split) == {example.pair for example in splits[split]}


def test_tfds_knows_name_languages_and_sizes(tmp_path, no_network):
    prepared = small_builder(tmp_path)
    prepared.download_and_prepare()
    assert prepared.name == "phrasebook"
    assert prepared.info.features.languages == ["de", "en"]
    assert prepared.info.supervised_keys == ("en", "de")
    sizes = {name: split.num_examples for name, split in prepared.info.splits.items()}
    assert sizes == SIZES


def test_the_seed_of_the_config_is_used(tmp_path, no_network):
    expected = {e.pair for e in phrasebook.build(SIZES, seed=5)["test"]}
    assert read(tmp_path, "test", seed=5) == expected


def test_the_default_config_has_the_default_sizes():
    config = builder.Phrasebook.BUILDER_CONFIGS[0]
    sizes = [getattr(config, f"{split}_size") for split in phrasebook.DEFAULT_SIZES]
    assert sizes == list(phrasebook.DEFAULT_SIZES.values())
    assert config.seed == 0
