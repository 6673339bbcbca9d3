"""Makes golden/rounding.json: blocks of Q4_K rounded again by the published formulas, in double precision.

Needs numpy. Feedback is GPTQ as Frantar et al. write it down (arXiv:2210.17323, equations 2 and 3): round a column, move all
columns to come by the inverse of what is left of H, eliminate the column from the inverse. Then two sweeps of coordinate descent on
tr(E H E^T). Inputs are small integers, so that their moments are exact; blocks are any scales with the nearest levels.

In single precision a decision close to a tie may fall otherwise, and with it all that follow in the row: `margin` is how close the
closest decision of each row came, in steps.
"""

import numpy as np

from data import bytes_, normal
from lib import write_json

F, U = np.float32, np.uint64
ROWS, COLUMNS, TOKENS = 12, 256, 384
SHRINKAGE, DAMPING, SWEEPS = 0.3, 0.01, 2


def inputs():
    """(TOKENS, COLUMNS) small integers; neighbours share a part, and sizes differ."""
    own = bytes_(1, TOKENS * COLUMNS).reshape(TOKENS, COLUMNS).astype(np.int64) % 7 - 3
    shared = bytes_(2, TOKENS * COLUMNS).reshape(TOKENS, COLUMNS).astype(np.int64) % 9 - 4
    size = 1 + bytes_(3, COLUMNS).astype(np.int64) % 4
    return size * (own + shared[:, np.arange(COLUMNS) // 5])


class Block:
    """One block of Q4_K, read by the drawing of block_q4_K in ggml-common.h."""

    def __init__(self, data):
        self.data = data.copy()
        d, dmin = (float(x) for x in data[:4].view(np.float16))
        packed = [int(x) for x in data[4:16]]
        scales = [packed[i] & 63 if i < 4 else (packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4 for i in range(8)]
        mins = [packed[i + 4] & 63 if i < 4 else (packed[i + 4] >> 4) | (packed[i] >> 6) << 4 for i in range(8)]
        # What a decoder computes in single precision.
        self.scale = [F(d) * F(s) for s in scales]
        self.min = [F(dmin) * F(m) for m in mins]

    def values(self, column):
        """The 16 values that a column can have."""
        sub = column // 32
        return (self.scale[sub] * np.arange(16, dtype=F) - self.min[sub]).astype(np.float64)

    def with_levels(self, levels):
        out = self.data.copy()
        levels = levels.reshape(4, 2, 32).astype(np.uint8)
        out[16:] = (levels[:, 0] | levels[:, 1] << 4).reshape(-1)
        return out


def nearest(values, wanted):
    """The nearest of evenly spaced values, and how far the runner-up is from being it, in steps."""
    distances = np.abs(values - wanted)
    order = np.argsort(distances, kind="stable")
    step = values[1] - values[0]
    return int(order[0]), (distances[order[1]] - distances[order[0]]) / step


def round_row(weights, block, h, order):
    weights = weights.astype(np.float64)
    margin = np.inf
    # GPTQ.
    work, inverse = weights.copy(), np.linalg.inv(h[np.ix_(order, order)])
    levels = np.zeros(COLUMNS, np.int64)
    for place, column in enumerate(order):
        levels[column], near = nearest(block.values(column), work[column])
        margin = min(margin, near)
        error = (work[column] - block.values(column)[levels[column]]) / inverse[place, place]
        later = order[place + 1:]
        work[later] -= error * inverse[place, place + 1:]
        row = inverse[place].copy()
        inverse -= np.outer(row, row) / row[place]
    # Coordinate descent.
    errors = np.array([weights[c] - block.values(c)[levels[c]] for c in range(COLUMNS)])
    for _ in range(SWEEPS):
        for column in range(COLUMNS):
            best = errors[column] - h[column] @ errors / h[column, column]
            values = block.values(column)
            level, near = nearest(values, weights[column] - best)
            margin = min(margin, near)
            levels[column], errors[column] = level, weights[column] - values[level]
    return levels, margin


def make(ctx):
    x = inputs()
    moments = (x.T @ x).astype(np.float64) / TOKENS
    assert np.abs(x.T @ x).max() < 1 << 24
    diagonal = np.diag(moments)
    h = (1 - SHRINKAGE) * moments + SHRINKAGE * np.diag(diagonal) + DAMPING * diagonal.mean() * np.eye(COLUMNS)
    order = np.argsort(-diagonal, kind="stable")
    weights = normal(4, np.arange(ROWS * COLUMNS, dtype=U)).reshape(ROWS, COLUMNS)
    before, after, margins, gains = [], [], [], []
    for row in range(ROWS):
        # Six-bit scales and minima of any size, d and dmin so that levels cover most of the weights.
        head = np.concatenate([
            np.array([0.006 / 63, 0.06 / 63]).astype(np.float16).view(np.uint8),
            bytes_(100 + row, 12) | np.uint8(0x24)])
        block = Block(np.concatenate([head, np.zeros(128, np.uint8)]))
        stock = np.array([nearest(block.values(c), float(weights[row, c]))[0] for c in range(COLUMNS)])
        levels, margin = round_row(weights[row], block, h, order)
        cost = lambda levels: (lambda e: e @ h @ e)(
            np.array([float(weights[row, c]) - block.values(c)[levels[c]] for c in range(COLUMNS)]))
        gains.append(round(cost(levels) / cost(stock), 4))
        before.append(bytes(block.with_levels(stock)).hex())
        after.append(bytes(block.with_levels(levels)).hex())
        margins.append(float(f"{margin:.3g}"))
    write_json(ctx.golden / "rounding.json", {
        "dtype": "q4_K", "n_columns": COLUMNS, "n_tokens": TOKENS, "shrinkage": SHRINKAGE, "damping": DAMPING,
        "sweeps": SWEEPS, "margin": margins, "cost_ratio": gains, "before": before, "after": after}, indent=1)
