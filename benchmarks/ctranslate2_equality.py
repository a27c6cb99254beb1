"""Does CTranslate2 find the same translations as this package, with the same weights?

    python benchmarks/ctranslate2_equality.py --model_dir=runs/multi30k/model_1 \
        --input=test_2016_flickr.en --reference=test_2016_flickr.de

converts the model to float32 and int8 and translates a file with beam 4 and no length
penalty, the only setting in which both maximize the same score. Prints the number of
equal lines, the largest difference of their scores, and BLEU. Takes a minute for 1,000
lines and a small model on 2 CPU cores.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags

_INPUT = flags.DEFINE_string("input", None, "Text file, one sentence a line.")
_REFERENCE = flags.DEFINE_string("reference", None, "Its translations.")
_BEAM_SIZE = flags.DEFINE_integer("beam_size", 4, "Beam size of both.")
_MODEL = ModelFlags()


def main() -> dict:
    """Translate with both and print the comparison."""
    programs.check_given(_MODEL.model_dir, _INPUT, _REFERENCE)
    startup.import_tensorflow()

    from keras_transformer import bleu_metric, text_files
    from keras_transformer.hardware import describe
    from keras_transformer.runs.model_dir import ModelDir
    from keras_transformer.serving import ctranslate2_converter

    config = ModelDir(_MODEL.model_dir.value).read_config()
    metric = bleu_metric.metric(config.target_language)
    translator = _MODEL.load_translator(
        precision="float32", beam_size=_BEAM_SIZE.value, length_penalty_alpha=0.0
    )
    sources = text_files.read_lines(_INPUT.value)
    references = text_files.read_lines(_REFERENCE.value)
    ours = translator.translate(sources)
    bleu = metric.corpus_score([own.text for own in ours], [references]).score
    results = {"ours": {"bleu": round(bleu, 2), "lines": len(ours)}}
    for quantization in ("float32", "int8"):
        with tempfile.TemporaryDirectory() as folder:
            converted = pathlib.Path(folder) / "model"
            ctranslate2_converter.convert(translator, converted, quantization)
            texts, scores = translate(translator, converted, sources)
        distances = [
            abs(own.score - score)
            for own, text, score in zip(ours, texts, scores, strict=True)
            if own.text == text
        ]
        bleu = metric.corpus_score(texts, [references]).score
        results[quantization] = {
            "bleu": round(bleu, 2),
            "equal_lines": len(distances),
            "largest_score_distance": max(distances),
        }
    measure.write_line(**results, machine=describe())
    return results


def translate(
    translator, folder: pathlib.Path, sources: list[str]
) -> tuple[list[str], list[float]]:
    """Return CTranslate2's best hypothesis of each source, and its log probability."""
    import ctranslate2

    from keras_transformer.serving.ctranslate2_converter import vocabularies_of

    limits = translator.decoding
    engine = ctranslate2.Translator(str(folder), device="cpu")
    sources_of, targets_of = vocabularies_of(translator.tokenizer)
    ids = {piece: number for number, piece in enumerate(targets_of)}
    encoded = translator.tokenizer.encode(sources)
    results = engine.translate_batch(
        [[sources_of[token] for token in tokens] for tokens in encoded],
        beam_size=limits.beam_size,
        length_penalty=0,
        max_decoding_length=max(map(len, encoded)) + limits.extra_decode_length,
        return_scores=True,
        max_batch_size=64,
    )
    tokens = [[ids[piece] for piece in result.hypotheses[0]] for result in results]
    return translator.tokenizer.decode(tokens), [row.scores[0] for row in results]


if __name__ == "__main__":
    programs.run(main)
