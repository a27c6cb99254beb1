"""What a run was made of: the content of `config.json`. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Any

from keras_transformer.config import (
    DecodingConfig,
    ModelConfig,
    TrainingConfig,
    from_dict,
)

FORMAT_VERSION = 1
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Everything that decides the result of a run, resolved: `config.json`."""

    preset: str
    model: ModelConfig
    training: TrainingConfig
    decoding: DecodingConfig
    source_language: str
    target_language: str
    # SHA-256 of the vocabulary.
    tokenizer_hash: str
    # Keras's dtype policy.
    precision: str = dataclasses.field(
        default="float32", metadata={"choices": PRECISIONS}
    )
    # Seed of the first weights, the order of the batches and dropout.
    seed: int = dataclasses.field(default=0, metadata={"minimum": 0})
    # "translation" or "parsing".
    task: str = "translation"
    # SHA-256 of the constituent labels that a parser knows.
    labels_hash: str | None = None
    # SHA-256 of the encoded training split; None: an earlier release did not save it.
    corpus_hash: str | None = None
    # The target language of texts that do not tell theirs, if a model is told it by the
    # text; None: they have to tell it.
    default_language: str | None = None
    # An imported model: its family, its name on the Hugging Face Hub if it is from
    # there, its licence if its card says so, and the SHA-256 of the files that were
    # read.
    origin: dict[str, Any] | None = None
    # What the model was trained on, as `DataMetadata.in_brief` says it; None: an
    # earlier release did not save it.
    corpus: dict[str, Any] | None = None
    # The model that training began from: the name of its folder, and what `origin` has
    # of a published one; None: none.
    start: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the content of `config.json`."""
        return {"format_version": FORMAT_VERSION, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RunConfig:
        """Build the configuration from the content of `config.json`."""
        values = dict(values)
        values.pop("format_version")
        values["model"] = from_dict(ModelConfig, values["model"])
        # Earlier releases packed no pairs.
        training = {"pack": False, **values["training"]}
        values["training"] = from_dict(TrainingConfig, training)
        values["decoding"] = from_dict(DecodingConfig, values["decoding"])
        return from_dict(cls, values)
