"""Checkpoints: a fit that was stopped anywhere goes on and ends at the same model."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.base import clone

from mercer import (
    KernelClassifier,
    KernelLogisticRegression,
    KernelQuantileRegressor,
    KernelRegressor,
    KernelRidge,
)
from mercer.features.centres import Given
from mercer.kernels import Gaussian
from mercer.solvers import ConjugateGradient, Newton

rng = np.random.default_rng(0)
X = rng.standard_normal((150, 3))
y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(150)


class Killed(Exception):
    """Stands for the end of the process."""


class After:
    """A callback that kills the fit after some steps; the one before has left its checkpoint."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, iteration, progress):
        if iteration >= self.steps:
            raise Killed


MODELS = {
    "logistic": (
        lambda **o: KernelLogisticRegression(
            1e3, kernel=Gaussian(0.5), solver=Newton(1e-10, **o.pop("own", {})), **o
        ),
        y > 0,
    ),
    "gradients": (
        lambda **o: KernelRidge(
            1e-3,
            kernel=Gaussian(1.0),
            solver=ConjugateGradient(1e-10, rank=1, **o.pop("own", {})),
            **o,
        ),
        y,
    ),
    "huber": (
        lambda **o: KernelRegressor(
            "huber", 1e-5, kernel=Gaussian(1.0), solver=Newton(1e-10, **o.pop("own", {})), **o
        ),
        y,
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", [2, 4])
def test_a_killed_fit_goes_on_and_ends_at_the_same_model(name, steps, tmp_path):
    make, target = MODELS[name]
    whole = make().fit(X, target)
    path = tmp_path / "run.ckpt"
    with pytest.raises(Killed):
        make(checkpoint=path, own={"callback": After(steps)}).fit(X, target)
    assert path.exists()
    seen = []
    again = make(checkpoint=path, own={"callback": lambda i, _: seen.append(i)}).fit(X, target)
    assert seen[0] > 1  # it did not start anew
    assert np.allclose(again.function_(X), whole.function_(X), atol=1e-6)
    assert not list(tmp_path.iterdir())


ROUGH = {"kernel": Gaussian(0.7), "centres": Given(X[:40])}
STEPS = {
    "square": (KernelRidge(1e-4, **ROUGH), y),
    "logistic": (KernelLogisticRegression(100.0, **ROUGH), y > 0),
    "hinge": (KernelClassifier("hinge", 0.1, **ROUGH), y > 0),
    "all points": (KernelLogisticRegression(1e3, kernel=Gaussian(0.5)), y > 0),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_fit_that_goes_on_takes_the_steps_that_it_would_have_taken(name, tmp_path):
    """Far from the minimum, where other steps would end elsewhere."""
    model, target = STEPS[name]
    path, rough, seen = tmp_path / "run.ckpt", {"tolerance": 1e-3, "sample": 50}, []

    def fitted(callback=None, **options):
        return clone(model).set_params(solver=Newton(**rough, callback=callback), **options)

    whole = fitted(lambda i, _: seen.append(i)).fit(X, target)
    for steps in {2, len(seen) - 1}:
        with pytest.raises(Killed):
            fitted(After(steps), checkpoint=path).fit(X, target)
        again = fitted(checkpoint=path).fit(X, target)
        np.testing.assert_allclose(again.function_(X), whole.function_(X), atol=1e-9)
    assert len(seen) > 3


def test_another_problem_is_refused(tmp_path):
    make, target = MODELS["logistic"]
    path = tmp_path / "run.ckpt"
    with pytest.raises(Killed):
        make(checkpoint=path, own={"callback": After(3)}).fit(X, target)
    with pytest.raises(ValueError, match="checkpoint of another problem"):
        make(checkpoint=path).fit(X, ~target)
    path.write_bytes(b"PK")
    with pytest.raises(ValueError, match="is no checkpoint of a solver"):
        make(checkpoint=path).fit(X, target)


def test_several_problems_of_a_fit_have_their_own_files(tmp_path):
    whole = KernelRidge([0.1, 1.0], kernel=Gaussian(), solver=ConjugateGradient(1e-10))
    targets = np.stack([y, y**2], axis=1)
    expected = whole.fit(X, targets).predict(X)
    path = tmp_path / "run.ckpt"
    again = KernelRidge(
        [0.1, 1.0], kernel=Gaussian(), solver=ConjugateGradient(1e-10), checkpoint=path
    )
    assert np.allclose(again.fit(X, targets).predict(X), expected, atol=1e-8)
    assert not list(tmp_path.iterdir())


def test_solvers_without_state_write_nothing(tmp_path):
    path = tmp_path / "run.ckpt"
    KernelRidge(kernel=Gaussian(), checkpoint=path).fit(X, y)
    KernelQuantileRegressor(kernel=Gaussian(), checkpoint=path).fit(X, y)
    assert not list(tmp_path.iterdir())


FIT = """
import sys
import numpy as np
from mercer import KernelLogisticRegression
from mercer.kernels import Gaussian
X = np.random.default_rng(0).standard_normal((600, 3))
model = KernelLogisticRegression(1e4, kernel=Gaussian(0.5), tol=1e-9)
if len(sys.argv) > 1:
    model.set_params(checkpoint=sys.argv[1])
    print("ready", flush=True)
values = model.fit(X, X[:, 0] * X[:, 1] > 0).decision_function(X)
if len(sys.argv) > 1:
    np.save(sys.argv[2], values)
"""


def test_a_process_that_is_killed_ends_at_the_same_model(tmp_path):
    space = {}
    argv, sys.argv = sys.argv, [""]
    try:
        exec(FIT, space)
    finally:
        sys.argv = argv
    paths = tmp_path / "run.ckpt", tmp_path / "values.npy"
    command = [sys.executable, "-c", FIT, *map(str, paths)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        while process.poll() is None and not paths[0].exists():
            time.sleep(0.001)
        process.kill()
    if not paths[1].exists():  # else it was quicker than we were
        subprocess.run(command, check=True, capture_output=True)
    assert np.allclose(np.load(paths[1]), space["values"], atol=1e-4)
    assert not paths[0].exists()
