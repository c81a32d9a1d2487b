"""Estimators of any loss: their parameters, their solver, and losses by scikit-learn's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mercer.checks import is_number
from mercer.estimators.certified import Certified
from mercer.estimators.fitting import Formulation, formulation, is_automatic
from mercer.estimators.inputs import hosted
from mercer.estimators.progress import CallbackSupportMixin
from mercer.features.centres import Given
from mercer.features.inputs import KernelInput, KernelLike
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.points import PointSet
from mercer.solvers.automatic import default_solver
from mercer.solvers.newton import Newton, default_tolerance

FOR_CLASSES: dict[str, type[Loss]] = {
    "log_loss": Logistic,
    "multinomial": Multinomial,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "squared_error": Squared,
}
FOR_NUMBERS: dict[str, type[Loss]] = {
    "squared_error": Squared,
    "absolute_error": Absolute,
    "huber": Huber,
    "quantile": Quantile,
    "epsilon_insensitive": EpsilonInsensitive,
    "poisson": Poisson,
}
MOST_CENTRES = 20_000
"""Points on a device up to which all of them are centres for a loss with kinks: their factor takes
3 GB in float64."""


@dataclass(eq=False, repr=False)
class LossEstimator(Certified, CallbackSupportMixin, KernelInput):
    """The parameters that estimators of a loss share, and how they choose a solver."""

    _allow_indefinite = True
    _instead_of_tensors = ""

    _: KW_ONLY
    kernel: KernelLike = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    fit_intercept: bool = True
    solver: Any = "auto"
    tol: float = 1e-6
    centres: Any = None
    random_state: Any = None
    device: Any = None

    def _formulation(self, X: Any, loss: Loss) -> Formulation:
        """Where f is sought, and by which solver."""
        kernel = self._resolved_kernel(X)
        points = self._training_points(kernel, X, self.centres)
        solver, centres = self._solver(loss, points), self.centres
        if centres is None and isinstance(solver, Newton) and self._needs_centres(loss, points):
            centres = _all_points(points, loss)
        return formulation(
            kernel, points, loss, solver=solver, centres=centres, random_state=self.random_state
        )

    def _solver(self, loss: Loss, points: PointSet) -> Any:
        if not is_automatic(self.solver):
            return self.solver
        if not (is_number(self.tol) and 0 < self.tol < np.inf):
            raise ValueError(f"tol must be a positive number; got {self.tol!r}.")
        if self.centres is not None or self._needs_centres(loss, points):
            return Newton(max(float(self.tol), default_tolerance(loss, points.dtype)))
        return default_solver(loss, float(self.tol))

    def _needs_centres(self, loss: Loss, points: PointSet) -> bool:
        """Dual ascent computes on the CPU; elsewhere kinks are smoothed by Newton's method."""
        return is_automatic(self.solver) and points.home != "host" and not loss.is_smooth

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, or the share of right labels, as scikit-learn computes it."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        return float(super().score(X, y, sample_weight=sample_weight))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "function_")


def _all_points(points: PointSet, loss: Loss) -> Given:
    """All points as centres: dual ascent computes on the CPU, Newton's method where points are."""
    if len(points) > MOST_CENTRES:
        raise ValueError(
            f"{type(loss).__name__} has kinks, and {len(points)} rows of a tensor are too many to "
            "be all centres: write centres=5000 or so, take a smooth loss such as "
            "'squared_hinge' or 'huber', or write X.cpu().numpy() for dual ascent on the CPU."
        )
    return Given(indices=np.arange(len(points)))


def as_loss(loss: Any, names: Mapping[str, type[Loss]]) -> Loss:
    """A loss from a name or an object.

    >>> as_loss("hinge", FOR_CLASSES), as_loss(Huber(2.0), FOR_NUMBERS)
    (Hinge(), Huber(delta=2.0))
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in names:
        return names[loss]()
    hint = f" Write {loss.__name__}()." if isinstance(loss, type) else ""
    raise ValueError(
        f"loss must be a loss of mercer.losses, or one of {list(names)}; got {loss!r}.{hint}"
    )


def checked_regularization(value: Any, name: str = "regularization") -> float:
    """Refuse anything but a nonnegative finite number."""
    if not (is_number(value) and 0 <= float(value) < np.inf):
        raise ValueError(f"{name} must be nonnegative and finite; got {value!r}.")
    return float(value)
