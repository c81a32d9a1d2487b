"""Losses: every contract on every loss, each shown able to fail, and what others call the same."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from sklearn.linear_model import HuberRegressor
from sklearn.svm import SVR, LinearSVC

from mercer.evaluation.expression import (
    Operation,
    absolute,
    exp,
    log,
    log1p,
    maximum,
    minimum,
    sqrt,
    tanh,
)
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    MarginLoss,
    Multinomial,
    Perceptron,
    Poisson,
    Quantile,
    ResidualLoss,
    Squared,
    SquaredHinge,
    one_hot,
)
from mercer.losses.compiled import (
    at,
    compiled_conjugate,
    compiled_loss,
    dual_pair_step,
    dual_step,
)
from mercer.losses.expressions import (
    RULES,
    F,
    Y,
    choose,
    code_of,
    entropy,
    entropy1p,
    positive_part,
    sigmoid,
    simplified,
    slope_of,
    softplus,
)
from mercer.losses.numerics import (
    exponential_root,
    implicit_step,
    increasing_root,
    log_omega,
)
from mercer.testing import LOSS_CONTRACTS, check_loss
from mercer.testing.losses import LossCase, loss_cases

LOSSES = [
    Squared(),
    Absolute(),
    Huber(),
    Huber(delta=0.3),
    Quantile(),
    Quantile(level=0.9),
    EpsilonInsensitive(),
    EpsilonInsensitive(epsilon=0.0),
    Logistic(),
    Hinge(),
    SquaredHinge(),
    Perceptron(),
    Poisson(),
    Multinomial(),
]
RESIDUAL = [loss for loss in LOSSES if isinstance(loss, ResidualLoss)]
MARGIN = [loss for loss in LOSSES if isinstance(loss, MarginLoss)]
SCALAR = [loss for loss in LOSSES if not loss.is_multiclass]
reals = st.floats(-50.0, 50.0)
steps = st.floats(1e-3, 1e3)


@pytest.fixture
def random():
    """The same numbers for each test."""
    return np.random.default_rng(0)


def target_of(loss, number):
    """A target the loss is made for, out of any number."""
    if isinstance(loss, MarginLoss):
        return 1.0 if number >= 0 else -1.0
    return abs(number) if isinstance(loss, Poisson) else number


# ---- the contract -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_loss_keeps_every_contract(loss, seed):
    check_loss(loss, random_state=seed)


@pytest.mark.parametrize("loss", RESIDUAL, ids=repr)
def test_contracts_hold_on_given_targets(loss):
    check_loss(loss, y=[0.0, 3.5, -100.0])


def test_contracts_hold_for_many_classes():
    check_loss(Multinomial(), y=[0, 6, 3])
    check_loss(Multinomial(), y=np.eye(5))


def test_a_loss_without_usual_targets_asks_for_some():
    @dataclass(frozen=True)
    class Picky(Squared):
        def check_targets(self, y):
            raise ValueError("no")

    with pytest.raises(ValueError, match=r"Picky\(\) refuses real targets.*check_loss\(loss, y\)"):
        check_loss(Picky())


def spoilt(base, **methods):
    """A loss with some methods, or properties where they are numbers, of its own."""
    own = {
        name: method if callable(method) else property(lambda self, number=method: number)
        for name, method in methods.items()
    }
    return dataclass(frozen=True)(type(f"Spoilt{base.__name__}", (base,), own))()


@dataclass(frozen=True, repr=False)
class Mute(Squared):
    def __repr__(self):
        return "Squared()"


def written_into(self, y, f):
    f -= y
    return 0.5 * f**2


def lent(self, y, f, step):
    f[...] = Squared.proximal(self, y, f, step)
    return f


STEEP_AT_THE_KINK = spoilt(
    Absolute, slope=lambda self, y, f: np.where(f == y, 1.5, np.sign(f - y)).astype(f.dtype)
)
BROKEN = [  # a contract, and a loss that breaks it
    ("shapes", spoilt(Squared, value=lambda self, y, f: np.sum(0.5 * (f - y) ** 2))),
    ("slope_supports", STEEP_AT_THE_KINK),
    ("slope_supports", spoilt(Squared, slope=lambda self, y, f: (f - y) * 1.001)),
    ("convexity", spoilt(Squared, value=lambda self, y, f: np.sqrt(np.abs(f - y)))),
    (
        "curvature_is_slope_of_slope",
        spoilt(Logistic, curvature=lambda self, y, f: 0.99 * Logistic.curvature(self, y, f)),
    ),
    ("curvature_is_slope_of_slope", spoilt(Huber, curvature=lambda self, y, f: np.ones_like(f))),
    (
        "curvature_product",
        spoilt(
            Multinomial,
            curvature_product=lambda *a: 0.5 * Multinomial.curvature_product(*a),
        ),
    ),
    ("curvature_product", spoilt(Absolute, curvature=lambda self, y, f: np.full_like(f, -1.0))),
    (
        "curvature_product",
        spoilt(
            Multinomial,  # skew
            curvature=lambda self, y, f: (
                Multinomial.curvature(self, y, f) + np.triu(np.ones((f.shape[1],) * 2), 1)
            ),
        ),
    ),
    ("fenchel_young", spoilt(Squared, conjugate=lambda self, y, u: u * y + 0.4 * u**2)),
    ("fenchel_young", spoilt(Absolute, conjugate=lambda self, y, u: u * y)),
    ("fenchel_equality", spoilt(Hinge, conjugate=lambda *a: Hinge.conjugate(*a) + 0.1)),
    ("conjugate_domain", spoilt(Absolute, conjugate=lambda self, y, u: u * y)),
    ("conjugate_domain", spoilt(Quantile, domain=lambda self, y: (-0.1, 0.1))),
    (
        "proximal_is_optimal",
        spoilt(Logistic, proximal=lambda *a: Logistic.proximal(*a) * (1 + 1e-10)),
    ),
    (
        "proximal_is_optimal",
        spoilt(Absolute, proximal=lambda self, y, f, step: f - step * self.slope(y, f)),
    ),
    (
        "proximal_is_optimal",
        spoilt(Multinomial, proximal=lambda *a: Multinomial.proximal(*a) + 1e-9),
    ),
    (
        "proximal_of_many_steps",
        spoilt(Squared, proximal=lambda *a: Squared.proximal(*a[:-1], np.max(a[-1]))),
    ),
    ("lipschitz_bound", spoilt(Quantile, lipschitz=0.4)),
    ("smoothness_bound", spoilt(SquaredHinge, smoothness=1.9)),
    ("smoothness_bound", spoilt(Absolute, smoothness=100.0)),
    (
        "single_precision",
        spoilt(
            Squared,
            value=lambda self, y, f: Squared.value(self, y, f.astype(np.float64)),
        ),
    ),
    (
        "single_precision",
        spoilt(
            Squared,
            slope=lambda self, y, f: (
                (f - y).astype(f.dtype) * (1.01 if f.dtype == np.float32 else 1.0)
            ),
        ),
    ),
    (
        "large_predictions",
        spoilt(Logistic, value=lambda self, y, f: np.log1p(np.exp(-y.astype(f.dtype) * f))),
    ),
    (
        "large_predictions",
        spoilt(
            Squared,
            value=lambda self, y, f: np.where(np.abs(f) > 1e3, np.nan, Squared.value(self, y, f)),
        ),
    ),
    ("targets_are_checked", spoilt(Squared, check_targets=lambda self, y: None)),
    (
        "weighted_risk",
        spoilt(Squared, risk=lambda self, y, f, weights=None: np.mean(self.value(y, f))),
    ),
    (
        "weighted_risk",  # not over the sum of the weights
        spoilt(
            Squared,
            risk=lambda self, y, f, weights=1.0: np.mean(weights * self.value(y, f)),
        ),
    ),
    ("inputs_untouched", spoilt(Squared, value=written_into)),
    ("inputs_untouched", spoilt(Squared, proximal=lent)),
    ("value_like_any_other", Mute()),
]


def test_every_contract_is_shown_able_to_fail():
    assert {name for name, _ in BROKEN} == set(LOSS_CONTRACTS)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(("name", "loss"), BROKEN, ids=[name for name, _ in BROKEN])
def test_a_broken_loss_breaks_its_contract(name, loss):
    case: LossCase = next(loss_cases(loss))
    with pytest.raises(AssertionError) as refusal:
        LOSS_CONTRACTS[name](case)
    assert str(refusal.value).startswith(repr(loss) + ": ")
    with pytest.raises(AssertionError):
        check_loss(loss)


def test_a_refusal_names_contract_and_place():
    with pytest.raises(AssertionError, match=r"no subgradient, between .*, as at y = .*, f = "):
        check_loss(STEEP_AT_THE_KINK)


# ---- known values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "y", "f", "value", "slope"),
    [
        (Squared(), 3.0, 1.0, 2.0, -2.0),
        (Absolute(), 3.0, 1.0, 2.0, -1.0),
        (Absolute(), 3.0, 3.0, 0.0, 0.0),
        (Huber(delta=1.0), 0.0, 0.5, 0.125, 0.5),
        (Huber(delta=1.0), 0.0, -3.0, 2.5, -1.0),
        (Quantile(level=0.9), 1.0, 0.0, 0.9, -0.9),
        (Quantile(level=0.75), 0.0, 2.0, 0.5, 0.25),
        (EpsilonInsensitive(epsilon=0.5), 0.0, -2.0, 1.5, -1.0),
        (EpsilonInsensitive(epsilon=0.5), 0.0, 0.5, 0.0, 0.0),
        (Logistic(), -1, 0.0, math.log(2.0), 0.5),
        (Hinge(), -1, -0.25, 0.75, 1.0),
        (Hinge(), 1, 1.0, 0.0, 0.0),
        (SquaredHinge(), 1, -1.0, 4.0, -4.0),
        (Poisson(), 2.0, 0.0, 1.0, -1.0),
    ],
)
def test_known_values(loss, y, f, value, slope):
    assert loss.value(y, f) == pytest.approx(value, abs=1e-15)
    assert loss.slope(y, f) == pytest.approx(slope, abs=1e-15)


def test_known_values_of_several_classes():
    loss, f = Multinomial(), np.log([[1.0, 2.0, 5.0]])
    np.testing.assert_allclose(loss.value([2], f), [math.log(8 / 5)])
    np.testing.assert_allclose(loss.slope([2], f), [[1 / 8, 2 / 8, -3 / 8]])
    np.testing.assert_allclose(loss.probability(f), [[1 / 8, 2 / 8, 5 / 8]])
    np.testing.assert_allclose(loss.curvature([2], f)[0, 0], [7 / 64, -2 / 64, -5 / 64])
    np.testing.assert_array_equal(loss.value(2, f), loss.value([2], f))


@pytest.mark.parametrize(
    ("loss", "lipschitz", "smoothness"),
    [
        (Squared(), math.inf, 1.0),
        (Absolute(), 1.0, math.inf),
        (Huber(delta=0.3), 0.3, 1.0),
        (Quantile(level=0.9), 0.9, math.inf),
        (EpsilonInsensitive(), 1.0, math.inf),
        (Logistic(), 1.0, 0.25),
        (Hinge(), 1.0, math.inf),
        (SquaredHinge(), math.inf, 2.0),
        (Poisson(), math.inf, math.inf),
        (Multinomial(), math.sqrt(2.0), 0.5),
    ],
)
def test_constants(loss, lipschitz, smoothness):
    assert loss.lipschitz == lipschitz
    assert loss.smoothness == smoothness


def test_constants_of_several_classes_are_attained():
    sure = np.array([[40.0, 0.0, 0.0]])
    assert np.linalg.norm(Multinomial().slope([1], sure)) == pytest.approx(math.sqrt(2.0))
    undecided = np.array([[0.0, 0.0, -800.0]])
    block = Multinomial().curvature([0], undecided)[0]
    assert np.linalg.eigvalsh(block)[-1] == pytest.approx(0.5)


def test_which_losses_are_for_classes():
    assert [loss.is_classification for loss in LOSSES] == [
        isinstance(loss, (MarginLoss, Multinomial)) for loss in LOSSES
    ]
    assert [type(loss) for loss in LOSSES if loss.is_multiclass] == [Multinomial]


def test_domains():
    y = np.array([1.0, -1.0])
    np.testing.assert_array_equal(Hinge().domain(y), [[-1, 0], [0, 1]])
    np.testing.assert_array_equal(SquaredHinge().domain(y), [[-np.inf, 0], [0, np.inf]])
    assert Quantile(level=0.75).domain(y) == (-0.75, 0.25)
    assert Huber(delta=2.0).domain(y) == (-2.0, 2.0)
    low, high = Poisson().domain(np.array([3.0]))
    assert (low[0], high) == (-3.0, math.inf)
    low, high = Multinomial().domain(np.eye(2))
    np.testing.assert_array_equal([low, high], [-np.eye(2), 1 - np.eye(2)])


# ---- what is derived agrees with what is known --------------------------------------------------


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
@given(number=reals, f=reals, step=steps)
def test_the_proximal_map_is_the_one_of_newton(loss, number, f, step):
    """Closed forms against the safeguarded Newton method of losses that have none."""
    y = target_of(loss, number)
    if isinstance(loss, Poisson):  # its slope is too large for the bracket
        f = min(f, 30.0)
    z = loss.proximal(y, f, step)
    slow = implicit_step(
        lambda z: loss.slope(y, z),
        lambda z: loss.curvature(y, z),
        np.asarray(f),
        np.asarray(step),
    )
    assert float(z) == pytest.approx(float(slow), rel=1e-12, abs=1e-12 * (1 + abs(f) + abs(y)))


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
@given(number=reals, f=reals, g=reals, step=steps)
def test_the_proximal_map_is_firmly_nonexpansive(loss, number, f, g, step):
    y = target_of(loss, number)
    moved = float(loss.proximal(y, f, step)) - float(loss.proximal(y, g, step))
    assert moved**2 <= moved * (f - g) + 1e-11 * (1 + abs(f) + abs(g)) ** 2


@pytest.mark.parametrize("step", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_proximal_map_of_several_classes_minimises(step, classes, random):
    y, f = random.integers(classes), 3.0 * random.standard_normal(classes)
    loss = Multinomial()
    best = scipy.optimize.minimize(
        lambda z: loss.value(y, z) + np.sum((z - f) ** 2) / (2 * step),
        f,
        jac=lambda z: loss.slope(y, z) + (z - f) / step,
        options={"gtol": 1e-10},
    )
    np.testing.assert_allclose(loss.proximal(y, f, step), best.x, rtol=1e-6, atol=1e-6 * step)


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
@given(number=reals, u=st.floats(-3.0, 3.0))
def test_the_conjugate_is_the_supremum(loss, number, u):
    y = target_of(loss, number)
    f = np.concatenate([y + np.linspace(-30, 30, 2001), np.linspace(-8, 8, 2001)])
    reached = np.max(u * f - loss.value(y, f))
    conjugate = float(loss.conjugate(y, u))
    if math.isfinite(conjugate):
        assert reached <= conjugate + 1e-9
        assert reached >= conjugate - 0.05 * (1 + abs(u))  # the grid is coarse
    else:
        low, high = loss.domain(y)
        assert not low <= u <= high


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
@given(number=reals, f=reals, step=steps)
def test_moreau(loss, number, f, step):
    """f = prox(f) + step·u, where u is a point of the domain at which Fenchel–Young is tight."""
    y = target_of(loss, number)
    z = float(loss.proximal(y, f, step))
    low, high = (float(edge) for edge in loss.domain(y))
    u = np.clip((f - z) / step, low, high)
    gap = float(loss.value(y, z) + loss.conjugate(y, u)) - u * z
    assert abs(gap) <= 1e-10 * (1 + abs(f) + abs(y)) ** 2 * (1 + 1 / step)


def test_huber_lies_between_squared_and_absolute(random):
    y, f = random.standard_normal((2, 200))
    np.testing.assert_allclose(Huber(delta=1e3).value(y, f), Squared().value(y, f))
    np.testing.assert_allclose(
        Huber(delta=1e-6).value(y, f) / 1e-6, Absolute().value(y, f), atol=1e-6
    )


def test_two_classes_are_logistic(random):
    f, labels = random.standard_normal((50, 2)), random.integers(2, size=50)
    binary = Logistic().value(2 * labels - 1, f[:, 1] - f[:, 0])
    np.testing.assert_allclose(Multinomial().value(labels, f), binary)
    np.testing.assert_allclose(
        Multinomial().probability(f)[:, 1], Logistic().probability(f[:, 1] - f[:, 0])
    )


def test_small_losses_keep_their_digits():
    assert Logistic().value(1, 100.0) == pytest.approx(math.exp(-100.0), rel=1e-14)
    assert Logistic().slope(1, 100.0) == pytest.approx(-math.exp(-100.0), rel=1e-14)
    value = Multinomial().value([0], np.array([[100.0, 0.0, 0.0]]))
    assert value[0] == pytest.approx(2 * math.exp(-100.0), rel=1e-14)


@given(t=st.floats(-700.0, 1e8))
def test_log_omega_is_the_logarithm_of_wrights(t):
    known = float(scipy.special.wrightomega(t))
    assert float(np.exp(log_omega(np.asarray(t)))) == pytest.approx(known, rel=1e-14 * (1 + abs(t)))


@given(a=st.floats(-1e4, 1e4), step=st.floats(1e-8, 1e8))
def test_exponential_root_solves_its_equation(a, step):
    z = float(exponential_root(np.asarray(a), np.asarray(step), np.asarray(0.0)))
    w = step * math.exp(z)
    assert abs(z - a + w) / (1 + w) <= 1e-14 * (1 + abs(z) + abs(a) / (1 + w))


def test_roots_at_jumps_and_from_bad_starts():
    low, high = np.full(3, -1e8), np.array([1e8, 1e3, 1e8])
    sign = increasing_root(lambda z: (np.sign(z - 0.3), np.ones_like(z)), low, high)
    np.testing.assert_allclose(sign, 0.3, rtol=1e-14)
    arctan = increasing_root(lambda z: (np.arctan(z - 2), 1 / (1 + (z - 2) ** 2)), low, high)
    np.testing.assert_allclose(arctan, 2.0, rtol=1e-14)


# ---- what others call the same ------------------------------------------------------------------


def test_log_loss_of_scikit_learn(random):
    f, y, w = random.standard_normal(60), random.choice([-1, 1], 60), random.random(60)
    ours = Logistic().risk(y, f, w)
    assert ours == pytest.approx(
        sklearn.metrics.log_loss(y, Logistic().probability(f), sample_weight=w)
    )
    rows, labels = random.standard_normal((60, 4)), np.arange(60) % 4
    theirs = sklearn.metrics.log_loss(labels, Multinomial().probability(rows), sample_weight=w)
    assert Multinomial().risk(labels, rows, w) == pytest.approx(theirs)


def test_hinge_loss_of_scikit_learn(random):
    f, y = random.standard_normal(60), random.choice([-1, 1], 60)
    assert Hinge().risk(y, f) == pytest.approx(sklearn.metrics.hinge_loss(y, f))


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_pinball_loss_of_scikit_learn(level, random):
    """scikit-learn's alpha is the level."""
    y, f = random.standard_normal((2, 60))
    theirs = sklearn.metrics.mean_pinball_loss(y, f, alpha=level)
    assert Quantile(level=level).risk(y, f) == pytest.approx(theirs)


