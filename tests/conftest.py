"""What every test may use."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import pytest
import tensorflow as tf

# Two devices, for MirroredStrategy: they must be there before TensorFlow runs anything.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


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


@pytest.fixture(scope="session")
def two_replicas() -> tf.distribute.Strategy:
    """MirroredStrategy on two CPU devices; one for all tests.

    Each strategy numbers its collective operations from the start, and two that give
    different shapes the same number break each other.
    """
    return tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])


@pytest.fixture(scope="session")
def small_export(tmp_path_factory) -> pathlib.Path:
    """A small model exported with everything an export can have: it takes a while."""
    from keras_transformer import exported
    from tests.small_models import make_translator

    return exported.export(
        make_translator(),
        tmp_path_factory.mktemp("export"),
        num_best=3,
        description={"preset": "tiny"},
        has_warmup=True,
    )


@pytest.fixture(scope="session")
def small_parser_export(tmp_path_factory) -> pathlib.Path:
    """A small parser exported with everything its export can have."""
    from keras_transformer import exported
    from tests.small_models import make_parser

    parser = make_parser()
    return exported.export(
        parser,
        tmp_path_factory.mktemp("parser_export"),
        description={"preset": "tiny"},
        check_texts=exported.trial_texts(parser, 7),
        has_warmup=True,
    )
