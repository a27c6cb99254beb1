"""The files in export/serving/ are valid messages of TF Serving's configuration."""

import pytest
import yaml
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

INT64 = wrappers_pb2.Int64Value.DESCRIPTOR.full_name
STRING = wrappers_pb2.StringValue.DESCRIPTOR.full_name

# Messages that tensorflow-serving-api does not contain, from TF Serving's
# session_bundle_config.proto and monitoring_config.proto, with fields in their order.
MESSAGES = {
    "BatchingParameters": {
        "max_batch_size": INT64,
        "batch_timeout_micros": INT64,
        "max_enqueued_batches": INT64,
        "num_batch_threads": INT64,
        "thread_pool_name": STRING,
        "allowed_batch_sizes": "TYPE_INT64",
        "pad_variable_length_inputs": "TYPE_BOOL",
    },
    "PrometheusConfig": {"enable": "TYPE_BOOL", "path": "TYPE_STRING"},
    "MonitoringConfig": {"prometheus_config": "tests.PrometheusConfig"},
}


@pytest.fixture(scope="module")
def read(repository):
    """Return a function that parses a file in export/serving/ as a message."""
    file = descriptor_pb2.FileDescriptorProto(
        name="tests/serving.proto", package="tests", syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for message, fields in MESSAGES.items():
        declared = file.message_type.add(name=message)
        for number, (name, kind) in enumerate(fields.items(), start=1):
            field = declared.field.add(name=name, number=number)
            is_list = name == "allowed_batch_sizes"
            field.label = field.LABEL_REPEATED if is_list else field.LABEL_OPTIONAL
            if kind.startswith("TYPE_"):
                field.type = field.Type.Value(kind)
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)

    def read_message(name, message):
        found = pool.FindMessageTypeByName(f"tests.{message}")
        text = (repository / "export" / "serving" / name).read_text()
        return text_format.Parse(text, message_factory.GetMessageClass(found)())

    return read_message


def test_models_config_names_the_model_and_its_platform(repository):
    text = (repository / "export" / "serving" / "models.config").read_text()
    config = model_server_config_pb2.ModelServerConfig()
    text_format.Parse(text, config)
    (model,) = config.model_config_list.config
    assert model.model_platform == "tensorflow"
    assert model.base_path == "/models/translation"
    assert model.model_version_policy.latest.num_versions == 2


def test_batching_config_bounds_batches_delay_and_threads(read):
    config = read("batching.config", "BatchingParameters")
    bounds = {
        "max_batch_size": 1024,
        "batch_timeout_micros": 100_000,
        "max_enqueued_batches": 10_000,
        "num_batch_threads": 64,
    }
    assert {field.name for field, _ in config.ListFields()} == bounds.keys()
    for name, maximum in bounds.items():
        assert 1 <= getattr(config, name).value <= maximum, name


def test_monitoring_config_exposes_metrics_to_prometheus(read):
    (field,) = read("monitoring.config", "MonitoringConfig").ListFields()
    assert field[0].name == "prometheus_config"
    assert field[1].enable
    assert field[1].path == "/monitoring/prometheus/metrics"


@pytest.mark.parametrize("name", ["compose.yaml", "kserve.yaml"])
def test_manifests_enable_batching_with_its_parameters(repository, name):
    """Every file that they pass to the server exists in the same folder."""
    folder = repository / "export" / "serving"
    manifest = yaml.safe_load((folder / name).read_text())
    if name == "compose.yaml":
        server = manifest["services"]["serving"]
        arguments, mounts = server["command"], [server["volumes"][-1].split(":")[1]]
        assert server["volumes"][-1].startswith(".:")
    else:
        predictor = manifest["spec"]["predictor"]
        server = predictor["model"]
        assert server["modelFormat"]["name"] == "tensorflow"
        arguments = server["args"]
        (mount,), (volume,) = server["volumeMounts"], predictor["volumes"]
        mounts = [mount["mountPath"]]
        assert mount["name"] == volume["name"]
        config_map = volume["configMap"]["name"]
        assert f"create configmap {config_map} " in (folder / name).read_text()
    options = dict(argument.removeprefix("--").split("=") for argument in arguments)
    assert options["enable_batching"] == "true"
    assert options["batching_parameters_file"] == "/config/batching.config"
    for value in options.values():
        if value.startswith("/"):
            assert value.rpartition("/")[0] in mounts
            assert (folder / value.rpartition("/")[2]).is_file()
