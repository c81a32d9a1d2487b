"""Fits in the leaves of a tree, for more rows than one fit can take in its time.

Rows are halved at the median along the direction in which they spread most in a learned metric,
again and again, and f is fitted in each leaf on its own. It is the exact ridge fit with the kernel
k(x, y)·1[x and y in the same leaf], which is positive definite as a product of two that are; each
leaf has its own mean beside it. A fit on M centres sees distances down to those between M points
that are spread over all rows, and a leaf those between neighbours.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import as_numpy, inner, namespace, to_precision
from mercer.kernels.base import Kernel
from mercer.learning.fits import RidgeFit, Sample
from mercer.learning.metric import Metric
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.solvers.solution import Solution, Status


@dataclass(frozen=True)
class Tuning:
    """Numbers of local fits."""

    rows: int = (
        2000  # of a leaf, about, where there is time: predictions take so many kernel values
    )
    fewest: int = 250  # of a leaf in any case
    spread_rows: int = 5000  # of a node, that tell the direction in which it spreads
    power: float = 2.5  # of the rows of a leaf, that its fit takes: between squares and cubes


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Tree:
    """Halves of halves of the space: x goes right at a node where ⟨w, x⟩ > t.

    Node i has the children 2i + 1 and 2i + 2, and all leaves are at the same depth.
    """

    normals: np.ndarray
    thresholds: np.ndarray

    @classmethod
    def grown(cls, rows: np.ndarray, metric: Metric, depth: int) -> tuple[Tree, np.ndarray]:
        """A tree whose 2^depth leaves have equally many rows, up to ties; and the leaf of each."""
        root = metric.root()
        root = np.diag(root) if metric.is_diagonal else root
        tree = cls(np.zeros((2**depth - 1, rows.shape[1])), np.zeros(2**depth - 1))
        nodes = [np.arange(len(rows))]
        for node in range(2**depth - 1):
            own = nodes[node]
            if len(own) < 2:  # all go left
                nodes += [own, own[:0]]
                continue
            some = rows[own[:: max(1, len(own) // TUNING.spread_rows)]] @ root.T
            _, vectors = np.linalg.eigh(np.cov(some, rowvar=False).reshape(len(root), -1))
            leading = vectors[:, -1] * np.sign(vectors[np.abs(vectors[:, -1]).argmax(), -1])
            tree.normals[node] = leading @ root
            along = rows[own] @ tree.normals[node]
            tree.thresholds[node] = np.median(along)
            right = along > tree.thresholds[node]
            nodes += [own[~right], own[right]]
        places = np.empty(len(rows), int)
        for leaf, own in enumerate(nodes[2**depth - 1 :]):
            places[own] = leaf
        return tree, places

    def leaves(self, rows: np.ndarray) -> np.ndarray:
        """The leaf of each row."""
        nodes = np.zeros(len(rows), int)
        while len(rows) and nodes[0] < len(self.thresholds):  # all are at the same depth
            along = np.einsum("ij,ij->i", rows, self.normals[nodes])
            nodes = 2 * nodes + 1 + (along > self.thresholds[nodes])
        return nodes - len(self.thresholds)


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """f = b_l + Σ_j c_j k(·, x_j) over the rows j of the leaf l that a point falls into.

    Parameters
    ----------
    kernel : Kernel
    tree : Tree
    points : PointSet
        All rows.
    coefficients : array
        c, for each row and output.
    places : array of int
        The leaf of each row.
    intercepts : array
        b, for each leaf and output.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> tree = Tree(np.ones((1, 1)), np.zeros(1))  # left and right of 0
    >>> X, c = np.array([[-1.0], [1.0]]), np.array([3.0, 1.0])
    >>> f = LocalFunction(Linear(), tree, Linear().points(X), c, np.array([0, 1]), np.zeros(2))
    >>> f([[-2.0], [2.0]])
    array([6., 2.])
    """

    kernel: Kernel
    tree: Tree
    points: PointSet
    coefficients: np.ndarray
    places: np.ndarray
    intercepts: np.ndarray

    def __call__(self, X: Any) -> np.ndarray:
        new: Any = self.kernel.points(X)
        found = self.tree.leaves(np.asarray(as_numpy(new.data), np.float64))
        values = np.empty((len(new), *self.coefficients.shape[1:]), self.points.dtype)
        order, starts = _grouped(self.places, len(self.intercepts))
        for leaf in np.unique(found):
            asked, own = np.flatnonzero(found == leaf), order[starts[leaf] : starts[leaf + 1]]
            cross = Gram(self.kernel, new.take(asked), self.points.take(own)).astype("float64")
            values[asked] = cross @ self.coefficients[own] + self.intercepts[leaf]
        return values


def _grouped(places: np.ndarray, leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of their leaves, and where each leaf begins."""
    order = np.argsort(places, kind="stable")
    return order, np.searchsorted(places[order], np.arange(leaves + 1))


