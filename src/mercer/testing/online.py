"""Contracts of an online machine: what must hold whatever the stream."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

PICKLE_SLACK = 512  # bytes by which a pickle may vary: numbers are written at different lengths


@dataclass(frozen=True)
class Stream:
    """A machine that has seen nothing, and samples for it."""

    machine: Any
    X: Any
    y: Any
    classes: Any
    bounded: bool

    def fresh(self) -> Any:
        return clone(self.machine)

    def begun(self, samples: int) -> Any:
        """A machine that has learned the first samples in one block."""
        return self.learn(self.fresh(), 0, samples)

    def learn(self, machine: Any, start: int, stop: int) -> Any:
        part = slice(start, stop)
        machine.partial_fit(self.X[part], self.y[part], **self.announcement())
        return machine

    def learn_singly(self, machine: Any, start: int, stop: int) -> Any:
        for i in range(start, stop):
            machine.learn_one(self.X[i], self.y[i], **self.announcement())
        return machine

    def announcement(self) -> dict[str, Any]:
        return {} if self.classes is None else {"classes": self.classes}

    def answers(self, machine: Any) -> np.ndarray:
        """All that the machine says of the points: scores where it has them."""
        scores = getattr(machine, "decision_function", None) or machine.predict
        return np.asarray(scores(self.X))

    def __len__(self) -> int:
        return len(self.y)


def _same(stream: Stream, first: Any, second: Any, what: str) -> None:
    one, other = stream.answers(first), stream.answers(second)
    assert np.array_equal(one, other), (
        f"{what}: the answers differ by up to {np.abs(one - other).max():.3g}, and no bit may."
    )


def learns_the_same_singly(stream: Stream) -> None:
    """`partial_fit` on a block is `learn_one` on its samples, bit for bit."""
    single = stream.learn_singly(stream.fresh(), 0, len(stream))
    _same(stream, stream.begun(len(stream)), single, "partial_fit is not repeated learn_one")


def learns_the_same_in_any_blocks(stream: Stream) -> None:
    """How a stream is cut changes no bit."""
    cut, third = stream.fresh(), len(stream) // 3
    for start, stop in ((0, 1), (1, third), (third, len(stream))):
        stream.learn(cut, start, stop)
    _same(stream, stream.begun(len(stream)), cut, "blocks of other lengths give another model")


def resumes_from_a_pickle(stream: Stream) -> None:
    """A state saved in the middle of a stream goes on as if nothing had happened."""
    half = len(stream) // 2
    resumed = pickle.loads(pickle.dumps(stream.begun(half)))
    stream.learn(resumed, half, len(stream))
    whole = stream.learn(stream.begun(half), half, len(stream))
    _same(stream, whole, resumed, "a saved machine goes on differently")


def stays_small(stream: Stream) -> None:
    """The state of a machine on a budget stops growing."""
    if not stream.bounded:
        return
    machine = stream.begun(len(stream))
    before = len(pickle.dumps(machine))
    for _ in range(2):
        stream.learn(machine, 0, len(stream))
    after = len(pickle.dumps(machine))
    assert after <= before + PICKLE_SLACK, (
        f"the state grew from {before} to {after} bytes while the budget was full."
    )


def predicts_before_it_learns(stream: Stream) -> None:
    """`predict_one` works from the start, and `mistakes_` counts what it said before learning.

    Where an average or a vote predicts, `mistakes_` counts the last iterate's and is not compared.
    """
    machine, wrong = stream.fresh(), 0
    last = getattr(machine, "averaging", None) is None and not hasattr(machine, "predictor")
    counted = is_classifier(machine) and last and hasattr(type(machine), "mistakes_")
    for i in range(min(len(stream), 60)):
        said = machine.predict_one(stream.X[i])
        first = said is None
        if not first:
            wrong += int(np.any(said != stream.y[i]))
        machine.learn_one(stream.X[i], stream.y[i], **stream.announcement())
        if first and counted:
            wrong += machine.mistakes_
    if counted:
        assert machine.mistakes_ == wrong, (
            f"mistakes_ is {machine.mistakes_}, but {wrong} predictions were wrong when made."
        )


def clones_are_independent(stream: Stream) -> None:
    """A clone is not fitted, and learning with a copy leaves the original as it is."""
    half = len(stream) // 2
    machine = stream.begun(half)
    before = stream.answers(machine)
    assert not hasattr(clone(machine), "stream_"), "a clone has a state."
    stream.learn(copy.deepcopy(machine), half, len(stream))
    stream.learn(clone(machine), 0, half)
    assert np.array_equal(stream.answers(machine), before), "a copy changed the original."


def leaves_its_input_alone(stream: Stream) -> None:
    """Samples are read, not changed."""
    X, y = copy.deepcopy(stream.X), copy.deepcopy(stream.y)
    stream.learn_singly(stream.begun(len(stream)), 0, 3)
    if isinstance(X, np.ndarray):
        assert np.array_equal(X, stream.X), "X was changed."
    assert np.array_equal(np.asarray(y), np.asarray(stream.y)), "y was changed."


def refuses_without_a_trace(stream: Stream) -> None:
    """A bad sample is refused, and the machine is as it was before."""
    if not isinstance(stream.X, np.ndarray):
        return
    half = len(stream) // 2
    machine = stream.begun(half)
    before = pickle.dumps(machine.stream_)
    spoiled = stream.X[:3].copy()
    spoiled[1, 0] = np.nan
    bad: list[Callable[[], Any]] = [
        lambda: machine.partial_fit(spoiled, stream.y[:3]),
        lambda: machine.learn_one(spoiled[1], stream.y[1]),
        lambda: machine.learn_one(np.append(stream.X[0], 1.0), stream.y[0]),
    ]
    for attempt in bad:
        try:
            attempt()
        except ValueError:
            pass
        else:
            raise AssertionError("a sample with NaN, or of another width, was learned.")
    assert pickle.dumps(machine.stream_) == before, "a refused sample left a trace."


ONLINE_CONTRACTS = (
    learns_the_same_singly,
    learns_the_same_in_any_blocks,
    resumes_from_a_pickle,
    stays_small,
    predicts_before_it_learns,
    clones_are_independent,
    leaves_its_input_alone,
    refuses_without_a_trace,
)


def check_online(
    machine: Any, X: Any, y: Any, *, classes: Any = None, bounded: bool | None = None
) -> None:
    """Hold an online machine to its contracts on a stream; AssertionError says which one fails.

    Parameters
    ----------
    machine : estimator
        With `partial_fit`, `learn_one` and `predict_one`; it is cloned, not changed. Give it a
        `random_state` where it draws.
    X, y : the stream
        A few hundred samples; long enough to fill a budget.
    classes : array, optional
        The classes of a classifier; those in y by default.
    bounded : bool, optional
        Whether the state may not grow; by default, if the machine has a budget.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.online import OnlineKernelMachine, budgets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2))
    >>> check_online(OnlineKernelMachine(gamma=1.0, budget=budgets.Oldest(10)), X, X[:, 0] > 0)
    """
    if classes is None and is_classifier(machine):
        classes = np.unique(y)
    if bounded is None:
        bounded = machine.get_params(deep=False).get("budget") is not None
    stream = Stream(machine, X, y, classes, bounded)
    for contract in ONLINE_CONTRACTS:
        contract(stream)
