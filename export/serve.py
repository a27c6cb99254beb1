"""Serve a model on this machine over HTTP, without Docker.

    python export/serve.py --saved_model=runs/quickstart/export/1 --port=8501

answers TF Serving's REST API and LibreTranslate's API until Ctrl-C or SIGTERM, and then
finishes what it has accepted. With --model_dir it serves a trained model without an
export. Loading takes seconds to a minute. Concurrent requests are joined into batches.
--protect and --glossary hold for all requests of LibreTranslate's API and of the page.
Needs the extra `server`.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import (
    ModelFlags,
    ProtectionFlags,
    define_fields,
    report_guess,
    values,
)
from keras_transformer.server.server_config import ServerConfig

_MODEL = ModelFlags("Exported model", has_languages=True, has_search=True)
_PROTECTION = ProtectionFlags()
_HOST = flags.DEFINE_string(
    "host", "127.0.0.1", "Address to listen on; 0.0.0.0: all of this machine's."
)
_PORT = flags.DEFINE_integer(
    "port",
    8501,
    "Port to listen on; 0: any free one.",
    lower_bound=0,
    upper_bound=65535,
)
_ALLOWED_ORIGIN = flags.DEFINE_multi_string(
    "allowed_origin",
    [],
    "Origin whose pages may use the server from a browser, such as "
    "https://example.org; *: all. May be given several times; default: none.",
)
_CONFIG = define_fields(ServerConfig)


def main() -> dict:
    """Load the model, serve it, and return the JSON summary at the end."""
    _MODEL.check()
    protection = _PROTECTION.read()
    config = ServerConfig(
        **values(_CONFIG), allowed_origins=tuple(_ALLOWED_ORIGIN.value)
    )
    with programs.needing("server", "The server"):
        from keras_transformer.server import server
    with server.bind(_HOST.value, _PORT.value) as listener:
        model = load_model(config.max_batch_size)
        app = server.make_app(model, config, protection)
        report_guess(protection.with_placeholders(model.placeholders))
        listener.listen()  # from here on, clients wait instead of being refused
        host, port = listener.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        address = f"http://{host}:{port}"
        print(f"serving {config.model_name} at {address}", flush=True)
        server.serve(app, listener, config)
    return {"address": address}


def load_model(max_batch_size: int):
    """Return the model that the flags name.

    Args:
        max_batch_size: Texts of the largest batch to compile searches for.
    """
    startup.import_tensorflow(compiles=True)
    from keras_transformer.inference import cpu_threads
    from keras_transformer.server import model_loading

    cpu_threads.one_more_for_a_compiler()
    return model_loading.served(_MODEL.open("serve"), max_batch_size)


def run() -> None:
    """Run as a console script."""
    programs.run(main, may_be_urls=[_ALLOWED_ORIGIN, _HOST])


if __name__ == "__main__":
    run()
