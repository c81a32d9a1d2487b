"""What notebooks show: pictures without a drawing library, kernel, solver and certificate."""

from __future__ import annotations

import base64
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest
from sklearn import config_context

from mercer import SVC, KernelPCA, KernelRegressor, KernelRidge
from mercer.features import Nystroem
from mercer.kernels import Brownian, Gaussian, Linear, Matern
from mercer.structured import Spectrum

X = np.random.default_rng(0).uniform(-2.0, 2.0, (30, 1))
Y = np.sin(2.0 * X[:, 0])


def pictures(html):
    return [ElementTree.fromstring(part) for part in re.findall(r"<svg.*?</svg>", html, re.S)]


def pixels(picture):
    """The colours of a heat map, read back by hand from its PNG."""
    (image,) = [node for node in picture.iter() if node.tag == "image"]
    data = base64.b64decode(image.attrib["href"].partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    (size,) = struct.unpack(">I", data[start - 8 : start - 4])
    lines = np.frombuffer(zlib.decompress(data[start : start + size]), np.uint8)
    lines = lines.reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3).astype(int)


def test_a_kernel_shows_its_values_and_its_facts():
    kernel = Matern(1.5, 2.0)
    html = kernel._repr_html_()
    assert "Matern(smoothness=1.5, lengthscale=2.0)" in html
    assert "sobolev order" in html
    curve, heat = pictures(html)
    (line,) = [node for node in curve.iter() if node.tag == "polyline"]
    heights = np.array([float(pair.split(",")[1]) for pair in line.attrib["points"].split()])
    values = (heights.max() - heights) / np.ptp(heights)
    t = np.linspace(-6.0, 6.0, len(values))
    s = np.sqrt(3.0) * np.abs(t) / 2.0
    expected = (1.0 + s) * np.exp(-s)
    expected = (expected - expected.min()) / np.ptp(expected)
    np.testing.assert_allclose(values, expected, atol=0.01)
    colours = pixels(heat)
    assert np.array_equal(colours, colours.transpose(1, 0, 2))
    assert (colours[0, 0] == [33, 84, 158]).all()
    assert (colours[0, -1] > 240).all()


@pytest.mark.parametrize(
    ("kernel", "lines"),
    [
        (Gaussian([1.0, 3.0]), 1),
        (Linear(), 3),
        (Brownian(), 3),  # for numbers ≥ 0 only
        (Gaussian().on([2]) + Linear(), 3),
    ],
    ids=repr,
)
def test_kernels_of_vectors_have_a_picture(kernel, lines):
    curve, heat = pictures(kernel._repr_html_())
    assert len([node for node in curve.iter() if node.tag == "polyline"]) == lines
    assert len(pixels(heat)) == 41


def test_kernels_of_other_points_have_words():
    html = Spectrum(2)._repr_html_()
    assert "Spectrum" in html
    assert not pictures(html)


def test_a_fitted_model_shows_kernel_solver_and_certificate():
    model = KernelRidge(0.1, kernel=Gaussian(0.7), fit_intercept=True)
    before = model._repr_mimebundle_()["text/html"]
    assert "certificate" not in before
    html = model.fit(X, Y)._repr_mimebundle_()["text/html"]
    assert "degrees of freedom" in model._repr_html_()
    for text in ("Gaussian(lengthscale=0.7)", str(model.solution_.status), "degrees of freedom"):
        assert text in html
    function = pictures(html)[0]
    assert function.attrib["aria-label"] == "fitted function"
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")


def test_many_rows_are_certified_on_request():
    rows = np.linspace(0.0, 1.0, 1200)[:, None]
    model = KernelRidge(1.0, kernel=Gaussian(0.3), centres=20, random_state=0)
    html = model.fit(rows, rows[:, 0])._repr_mimebundle_()["text/html"]
    assert "gap: " in html
    assert "degrees of freedom" not in html


@pytest.mark.parametrize(
    "model",
    [
        KernelPCA(2, kernel=Gaussian()),
        SVC(),
        KernelRegressor("huber", kernel=Gaussian()),
        Nystroem(Gaussian(), n_components=5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_estimator_has_a_picture(model):
    two = np.c_[X, X**2]
    html = model.fit(two, Y > 0 if isinstance(model, SVC) else Y)._repr_mimebundle_()["text/html"]
    assert pictures(html)
    assert "<b>kernel</b>" in html
