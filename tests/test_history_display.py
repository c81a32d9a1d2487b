"""The history of a solver as a picture."""

import numpy as np
import pytest

from mercer import SVC, SVR, KernelRidge
from mercer.kernels import Gaussian
from mercer.online import OnlineKernelMachine
from mercer.plotting import HistoryDisplay
from mercer.solvers import ConjugateGradient, Newton

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

X = np.random.default_rng(0).uniform(size=(60, 1))


@pytest.mark.parametrize(
    ("solver", "centres"), [(ConjugateGradient(rank=5), None), (Newton(sample=10), 20)]
)
@pytest.mark.parametrize("against", ["iterations", "seconds"])
def test_the_curve_is_what_was_recorded(solver, centres, against):
    model = KernelRidge(
        1e-3, kernel=Gaussian(0.2), solver=solver, centres=centres, random_state=0
    ).fit(X, np.sin(6 * X[:, 0]))
    display = HistoryDisplay.from_estimator(model, against=against)
    (line,) = display.ax_.lines
    np.testing.assert_allclose(line.get_ydata(), model.solution_.history[display.measure])
    assert len(line.get_xdata()) == len(model.solution_.history["seconds"])
    matplotlib.pyplot.close(display.figure_)


@pytest.mark.parametrize("against", ["iterations", "seconds"])
def test_held_out_scores_are_drawn_with_the_iterate_that_was_returned(against):
    solver = ConjugateGradient(rank=5, tolerance=1e-9)
    y = np.sin(6 * X[:, 0]) + np.random.default_rng(1).standard_normal(60)
    model = KernelRidge(
        1e-6, kernel=Gaussian(0.2), solver=solver, early_stopping=True, random_state=0
    ).fit(X, y)
    display = HistoryDisplay.from_estimator(model, against=against)
    curve, best = display.ax_.lines
    np.testing.assert_allclose(curve.get_ydata(), -model.validation_scores_)
    place = int(np.argmax(model.validation_scores_))
    assert best.get_xdata()[0] == curve.get_xdata()[place]
    assert curve.get_xdata()[0] == 0
    matplotlib.pyplot.close(display.figure_)


def test_a_factorisation_has_no_history():
    model = KernelRidge(kernel=Gaussian(0.2)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="no history to draw"):
        HistoryDisplay.from_estimator(model)


@pytest.mark.parametrize(
    "model",
    [
        SVR(kernel=Gaussian(0.2), early_stopping=True),
        SVC(kernel=Gaussian(0.2), early_stopping=True, random_state=0),
        OnlineKernelMachine(Gaussian(0.2), early_stopping=True, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_rounds_and_passes_are_drawn(model):
    display = HistoryDisplay.from_estimator(model.fit(X, np.sign(X[:, 0] - 0.5)))
    curve, best = display.ax_.lines
    np.testing.assert_allclose(curve.get_ydata(), -model.validation_scores_)
    assert curve.get_xdata()[0] == isinstance(model, OnlineKernelMachine)  # the first pass, or 0
    assert best.get_xdata()[0] == curve.get_xdata()[np.argmax(model.validation_scores_)]
    matplotlib.pyplot.close(display.figure_)
