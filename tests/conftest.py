"""What every test may use."""

# ruff: noqa: E402  TensorFlow is imported first.

import collections
import dataclasses
import importlib.util
import os
import pathlib
import shutil
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
# A folder that is absent may be a model's name: no test asks the network for it.
os.environ["HF_HUB_OFFLINE"] = "1"
# Of programs that run once, compiling is most of the time. Theirs too that tests start.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

from keras_transformer.cli import startup

# As programs do it: quietly. What pytest captures before the first test is printed
# after the last.
startup.import_tensorflow()

import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

# Here, so that the flags they define outlive a program that imports them.
from keras_transformer.cli import programs, xla_cache  # noqa: F401
from keras_transformer.inference import graph_optimizer

# Two devices, for MirroredStrategy: they must be there before TensorFlow runs anything.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Run a quick test as programs do with few texts: without the graph optimizer.

    It takes a third of the time of a small search; long tests have it.
    """
    if any(item.get_closest_marker(name) for name in ("long", "release")):
        return (yield)
    with graph_optimizer.disabled_for(num_texts=1):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to releases the cases of a long test after those that it names first."""
    num_cases = collections.Counter()
    for item in items:
        test, _, _ = item.nodeid.partition("[")
        num_cases[test] += 1
        long = item.get_closest_marker("long")
        if long and num_cases[test] > long.kwargs.get("first", num_cases[test]):
            item.add_marker("release")


REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True, scope="session")
def own_cache_folder(tmp_path_factory):
    """Keep what programs write for later starts away from the user's cache.

    Of fixtures too, which may begin before those of a test.
    """
    folder = tmp_path_factory.getbasetemp() / "cache"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(folder))
        yield


@pytest.fixture(autouse=True)
def no_cache_of_another_program(monkeypatch):
    """Let a program choose its cache, whatever programs this process has called."""
    monkeypatch.setenv(xla_cache.FLAGS, "")


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """Real text for tests; skips where it is absent."""
    default = REPOSITORY.parent / "shared" / "data"
    folder = pathlib.Path(os.environ.get("KERAS_TRANSFORMER_SHARED_DATA", default))
    if not folder.is_dir():
        pytest.skip(
            f"no real text: {folder.name} is absent (set "
            "KERAS_TRANSFORMER_SHARED_DATA to the folder that holds it)"
        )
    return folder


@pytest.fixture
def device(tmp_path_factory):
    """Return the path of a device; as root of a copy, which a defect may destroy."""

    def path_of(name):
        path = pathlib.Path("/dev", name)
        if os.geteuid() != 0:
            return path
        copy = tmp_path_factory.mktemp("devices") / name
        try:
            os.mknod(copy, path.stat().st_mode, path.stat().st_rdev)
            copy.open("wb").close()
        except OSError as error:
            pytest.skip(f"no devices can be made here: {error}")
        return copy

    return path_of


@pytest.fixture(scope="session")
def two_replicas() -> tf.distribute.Strategy:
    """MirroredStrategy on two CPU devices; one for all tests.

    Each strategy numbers its collective operations from the start, and two that give
    different shapes the same number break each other.
    """
    return tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])


@pytest.fixture(scope="session")
def chromium():
    """Headless Chromium; skips if it is not installed."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no chromium and chromedriver on the PATH")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--window-size=1000,800",
    ):
        options.add_argument(argument)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    opened = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield opened
    opened.quit()


@pytest.fixture
def browser(chromium):
    """Headless Chromium without a page and with empty logs."""
    chromium.get("about:blank")
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    return chromium


@pytest.fixture(scope="session")
def small_export(tmp_path_factory) -> pathlib.Path:
    """A small model exported with everything an export can have: it takes a while."""
    from keras_transformer.serving import saved_model
    from tests.small_models import make_translator

    return saved_model.export(
        make_translator(),
        tmp_path_factory.mktemp("export"),
        num_best=3,
        description={"preset": "tiny"},
        has_warmup=True,
    )


@pytest.fixture(scope="session")
def kept_export(tmp_path_factory) -> pathlib.Path:
    """A small model with placeholders, exported with what protection can use."""
    from keras_transformer.config import PairEncoding
    from keras_transformer.serving import saved_model
    from tests.small_models import make_translator

    symbols = PairEncoding(placeholders=8).symbols
    return saved_model.export(
        make_translator(placeholders=symbols),
        tmp_path_factory.mktemp("kept"),
        signatures=["serving_default", "nbest", "prefix", "align", "document"],
        description={
            "placeholders": symbols,
            "source_language": "en",
            "target_language": "de",
        },
    )


@pytest.fixture(scope="session")
def small_parser_export(tmp_path_factory) -> pathlib.Path:
    """A small parser exported with everything its export can have."""
    from keras_transformer.serving import saved_model
    from tests.small_models import make_parser

    parser = make_parser()
    return saved_model.export(
        parser,
        tmp_path_factory.mktemp("parser_export"),
        description={"preset": "tiny", "device": "cpu"},
        check_texts=saved_model.trial_texts(parser, 7),
        has_warmup=True,
    )


@pytest.fixture
def without_mecab(monkeypatch):
    """Return what hides the packages of sacreBLEU's extra "ja" or "ko"."""

    def hide(extra):
        name = f"sacrebleu.tokenizers.tokenizer_{extra}_mecab"
        importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)  # it looks for them when it is loaded
        package = {"ja": "ipadic", "ko": "mecab_ko"}[extra]
        monkeypatch.setitem(sys.modules, package, None)

    return hide