def test_errors_of_scikit_learn(random):
    """mean_squared_error has no factor ½."""
    y, f = random.standard_normal((2, 60))
    assert 2 * Squared().risk(y, f) == pytest.approx(sklearn.metrics.mean_squared_error(y, f))
    assert Absolute().risk(y, f) == pytest.approx(sklearn.metrics.mean_absolute_error(y, f))


def test_poisson_deviance_of_scikit_learn(random):
    """The deviance is 2(ℓ(y, f) − ℓ(y, log y)) with the prediction e^f."""
    y, f = random.poisson(3.0, 60) + 1.0, random.standard_normal(60)
    loss = Poisson()
    theirs = sklearn.metrics.mean_poisson_deviance(y, loss.mean(f))
    assert 2 * (loss.risk(y, f) - loss.risk(y, np.log(y))) == pytest.approx(theirs)
    likelihood = -scipy.stats.poisson.logpmf(y, np.exp(f)) - scipy.special.gammaln(y + 1)
    np.testing.assert_allclose(loss.value(y, f), likelihood)


def test_huber_of_scipy(random):
    y, f = random.standard_normal((2, 60))
    np.testing.assert_allclose(Huber(delta=0.7).value(y, f), scipy.special.huber(0.7, y - f))


def test_huber_regressor_of_scikit_learn(random):
    """HuberRegressor minimises Σ σ + σ H(r/σ) with H twice ours: at its σ, our slopes vanish."""
    X = random.standard_normal((80, 2))
    y = X @ [1.0, -2.0] + random.standard_t(2, 80)
    model = HuberRegressor(epsilon=1.5, alpha=0.0, tol=1e-10, max_iter=1000).fit(X, y)
    slopes = Huber(delta=1.5 * model.scale_).slope(y, model.predict(X))
    np.testing.assert_allclose(X.T @ slopes / 80, 0.0, atol=1e-4)
    assert np.mean(slopes) == pytest.approx(0.0, abs=1e-4)


