"""Kernel recursive least squares: ridge regression that is right after every sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer.checks import check_count, check_nonnegative, check_positive
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.losses import Loss, Squared
from mercer.online.machine import OnlineMachine
from mercer.online.state import block_of, padded
from mercer.online.stream import TUNING, Samples, Stream
from mercer.online.targets import Targets
from mercer.points import PointSet

MOST_NEW_ROWS = 4096  # the factor doubles its room, but gains at most so many rows at once


class Recursion(NamedTuple):
    """The state, which changes with each sample."""

    reals: np.ndarray  # the sum of losses
    integers: np.ndarray  # the number of centres, and of rounds
    factor: np.ndarray  # upper Cholesky factor, (capacity, capacity)
    base: np.ndarray  # that of the dictionary's Gram matrix, where points are admitted by tolerance
    right: np.ndarray  # (outputs, capacity)
    targets: np.ndarray  # (capacity, outputs)
    columns: np.ndarray  # where a centre stands among the points of the stream

    @property
    def length(self) -> int:
        """The number of centres."""
        return int(self.integers[0])


class RecursiveStream(Stream):
    """The state of recursive least squares."""

    state: Recursion
    offset, mistakes, recorded = 0.0, 0, None  # what other streams have beside

    def __init__(
        self,
        kernel: Kernel,
        points: PointSet,
        outputs: int,
        alpha: float,
        tolerance: float,
        window: int | None,
    ) -> None:
        super().__init__(kernel, points)
        self.alpha, self.tolerance, self.window = float(alpha), float(tolerance), int(window or 0)
        self.refuses_first = not self.window  # the oldest sample leaves before
        capacity = self.window or TUNING.block
        sparse = capacity if tolerance > 0 else 0
        self.state = Recursion(
            np.zeros(1),
            np.zeros(2, np.int64),
            np.zeros((capacity, capacity)),
            np.zeros((sparse, sparse)),
            np.zeros((outputs, capacity)),
            np.zeros((capacity, outputs)),
            np.arange(capacity),
        )

    def _learn_block(self, samples: Samples) -> None:
        from mercer.online.compiled.recursive import recursive_learn

        points, targets, weights, diagonal = samples
        n, nothing = len(points), np.zeros(0)
        if not self.window:
            self._make_room(self.count + n)
        parts = self._values(points), diagonal, targets, weights, nothing, nothing
        block = block_of(*parts, known=len(self.points))
        self.points = self.points.concatenated(points)
        try:
            learned = recursive_learn(self.state, block, self.alpha, self.tolerance, self.window)
        finally:
            self._keep_centres()
        if learned < n:
            raise ValueError(
                f"alpha = {self.alpha:g} is lost in rounding beside the kernel values: K + αI is "
                "not positive definite to working precision. Write a larger alpha, or a tolerance."
            )

    def _copied_state(self) -> Recursion:
        """Without a window or a tolerance nothing changes but what lies beyond the centres."""
        if self.window or self.tolerance > 0:
            return super()._copied_state()
        small = {name: getattr(self.state, name).copy() for name in ("reals", "integers")}
        return self.state._replace(**small, columns=self.state.columns.copy())

    def _make_room(self, needed: int) -> None:
        state, capacity = self.state, len(self.state.columns)
        if needed <= capacity:
            return
        size = max(needed, min(2 * capacity, capacity + MOST_NEW_ROWS))
        self.state = state._replace(
            factor=padded(state.factor, (size, size)),
            base=padded(state.base, (size, size)) if len(state.base) else state.base,
            right=padded(state.right, (self.outputs, size)),
            targets=padded(state.targets, (size, self.outputs)),
            columns=padded(state.columns, (size,)),
        )

    def function(self, flat: bool) -> RKHSFunction:
        """f; with `flat`, coefficients are numbers, not rows."""
        from mercer.online.compiled.recursive import recursive_coefficients

        columns = recursive_coefficients(self.state, self.tolerance > 0)
        coefficients = columns.T.astype(self.points.dtype)
        return RKHSFunction(self.kernel, self.points, coefficients[:, 0] if flat else coefficients)

    @property
    def outputs(self) -> int:
        return int(self.state.targets.shape[1])

    @property
    def rounds(self) -> int:
        return int(self.state.integers[1])

    @property
    def cumulative_loss(self) -> float:
        return float(self.state.reals[0])


@dataclass(eq=False, repr=False, kw_only=True)
class KernelRecursiveLeastSquares(OnlineMachine):
    """Ridge regression after every sample: min over f of Σ_t w_t (y_t − f(x_t))² + α‖f‖².

    With tolerance 0 this is `KernelRidge(alpha)` on all samples so far, or on the last `window`:
    the Cholesky factor of K + αI gains a row with each sample and loses one with each that leaves,
    at the cost of the square of their number. With a tolerance, only points that are not nearly a
    combination of the dictionary join it, k(x, x) − ‖projection‖² > tolerance·k(x, x); the others
    count as their projections, and the cost of a sample is the square of the dictionary's size.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    alpha : float, default=1.0
        α > 0, the total ridge; mercer's λ is α/n.
    tolerance : float, default=0.0
        0 admits all points.
    window : int or None, default=None
        How many of the newest samples count; None for all. It goes with tolerance 0.
    passes : int, default=1
        How often `fit` goes through its rows.
    gamma, degree, coef0 :
        Parameters of named kernels, as in scikit-learn.

    References
    ----------
    Y. Engel, S. Mannor, R. Meir, The kernel recursive least-squares algorithm, 2004.
    S. Van Vaerenbergh, J. Vía, I. Santamaría, A sliding-window kernel RLS algorithm, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> X, y = np.arange(5.0)[:, None], np.array([0.0, 1.0, 0.0, -1.0, 0.0])
    >>> m = (
    ...     KernelRecursiveLeastSquares(alpha=0.1)
    ...     .partial_fit(X[:3], y[:3])
    ...     .partial_fit(X[3:], y[3:])
    ... )
    >>> bool(np.allclose(m.predict(X), KernelRidge(0.1, kernel="rbf").fit(X, y).predict(X)))
    True
    """

    alpha: float = 1.0
    tolerance: float = 0.0
    window: int | None = None
    passes: int = 1

    def _loss(self, classes: int = 2) -> Loss:
        return Squared()

    def _begin(self, kernel: Kernel, points: PointSet, targets: Targets) -> RecursiveStream:
        check_positive(self, "alpha", self.alpha)
        check_nonnegative(self, "tolerance", self.tolerance)
        if self.window is not None:
            check_count(self, "window", self.window)
            if self.tolerance > 0:
                raise ValueError(
                    "a window forgets samples, a tolerance merges them into the dictionary: give "
                    f"one of them; got window={self.window!r} and tolerance={self.tolerance!r}."
                )
        options = self.alpha, self.tolerance, self.window
        return RecursiveStream(kernel, points, targets.outputs, *options)
