"""Kernel recursive least squares: ridge regression that is right after every sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.checks import check_count, check_nonnegative, check_positive
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.losses import Squared
from mercer.online.base import OnlineMachine
from mercer.online.state import block_of, padded
from mercer.online.stream import BLOCK, BLOCK_BYTES, Centres
from mercer.points import PointSet


class Recursion(NamedTuple):
    """What changes with each sample."""

    reals: np.ndarray  # the sum of losses
    integers: np.ndarray  # the number of centres, and of rounds
    factor: np.ndarray  # upper Cholesky factor, (capacity, capacity)
    base: np.ndarray  # that of the dictionary's Gram matrix, where points are admitted by tolerance
    right: np.ndarray  # (outputs, capacity)
    targets: np.ndarray  # (capacity, outputs)
    columns: np.ndarray


class RecursiveStream(Centres):
    """The state of recursive least squares."""

    recorded = None
    offset = 0.0
    mistakes = 0

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
        capacity = self.window if self.window else BLOCK
        sparse = capacity if tolerance > 0 else 0
        self.arrays = Recursion(
            np.zeros(1),
            np.zeros(2, np.int64),
            np.zeros((capacity, capacity)),
            np.zeros((sparse, sparse)),
            np.zeros((outputs, capacity)),
            np.zeros((capacity, outputs)),
            np.zeros(capacity, np.int64),
        )

    @property
    def outputs(self) -> int:
        return self.arrays.targets.shape[1]

    @property
    def count(self) -> int:
        return int(self.arrays.integers[0])

    @property
    def rounds(self) -> int:
        return int(self.arrays.integers[1])

    @property
    def cumulative_loss(self) -> float:
        return float(self.arrays.reals[0])

    def _length(self) -> int:
        room = BLOCK_BYTES // (8 * (self.count + BLOCK))
        return 1 if self.alone else max(1, min(BLOCK, room))

    def _learn_block(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        from mercer.online.compiled.recursive import recursive_walk

        n = len(points)
        if not self.window:
            self._make_room(self.count + n)
        values, nothing = self.values(points), np.zeros(0)
        block = block_of(values, self.diagonal(points), targets, weights, nothing, nothing)
        taken = recursive_walk(self.arrays, block, self.alpha, self.tolerance, self.window)
        if taken < n:
            raise ValueError(
                f"alpha = {self.alpha:g} is lost in rounding beside the kernel values: K + αI is "
                "not positive definite to working precision. Write a larger alpha, or a tolerance."
            )
        self.keep(points, self.arrays.columns, self.count)

    def _working_copy(self, samples: int) -> Recursion:
        """Without a window or a tolerance nothing changes but what lies beyond the centres."""
        if self.window or self.tolerance > 0:
            return Recursion(*(array.copy() for array in self.arrays))
        arrays = self.arrays
        small = {name: getattr(arrays, name).copy() for name in ("reals", "integers", "columns")}
        return arrays._replace(**small)

    def _make_room(self, needed: int) -> None:
        arrays, capacity = self.arrays, len(self.arrays.columns)
        if needed <= capacity:
            return
        size = max(needed, min(2 * capacity, capacity + 4096))
        square = (size, size)
        self.arrays = arrays._replace(
            factor=padded(arrays.factor, square),
            base=padded(arrays.base, square) if len(arrays.base) else arrays.base,
            right=padded(arrays.right, (self.outputs, size)),
            targets=padded(arrays.targets, (size, self.outputs)),
            columns=padded(arrays.columns, (size,)),
        )

    def function(self, flat: bool) -> RKHSFunction:
        from mercer.online.compiled.recursive import recursive_coefficients

        found = recursive_coefficients(self.arrays, self.tolerance > 0).T.astype(self.points.dtype)
        return RKHSFunction(self.kernel, self.points, found[:, 0] if flat else found)


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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        alpha: float = 1.0,
        tolerance: float = 0.0,
        window: int | None = None,
        passes: int = 1,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.tolerance = tolerance
        self.window = window
        self.passes = passes
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def _loss(self, classes: int | None = None) -> Any:
        return Squared()

    def _new_stream(self, kernel: Kernel, points: PointSet, outputs: int, classes: Any) -> Any:
        check_positive(self, "alpha", self.alpha)
        check_nonnegative(self, "tolerance", self.tolerance)
        if self.window is not None:
            check_count(self, "window", self.window)
            if self.tolerance > 0:
                raise ValueError(
                    "a window forgets samples, a tolerance merges them into the dictionary: give "
                    f"one of them; got window={self.window!r} and tolerance={self.tolerance!r}."
                )
        return RecursiveStream(kernel, points, outputs, self.alpha, self.tolerance, self.window)
