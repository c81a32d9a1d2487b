"""Pictures show the numbers they are made of."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer import (
    SVC,
    SVR,
    ConformalRegressor,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    LearnedKernelRegressor,
)
from mercer.kernels import Exponential, Gaussian, Linear, Matern
from mercer.kernels.mercer import Normal
from mercer.online import OnlineKernelMachine
from mercer.plotting import (
    ComponentsDisplay,
    EigenfunctionsDisplay,
    FittedFunctionDisplay,
    GramDisplay,
    HistoryDisplay,
    MetricDisplay,
    SpectrumDisplay,
    SupportVectorsDisplay,
    ValidationDisplay,
)
from mercer.solvers import ConjugateGradient, Newton

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

POINTS = np.random.default_rng(0).uniform(size=(60, 1))
ROWS = np.random.default_rng(0).standard_normal((80, 4))


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def data(n=40, d=1):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, d))
    return X, np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(n)


def test_a_gram_matrix_is_sorted_and_thinned():
    X, _ = data()
    display = GramDisplay.from_kernel(Gaussian(0.2), X, y=X[:, 0])
    ordered = np.sort(X, axis=0)
    np.testing.assert_allclose(display.ax_.images[0].get_array(), Gaussian(0.2)(ordered))
    many = np.linspace(0, 1, 1201)[:, None]
    assert GramDisplay.from_kernel(Gaussian(0.2), many, draw=False).matrix.shape == (401, 401)
    assert display.figure_ is display.ax_.figure


def test_a_spectrum_has_its_prediction_where_there_is_one():
    X, _ = data(200)
    display = SpectrumDisplay.from_kernel(Matern(1.5), X, 20)
    points, line = display.ax_.lines
    np.testing.assert_allclose(points.get_ydata(), display.decomposition.eigenvalues)
    values = line.get_ydata()
    np.testing.assert_allclose(values[0] / values[9], 10.0**4)  # s = 2 in one column
    assert len(SpectrumDisplay.from_kernel(Gaussian(), X, 8).ax_.lines) == 1


def test_eigenfunctions_are_drawn_at_places():
    found = Gaussian().mercer(Normal(), 5)
    places = np.linspace(-2, 2, 30)
    display = EigenfunctionsDisplay(found, [0, 3]).plot(places)
    np.testing.assert_allclose(
        display.ax_.lines[1].get_ydata(), found.functions(places[:, None])[:, 3]
    )
    assert list(EigenfunctionsDisplay(Gaussian().mercer(Normal(), 2)).numbers) == [0, 1]
    with pytest.raises(ValueError, match="there are 5 eigenfunctions"):
        EigenfunctionsDisplay(found, [0, 5])


def test_components_are_coordinates():
    X, y = data(d=3)
    model = KernelPCA(3, kernel=Gaussian(0.5)).fit(X)
    display = ComponentsDisplay.from_estimator(model, X, y, components=(0, 2))
    offsets = display.ax_.collections[0].get_offsets()
    np.testing.assert_allclose(offsets, model.transform(X)[:, [0, 2]])
    assert "component 2" in display.ax_.get_ylabel()
    named = ComponentsDisplay.from_estimator(model, X, np.where(y > 0, "up", "down"))
    assert [text.get_text() for text in named.ax_.get_legend().get_texts()] == ["down", "up"]
    with pytest.raises(ValueError, match="there are 3 components"):
        ComponentsDisplay.from_estimator(model, X, components=(0, 3))


def test_the_star_is_where_the_choice_was():
    X, y = data()
    model = KernelRidgeCV(alphas=[1e-3, 1e-2, 1e-1], lengthscales=[0.1, 0.3]).fit(X, y)
    star = ValidationDisplay.from_estimator(model).ax_.lines[-1]
    assert star.get_xdata()[0] == model.alpha_
    assert star.get_ydata()[0] == pytest.approx(-model.best_score_)
    one = KernelRidgeCV(alphas=[0.1, 1.0], lengthscales=None).fit(X, y)
    assert len(ValidationDisplay.from_estimator(one).ax_.lines) == 2


@pytest.mark.parametrize("band", ["std", "interval", None])
def test_a_function_has_its_band(band):
    X, y = data()
    model = KernelRidge(0.1, kernel=Gaussian(0.2)).fit(X, y)
    display = FittedFunctionDisplay.from_estimator(model, X, y, band=band)
    np.testing.assert_allclose(display.values, model.predict(display.places[:, None]))
    assert len(display.ax_.collections) == (band is not None)
    if band == "std":
        deviations = model.predict(display.places[:, None], return_std=True)[1]
        np.testing.assert_allclose(display.upper - display.lower, 4 * deviations)
    if band == "interval":
        split = ConformalRegressor(model, random_state=0).fit(X, y)
        assert FittedFunctionDisplay.from_estimator(split, X, band=band).lower is not None


def test_support_vectors_are_ringed():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    model = SVC(gamma=1.0).fit(X, y)
    display = SupportVectorsDisplay.from_estimator(model, X, y, resolution=20)
    np.testing.assert_allclose(np.c_[display.ax_.lines[-1].get_data()], X[model.support_])
    with pytest.raises(ValueError, match="two columns and two classes"):
        SupportVectorsDisplay.from_estimator(model, X[:, :1], y)


def test_refusals():
    X, y = data(d=2)
    model = KernelRidge(kernel=Linear()).fit(X, y)
    with pytest.raises(ValueError, match="points of one column"):
        FittedFunctionDisplay.from_estimator(model, X)
    with pytest.raises(ValueError, match="band must be one of"):
        FittedFunctionDisplay.from_estimator(model, X[:, :1], band="all")
    with pytest.raises(ValueError, match="SVR has no band 'std': write band=None"):
        FittedFunctionDisplay.from_estimator(SVR().fit(X[:, :1], y), X[:, :1])
    both = KernelRidge(kernel=Linear()).fit(X[:, :1], np.c_[y, y])
    with pytest.raises(ValueError, match="a curve is of one target; got 2"):
        FittedFunctionDisplay.from_estimator(both, X[:, :1])
    with pytest.raises(ValueError, match="what KernelRidgeCV tried; got KernelRidge"):
        ValidationDisplay.from_estimator(model)


def test_tables_with_names_are_drawn_without_a_warning():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    table = pandas.DataFrame(X, columns=["size"])
    model = KernelRidge(0.1, kernel=Gaussian(0.2)).fit(table, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FittedFunctionDisplay.from_estimator(model, table, y)


# ---- how learning went ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "centres"), [(ConjugateGradient(rank=5), None), (Newton(sample=10), 20)]
)
@pytest.mark.parametrize("against", ["iterations", "seconds"])
def test_the_curve_is_what_was_recorded(solver, centres, against):
    model = KernelRidge(
        1e-3, kernel=Gaussian(0.2), solver=solver, centres=centres, random_state=0
    ).fit(POINTS, np.sin(6 * POINTS[:, 0]))
    display = HistoryDisplay.from_estimator(model, against=against)
    (line,) = display.ax_.lines
    np.testing.assert_allclose(line.get_ydata(), model.solution_.history[display.measure])
    assert len(line.get_xdata()) == len(model.solution_.history["seconds"])


@pytest.mark.parametrize("against", ["iterations", "seconds"])
def test_held_out_scores_are_drawn_with_the_iterate_that_was_returned(against):
    solver = ConjugateGradient(rank=5, tolerance=1e-9)
    y = np.sin(6 * POINTS[:, 0]) + np.random.default_rng(1).standard_normal(60)
    model = KernelRidge(
        1e-6, kernel=Gaussian(0.2), solver=solver, early_stopping=True, random_state=0
    ).fit(POINTS, y)
    display = HistoryDisplay.from_estimator(model, against=against)
    curve, best = display.ax_.lines
    np.testing.assert_allclose(curve.get_ydata(), -model.validation_scores_)
    place = int(np.argmax(model.validation_scores_))
    assert best.get_xdata()[0] == curve.get_xdata()[place]
    assert curve.get_xdata()[0] == 0


def test_a_factorisation_has_no_history():
    model = KernelRidge(kernel=Gaussian(0.2)).fit(POINTS, POINTS[:, 0])
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
    display = HistoryDisplay.from_estimator(model.fit(POINTS, np.sign(POINTS[:, 0] - 0.5)))
    curve, best = display.ax_.lines
    np.testing.assert_allclose(curve.get_ydata(), -model.validation_scores_)
    assert curve.get_xdata()[0] == isinstance(model, OnlineKernelMachine)  # the first pass, or 0
    assert best.get_xdata()[0] == curve.get_xdata()[np.argmax(model.validation_scores_)]


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_the_picture_shows_what_was_learned(form):
    model = LearnedKernelRegressor(kernel=Exponential(), form=form, rounds=2)
    display = MetricDisplay.from_estimator(model.fit(ROWS, ROWS[:, 2] ** 2), most=3)
    bars, path, *matrix = display.axes_
    widths = sorted(model.feature_importances_)[-3:]
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], widths)
    assert bars.get_yticklabels()[-1].get_text() == "column 2" == display.order()[0]
    errors = [one.error for one in model.learned_.rounds]
    np.testing.assert_allclose(path.lines[0].get_ydata(), errors)
    assert path.lines[1].get_xdata()[0] == model.learned_.chosen
    if form == "full":
        values = matrix[0].images[0].get_array()
        np.testing.assert_allclose(np.diag(values), widths[::-1])


def test_names_must_fit():
    model = LearnedKernelRegressor(kernel=Exponential(), form="diagonal", rounds=1).fit(
        ROWS, ROWS[:, 0]
    )
    with pytest.raises(ValueError, match="4 columns; got 1 names"):
        MetricDisplay(model.learned_, ["a"])