def test_support_vector_regression_of_scikit_learn(random):
    """SVR minimises ½‖f‖² + C Σ ℓ: its dual coefficients are −C times slopes off the kinks."""
    X = random.standard_normal((40, 1))
    y = np.sin(3 * X[:, 0])
    model = SVR(C=2.0, epsilon=0.2, tol=1e-8).fit(X, y)
    dual = np.zeros(40)
    dual[model.support_] = model.dual_coef_[0]
    slopes = EpsilonInsensitive(epsilon=0.2).slope(y, model.predict(X))
    clear = np.abs(np.abs(y - model.predict(X)) - 0.2) > 1e-5
    np.testing.assert_allclose(dual[clear], -2.0 * slopes[clear], atol=1e-6)


def test_squared_hinge_of_linear_svc(random):
    """LinearSVC minimises ½‖w‖² + C Σ max(1 − yf, 0)², without ½: w = −C Σ ℓ'(y, f) x."""
    X = random.standard_normal((60, 3))
    y = np.sign(X @ [1.0, 1.0, -1.0] + 0.5 * random.standard_normal(60))
    model = LinearSVC(C=0.7, fit_intercept=False, dual=False, tol=1e-10, max_iter=10_000).fit(X, y)
    slopes = SquaredHinge().slope(y, model.decision_function(X))
    np.testing.assert_allclose(model.coef_[0], -0.7 * X.T @ slopes, atol=1e-4)


