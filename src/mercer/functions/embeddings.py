"""Mean embeddings of samples, and coresets: few points whose embedding is near that of many."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import as_numpy
from mercer.checks import check_weights, is_count
from mercer.evaluation.program import EvaluableKernel
from mercer.functions.function import RKHSFunction
from mercer.operators import Gram
from mercer.runtime.threads import spans

CORESETS = ("thinning", "herding")
PAIRS = 128  # of points that are divided together: what they do to each other is stored


def mean_embedding(kernel: EvaluableKernel, points: Any, weights: Any = None) -> RKHSFunction:
    """μ = Σ_i w_i k(x_i, ·)/Σw, the mean of k(x, ·) over points: ⟨μ, f⟩ is the mean of f.

    Parameters
    ----------
    kernel : Kernel
    points : array-like, list of objects or PointSet
    weights : array of shape (n,), optional
        w_i ≥ 0; all alike by default.

    References
    ----------
    Muandet, Fukumizu, Sriperumbudur, Schölkopf, Kernel mean embedding of distributions, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X, Y = np.array([[0.0], [1.0]]), np.array([[2.0], [4.0], [5.0]])
    >>> k = Gaussian()
    >>> mu, nu = mean_embedding(k, X), mean_embedding(k, Y)
    >>> f = k.function([[0.5]], [2.0])
    >>> bool(np.isclose(mu.inner(f), f(X).mean()))
    True
    >>> squared = k(X).mean() + k(Y).mean() - 2 * k(X, Y).mean()
    >>> bool(np.isclose(mu.distance(nu) ** 2, squared))  # the maximum mean discrepancy, squared
    True
    """
    x = kernel.points(points)
    if not len(x):
        raise ValueError("a mean embedding needs at least one point; got none.")
    if weights is None:
        return RKHSFunction(kernel, x, np.full(len(x), 1.0 / len(x)))
    shares = np.asarray(as_numpy(weights), np.float64)
    check_weights(shares, len(x))
    return RKHSFunction(kernel, x, shares / shares.sum())


@dataclass(frozen=True, eq=False)
class Coreset:
    """Some of the points that stand for all of them, each with the same weight.

    Attributes
    ----------
    indices : array
        Their row numbers.
    points : array or list
        The points, as they were given.
    discrepancy : float
        ‖μ_S − μ‖, the maximum mean discrepancy between the coreset and all points: for every f of
        the space the means of f over both differ by at most ‖f‖ times that.
    embedding : RKHSFunction
        μ_S.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> chosen = Gaussian().thin(np.arange(20.0)[:, None], 5, random_state=0)
    >>> len(chosen.indices), chosen.points.shape
    (5, (5, 1))
    """

    indices: np.ndarray
    points: Any = field(repr=False)
    discrepancy: float
    embedding: RKHSFunction = field(repr=False)

    def __len__(self) -> int:
        """The number of points."""
        return len(self.indices)


def coreset(
    kernel: EvaluableKernel,
    points: Any,
    count: int,
    *,
    method: str = "thinning",
    random_state: Any = None,
) -> Coreset:
    """Choose points whose mean embedding is as near that of all points as can be.

    "herding" adds one point after the other, each time the one that brings the mean embedding
    nearest; some may be chosen several times. "thinning" draws an order of the points and halves
    them again and again, each time by signs that balance pairs against each other; then each point
    that is left is exchanged for the best of all. Both multiply by the Gram matrix and never store
    it: n² values for the mean, and n for each point chosen.

    Parameters
    ----------
    kernel : Kernel
    points : array-like, list of objects or PointSet
    count : int
        m.
    method : {"thinning", "herding"}
    random_state : int, Generator or None
        Draws the order of pairs; herding draws nothing.

    References
    ----------
    Chen, Welling, Smola, Super-samples from kernel herding, 2010; Dwivedi, Mackey, Kernel
    thinning, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((512, 2))
    >>> chosen = coreset(Gaussian(), X, 16, random_state=0)
    >>> random = Gaussian().mean_embedding(X[:16]).distance(Gaussian().mean_embedding(X))
    >>> bool(chosen.discrepancy < 0.3 * random)
    True
    """
    x = kernel.points(points)
    if not (is_count(count) and count <= len(x)):
        raise ValueError(f"count must be a whole number from 1 to {len(x)}; got {count!r}.")
    if method not in CORESETS:
        raise ValueError(f"method must be one of {list(CORESETS)}; got {method!r}.")
    gram = Gram(kernel, x)
    means = np.asarray(as_numpy(gram @ np.ones(len(x), gram.dtype)), np.float64) / len(x)
    greedy = _Greedy(gram, means)
    if method == "herding":
        chosen = [greedy.add() for _ in range(count)]
    else:
        random = np.random.default_rng(random_state)
        chosen = greedy.swapped(thinned(gram, count, random))
    indices = np.array(chosen, np.intp)
    own = x.take(indices)
    inner = float((Gram(kernel, own) @ np.ones(count)).sum()) / count**2
    squared = float(means.mean()) - 2.0 * float(means[indices].mean()) + inner
    embedding = RKHSFunction(kernel, own, np.full(count, 1.0 / count))
    return Coreset(indices, own.data, math.sqrt(max(squared, 0.0)), embedding)


class _Greedy:
    """Points added or exchanged one after the other, each the best at its turn.

    ‖Σ_S k(s, ·) − mμ‖² changes by 2Σ_S k(s, x) − 2mμ(x) + k(x, x) with a point x.
    """

    def __init__(self, gram: Gram, means: np.ndarray) -> None:
        self.gram, self.means = gram, means
        self.halves = 0.5 * np.asarray(as_numpy(gram.diagonal()), np.float64)
        self.sums = np.zeros(len(means))  # Σ_S k(s, x_i)
        self.size = 0

    def column(self, index: int) -> np.ndarray:
        """k(x_i, x) for all i."""
        return np.asarray(as_numpy(self.gram.columns([index])), np.float64)[:, 0]

    def best(self, size: int) -> int:
        return int(np.argmin(self.sums + self.halves - size * self.means))

    def add(self) -> int:
        self.size += 1
        chosen = self.best(self.size)
        self.sums += self.column(chosen)
        return chosen

    def swapped(self, chosen: np.ndarray) -> list[int]:
        """Each point is taken out in turn, and replaced by the best one there is."""
        new = [int(i) for i in chosen]
        for part in np.array_split(chosen, max(1, len(chosen) // PAIRS)):
            block = np.asarray(as_numpy(self.gram.columns(part)), np.float64)
            self.sums += block.sum(axis=1)
        for place, old in enumerate(new):
            self.sums -= self.column(old)
            new[place] = self.best(len(new))
            self.sums += self.column(new[place])
        return new


def thinned(gram: Gram, count: int, random: np.random.Generator) -> np.ndarray:
    """So many row numbers, by halving as often as that leaves enough."""
    n = gram.shape[0]
    rounds = int(math.log2(n / count))
    rows = random.permutation(n)[: count * 2**rounds]
    for _ in range(rounds):
        rows = _halved(gram, rows)
    return rows


def _halved(gram: Gram, rows: np.ndarray) -> np.ndarray:
    """One of each pair of consecutive rows, such that both halves have nearly the same mean.

    With ψ = Σ ±f over the pairs so far, f = k(a, ·) − k(b, ·), the next pair gets the sign that
    makes ‖ψ‖ smaller, so that ‖ψ‖² ≤ Σ‖f‖²: never worse than signs by chance on average.
    """
    pairs = rows.reshape(-1, 2)
    signs = np.empty(len(pairs))
    for start, stop in spans(len(pairs), PAIRS):
        here = gram.x.take(pairs[start:stop].ravel())
        before = np.repeat(signs[:start], 2) * np.tile([1.0, -1.0], start)
        values = np.zeros(2 * (stop - start))
        if start:
            earlier = gram.x.take(pairs[:start].ravel())
            values = np.asarray(as_numpy(Gram(gram.kernel, here, earlier) @ before), np.float64)
        matrix = np.asarray(as_numpy(Gram(gram.kernel, here).dense()), np.float64)
        matrix = matrix[0::2] - matrix[1::2]
        matrix = matrix[:, 0::2] - matrix[:, 1::2]  # ⟨f_i, f_j⟩ of the pairs
        inner = values[0::2] - values[1::2]  # ⟨ψ, f_i⟩
        for i in range(stop - start):
            signs[start + i] = -1.0 if inner[i] > 0 else 1.0
            inner += signs[start + i] * matrix[i]
    return np.where(signs > 0, pairs[:, 0], pairs[:, 1])
