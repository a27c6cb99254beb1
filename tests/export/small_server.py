"""A test server of a SavedModel with TF Serving's protocols.

    python -m tests.export.small_server exports/my/1

serves the model as `small` on this machine until Ctrl-C, to try a client.

Like TF Serving, it batches the rows of requests that wait at the same time, so answers
must not depend on the other rows of a batch.
"""

import concurrent.futures
import contextlib
import http.server
import json
import queue
import socket
import sys
import threading
import time

if __name__ == "__main__":  # import TensorFlow without its messages
    from keras_transformer.cli import startup

    startup.import_tensorflow()

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

MODEL_NAME = "small"


class BusyError(Exception):
    """The queue of the server is full."""


class BatchingModel:
    """Runs signatures on batches of waiting requests; rejects them while `is_busy`.

    Args:
        saved_model: The folder of a version, EXPORT_DIR/VERSION.
        delay_seconds: Delay added to each batch.
    """

    def __init__(self, saved_model, delay_seconds=0.0):
        self.signatures = tf.saved_model.load(str(saved_model)).signatures
        self.delay_seconds = delay_seconds
        self.batch_sizes = []
        self.is_busy = False
        self.num_refused = 0
        self._waiting = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def run(self, signature, inputs):
        """Return the outputs of one request, which may share a batch with others."""
        if self.is_busy:
            self.num_refused += 1
            raise BusyError("The batch scheduling queue is full")
        if signature not in self.signatures:
            raise KeyError(f'Serving signature key "{signature}" not found.')
        future = concurrent.futures.Future()
        self._waiting.put((signature, inputs, future))
        return future.result()

    def _work(self):
        while True:
            waiting = [self._waiting.get()]
            time.sleep(0.01 + self.delay_seconds)
            with contextlib.suppress(queue.Empty):
                while len(waiting) < 64:
                    waiting.append(self._waiting.get_nowait())
            for name in {name for name, _, _ in waiting}:
                self._run_batch(name, [item for item in waiting if item[0] == name])

    def _run_batch(self, name, items):
        sizes = [len(inputs["text"]) for _, inputs, _ in items]
        self.batch_sizes.append(sum(sizes))
        try:
            joined = {
                key: tf.constant(
                    np.concatenate([inputs[key] for _, inputs, _ in items])
                )
                for key in items[0][1]
            }
            outputs = self.signatures[name](**joined)
            starts = np.cumsum([0, *sizes])
            for index, (_, _, future) in enumerate(items):
                rows = slice(starts[index], starts[index + 1])
                future.set_result(
                    {key: value.numpy()[rows] for key, value in outputs.items()}
                )
        except Exception as error:
            for _, _, future in items:
                future.set_exception(error)


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """The gRPC service."""

    def __init__(self, model):
        self.model = model

    def Predict(self, request, context):
        name = request.model_spec.name
        if name != MODEL_NAME:
            context.abort(
                grpc.StatusCode.NOT_FOUND, f"Servable not found for request: {name}"
            )
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        try:
            outputs = self.model.run(request.model_spec.signature_name, inputs)
        except KeyError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except BusyError as error:  # alternate between the two codes
            codes = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
            context.abort(codes[self.model.num_refused % 2], str(error))
        response = predict_pb2.PredictResponse()
        for key, value in outputs.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response


def handler_of(model):
    """Return the HTTP handler of the REST API."""
    dtypes = {
        "temperature": np.float32,
        "top_p": np.float32,
        "top_k": np.int32,
        "seed": np.int32,
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != f"/v1/models/{MODEL_NAME}:predict":
                self.answer(404, {"error": f"Servable not found for {self.path}"})
                return
            inputs = {
                key: np.array(values, dtypes[key])
                if key in dtypes
                else np.array([text.encode() for text in values], object)
                for key, values in body["inputs"].items()
            }
            try:
                outputs = model.run(
                    body.get("signature_name", "serving_default"), inputs
                )
            except KeyError as error:
                self.answer(400, {"error": str(error)})
                return
            except BusyError as error:  # cycle through the four codes
                status = (503, 429, 502, 504)[model.num_refused % 4]
                self.answer(status, {"error": str(error)})
                return
            self.answer(200, {"outputs": {k: as_json(v) for k, v in outputs.items()}})

        def answer(self, status, content):
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            del arguments

    return Handler


def as_json(array):
    """Return an array as nested lists, texts as str."""

    def text(value):
        return [text(v) for v in value] if isinstance(value, list) else value.decode()

    return text(array.tolist()) if array.dtype == object else array.tolist()


class Door:
    """A proxy that can be shut, to simulate an absent server.

    Clients that are connected when it is shut see the server die.

    Args:
        address: "HOST:PORT" of the server.
    """

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self._server = (host, int(port))
        # Reserves the port; connections are refused until `open` listens.
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind(("127.0.0.1", 0))
        self._port = self._holder.getsockname()[1]
        self._sockets = []
        self.address = f"127.0.0.1:{self._port}"

    def open(self):
        """Start to accept connections."""
        listener = socket.create_server(("127.0.0.1", self._port))
        self._sockets.append(listener)
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()

    def shut(self):
        """Close all connections and refuse new ones."""
        while self._sockets:
            either = self._sockets.pop()
            with contextlib.suppress(OSError):
                either.shutdown(socket.SHUT_RDWR)
            either.close()

    def close(self):
        """Shut the proxy and release the port."""
        self.shut()
        self._holder.close()

    def _accept(self, listener):
        with contextlib.suppress(OSError):  # raised when the listener is closed
            while True:
                ends = [listener.accept()[0], socket.create_connection(self._server)]
                self._sockets += ends
                for pair in (ends, ends[::-1]):
                    threading.Thread(target=forward, args=pair, daemon=True).start()


def forward(source, target):
    """Forward data from one socket to another until either is closed."""
    with contextlib.suppress(OSError):
        while block := source.recv(1 << 16):
            target.sendall(block)
        target.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serve(model):
    """Serve a `BatchingModel` on loopback; yields {protocol: "HOST:PORT"}."""
    grpc_server = grpc.server(concurrent.futures.ThreadPoolExecutor(64))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Service(model), grpc_server
    )
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    grpc_server.start()
    rest_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(model))
    rest_server.daemon_threads = True
    threading.Thread(target=rest_server.serve_forever, daemon=True).start()
    try:
        yield {
            "grpc": f"127.0.0.1:{grpc_port}",
            "rest": f"127.0.0.1:{rest_server.server_port}",
        }
    finally:
        grpc_server.stop(None)
        rest_server.shutdown()
        rest_server.server_close()


def main(saved_model):
    """Serve an export until Ctrl-C."""
    import tensorflow_text  # noqa: F401  registers the operators of the vocabulary

    with serve(BatchingModel(saved_model)) as addresses:
        for protocol, address in addresses.items():
            print(f"--protocol={protocol} --server={address}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
