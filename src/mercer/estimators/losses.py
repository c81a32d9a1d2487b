"""Estimators of any loss: their parameters, their solver, and losses by scikit-learn's names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mercer.checks import is_number
from mercer.estimators.certified import certificate
from mercer.estimators.early_stopping import stopping_rule
from mercer.estimators.fitting import Formulation, explain_solver, formulation, is_automatic
from mercer.estimators.inputs import hosted
from mercer.estimators.progress import CallbackSupportMixin
from mercer.estimators.smaller import compress
from mercer.features.centres import AnyChoice, Given
from mercer.features.inputs import KernelInput, KernelLike
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed
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
from mercer.solvers.automatic import Choice, default_solver
from mercer.solvers.newton import Newton, default_tolerance
from mercer.solvers.problem import Solver
from mercer.solvers.solution import Solution

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


@dataclass(frozen=True)
class Tuning:
    """What is taken where nothing is given, and where every point is a centre."""

    C: float = 30.0  # 1/(nλ) where no λ is given. Over 14 tables of classes and 19 of numbers, with
    # the median distance as lengthscale, 30 is best or next to it for every loss, from the values
    # 1, 3, 10, 30, 100 (`python -m benchmarks defaults`, whose group "unseen" has tables that had
    # no part in it)
    most_centres: int = 20_000  # points up to which all are centres for a loss with kinks, where
    # dual ascent cannot be used: their factor takes 3 GB in float64


TUNING = Tuning()


@dataclass(eq=False, repr=False)
class LossEstimator(CallbackSupportMixin, KernelInput):
    """The parameters that estimators of a loss share, and how they choose a solver."""

    _allow_indefinite = True
    _instead_of_tensors = ""
    _takes_clusters = True

    _: KW_ONLY
    kernel: KernelLike = "rbf"
    gamma: float | str | None = "median"
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    fit_intercept: bool = True
    solver: Solver | str = "auto"
    tol: float = 1e-6
    centres: int | AnyChoice | None = None
    random_state: Seed = None
    device: Any = None
    time_limit: float | None = None
    checkpoint: str | Path | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    function_: RKHSFunction = field(init=False)
    kernel_: Kernel = field(init=False)
    solution_: Solution = field(init=False)
    dual_coef_: Any = field(init=False)
    intercept_: Any = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: np.ndarray = field(init=False)
    compression_error_: float = field(init=False)
    X_fit_: Any = field(init=False)
    choice_: Choice | None = field(init=False)
    validation_scores_: Any = field(init=False)
    loss_: Loss = field(init=False)

    certificate, compress, explain = certificate, compress, explain_solver

    def _formulation(
        self,
        X: Any,
        loss: Loss,
        weights: Any,
        outputs: int = 1,
        *,
        ridge: float | None = None,
        problems: float = 1.0,
        part: float = 1.0,
    ) -> Formulation:
        """Where f is sought, and by which solver.

        By `ridge`, of `relative_ridge`, it is foreseen how long that takes, for so many problems of
        this part of the rows each.
        """
        kernel = self._resolved_kernel(X, weights)
        points = self._training_points(kernel, X, self.centres)
        solver, centres = self.solver, self.centres
        if is_automatic(solver):
            if not (is_number(self.tol) and 0 < self.tol < np.inf):
                raise ValueError(f"tol must be a positive number; got {self.tol!r}.")
            if centres is None and not (points.machine.uses_numpy or loss.is_smooth):
                centres = _all_points(points, loss)
            if centres is not None:  # nothing is left to choose, and nothing need be measured
                solver = Newton(max(float(self.tol), default_tolerance(loss, points.dtype)))
        return formulation(
            kernel,
            points,
            loss,
            solver=solver,
            centres=centres,
            random_state=self.random_state,
            outputs=outputs,
            exact=default_solver(loss, float(self.tol)) if is_automatic(solver) else None,
            exact_only=self._is_precomputed() or points.home != "host",
            tolerance=float(self.tol) if is_automatic(self.solver) else None,
            checkpoint=self.checkpoint,
            stopping=stopping_rule(self) if self.early_stopping else None,
            ridge=ridge,
            time_limit=self.time_limit,
            problems=problems,
            part=part,
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, or the share of right labels, as scikit-learn computes it."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        return float(super().score(X, y, sample_weight=sample_weight))  # type: ignore[misc]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "function_")


def _all_points(points: PointSet, loss: Loss) -> Given:
    """All points as centres: dual ascent computes on the CPU, Newton's method where points are."""
    if len(points) > TUNING.most_centres:
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


def regularization_of(value: Any, loss: Loss, y: Any, weights: Any) -> float:
    """λ as it was given, or the default 1/(30Σw), for targets in any unit.

    A loss of numbers that grows like L|f − y| is multiplied by L/s, s being the mean distance of
    the targets from their median: f is then s times that for targets of spread 1.

    >>> from mercer.losses import Absolute, Squared
    >>> y = np.array([0.0, 10.0, 20.0])
    >>> ridges = [regularization_of(None, loss, y, None) for loss in (Squared(), Absolute())]
    >>> round(ridges[0] / ridges[1], 9)
    6.666666667
    """
    if value is not None:
        return checked_regularization(value)
    y, weights = hosted(y, weights)
    weights = np.ones(len(y)) if weights is None else weights
    unit = 1.0
    if not (loss.is_classification or math.isinf(loss.lipschitz)):
        unit = loss.lipschitz / (_spread(np.asarray(y, np.float64), weights) or 1.0)
        unit = min(unit, 1.0) if loss.is_smooth else unit  # a smooth one is a square near 0
    return unit / (TUNING.C * float(weights.sum()))


def relative_ridge(ridge: float, loss: Loss, y: Any, weights: Any) -> float:
    """λΣw, by which the work of a fit is foreseen, for targets of spread 1 where loss has kinks.

    >>> from mercer.losses import Absolute
    >>> y = np.array([0.0, 10.0, 20.0])
    >>> round(
    ...     1.0 / relative_ridge(regularization_of(None, Absolute(), y, None), Absolute(), y, None)
    ... )
    30
    """
    y, weights = hosted(y, weights)
    weights = np.ones(len(y)) if weights is None else weights
    unit = 1.0
    if not (loss.is_classification or loss.is_smooth or math.isinf(loss.lipschitz)):
        unit = (_spread(np.asarray(y, np.float64), weights) or 1.0) / loss.lipschitz
    return ridge * float(weights.sum()) * unit


def _spread(y: np.ndarray, weights: np.ndarray) -> float:
    """The mean distance from the median, over all outputs."""
    columns = y.reshape(len(y), -1)[weights > 0]
    weights = weights[weights > 0]
    middle = np.array([weighted_quantile(column, weights, 0.5) for column in columns.T])
    return float((weights @ np.abs(columns - middle)).mean() / weights.sum())


def weighted_quantile(y: np.ndarray, weights: np.ndarray, level: float) -> float:
    """The least value with the share `level` of the weight at or below it."""
    order = np.argsort(y)
    reached = np.cumsum(weights[order])
    return float(y[order][np.searchsorted(reached, level * reached[-1])])
