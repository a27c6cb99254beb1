"""The server's page in a browser: what a person types, sees, and is told."""

import contextlib
import dataclasses
import json
import re
import time

import numpy as np
import pytest
import requests
from selenium.webdriver.common.keys import Keys
from starlette import testclient

from keras_transformer.config import PairEncoding
from keras_transformer.documents.protection import Protection, Term
from keras_transformer.opening import open_model
from keras_transformer.server import model_loading, server
from keras_transformer.server.server_config import ServerConfig
from tests.server.fake_model import FakeModel
from tests.server.page_model import TOO_LONG, make_page_model
from tests.server.running import running

CONFIG = ServerConfig(batch_timeout_ms=0)


PLACEHOLDERS = PairEncoding(placeholders=8).symbols


def app_of(*leave_out, default=None, **options):
    return server.make_app(make_page_model(*leave_out, **options), CONFIG, default)


@contextlib.contextmanager
def opened(browser, app):
    """The page of a server, and the server's address."""
    with running(app) as address:
        load(browser, address)
        yield address
        browser.get("about:blank")


def load(browser, address):
    browser.get(f"http://{address}/")
    until(lambda: text_of(browser, "h1") == "Translate en → de")


@pytest.fixture(scope="module")
def address():
    with running(app_of()) as address:
        yield address


@pytest.fixture
def page(browser, address):
    """The page of a model that has all signatures."""
    load(browser, address)
    yield browser
    log = browser.get_log("browser")
    assert [entry for entry in log if entry["level"] == "SEVERE"] == []
    browser.get("about:blank")


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def at(page, selector):
    return page.find_element("css selector", selector)


def text_of(page, selector):
    return page.execute_script(
        "return document.querySelector(arguments[0])?.innerText ?? ''", selector
    )


def type_text(page, text):
    """Type, and wait for the translation."""
    at(page, "#source").send_keys(text)
    last = at(page, "#source").get_property("value").split("\n")[-1]
    expected = " ".join(last.upper().split()[::-1])
    until(lambda: text_of(page, "#target .sentence:last-child").strip() == expected)


def words(page):
    return page.find_elements("css selector", "#target .word")


def marks(page):
    """Return the weights of the marked source words."""
    read = """
        return [...document.querySelectorAll('#marks span')].map(
            (mark) => [mark.textContent, Number(mark.dataset.weight)]);
    """
    return dict(page.execute_script(read))


def is_shown(page, selector):
    return at(page, selector).is_displayed()


def test_a_translation_appears_as_one_types(page):
    """Each line of its own."""
    type_text(page, "a small dog\n\nruns home")
    assert text_of(page, "#target").split("\n") == ["DOG SMALL A", "", "HOME RUNS"]
    assert text_of(page, "#status") == ""
    type_text(page, " now")
    assert text_of(page, "#target").endswith("NOW HOME RUNS")


def test_sentences_of_paragraphs_are_translated_one_by_one(page):
    """What is between them stays, also below the marks of the source."""
    source = "One dog.  Two dogs.\n\n- a cat"
    at(page, "#source").send_keys(source)
    until(lambda: text_of(page, "#target") == "DOG. ONE  DOGS. TWO\n\n- CAT A")
    assert len(page.find_elements("css selector", "#target .sentence")) == 3
    page.execute_script("arguments[0].focus()", words(page)[2])
    assert marks(page) == {"Two": 0.25, "dogs.": 0.75}
    assert page.execute_script(
        "return arguments[0].textContent", at(page, "#marks")
    ) == (source)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"text": 7}, 400, "text must be a string"),
        ({"text": "a" * 10_001}, 413, "A text may have 10,000 characters"),
    ],
)
def test_texts_that_have_no_sentences_are_refused(body, status, message):
    with testclient.TestClient(app_of()) as client:
        response = client.post("/page/translate", json=body)
        assert response.status_code == status
        assert message in response.json()["error"]


def test_a_late_answer_to_an_earlier_text_is_dropped(page):
    """The first answer comes after the second."""
    page.execute_script("""
        const original = window.fetch;
        let count = 0;
        window.fetch = async () => {
            count += 1;
            const own = count;
            await new Promise((wake) => setTimeout(wake, own === 1 ? 600 : 0));
            window.answered = (window.answered || []).concat(own);
            const words = [`ANSWER${own}`];
            const sentence = { text: "any", words, after: "", weights: null };
            const answer = { around: ["", ""], sentences: [sentence] };
            return new Response(JSON.stringify(answer));
        };
        const source = document.getElementById("source");
        source.value = "one"; translate();
        source.value = "two"; translate();
    """)
    until(lambda: page.execute_script("return window.answered?.length") == 2)
    assert page.execute_script("return window.answered") == [2, 1]
    assert text_of(page, "#target") == "ANSWER2"


