"""What a kernel learned as a picture."""

import numpy as np
import pytest

from mercer import LearnedKernelRegressor
from mercer.kernels import Exponential
from mercer.plotting import MetricDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

X = np.random.default_rng(0).standard_normal((80, 4))


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_the_picture_shows_what_was_learned(form):
    model = LearnedKernelRegressor(kernel=Exponential(), form=form, rounds=2)
    display = MetricDisplay.from_estimator(model.fit(X, X[:, 2] ** 2), most=3)
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
    matplotlib.pyplot.close(display.figure_)


def test_names_must_fit():
    model = LearnedKernelRegressor(kernel=Exponential(), form="diagonal", rounds=1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="4 columns; got 1 names"):
        MetricDisplay(model.learned_, ["a"])
