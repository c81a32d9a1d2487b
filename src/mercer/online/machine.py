"""Online kernel machines: learn one sample at a time, on a budget."""

from __future__ import annotations

from typing import Any

from mercer.losses import Hinge
from mercer.online.base import OnlineMachine
from mercer.online.budgets import Budget
from mercer.online.rounds import Settings
from mercer.online.schedules import Average, InverseSquareRoot

OPTIONS = ("budget", "averaging", "random_state", "record")  # of settings, where a machine has them


class GradientMachine(OnlineMachine):
    """Machines that step along gradients: `Hinge()` and `InverseSquareRoot(1.0)` by default."""

    loss: Any
    regularization: float
    step: Any

    def _settings(self, classes: int | None = None) -> Settings:
        options = {name: getattr(self, name) for name in OPTIONS if hasattr(self, name)}
        return Settings(self._loss(classes), self.regularization, self._step(), **options)

    def _loss(self, classes: int | None = None) -> Any:
        return Hinge() if self.loss is None else self.loss

    def _step(self) -> Any:
        return InverseSquareRoot(1.0) if self.step is None else self.step


class OnlineKernelMachine(GradientMachine):
    """f ← (1 − ηλ)f − η ℓ'(y, f(x)) k(x, ·) for one sample after another, on a budget.

    The step is the functional gradient of ℓ(y, f(x)) + (λ/2)‖f‖²: shrink, and add one bump.
    Shrinking costs one multiplication, a sample one row of kernel values. Several classes are
    learned one against the rest under a loss of the margin, together under `Multinomial`.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of mercer, on vectors or other points, or what scikit-learn's users type.
    loss : Loss, default=None
        Any of `mercer.losses`, or your own; None for `Hinge()`.
    regularization : float, default=1e-4
        λ ≥ 0.
    step : schedule, default=None
        η_t: one of `mercer.online.schedules`, with ηλ ≤ 1; None for `InverseSqrt(1.0)`.
    budget : Budget or None, default=None
        At most so many bumps: one of `mercer.online.budgets`. None keeps them all.
    averaging : Average or None, default=None
        Whether to predict with the average of the iterates.
    passes : int, default=5
        How often `fit` goes through its rows; `partial_fit` does once.
    record : bool, default=False
        Whether to keep all rounds, which `RegretDisplay` looks at; memory then grows.
    gamma, degree, coef0 :
        Parameters of named kernels, as in scikit-learn.
    random_state : int, Generator or None, default=None
        For the budget `Random`.

    Attributes
    ----------
    function_ : RKHSFunction
        f, or the average.
    n_samples_seen_, cumulative_loss_, mistakes_ :
        Of the predictions that were made before learning.
    classes_, kernel_, n_features_in_ : as in scikit-learn.

    References
    ----------
    J. Kivinen, A. J. Smola, R. C. Williamson, Online learning with kernels, 2004.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> from mercer.online import schedules
    >>> m = OnlineKernelMachine(
    ...     Gaussian(), loss=Squared(), regularization=0.0, step=schedules.Constant(0.5)
    ... )
    >>> m.learn_one([0.0], 1.0).predict_one([0.0])  # half of the way from 0 to 1
    0.5
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        loss: Any = None,
        regularization: float = 1e-4,
        step: Any = None,
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
        self.loss = loss
        self.regularization = regularization
        self.step = step
        self.budget = budget
        self.averaging = averaging
        self.passes = passes
        self.record = record
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state


__all__ = ["GradientMachine", "OnlineKernelMachine", "OnlineMachine"]
