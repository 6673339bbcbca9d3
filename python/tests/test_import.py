"""What importing the package costs and brings along."""

import subprocess
import sys


def test_import_brings_no_numpy():
    """NumPy takes longer to import than all the rest, and nobody who converts a folder needs it."""
    code = "import sys, gguf_tools; print(' '.join(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names = modules.stdout.split()
    assert "gguf_tools._native" in names
    for heavy in ("numpy", "torch", "pathlib", "typing", "json"):
        assert heavy not in names, heavy