# ---- arrays of every library --------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_array_libraries(xp, loss, dtype):
    case = next(loss_cases(loss))
    f, tolerance = case.f.astype(dtype), 1e-4 if dtype == "float32" else 1e-12
    y_there, f_there = xp.asarray(case.y), xp.asarray(f)
    u, weights = loss.slope(case.y, f), np.arange(len(f)) % 3
    pairs = {
        "value": (loss.value(y_there, f_there), loss.value(case.y, f)),
        "slope": (loss.slope(y_there, f_there), u),
        "curvature": (loss.curvature(y_there, f_there), loss.curvature(case.y, f)),
        "conjugate": (loss.conjugate(y_there, xp.asarray(u)), loss.conjugate(case.y, u)),
        "proximal": (loss.proximal(y_there, f_there, 0.7), loss.proximal(case.y, f, 0.7)),
        "risk": (
            loss.risk(y_there, f_there, xp.asarray(weights)),
            loss.risk(case.y, f, weights),
        ),
    }
    for name, (there, here) in pairs.items():
        assert there.dtype == getattr(xp, dtype), name
        scale = max(1.0, float(np.abs(here).max()))
        np.testing.assert_allclose(
            np.asarray(there), here, rtol=tolerance, atol=tolerance * scale, err_msg=name
        )
    loss.check_targets(y_there)


