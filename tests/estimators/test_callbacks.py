"""scikit-learn's callbacks: what a fit tells, and how it is stopped."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV

from mercer import (
    SVC,
    SVR,
    KernelClassifier,
    KernelLogisticRegression,
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
    KernelRidge,
    KernelRidgeCV,
    LearnedKernelClassifier,
    LearnedKernelRegressor,
    OneClassSVM,
)
from mercer.kernels import Gaussian
from mercer.solvers import KernelGradientDescent, StochasticFunctionalGradient
from mercer.solvers.schedules import Constant

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9")
X = np.random.default_rng(0).standard_normal((25, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
DESCENT = KernelGradientDescent(6, tolerance=1e-12)


class Recorder:
    """Write down what is begun and ended, with the score of what is fitted so far."""

    max_propagation_depth = None

    def __init__(self, stop_after=None):
        self.told, self.scores, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.told.append(f"end {context.task_name}")
        if fitted_estimator is not None:
            self.scores.append(fitted_estimator.score(X, y))
        return self.count("end iteration") == self.stop_after

    def count(self, what):
        return self.told.count(what)


def fitted(model, recorder, y=Y[:, 0]):
    return model.set_callbacks(recorder).fit(X, y)


def test_a_fit_begins_and_ends():
    recorder = Recorder()
    model = fitted(KernelRidge(kernel="rbf"), recorder)
    assert recorder.told == ["setup", "begin fit", "end fit", "teardown"]
    assert recorder.scores == [model.score(X, Y[:, 0])]


@pytest.mark.parametrize(
    "solver",
    [DESCENT, StochasticFunctionalGradient(6, Constant(0.5), averaging=None, random_state=0)],
    ids=["steps", "passes"],
)
def test_every_iteration_is_a_task_with_a_model_to_score(solver):
    recorder = Recorder()
    model = fitted(KernelRidge(1e-3, kernel=Gaussian(), solver=solver), recorder)
    assert recorder.count("begin iteration") == recorder.count("end iteration") == 6
    assert len(recorder.scores) == 7
    assert recorder.scores[0] < recorder.scores[-2] == pytest.approx(recorder.scores[-1])
    assert model.solver is solver  # the user's solver is not touched
    silent = clone(model).fit(X, Y[:, 0])
    assert (silent.dual_coef_ == model.dual_coef_).all()


def test_a_callback_stops_the_descent_and_the_own_one_is_still_called():
    seen = []
    own = KernelGradientDescent(6, tolerance=1e-12, callback=lambda t, state: seen.append(t))
    recorder = Recorder(stop_after=3)
    model = fitted(KernelRidge(1e-3, kernel=Gaussian(), solver=own), recorder)
    assert recorder.count("end iteration") == 3
    assert seen == [1, 2, 3]
    assert "the callback said so" in str(model.solution_.status)


@pytest.mark.filterwarnings("ignore::mercer.errors.GridEdgeWarning")
def test_targets_and_lengthscales_are_tasks():
    recorder = Recorder()
    fitted(KernelRidge([0.1, 1.0], kernel="rbf"), recorder, Y)
    assert recorder.count("end target") == 2
    recorder = Recorder()
    model = fitted(KernelRidgeCV([0.1, 1.0], lengthscales=[0.5, 1.0, 2.0]), recorder)
    assert recorder.count("begin lengthscale") == recorder.count("end lengthscale") == 3
    assert recorder.told[-1] == "teardown"
    assert recorder.scores == [model.score(X, Y[:, 0])]


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (KernelLogisticRegression(C=10.0), "iteration"),
        (KernelClassifier("hinge"), "iteration"),
        (KernelClassifier("squared_hinge", multi_class="ovo"), "pair"),
        (KernelRegressor("huber"), "iteration"),
        (KernelPoissonRegressor(), "iteration"),
        (KernelQuantileRegressor([0.2, 0.8]), "quantile"),
        (SVC(), "pair"),
        (SVR(), "iteration"),
        (LearnedKernelRegressor(kernel=Gaussian(), form="diagonal", rounds=1), "round"),
        (LearnedKernelClassifier(kernel=Gaussian(), form="diagonal", rounds=1), "round"),
    ],
    ids=lambda value: str(value),
)
def test_estimators_with_a_loss_tell_what_they_do(model, parts):
    recorder = Recorder()
    classes = np.digitize(Y[:, 0], [-0.5, 0.5])
    y = classes if isinstance(model, ClassifierMixin) else np.exp(Y[:, 0])
    fitted(model, recorder, y)
    assert recorder.count(f"begin {parts}") == recorder.count(f"end {parts}") > 0
    assert recorder.told[0] == "setup"
    assert recorder.told[-2:] == ["end fit", "teardown"]
    assert recorder.scores[-1] == model.score(X, y)
    assert (len(recorder.scores) > 1) == (parts == "iteration")


def test_a_machine_without_targets_tells_its_rounds():
    recorder = Recorder()
    recorder.on_fit_task_end = lambda estimator, context, **more: recorder.told.append(
        f"end {context.task_name}"
    )
    OneClassSVM().set_callbacks(recorder).fit(X)
    assert recorder.count("begin iteration") == recorder.count("end iteration") > 0


class StopsAtOnce(Recorder):
    def on_fit_task_end(self, estimator, context):
        return context.task_name == "lengthscale"


def test_a_search_that_is_stopped_takes_the_best_so_far():
    model = fitted(KernelRidgeCV([0.1, 1.0], lengthscales=[0.5, 1.0, 2.0]), StopsAtOnce())
    assert model.kernel_ == Gaussian(0.5)
    assert np.isfinite(model.cv_errors_).all(axis=1).tolist() == [True, False, False]


class Impatient(Recorder):
    def on_fit_task_begin(self, estimator, context):
        raise KeyboardInterrupt


def test_an_interruption_by_a_callback_leaves_nothing_half_fitted():
    model, recorder = KernelRidge(kernel="rbf").fit(X, Y), Impatient()
    with pytest.raises(KeyboardInterrupt):
        fitted(model, recorder)
    assert recorder.told == ["setup", "teardown"]
    assert not hasattr(model, "dual_coef_")
    assert not hasattr(model, "function_")


def test_a_grid_search_hands_its_callbacks_on():
    recorder = Recorder()
    search = GridSearchCV(
        KernelRidge(kernel=Gaussian(), solver=DESCENT), {"alpha": [1e-3, 1.0]}, cv=2
    )
    search.set_callbacks(recorder).fit(X, Y[:, 0])
    assert recorder.count("end iteration") == 6 * (2 * 2 + 1)


def test_scikit_learns_own_callbacks():
    monitor = callback.ScoringMonitor(scoring="r2")
    model = fitted(KernelRidge(1e-3, kernel=Gaussian(), solver=DESCENT), monitor)
    scores = [row["r2"] for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert len(scores) == 6
    assert scores[-1] == pytest.approx(model.score(X, Y[:, 0]))
    pytest.importorskip("rich")
    fitted(KernelRidge(1e-3, kernel=Gaussian(), solver=DESCENT), callback.ProgressBar())
