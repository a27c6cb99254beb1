"""The phrasebook as a TensorFlow dataset, TFDS name `phrasebook`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import tensorflow_datasets as tfds

from keras_transformer.phrasebook import corpus, grammar, values


@dataclasses.dataclass
class PhrasebookConfig(tfds.core.BuilderConfig):
    """Sizes and seed of a phrasebook; give another name with other values.

    TFDS stores each name in a folder of its own and reuses what it finds there.
    """

    # Sentence pairs.
    train_size: int = corpus.DEFAULT_SIZES[values.TRAIN]
    validation_size: int = corpus.DEFAULT_SIZES[values.VALIDATION]
    test_size: int = corpus.DEFAULT_SIZES[values.TEST]
    # Selects the sample; what is held out is the same for every seed.
    seed: int = 0


class Phrasebook(tfds.core.GeneratorBasedBuilder):
    """English-German sentence pairs from a grammar, made on the spot: no download.

    The validation and test splits hold numbers, times, dates, prices and combinations
    of words that the training split does not have, while it has every word of theirs.

        tfds.load("phrasebook", split="train")      # after importing this module
        Phrasebook(config=PhrasebookConfig(name="small", train_size=1000))
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    BUILDER_CONFIGS = [
        PhrasebookConfig(name="default", description="24,000 pairs for training.")
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=(
                "English-German sentence pairs from a hand-written grammar: clock "
                "times, dates, prices, numbers, directions, travel and appointments."
            ),
            features=tfds.features.Translation(languages=grammar.LANGUAGES),
            supervised_keys=grammar.LANGUAGES,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[int, dict[str, str]]]]:
        sizes = {
            split: getattr(self.builder_config, f"{split}_size")
            for split in values.SPLITS
        }
        splits = corpus.build(sizes, self.builder_config.seed)
        return {
            split: self._generate_examples(examples)
            for split, examples in splits.items()
        }

    def _generate_examples(
        self, examples: Sequence[corpus.Example]
    ) -> Iterator[tuple[int, dict[str, str]]]:
        for index, example in enumerate(examples):
            yield index, dict(zip(grammar.LANGUAGES, example.pair, strict=True))
