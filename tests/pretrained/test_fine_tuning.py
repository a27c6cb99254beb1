"""An imported model is fine-tuned through the programs."""

import pytest

from keras_transformer.evaluation.perplexity import reference_perplexity
from keras_transformer.pretrained import importing
from keras_transformer.runs.model_dir import ModelDir
from tests.pretrained import small_published
from tests.small_models import LINES

pytestmark = pytest.mark.long


def perplexity_of(model_dir):
    model, tokenizer = model_dir.load_model(), model_dir.load_tokenizer()
    model.compile()
    return reference_perplexity(model, tokenizer, LINES, LINES, max_length=60)


@pytest.mark.parametrize("family", ["marian", "m2m_100"])
def test_an_imported_model_learns_from_other_text(program_of, tmp_path, family):
    small_published.write_huggingface(tmp_path / "published", family)
    has_languages = family == "m2m_100"
    languages = {"source_language": "en", "target_language": "de"}
    importing.import_model(
        tmp_path / "published",
        tmp_path / "model",
        **(languages if has_languages else {}),
    )
    text = tmp_path / "text"
    text.write_text("\n".join(LINES * 20) + "\n", encoding="utf-8")
    paths = {
        f"{split}_{side}": str(text)
        for split in ("train", "valid")
        for side in ("source", "target")
    }
    program_of("bin/prepare_data.py")(
        data_dir=str(tmp_path / "data"),
        tokenizer_from=str(tmp_path / "model"),
        max_length=60,
        **paths,
        **languages,
    )
    summary = program_of("bin/train.py")(
        data_dir=str(tmp_path / "data"),
        model_dir=str(tmp_path / "tuned"),
        init_checkpoint=str(tmp_path / "model"),
        train_steps=60,
        warmup_steps=10,
        learning_rate_schedule="linear",
        learning_rate=0.03,
        tokens_per_batch=500,
        max_length=60,
        freeze="encoder",
        bleu_sentences=0,
        preflight=False,
        distribution="one_device",
    )
    assert summary["steps"] == 60
    tuned, start = ModelDir(tmp_path / "tuned"), ModelDir(tmp_path / "model")
    assert tuned.read_config().model == start.read_config().model
    assert perplexity_of(tuned) < 0.5 * perplexity_of(start)