@pytest.mark.parametrize(
    ("loss", "y"),
    [(Logistic(), [1.0, 0.0]), (Poisson(), [1.0, -2.0]), (Multinomial(), [0.5, 1.0])],
    ids=repr,
)
def test_targets_are_refused_in_every_library(xp, loss, y):
    with pytest.raises(ValueError, match=f"{type(loss).__name__} needs"):
        loss.check_targets(xp.asarray(y))
    with pytest.raises(ValueError, match=r"got nan at index 1"):
        loss.check_targets(xp.asarray([1.0, math.nan]))


def test_links_in_every_library(xp):
    f = xp.asarray([-1e4, 0.0, 1e4], dtype=xp.float32)
    assert np.asarray(Logistic().probability(f)).tolist() == [0.0, 0.5, 1.0]
    assert np.asarray(Poisson().mean(f)).tolist() == [0.0, 1.0, math.inf]
    assert np.asarray(Multinomial().probability(f)).tolist() == [0.0, 0.0, 1.0]
    low, _ = Hinge().domain(xp.asarray([1.0, -1.0]))
    assert np.asarray(low).tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_torch_differentiates_values(loss):
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    case = next(loss_cases(loss))
    y, f = case.y[-24:], torch.asarray(case.f[-24:], requires_grad=True)
    loss.value(torch.asarray(y), f).sum().backward()
    np.testing.assert_allclose(f.grad.numpy(), loss.slope(y, case.f[-24:]), atol=1e-12)


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
@pytest.mark.parametrize("y_type", [np.int8, np.int64, np.float32, np.float64])
def test_the_precision_of_predictions_rules(loss, y_type):
    f = np.asarray([0.5, -2.0], np.float32)
    y = np.asarray([1, 1], y_type)
    for name in ("value", "slope", "curvature", "conjugate"):
        assert getattr(loss, name)(y, f).dtype == np.float32
    assert loss.proximal(y, f, np.float64(0.5)).dtype == np.float32
    assert loss.value(y, np.asarray([1, 0])).dtype == np.float64


