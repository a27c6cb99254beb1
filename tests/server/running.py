"""Our server on a port of this machine, in a thread."""

import contextlib
import threading
import time

import uvicorn

from keras_transformer.server import server


@contextlib.contextmanager
def running(app, port=0):
    """Serve an app; yields "HOST:PORT"."""
    with server.bind("127.0.0.1", port) as listener:
        host, port = listener.getsockname()
        served = uvicorn.Server(server.uvicorn_config(app, drain_seconds=5))
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
