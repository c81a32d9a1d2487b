"""Online machines as models of river: in its pipelines, with its evaluation and its checks.

river takes samples as dictionaries and labels as they come. Needs river (`pip install
mercer[river]`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base
from sklearn.base import clone

from mercer.losses import Logistic
from mercer.online.machine import OnlineKernelMachine, OnlineMachine

__all__ = ["RiverClassifier", "RiverRegressor"]


class _OfRiver:
    """A machine whose samples are dictionaries.

    The entries of the first sample are the columns of all that follow: one that is missing counts
    as 0, and one that was not among them is left out, since a kernel has a fixed number of columns.
    """

    columns: tuple[Any, ...] | None = None

    def _row(self, x: dict[Any, Any]) -> np.ndarray:
        columns = sorted(x, key=str) if self.columns is None else self.columns
        return np.array([float(x.get(column, 0.0)) for column in columns])

    def _learned_row(self, x: dict[Any, Any]) -> np.ndarray:
        if self.columns is None:
            self.columns = tuple(sorted(x, key=str))  # whatever the order of a dictionary is
        return self._row(x)


class RiverRegressor(_OfRiver, base.Regressor):
    """An online machine for numbers as a regressor of river.

    Parameters
    ----------
    machine : OnlineMachine
        Whose loss is one of numbers, as `OnlineKernelMachine(loss=Squared())`. A copy learns.
    """

    def __init__(self, machine: OnlineMachine) -> None:
        self.machine = machine
        self._copy: OnlineMachine | None = None

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        row = self._learned_row(x)
        if self._copy is None:
            self._copy = clone(self.machine)
        self._copy.learn_one(row, float(y))

    def predict_one(self, x: dict[Any, Any]) -> float:
        return 0.0 if self._copy is None else float(self._copy.predict_one(self._row(x)))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from mercer.losses import Huber

        yield {"machine": OnlineKernelMachine("rbf", loss=Huber())}


class RiverClassifier(_OfRiver, base.Classifier):
    """An online machine for labels as a classifier of river, to which labels come as they come.

    One copy of the machine learns each label against all others, from the first sample with that
    label on; for True and False there is one machine.

    Parameters
    ----------
    machine : OnlineMachine
        Whose loss is one of two classes. `predict_proba_one` needs `loss=Logistic()`.
    """

    def __init__(self, machine: OnlineMachine) -> None:
        self.machine = machine
        self._copies: dict[Any, OnlineMachine] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        row = self._learned_row(x)
        binary = isinstance(y, (bool, np.bool_))
        label = bool(y) if binary else y
        self._copies.setdefault(True if binary else label, clone(self.machine))
        for own, machine in self._copies.items():
            machine.learn_one(row, bool(own == label), classes=[False, True])

    def _of_labels(self, values: dict[Any, float], other: float) -> dict[Any, float]:
        """Numbers for labels; where True is the only one that has a machine, for False, too."""
        return {False: other, **values} if list(values) == [True] else values

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        row = self._row(x)
        scores = {
            label: float(np.ravel(machine._scores(machine._one_point(row)))[0])
            for label, machine in self._copies.items()
        }
        scores = self._of_labels(scores, 0.0)
        return max(scores, key=lambda label: scores[label]) if scores else None

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        if not isinstance(self.machine._loss(), Logistic):
            raise NotImplementedError(
                "probabilities need the logistic loss: write OnlineKernelMachine(loss=Logistic())."
            )
        row = self._row(x)
        chances = {
            label: machine.predict_proba_one(row)[True] for label, machine in self._copies.items()
        }
        chances = self._of_labels(chances, 1.0 - sum(chances.values()))
        total = sum(chances.values())
        return {label: chance / total for label, chance in chances.items()}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"machine": OnlineKernelMachine("rbf", loss=Logistic())}
