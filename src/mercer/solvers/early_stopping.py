"""Early stopping: rows are held out, and the iterate that predicts them best is returned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.arrays import as_numpy, beside, namespace, to_precision
from mercer.checks import check_count, check_positive
from mercer.solvers.optimality import certified_gap
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution, Status, plain_intercept

if TYPE_CHECKING:
    from mercer.solvers.driver import Progress, State


@dataclass(frozen=True)
class HeldOut:
    """Hold rows out, and go back to the step at which their loss was least.

    Parameters
    ----------
    fraction : float, default=0.2
        Which share of the rows is not fitted.
    patience : int, default=20
        How many steps without a new least loss end the iteration.
    random_state : int, Generator or None, default=0
        Which rows.

    Examples
    --------
    >>> int(HeldOut(fraction=0.25).hidden(np.ones(8)).sum())
    2
    """

    fraction: float = 0.2
    patience: int = 20
    random_state: Any = 0

    def __post_init__(self) -> None:
        check_positive(self, "fraction", self.fraction)
        check_count(self, "patience", self.patience)
        if self.fraction >= 1:
            raise ValueError(f"HeldOut needs a fraction below 1; got {self.fraction!r}.")

    def hidden(self, weights: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """Which rows are held out, of those that have weight; of each class the same share."""
        rows = np.flatnonzero(weights)
        if len(rows) < 2:
            raise ValueError(f"HeldOut needs at least two rows with weight; got {len(rows)}.")
        count = min(max(round(self.fraction * len(rows)), 1), len(rows) - 1)
        rows = np.random.default_rng(self.random_state).permutation(rows)
        if labels is not None:
            rows = rows[np.argsort(_places_in_class(labels[rows]), kind="stable")]
        mask = np.zeros(len(weights), bool)
        mask[rows[:count]] = True
        return mask


def _places_in_class(labels: np.ndarray) -> np.ndarray:
    """(i + ½)/n_c for the i-th of the n_c rows of a class.

    >>> _places_in_class(np.array([0, 1, 0, 0, 1])).round(2).tolist()
    [0.17, 0.25, 0.5, 0.83, 0.75]
    """
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    places = np.empty(len(codes))
    places[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return (places + 0.5) / counts[codes]


class HeldOutRows:
    """A problem without some rows, whose weight is 0 in `rest`, and the loss of these rows."""

    def __init__(self, rule: HeldOut, problem: Problem) -> None:
        self.rule, self.problem = rule, problem
        weights = as_numpy(problem.sample_weights)
        labels = as_numpy(problem.y) if problem.loss.is_classification else None
        if labels is not None and labels.ndim > 1:
            labels = labels.argmax(axis=1)
        hidden = rule.hidden(weights, labels)
        self.rows = np.flatnonzero(hidden)
        self.rest = replace(problem, weights=np.where(hidden, 0.0, weights))
        self.weights = problem.array(weights[self.rows])
        self.places = beside(self.rows, problem.y)
        self.part, self.y = problem.operator[self.rows, :], self._of_rows(problem.y)

    def risk(self, coefficients: Any, intercept: Any, values: Any = None) -> float:
        """Their mean loss; `values` are f(x_i) + b of all rows, where these are known."""
        if values is not None:
            values = self._of_rows(values)
        else:
            b = self.problem.constants(intercept)
            b = b if self.problem.null_space is None else self._of_rows(b)
            values = self.part @ self.problem.array(coefficients) + b
        return float(self.problem.loss.risk(self.y, values, self.weights))

    def _of_rows(self, values: Any) -> Any:
        return namespace(values).take(values, self.places, axis=0)


class EarlyStopping(HeldOutRows):
    """Watches the loss of held-out rows, and returns the iterate at which it is least.

    Only these rows are evaluated after a step; the others are fitted with the λ that was asked for.
    """

    def see(self, state: State, progress: Progress) -> Progress:
        """The progress with the held-out risk; the state ends where it has not fallen for long."""
        risk = self.risk(progress.coefficients, progress.intercept, progress.values)
        risks = state.history.setdefault("held_out_risk", [])
        if not risks or risk < min(risks):
            state.best, state.best_intercept = progress.coefficients, progress.intercept
        risks.append(risk)
        age = len(risks) - 1 - int(np.argmin(risks))
        if age >= self.rule.patience:
            state.finished = f"their loss has not fallen for {age} steps"
        return replace(progress, held_out_risk=risk)

    def solution(self, state: State) -> Solution:
        """The best iterate, with the objective and the gap of the problem on all rows."""
        risks, intercept = state.history["held_out_risk"], plain_intercept(state.best_intercept)
        alpha = to_precision(state.best, self.problem.operator.dtype)
        gap = certified_gap(self.problem, alpha, state.best_intercept)
        why = state.stopped or state.finished or "the tolerance is reached"
        text = (
            f"Stopped early: {len(self.rows)} held-out rows are predicted best after "
            f"{int(np.argmin(risks))} of {len(risks) - 1} steps, with a mean loss of "
            f"{min(risks):.4g}; it ended as {why}; on all rows {gap}."
        )
        advice = "Allow more time or iterations." if state.stopped else ""
        status = Status(not state.stopped, text, advice)
        return Solution(alpha, status, gap.objective, gap.absolute, state.history, intercept)
