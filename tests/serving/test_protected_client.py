"""The client's translations have what is protected, whatever the served model has."""

import subprocess
import sys

import pytest

from keras_transformer.config import PairEncoding
from keras_transformer.documents.protection import Protection, Term
from keras_transformer.opening import open_model
from keras_transformer.serving import client, protected_client, saved_model
from keras_transformer.translation.pipeline import Options, translate_in_batches
from tests.export.small_server import MODEL_NAME, BatchingModel, serve
from tests.small_models import LINES, make_translator

PROTECTION = Protection(["urls", "tags"], [Term("dog", "Pudel"), Term("one", None)])
TEXTS = [*LINES, "", "A <b>dog</b> runs! http://a.b/c", "one dog at www.a.de 5"] * 3


@pytest.fixture(scope="module")
def with_placeholders(kept_export):
    with serve(BatchingModel(kept_export)) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def without_placeholders(small_export):
    with serve(BatchingModel(small_export)) as addresses:
        yield addresses


def config_of(addresses, protocol="rest", **options):
    return client.ClientConfig(addresses[protocol], MODEL_NAME, protocol, **options)


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_the_placeholders_of_a_served_model_are_found(
    with_placeholders, without_placeholders, protocol
):
    found = protected_client.find_placeholders(config_of(with_placeholders, protocol))
    assert sorted(found) == sorted(PairEncoding(placeholders=8).symbols)
    config = config_of(without_placeholders, protocol)
    assert protected_client.find_placeholders(config) == []


def ask(addresses, protection, texts=TEXTS, **options):
    config = config_of(addresses, **{"batch_size": 4} | options)
    return list(protected_client.ask(config, {"text": texts}, protection))


@pytest.mark.long
def test_translations_are_those_of_the_export(
    with_placeholders, without_placeholders, kept_export, small_export
):
    """With placeholders and, by the alignment of words, without."""
    kept = PROTECTION.with_placeholders(PairEncoding(placeholders=8).symbols)
    for addresses, protection, translate_batch in (
        (with_placeholders, kept, open_model(kept_export).run_batch),
        (without_placeholders, PROTECTION, open_model(small_export, "align").run_batch),
    ):
        expected = translate_in_batches(TEXTS, 4, translate_batch, Options(protection))
        answers = ask(addresses, protection)
        assert [answer["translation"] for answer in answers] == [
            translation.text for translation in expected
        ]
        assert all(
            answer.keys() == {"translation", "score", "truncated"} for answer in answers
        )
        assert any("www.a.de" in answer["translation"] for answer in answers)


@pytest.mark.long
def test_all_translations_and_paragraphs_have_what_is_protected(with_placeholders):
    kept = PROTECTION.with_placeholders(PairEncoding(placeholders=8).symbols)
    (answer,) = ask(with_placeholders, kept, ["A dog at www.a.de"], signature="nbest")
    assert len(answer["translations"]) == 4
    text = "- A dog runs! See www.a.de, dog.\n\n* one\n"
    paragraph, *_ = ask(with_placeholders, kept, [text], signature="document")
    for found in (*answer["translations"], paragraph["translation"]):
        assert "www.a.de" in found and "Pudel" in found
    assert paragraph["translation"].count("Pudel") == 2
    assert "one" in paragraph["translation"].split("\n\n* ")[1]


@pytest.mark.long
def test_tags_and_terms_of_a_paragraph_stay_over_its_sentences(with_placeholders):
    """As in the pipeline, which pairs the tags of each sentence."""
    terms = [Term("Jeopardy! Productions", None)]
    kept = Protection(["tags"], terms, PairEncoding(placeholders=8).symbols)
    texts = ["<b>A man runs. Two men run.</b>\n", "- At Jeopardy! Productions.\n", "\n"]
    tags, term, blank = ask(
        with_placeholders, kept, texts, signature="document", batch_size=2
    )
    assert [tags["translation"].count(tag) for tag in ("<b>", "</b>")] == [1, 1]
    assert term["translation"].count("Jeopardy! Productions") == 1
    assert term["translation"].startswith("- ") and term["translation"].endswith("\n")
    assert blank == {"translation": "\n", "truncated": False}


