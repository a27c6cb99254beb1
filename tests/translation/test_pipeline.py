"""Steps of a translation: whoever asks, and through whichever door."""

import asyncio
import functools
import itertools
import threading

import pytest

from keras_transformer.documents.protection import Protection, Term
from keras_transformer.translation import batching, pipeline
from tests.test_doors import Place

LIMIT = 12
TERMS = [Term("dog", "Köter"), Term("New York", None)]
PROTECTION = Protection(["urls"], TERMS)
KEPT = PROTECTION.with_placeholders(["<ph1>", "<ph2>"])


class Model:
    """Writes texts in capitals, but for placeholders; cuts those over a limit.

    Attributes:
        batches: The texts of each batch.
    """

    def __init__(self):
        self.batches = []

    def ask(self, texts):
        self.batches.append([each.text for each in texts])
        return [self.answer(each.text) for each in texts]

    def answer(self, text):
        found = text[:LIMIT].upper().replace("<PH", "<ph")
        hypotheses = (pipeline.Hypothesis(found, -1.0), pipeline.Hypothesis("B", -2.0))
        return pipeline.Translation(found, -1.0, len(text) > LIMIT, hypotheses)


def translated(texts, **options):
    """Return the translations, and the batches that were asked; one of each driver."""

    async def ask(texts):
        return other.ask(texts)

    chosen = pipeline.Options(**options)
    model, other = Model(), Model()
    found = pipeline.run(pipeline.translate(texts, chosen), model.ask)
    beside = asyncio.run(pipeline.run_async(pipeline.translate(texts, chosen), ask))
    assert (found, model.batches) == (beside, other.batches)
    return found, model.batches


def test_nothing_is_asked_without_texts():
    assert translated([]) == ([], [])


def test_a_text_that_was_cut_is_translated_in_parts_if_asked():
    texts = ["a b c", "one two, three four five", "Wort"]
    (short, cut, _), batches = translated(texts)
    assert (cut.text, cut.truncated, len(batches)) == ("ONE TWO, THR", True, 1)
    assert short.nbest[1].text == "B"
    (again, whole, _), batches = translated(texts, divides=True)
    assert again == short
    assert whole.text == "ONE TWO, THREE FOUR FIVE"
    assert (whole.score, whole.truncated, whole.nbest) == (-3.0, False, ())
    assert batches == [
        texts,
        ["one two,"],
        ["three four five"],
        ["three"],
        ["four five"],
    ]


def test_parts_of_scripts_without_spaces_are_joined_as_the_translation_is_written():
    (found,), _ = translated(["一二三四五六,七八九十一二三四"], divides=True)
    assert found.text == "一二三四五六,七八九十一二三四"
    parts = pipeline.in_parts(
        ["一二。三四五六七八九十一二"], pipeline.Options(divides=True)
    )
    (found,) = pipeline.run(parts, Model().ask)
    assert pipeline.spaces_after(found, ["ab", "cd"]) == [" ", ""]


def test_each_part_has_the_language_of_its_text():
    text = ">>de<< one two three"
    _, batches = translated([text], tokens=(">>de<<",), divides=True)
    assert batches == [
        [text],
        [">>de<< one two"],
        [">>de<< one"],
        [">>de<< two"],
        [">>de<< three"],
    ]


def test_only_the_first_batch_of_all_blocks_is_alone():
    """The two others of the first block run together, and the two of the second."""
    begun, both_run = [], threading.Barrier(2)

    def run_batch(text):
        if begun:
            both_run.wait(60)
        begun.append(text)
        return {"translation": text}

    blocks = pipeline.translate_documents(
        ["a", "b", "c", "d", "e"],
        block_size=3,
        translate_all=functools.partial(
            batching.in_batches,
            batch_size=1,
            answer=pipeline.answering(run_batch, first_alone=True),
            at_once=2,
        ),
        options=pipeline.Options(),
        check=lambda number, texts: None,
    )
    assert [lines for lines, _ in blocks] == [["a", "b", "c"], ["d", "e"]]


def test_what_is_protected_is_in_every_translation():
    texts = ["a dog at www.a.b", "a dog, www.a.de/b and www.c.de/d"]
    (first, second), batches = translated(texts, protection=KEPT, divides=True)
    assert batches[0][0] == "a <ph1> at <ph2>"
    assert first.text == "A Köter AT www.a.b"
    assert second.text == "A Köter, www.a.de/b AND www.c.de/d"


def test_what_fails_ends_the_steps():
    def ask(texts):
        raise OSError("no room")

    steps = pipeline.translate(["a"], pipeline.Options())
    with pytest.raises(OSError, match="no room"):
        pipeline.run(steps, ask)


HARD = {
    "two sentences": "A dog runs! Zwei eins.",
    "a list": "- one two three\n- A dog at www.a.de/b, 7\n\n3. two",
    "a long sentence": "one two three, " * 9 + "A dog runs at www.a.de in New York!",
    "a long word": "one" * 40 + " two.",
    "a term at the end": "one dog. two dog",
    "a placeholder": "one <ph1> dog",
    "no spaces": "一二三。四五六！A dog.",
    "tabs and spaces": "\tA dog\t\u00a0 runs!  one \u3000",
}


@pytest.mark.long
def test_hard_documents_are_the_same_through_every_door(
    kept_export, program_of, tmp_path
):
    """Of the program, of LibreTranslate's API and of the page."""
    (tmp_path / "terms").write_text("dog\tKöter\nNew York\n")
    place = Place(kept_export, program_of, tmp_path)
    protect = {"protect": ["urls"], "glossary": "dog\tKöter\nNew York"}
    languages = {"source": "en", "target": "de"}
    written = place.run(
        "bin/translate.py",
        ["\n====\n".join(HARD.values())],
        "",
        format="text",
        saved_model=kept_export,
        protect="urls",
        glossary=tmp_path / "terms",
    )
    for text, expected in zip(HARD.values(), written.split("\n====\n"), strict=True):
        body = {"q": text, **languages, **protect}
        assert place.post("/translate", json=body)["translatedText"] == expected
        answer = place.post("/page/translate", json={"text": text, **protect})
        shown = answer["around"][0]
        for each in answer["sentences"]:
            shown += " ".join(each["words"]) + each["after"]
        assert shown == expected
        sources = [each["text"] for each in answer["sentences"]]
        around = zip(answer["around"], [*sources, ""], strict=True)
        assert "".join(itertools.chain(*around)) == text
        assert text.count("dog") == expected.count("Köter")
