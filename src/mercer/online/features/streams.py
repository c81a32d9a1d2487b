"""Streams that learn weights of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import linalg
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.online.features.fourier import FourierFeatures, dense_rows
from mercer.online.rounds import Rounds, Settings
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
from mercer.points import PointSet


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
        super().learn(points, targets, weights)

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
