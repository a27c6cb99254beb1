"""The interactive attention page, opened from disk in a browser without a network."""

import html.parser
import json

import numpy as np
import pytest

from keras_transformer.visualization.page import attention_page
from tests.visualization.records import HEADS, SOURCE, TARGET, make_record

# The page does not draw weights below this value.
FAINTEST = 5 / 255


@pytest.fixture
def page(browser, tmp_path):
    """The page of a record, freshly opened, with nothing under the pointer."""
    path = tmp_path / "attention.html"
    path.write_text(attention_page(make_record(), "cross", 2), encoding="utf-8")
    browser.set_window_size(1000, 800)
    browser.get(path.as_uri())
    return browser


def words(page, side):
    return page.find_elements("css selector", f"#{side} .word")


def drawn(page):
    """Return the lines that are drawn: {(head, query, key): opacity}."""
    read = """
        return [...document.querySelectorAll('#lines line')].map((line) => [
            line.dataset.head, line.dataset.query, line.dataset.key,
            line.getAttribute('stroke-opacity')]);
    """
    return {
        tuple(map(int, where)): float(opacity)
        for *where, opacity in page.execute_script(read)
    }


def expected(weights, query=None, key=None):
    """Return the lines that may be drawn for `[head, query, key]`; see `check`."""
    return {
        (head + 1, row, column): float(weight)
        for (head, row, column), weight in np.ndenumerate(weights)
        if query in (None, row)
        and key in (None, column)
        and weight > FAINTEST - 1 / 255
    }


def check(shown, wanted):
    # The page rounds weights to steps of 1/255, so lines near the threshold may or may
    # not be drawn.
    sure = {line for line, weight in wanted.items() if weight > FAINTEST + 1 / 255}
    assert sure <= shown.keys() <= wanted.keys()
    for line, opacity in shown.items():
        assert opacity == pytest.approx(wanted[line], abs=0.003)


def hover(page, element):
    from selenium.webdriver import ActionChains

    ActionChains(page).move_to_element(element).perform()


def press(page, key):
    from selenium.webdriver import ActionChains, Keys

    ActionChains(page).send_keys(getattr(Keys, key)).perform()


def choose(page, name, text):
    from selenium.webdriver.support.ui import Select

    Select(page.find_element("id", name)).select_by_visible_text(text)


def said(page):
    return page.find_element("id", "said").text