def test_pointing_at_a_word_shows_what_it_came_from(page):
    from selenium.webdriver import ActionChains

    type_text(page, "a small dog")
    ActionChains(page).move_to_element(words(page)[1]).perform()
    until(lambda: marks(page) == {"a": 0.25, "small": 0.75, "dog": 0.0})
    assert text_of(page, "#status") == "“SMALL” comes from “small” 75 %, “a” 25 %"
    ActionChains(page).move_to_element(at(page, "h1")).perform()
    until(lambda: marks(page) == {})


def test_the_keyboard_is_enough(page):
    """Tab to the first word, an arrow to the next, Enter, Escape."""
    type_text(page, "a small dog")
    at(page, "#source").send_keys(Keys.TAB)
    assert page.switch_to.active_element.text == "DOG"
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert page.switch_to.active_element.text == "SMALL"
    assert marks(page)["small"] == 0.75
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert is_shown(page, "#choice")
    assert at(page, "#prefix").get_property("value") == "DOG SMALL"
    at(page, "#prefix").send_keys(Keys.ESCAPE)
    assert not is_shown(page, "#choice")
    assert marks(page) == {}
    assert page.switch_to.active_element.text == "SMALL"
    page.switch_to.active_element.send_keys(Keys.ENTER)
    at(page, "#close").send_keys(Keys.ENTER)
    assert page.switch_to.active_element.text == "SMALL"


def test_another_translation_replaces_the_sentence(page):
    type_text(page, "a dog\nruns home")
    words(page)[0].click()
    until(lambda: text_of(page, "#alternatives") == "or DOG A")
    at(page, "#alternatives button").click()
    assert text_of(page, "#target").split() == ["or", "DOG", "A", "HOME", "RUNS"]
    assert not is_shown(page, "#choice")


def test_a_translation_goes_on_from_a_prefix(page):
    type_text(page, "a dog\nruns home")
    words(page)[2].click()
    field = at(page, "#prefix")
    assert field.get_property("value") == "HOME"
    field.clear()
    field.send_keys("Walks", Keys.ENTER)
    until(lambda: text_of(page, "#target").split()[2:] == ["Walks", "RUNS", "HOME"])
    assert text_of(page, "#target").split()[:2] == ["DOG", "A"]


def test_each_translation_is_shown_once(browser):
    """Spaces make no difference, nor those of a glossary."""
    model = make_page_model()
    found = ["DOG\u00a0A", "DOG A", "A DOG", "A\u00a0DOG", "A DOG", "", "THE DOG"]

    def run(inputs):
        rows = [[text.encode() for text in found] for _ in inputs["text"]]
        return {"translations": np.array(rows, object)}

    nbest = model.signatures["nbest"]._replace(run=run)
    model = dataclasses.replace(model, signatures={**model.signatures, "nbest": nbest})
    with opened(browser, server.make_app(model, CONFIG)):
        type_text(browser, "a dog")
        words(browser)[0].click()
        until(lambda: text_of(browser, "#alternatives") == "A DOG\nTHE DOG")
    with opened(browser, app_of(placeholders=PLACEHOLDERS)):
        at(browser, "#source").send_keys("a dog")
        protect(browser, "dog=Der\u00a0Hund")
        until(lambda: len(translation(browser)) == 2)
        until(lambda: translation(browser)[0].split() == ["Der", "Hund"])
        words(browser)[0].click()
        until(lambda: text_of(browser, "#alternatives") == "or Der\u00a0Hund A")


def go_on(page, prefix):
    at(page, "#prefix").clear()
    at(page, "#prefix").send_keys(prefix, Keys.ENTER)
    until(lambda: not is_shown(page, "#choice"))
    return page.switch_to.active_element.text


