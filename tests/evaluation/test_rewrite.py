"""Every rule is an identity: values stay, on random expressions and where it is meant to apply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import markets
from mercer.evaluation import reference, rewrite
from mercer.evaluation.expression import (
    Constant,
    Operation,
    Parameter,
    absolute,
    decay,
    exp,
    leaves_of,
    lengths,
    log1p,
    maximum,
    numbers_of,
    product,
    reciprocal_root,
    sqrt,
    squared_distance,
    squared_norms,
    tanh,
)
from mercer.evaluation.minimax import LOG2E
from mercer.evaluation.operations import evaluate
from mercer.evaluation.program import lower
from mercer.evaluation.rewrite import BINARY, SIMPLER, Decayed, parents, rewritten
from mercer.kernels import Gaussian, Linear, Matern, Polynomial
from mercer.testing.rounding import _Bound

S, P, (A, B) = squared_distance(), product(), squared_norms()
RULES = {rule.__name__: rule for rule in (*SIMPLER, *BINARY)}

factors = st.floats(0.1, 3.0)
parameters = st.one_of(
    factors.map(Parameter),
    factors.map(lambda value: Parameter(-value)),
    st.sampled_from([Constant(0.0), Constant(1.0), Constant(-1.5)]),
)


def nonnegative(draw, depth):
    """An expression that is at least 0."""
    if depth == 0:
        return draw(st.sampled_from([S, A, B, lengths()[0]]))
    inner, other = nonnegative(draw, depth - 1), nonnegative(draw, draw(st.integers(0, depth - 1)))
    forms = [
        lambda: draw(factors) * inner,
        lambda: inner + other,
        lambda: inner * other,
        lambda: inner ** draw(st.integers(2, 4)),
        *(lambda f=f: f(inner) for f in (sqrt, decay, log1p, reciprocal_root)),
        lambda: absolute(signed(draw, depth - 1)),
        lambda: exp(0.1 * signed(draw, depth - 1)),
        lambda: maximum(signed(draw, depth - 1), 0.5),
    ]
    return draw(st.sampled_from(forms))()


def signed(draw, depth):
    """An expression of either sign."""
    if depth == 0:
        return P
    inner, other = nonnegative(draw, depth - 1), signed(draw, draw(st.integers(0, depth - 1)))
    forms = [
        lambda: inner - other,
        lambda: Operation("multiply", (draw(parameters), other)),
        lambda: Operation("multiply", (inner, draw(parameters))),
        lambda: Operation("add", (inner, draw(parameters))),
        lambda: other / (1.0 + inner),
        lambda: inner * other,
        lambda: tanh(other),
    ]
    return draw(st.sampled_from(forms))()


@st.composite
def expressions(draw):
    left, right = signed(draw, draw(st.integers(1, 4))), nonnegative(draw, draw(st.integers(0, 3)))
    return draw(st.sampled_from([left, left * right, left + right]))


def values_and_bounds(expression, seed):
    """An expression at random numbers, and how far rounding may move it there."""
    rng = np.random.default_rng(seed)
    at = {number: rng.uniform(0.0, 2.0, 5) for number in (S, P, A, B, *lengths())}
    at[P] = at[P] - 1.0
    bound = _Bound(
        np.dtype(np.float64), lambda node: (at[node], 0.0 * at[node]) if node in at else None
    )
    with np.errstate(all="ignore"):
        values = np.broadcast_to(np.asarray(evaluate(expression, at), float), 5)
        return values, np.broadcast_to(bound(expression), 5)


def check_same(before, after, seed=0):
    (old, slack), (new, room) = values_and_bounds(before, seed), values_and_bounds(after, seed)
    fine = np.isfinite(old) & np.isfinite(slack) & (np.abs(old) < 1e200)
    assert (np.abs(new - old) <= 4 * (slack + room) + 1e-300)[fine].all()


@pytest.mark.parametrize("name", [*RULES, "all"])
@settings(deadline=None, max_examples=60)
@given(expression=expressions(), seed=st.integers(0, 100))
def test_values_stay(name, expression, seed):
    if name == "all":  # one list after the other, as executions apply them
        after = rewritten(rewritten(expression, SIMPLER), BINARY)
    else:
        after = rewritten(expression, (RULES[name],))
    check_same(expression, after, seed)


@pytest.mark.parametrize("name", markets.ALL_EXPRESSIONS)
def test_values_of_kernels_stay(name):
    kernel = markets.ALL_EXPRESSIONS[name]
    x, y = (kernel.points(markets.normal(4, 2, seed)) for seed in (0, 1))
    exact = reference.block(kernel.expression(), x, y)
    for rules in (SIMPLER, (*SIMPLER, *BINARY)):
        values = reference.block(rewritten(kernel.expression(), rules), x, y)
        np.testing.assert_allclose(values, exact, rtol=1e-12, atol=1e-14 * np.abs(exact).max())


two, half = Parameter(2.0), Parameter(0.5)
E, D = exp(P), decay(S)
APPLIED = {  # rule: an expression, and what it becomes, written with the same parameters
    "constants_folded": [(sqrt(Constant(4.0)), Constant(2.0))],
    "zero_and_one": [
        (Constant(1.0) * S, S),
        (S * Constant(0.0), Constant(0.0)),
        (Constant(0.0) + S, S),
        (S - Constant(0.0), S),
    ],
    "constants_first": [
        (P * two, Operation("multiply", (two, P))),
        (P * Operation("multiply", (two, S)), Operation("multiply", (two, P * S))),
        (Operation("multiply", (two, P)) / S, Operation("multiply", (two, P / S))),
        (Constant(2.0) * (Constant(3.0) * S), Constant(6.0) * S),
    ],
    "like_terms": [(Constant(2.0) * S + Constant(3.0) * S, None)],
    "constant_into_sum": [(Constant(2.0) * (S + Constant(3.0)), Constant(2.0) * S + Constant(6.0))],
    "exponentials_last": [(E * P, P * E), ((P * E) * S, (P * S) * E), (P * (S * E), (P * S) * E)],
    "product_of_exponentials": [
        (D * decay(A), decay(S + A)),
        (E * exp(A), exp(P + A)),
        (E * D, exp(P - S)),
        (D * E, exp(P - S)),
    ],
    "power_of_exponential": [(sqrt(D), None), (E**3, None), (reciprocal_root(E), None)],
    "powers_joined": [
        ((P**2) ** 3, P**6),
        (sqrt(S) ** 4, S**2),
        (sqrt(S) * sqrt(S), S),
        (P**3 * S**3, (P * S) ** 3),
        (reciprocal_root(A**3), reciprocal_root(A) ** 3),
    ],
    "factor_into_power": [(two * P**2, None), (two * (P**2 * S), None)],
    "formula": [(tanh(P), None)],
    "base_two": [(D, Operation("exp2", (Constant(-LOG2E) * S,)))],
    "power_by_logarithm": [(Operation("exp2", (-2.0 * log1p(S),)), None)],
    "factor_into_exponent": [
        (two * Operation("exp2", (S,)), None),
        (two * (P * Operation("exp2", (S,))), None),
    ],
    "root_of_factor": [(sqrt(Constant(4.0) * S), Constant(2.0) * sqrt(S))],
}


@pytest.mark.parametrize("name", RULES)
def test_where_a_rule_applies(name):
    for before, after in APPLIED[name]:
        made = RULES[name](before)
        assert made is not None
        assert after is None or made == after
        check_same(before, made)


@pytest.mark.parametrize(
    "expression", [reciprocal_root(P**2), Constant(-2.0) * P**2, sqrt(Constant(-1.0) * P)]
)
def test_rules_that_need_a_sign_ask_for_it(expression):
    assert rewritten(expression, SIMPLER) == expression
    assert rewrite.root_of_factor(expression) is None


def test_shared_nodes_stay_shared():
    r = sqrt(2.0 * S)
    made = rewritten((1.0 + r) * decay(r), SIMPLER)
    assert sum(isinstance(leaf, Parameter) for leaf in leaves_of(made)) == 2


def test_parents():
    r = sqrt(S)
    above = parents(r * decay(r))
    assert [node.name for node in above[r]] == ["multiply", "decay"]
    assert above[r * decay(r)] == []


def test_one_exponential_of_a_product_of_kernels():
    program = lower((Gaussian(2.0) * Matern(1.5) * Gaussian(3.0)).expression())
    assert [name for name, *_ in program.code.steps].count("decay") == 1
    (number,) = numbers_of(Gaussian(1.0).expression())
    alone = rewritten((Gaussian(1.0) * Gaussian(2.0)).expression(), SIMPLER)
    assert rewrite.decays_with_numbers(alone) == Decayed(number, alone.arguments[0].arguments[0])


class TestRange:
    """Numbers that a formula takes through float32's range and back stay inside of it."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("degree", [2, 3, 5])
    def test_polynomials_of_large_rows(self, degree, dtype):
        """scikit-learn's (γ⟨x, y⟩ + 1)^r on rows in large units: γ^r alone is below 1e-38."""
        X = (3e6 * markets.normal(12, 4)).astype(dtype)
        gamma = 1.0 / (4 * float(X.var()))
        kernel = gamma**degree * Polynomial(degree, 1.0 / gamma)
        exact = (gamma * X.astype(float) @ X.T.astype(float) + 1.0) ** degree
        np.testing.assert_allclose(kernel(X, X), exact, rtol=0, atol=2e-6 * np.abs(exact).max())

    def test_normalised_exponentials(self):
        X = 40.0 * markets.normal(6, 2)
        gaps = X[:, None] - X[None]
        exact = np.exp(-0.5 * (gaps**2).sum(-1))
        np.testing.assert_allclose(Linear().exp().normalised()(X, X), exact, rtol=1e-9, atol=1e-9)

    def test_normalised_polynomials(self):
        X = (1e4 * markets.normal(6, 3)).astype(np.float32)
        wide = X.astype(float) @ X.T.astype(float) + 1.0
        exact = (wide / np.sqrt(np.outer(np.diag(wide), np.diag(wide)))) ** 5
        np.testing.assert_allclose(Polynomial(5).normalised()(X, X), exact, rtol=0, atol=2e-6)


def test_two_exponentials_come_last_together():
    """Each could be put last again and again."""
    after = rewritten((P * E) * (S * D), (RULES["exponentials_last"],))
    assert after == (P * S) * (D * E)
