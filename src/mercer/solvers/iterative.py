"""The base of iterative solvers: their settings are checked alike, and `driver.drive` runs them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from mercer.checks import check_count, check_positive
from mercer.solvers.driver import drive
from mercer.solvers.problem import Problem
from mercer.solvers.schedules import check_averaging, check_schedule
from mercer.solvers.solution import Solution

CHECKS = {
    check_positive: ("tolerance", "step_size", "time_limit"),
    check_count: (
        "iterations", "max_iterations", "steps", "passes",
        "batch_size", "block_size", "working_set", "rank", "frequencies",
    ),
    check_schedule: ("schedule",),
    check_averaging: ("averaging",),
}  # fmt: skip


class Iterative:
    """A frozen dataclass of settings, with the methods that `driver.drive` asks for."""

    def __post_init__(self) -> None:
        """Refuse settings out of range; None is in it where it is the default."""
        for setting in fields(self):  # type: ignore[arg-type]
            value = getattr(self, setting.name)
            for check, names in CHECKS.items():
                if setting.name in names and not (value is None and setting.default is None):
                    check(self, setting.name, value)

    def solve(self, problem: Problem, start: Any = None, *, resume: Any = None) -> Solution:
        """The solution; `start` is one to begin from, `resume` a checkpoint to go on from."""
        return drive(self, problem, start, resume=resume)
