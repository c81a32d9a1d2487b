"""Machines that follow a gradient: Pegasos, NORMA, passive-aggressive steps."""

from __future__ import annotations

import math
from typing import Any

from mercer.checks import check_positive
from mercer.losses import EpsilonInsensitive, Hinge, Loss
from mercer.online.base import OnlineMachine
from mercer.online.budgets import Budget, Oldest
from mercer.online.losses import MaxMargin
from mercer.online.machine import GradientMachine
from mercer.online.rounds import Settings
from mercer.online.schedules import Aggressive, Average, Constant, InverseSquareRoot, InverseTime

VARIANTS = ("PA", "PA-I", "PA-II")


class Pegasos(OnlineMachine):
    """The support vector machine by stochastic gradients: hinge loss, η_t = 1/(λt).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    regularization : float, default=1e-3
        λ > 0.
    budget, averaging, passes, record, gamma, degree, coef0, random_state :
        As in `OnlineKernelMachine`.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter, Pegasos: primal estimated sub-gradient
    solver for SVM, 2011.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> m = Pegasos(Linear(), regularization=0.5)
    >>> m.learn_one([1.0], 1, classes=[-1, 1]).function_([[1.0]])  # η_1 = 2
    array([2.])
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        regularization: float = 1e-3,
        budget: Budget | None = None,
        averaging: Average | None = None,
        passes: int = 5,
        record: bool = False,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.regularization = regularization
        self.budget = budget
        self.averaging = averaging
        self.passes = passes
        self.record = record
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def _settings(self, classes: int | None = None) -> Settings:
        check_positive(self, "regularization", self.regularization)
        step = InverseTime(1.0 / self.regularization)
        return Settings(
            Hinge(),
            self.regularization,
            step,
            self.budget,
            self.averaging,
            self.random_state,
            self.record,
        )

    def _loss(self, classes: int | None = None) -> Loss:
        return Hinge()


class NORMA(GradientMachine):
    """Online learning with kernels as Kivinen, Smola and Williamson wrote it.

    Any loss, η_t = rate/√t (or constant), and only the newest `window` bumps: those that are older
    were shrunk by (1 − ηλ) so often that they hardly count.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    loss : Loss or None, default=None
        None for `Hinge()`.
    regularization : float, default=0.01
        λ ≥ 0.
    rate : float, default=1.0
    constant : bool, default=False
        Whether the step stays `rate`, which follows a drift.
    window : int or None, default=None
    averaging, passes, record, gamma, degree, coef0 :
        As in `OnlineKernelMachine`.

    References
    ----------
    J. Kivinen, A. J. Smola, R. C. Williamson, Online learning with kernels, 2004.

    Examples
    --------
    >>> m = NORMA(regularization=0.5, window=2).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> len(m.function_)
    2
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        loss: Any = None,
        regularization: float = 0.01,
        rate: float = 1.0,
        constant: bool = False,
        window: int | None = None,
        averaging: Average | None = None,
        passes: int = 5,
        record: bool = False,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.regularization = regularization
        self.rate = rate
        self.constant = constant
        self.window = window
        self.averaging = averaging
        self.passes = passes
        self.record = record
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def _settings(self, classes: int | None = None) -> Settings:
        step = Constant(self.rate) if self.constant else InverseSquareRoot(self.rate)
        budget = None if self.window is None else Oldest(self.window)
        return Settings(
            self._loss(), self.regularization, step, budget, self.averaging, None, self.record
        )


class PassiveAggressive(OnlineMachine):
    """Change f as little as possible, but enough to mend the loss of the sample.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    limit : float, default=1.0
        C: how far a single sample may pull; "PA" has no limit.
    variant : "PA", "PA-I" or "PA-II", default="PA-I"
        min(C, ·) in PA-I, softened by 1/(2C) in PA-II.
    loss : Loss or None, default=None
        None for the hinge loss (for several classes: the margin to the best rival); for
        regression write `EpsilonInsensitive(epsilon)`.
    budget, averaging, passes, gamma, degree, coef0, random_state :
        As in `OnlineKernelMachine`.

    References
    ----------
    K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer, Online passive-aggressive
    algorithms, 2006.

    Examples
    --------
    >>> m = PassiveAggressive(variant="PA", gamma=1.0)
    >>> m.learn_one([0.3], "b", classes=["a", "b"]).decision_function([[0.3]])  # a margin of 1
    array([1.])
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        limit: float = 1.0,
        variant: str = "PA-I",
        loss: Any = None,
        budget: Budget | None = None,
        averaging: Average | None = None,
        passes: int = 5,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.limit = limit
        self.variant = variant
        self.loss = loss
        self.budget = budget
        self.averaging = averaging
        self.passes = passes
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def _settings(self, classes: int | None = None) -> Settings:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant must be one of {list(VARIANTS)}; got {self.variant!r}.")
        if not (self.loss is None or isinstance(self.loss, (Hinge, EpsilonInsensitive))):
            raise ValueError(
                "PassiveAggressive mends the hinge loss or EpsilonInsensitive(epsilon); got "
                f"{self.loss!r}."
            )
        limit = math.inf if self.variant == "PA" else self.limit
        step = Aggressive(limit, soft=self.variant == "PA-II")
        return Settings(
            self._loss(classes), 0.0, step, self.budget, self.averaging, self.random_state
        )

    def _loss(self, classes: int | None = None) -> Any:
        if self.loss is not None:
            return self.loss
        return MaxMargin(1.0) if self._class_count(classes) > 2 else Hinge()
