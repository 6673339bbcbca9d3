"""Progress bars. tqdm is optional and imported only if a bar can be shown."""

from __future__ import annotations

import sys

# Stages count bytes or chunks, so that the bar states neither.
_FORMAT = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}"


class shown:
    """Context with the callable for a ``progress`` argument: the argument itself, None if it is False, a bar if it is None.

    Written as a class, because ``contextlib`` is slow to import.
    """

    def __init__(self, progress) -> None:
        self._progress = progress
        self._bar = None

    def __enter__(self):
        if self._progress is None:
            self._bar = _bar()
            return self._bar
        return None if self._progress is False else self._progress

    def __exit__(self, *_) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar():
    if not (_is_notebook() or (sys.stderr is not None and sys.stderr.isatty())):
        return None
    import warnings

    try:
        with warnings.catch_warnings():
            # A notebook without widgets shows a bar of text.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return _Bar(tqdm)


def _is_notebook() -> bool:
    # A notebook has imported IPython; nothing else needs it.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class _Bar:
    """A bar for each stage of a run."""

    def __init__(self, tqdm) -> None:
        self._tqdm = tqdm
        self._bar = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is not None and (self._bar.total != total or done < self._bar.n):
            self.close()
        if self._bar is None:
            self._bar = self._tqdm(total=total, bar_format=_FORMAT, leave=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
