"""Translates lines with TensorFlow Serving, with Python's standard library alone.

    echo "A dog runs." | python examples/clients/client.py localhost:8501 translation

The arguments are the server's address and the name of the model.
"""

import json
import sys
import urllib.error
import urllib.request


def translate(server, model, texts):
    """Return the translation of each text."""
    request = urllib.request.Request(
        f"http://{server}/v1/models/{model}:predict",
        json.dumps({"inputs": {"text": texts}}).encode(),
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["outputs"]["translation"]


if __name__ == "__main__":
    lines = [line.rstrip("\n") for line in sys.stdin]
    try:
        print(*translate(*sys.argv[1:], lines), sep="\n")
    except urllib.error.HTTPError as error:
        sys.exit(json.load(error)["error"])