def test_parameters_in_double_leave_single_precision_alone():
    f = np.ones(2, np.float32)
    for loss in (
        Huber(np.float64(0.5)),
        Quantile(np.float64(0.5)),
        EpsilonInsensitive(np.float64(0)),
    ):
        assert loss.value(0.0, f).dtype == loss.slope(0.0, f).dtype == np.float32


def test_numbers_and_lists_are_fine():
    assert float(Absolute().value(1, 3)) == 2.0
    assert Absolute().value([1, 2], [3, 5]).tolist() == [2.0, 3.0]
    assert Hinge().value(1, [0.0, 2.0]).tolist() == [1.0, 0.0]
    assert float(Poisson().proximal(1, 0, 1.0)) == 0.0


def test_several_outputs_are_summed_in_the_risk(random):
    y, f, w = random.standard_normal((5, 3)), random.standard_normal((5, 3)), random.random(5)
    assert Squared().value(y, f).shape == (5, 3)
    expected = np.average(0.5 * ((y - f) ** 2).sum(axis=1), weights=w)
    assert Squared().risk(y, f, w) == pytest.approx(expected)


def test_what_has_no_weight_may_be_infinite():
    assert Poisson().risk([1.0, 1.0], [0.0, 1e4], [1.0, 0.0]) == 1.0


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", True, None])
def test_bad_delta(bad):
    with pytest.raises(ValueError, match=r"Huber needs a finite delta > 0; got "):
        Huber(delta=bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.5, 50, math.nan, "0.5"])
def test_bad_level(bad):
    with pytest.raises(ValueError, match=r"Quantile needs a finite 0 < level < 1; got "):
        Quantile(level=bad)


@pytest.mark.parametrize("bad", [-0.1, math.inf, math.nan, [0.1]])
def test_bad_epsilon(bad):
    with pytest.raises(ValueError, match=r"EpsilonInsensitive needs a finite epsilon ≥ 0; got "):
        EpsilonInsensitive(epsilon=bad)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("step", [0.0, -1.0, math.nan])
def test_bad_step(loss, step):
    y, f = ([0], [[0.0, 1.0]]) if loss.is_multiclass else (1.0, 0.0)
    with pytest.raises(ValueError, match=rf"{type(loss).__name__} needs a step > 0; got "):
        loss.proximal(y, f, step)


@pytest.mark.parametrize(
    ("loss", "y", "sentence"),
    [
        (Squared(), [1.0, math.inf], r"Squared needs finite targets; got inf at index 1\. Leave"),
        (Squared(), ["a", "b"], r"Squared needs targets that are numbers; .*numpy\.unique\("),
        (Squared(), [None, 1.0], r"needs targets that are numbers; got an array of object"),
        (
            Squared(),
            np.ones(2, complex),
            r"needs targets that are numbers; got an array of complex",
        ),
        (Hinge(), [0, 1], r"Hinge needs labels −1 and \+1; got 0 at index 0\. Write 2\*y − 1"),
        (Logistic(), [1, 2, -1], r"Logistic needs labels −1 and \+1; got 2 at index 1"),
        (Logistic(), [True, False], r"needs labels −1 and \+1; got 0 at index 1"),
        (Poisson(), [3, -2], r"Poisson needs counts y ≥ 0; got -2 at index 1"),
        (Multinomial(), [0, -1], r"Multinomial needs labels 0, 1, …, K − 1.*got -1 at index 1"),
        (Multinomial(), [0.5], r"needs labels 0, 1, …, K − 1.*return_inverse=True"),
        (Multinomial(), [[0.5, 0.4]], r"rows of probabilities.*row 0 sums to 0\.9\. Divide"),
        (Multinomial(), [[2.0, -1.0]], r"rows of probabilities.*got -1 at index 1\. Write labels"),
    ],
)
def test_bad_targets(loss, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        loss.check_targets(y)


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_a_column_against_a_vector_is_refused(loss):
    with pytest.raises(
        ValueError, match=r"got \(3,\) and \(3, 1\).*all with all\. Write y\[:, None\]"
    ):
        loss.value(np.ones(3), np.ones((3, 1)))


def test_bad_shapes_of_several_classes():
    with pytest.raises(
        ValueError, match=r"got predictions of shape \(2, 3\) and targets of.*\(3,\)"
    ):
        Multinomial().value([0, 1, 2], np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"rows of predictions, of shape \(n, K\); got one number"):
        Multinomial().value(0, 1.0)
    with pytest.raises(ValueError, match=r"whole numbers from 0 to 2.*got labels from 0 to 3"):
        Multinomial().slope([0, 3], np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"write loss\.domain\(one_hot\(y, classes\)\)"):
        Multinomial().domain([0, 1])


def test_bad_weights():
    with pytest.raises(ValueError, match=r"each of the 2 points; got shape \(2, 1\)"):
        Squared().risk(np.ones(2), np.zeros(2), np.ones((2, 1)))


def test_unknown_parameters():
    with pytest.raises(ValueError, match=r"Huber has no parameter 'epsilon'; it has \['delta'\]"):
        Huber().with_(epsilon=1.0)
    with pytest.raises(ValueError, match=r"Huber needs a finite delta > 0"):
        Huber().with_(delta=0.0)


def test_two_libraries_are_refused():
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match=r"Expected arrays of one library"):
        Squared().value(np.ones(2), strict.ones(2))


