"""Frequencies that come in independent blocks of one size."""

from __future__ import annotations

import numpy as np


def pairs_in_blocks(count: int, size: int) -> float:
    """The share of ordered pairs (i, j), i ≠ j, that lie in one block."""
    sizes = _sizes(count, size)
    return float((sizes * (sizes - 1)).sum()) / count**2


def blocks_worth(count: int, size: int) -> float:
    """1/Σ (share of a block)², for so many frequencies in independent blocks of one size."""
    sizes = _sizes(count, size)
    return float(count**2 / (sizes**2).sum())


def _sizes(count: int, size: int) -> np.ndarray:
    """Of the blocks: all of one size, but for the last."""
    return np.array([min(size, count - first) for first in range(0, count, size)])