def test_the_focus_goes_back_to_the_chosen_word(page):
    """Or to the last word, if there are fewer now."""
    type_text(page, "dog runs")
    words(page)[1].send_keys(Keys.ENTER)
    assert go_on(page, "One big") == "big"
    assert translation(page) == ["One", "big", "DOG", "RUNS"]
    words(page)[3].send_keys(Keys.ENTER)
    assert go_on(page, "") == "RUNS"
    words(page)[1].send_keys(Keys.ENTER)
    until(lambda: text_of(page, "#alternatives").startswith("RUNS DOG"))
    at(page, "#alternatives button").send_keys(Keys.ENTER)
    assert page.switch_to.active_element.text == "DOG"


def protect(page, glossary="", kinds=()):
    """Open the glossary and fill it in."""
    if at(page, "#protection").get_property("open") is False:
        at(page, "summary").click()
    for kind in kinds:
        at(page, f"#kinds input[value={kind}]").click()
    at(page, "#glossary").clear()
    at(page, "#glossary").send_keys(glossary)


def translation(page):
    return page.execute_script(
        "return [...document.querySelectorAll('.word')].map((word) => word.innerText)"
    )


@pytest.mark.parametrize("placeholders", [(), PLACEHOLDERS])
def test_what_is_protected_shows_in_the_translation(browser, placeholders):
    """What words came from, too; a name of two words is one with placeholders."""
    with opened(browser, app_of(placeholders=placeholders)):
        assert text_of(browser, "#protected") == "nothing"
        at(browser, "#source").send_keys("the dog in New York on www.a.de")
        protect(browser, "dog = Rex Hund\nNew York", kinds=["urls"])
        assert text_of(browser, "#protected") == "addresses, 2 terms"
        expected = ["www.a.de", "ON", "New York", "IN", "Rex Hund", "THE"]
        until(lambda: translation(browser) == expected)
        browser.execute_script("arguments[0].focus()", words(browser)[-2])
        assert marks(browser)["dog"] == 0.75
        assert " ".join(marks(browser)) == "the dog in New York on www.a.de"
        browser.execute_script("arguments[0].focus()", words(browser)[2])
        if placeholders:
            assert marks(browser)["New York"] == 0.75
        assert text_of(browser, "#status").startswith("“New York” comes from “")
        at(browser, "#kinds input").click()
        until(lambda: translation(browser)[0] == "WWW.A.DE")


def test_other_translations_have_what_is_protected(browser):
    with opened(browser, app_of(placeholders=PLACEHOLDERS)):
        at(browser, "#source").send_keys("a dog")
        protect(browser, "dog=Köter")
        until(lambda: translation(browser) == ["Köter", "A"])
        words(browser)[0].click()
        until(lambda: text_of(browser, "#alternatives") == "or Köter A")
        at(browser, "#prefix").clear()
        at(browser, "#prefix").send_keys("Der Köter", Keys.ENTER)
        # The model writes the source after the prefix.
        until(lambda: translation(browser) == ["Der", "Köter", "A", "Köter"])
        assert browser.switch_to.active_element.text == "Der"


def test_without_placeholders_there_are_no_other_translations_of_what_is_protected(
    browser,
):
    with opened(browser, app_of()) as address:
        at(browser, "#source").send_keys("a dog")
        protect(browser, "dog\n")
        until(lambda: translation(browser) == ["dog", "A"])
        words(browser)[0].click()
        assert not is_shown(browser, "#choice")
        assert "this model has no placeholders" in text_of(browser, "#help")
        for path in ("alternatives", "continuation"):
            body = {"text": "a dog", "prefix": "", "glossary": "dog"}
            answer = requests.post(f"http://{address}/page/{path}", json=body)
            assert answer.status_code == 400
            assert answer.json()["error"] == (
                "Other translations with protect or glossary need a model with "
                "placeholders"
            )


def test_a_prefix_has_placeholders_for_what_is_protected():
    """The model would give those of the source again."""
    asked = []

    def run(inputs):
        asked.append(inputs["prefix"][0])
        return {"translation": np.array([b"x"], object)}

    model = make_page_model(placeholders=PLACEHOLDERS)
    prefix = model.signatures["prefix"]._replace(run=run)
    model = dataclasses.replace(
        model, signatures={**model.signatures, "prefix": prefix}
    )
    with testclient.TestClient(server.make_app(model, CONFIG)) as client:
        body = {"text": "a dog", "prefix": "Der Köter", "glossary": "dog\tKöter"}
        assert client.post("/page/continuation", json=body).json() == {
            "translation": "x"
        }
        del body["prefix"]
        answer = client.post("/page/continuation", json=body)
        assert answer.json() == {"error": "prefix must be a string"}
        body["prefix"] = "Der <ph2>"
        answer = client.post("/page/continuation", json=body)
        assert (answer.status_code, answer.json()) == (
            400,
            {"error": "The beginning must not have <ph2>, the name of a placeholder"},
        )
        body["text"] = "a <ph2> dog"
        assert client.post("/page/continuation", json=body).status_code == 200
    assert asked == [b"Der <ph1>", b"Der <ph2>"]