def fit_locally(
    kernel: Kernel,
    sample: Sample,
    alpha: float,
    metric: Metric,
    seconds: float = math.inf,
    tuning: Tuning | None = None,
) -> tuple[LocalFunction, Solution]:
    """Ridge fits in the leaves of a tree that is grown in a metric, in about so many seconds.

    Leaves are as large as the time allows. A leaf that equal rows make larger than twice the others
    is fitted to some of them, and so are the last ones where others took longer than was foreseen.
    """
    begun, spent, tuning = time.perf_counter(), 0.0, tuning or TUNING
    points: Any = sample.points
    rows = np.asarray(as_numpy(points.data), np.float64)
    depth = _depth(kernel, sample, alpha, seconds, tuning)
    tree, places = Tree.grown(rows, metric, depth)
    most = 2 * math.ceil(len(sample) / 2**depth)
    coefficients = np.zeros(sample.targets.shape)
    intercepts = np.zeros((2**depth, sample.targets.shape[1]))
    order, starts = _grouped(places, 2**depth)
    objective, worst, used = 0.0, 0.0, 0
    for leaf in range(2**depth):
        own = order[starts[leaf] : starts[leaf + 1]]
        if not len(own):
            intercepts[leaf] = as_numpy(sample.mean(sample.targets))
            continue
        left = max((seconds - (time.perf_counter() - begun)) / (2**depth - leaf), 1e-9)
        late = (spent / left) ** (1.0 / tuning.power)  # what a leaf took over what is left for one
        late = min(late, len(own) / tuning.fewest)
        own = own[:: math.ceil(max(len(own) / most, late, 1.0))]
        used += len(own)
        started = time.perf_counter()
        fit = RidgeFit(kernel, sample.take(own))
        c = fit.coefficients(alpha / fit.scale)
        coefficients[own], intercepts[leaf] = as_numpy(c), as_numpy(fit.intercept)
        value, residual = _checked(fit, c, alpha)
        objective, worst = objective + value, max(worst, residual)
        own_seconds = (time.perf_counter() - started) * (most / 2.0 / len(own)) ** tuning.power
        spent = own_seconds if leaf == 0 else 0.9 * spent + 0.1 * own_seconds
    message = (
        f"Solved in each of {2**depth} leaves of {len(sample) // 2**depth} rows by a Cholesky "
        f"factorisation; the largest relative residual is {worst:.1g}."
    )
    if used < len(sample):
        message += f" {len(sample) - used} rows were left out of leaves that would take too long."
    f = LocalFunction(kernel, tree, points, coefficients, places, intercepts)
    solved = Status(worst < 1e-6, message)
    return f, Solution(coefficients, solved, objective / len(sample), worst)


def _depth(kernel: Kernel, sample: Sample, alpha: float, seconds: float, tuning: Tuning) -> int:
    """The least depth whose leaves are small enough, and whose fits take no longer than allowed."""
    depth = max(0, math.ceil(math.log2(len(sample) / tuning.rows)))
    if seconds == math.inf:
        return depth
    tried = min(len(sample), 2 * tuning.fewest)
    fit = RidgeFit(kernel, sample.take(np.arange(tried)))
    fit.coefficients(alpha / fit.scale)  # code is loaded
    begun = time.perf_counter()
    RidgeFit(kernel, fit.sample).coefficients(alpha / fit.scale)
    one = time.perf_counter() - begun
    while len(sample) / 2**depth > tuning.fewest:
        size = len(sample) / 2**depth
        if 2**depth * one * (size / tried) ** tuning.power <= seconds:
            break
        depth += 1
    return depth


def _checked(fit: RidgeFit, c: Any, alpha: float) -> tuple[float, float]:
    """½Σ w(y − f)² + ½α cᵀKc of a leaf, and the residual of its system relative to the targets."""
    targets = fit.sample.targets - fit.intercept
    xp = namespace(targets)
    values = to_precision(Gram(fit.kernel, fit.centres).astype("float64") @ c, "float64")
    weights = fit.sample.weights
    own = 1.0 if weights is None else weights[:, None]
    missed = own * (targets - values)
    size = float(xp.sqrt(xp.sum((own * targets) ** 2))) or 1.0
    residual = float(xp.sqrt(xp.sum((missed - alpha * c) ** 2))) / size
    return 0.5 * (inner(missed, targets - values) + alpha * inner(c, values)), residual
