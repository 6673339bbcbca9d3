"""Cost of the import."""

import subprocess
import sys


def test_import_does_not_import_numpy():
    """NumPy takes longer to import than the package, and conversions of folders do not need it."""
    code = "import sys, gguf_tools; print(' '.join(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names = modules.stdout.split()
    assert "gguf_tools._native" in names
    for heavy in ("numpy", "torch", "pathlib", "json"):
        assert heavy not in names, heavy
