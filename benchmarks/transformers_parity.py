"""Does Hugging Face Transformers find the same translations, with the same weights?

    python benchmarks/transformers_parity.py --model_dir=runs/quickstart/model \
        --input=runs/quickstart/data/test.source

writes the model as export/convert_huggingface.py does, loads the folder with
MarianTokenizer and MarianMTModel, and translates a file with both. Prints how many
lines have the same source ids, how far the logits of our translations differ at most,
and how many translations are equal, greedy and with a beam; both searches divide by
length ** alpha. Needs torch and transformers. Takes two minutes for 500 lines and a
small model on 2 CPU cores.
"""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import importlib.util
import multiprocessing
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np
from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags

_INPUT = flags.DEFINE_string("input", None, "Text file, one sentence a line.")
_BEAM_SIZE = flags.DEFINE_integer("beam_size", 4, "Beam size of both.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 50, "Lines translated at once.")
_MODEL = ModelFlags()


# The written model in Transformers, in the process of `Transformers`.
_loaded: list[Any] = []


def main() -> dict:
    """Translate with both and print the comparison."""
    programs.check_given(_MODEL.model_dir, _INPUT)
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            raise ValueError(
                f"The comparison needs {name}: install torch and transformers."
            )
    startup.import_tensorflow()
    from keras_transformer import text_files
    from keras_transformer.hardware import describe
    from keras_transformer.pretrained import huggingface_writer
    from keras_transformer.runs.model_dir import ModelDir

    model_dir = ModelDir(_MODEL.model_dir.value)
    load = {"precision": "float32", "length_penalty": "power"}
    translator, greedy = (
        _MODEL.load_translator(beam_size=beam_size, **load)
        for beam_size in (_BEAM_SIZE.value, 1)
    )
    lines = text_files.read_lines(_INPUT.value)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / "model"
        huggingface_writer.write(translator, model_dir.read_config(), written, "")
        # TensorFlow and Triton, which torch imports, crash in one process.
        with concurrent.futures.ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), load_transformers, (written,)
        ) as process:
            for start in range(0, len(lines), _BATCH_SIZE.value):
                texts = lines[start : start + _BATCH_SIZE.value]
                rows += compare(translator, greedy, process, texts)
    results = {
        "lines": len(rows),
        **{
            name: sum(row[name] for row in rows)
            for name in ("equal_ids", "equal_greedy", "equal_beam")
        },
        "largest_logit_difference": max(row["logits"] for row in rows),
        "largest_score_difference": max(row["score"] for row in rows),
    }
    versions = {
        name: importlib.metadata.version(name) for name in ("torch", "transformers")
    }
    measure.write_line(**results, **versions, machine=describe())
    return results


def load_transformers(folder: pathlib.Path) -> None:
    """Load what `huggingface_writer.write` wrote, in the process of Transformers."""
    from transformers import MarianMTModel, MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(folder)
    _loaded.extend([tokenizer, MarianMTModel.from_pretrained(folder).eval()])


def source_ids(texts: list[str]) -> list[list[int]]:
    """Return the ids of MarianTokenizer."""
    return _loaded[0](texts)["input_ids"]


def logits_of(source: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Return the logits `[batch, length, vocab]` of given decoder inputs."""
    import torch

    model, source = _loaded[1], torch.tensor(source, dtype=torch.long)
    with torch.no_grad():
        outputs = model(
            input_ids=source,
            attention_mask=source != model.config.pad_token_id,
            decoder_input_ids=torch.tensor(inputs, dtype=torch.long),
        )
    return outputs.logits.numpy()


def translate(
    texts: list[str], beam_size: int, longest: int
) -> tuple[list[str], list[float]]:
    """Return the translations of `generate`, and their scores if there is a beam."""
    tokenizer, model = _loaded
    found = model.generate(
        **tokenizer(texts, return_tensors="pt", padding=True),
        num_beams=beam_size,
        max_new_tokens=longest,
        max_length=None,
        return_dict_in_generate=True,
        output_scores=True,
    )
    translations = tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
    if beam_size == 1:
        return translations, [0.0] * len(texts)
    return translations, found.sequences_scores.tolist()


def compare(
    translator: Any,
    greedy: Any,
    process: concurrent.futures.Executor,
    texts: list[str],
) -> list[dict[str, Any]]:
    """Translate some lines with both; return the comparison of each line.

    "score" is the difference where the translations of the beam are equal, else 0.
    """
    tokenizer, model = translator.tokenizer, translator.model
    source = tokenizer.encode_rows(texts)
    longest = source.shape[1] + translator.decoding.extra_decode_length
    beam, alone = translator.translate(texts), greedy.translate(texts)
    target = tokenizer.encode_rows([each.text for each in beam], is_target=True)
    inputs = np.asarray(model.shift_right(target))
    their_ids = process.submit(source_ids, texts).result()
    their_logits = process.submit(logits_of, source, inputs).result()
    their_beam, scores = process.submit(
        translate, texts, _BEAM_SIZE.value, longest
    ).result()
    their_greedy, _ = process.submit(translate, texts, 1, longest).result()
    distance = np.abs(np.asarray(model(source, inputs)) - their_logits).max(-1)
    distance = np.where(target != tokenizer.pad_id, distance, 0.0).max(-1)
    rows = []
    for i in range(len(texts)):
        is_equal = beam[i].text == their_beam[i]
        rows.append(
            {
                "equal_ids": source[i][source[i] != tokenizer.pad_id].tolist()
                == their_ids[i],
                "equal_greedy": alone[i].text == their_greedy[i],
                "equal_beam": is_equal,
                "logits": float(distance[i]),
                "score": abs(beam[i].score - scores[i]) if is_equal else 0.0,
            }
        )
    return rows


if __name__ == "__main__":
    programs.run(main)
