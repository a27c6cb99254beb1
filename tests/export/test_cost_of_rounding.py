"""The program of an export tells what a lower precision costs on the user's text."""

import keras
import pytest

from keras_transformer.cli.flags import ModelFlags
from keras_transformer.config import ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import Transformer
from keras_transformer.opening import open_model
from tests.inference.test_int8_product import needs_int8
from tests.small_models import LINES, TOKENIZERS, make_translator, write_model

TEXTS = [*LINES, "one two", "", "A dog two!", "Ein three", "one 7"]


@pytest.fixture
def unsure_dir(tmp_path):
    """A model as it is initialized: rounding changes some of its translations."""
    tokenizer = TOKENIZERS["wordpiece"]()
    keras.utils.set_random_seed(3)
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, num_layers=1, d_model=14, d_ff=17, num_heads=2
    )
    translator = Translator(
        Transformer(config), tokenizer, extra_decode_length=5, max_input_length=23
    )
    write_model(translator, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def export(program_of, tmp_path):
    """Return what exports a model and checks it with `TEXTS`."""
    (tmp_path / "source").write_text("\n".join(TEXTS) + "\n")

    def run(model_dir, **given):
        return program_of("export/export_saved_model.py")(
            model_dir=model_dir,
            export_dir=tmp_path / "export",
            device="none",
            warmup=False,
            check_input=tmp_path / "source",
            **given,
        )

    return run


def in_precisions(model_dir, texts, *precisions, **search):
    """The outputs of a model in each precision."""
    return [
        open_model(model_dir, None, precision=name, **search).searcher(texts)
        for name in precisions
    ]


def number_of_differences(outputs, exact):
    return sum(outputs[line] != exact[line] for line in range(len(outputs)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("precision", "check_lines"),
    [("bfloat16", {}), pytest.param("int8", {"check_lines": 9}, marks=needs_int8)],
)
def test_translations_are_compared_with_those_in_float32(
    export, unsure_dir, precision, check_lines, tmp_path, capsys
):
    """The references are the translations in float32, so their BLEU is 100."""
    search = {"no_repeat_ngram_size": 1, "beam_size": 3}
    texts = TEXTS[: check_lines.get("check_lines")]
    rounded, exact = in_precisions(unsure_dir, texts, precision, "float32", **search)
    differing = number_of_differences(rounded, exact)
    assert differing > 0
    target = tmp_path / "target"
    references = [*exact, *(["beyond --check_lines"] * (len(TEXTS) - len(exact)))]
    target.write_text("\n".join(references) + "\n")
    check = export(
        unsure_dir,
        precision=precision,
        signatures="serving_default",
        check_target=target,
        **check_lines,
        **search,
    )["check"]
    bleu = check["sacrebleu"]
    assert bleu < 99
    assert check == {
        "lines": len(texts),
        "differing": differing,
        "sacrebleu": bleu,
        "sacrebleu_float32": pytest.approx(100),
    }
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"{precision}: {differing} of {len(texts)} outputs differ from those in "
        "float32; "
        f"BLEU {bleu:.2f}, in float32 100.00"
    )


def test_a_missing_tokenizer_is_named_before_any_translation(
    export, tmp_path, without_mecab, monkeypatch
):
    write_model(make_translator(), tmp_path / "model", target_language="ja")
    (tmp_path / "target").write_text("a\n" * len(TEXTS))
    without_mecab("ja")
    monkeypatch.setattr(ModelFlags, "open", lambda *_: pytest.fail("too late"))
    with pytest.raises(ValueError, match=r'pip install "sacrebleu\[ja\]"'):
        export(
            tmp_path / "model", precision="bfloat16", check_target=tmp_path / "target"
        )


@needs_int8
@pytest.mark.long
def test_trees_are_compared_with_those_in_float32(export, parser_dir, capsys):
    texts, search = TEXTS[:7], {"beam_size": 1}
    rounded, exact = in_precisions(parser_dir, texts, "int8", "float32", **search)
    differing = number_of_differences(rounded, exact)
    assert differing > 0
    summary = export(parser_dir, precision="int8", check_lines=7, **search)
    assert summary["check"]["differing"] == differing
    said = f"int8: {differing} of 7 outputs differ from those in float32"
    assert capsys.readouterr().out.splitlines()[-1] == said
