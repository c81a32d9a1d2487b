"""Centres drawn from a law: uniform, by distance, by leverage; or given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer import linalg
from mercer.checks import check_positive
from mercer.features.centres.choice import Centres, Choice, chosen, cross_block, over_blocks
from mercer.features.centres.pivoted import candidate_count
from mercer.kernels.base import Kernel
from mercer.kernels.laws.measures import Seed, generator
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.values import Value


@dataclass(frozen=True)
class Uniform(Choice):
    """Every set of `count` points with the same probability.

    With an int as `random_state` these are the points that scikit-learn's `Nystroem` takes.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> len(set(Uniform(3, random_state=0).choose(Gaussian(), [[0.0], [1.0], [2.0]]).indices))
    3
    """

    random_state: Seed = None

    def _choose(self, kernel: Kernel, x: PointSet) -> Centres:
        seed = self.random_state
        if isinstance(seed, np.random.Generator):
            seed = np.random.RandomState(seed.integers(2**31))
        order = check_random_state(seed).permutation(len(x))
        return chosen(kernel, x, order[: self.count])


@dataclass(frozen=True)
class Given(Value):
    """Centres that the user knows: their row numbers, or the points themselves.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> centres = Given(indices=[0, 2]).choose(Gaussian(), [[0.0], [1.0], [2.0]])
    >>> centres.points.data.ravel().tolist()
    [0.0, 2.0]
    """

    points: Any = None
    indices: Any = None

    def __post_init__(self) -> None:
        if (self.points is None) == (self.indices is None):
            raise ValueError(
                "Given takes the centres as points or as row numbers: write Given(points) or "
                "Given(indices=[0, 5, 9])."
            )

    def choose(self, kernel: Kernel, points: Any) -> Centres:
        """The centres as the kernel's points."""
        x = kernel.points(points)
        if self.indices is None:
            return Centres(kernel, kernel.points(self.points), None, x)
        numbers = np.asarray(self.indices)
        if numbers.ndim != 1 or not len(numbers) or numbers.dtype.kind not in "iu":
            raise ValueError(f"indices are a list of row numbers; got {self.indices!r}.")
        if numbers.min() < 0 or numbers.max() >= len(x):
            raise ValueError(
                f"row numbers lie between 0 and {len(x) - 1}; got {numbers.min()} to "
                f"{numbers.max()}."
            )
        return chosen(kernel, x, numbers)


@dataclass(frozen=True)
class KMeansPlusPlus(Choice):
    """The next centre is x with probability ∝ its squared distance from the nearest centre.

    Distances are those of the kernel, ‖k(x, ·) − k(c, ·)‖² = k(x, x) − 2k(x, c) + k(c, c), so that
    it works for points of every kind and spreads centres as the kernel sees them. The first one is
    uniform. Blocks with rejection give the law of one at a time.

    References
    ----------
    Arthur and Vassilvitskii, k-means++: the advantages of careful seeding, 2007.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> X = [[0.0], [0.0], [0.0], [5.0]]
    >>> indices = KMeansPlusPlus(2, random_state=0).choose(Gaussian(), X).indices
    >>> 3 in indices  # the point that the others do not stand for
    True
    """

    random_state: Seed = None

    def _choose(self, kernel: Kernel, x: PointSet) -> Centres:
        random = generator(self.random_state)
        own = Gram(kernel, x).diagonal().astype(np.float64)
        indices = [int(random.integers(len(x)))]
        distances = np.full(len(x), np.inf)
        _approach(kernel, x, own, indices, distances)
        negligible = float(np.finfo(x.dtype).eps) * own.max(initial=0.0)
        while len(indices) < self.count and distances.max() > negligible:
            fresh = self._block(kernel, x, own, distances, random)[: self.count - len(indices)]
            _approach(kernel, x, own, fresh, distances)
            indices += fresh
        return chosen(kernel, x, indices)

    def _block(
        self,
        kernel: Kernel,
        x: PointSet,
        own: np.ndarray,
        distances: np.ndarray,
        random: np.random.Generator,
    ) -> list[int]:
        draws = random.choice(len(x), candidate_count(self.count), p=distances / distances.sum())
        values = Gram(kernel, x.take(draws)).dense().astype(np.float64)
        between = np.maximum(own[draws][:, None] + own[draws] - 2.0 * values, 0.0)
        now, before = distances[draws].copy(), distances[draws]
        accepted = []
        for i, chance in enumerate(random.random(len(draws))):
            if chance * before[i] < now[i]:
                accepted.append(int(draws[i]))
                now = np.minimum(now, between[i])
                now[draws == draws[i]] = 0.0
        return accepted


