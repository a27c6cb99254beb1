"""Locust's users of benchmarks/server_load.py: each translates texts without a pause.

TEXTS_JSON names a file with the translation of each text.
"""

import json
import os
import random

import locust

with open(os.environ["TEXTS_JSON"], encoding="utf-8") as file:
    EXPECTED = list(json.load(file).items())
PREDICT = "/v1/models/translation:predict"


class User(locust.HttpUser):
    """Sends one text after the other and checks each answer."""

    @locust.task
    def translate(self):
        """Translate a text drawn at random."""
        text, expected = random.choice(EXPECTED)
        with self.client.post(
            PREDICT, json={"inputs": {"text": [text]}}, catch_response=True
        ) as response:
            if response.status_code == 503:
                response.request_meta["name"] = "refused"
                response.success()
            elif response.status_code != 200:
                response.failure(f"status {response.status_code}")
            elif response.json()["outputs"]["translation"] != [expected]:
                response.request_meta["name"] = "wrong"
                response.failure("wrong answer")