@pytest.fixture(scope="session")
def program_of(repository):
    """Return what runs a program's `main`, in this process, with flags as arguments.

    They may also be given as on a command line.
    """

    def load(path):
        spec = importlib.util.spec_from_file_location("program", repository / path)
        program = importlib.util.module_from_spec(spec)

        def run(*arguments, **given):
            arguments += tuple(f"--{name}={value}" for name, value in given.items())
            with flagsaver.flagsaver():
                for name in flags.FLAGS:  # another program's may have this name
                    flags.FLAGS[name].allow_override = True
                spec.loader.exec_module(program)
                flags.FLAGS([path, *arguments])
                return program.main()

        return run

    return load


@pytest.fixture(scope="session")
def parser_corpus(tmp_path_factory) -> str:
    """Trees of three labels, prepared."""
    from tests import small_treebank

    return small_treebank.write_corpus(tmp_path_factory.mktemp("treebank"))


@pytest.fixture(scope="session")
def parser_dir(program_of, parser_corpus, tmp_path_factory) -> pathlib.Path:
    """A parser after two steps: it knows nothing, and reads 59 subwords."""
    folder = tmp_path_factory.mktemp("parser") / "model"
    program_of("bin/train.py")(
        preset="parsing_tiny",
        data_dir=parser_corpus,
        model_dir=folder,
        num_layers=1,
        d_model=6,
        d_ff=7,
        num_heads=2,
        tokens_per_batch=300,
        max_length=60,
        train_steps=2,
        extra_decode_length=23,
        max_input_length=60,
        precision="float32",
        distribution="one_device",
    )
    return folder


@pytest.fixture(scope="session")
def translator_dir(parser_dir, tmp_path_factory) -> pathlib.Path:
    """The folder of a translation model; it has no weights."""
    from keras_transformer.runs.model_dir import ModelDir

    place = ModelDir(tmp_path_factory.mktemp("translator"))
    config = ModelDir(parser_dir).read_config()
    place.write_config(dataclasses.replace(config, task="translation"))
    return place.path


@pytest.fixture(scope="session")
def parser_export_summary(program_of, parser_dir, tmp_path_factory):
    """What exporting a parser leaves: the folder of versions, and the summary."""
    folder = tmp_path_factory.mktemp("exports")
    export = program_of("export/export_saved_model.py")
    return folder, export(
        model_dir=parser_dir,
        export_dir=folder,
        beam_size=3,
        warmup=False,
        check_lines=7,
    )


@pytest.fixture(scope="session")
def parser_export(parser_export_summary) -> pathlib.Path:
    """A parser, exported with beam 3."""
    return parser_export_summary[0] / "1"


@pytest.fixture(scope="session")
def treebank(shared_data) -> dict[str, list]:
    """Cleaned trees of the Penn Treebank's sample; skips where they are absent."""
    from keras_transformer.treebank import trees

    folder = shared_data / "treebank"
    if not folder.is_dir():
        pytest.skip(f"no treebank: {folder} is absent")
    return {
        name: [trees.clean(tree) for tree in trees.read_trees(folder / file).trees]
        for name, file in (("train", "train.mrg"), ("dev", "dev.mrg"))
    }
