"""sacreBLEU's metric for a language, for training and evaluation alike.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import sacrebleu

# Codes for which sacreBLEU has a tokenizer of its own, and the codes that stand for the
# same language in other lists: ISO 639-2, 639-3, and "jap" of OPUS-MT. The Chinese
# languages are the members of ISO 639-3's zho that are written in Han characters.
_SACREBLEU_CODES = {
    "zh": "zh zho chi cmn cdo cjy cnp cpx csp czh czo gan hak hsn luh lzh mnp nan wuu "
    "yue",
    "ja": "ja jpn jap",
    "ko": "ko kor",
}
_CODE_OF = {
    code: known for known, codes in _SACREBLEU_CODES.items() for code in codes.split()
}
# Scripts that separate words by spaces, whatever the language.
_SPACED_SCRIPTS = {"latn", "cyrl"}
# What the names of letters begin with in scripts without spaces between words.
_UNSPACED = (
    *("CJK ", "HIRAGANA ", "KATAKANA "),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ", "TAI ", "NEW TAI "),
)


def metric(language: str) -> sacrebleu.BLEU:
    """Return BLEU with the tokenizer that sacreBLEU's command line would choose.

    That is zh for Chinese, ja-mecab for Japanese, ko-mecab for Korean, else 13a. Other
    spellings of these languages than sacreBLEU's, such as zh-TW, zho_Hans, cmn, ja_XX
    or kor_Hang, count as these languages.

    Args:
        language: Code of the language of translations and references.

    Raises:
        ValueError: If the tokenizer needs packages that are not installed.
    """
    code = _sacrebleu_code(language)
    try:
        return sacrebleu.BLEU(trg_lang=code)
    except RuntimeError as error:
        raise ValueError(
            f"BLEU for the language {language!r} needs the tokenizer of "
            f'sacrebleu[{code}]: pip install "sacrebleu[{code}]".'
        ) from error


def signature(metric: sacrebleu.BLEU) -> str:
    """Return sacreBLEU's signature of scores with one reference a sentence."""
    metric.corpus_score([""], [[""]])  # before, the number of references is unknown
    return str(metric.get_signature())


def is_spaced(language: str) -> bool:
    """Whether the metric takes what spaces separate for words, as 13a does."""
    return not _sacrebleu_code(language)


def warning_of(language: str, references: Sequence[str]) -> str | None:
    """Return a warning if the metric takes whole phrases for words; else None.

    Args:
        language: As in `metric`.
        references: Text that is scored.
    """
    letters = [letter for line in references for letter in line if letter.isalpha()]
    num_unspaced = sum(
        unicodedata.name(letter, "").startswith(_UNSPACED) for letter in letters
    )
    if not is_spaced(language) or 4 * num_unspaced <= len(letters):
        return None
    return (
        f"BLEU for the language {language!r} splits words at spaces (tokenizer 13a), "
        "but the references are written without: compare systems by chrF, or correct "
        "the target language."
    )


def _sacrebleu_code(language: str) -> str:
    """Return sacreBLEU's code of a language with its own tokenizer; "" for others."""
    code, *subtags = re.split("[-_]", language.lower())
    return "" if _SPACED_SCRIPTS & {*subtags} else _CODE_OF.get(code, "")