def continuation(client, text, prefix, glossary=""):
    body = json.dumps({"text": text, "prefix": prefix, "glossary": glossary})
    return client.post("/page/continuation", content=body).json()


def test_a_prefix_must_not_have_names_of_placeholders():
    """Unless the text or the glossary has them."""
    with testclient.TestClient(app_of(placeholders=PLACEHOLDERS)) as client:
        for text, prefix, symbol in (
            ("A dog", "<ph1> <ph2> </pc1>", "</pc1>"),
            ("A dog", "the<ph1>", "<ph1>"),
            ("A <ph1>", "<ph1> <ph1>", "<ph1>"),
        ):
            assert continuation(client, text, prefix, "dog\tKöter") == {
                "error": f"The beginning must not have {symbol}, the name of a "
                "placeholder"
            }
        for text, glossary in (("A <ph1>", ""), ("A dog", "dog\t<ph1>")):
            answer = continuation(client, text, "One <ph1>", glossary)
            assert answer["translation"].startswith("One <ph1>")


def test_half_of_a_surrogate_pair_has_words_and_a_continuation():
    with testclient.TestClient(app_of()) as client:
        body = json.dumps({"text": "A dog \ud800 runs"})
        answer = client.post("/page/translate", content=body).json()
        (sentence,) = answer["sentences"]
        assert sentence["sourceWords"] == ["A", "dog", "\ufffd", "runs"]
        assert sentence["words"] == ["RUNS", "\ufffd", "DOG", "A"]
        assert sentence["weights"][1] == [0.25, 0, 0.75, 0]
        answer = continuation(client, "a \ud800", "b \udfff")
        assert answer == {"translation": "b \ufffd A \ufffd"}


def test_a_refused_prefix_is_told_and_changes_nothing(browser):
    with opened(browser, app_of(placeholders=PLACEHOLDERS)):
        type_text(browser, "a dog")
        words(browser)[0].click()
        at(browser, "#prefix").clear()
        at(browser, "#prefix").send_keys("<ph1>", Keys.ENTER)
        message = "The beginning must not have <ph1>, the name of a placeholder"
        until(lambda: text_of(browser, "#status") == message)
        assert translation(browser) == ["DOG", "A"]
        assert is_shown(browser, "#choice")
        # The browser notes the answer with status 400.
        browser.get_log("browser")


def test_a_wrong_glossary_is_told_under_it(browser):
    with opened(browser, app_of(placeholders=PLACEHOLDERS)):
        at(browser, "#source").send_keys("a dog")
        protect(browser, "dog=Köter\nDog=Hund")
        message = "glossary line 2 has the term 'Dog' for the second time"
        until(lambda: text_of(browser, "#glossary-error").startswith(message))
        assert text_of(browser, "#status") == ""
        assert at(browser, "#glossary").get_attribute("aria-invalid") == "true"
        at(browser, "#glossary").send_keys(Keys.HOME, "Big ")
        until(lambda: translation(browser) == ["Köter", "A"])
        assert text_of(browser, "#glossary-error") == ""
        # The browser notes the answer with status 400.
        browser.get_log("browser")


def glossary_error(page):
    """Return the error with its tabs, of which `text_of` makes spaces."""
    return at(page, "#glossary-error").get_property("textContent")


def test_a_wrong_line_is_shown_as_it_was_typed(browser):
    with opened(browser, app_of(placeholders=PLACEHOLDERS)):
        at(browser, "#source").send_keys("a dog")
        # A person can paste tabs, not type them.
        fill = "arguments[0].value = arguments[1]"
        for line in ("=it's \\t \\", "a=b\tc\td", "=" + "$&" * 80):
            browser.execute_script(fill, at(browser, "#glossary"), f"cat=Katze\n{line}")
            browser.execute_script("translate()")
            end = f"separated by tabs. Received: {line[:100]}"
            until(lambda end=end: glossary_error(browser).endswith(end))
        browser.get_log("browser")


