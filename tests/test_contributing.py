"""The code in CONTRIBUTING.md runs as it stands; kernels are in `tests/kernels`."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import clone

from mercer.evaluation.execution import Execution
from mercer.evaluation.expression import Operation, product, sqrt
from mercer.evaluation.operations import OPERATIONS
from mercer.kernels import Gaussian, Matern
from mercer.kernels.radial import Radial
from mercer.losses import Squared
from mercer.operators import gram as operator
from mercer.solvers import ConjugateGradient, Direct, Problem
from mercer.testing import check_kernel, check_loss, rounding

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(60, 2))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1]


@pytest.fixture
def written(request, monkeypatch):
    """Give what the code of a section defines."""
    section = GUIDE.read_text("utf-8").split(f"## {request.param}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    module = ModuleType("written_in_the_guide")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look themselves up
    exec(compile(code, str(GUIDE), "exec"), vars(module))
    return module


@pytest.mark.parametrize("written", ["A loss"], indirect=True)
def test_a_loss(written):
    loss = written.DoubledSquare()
    check_loss(loss)
    assert float(loss.value(1.0, 3.0)) == 4.0


@pytest.mark.parametrize("written", ["A solver"], indirect=True)
def test_a_solver(written):
    problem = Problem(Gaussian().gram(X), Y, Squared(), regularization=0.1)
    solution = written.GradientSteps().solve(problem)
    assert solution.status.converged
    exact = Direct().solve(problem)
    assert solution.objective == pytest.approx(exact.objective, rel=2e-6)


@pytest.mark.parametrize("written", ["An estimator"], indirect=True)
def test_an_estimator(written):
    model = clone(written.RobustRegressor(0.5, regularization=1e-4)).fit(X, Y)
    assert model.solution_.status.converged
    assert model.score(X, Y) > 0.99


@pytest.fixture
def as_before():
    """Take back what the test adds to the operations."""
    tables = OPERATIONS, rounding.ELEMENTARY, rounding.CARRIED
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


@dataclass(frozen=True, eq=False, repr=False)
class Sech(Radial):
    """1/cosh(|x − y|/ℓ), whose Fourier transform has the same form."""

    lengthscale: float = 1.0
    positive_definite = True  # on a line

    def profile(self, s):
        return Operation("sech", (sqrt(s),))


@pytest.mark.parametrize("written", ["An operation"], indirect=True)
def test_an_operation(written, as_before):
    assert written.sech(product()) == Operation("sech", (product(),))
    kernel, line = Sech(0.3), X[:, :1]
    check_kernel(kernel, line)
    assert np.allclose(kernel(line), 1.0 / np.cosh(np.abs(line - line.T) / 0.3), rtol=1e-13)


@pytest.mark.parametrize("written", ["An execution"], indirect=True)
def test_an_execution(written, monkeypatch):
    verbs = {name for name in vars(Execution) if not name.startswith("_")}
    assert verbs <= vars(written.Stored).keys()
    kernel = Matern(1.5, lengthscale=0.5)
    problem = Problem(kernel.gram(X), Y, Squared(), regularization=1e-3)
    expected = ConjugateGradient(tolerance=1e-10).solve(problem)
    monkeypatch.setattr(
        operator, "execution_for", lambda kernel, x, y, *more: written.Stored(kernel, x, y)
    )
    problem = Problem(kernel.gram(X), Y, Squared(), regularization=1e-3)
    assert "stored" in str(problem.gram.plan())
    solution = ConjugateGradient(tolerance=1e-10).solve(problem)
    assert np.allclose(solution.coefficients, expected.coefficients, rtol=1e-6)
