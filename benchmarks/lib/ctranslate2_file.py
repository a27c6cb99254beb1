"""Translates a file with CTranslate2: what benchmarks/translate_file.py compares with.

    python ctranslate2_file.py FOLDER INPUT OUTPUT WORKERS THREADS OPTIONS

FOLDER is from export/convert_ctranslate2.py, OPTIONS JSON for `translate_batch`.
Imports neither TensorFlow nor this package.
"""

import json
import pathlib
import sys

import ctranslate2
import sentencepiece


def main(folder, source, target, workers, threads, options):
    """Translate all lines at once; `translate_batch` sorts them by length."""
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=f"{folder}/tokenizer/sentencepiece.model"
    )
    translator = ctranslate2.Translator(
        folder, device="cpu", inter_threads=int(workers), intra_threads=int(threads)
    )
    lines = pathlib.Path(source).read_text(encoding="utf-8").splitlines()
    results = translator.translate_batch(
        pieces.encode(lines, out_type=str), **json.loads(options)
    )
    texts = pieces.decode([result.hypotheses[0] for result in results])
    pathlib.Path(target).write_text("\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