@pytest.mark.parametrize("damaged", ["{}", "5", "[]", "null", '{"protect": null}', "x"])
def test_a_damaged_memory_of_the_browser_is_ignored(browser, damaged):
    with opened(browser, app_of(placeholders=PLACEHOLDERS)) as address:
        browser.execute_script(
            "localStorage.setItem('keras_transformer.protection', arguments[0])",
            damaged,
        )
        load(browser, address)
        assert text_of(browser, "#protected") == "nothing"
        at(browser, "#source").send_keys("a dog")
        until(lambda: translation(browser) == ["DOG", "A"])
        browser.execute_script("localStorage.clear()")


def test_protection_is_remembered(browser):
    default = Protection(["numbers"], [Term("cat", "Katze")])
    app = app_of(placeholders=PLACEHOLDERS, default=default)
    with opened(browser, app) as address:
        assert text_of(browser, "#protected") == "numbers, the server’s terms"
        protect(browser, "dog = Köter", kinds=["numbers", "tags"])
        load(browser, address)
        assert text_of(browser, "#protected") == "tags, 1 term, the server’s terms"
        assert at(browser, "#glossary").get_property("value") == "dog = Köter"
        at(browser, "#source").send_keys("2 <b>dog cat</b>")
        # The fake model writes the tags in the wrong order.
        until(lambda: text_of(browser, "#target") == "Katze<b> </b>Köter 2")


@pytest.mark.long
def test_words_of_a_real_model_come_from_what_is_protected(kept_export):
    """Every word has weights, and each span is a word or within one."""
    app = server.make_app(
        model_loading.served(open_model(kept_export, "serve")), CONFIG
    )
    body = {
        "text": "one dog at http://a.b/c runs! A dog.",
        "protect": ["urls"],
        "glossary": "one dog\tDer Hund",
    }
    with testclient.TestClient(app) as client:
        answer = client.post("/page/translate", json=body).json()
        body |= {"text": answer["sentences"][0]["text"], "prefix": "zwei Der Hund"}
        others = client.post("/page/alternatives", json=body).json()["translations"]
        longer = client.post("/page/continuation", json=body).json()["translation"]
    sentence, other = answer["sentences"]
    assert sentence["sourceWords"] == ["one dog", "at", "http://a.b/c", "runs!"]
    assert other["sourceWords"] == ["A", "dog."]
    assert len(sentence["weights"]) == len(sentence["words"])
    assert all(len(row) == 4 and sum(row) > 0.99 for row in sentence["weights"])
    assert longer.startswith("zwei Der Hund")
    assert len(others) == 4
    for found in (" ".join(sentence["words"]), *others, longer):
        assert found.count("Der Hund") == found.count("http://a.b/c") == 1


def test_the_keyboard_opens_the_choice_and_chooses(browser):
    with opened(browser, app_of()):
        at(browser, "#source").send_keys(Keys.TAB)
        assert browser.switch_to.active_element.tag_name == "summary"
        browser.switch_to.active_element.send_keys(Keys.ENTER)
        browser.switch_to.active_element.send_keys(Keys.TAB)
        browser.switch_to.active_element.send_keys(Keys.SPACE)
        until(lambda: text_of(browser, "#protected") == "addresses")
        for _ in range(3):
            browser.switch_to.active_element.send_keys(Keys.TAB)
        assert browser.switch_to.active_element.get_attribute("id") == "glossary"


def test_features_that_the_model_lacks_are_hidden(browser):
    with opened(browser, app_of("align", "prefix")):
        assert not is_shown(browser, "#protection")
        type_text(browser, "a dog")
        words(browser)[0].click()
        until(lambda: text_of(browser, "#alternatives") == "or DOG A")
        assert not is_shown(browser, "#prefix-form")
        assert marks(browser) == {}
        assert "came from" not in text_of(browser, "#help")
    with opened(browser, app_of("align", "prefix", "nbest")):
        type_text(browser, "a dog")
        words(browser)[0].click()
        assert not is_shown(browser, "#choice")
        assert not is_shown(browser, "#help")


