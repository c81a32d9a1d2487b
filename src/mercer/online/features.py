"""Online learning on features: random Fourier features, Nyström features of the first points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer import linalg
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.laws import spectral_density
from mercer.losses import Hinge
from mercer.online.machine import OnlineMachine
from mercer.online.rounds import Rounds, Settings
from mercer.online.schedules import Average, InverseSquareRoot
from mercer.online.state import (
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    FOREIGN,
    SCALE,
    UNBOUNDED,
    Arrays,
    block_of,
    empty_arrays,
)
from mercer.online.stream import BLOCK, Centres, Stream, seed_of
from mercer.points import DensePoints, PointSet
from mercer.solvers.schedules import check_count


class FourierFeatures:
    """φ(x) = √(k(0)/m) (cos ω_jᵀx, sin ω_jᵀx), ω_j from the spectral measure of a kernel.

    The mean of ⟨φ(x), φ(y)⟩ over draws is k(x, y). What a row gives does not depend on the rows
    around it.
    """

    def __init__(self, kernel: Kernel, width: int, count: int, seed: int) -> None:
        measure = measure_of(kernel, width)
        frequencies = measure.sample((count + 1) // 2, np.random.default_rng(seed))
        self.frequencies = np.ascontiguousarray(frequencies.T)
        self.amplitude = math.sqrt(measure.total / frequencies.shape[0])

    @property
    def feature_count(self) -> int:
        return 2 * self.frequencies.shape[1]

    def __call__(self, points: PointSet) -> np.ndarray:
        return self.amplitude * waves(points, self.frequencies)

    def values(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """⟨φ(x), w⟩ for every point and every column of weights."""
        points = x if isinstance(x, PointSet) else DensePoints(np.asarray(x))
        return self(points) @ weights

    def same_features(self, other: Any) -> bool:
        """Whether another map has the same frequencies."""
        same = isinstance(other, FourierFeatures)
        return same and np.array_equal(self.frequencies, other.frequencies)


def measure_of(kernel: Kernel, width: int) -> Any:
    """The spectral measure of a stationary kernel; others are refused."""
    answer = spectral_density(kernel, dimension=width)
    if answer.payload is None:
        raise ValueError(
            f"{kernel!r} has no spectral measure that is known ({answer}): random features take a "
            "stationary kernel, as Gaussian. Write NystroemMachine for others."
        )
    return answer.payload


def waves(points: PointSet, frequencies: np.ndarray) -> np.ndarray:
    """cos and sin of ω_jᵀx, side by side."""
    from mercer.online.compiled.linear import project

    rows = dense_rows(points)
    count = frequencies.shape[1]
    out = np.empty((len(rows), 2 * count))
    angles = np.empty((len(rows), count))
    project(rows, frequencies, angles)
    np.cos(angles, out=out[:, :count])
    np.sin(angles, out=out[:, count:])
    return out


def dense_rows(points: Any) -> np.ndarray:
    """Rows in float64; sparse ones are made dense, a block at a time."""
    rows = points.rows if hasattr(points, "rows") else None
    if rows is None:
        raise ValueError("random features take vectors; write NystroemMachine for other points.")
    return np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)


class FeatureStream(Rounds, Centres):
    """f = ⟨w, φ(·)⟩: weights instead of bumps. A subclass says what φ is."""

    def __init__(
        self, kernel: Kernel, settings: Settings, points: PointSet, outputs: int, count: int
    ) -> None:
        super().__init__(kernel, points)
        self.begin(settings, UNBOUNDED)
        if self.rules.loss == FOREIGN:
            raise ValueError(
                f"machines on features are compiled for the losses of mercer; got {settings.loss!r}"
                "."
            )
        averaged = settings.averaging is not None
        empty = empty_arrays(1, outputs, UNBOUNDED, averaged, 0, 0, 0)
        self.arrays: Arrays = empty._replace(
            a=np.zeros((outputs, count)), b=np.zeros((outputs if averaged else 0, count))
        )

    def features(self, points: PointSet) -> np.ndarray:
        raise NotImplementedError

    def learn(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        self._check_steps(self._steps(len(points)), weights * self.diagonal(points))
        before = len(self.recorded) if self.recorded is not None else 0
        try:
            super().learn(points, targets, weights)
        except BaseException:
            if self.recorded is not None:
                self.recorded.cut(before)
            raise

    def _length(self) -> int:
        return 1 if self.alone else BLOCK

    def _learn_block(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        from mercer.online.compiled.linear import feature_walk

        n, values = len(points), self.features(points)
        norms = np.einsum("ij,ij->i", values, values)
        block = block_of(values, norms, targets, weights, self._steps(n), self._averaging(n))
        if feature_walk(self.arrays, block, self.rules) < n:
            raise ValueError(
                f"the loss or its slope is not finite at sample {self.rounds + 1} of the stream: "
                "the steps are too long for it. Shorten them; the model is as it was before."
            )
        if self.recorded is not None:
            self.recorded.add(points, block)

    @property
    def outputs(self) -> int:
        return int(self.arrays.a.shape[0])

    def coefficients(self) -> np.ndarray:
        """w, a column for each output: of the last f, or of the average."""
        reals = self.arrays.reals
        if self.settings.averaging is None or not reals[AVERAGE_WEIGHT]:
            return (reals[SCALE] * self.arrays.a).T
        total = self.arrays.a * reals[AVERAGE_SCALE] + self.arrays.b
        return (total / reals[AVERAGE_WEIGHT]).T

    def evaluate(self, points: PointSet, flat: bool) -> np.ndarray:
        """f(x) at every point, a block at a time."""
        weights = self.coefficients()
        blocks = [
            self.features(points.slice(i, min(i + BLOCK, len(points)))) @ weights
            for i in range(0, len(points), BLOCK)
        ]
        values = np.concatenate(blocks).astype(points.dtype)
        return values[:, 0] if flat else values


class FourierStream(FeatureStream):
    """The stream of `RandomFeatureMachine`."""

    def __init__(
        self, kernel: Kernel, settings: Settings, points: PointSet, outputs: int, count: int
    ) -> None:
        width = dense_rows(points.slice(0, 1)).shape[1]
        self.map = FourierFeatures(kernel, width, count, seed_of(settings.random_state))
        super().__init__(kernel, settings, points, outputs, self.map.feature_count)
        self.alone = False

    def features(self, points: PointSet) -> np.ndarray:
        return self.map(points)


class NystroemStream:
    """The first samples are learned as bumps and become the centres; then weights are learned.

    φ(x) = K_SS^{−1/2} k(S, x), so f = Σ a_i k(s_i, ·) goes on as w = K_SS^{1/2} a, without a jump.
    """

    def __init__(
        self, kernel: Kernel, settings: Settings, points: PointSet, outputs: int, size: int
    ) -> None:
        self.kernel, self.settings, self.size = kernel, settings, size
        self.first = Stream(kernel, settings, points, outputs)
        self.seen = points.slice(0, 0)
        self.second: _OnCentres | None = None

    def learn(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        kept = self.first.points, self.first.arrays, self.seen, self.second
        blocks = len(self.first.recorded) if self.first.recorded is not None else 0
        here = min(self.size - len(self.seen), len(points))
        try:
            if here:
                self.first.learn(points.slice(0, here), targets[:here], weights[:here])
                self.seen = self.seen.concatenated(points.slice(0, here))
                if len(self.seen) == self.size:
                    self.second = _OnCentres(self.first, self.seen)
            if here < len(points):
                assert self.second is not None
                rest = points.slice(here, len(points))
                self.second.learn(rest, targets[here:], weights[here:])
        except BaseException:
            self.first.points, self.first.arrays, self.seen, self.second = kept
            if self.first.recorded is not None and here:
                self.first.recorded.cut(blocks)
            raise

    @property
    def now(self) -> Any:
        """The part that is learning."""
        return self.first if self.second is None else self.second

    def __getattr__(self, name: str) -> Any:
        if name in ("first", "second", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.now, name)


class _OnCentres(FeatureStream):
    """Nyström features on the points a first stream has seen, continuing its function."""

    def __init__(self, first: Stream, seen: PointSet) -> None:
        from mercer.operators import Gram

        super().__init__(first.kernel, first.settings, seen, first.outputs, len(seen))
        self.centres = seen
        values, vectors = linalg.eigen(Gram(first.kernel, seen).dense().astype(np.float64))
        kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
        roots = np.sqrt(np.where(kept, values, 1.0))
        self.inverse = np.ascontiguousarray(
            (vectors * np.where(kept, 1.0 / roots, 0.0)) @ vectors.T
        )
        root = (vectors * np.where(kept, roots, 0.0)) @ vectors.T
        for name in ("reals", "integers"):
            getattr(self.arrays, name)[:] = getattr(first.arrays, name)
        born = first.arrays.ages[: first.arrays.held] - 1  # the samples that left a bump
        for target, source in ((self.arrays.a, first.arrays.a), (self.arrays.b, first.arrays.b)):
            if len(target):
                target[:] = (root[:, born] @ source[: first.arrays.held]).T
        self.recorded = first.recorded

    def features(self, points: PointSet) -> np.ndarray:
        from mercer.online.compiled.linear import project
        from mercer.operators import Gram

        rows = Gram(self.kernel, points, self.centres).dense().astype(np.float64)
        out = np.empty_like(rows)
        project(rows, self.inverse, out)
        return out

    def function(self, flat: bool) -> RKHSFunction:
        found = (self.inverse @ self.coefficients()).astype(self.centres.dtype)
        return RKHSFunction(self.kernel, self.centres, found[:, 0] if flat else found)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.inverse.nbytes


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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        n_components: int = 200,
        loss: Any = None,
        regularization: float = 1e-4,
        step: Any = None,
        averaging: Average | None = None,
        passes: int = 5,
        record: bool = False,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.loss = loss
        self.regularization = regularization
        self.step = step
        self.averaging = averaging
        self.passes = passes
        self.record = record
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def _settings(self, classes: int | None = None) -> Settings:
        return Settings(
            self._loss(),
            self.regularization,
            InverseSquareRoot(1.0) if self.step is None else self.step,
            None,
            self.averaging,
            self.random_state,
            self.record,
        )

    def _loss(self, classes: int | None = None) -> Any:
        return Hinge() if self.loss is None else self.loss

    def _new_stream(self, kernel: Kernel, points: PointSet, outputs: int, classes: Any) -> Any:
        check_count(self, "n_components", self.n_components)
        return FourierStream(kernel, self._settings(), points, outputs, self.n_components)

    def _values(self, points: PointSet) -> np.ndarray:
        return self.stream_.evaluate(points, self._flat)


class NystroemMachine(OnlineMachine):
    """Online learning on Nyström features of the first points of the stream. Any kernel.

    The first `size` samples are learned as bumps, and stay as centres; then f moves in their span,
    at the cost of `size`² for a sample, whatever the length of the stream.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    size : int, default=100
        The number of centres.
    loss, regularization, step, averaging, passes, record, gamma, degree, coef0 :
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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        size: int = 100,
        loss: Any = None,
        regularization: float = 1e-4,
        step: Any = None,
        averaging: Average | None = None,
        passes: int = 5,
        record: bool = False,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
    ) -> None:
        self.kernel = kernel
        self.size = size
        self.loss = loss
        self.regularization = regularization
        self.step = step
        self.averaging = averaging
        self.passes = passes
        self.record = record
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def _settings(self, classes: int | None = None) -> Settings:
        step = InverseSquareRoot(1.0) if self.step is None else self.step
        return Settings(
            self._loss(), self.regularization, step, None, self.averaging, None, self.record
        )

    def _loss(self, classes: int | None = None) -> Any:
        return Hinge() if self.loss is None else self.loss

    def _new_stream(self, kernel: Kernel, points: PointSet, outputs: int, classes: Any) -> Any:
        check_count(self, "size", self.size)
        return NystroemStream(kernel, self._settings(), points, outputs, int(self.size))