def test_the_page_opens_without_errors_and_network_requests(page):
    page.find_element("css selector", "summary").click()
    hover(page, words(page, "queries")[1])
    assert page.get_log("browser") == []
    urls = [
        message["params"]["request"]["url"]
        for entry in page.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    assert {url for url in urls if not url.startswith("data:")} <= {page.current_url}


def test_the_page_first_shows_all_lines_of_the_layer(page):
    assert [word.text for word in words(page, "queries")] == [*TARGET]
    assert [word.text for word in words(page, "keys")] == [*SOURCE]
    check(drawn(page), expected(make_record().weights["cross"][1]))
    assert "encoder-decoder attention, layer 2" in said(page)


def test_a_hovered_word_shows_only_its_lines(page):
    weights = make_record().weights["cross"][1]
    hover(page, words(page, "queries")[3])
    check(drawn(page), expected(weights, query=3))
    mean = weights[:, 3].mean(axis=0)
    best = int(mean.argmax())
    assert f"“▁狗” looks at “{SOURCE[best]}” {100 * mean[best]:.0f} %" in said(page)
    hover(page, words(page, "keys")[1])
    check(drawn(page), expected(weights, key=1))
    assert "“▁<b>” is looked at by" in said(page)
    hover(page, page.find_element("css selector", "h1"))
    check(drawn(page), expected(weights))


def test_lines_end_beside_their_words(page):
    """A line starts at the height of its query and ends at the height of its key."""
    hover(page, words(page, "queries")[4])
    read = """
        const box = document.getElementById('lines').getBoundingClientRect();
        const middle = (side, index) => {
            const word = document.querySelectorAll(`#${side} .word`)[index];
            const {top, height} = word.getBoundingClientRect();
            return top + height / 2 - box.top;
        };
        return [...document.querySelectorAll('#lines line')].map((line) => [
            line.y1.baseVal.value - middle('queries', line.dataset.query),
            line.y2.baseVal.value - middle('keys', line.dataset.key)]);
    """
    distances = page.execute_script(read)
    assert distances
    assert np.abs(distances).max() < 5  # of rows 28 pixels high


def test_kind_layer_and_heads_can_be_selected(page):
    choose(page, "kind", "decoder self-attention")
    choose(page, "layer", "1")
    weights = make_record().weights["decoder"][0]
    check(drawn(page), expected(weights))
    assert words(page, "keys")[0].text == "<s>"
    second = page.find_elements("css selector", ".head")[1]
    assert second.get_attribute("aria-pressed") == "true"
    second.click()
    assert second.get_attribute("aria-pressed") == "false"
    assert {head for head, _, _ in drawn(page)} == {1, 3}
    assert "heads 1, 3" in said(page)
    page.find_element("css selector", ".all").click()
    check(drawn(page), expected(weights))
    page.find_element("css selector", ".all").click()
    assert drawn(page) == {}


def test_a_click_pins_a_word_and_escape_unpins_it(page):
    weights = make_record().weights["cross"][1]
    words(page, "queries")[2].click()
    hover(page, words(page, "queries")[0])
    check(drawn(page), expected(weights, query=2))
    press(page, "ESCAPE")
    check(drawn(page), expected(weights))


def test_words_can_be_selected_with_the_keyboard(page):
    weights = make_record().weights["cross"][1]
    page.find_element("css selector", ".all").click()
    page.find_element("css selector", ".all").click()
    press(page, "TAB")
    check(drawn(page), expected(weights, query=0))
    press(page, "ARROW_DOWN")
    check(drawn(page), expected(weights, query=1))
    press(page, "ARROW_RIGHT")
    check(drawn(page), expected(weights, key=1))
    press(page, "END")
    check(drawn(page), expected(weights, key=len(SOURCE) - 1))
    assert page.switch_to.active_element.text == SOURCE[-1]


def test_the_table_shows_the_same_weights(page):
    from selenium.webdriver.support.ui import WebDriverWait

    page.find_element("css selector", "summary").click()
    # The page fills the table some time after the click.
    rows = WebDriverWait(page, 10).until(
        lambda page: page.find_elements("css selector", "#table tbody tr")
    )
    mean = make_record().weights["cross"][1].mean(axis=0)
    assert len(rows) == len(TARGET)
    for row, weights in zip(rows, mean, strict=True):
        cells = [int(cell.text) for cell in row.find_elements("css selector", "td")]
        np.testing.assert_allclose(cells, 100 * weights, atol=1)


@pytest.mark.parametrize("width", [360, 1000])
def test_the_page_fits_the_screen_of_a_phone(page, width):
    emulation = {
        "width": width,
        "height": 740,
        "deviceScaleFactor": 2,
        "mobile": width < 500,
    }
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", emulation)
    try:
        inside, outside = page.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]"
        )
        assert inside <= outside == width
        lines = page.find_element("id", "lines").rect
        assert lines["width"] >= 64
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


class Parser(html.parser.HTMLParser):
    """Collects titles and the addresses that a browser might request."""

    def __init__(self):
        super().__init__()
        self.addresses = []
        self.titles = []
        self._tag = None

    def handle_starttag(self, tag, attributes):
        self._tag = tag
        self.addresses += [value for name, value in attributes if name in LINKS]

    def handle_data(self, text):
        if self._tag in ("title", "h1") and text.strip():
            self.titles.append(text)


LINKS = ("src", "href", "srcset", "action", "data", "poster")


def test_words_are_escaped_and_no_address_is_requested():
    page = attention_page(make_record(), "encoder", 1)
    parser = Parser()
    parser.feed(page)
    assert parser.addresses == ["data:,"]
    assert parser.titles == ["Attention: the <b>", "the <b>"]
    assert page.count("</script>") == 2
    data = page.split('type="application/json">')[1].split("</script>")[0]
    assert json.loads(data)["kinds"]["cross"]["queries"] == [*TARGET]


def test_weights_are_stored_in_steps_of_a_255th():
    import base64

    page = attention_page(make_record(), "encoder", 1)
    data = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    for kind, weights in make_record().weights.items():
        own = data["kinds"][kind]
        steps = np.frombuffer(base64.b64decode(own["weights"]), np.uint8)
        assert own["heads"] == HEADS
        np.testing.assert_allclose(
            steps.reshape(weights.shape) / 255, weights, atol=0.5 / 255 + 1e-6
        )


def test_a_layer_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="`layer` must be from 1 to 2"):
        attention_page(make_record(), "encoder", 3)