@pytest.mark.parametrize("leave_out", [(), ("align",)])
def test_a_sentence_that_the_model_cuts_is_translated_in_parts(leave_out):
    """In the page, too, and each part is a sentence of it."""
    text = f"- {'a ' * 38}b, g www.a.de i j {'k ' * 35}"
    body = {"text": text, "protect": ["urls"] * (not leave_out)}
    with testclient.TestClient(app_of(*leave_out)) as client:
        answer = client.post("/page/translate", json=body).json()
        alike = client.post(
            "/translate", json=body | {"q": text, "source": "en", "target": "de"}
        ).json()
    first, second = answer["sentences"]
    assert answer["around"] == ["- ", " ", " "]
    assert first["text"].endswith("a b,") and second["text"].startswith("g www.a.de i")
    url = "WWW.A.DE" if leave_out else "www.a.de"
    assert second["words"] == [*("K" * 35), "J", "I", url, "G"]
    assert not first["isCut"] and not second["isCut"]
    assert (first["weights"] is None) == bool(leave_out)
    if not leave_out:
        assert np.shape(second["weights"]) == (39, 39)
    shown = [" ".join(each["words"]) for each in (first, second)]
    assert alike == {"translatedText": f"- {shown[0]} {shown[1]} "}


def test_a_sentence_that_was_cut_is_told(browser):
    with opened(browser, app_of("align")):
        type_text(browser, TOO_LONG)
        until(lambda: "only its beginning" in text_of(browser, "#status"))


def test_what_the_server_refuses_is_told(browser):
    model = make_page_model()
    config = ServerConfig(batch_timeout_ms=0, max_texts=1)
    with opened(browser, server.make_app(model, config)):
        at(browser, "#source").send_keys("a\nb")
        until(lambda: "A request may have 1 text." in text_of(browser, "#status"))


def test_a_server_that_goes_away_is_told_and_comes_back(browser):
    with running(app_of()) as address:
        load(browser, address)
        type_text(browser, "a dog")
    at(browser, "#source").send_keys(" runs")
    until(lambda: text_of(browser, "#status").startswith("The server does not answer."))
    assert text_of(browser, "#target") == "DOG A"
    with running(app_of(), int(address.rpartition(":")[2])):
        until(lambda: text_of(browser, "#target") == "RUNS DOG A")
        assert text_of(browser, "#status") == ""
        browser.get("about:blank")


def test_nothing_is_loaded_from_elsewhere(page, address):
    type_text(page, "a dog")
    messages = [
        json.loads(entry["message"])["message"] for entry in page.get_log("performance")
    ]
    urls = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert {url for url in urls if not url.startswith("data:")} == {
        f"http://{address}{path}"
        for path in (
            "/",
            "/page/page.css",
            "/page/page.js",
            "/page/settings",
            "/page/translate",
        )
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_follows_the_color_scheme(page, width, scheme):
    """No sideways scrolling; panes beside each other only where there is room."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        type_text(page, "a" * 99 + " " + "b c " * 30)
        page.execute_script("""
            document.getElementById("protection").open = true;
            document.getElementById("glossary").value = "a".repeat(99) + "=b";
            sayOfGlossary(`glossary line ${"1".repeat(99)}`);
        """)
        assert page.execute_script("""
            const { scrollWidth, clientWidth } = document.documentElement;
            return scrollWidth === clientWidth;
        """)
        boxes = page.find_elements("css selector", ".box")
        assert (boxes[0].rect["y"] == boxes[1].rect["y"]) == (width == 1280)
        background = page.execute_script(
            "return getComputedStyle(document.body).backgroundColor"
        )
        light = [int(part) for part in re.findall(r"\d+", background)]
        assert (min(light) > 200) == (scheme == "light")
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_files_are_sent_with_a_strict_policy():
    """No inline script or style, nothing from elsewhere."""
    with testclient.TestClient(app_of()) as client:
        for path in ("/", "/page/page.css", "/page/page.js"):
            response = client.get(path)
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
            assert "unsafe" not in policy
            assert "://" not in response.text
        html = client.get("/").text
        assert not re.search(r"<style|style=|\son\w+=|<script(?! src=\"/page/)", html)


def test_a_parser_has_no_page():
    served = FakeModel().served()
    parse = {"parse": served.signatures["serving_default"]}
    model = type(served)(version=1, signatures=parse)
    with testclient.TestClient(server.make_app(model, CONFIG)) as client:
        assert client.get("/").status_code == 404
