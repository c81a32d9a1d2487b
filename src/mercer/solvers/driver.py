"""One loop for all iterative solvers: stopping, time limit, progress, history, checkpoints.

An iterative solver owes three methods. `begin(problem, start)` makes a state, a dataclass that
extends `State`; `step(state)` returns the next one,
with its `iteration` advanced; `solution(state)` computes what is true of it.
Everything else is done here, once, from fields of the solver where it has them: `tolerance`,
`iterations` (unless the solver says `limits_itself = True`, as its iterations are not steps),
`time_limit`, `callback`, `stopping` (hold rows out, return the best iterate) and `checkpoint` (a
path).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, as_numpy, beside, to_precision
from mercer.solvers import admission
from mercer.solvers.early_stopping import EarlyStopping, HeldOut
from mercer.solvers.problem import Problem, require_plain_intercept
from mercer.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class Progress:
    """The progress of a solver, for its callback, which returns True to stop.

    `objective` is nan where the solver does not know it.
    """

    coefficients: Array
    intercept: Array
    objective: float = math.nan
    risk: float = math.nan
    gradient_norm: float = math.nan
    held_out_risk: float = math.nan
    values: Array | None = field(default=None, repr=False)  # f(x_i) + b, where they are known


Callback = Callable[[int, Progress], Any]
NOT_STORED = {"stored": False}
DERIVED = {"stored": False, "derived": True}  # made again from what is stored where it is None


@dataclass(eq=False)
class State:
    """The state of an iterative solver. Arrays, numbers and texts are stored in checkpoints.

    Parameters
    ----------
    work : object
        What `begin` made of the problem and is made again on resuming: operators, factors.
    iteration : int
        Steps so far.
    error : float
        What the tolerance of the solver is compared with, as far as it is known on the way.
    finished : str
        Why the solver cannot or need not go on; empty while it can.
    stopped : str
        What the driver stopped it by; empty while it did not.
    history : dict of lists
        What was recorded, by name.
    asked : Problem
        The problem that `solution` certifies; early stopping fits a part of its rows.
    best, best_intercept : array or None
        Coefficients and intercept of the iterate that predicts held-out rows best.
    deadline : float
        When the last step should end, as `time.perf_counter` says it, for steps that take long.
    posed : str
        A fingerprint of the problem, so that a checkpoint is not taken for that of another one.
    """

    work: Any = field(default=None, repr=False, metadata=NOT_STORED)
    asked: Any = field(default=None, repr=False, metadata=NOT_STORED)
    deadline: float = field(default=math.inf, repr=False, metadata=NOT_STORED)
    iteration: int = 0
    error: float = math.inf
    finished: str = ""
    stopped: str = ""
    history: dict[str, list[Any]] = field(default_factory=dict)
    posed: str = ""
    best: Array = field(default=None, repr=False)
    best_intercept: Array = field(default=None, repr=False)

    @property
    def reserve(self) -> float:
        """Seconds that the answer takes after the last step, as far as `work` knows."""
        return float(getattr(self.work, "reserve", 0.0))

    def record(self, **values: Any) -> None:
        """Add one value to each of these lines of the history."""
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)


class IterativeSolver(Protocol):
    """The interface of a solver that the driver needs."""

    def begin(self, problem: Problem, start: Solution | None = None) -> Any:
        """The state from which to iterate."""

    def step(self, state: Any) -> Any:
        """The next state, whose `iteration` has advanced; the given one may be used up."""

    def progress(self, state: Any) -> Progress:
        """The coefficients and, where they are known, the objective and its parts."""

    def solution(self, state: Any) -> Solution:
        """The solution of a state, with everything computed from scratch."""


def drive(
    solver: Any,
    problem: Problem,
    start: Solution | None = None,
    *,
    resume: Any = None,
    shared: Any = None,
) -> Solution:
    """Run an iterative solver on a problem to its end.

    It ends where the error of the state is at the solver's tolerance or the state says that it is
    finished, and else by the limits of iterations and time, the callback, or early stopping.

    Parameters
    ----------
    solver : IterativeSolver
    problem : Problem
    start : Solution, optional
        Coefficients to begin from.
    resume : path, optional
        A checkpoint of the same solver on the same problem to go on from.
    shared : object, optional
        What `solver.shared(problem)` made for the problems of a path.
    """
    takes = getattr(solver, "takes_null_space", False)
    require_plain_intercept(type(solver).__name__, problem, null_space=takes)
    if problem.has_several_ridges:
        problems = list(problem.each_output())
        parts = zip(in_turn(solver, len(problems)), problems, strict=True)
        return Solution.stacked([drive(each, part) for each, part in parts])
    asked, problem = problem, admission.admitted(solver, problem)
    stopping = getattr(solver, "stopping", None)
    watch = EarlyStopping(stopping, problem) if isinstance(stopping, HeldOut) else None
    began, fitted = time.perf_counter(), problem if watch is None else watch.rest
    more = {} if shared is None else {"shared": shared}
    state = solver.begin(fitted, start, **more)
    state.asked = problem
    if resume is not None or getattr(solver, "checkpoint", None) is not None:
        state.posed = fingerprint(fitted)
    if watch is not None:
        watch.see(state, solver.progress(state))
    if resume is not None:
        restore(state, resume)
    clock = Clock(solver, state, began)
    if state.reserve and clock.is_over(state.reserve):  # a step takes long, too
        state.stopped = clock.name
    while not ended(solver, state):
        state.deadline = clock.deadline - state.reserve
        state = solver.step(state)
        state.record(seconds=clock.seconds)
        interrupt(solver, state, clock, watch)
    solution = solver.solution(state) if watch is None else watch.solution(state)
    return admission.returned(solution, asked)


LEAST_SECONDS = 1e-3  # of a solver for which no time is left


def limited(solver: Any, deadline: float, share: float = 1.0) -> Any:
    """The solver with a share of the time that is left until a deadline."""
    left = share * (deadline - time.perf_counter())
    return replace(solver, time_limit=max(left, LEAST_SECONDS))


def in_turn(solver: Any, count: int) -> Iterator[Any]:
    """The solver for so many problems, one after the other: each has its share of the time left."""
    limit = getattr(solver, "time_limit", None)
    if limit is None:
        yield from [solver] * count
        return
    deadline = time.perf_counter() + limit
    for left in range(count, 0, -1):
        yield limited(solver, deadline, 1.0 / left)


class Clock:
    """Seconds since a run began, those before a checkpoint included."""

    def __init__(self, solver: Any, state: State, began: float) -> None:
        self.limit = getattr(solver, "time_limit", None)
        before = state.history.get("seconds", [])
        self.began = began - (before[-1] if before else 0.0)
        self.saved, self.save_took = -math.inf, 0.0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def name(self) -> str:
        """What a run is stopped by."""
        return f"the time limit of {self.limit:.3g} s"

    @property
    def deadline(self) -> float:
        return self.began + (math.inf if self.limit is None else self.limit)

    def is_over(self, reserve: float = 0.0) -> bool:
        """Whether no more is left than the answer takes."""
        return time.perf_counter() >= self.deadline - reserve

    @property
    def may_save(self) -> bool:
        """Whether checkpoints take less than a tenth of the time."""
        return time.perf_counter() - self.saved >= 10.0 * self.save_took

    def saving(self, save: Callable[[], None]) -> None:
        """Save, and note when that was and how long it took."""
        start = time.perf_counter()
        save()
        self.saved = time.perf_counter()
        self.save_took = self.saved - start


def ended(solver: Any, state: State) -> bool:
    """Whether the solver is at its tolerance, can do no more, or was stopped."""
    tolerance = getattr(solver, "tolerance", None)
    reached = tolerance is not None and state.error <= tolerance
    return reached or bool(state.finished or state.stopped)


def interrupt(solver: Any, state: State, clock: Clock, watch: EarlyStopping | None = None) -> None:
    """Note in the state what stops the run after a step: limits, the callback, held-out rows."""
    limit = None if getattr(solver, "limits_itself", False) else getattr(solver, "iterations", None)
    if limit is not None and state.iteration >= limit:
        state.stopped = f"the limit of {limit} iterations"
    if clock.is_over(state.reserve):
        state.stopped = clock.name
    callback, path = getattr(solver, "callback", None), getattr(solver, "checkpoint", None)
    if watch is not None or callback is not None:
        progress = solver.progress(state)
        if watch is not None:
            progress = watch.see(state, progress)
        if callback is not None and callback(state.iteration, progress):
            state.stopped = "the callback"
    if path is not None and (clock.may_save or ended(solver, state)):
        clock.saving(lambda: save(state, path))


# ---- checkpoints ---------------------------------------------------------------------------------


def fingerprint(problem: Problem) -> str:
    """A text that differs for problems with other targets, weights, λ, loss, kernel or size."""
    checksum = hashlib.sha256()
    for values in (problem.y, problem.sample_weights):
        checksum.update(admission.digest(values))
    kernel = getattr(problem.operator, "kernel", None)
    shape = tuple(problem.operator.shape)
    checksum.update(repr((problem.loss, problem.regularization, kernel, shape)).encode())
    return checksum.hexdigest()


def save(state: State, path: Any) -> None:
    """Write the arrays and numbers of a state to a file, by a temporary one that is renamed.

    It is a .npz file of plain arrays: loading it never runs code.
    """
    arrays: dict[str, np.ndarray] = {}
    plain: dict[str, Any] = {}
    for part in fields(state):
        value = getattr(state, part.name)
        if not part.metadata.get("stored", True):
            continue
        if hasattr(value, "shape"):
            arrays[part.name] = as_numpy(value)
        else:
            plain[part.name] = value
    arrays["plain"] = np.frombuffer(json.dumps(plain).encode(), np.uint8)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    temporary.replace(target)


def restore(state: State, path: Any) -> None:
    """Put what a checkpoint holds into a state that `begin` has made of the same problem."""
    try:
        with np.load(Path(path), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, zipfile.BadZipFile, KeyError, EOFError) as bad:
        raise ValueError(f"{path} is no checkpoint of a solver.") from bad
    plain = json.loads(bytes(arrays.pop("plain")).decode())
    names = {part.name for part in fields(state) if part.metadata.get("stored", True)}
    if set(arrays) | set(plain) != names:
        raise ValueError(
            f"{path} is a checkpoint of another solver: it holds {sorted({*arrays, *plain})}, and "
            f"a {type(state).__name__} has {sorted(names)}."
        )
    for name, value in arrays.items():
        now = getattr(state, name)
        if now is None:  # it is made on the way
            setattr(state, name, value)
            continue
        if tuple(np.shape(now)) != value.shape:
            raise ValueError(
                f"{path} is a checkpoint of another problem: {name} has the shape {value.shape} "
                f"there, and {tuple(np.shape(now))} here."
            )
        setattr(state, name, to_precision(beside(value, now), now.dtype))
    if plain["posed"] != state.posed:
        raise ValueError(
            f"{path} is a checkpoint of another problem: its targets, weights, kernel, loss or "
            "regularisation are different. Remove it to start anew."
        )
    derived = {part.name: None for part in fields(state) if part.metadata.get("derived")}
    for name, value in {**plain, **derived, "stopped": ""}.items():
        setattr(state, name, value)
