"""Gradients in the space: J(f + th) against ⟨∇J(f), h⟩ for every loss, chains, and descent."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import Gaussian, Matern
from mercer.kernels.calculus import InnerProduct, Risk, SquaredNorm
from mercer.kernels.functionals import Derivative, Evaluation, Integral
from mercer.losses import Hinge, Multinomial, Squared
from mercer.solvers import KernelGradientDescent, Problem, gradient_norm
from regularised import KINKED, SMOOTH, X

KERNEL = Gaussian(0.8)
RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((7, 2))


def functions(outputs=None):
    shape = (7,) if outputs is None else (7, outputs)
    return [KERNEL.function(CENTRES, 0.3 * RNG.standard_normal(shape)) for _ in range(2)]


def slope_along(J, f, h, step=1e-6):
    return (J(f + step * h) - J(f - step * h)) / (2 * step)


@pytest.mark.parametrize("name", [*SMOOTH, *KINKED])
def test_the_gradient_of_the_risk_of_every_loss(name):
    loss, y = (SMOOTH | KINKED)[name]
    outputs = 3 if isinstance(loss, Multinomial) else None if y.ndim == 1 else y.shape[1]
    f, h = functions(outputs)
    weights = np.where(np.arange(len(y)) % 3, 1.0, 2.0)
    J = Risk(loss, X, y, weights)
    assert np.isclose(slope_along(J, f, h), J.gradient(f).inner(h), atol=1e-7)


def test_linear_functionals_are_their_representers():
    k = Matern(2.5, 0.7)
    f, h = (k.function(np.linspace(0, 2, 6)[:, None], RNG.standard_normal(6)) for _ in range(2))
    for J in (Evaluation([0.4]), Derivative([0.4]), Integral(0.0, 1.0), InnerProduct(h)):
        assert np.isclose(slope_along(J, f, h), J(h))  # linear
    assert np.isclose(Evaluation([0.4])(f), Evaluation([0.4]).representer(k).inner(f))
    difference = (f([[0.4 + 1e-6]]) - f([[0.4 - 1e-6]]))[0] / 2e-6
    assert np.isclose(Derivative([0.4])(f), difference)


def test_sums_multiples_and_the_chain_rule():
    f, h = functions()
    cubed = SquaredNorm().then(lambda q: q**3, lambda q: 3 * q**2)
    exact = 3 * f.norm() ** 4 * 2.0 * f
    assert (cubed.gradient(f) - exact).norm() < 1e-12
    J = 2.0 * cubed - Evaluation([0.1, 0.2]).then(np.exp, np.exp) + Risk(Squared(), X, X[:, 0])
    assert np.isclose(slope_along(J, f, h), J.gradient(f).inner(h), rtol=1e-6)
    line = Gaussian().function([[0.0], [1.0]], [1.0, 2.0])
    J = SquaredNorm() + Derivative([0.5]).then(np.sin, np.cos)  # functions and representers mix
    wanted = (
        2.0 * line(np.array([[0.3]]))[0]
        + np.cos(Derivative([0.5])(line)) * (Derivative([0.5]).representer(Gaussian())([[0.3]])[0])
    )
    assert np.isclose(J.gradient(line)([[0.3]])[0], wanted)


def test_descent_takes_steps_along_the_gradient():
    """One step of the solver is f − η∇J(f), and its gradient norm is that of the function."""
    y, ridge = X[:, 0] ** 2, 0.1
    problem = Problem(KERNEL.gram(X), y, Squared(), ridge)
    J = Risk(Squared(), X, y) + (ridge / 2) * SquaredNorm()
    alpha = 0.1 * RNG.standard_normal(len(y))
    f = KERNEL.function(X, alpha)
    assert np.isclose(J(f), problem.objective(alpha))
    assert np.isclose(J.gradient(f).norm(), gradient_norm(problem, alpha))
    solution = KernelGradientDescent(steps=1, step_size=0.5, tolerance=1e-12).solve(
        problem, start=alpha
    )
    after = f - 0.5 * J.gradient(f)
    np.testing.assert_allclose(problem.function(solution)(CENTRES), after(CENTRES), atol=1e-12)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="targets have the shape"):
        Risk(Squared(), X, np.zeros((60, 2)))(functions()[0])
    with pytest.raises(ValueError, match="labels"):
        Risk(Hinge(), X, np.full(60, 0.3))
    with pytest.raises(ValueError, match="finite"):
        float("nan") * SquaredNorm()
