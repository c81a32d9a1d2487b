"""What CONTRIBUTING.md says about adding a loss, a solver and an estimator runs as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import clone

from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.solvers import Direct, Problem
from mercer.testing import check_loss

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