@pytest.mark.parametrize("name", ["value", "slope", "curvature", "conjugate"])
def test_what_a_loss_owes_is_named(name):
    with pytest.raises(NotImplementedError, match=f"Loss does not implement .*{name}"):
        getattr(Loss(), name)(0.0, 0.0)


# ---- a value like any other ---------------------------------------------------------------------


def test_equality_hash_and_parameters():
    assert Huber(1.0) == Huber(1) != Huber(2.0)
    assert Hinge() != SquaredHinge()
    assert len({Huber(1.0), Huber(1.0), Huber(2.0)}) == 2
    assert Quantile(0.3).get_params() == {"level": 0.3}
    assert Quantile(0.3).with_(level=0.4) == Quantile(0.4)
    assert pickle.loads(pickle.dumps(Quantile(0.3))) == Quantile(0.3)
    with pytest.raises(AttributeError):
        Huber().delta = 2.0


def test_one_hot():
    np.testing.assert_array_equal(one_hot(np.array([1, 0]), 2), [[0, 1], [1, 0]])
    assert one_hot(np.array([], np.float32), 2).shape == (0, 2)


# ---- a loss of one's own ------------------------------------------------------------------------


@dataclass(frozen=True)
class LogCosh(ResidualLoss):
    """log cosh r, with the proximal map of the base class."""

    lipschitz = 1.0
    smoothness = 1.0

    def of_residual(self, r):
        return softplus(2.0 * r) - r - math.log(2.0)

    def conjugate_of(self, u):
        return 0.5 * entropy1p(u) + 0.5 * entropy1p(-u)


@dataclass(frozen=True)
class Exponential(MarginLoss):
    """The loss of boosting, e^{−m}, from the base class without a closed proximal map."""

    def of_margin(self, m):
        return exp(minimum(-m, 80.0))

    def conjugate_of(self, v):
        return entropy(-v) + v


OWN = [LogCosh(), Exponential()]


@pytest.mark.parametrize("loss", OWN, ids=repr)
def test_a_loss_of_ones_own_is_a_few_lines(loss):
    check_loss(loss)


def test_what_has_no_kinks_is_smooth():
    smooth = {Squared, Huber, Logistic, SquaredHinge, Poisson, Multinomial}
    assert {type(loss) for loss in LOSSES if loss.is_smooth} == smooth
    assert LogCosh().is_smooth


# ---- compiled code ------------------------------------------------------------------------------


@njit
def fill(address, parameters, y, x, out):
    for i in range(len(y)):
        out[0, i], out[1, i], out[2, i] = at(address, parameters, y[i], x[i])


def many(compiled, y, x):
    """Value, slope and curvature of compiled code at many points."""
    out = np.empty((3, len(y)))
    fill(compiled.address, compiled.parameters, y, x, out)
    return out


@pytest.mark.parametrize("loss", [*SCALAR, *OWN], ids=repr)
def test_compiled_code_is_the_loss(loss):
    case = next(loss_cases(loss))
    far = np.array([-1e4, 1e4, -30.0, 30.0])
    y, f = np.append(case.y, case.y[:4]), np.append(case.f, far)
    found = many(compiled_loss(loss), y, f)
    for name, values in zip(("value", "slope", "curvature"), found, strict=True):
        expected = getattr(loss, name)(y, f)
        np.testing.assert_allclose(values, expected, rtol=1e-15, atol=2e-16, err_msg=name)