def test_only_one_signature_can_do_without_placeholders():
    config = client.ClientConfig("localhost:1", "m", signature="nbest")
    answers = protected_client.ask(config, {"text": ["a"]}, PROTECTION)
    with pytest.raises(ValueError, match="--signature=nbest with --protect or --gloss"):
        next(answers)


def test_other_signatures_are_refused(program_of):
    with pytest.raises(
        ValueError,
        match="--protect and --glossary are for --signature=serving_default, nbest, "
        "document, multilingual. Received: --signature=align.",
    ):
        program_of("export/client.py")(
            server="localhost:1", model_name="m", signature="align", protect="urls"
        )


@pytest.mark.long
def test_the_program_protects(program_of, with_placeholders, tmp_path, capfd):
    (tmp_path / "terms").write_text("dog\tPudel\n")
    (tmp_path / "in").write_text("A dog\n\n")
    for protocol in ("rest", "grpc"):
        summary = program_of("export/client.py")(
            server=with_placeholders[protocol],
            protocol=protocol,
            model_name=MODEL_NAME,
            glossary=tmp_path / "terms",
            input=tmp_path / "in",
            output=tmp_path / "out",
        )
        assert summary == {"lines": 2}
        first, second = (tmp_path / "out").read_text().splitlines()
        assert first.count("Pudel") == 1 and second == ""
    assert "placeholders" not in capfd.readouterr().err


@pytest.mark.long
def test_the_program_says_that_the_alignment_is_a_guess(
    program_of, without_placeholders, tmp_path, capfd
):
    (tmp_path / "in").write_text("www.a.de\n")
    program_of("export/client.py")(
        server=without_placeholders["rest"],
        protocol="rest",
        model_name=MODEL_NAME,
        protect="urls",
        input=tmp_path / "in",
        output=tmp_path / "out",
    )
    assert (tmp_path / "out").read_text() == "www.a.de\n"
    assert "The model has no placeholders" in capfd.readouterr().err


def test_the_client_over_rest_imports_no_tensorflow(repository):
    code = "import sys, export.client; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=repository, check=True)


def test_languages_after_signs_of_a_list_are_found(monkeypatch):
    """In a document they are those of all sentences that follow."""

    def ask(config, inputs):
        return [{"source_pieces": text.split()} for text in inputs["text"]]

    monkeypatch.setattr(client, "ask", ask)
    config = client.ClientConfig("localhost:1", "m")
    texts = ["- >>de<< A dog. A cat.\n> 1. >>fr<< A cow.\n"]
    assert protected_client.find_tokens(config, texts) == [">>de<<", ">>fr<<"]


@pytest.mark.long
def test_languages_of_texts_are_not_protected(tmp_path, program_of):
    """A term is no part of a token, of the tokens that the served model has."""
    tokens = (">>de<<", ">>fr<<")
    symbols = (*tokens, *PairEncoding(placeholders=4).symbols)
    version = saved_model.export(
        make_translator(placeholders=symbols),
        tmp_path / "export",
        signatures=["serving_default", "align"],
    )
    (tmp_path / "terms").write_text("de\tZZ\n")
    texts = [">>de<< A dog de runs!", "\u00a0>>fr<<de two", ">>xx<< de", ">>de<<", "de"]
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in texts))
    with serve(BatchingModel(version)) as addresses:
        config = config_of(addresses)
        found = protected_client.find_tokens(config, [*texts, ">>de<< <b> a"])
        program_of("export/client.py")(
            server=addresses["rest"],
            protocol="rest",
            model_name=MODEL_NAME,
            glossary=tmp_path / "terms",
            input=tmp_path / "in",
            output=tmp_path / "out",
        )
    assert found == [*tokens]
    assert protected_client.find_tokens(config, ["a >>de<<", ""]) == []
    kept = Protection([], [Term("de", "ZZ")], symbols, tokens)
    protected = [kept.protect(text).text for text in texts]
    expected = [
        each.restore(translation.text)
        for each, translation in zip(
            map(kept.protect, texts),
            open_model(version).translate(protected),
            strict=True,
        )
    ]
    assert (tmp_path / "out").read_text().splitlines() == expected
    assert protected[0].startswith(">>de<< ")
