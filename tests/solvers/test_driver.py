"""The driver of iterative solvers: stopping, time, progress, early stopping, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from mercer.features import RandomFourierFeatures
from mercer.kernels import Gaussian, Linear
from mercer.losses import Logistic, Squared
from mercer.solvers import (
    BlockCoordinateDescent,
    ConjugateGradient,
    Direct,
    DoublyStochastic,
    HeldOut,
    KernelGradientDescent,
    MiniBatch,
    Newton,
    Problem,
    SparseExpansion,
    Splitting,
    StochasticFunctionalGradient,
    SubgradientDescent,
)
from mercer.solvers.driver import Progress, State, drive, restore, save
from mercer.solvers.schedules import Constant, InverseSquareRoot, InverseTime
from mercer.solvers.solution import Solution, Status

KERNEL = Gaussian(0.7)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
Y = np.sin(X[:, 0]) + 0.5 * RNG.standard_normal(300)


@dataclass(eq=False)
class Halved(State):
    value: Any = None


@dataclass(frozen=True)
class Halving:
    """A solver as small as one can be: it halves a number until it is below the tolerance."""

    tolerance: float = 1e-3
    iterations: int = 50
    time_limit: float | None = None
    callback: Any = None
    checkpoint: Any = None
    seen: list = field(default_factory=list, compare=False)

    def begin(self, problem, start=None):
        first = 1.0 if start is None else float(start.coefficients[0])
        return Halved(value=np.array([first]), error=first)

    def step(self, state):
        state.value = 0.5 * state.value
        state.error = float(state.value[0])
        state.iteration += 1
        state.record(value=state.error)
        return state

    def progress(self, state):
        self.seen.append(state.iteration)
        return Progress(state.value, np.zeros(()), state.error)

    def solution(self, state):
        text = state.stopped or state.finished or "Solved."
        return Solution(
            state.value, Status(not state.stopped, text), 0.0, state.error, state.history
        )


PROBLEM = Problem(KERNEL.gram(X[:2]), Y[:2], Squared(), 0.1)


def test_it_ends_at_the_tolerance_and_records_every_step():
    solution = drive(Halving(), PROBLEM)
    assert solution.gap <= 1e-3 < 2 * solution.gap
    assert len(solution.history["value"]) == len(solution.history["seconds"]) == 10
    assert drive(Halving(), PROBLEM, solution).history.get("value") is None  # nothing left to do
    solver = Halving()
    drive(solver, PROBLEM)
    assert not solver.seen  # progress is made for a callback only


def test_limits_and_callbacks_stop_it():
    assert "the limit of 3 iterations" in str(drive(Halving(iterations=3), PROBLEM).status)
    late = drive(Halving(time_limit=1e-9), PROBLEM)
    assert "the time limit of 1e-09 s" in str(late.status)
    assert len(late.history["value"]) == 1
    told = []

    def stop(iteration, progress):
        told.append((iteration, progress.objective))
        return iteration == 4

    assert "the callback" in str(drive(Halving(callback=stop), PROBLEM).status)
    assert told == [(1, 0.5), (2, 0.25), (3, 0.125), (4, 0.0625)]


def test_a_checkpoint_goes_on_where_it_was(tmp_path):
    path = tmp_path / "state.npz"
    drive(Halving(iterations=4, checkpoint=path), PROBLEM)
    resumed = drive(Halving(), PROBLEM, resume=path)
    whole = drive(Halving(), PROBLEM)
    assert resumed.coefficients == whole.coefficients
    assert resumed.history["value"] == whole.history["value"]
    assert np.all(np.diff(resumed.history["seconds"]) > 0)
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]  # no temporary file is left


def test_what_is_no_checkpoint_is_refused_and_never_run(tmp_path):
    path = tmp_path / "state.npz"
    bad = tmp_path / "bad.npz"
    np.savez(bad, plain=np.array([{"code": 1}], dtype=object))
    with pytest.raises(ValueError, match="no checkpoint of a solver"):
        restore(Halved(value=np.ones(1)), bad)
    bad.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="no checkpoint of a solver"):
        restore(Halved(value=np.ones(1)), bad)
    save(Halved(value=np.ones(3)), path)
    with pytest.raises(ValueError, match=r"another problem: value has the shape \(3,\)"):
        restore(Halved(value=np.ones(1)), path)
    save(State(), path)
    with pytest.raises(ValueError, match="checkpoint of another solver"):
        restore(Halved(value=np.ones(1)), path)


SOLVERS = {
    "conjugate gradients": (ConjugateGradient(tolerance=1e-10, rank=10), Squared(), Y),
    "blocks": (BlockCoordinateDescent(tolerance=1e-10, block_size=150, rank=100), Squared(), Y),
    "newton": (Newton(1e-10), Logistic(), np.sign(Y)),
    "ridge by newton": (Newton(1e-10, factor=False), Squared(), Y),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_go_on_from_their_checkpoints(name, tmp_path):
    solver, loss, y = SOLVERS[name]
    problem, path = Problem(KERNEL.gram(X), y, loss, 1e-4, None, True), tmp_path / "run.npz"
    whole = solver.solve(problem)
    before, after = [], []

    def stop(iteration, progress):
        before.append(problem.objective(progress.coefficients, progress.intercept))
        return iteration == 3

    cut = replace(solver, checkpoint=path, callback=stop).solve(problem)
    assert not cut.status.converged

    def look(iteration, progress):
        after.append(problem.objective(progress.coefficients, progress.intercept))

    resumed = replace(solver, callback=look).solve(problem, resume=path)
    assert after[0] <= before[-1] * (1.0 + 1e-12)  # not from the start again
    assert resumed.status.converged
    assert resumed.objective == pytest.approx(whole.objective, rel=1e-8)
    assert len(resumed.history["seconds"]) > 3


@pytest.mark.parametrize(
    "solver",
    [
        KernelGradientDescent(9),
        SubgradientDescent(9, InverseSquareRoot(1.0)),
        SubgradientDescent(9, InverseSquareRoot(1.0), averaging=None),
        StochasticFunctionalGradient(5, InverseTime(5.0, 60.0), 7, random_state=3),
        StochasticFunctionalGradient(5, Constant(0.05), primal=True, random_state=3),
        MiniBatch(2, Constant(0.5), 50),
        DoublyStochastic(9, Constant(0.3)),
    ],
)
def test_descents_go_on_as_if_they_had_not_been_stopped(solver, tmp_path):
    problem, path = Problem(Linear().gram(X), Y, Squared(), 1e-2), tmp_path / "run.npz"
    if isinstance(solver, MiniBatch):
        features = RandomFourierFeatures(n_components=20, random_state=0).fit(X)
        problem = Problem.on_features(features, X, Y, Squared(), 1e-2)
    if isinstance(solver, DoublyStochastic):
        problem = replace(problem, operator=KERNEL.gram(X))
    cut = replace(solver, checkpoint=path, callback=lambda i, p: i == 3).solve(problem)
    whole, resumed = solver.solve(problem), solver.solve(problem, resume=path)
    np.testing.assert_allclose(resumed.coefficients, whole.coefficients, rtol=1e-9, atol=1e-12)
    for name, record in whole.history.items():
        assert len(resumed.history[name]) == len(record) > len(cut.history[name])
        assert name == "seconds" or resumed.history[name] == pytest.approx(record, rel=1e-9)


@pytest.mark.parametrize("name", ["centres", "kinks"])
def test_newton_on_centres_goes_on_from_its_checkpoint(name, tmp_path):
    from mercer.losses import Hinge

    loss, y = (Squared(), Y) if name == "centres" else (Hinge(), np.sign(Y))
    problem = Problem.on_centres(KERNEL.gram(X, X[:20]), y, loss, 1e-4, None, True)
    path, solver = tmp_path / "run.npz", Newton(1e-4, sample=25)
    cut = replace(solver, checkpoint=path, callback=lambda i, p: i == 2).solve(problem)
    whole, resumed = solver.solve(problem), solver.solve(problem, resume=path)
    assert "the callback" in str(cut.status)
    assert resumed.status.converged
    assert resumed.objective == pytest.approx(whole.objective, rel=1e-3)


def test_early_stopping_returns_the_iterate_that_predicts_best():
    rule = HeldOut(fraction=0.3, patience=5, random_state=1)
    problem = Problem(KERNEL.gram(X), Y, Squared(), 1e-9)
    solver = ConjugateGradient(tolerance=1e-9, rank=5, stopping=rule)
    stopped, whole = solver.solve(problem), Direct().solve(problem)
    hidden = rule.hidden(np.ones(len(Y)))
    K = KERNEL.gram(X).dense()
    risks = stopped.history["held_out_risk"]
    values = K[hidden] @ stopped.coefficients
    assert np.mean(0.5 * (values - Y[hidden]) ** 2) == pytest.approx(min(risks), rel=1e-6)
    assert len(risks) == int(np.argmin(risks)) + 1 + rule.patience
    assert not stopped.coefficients[hidden].any()  # they were not fitted
    assert f"{hidden.sum()} held-out rows are predicted best after" in str(stopped.status)
    assert f"{int(np.argmin(risks))} of {len(risks) - 1} steps" in str(stopped.status)
    assert stopped.gap >= stopped.objective - whole.objective > 0  # of all rows


def test_splitting_begins_at_a_start():
    problem = Problem(KERNEL.gram(X), np.sign(Y), Logistic(), 1e-2)
    first = Splitting(1e-6).solve(problem)
    again = Splitting(1e-6).solve(problem, first)
    assert again.status.converged


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: MiniBatch(1, 0.1), r"MiniBatch needs a schedule of steps; got 0\.1\. Write sch"),
        (lambda: DoublyStochastic(1, 0.1), "DoublyStochastic needs a schedule of steps"),
        (lambda: MiniBatch(1, Constant(1.0), averaging=True), r"needs averaging=Average\(\), Ave"),
        (lambda: Splitting(iterations=0), "Splitting needs a whole number iterations ≥ 1; got 0"),
        (lambda: SparseExpansion(time_limit=-1), "needs a finite time_limit > 0; got -1"),
        (lambda: SubgradientDescent(2, Constant(1.0), time_limit=0), "finite time_limit > 0"),
        (lambda: KernelGradientDescent(None), "needs a whole number steps ≥ 1; got None"),
        (lambda: ConjugateGradient(rank=0.5), "needs a whole number rank ≥ 1; got 0.5"),
    ],
)
def test_settings_are_checked_alike(make, text):
    with pytest.raises(ValueError, match=text):
        make()
