"""The server's page in a browser: what a person types, sees, and is told."""

import contextlib
import json
import re
import time

import pytest
from selenium.webdriver.common.keys import Keys
from starlette import testclient

from keras_transformer.server import server
from keras_transformer.server.server_config import ServerConfig
from tests.server.fake_model import FakeModel
from tests.server.page_model import make_page_model
from tests.server.running import running

CONFIG = ServerConfig(batch_timeout_ms=0)


def app_of(*leave_out):
    return server.make_app(make_page_model(*leave_out), CONFIG)


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
        response = client.post("/page/sentences", json=body)
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
            const found = { around: ["", ""], sentences: ["any"] };
            const outputs = { translation: [`ANSWER${own}`] };
            return new Response(JSON.stringify({ ...found, outputs }));
        };
        const source = document.getElementById("source");
        source.value = "one"; translate();
        source.value = "two"; translate();
    """)
    until(lambda: page.execute_script("return window.answered?.length") == 3)
    assert page.execute_script("return window.answered") == [2, 3, 1]
    assert text_of(page, "#target") == "ANSWER3"


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
    assert is_shown(page, "#panel")
    assert at(page, "#prefix").get_property("value") == "DOG SMALL"
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not is_shown(page, "#panel")
    assert marks(page) == {}


def test_another_translation_replaces_the_sentence(page):
    type_text(page, "a dog\nruns home")
    words(page)[0].click()
    until(lambda: text_of(page, "#alternatives") == "or DOG A")
    at(page, "#alternatives button").click()
    assert text_of(page, "#target").split() == ["or", "DOG", "A", "HOME", "RUNS"]
    assert not is_shown(page, "#panel")


def test_a_translation_goes_on_from_a_prefix(page):
    type_text(page, "a dog\nruns home")
    words(page)[2].click()
    field = at(page, "#prefix")
    assert field.get_property("value") == "HOME"
    field.clear()
    field.send_keys("Walks", Keys.ENTER)
    until(lambda: text_of(page, "#target").split()[2:] == ["Walks", "RUNS", "HOME"])
    assert text_of(page, "#target").split()[:2] == ["DOG", "A"]


def test_features_that_the_model_lacks_are_hidden(browser):
    with opened(browser, app_of("align", "prefix")):
        type_text(browser, "a dog")
        words(browser)[0].click()
        until(lambda: text_of(browser, "#alternatives") == "or DOG A")
        assert not is_shown(browser, "#prefix-form")
        assert marks(browser) == {}
        assert "came from" not in text_of(browser, "#help")
    with opened(browser, app_of("align", "prefix", "nbest")):
        type_text(browser, "a dog")
        words(browser)[0].click()
        assert not is_shown(browser, "#panel")
        assert not is_shown(browser, "#help")


def test_a_sentence_that_was_cut_is_told(browser):
    with opened(browser, app_of("align")):
        type_text(browser, "cut here")
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
            "/page/sentences",
            "/v1/models/translation:predict",
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
        assert page.execute_script("return document.documentElement.scrollWidth") == (
            width
        )
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
