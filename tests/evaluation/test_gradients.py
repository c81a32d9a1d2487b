"""Gradients in pieces are the whole, and derivatives in parameters are differences."""

from __future__ import annotations

import numpy as np
import pytest

import markets
from mercer.evaluation import gradients
from mercer.evaluation.parameters import keeps_form
from mercer.kernels import Gaussian, Laplacian, Matern, Polynomial, Precomputed


def test_many_points_are_taken_in_strips():
    execution = Gaussian().gram(markets.normal(50, 3), markets.normal(7, 3, 1)).execution()
    whole = execution.gradient(np.ones((7, 1)))
    execution.strip_bytes = 200
    assert np.allclose(execution.gradient(np.ones((7, 1))), whole)


def test_wide_points_are_taken_some_coordinates_at_a_time():
    kernel = Gaussian(4.0) + Polynomial(2)
    execution = kernel.gram(markets.normal(5, 30, 4), markets.normal(9, 30)).execution()
    whole = execution.gradient(np.ones((9, 1)))
    parts = gradients.gradient(execution, np.ones((9, 1)), gradients.Tuning(group_bytes=8 * 9 * 7))
    assert np.allclose(parts, whole, rtol=1e-13)


def differences(kernel, name, value, X, Y, U, V):
    """uᵀ(∂K/∂θ)v by central differences, for each number of a parameter."""

    def at(entries):
        changed = kernel.with_(**{name: entries[0] if np.ndim(value) == 0 else tuple(entries)})
        return float((U * (changed(X, Y) @ V)).sum())

    entries, slopes = np.atleast_1d(np.array(value, float)), []
    for i, entry in enumerate(entries):
        step = 1e-4 * abs(entry or 1.0)
        ends = []
        for sign in (1, -1):
            moved = entries.copy()
            moved[i] += sign * step
            ends.append(at(moved))
        slopes.append((ends[0] - ends[1]) / (2 * step))
    return slopes if np.ndim(value) else slopes[0]


@pytest.mark.parametrize("name", markets.WITH_EXPRESSION)
def test_derivatives_in_parameters_are_differences(name):
    kernel, width = markets.WITH_EXPRESSION[name], 2 if name in markets.ON_TWO_COLUMNS else 4
    X, Y = abs(markets.normal(9, width)) / 9, abs(markets.normal(7, width, 1)) / 9
    U, V = markets.normal(9, 2, 2), markets.normal(7, 2, 3)
    found = kernel.gram(X, Y).parameter_gradient(U, V)
    scale = float(np.abs(U).T.sum() * np.abs(V).sum())
    values = kernel.get_params(deep=True)
    for parameter, slope in found.items():
        try:
            expected = differences(kernel, parameter, values[parameter], X, Y, U, V)
        except ValueError:
            continue  # at the edge of what the kernel admits
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7 * scale, err_msg=parameter)


@pytest.mark.parametrize("name", markets.WITH_EXPRESSION)
def test_a_matrix_of_weights_is_a_sum_of_pairs_of_vectors(name):
    kernel, width = markets.WITH_EXPRESSION[name], 2 if name in markets.ON_TWO_COLUMNS else 4
    X, Y = abs(markets.normal(9, width)) / 9, abs(markets.normal(7, width, 1)) / 9
    U, V = markets.normal(9, 2, 2), markets.normal(7, 2, 3)
    gram = kernel.gram(X, Y)
    expected, found = gram.parameter_gradient(U, V), gram.parameter_gradient(U @ V.T)
    assert found.keys() == expected.keys()
    scale = float(np.abs(U).T.sum() * np.abs(V).sum())
    for parameter, slope in found.items():
        np.testing.assert_allclose(slope, expected[parameter], rtol=1e-9, atol=1e-12 * scale)


@pytest.mark.parametrize("kernel", [Gaussian([0.7, 2.0, 1.0]), Laplacian([0.7, 2.0, 1.0])])
def test_scales_of_all_columns_at_once(kernel):
    X, P = markets.normal(12, 3), markets.normal(12, 12, 1)
    found = kernel.gram(X).parameter_gradient(P)["lengthscale"]
    expected = differences(kernel, "lengthscale", kernel.lengthscale, X, X, P, np.eye(12))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"have this shape; got \(12, 1\)"):
        kernel.gram(X).parameter_gradient(P[:, 0])


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (Gaussian(0.7), {"lengthscale"}),
        (Gaussian([0.7, 2.0, 1.0]), {"lengthscale"}),
        (Matern(1.5, 0.3), {"lengthscale"}),
        (
            2.0 * Gaussian(0.5) + Matern(2.5, 2.0),
            {"left__kernel__lengthscale", "right__lengthscale", "left__scale"},
        ),
    ],
)
def test_lengthscales_and_factors_have_derivatives(kernel, names):
    X, U = markets.normal(12, 3), markets.normal(12, 1, 1)
    found = kernel.gram(X).parameter_gradient(U[:, 0], U[:, 0])
    values = kernel.get_params(deep=True)
    assert set(found) >= names
    for name in names:
        expected = differences(kernel, name, values[name], X, X, U, U)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6)
        assert np.shape(found[name]) == np.shape(values[name])


def test_a_kernel_without_an_expression_has_differences():
    kernel, v = 3.0 * Precomputed(np.eye(2)), np.ones(2)
    found = kernel.gram([0, 1]).parameter_gradient(v, v)
    assert found.keys() == {"scale"}  # a matrix of data is not a parameter
    assert found["scale"] == pytest.approx(2.0, rel=1e-11)


def test_a_kernel_without_an_expression_has_differences_in_the_reference_too():
    kernel, v = 3.0 * Precomputed(np.eye(2)), np.ones(2)
    found = kernel.gram([0, 1], precision="reference").parameter_gradient(v, v)
    assert found["scale"] == pytest.approx(2.0, rel=1e-11)  # by differences, as elsewhere


MAP = np.array([[1.0, 0.5], [0.0, 2.0]])


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian([0.7, 2.0]) + Matern(1.5, [0.7, 2.0]),
        Gaussian([0.7, 2.0]) * Gaussian([0.7, 2.0]),
        Gaussian().after(MAP) + Matern(1.5).after(MAP),
    ],
)
def test_parameters_that_two_kernels_have_in_common_have_their_own_derivatives(kernel):
    """Points in two views that are equal are one number, and two where one parameter moves."""
    X, P = markets.normal(9, 2), markets.normal(9, 9, 1)
    found, values = kernel.gram(X).parameter_gradient(P), kernel.get_params(deep=True)
    apart = kernel.with_(
        **{
            name: np.array(v) * (1 + 1e-9)
            for name, v in values.items()
            if name[:4] == "left" and np.ndim(v)
        }
    )
    expected = apart.gram(X).parameter_gradient(P)
    assert found.keys() == expected.keys()
    for name, slope in found.items():
        np.testing.assert_allclose(slope, expected[name], rtol=1e-6)
    for name in ("left__lengthscale", "right__lengthscale"):
        assert name not in found or keeps_form(kernel, name, values[name])
