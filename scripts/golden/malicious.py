"""Makes golden/gguf-malicious: the files that gguf-py's tests/test_gguf_reader_validation.py makes against readers that trust a header,
by its own code, and holds gguf-py's reader to refusing each. Its directory holds the tests; they need no pytest here.
"""

import importlib.util
import re
import sys
import types
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def raises(kind, match=""):
    """pytest.raises, as far as these tests use it."""
    try:
        yield
    except kind as error:
        assert re.search(match, str(error)), error
    else:
        raise AssertionError("the reference's reader takes the file")


def make(ctx):
    package = Path(ctx.reference) / "gguf-py"
    sys.path.insert(0, str(package))
    sys.modules["pytest"] = types.SimpleNamespace(raises=raises)
    spec = importlib.util.spec_from_file_location("validation", package / "tests" / "test_gguf_reader_validation.py")
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    out = ctx.golden / "gguf-malicious"
    out.mkdir(exist_ok=True)
    for name, test in vars(tests).items():
        if name.startswith("test_"):
            test(out)
