"""What the scripts of this folder share."""

import math
import subprocess


def run(*command):
    """Standard output of a command, which must succeed."""
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{ran.stderr[-2000:]}")
    return ran.stdout


def options_for(type_name, words):
    """Options in which % stands for the type."""
    return [word.replace("%", type_name) for word in words]


def ratio(ours, stock):
    """Of two sums over the same windows, with the standard error by the spread of the residuals."""
    value, n = sum(ours) / sum(stock), len(ours)
    residuals = sum((a - value * b) ** 2 for a, b in zip(ours, stock))
    return value, math.sqrt(residuals * n / (n - 1)) / sum(stock) if n > 1 else 0.0


def windows_of(found):
    """Divergences by window of all texts of a row of `table`: of the stock file, and of ours."""
    return [[kl for text in found["texts"].values() for kl in text[which]["by_window"]] for which in (0, 1)]
