"""The documentation site: it builds, is complete, and loads nothing from elsewhere.

Its search finds the pages that answer what users ask.
"""

import functools
import html.parser
import http.server
import os
import re
import subprocess
import sys
import threading
import tomllib
import urllib.parse

import pytest
import yaml
from selenium.webdriver.support.ui import WebDriverWait

import keras_transformer as kt
from keras_transformer import presets


@pytest.fixture(scope="module")
def site(repository, tmp_path_factory):
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=repository,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return folder


def written(repository):
    """Return every document: of the root, of the site and of the measurements."""
    folders = ("*.md", "docs/**/*.md", "benchmarks/*.md")
    return [page for pattern in folders for page in repository.glob(pattern)]


class Loaded(html.parser.HTMLParser):
    """Collects what a browser loads for a page; links that are followed are not."""

    ATTRIBUTES = ("src", "srcset", "data", "poster")
    LINK_KINDS = ("stylesheet", "icon", "preload", "preconnect", "prefetch", "manifest")

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.addresses += [given[name] for name in self.ATTRIBUTES if given.get(name)]
        kinds = (given.get("rel") or "").split()
        if tag == "link" and any(kind in self.LINK_KINDS for kind in kinds):
            self.addresses.append(given["href"])


@pytest.mark.long
def test_no_page_loads_anything_from_outside(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = Loaded()
        loaded.feed(text)
        assert any("bundle" in address for address in loaded.addresses)
        for address in loaded.addresses:
            assert not re.match(r"(https?:)?//", address), (page.name, address)
        assert "mermaid" not in text, page.name  # it would be loaded from a CDN
        assert "<code>``" not in text, page.name  # a block that is shown as text
    for style in (*site.rglob("*.css"), *site.rglob("*.svg")):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", text), style.name


@pytest.mark.long
def test_every_public_name_is_on_the_site(site):
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in kt.__all__:
        assert name == "__version__" or f"<code>kt.{name}</code>" in page, name
    # Arguments of calls are in lists, as those of constructors are.
    for name in ("config", "source_tokens", "encoder_output"):
        assert f"<b><code>{name}</code></b>" in page, name
    for name in ("Transformer.fit", "positional_encoding.", "beam_search.beam_search"):
        if name != "Transformer.fit":  # inherited from Keras
            assert name in page, name


def test_what_a_package_offers_is_in_the_reference(reference):
    """Also where it is defined in another package, as trees are."""
    page = reference.python_page()
    for package in kt._MODULES:
        for name in getattr(getattr(kt, package), "__all__", ()):
            assert re.search(rf"^::: .*\.{name}$", page, re.MULTILINE), name


def test_every_flag_is_in_the_reference(reference):
    """With its default, as the program's own help has it."""
    page = reference.programs_page("Programs", ("bin",))
    assert re.search(
        r"\| `--evaluate_every_steps` \| Steps .* Default: `1000`\. \|", page
    )
    assert "Default: `None`" not in page
    for row in ("--num_layers", "--distribution", "--pack", "--warmup_steps"):
        assert f"| `{row}` |" in page, row
    flags = reference.flags_of("export/run_saved_model.py")
    assert [flag.name for flag in flags][:2] == ["saved_model", "input"]


def test_what_a_help_text_marks_as_code_stays_code(reference):
    page = reference.programs_page("Programs", ("bin",))
    assert re.search(r"\| `--early_stopping` \| [^|]* `beam_size` hypotheses", page)


@pytest.mark.long
def test_every_program_and_flag_of_the_faq_exists(reference, repository):
    """Each answer has a link, and names only what there is."""
    page = (repository / "docs" / "faq.md").read_text(encoding="utf-8")
    answers = page.split("\n### ")[1:]
    assert len(answers) == 20
    assert all("](" in answer for answer in answers)
    programs = reference.programs("bin", "export")
    known = {flag.name for path in programs for flag in reference.flags_of(path)}
    assert set(re.findall(r"--(\w+)", page)) <= known
    assert set(re.findall(r"(?:bin|export)/\w+\.py", page)) <= set(programs)


@pytest.fixture(scope="module")
def address(site):
    """Where the site is served: its search does not work from files."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def search(browser, address, query):
    """Search the site as a reader does.

    Returns:
        The pages that it finds, best first, and the heading of each one's best section.
    """
    browser.get(f"{address}/index.html?q={urllib.parse.quote(query)}")
    status = browser.find_element("css selector", ".md-search-result__meta")
    WebDriverWait(browser, 30).until(lambda _: "matching" in status.text)
    read = """
        return [...document.querySelectorAll('.md-search-result__item')].map((item) => [
            item.querySelector('a').pathname.slice(1),
            item.querySelector('h2')?.innerText]);
    """
    found = browser.execute_script(read)
    return [page for page, _ in found], dict(found)


@pytest.mark.long
def test_the_search_finds_the_answer_to_every_question_of_the_faq(
    repository, browser, address
):
    """A page that the answer links to is first, or second behind the FAQ's answer."""
    faq = (repository / "docs" / "faq.md").read_text(encoding="utf-8")
    answers = faq.split("\n### ")[1:]
    assert len(answers) == 20
    for answer in answers:
        question = answer.splitlines()[0].replace("`", "")
        linked = re.findall(r"\]\(([^)#]+)\.md", answer)
        pages, headings = search(browser, address, question)
        if pages[0] == "faq.html":
            assert headings["faq.html"] == question
            pages = pages[1:]
        assert pages[0] in [f"{page}.html" for page in linked], (question, pages[:5])


@pytest.mark.long
@pytest.mark.parametrize(
    "words, page",
    [
        ("back-translation", "how_to/several_corpora"),
        ("multilingual", "how_to/several_corpora"),
        ("glossary", "how_to/documents"),
        ("glossaries", "how_to/documents"),
        ("placeholders", "how_to/documents"),
        ("resume", "how_to/long_runs"),
        ("out of memory", "how_to/long_runs"),
        ("batch size", "explanation/batches"),
        ("beam search", "explanation/search"),
        ("bin/train.py", "reference/bin"),
        ("Translator", "reference/python"),
        ("troubleshooting", "faq"),
        ("javascript", "how_to/local_server"),
    ],
)
def test_the_search_finds_the_page_about_a_word_first(browser, address, words, page):
    pages, _ = search(browser, address, words)
    assert pages[0] == f"{page}.html", pages[:5]


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_into_a_window(browser, address, site, width):
    """No page scrolls to the side; in the wide window no table and no code does."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    selector = "html, .md-typeset__scrollwrap, pre code" if width > 1000 else "html"
    read = """
        return [...document.querySelectorAll(arguments[0])]
            .filter((element) => element.scrollWidth > element.clientWidth + 1)
            .map((element) => element.innerText.slice(0, 80));
    """
    try:
        for page in site.rglob("*.html"):
            browser.get(f"{address}/{page.relative_to(site)}")
            wider = browser.execute_script(read, selector)
            assert wider == [], page.name
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_program_is_in_the_reference(reference, repository):
    listed = reference.programs("bin", "export", "benchmarks", "robustness")
    assert {"bin/train.py", "export/client.py", "benchmarks/decode.py"} <= set(listed)
    for path in (*repository.glob("bin/*.py"), *repository.glob("export/*.py")):
        if path.name != "__init__.py":
            assert str(path.relative_to(repository)) in listed


def test_every_preset_is_in_the_reference(reference):
    page = reference.presets_page()
    assert presets.table() in page
    for name in presets.names():
        assert name == "base" or f"* **{name}**: " in page, name
    assert "* **table3_a1**: `num_heads=1`." in page


def test_the_documents_use_the_words_of_the_field(repository):
    """Words that only this project used to say are gone."""
    odd = r"panel|ladder|rung|kept_weights|laid out|by turns|as of `"
    for page in written(repository):
        assert not re.search(odd, page.read_text(encoding="utf-8")), page


def test_commits_are_checked_as_make_lint_checks(repository):
    """The hooks of pre-commit are the commands of `make lint`, in their order."""
    text = (repository / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    (source,) = yaml.safe_load(text)["repos"]
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    checks = [
        line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.split("\n")
    ]
    entries = [hook["entry"] for hook in source["hooks"]]
    assert entries == [check.removesuffix(" .") for check in checks if check]
    assert source["repo"] == "local"  # nothing is downloaded


def test_contributors_are_told_the_floors_that_imports_are_checked_by(repository):
    pyproject = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))
    floors = pyproject["tool"]["importlinter"]["contracts"][0]["layers"]
    page = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.split("## The floors")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows[1:]] == [
        set(floor.split(" | ")) for floor in floors
    ]


def test_every_file_of_the_project_that_a_page_names_exists(repository):
    roots = ["", "keras_transformer", "benchmarks", "robustness"]
    for page in written(repository):
        named = set(re.findall(r"`([\w./]+\.py)\b", page.read_text(encoding="utf-8")))
        for name in named - {"write_text.py"}:  # which the tutorial has written
            paths = [repository / root / name for root in roots]
            assert any(path.is_file() for path in paths), (page.name, name)


def test_every_file_that_the_measurements_name_exists(repository):
    """Links of benchmarks/*.md, and those files where the site names them."""
    for page in repository.glob("benchmarks/*.md"):
        links = re.findall(r"\]\(((?!https?:)[^)#]+)", page.read_text("utf-8"))
        assert links, page
        for link in links:
            assert (page.parent / link).is_file(), (page.name, link)
    for page in repository.glob("docs/**/*.md"):
        for name in re.findall(r"`(benchmarks/\w+\.md)`", page.read_text("utf-8")):
            assert (repository / name).is_file(), (page.name, name)


# Pages whose paragraphs are still divided elsewhere.
LONG_PARAGRAPHS = {"local_server.md", "python.md"}


def test_the_site_can_be_read_in_an_evening(repository):
    """At most 20,000 words as `wc -w` counts them, and paragraphs of at most 80.

    Code blocks, table cells and front matter count as words. Pages that are generated
    from the code and files that a page includes do not. A paragraph is text between
    blank lines, an item of a list is one of its own, and tables, code and headings are
    none.
    """
    words = 0
    for page in repository.glob("docs/**/*.md"):
        text = page.read_text(encoding="utf-8")
        words += len(text.split())
        if page.name not in LONG_PARAGRAPHS:
            for paragraph in paragraphs(text):
                assert len(paragraph.split()) <= 80, (page.name, paragraph)
    assert words <= 20_000


def paragraphs(text):
    """Return the paragraphs of a page, in order."""
    text = re.sub(r"^```.*?^```$", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ *(\||#).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^ *([*+-]|\d+\.) +", "\n\n", text, flags=re.MULTILINE)
    return [part for part in re.split(r"\n\s*\n", text) if part.strip()]


def test_paragraphs_are_told_from_tables_lists_and_code():
    page = (
        "# Title\n\nOne two\nthree.\n\n| a | b |\n|---|---|\n\n"
        "```sh\nls\n\nls\n```\n\n*   four\n    five\n1.  six\n"
    )
    found = [paragraph.split() for paragraph in paragraphs(page)]
    assert found == [["One", "two", "three."], ["four", "five"], ["six"]]
