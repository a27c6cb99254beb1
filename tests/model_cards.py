"""What the model card of a folder says, for tests."""

import importlib.metadata
import re
import shlex

import yaml


def head(card):
    """Return what the Hub reads."""
    return yaml.safe_load(card.split("---\n")[1])


def commands(card):
    """Return the commands of a card, each a path of the checkout and flags."""
    (block,) = re.findall(r"```bash\n(.*?)```", card, re.DOTALL)
    entries = importlib.metadata.entry_points(group="console_scripts")
    found = []
    for line in block.splitlines():
        name, *flags = shlex.split(line)
        # keras_transformer.bin.translate:run
        folder, program = entries[name].module.split(".")[1:]
        found.append([f"{folder}/{program}.py", *flags])
    return found
