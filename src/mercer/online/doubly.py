"""Doubly stochastic gradients as a stream: at each step a sample, and random frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import check_count
from mercer.features.frequencies import FrequencySampler
from mercer.kernels.base import Kernel
from mercer.online.features import dense_rows, waves
from mercer.online.machine import GradientMachine
from mercer.online.rounds import Rounds, Settings
from mercer.online.state import (
    GIVEN,
    LOSS_SUM,
    MISTAKES,
    ROUNDS,
    SCALE,
    UNBOUNDED,
    empty_arrays,
)
from mercer.online.stream import seed_of
from mercer.points import PointSet

CHUNK = 64  # steps whose frequencies are drawn together
TINY = 1e-100


class DoublyStream(Rounds):
    """Coefficients of all steps; frequencies are drawn again from the seed whenever needed."""

    def __init__(
        self, kernel: Kernel, settings: Settings, points: PointSet, outputs: int, pairs: int
    ) -> None:
        self.kernel, self.pairs, self.outputs = kernel, pairs, outputs
        self.begin(settings, UNBOUNDED)
        if self.rules.step != GIVEN:
            raise ValueError(
                "DoublyStochasticMachine takes steps that are known in advance, as InverseTime; "
                f"got {settings.step!r}."
            )
        self.points = points.slice(0, 0)
        self.sampler = FrequencySampler(kernel, dense_rows(points.slice(0, 1)).shape[1])
        self.seed = seed_of(settings.random_state)
        self.arrays = empty_arrays(1, outputs, UNBOUNDED, False, 0, 0, 0)
        self.chunks: list[np.ndarray] = []  # (2·pairs·CHUNK, outputs) each

    def frequencies(self, chunk: int) -> np.ndarray:
        """Those of a chunk of steps, as columns, always the same."""
        drawn, _ = self.sampler.block(chunk, CHUNK * self.pairs, self.seed)
        return np.ascontiguousarray(drawn.T)

    def learn(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        """Learn samples in their order; all of them, or none where one is refused."""
        sizes = weights * self.sampler.amplitude
        self._check_steps(self._steps(len(points)), sizes)
        kept = list(self.chunks), self.arrays
        if self.chunks:
            self.chunks[-1] = self.chunks[-1].copy()
        self.arrays = type(self.arrays)(*(array.copy() for array in self.arrays))
        try:
            start = 0
            while start < len(points):
                stop = min(len(points), start + CHUNK - self.rounds % CHUNK)
                part = slice(start, stop)
                self._learn_part(points.slice(start, stop), targets[part], weights[part])
                start = stop
        except BaseException:
            self.chunks, self.arrays = kept
            raise

    def _learn_part(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        """Samples whose new frequencies all belong to one chunk."""
        chunk, reals, integers = self.rounds // CHUNK, self.arrays.reals, self.arrays.integers
        before = self._sums(points, chunk)
        here = waves(points, self.frequencies(chunk))
        if chunk == len(self.chunks):
            self.chunks.append(np.zeros((2 * CHUNK * self.pairs, self.outputs)))
        own, half = self.chunks[chunk], CHUNK * self.pairs
        steps, share = self._steps(len(points)), self.sampler.amplitude / self.pairs
        for i in range(len(points)):
            place = integers[ROUNDS] % CHUNK * self.pairs
            f, y = reals[SCALE] * (before[i] + here[i : i + 1] @ own), targets[i : i + 1]
            value, slope = self._loss_and_slope(y, f)
            self._count(y, f, weights[i] * value)
            factor = max(1.0 - steps[i] * self.rules.regularization, 0.0)
            if factor == 0.0:
                self._clear(before, own)
            else:
                reals[SCALE] *= factor
            push = -steps[i] * weights[i] * slope * share / reals[SCALE]
            for start in (place, half + place):  # the cosines, and the sines
                new = slice(start, start + self.pairs)
                own[new] = here[i, new][:, None] * push
        if integers[ROUNDS] % CHUNK == 0 and reals[SCALE] < TINY:
            self.chunks = [reals[SCALE] * kept for kept in self.chunks]
            reals[SCALE] = 1.0

    def _loss_and_slope(self, y: np.ndarray, f: np.ndarray) -> tuple[float, np.ndarray]:
        loss = self.settings.loss
        value, slope = float(np.sum(loss.value(y, f))), np.asarray(loss.slope(y, f))
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            raise ValueError(
                f"the loss or its slope is not finite at sample {self.rounds + 1} of the "
                "stream: the steps are too long for it. The model is as it was before."
            )
        return value, slope

    def _clear(self, before: np.ndarray, own: np.ndarray) -> None:
        self.chunks = [np.zeros_like(kept) for kept in self.chunks[:-1]] + [own]
        before[:] = own[:] = 0.0
        self.arrays.reals[SCALE] = 1.0

    def _count(self, y: np.ndarray, f: np.ndarray, cost: float) -> None:
        reals, integers = self.arrays.reals, self.arrays.integers
        reals[LOSS_SUM] += cost
        integers[ROUNDS] += 1
        if self.rules.labels:
            alike = (f[0, 0] > 0) == (y[0, 0] > 0) if f.shape[1] == 1 else y[0, f.argmax()] > 0
            integers[MISTAKES] += 0 if alike else 1

    def _sums(self, points: PointSet, chunks: int) -> np.ndarray:
        """Σ_j A_j cos ω_jᵀx + B_j sin ω_jᵀx over the first chunks, each row by itself."""
        from mercer.online.compiled.linear import project

        total = np.zeros((len(points), self.outputs))
        part = np.empty_like(total)
        for chunk in range(chunks):
            project(waves(points, self.frequencies(chunk)), self.chunks[chunk], part)
            total += part
        return total

    def evaluate(self, points: PointSet, flat: bool) -> np.ndarray:
        values = self.arrays.reals[SCALE] * self._sums(points, len(self.chunks))
        values = values.astype(points.dtype)
        return values[:, 0] if flat else values

    @property
    def nbytes(self) -> int:
        """Of all coefficients: they do not depend on the number of columns of the points."""
        return sum(chunk.nbytes for chunk in self.chunks)


class DoublyStochasticMachine(GradientMachine):
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
        As in `OnlineKernelMachine`; steps that are known in advance.
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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        frequencies: int = 4,
        loss: Any = None,
        regularization: float = 1e-4,
        step: Any = None,
        passes: int = 5,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.frequencies = frequencies
        self.loss = loss
        self.regularization = regularization
        self.step = step
        self.passes = passes
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def _new_stream(self, kernel: Kernel, points: PointSet, outputs: int, classes: Any) -> Any:
        check_count(self, "frequencies", self.frequencies)
        settings = self._settings()
        return DoublyStream(kernel, settings, points, outputs, int(self.frequencies))

    def _values(self, points: PointSet) -> np.ndarray:
        return self.stream_.evaluate(points, self._flat)
