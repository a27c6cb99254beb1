"""Which tokenizer BLEU has for a language."""

import re

import pytest

from keras_transformer import bleu_metric

CODES = {
    "zh": "zh zh-TW zh_CN ZH zho_Hans zho_Hant chi cmn cmn_Hans yue_Hant lzh zh-yue",
    "ja-mecab": "ja ja_XX ja-JP jpn jpn_Jpan jap JA",
    "ko-mecab": "ko ko_KR ko-KR kor kor_Hang",
    "13a": "de pt-BR deu en_XX th km_KH my bo vi kab jav kok zh-Latn nan_Latn dng",
}


@pytest.mark.parametrize(
    ("code", "tokenizer"),
    [(code, name) for name, codes in CODES.items() for code in codes.split()],
)
def test_all_spellings_of_a_language_have_its_tokenizer(code, tokenizer):
    signature = bleu_metric.metric(code).tokenizer_signature
    assert signature.startswith(tokenizer)
    assert bleu_metric.is_spaced(code) == (tokenizer == "13a")


@pytest.mark.parametrize(
    ("code", "extra"), [("ja_XX", "ja"), ("ja", "ja"), ("kor_Hang", "ko")]
)
def test_a_missing_tokenizer_is_named_with_what_installs_it(without_mecab, code, extra):
    without_mecab(extra)
    message = re.escape(f'pip install "sacrebleu[{extra}]".')
    with pytest.raises(ValueError, match=f"language {code!r} needs .* {message}"):
        bleu_metric.metric(code)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("th", "แมวของฉันหลับอยู่"),
        ("lo", "ແມວຂອງຂ້ອຍນອນ"),
        ("km", "ឆ្មារបស់ខ្ញុំកំពុងដេក"),
        ("my", "ကျွန်တော့်ကြောင်အိပ်နေတယ်"),
        ("bo", "ངའི་ཞི་མི་གཉིད་ཁུག་འདུག"),
        ("de", "我的猫在 Berlin 睡觉。"),
        ("en", "私の猫は寝ている。"),
    ],
)
def test_words_that_13a_does_not_find_are_warned_of(code, line):
    warning = bleu_metric.warning_of(code, [line])
    assert f"language {code!r} splits words at spaces" in warning


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("de", ["Die Katze 猫 schläft."]),
        ("hi", ["मेरी बिल्ली सो रही है।"]),
        ("vi", ["Con mèo của tôi đang ngủ."]),
        ("ar", ["قطتي نائمة."]),
        ("zh", ["我的猫在睡觉。"]),
        ("ko", ["고양이가 잔다."]),
        ("de", ["12 %", ""]),
        ("de", []),
    ],
)
def test_other_text_is_scored_without_a_warning(code, lines):
    assert bleu_metric.warning_of(code, lines) is None


@pytest.mark.parametrize(("code", "tokenizer"), [("de", "13a"), ("zh-TW", "zh")])
def test_the_signature_is_that_of_scores_with_one_reference(code, tokenizer):
    metric = bleu_metric.metric(code)
    signature = bleu_metric.signature(metric)
    assert f"nrefs:1|case:mixed|eff:no|tok:{tokenizer}|" in signature
    metric.corpus_score(["Die Katze schläft."], [["Die Katze schläft."]])
    assert signature == str(metric.get_signature())