def _approach(
    kernel: Kernel, x: PointSet, own: np.ndarray, fresh: list[int], distances: np.ndarray
) -> None:
    """Lower the distances to what they are with new centres."""
    centres = x.take(np.asarray(fresh))

    def lower(span: tuple[int, int]) -> None:
        part = slice(*span)
        values = cross_block(kernel, x, span, centres).astype(np.float64)
        between = own[part, None] + own[fresh] - 2.0 * values
        np.minimum(distances[part], np.maximum(between.min(axis=1), 0.0), out=distances[part])

    over_blocks(kernel, len(x), lower)
    distances[fresh] = 0.0


@dataclass(frozen=True)
class LeverageScores(Choice):
    """Points drawn by approximate ridge leverage scores, ℓ_i ≈ (K(K + nλI)⁻¹)_ii.

    The score says how hard it is to predict k(x_i, ·) from the others. It is estimated by
    recursion: a random half of the points is treated first, a weighted sample of it then gives the
    scores of twice as many points. Costs O(n·count) kernel values and O(n·count²) operations.

    Parameters
    ----------
    count : int
    regularization : float, optional
        λ; by default the one at which about count/(4 log count) directions of K matter.
    random_state : int, Generator, RandomState or None

    References
    ----------
    Musco and Musco, Recursive sampling for the Nyström method, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.append(np.zeros(99), 5.0)[:, None]
    >>> scores = LeverageScores(4, random_state=0).choose(Gaussian(), X).scores
    >>> int(np.argmax(scores))  # nothing else is like the last point
    99
    """

    regularization: float | None = None
    random_state: Seed = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regularization is not None:
            check_positive(self, "regularization", self.regularization)

    def _choose(self, kernel: Kernel, x: PointSet) -> Centres:
        random = generator(self.random_state)
        n, count = len(x), min(self.count, len(x))
        order = random.permutation(n)
        sizes = [n]
        while sizes[-1] > count:
            sizes.append(math.ceil(sizes[-1] / 2))
        sample, weights = order[: sizes[-1]], np.ones(sizes[-1])
        scores = np.ones(n)
        for size in sizes[-2::-1]:
            rows = order[:size] if size < n else np.arange(n)
            scores = self._scores(kernel, x, rows, sample, weights)
            if size < n:
                sample, weights = self._weighted_sample(rows, scores, random)
        indices = random.choice(n, count, replace=False, p=scores / scores.sum())
        return chosen(kernel, x, indices, scores=scores)

    def _weighted_sample(
        self, rows: np.ndarray, scores: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Each row with its own probability, weighted by one over it."""
        chances = np.minimum(1.0, math.log(self.count + 2.0) * scores)
        kept = np.flatnonzero(random.random(len(rows)) < chances)
        if not len(kept):
            kept = random.choice(len(rows), min(self.count, len(rows)), replace=False)
            return rows[kept], np.ones(len(kept))
        return rows[kept], 1.0 / np.sqrt(chances[kept])

    def _scores(
        self,
        kernel: Kernel,
        x: PointSet,
        rows: np.ndarray,
        sample: np.ndarray,
        weights: np.ndarray,
    ) -> np.ndarray:
        """ℓ_i ≈ (k_ii − k_iS W(W K_SS W + ρI)⁻¹W k_Si)/ρ, with ρ = nλ."""
        centres = x.take(sample)
        matrix = weights[:, None] * Gram(kernel, centres).dense().astype(np.float64) * weights
        ridge = self._ridge(matrix, len(x))
        factor = linalg.cholesky(matrix + ridge * np.eye(len(matrix)), overwrite=True)
        rest = np.empty(len(rows))

        def fill(span: tuple[int, int]) -> None:
            points = x.take(rows[slice(*span)])
            block = Gram(kernel, points, centres).dense().astype(np.float64)
            half = factor.half_solve((block * weights).T)
            captured = np.einsum("ij,ij->j", half, half)
            rest[slice(*span)] = Gram(kernel, points).diagonal() - captured

        over_blocks(kernel, len(rows), fill)
        return np.clip(rest / ridge, np.finfo(np.float64).tiny, 1.0)

    def _ridge(self, matrix: np.ndarray, n: int) -> float:
        """nλ: given, or the mean over k of the eigenvalues after the first k."""
        trace = float(np.trace(matrix))
        if self.regularization is not None:
            return float(self.regularization) * n
        k = math.ceil(self.count / (4.0 * math.log(self.count + 2.0)))
        values = np.linalg.eigvalsh(matrix)[::-1]
        tail = trace - float(values[:k].sum())
        return max(tail / k, 1e-12 * trace, np.finfo(np.float64).tiny)
