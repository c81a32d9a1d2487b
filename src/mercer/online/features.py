"""Online learning on features, at a cost that never grows; and on fresh random features.

Random Fourier features, Nyström features of the first points, doubly stochastic gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer import linalg
from mercer.checks import check_count
from mercer.features.frequencies import FrequencySampler
from mercer.functions import FeatureFunction, RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed
from mercer.online.algorithm import Algorithm
from mercer.online.machine import OnlineMachine
from mercer.online.state import BASE_SCALE, COUNT, FEATURES, SCALE, empty_state
from mercer.online.stream import Descent, Expansion, Samples, is_narrow, seed_of
from mercer.online.targets import Targets
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet, is_point_set
from mercer.solvers.schedules import Average

STEPS_OF_A_PAGE = 64  # of doubly stochastic gradients: their frequencies are drawn together


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """φ(x) = √(k(0)/m) (cos ω_jᵀx, sin ω_jᵀx), m frequencies ω_j from the spectral measure of k.

    The mean of ⟨φ(x), φ(y)⟩ over draws is k(x, y). Each of `pages` pages has `groups` such φ, and
    its frequencies are drawn from a seed whenever they are needed; those of a single group are
    stored. What a row gives does not depend on the rows around it.
    """

    kernel: Kernel
    width: int  # columns of x
    count: int  # m
    seed: int
    groups: int = 1
    pages: int = 1

    @cached_property
    def sampler(self) -> FrequencySampler:
        return FrequencySampler(self.kernel, self.width)

    @cached_property
    def _single_group(self) -> np.ndarray:
        return self._drawn(0)

    def _drawn(self, page: int) -> np.ndarray:
        frequencies, _ = self.sampler.block(page, self.count * self.groups, self.seed)
        return np.ascontiguousarray(frequencies.T)

    def frequencies(self, page: int = 0) -> np.ndarray:
        """Those of a page, as columns, always the same."""
        return self._single_group if self.groups == 1 and page == 0 else self._drawn(page)

    @property
    def page_width(self) -> int:
        return 2 * self.count * self.groups

    @property
    def feature_count(self) -> int:
        return self.page_width * self.pages

    def page(self, points: PointSet, page: int = 0) -> np.ndarray:
        """φ(x) of all groups of a page; the cosines and sines of a group lie together."""
        angles = _row_products(dense_rows(points), self.frequencies(page))
        shape = len(angles), self.groups, self.count
        waves = np.empty((len(angles), self.groups, 2, self.count))
        np.cos(angles.reshape(shape), out=waves[:, :, 0])
        np.sin(angles.reshape(shape), out=waves[:, :, 1])
        waves *= math.sqrt(self.sampler.amplitude / self.count)
        return waves.reshape(len(angles), -1)

    def values(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """⟨φ(x), w⟩ for every point and every column of weights, in the precision of the points."""
        points = x if is_point_set(x) else DensePoints(np.asarray(x))
        total = np.zeros((len(points), weights.shape[1]))
        for page in range(self.pages):
            some = np.ascontiguousarray(weights[page * self.page_width :][: self.page_width])
            total += _row_products(self.page(points, page), some)
        return total.astype(points.dtype)

    def same_features(self, other: Any) -> bool:
        """Whether another map has the same frequencies."""
        names = "kernel", "width", "count", "seed", "groups", "pages"
        return isinstance(other, FourierFeatures) and all(
            getattr(self, name) == getattr(other, name) for name in names
        )


def _row_products(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """X A, each row by itself, where BLAS would round differently for other numbers of rows."""
    from mercer.online.compiled.loop import project

    out = np.empty((len(rows), matrix.shape[1]))
    project(rows, matrix, out)
    return out


def dense_rows(points: Any) -> np.ndarray:
    """Rows in float64; sparse ones are made dense, a block at a time."""
    rows = points.rows if hasattr(points, "rows") else None
    if rows is None:
        raise ValueError("random features take vectors; write NystroemMachine for other points.")
    return np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)


# ---- streams -------------------------------------------------------------------------------------


class FourierStream(Descent):
    """f = ⟨w, φ(·)⟩ on random Fourier features; one group, or a new one with every step."""

    def __init__(
        self,
        kernel: Kernel,
        algorithm: Algorithm,
        points: PointSet,
        outputs: int,
        count: int,
        groups: int = 1,
    ) -> None:
        super().__init__(kernel, algorithm, points)
        width = dense_rows(points.slice(0, 1)).shape[1]
        self.map = FourierFeatures(kernel, width, count, seed_of(algorithm), groups)
        self.singly = False
        averaged = algorithm.averaging is not None
        state = empty_state(self.map.page_width, outputs, FEATURES, averaged)
        self._begin(state, FEATURES, 2 * count)

    def _learn_block(self, samples: Samples) -> None:
        values = self.map.page(samples.points)
        norms = np.einsum("ij,ij->i", values, values)
        self._descend(samples._replace(diagonal=norms), values)

    def function(self, flat: bool) -> FeatureFunction:
        weights = self.coefficients()
        return FeatureFunction(self.map, weights[:, 0] if flat else weights)


class DoublyStochasticStream(FourierStream):
    """New frequencies with every step: the state holds the weights of the last page of them.

    Those of full pages only shrink, so that their part of f is computed once for a block.
    """

    def __init__(
        self, kernel: Kernel, algorithm: Algorithm, points: PointSet, outputs: int, count: int
    ) -> None:
        super().__init__(kernel, algorithm, points, outputs, count, STEPS_OF_A_PAGE)
        self.pages: tuple[np.ndarray, ...] = ()

    def _block_length(self) -> int:
        return 1 if self.singly else STEPS_OF_A_PAGE - self.rounds % STEPS_OF_A_PAGE

    def _learn_block(self, samples: Samples) -> None:
        if len(self.pages) < self.rounds // STEPS_OF_A_PAGE:
            self._turn_page()
        base = np.zeros(samples.targets.shape)
        for number, page in enumerate(self.pages):
            base += _row_products(self.map.page(samples.points, number), page)
        self._descend(samples, self.map.page(samples.points, len(self.pages)), base=base)

    def _turn_page(self) -> None:
        """Begin a page; the scale of the full ones is multiplied in here, whatever the blocks."""
        scale = self.state.reals[BASE_SCALE]
        old = self.pages if scale == 1.0 else tuple(scale * page for page in self.pages)
        reals = self.state.reals.copy()
        reals[BASE_SCALE] = 1.0
        state = self.state._replace(reals=reals, a=np.zeros_like(self.state.a))
        self.__dict__.update(pages=(*old, self.state.a), state=state)

    def function(self, flat: bool) -> FeatureFunction:
        reals = self.state.reals
        old = [reals[SCALE] * reals[BASE_SCALE] * page for page in self.pages]
        weights = np.concatenate([*old, reals[SCALE] * self.state.a])
        features = replace(self.map, pages=len(self.pages) + 1)
        return FeatureFunction(features, weights[:, 0] if flat else weights)


class NystroemStream(Expansion):
    """The first samples are learned as bumps and become the centres S; then weights are learned.

    φ(x) = K_SS^{−1/2} k(S, x), so f = Σ a_i k(s_i, ·) goes on as w = K_SS^{1/2} a, without a jump.
    """

    def __init__(
        self, kernel: Kernel, algorithm: Algorithm, points: PointSet, outputs: int, size: int
    ) -> None:
        super().__init__(kernel, algorithm, points, outputs)
        self.size = size
        self.inverse_root: np.ndarray | None = None

    def _block_length(self) -> int:
        left = self.size - self.rounds
        return super()._block_length() if left <= 0 else min(super()._block_length(), left)

    def _learn_block(self, samples: Samples) -> None:
        if self.rounds < self.size:
            super()._learn_block(samples)
            return
        if self.inverse_root is None:
            self._fix_centres()
        kernel_values = Gram(self.kernel, samples.points, self.points).dense().astype(np.float64)
        values = _row_products(kernel_values, np.asarray(self.inverse_root))
        norms = np.einsum("ij,ij->i", values, values)
        self._descend(samples._replace(diagonal=norms), values)

    def _keep_centres(self) -> None:
        """All samples are centres, those that left no bump too."""
        self.points = self.points.slice(0, self.rounds)

    def _fix_centres(self) -> None:
        """From bumps to features: from now on f moves in the span of the points there are."""
        size, before = len(self.points), self.state
        values, vectors = linalg.eigen(Gram(self.kernel, self.points).dense().astype(np.float64))
        used = values > size * np.finfo(np.float64).eps * values[-1]
        roots = np.sqrt(np.where(used, values, 1.0))
        root = (vectors * np.where(used, roots, 0.0)) @ vectors.T
        inverse = np.ascontiguousarray((vectors * np.where(used, 1.0 / roots, 0.0)) @ vectors.T)
        state = empty_state(size, self.outputs, FEATURES, len(before.b) > 0)
        columns, integers = before.columns[: before.length], before.integers.copy()
        integers[COUNT] = size
        state = state._replace(reals=before.reals.copy(), integers=integers)
        for new, old in ((state.a, before.a), (state.b, before.b)):
            if len(new):
                new[:] = root[:, columns] @ old[: before.length]
        self.__dict__.update(
            state=state,
            rules=self.algorithm.rules(FEATURES, size),
            inverse_root=inverse,
            scales=None,
            singly=self.singly or not is_narrow(self.kernel, self.points),
        )

    def function(self, flat: bool) -> RKHSFunction:
        if self.inverse_root is None:
            return super().function(flat)
        coefficients = (self.inverse_root @ self.coefficients()).astype(self.points.dtype)
        return RKHSFunction(self.kernel, self.points, coefficients[:, 0] if flat else coefficients)


# ---- machines ------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class RandomFeatureMachine(OnlineMachine):
    """Online learning on random Fourier features: w ← (1 − ηλ)w − η ℓ'(y, ⟨w, φ(x)⟩) φ(x).

    Stationary kernels on vectors. Time and memory for a sample are those of `n_components`
    features, whatever the length of the stream.

    Parameters
    ----------
    kernel : Kernel or str, default="rbf"
    n_components : int, default=200
        The number of features: cosines and sines of half as many random frequencies.
    loss, regularization, step, averaging, passes, record, gamma, degree, coef0 :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `OnlineKernelMachine`.
    random_state : int, Generator or None, default=None
        The same number gives the same frequencies.

    References
    ----------
    J. Lu, S. C. H. Hoi, J. Wang, P. Zhao, Z.-Y. Liu, Large scale online kernel learning, 2016.

    Examples
    --------
    >>> m = RandomFeatureMachine(gamma=1.0, n_components=500, random_state=0)
    >>> m.fit([[0.0], [1.0]], [0, 1]).predict([[0.1], [0.9]]).tolist()
    [0, 1]
    """

    n_components: int = 200
    loss: Any = None
    regularization: float = 1e-4
    step: Any = None
    averaging: Average | None = None
    record: bool = False
    random_state: Seed = None

    def _begin(self, kernel: Kernel, points: PointSet, targets: Targets) -> FourierStream:
        check_count(self, "n_components", self.n_components)
        pairs = (self.n_components + 1) // 2
        return FourierStream(kernel, self._algorithm(targets.loss), points, targets.outputs, pairs)


@dataclass(eq=False, repr=False, kw_only=True)
class NystroemMachine(OnlineMachine):
    """Online learning on Nyström features of the first points of the stream. Any kernel.

    The first `size` samples are learned as bumps, and stay as centres; then f moves in their span,
    at the cost of size² for a sample, whatever the length of the stream.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    size : int, default=100
        The number of centres.
    loss, regularization, step, averaging, passes, record, gamma, degree, coef0 :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `OnlineKernelMachine`.

    References
    ----------
    J. Lu, S. C. H. Hoi, J. Wang, P. Zhao, Z.-Y. Liu, Large scale online kernel learning, 2016.

    Examples
    --------
    >>> m = NystroemMachine(gamma=1.0, size=2).fit([[0.0], [1.0], [0.9]], [0, 1, 1])
    >>> len(m.function_), m.predict([[0.1]]).tolist()
    (2, [0])
    """

    size: int = 100
    loss: Any = None
    regularization: float = 1e-4
    step: Any = None
    averaging: Average | None = None
    record: bool = False

    def _begin(self, kernel: Kernel, points: PointSet, targets: Targets) -> NystroemStream:
        check_count(self, "size", self.size)
        return NystroemStream(
            kernel, self._algorithm(targets.loss), points, targets.outputs, int(self.size)
        )


@dataclass(eq=False, repr=False, kw_only=True)
class DoublyStochasticMachine(OnlineMachine):
    """f ← (1 − ηλ)f − η ℓ'(y, f(x)) k̂_t(x, ·) with a fresh random estimate k̂_t of the kernel.

    k̂_t(x, x') = (k(0)/m) Σ_j cos ω_jᵀ(x − x') for m new frequencies, so f is a sum of waves whose
    frequencies are not stored but drawn again from the seed: memory is that of the coefficients,
    2m for each step and output, whatever the number of columns. A step costs as much as all steps
    before it together, as in every method that neither drops nor merges.

    Parameters
    ----------
    kernel : Kernel or str, default="rbf"
        Stationary.
    frequencies : int, default=4
        m, the number of new frequencies in a step.
    loss, regularization, step, passes, gamma, degree, coef0 :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `OnlineKernelMachine`.
    random_state : int, Generator or None, default=None

    References
    ----------
    B. Dai et al., Scalable kernel methods via doubly stochastic gradients, 2014.

    Examples
    --------
    >>> m = DoublyStochasticMachine(gamma=1.0, frequencies=200, random_state=0)
    >>> m.fit([[0.0], [1.0]], [0, 1]).predict([[0.1], [0.9]]).tolist()
    [0, 1]
    """

    frequencies: int = 4
    loss: Any = None
    regularization: float = 1e-4
    step: Any = None
    random_state: Seed = None

    def _begin(self, kernel: Kernel, points: PointSet, targets: Targets) -> DoublyStochasticStream:
        check_count(self, "frequencies", self.frequencies)
        return DoublyStochasticStream(
            kernel, self._algorithm(targets.loss), points, targets.outputs, int(self.frequencies)
        )
