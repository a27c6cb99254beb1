"""Our server on a port of this machine, in a thread."""

import contextlib
import threading
import time

from keras_transformer.server import server
from keras_transformer.server.connections import Server
from keras_transformer.server.server_config import ServerConfig

_CONFIG = ServerConfig(drain_seconds=5)


@contextlib.contextmanager
def running(app, port=0, config=_CONFIG):
    """Serve an app; yields "HOST:PORT"."""
    with server.bind("127.0.0.1", port) as listener:
        host, port = listener.getsockname()
        served = Server(server.uvicorn_config(app, config))
        thread = threading.Thread(target=served.run, args=[[listener]], daemon=True)
        thread.start()
        while not served.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"{host}:{port}"
        finally:
            served.should_exit = True
            thread.join()
