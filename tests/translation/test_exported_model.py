"""Reading an export: what it imports."""

import subprocess
import sys


def test_reading_an_export_imports_no_model(repository):
    """It has the search in its graph; importing ours would only take time."""
    code = (
        "import sys, keras_transformer.translation.exported_model\n"
        "print(*(name for name in sys.modules if name.startswith('keras_transformer')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=repository
    )
    assert result.returncode == 0, result.stderr
    names = result.stdout.split()
    assert 0 < len(names) <= 15, names
