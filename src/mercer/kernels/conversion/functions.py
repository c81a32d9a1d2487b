"""Functions of users as kernels: whether one takes points or blocks is found by trying."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.conversion.request import Request
from mercer.kernels.custom import BlockKernel, PairKernel
from mercer.points import PointSet, as_points


def from_function(function: Callable[..., Any], request: Request) -> Kernel:
    """A block kernel where blocks give the values of pairs, or pairs give none; else a pair kernel.

    Many functions of blocks also take two rows, so that the answer on rows alone decides nothing.
    """
    rows, columns = _points_to_try(request.X)
    pairs = _trial(PairKernel(function), rows, columns)
    blocks = _trial(BlockKernel(function), rows, columns)
    if isinstance(pairs, Exception) and isinstance(blocks, Exception):
        _refuse_function(function, pairs, blocks)
    return BlockKernel(function) if _blocks_agree(pairs, blocks) else PairKernel(function)


def _points_to_try(data: Any) -> tuple[PointSet, PointSet]:
    """Two points against three: a block of them cannot be taken for its transpose."""
    if data is None:
        raise ValueError(
            "whether a function takes two points or two blocks is found by trying it on data: "
            "write as_kernel(function, X=X), or PairKernel(function) or BlockKernel(function)."
        )
    points = as_points(data)
    if not len(points):
        raise ValueError("X holds no points to try the function on.")
    return points.take([0, -1]), points.take([0, -1, 0])


def _trial(kernel: Kernel, rows: PointSet, columns: PointSet) -> np.ndarray | Exception:
    """The values on a few points, or what went wrong; functions of users may raise anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = np.asarray(kernel.block(rows, columns), np.float64)
    except Exception as error:
        return error
    if values.shape != (len(rows), len(columns)):
        return ValueError(f"shape {values.shape} for {len(rows)} and {len(columns)} points")
    return values


def _blocks_agree(pairs: np.ndarray | Exception, blocks: np.ndarray | Exception) -> bool:
    if isinstance(pairs, Exception) or isinstance(blocks, Exception):
        return isinstance(pairs, Exception)
    return bool(np.abs(pairs - blocks).max() < 1e-6 * np.abs(pairs).max())  # zeros say nothing


def _refuse_function(function: Callable[..., Any], pairs: Exception, blocks: Exception) -> NoReturn:
    raise ValueError(
        f"{function!r} is no kernel on these points: on two points it gave {pairs!r}, on two "
        f"blocks {blocks!r}. It must return a number for two points, or for blocks of n and m "
        "points a matrix of shape (n, m)."
    ) from pairs
