"""The progress of a fit, for scikit-learn's callbacks.

Since scikit-learn 1.9 `estimator.set_callbacks(ProgressBar())` shows progress, and a callback that
returns True ends an iteration early. An older scikit-learn has no callbacks.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

Method = TypeVar("Method")


class CallbackSupportMixin:
    """Nothing to support."""


def with_callbacks(method: Method) -> Method:
    """The method as it is."""
    return method


if not TYPE_CHECKING:  # scikit-learn's have no types, and would hide those of `fit`
    with contextlib.suppress(ImportError):  # before 1.9
        from sklearn.callback import CallbackSupportMixin, with_callbacks


__all__ = ["CallbackSupportMixin", "FitTask", "with_callbacks", "with_progress"]

Attributes = Callable[[], dict[str, Any]]


@dataclasses.dataclass(eq=False)
class FitTask:
    """One task of a fit: begun, perhaps divided into tasks, ended with what is fitted so far."""

    estimator: Any
    context: Any
    data: dict[str, Any]
    has_callbacks: bool

    @classmethod
    def root(cls, estimator: Any, X: Any, y: Any, weights: Any, parts: Any) -> FitTask:
        """The whole fit, of so many parts, or of the steps of a solver; None for not known."""
        if hasattr(parts, "solve"):
            steps = getattr(parts, "steps", getattr(parts, "passes", None))
            parts = steps if hasattr(parts, "callback") else 0
        data = {"X": X, "y": y, "metadata": {"sample_weight": weights}}
        start = getattr(estimator, "_init_callback_context", None)
        context = start and start(max_subtasks=parts)
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator, **data)
        calls = context is not None and bool(getattr(estimator, "_skl_callbacks", []))
        return cls(estimator, context, data, calls)

    def part(self, name: str, parts: int | None = 0) -> FitTask:
        """The next part of this task."""
        context = self.context and self.context.subcontext(task_name=name, max_subtasks=parts)
        if context is not None:
            context.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        return dataclasses.replace(self, context=context)

    def end(self, attributes: Attributes | None = None) -> bool:
        """Say that it is done; whether a callback wants to stop here."""
        if self.context is None:
            return False
        data = self.data | {"reconstruction_attributes": attributes}
        return bool(self.context.call_on_fit_task_end(estimator=self.estimator, **data))


def with_progress(solver: Any, task: FitTask, attributes: Callable[[Any], dict[str, Any]]) -> Any:
    """An iterative solver whose every step is a part of the task; other solvers as they are.

    `attributes` makes the fitted attributes of the estimator from the solver's state.
    """
    if not hasattr(solver, "callback"):
        return solver
    own = solver.callback

    def callback(iteration: int, state: Any) -> bool:
        stops = bool(own(iteration, state)) if own is not None else False
        return task.part("iteration").end(lambda: attributes(state)) or stops

    return dataclasses.replace(solver, callback=callback)