@pytest.mark.parametrize("loss", [*SCALAR, *OWN], ids=repr)
def test_compiled_conjugates_are_inverse_to_slopes(loss):
    """ℓ*'(ℓ'(f)) = f and ℓ*''(u)ℓ''(f) = 1 where the loss bends."""
    case = next(loss_cases(loss))
    u, bent = case.slope, case.loss.curvature(case.y, case.f)
    value, slope, curvature = many(compiled_conjugate(loss), case.y, u)
    np.testing.assert_allclose(value, loss.conjugate(case.y, u), rtol=1e-14, atol=1e-15)
    low, high = (np.broadcast_to(edge, u.shape) for edge in loss.domain(case.y))
    inside = (bent > 1e-3) & (u > low) & (u < high)
    np.testing.assert_allclose(slope[inside], case.f[inside], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(curvature[inside] * bent[inside], 1.0, rtol=1e-9)


def test_parameters_share_compiled_code():
    first, second = compiled_loss(Quantile(0.3)), compiled_loss(Quantile(0.8))
    assert first.address == second.address
    assert first.parameters.tolist() != second.parameters.tolist()
    assert compiled_loss(Multinomial()) is compiled_conjugate(Multinomial()) is None


@njit
def single_step(address, parameters, linear, curvature, y, cost, a, low, high):
    return dual_step(address, parameters, linear, curvature, y, cost, a, low, high)


@njit
def pair_step(address, parameters, linear, curvature, y, c, a, low, high, z, d, b, least, most):
    return dual_pair_step(
        address, parameters, linear, curvature, y, c, a, low, high, z, d, b, least, most
    )


@pytest.mark.parametrize("loss", [Logistic(), Poisson(), *OWN], ids=repr)
@pytest.mark.parametrize("curvature", [1e-3, 1.0, 50.0])
def test_dual_steps_minimise(loss, curvature, random):
    """Steps in one and two coefficients: the slope of the objective changes its sign there."""
    code = compiled_conjugate(loss)
    for _ in range(20):
        linear, cost = 3.0 * random.standard_normal(), np.exp(random.standard_normal(2))
        y = np.array([target_of(loss, number) for number in random.standard_normal(2)])
        low, high = (-cost * np.broadcast_to(edge, 2) for edge in loss.domain(y)[::-1])
        a = np.clip(-0.5 * cost * loss.slope(y, np.zeros(2)), low, high)

        def slope(i, a, y=y, cost=cost):
            return -many(code, y[i : i + 1], np.array([-a / cost[i]]))[1, 0]

        d = single_step(*code, linear, curvature, y[0], cost[0], a[0], low[0], high[0])
        h = 1e-9 * (abs(a[0]) + abs(d))
        edges = [
            linear + curvature * t + slope(0, a[0] + t)
            for t in (d - h, d + h)
            if low[0] < a[0] + t < high[0]
        ]
        assert edges[0] <= 0.0 <= edges[-1]
        sides = [v for i in (0, 1) for v in (y[i], cost[i], a[i], low[i], high[i])]
        d = pair_step(*code, linear, curvature, *sides)
        h = 1e-9 * (np.abs(a).sum() + abs(d))
        edges = [
            linear + curvature * t + slope(0, a[0] + t) - slope(1, a[1] - t) for t in (d - h, d + h)
        ]
        assert edges[0] <= 0.0 <= edges[1]


# ---- expressions --------------------------------------------------------------------------------


X = positive_part(F - 1.0)
EXPRESSIONS = {
    "constants": (Y + 0.0) * F + 0.0 * F + 1.0 * (2.0 * F),
    "nested factors": 2.0 * (3.0 * F) * 0.5,
    "a factor goes into a choice": X * Y + Y * X,
    "a choice of a choice": X * X,
    "sums of choices": choose(F, Y, 2.0) + choose(F, 1.0, Y),
    "powers": (2.0 * X**3) / (1.0 + F**2),
    "functions": tanh(F) + sqrt(1.0 + F**2) - log1p(F**2) + log(2.0 + F**2) - absolute(F * Y),
    "two": minimum(F, Y) + maximum(F, 0.5) - minimum(0.25 * Y, F) + sigmoid(F),
    "entropies": entropy(F**2) + entropy1p(F**2 - 0.5),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_simplified_expressions_are_equal(xp, name, random):
    y, f = random.standard_normal((2, 50))
    expression = EXPRESSIONS[name]
    plain, short = code_of(expression)(y, f), code_of(simplified(expression))(y, f)
    np.testing.assert_allclose(short, plain, rtol=1e-14, atol=1e-15)
    there = code_of(expression)(xp.asarray(y), xp.asarray(f))
    np.testing.assert_allclose(np.asarray(there), plain, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_slopes_of_expressions(name, random):
    y, f = random.standard_normal((2, 50))
    code, h = code_of(EXPRESSIONS[name]), 1e-6
    slope = code_of(slope_of(EXPRESSIONS[name], F))(y, f)
    quotient = (code(y, f + h) - code(y, f - h)) / (2 * h)
    np.testing.assert_allclose(slope, quotient, rtol=1e-5, atol=1e-5)


def test_every_operation_of_losses_has_a_tested_slope():
    def names(node):
        if isinstance(node, Operation):
            yield node.name
            for argument in node.arguments:
                yield from names(argument)

    used = {name for e in EXPRESSIONS.values() for name in names(e)}
    used |= {name for e in EXPRESSIONS.values() for name in names(slope_of(e, F))}
    used |= {name for loss in SCALAR for name in names(loss.expression(Y, F))}
    assert used >= set(RULES) - {"step"}, set(RULES) - used


def test_what_is_not_chosen_may_be_infinite():
    expression = choose(F, exp(F), 2.0 * F)
    slope = code_of(slope_of(expression, F))
    assert slope(np.zeros(2), np.array([-1e4, 1e4])).tolist() == [2.0, math.inf]
