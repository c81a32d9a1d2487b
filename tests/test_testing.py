"""check_kernel fails where a kernel is broken: each contract is proved able to fail."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import markets
from mercer.evaluation.cpu.execution import Cpu
from mercer.evaluation.expression import Parameter
from mercer.evaluation.operations import OPERATIONS
from mercer.functions import RKHSFunction
from mercer.kernels import BlockKernel, Gaussian, Kernel, Linear, PairKernel
from mercer.kernels.facts import yes
from mercer.operators import Gram
from mercer.testing import KERNEL_CONTRACTS, check_kernel
from mercer.testing.kernels import Case, vectors
from mercer.testing.rounding import kernel_bound

X = markets.normal(9, 2)


def broken(contract, kernel, points=None):
    """The contract refuses the kernel, and so does check_kernel."""
    points = X if points is None else points
    with pytest.raises(AssertionError) as refusal:
        KERNEL_CONTRACTS[contract](Case(kernel, points, "the given points"))
    with pytest.raises(AssertionError):
        check_kernel(kernel, points)
    return str(refusal.value)


def asymmetric(X, Y):
    return X[:, :1] + 2.0 * Y[:, :1].T


def minus_distance(X, Y):
    return -np.linalg.norm(X[:, None] - Y[None], axis=-1)


def mutating(X, Y):
    X[:, 0] += 1.0
    return X @ Y.T


def too_large_beside_the_diagonal(X, Y):
    return np.where(minus_distance(X, Y) < 0, 1.5, 1.0)


def different_in_float32(X, Y):
    return X @ Y.T * (1.01 if X.dtype == np.float32 else 1.0)


def different_when_large(X, Y):
    return X @ Y.T * (1.0 if len(X) < 20 else 1.1)


def different_when_small(X, Y):
    return X @ Y.T * (1.1 if len(X) == 7 else 1.0)


def expanded(X, Y):  # loses digits far from the origin
    squares = (X**2).sum(1)[:, None] + (Y**2).sum(1) - 2 * X @ Y.T
    return np.exp(-np.maximum(squares, 0.0))


def different_for_one(X, Y):
    return X @ Y.T + (1.0 if len(X) == len(Y) == 1 else 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Twisted(Linear):
    """A linear kernel; each test breaks one thing."""

    def __post_init__(self):
        pass


class TestFunctions:
    def test_asymmetric(self):
        text = broken("symmetry", BlockKernel(asymmetric))
        assert "BlockKernel(asymmetric)" in text
        assert "k(x, y) and k(y, x)" in text
        assert "apart; rounding explains" in text

    def test_indefinite(self):
        assert "smallest eigenvalue is -" in (text := broken("positive_semidefinite", NEGATIVE))
        assert "witness v = [" in text

    def test_a_false_claim(self):
        text = broken("positive_semidefinite", BlockKernel(minus_distance, positive_definite=True))
        assert "though it is stated to be: its smallest eigenvalue is -" in text

    @pytest.mark.parametrize(
        ("fact", "text"),
        [
            ({"bounded": yes("so they say", 1.0)}, r"above the stated R² = 1\.0"),
            ({"stationary": yes("so they say")}, "k being stated to be stationary, are"),
            ({"isotropic": yes("so they say")}, "k being stated to be isotropic, are"),
        ],
    )
    def test_false_facts(self, fact, text):
        class Stating(BlockKernel):
            def facts(self, dimension=None):
                return super().facts(dimension).stating(**fact)

        product = Stating(lambda X, Y: 1.0 + X @ Y.T)
        assert re.search(text, broken("stated_facts", product))

    def test_cauchy_schwarz(self):
        text = broken("cauchy_schwarz", BlockKernel(too_large_beside_the_diagonal))
        assert "0.5 too large" in text

    def test_input_changed(self):
        assert "changed the points" in broken("input_untouched", BlockKernel(mutating), X.copy())

    def test_sparse_input_changed(self):
        class Touching(BlockKernel):
            def block(self, x, y):
                self.points_seen.data *= 2.0
                return super().block(x, y)

        matrix = markets.sparse(6)
        kernel = Touching(lambda X, Y: X @ Y.T)
        object.__setattr__(kernel, "points_seen", matrix)
        broken("input_untouched", kernel, matrix)

    def test_single_pair(self):
        assert "its entry in a block" in broken("single_pair", BlockKernel(different_for_one))

    def test_ragged(self):
        assert "7 × " in broken("ragged_tiles", BlockKernel(different_when_small))

    def test_stripes(self):
        text = broken("several_stripes", BlockKernel(different_when_large))
        assert "product over stripes" in text

    def test_float32(self):
        text = broken("float32_near_float64", BlockKernel(different_in_float32))
        assert "in float32 and float64" in text

    def test_nan(self):
        with pytest.raises(ValueError, match="returned NaN or infinity"):
            check_kernel(BlockKernel(lambda X, Y: np.full((len(X), len(Y)), np.nan)), X)


NEGATIVE = BlockKernel(minus_distance)


class TestEvaluation:
    """Contracts on the library itself: break the evaluation, and the contract sees it."""

    def test_diagonal(self):
        class Wrong(PairKernel):
            def diagonal(self, x):
                return super().diagonal(x) + 1.0

        assert "diagonal()" in broken("diagonal", Wrong(np.dot))

    def test_fused_values(self, monkeypatch):
        fill = Cpu.fill

        def wrong(self, rows, columns, out, *place):
            fill(self, rows, columns, out, *place)
            out *= 1 + 1e-12

        monkeypatch.setattr(Cpu, "fill", wrong)
        assert "the reference" in broken("fused_is_reference", Gaussian())

    def test_fused_plan(self, monkeypatch):
        monkeypatch.setattr(Cpu, "name", "pair by pair")
        assert "'pair by pair'" in broken("fused_is_reference", Gaussian())

    @pytest.mark.parametrize(
        ("contract", "method"),
        [
            ("product", "__matmul__"),
            ("transposed_product", "transposed_product"),
            ("normal_product", "normal_matmul"),
            ("chosen_columns", "columns"),
            ("no_rows", "__matmul__"),
            ("several_stripes", "__matmul__"),
        ],
    )
    def test_operator(self, contract, method, monkeypatch):
        right = getattr(Gram, method)
        monkeypatch.setattr(Gram, method, lambda self, *a: right(self, *a) * (1 + 1e-9) + 1e-9)
        broken(contract, Gaussian())

    def test_reproducing(self, monkeypatch):
        inner = RKHSFunction.inner
        monkeypatch.setattr(RKHSFunction, "inner", lambda f, g: inner(f, g) * (1 + 1e-12))
        assert "⟨f, k(x, ·)⟩ and f(x)" in broken("reproducing_property", Gaussian())

    @pytest.mark.parametrize("factor", [-1.0, 1.001])
    def test_gradient(self, factor, monkeypatch):
        right = RKHSFunction.gradient
        monkeypatch.setattr(RKHSFunction, "gradient", lambda f, x: factor * right(f, x))
        assert "central differences" in broken("gradient", Gaussian())

    def test_gradient_from_a_wrong_slope(self, monkeypatch):
        rule = replace(OPERATIONS["decay"], slopes=lambda node: (Parameter(0.5) * node,))
        monkeypatch.setitem(OPERATIONS, "decay", rule)
        broken("gradient", Gaussian())


class TestObjects:
    def test_pickling(self):
        assert "cannot be pickled" in broken("pickling", BlockKernel(lambda X, Y: X @ Y.T))

    def test_pickling_to_something_else(self):
        class Forgetful(Twisted):
            def __reduce__(self):
                return Linear, ()

        assert "another kernel, Linear" in broken("pickling", Forgetful(2.0))

    def test_equality(self):
        class Unequal(Twisted):
            def __eq__(self, other):
                return False

            __hash__ = Linear.__hash__

        assert "not equal" in broken("equality_and_hash", Unequal())

    def test_hash(self):
        class Unstable(Twisted):
            def __hash__(self):
                return id(self)

        assert "another hash" in broken("equality_and_hash", Unstable())

    def test_equal_to_everything(self):
        class Agreeable(Twisted):
            def __eq__(self, other):
                return True

            __hash__ = Linear.__hash__

        assert "something else" in broken("equality_and_hash", Agreeable())

    def test_rebuilding(self):
        class Lossy(Twisted):
            def with_(self, **changes):
                return Lossy(bias=self.bias + 1.0)

        assert "with_(**get_params" in broken("rebuilding", Lossy())

    def test_repr(self):
        class Vague(Twisted):
            def __repr__(self):
                return "Linear()"

        assert "repr evaluates to another kernel" in broken("readable_repr", Vague(1.0))


class TestArguments:
    def test_points_are_asked_for(self):
        with pytest.raises(
            ValueError, match=r"refuses vectors of dimension 1, 2, 5: pass\s+points"
        ):
            check_kernel(Gaussian([1.0, 2.0, 3.0]))

    def test_names_of_points_in_the_message(self):
        with pytest.raises(AssertionError, match="on plain points in dimension 1"):
            check_kernel(NEGATIVE)

    def test_far_points_are_among_the_defaults(self):
        with pytest.raises(AssertionError, match="on far points in dimension"):
            check_kernel(BlockKernel(expanded))

    def test_another_seed_draws_other_points(self):
        assert not np.array_equal(vectors(2, 0)["plain"], vectors(2, 1)["plain"])

    def test_every_law_has_a_sentence(self):
        assert all(check.__doc__ for check in KERNEL_CONTRACTS.values())
        assert len(KERNEL_CONTRACTS) >= 20

    def test_every_law_is_broken_in_this_file(self):
        source = Path(__file__).read_text("utf-8")
        assert [name for name in KERNEL_CONTRACTS if f'"{name}"' not in source] == []


class TestRounding:
    """The bound is a bound, and not a loose one."""

    @pytest.mark.parametrize("name", markets.WITH_EXPRESSION)
    def test_bound_is_near_the_unit(self, name):
        kernel = markets.WITH_EXPRESSION[name]
        points = kernel.points(0.1 * markets.normal(9, 2))
        bound = kernel_bound(kernel.expression(), points, points, np.float64)
        size = np.abs(kernel.gram(points).dense()).max(initial=1e-300)
        assert bound.max() <= 400 * np.finfo(np.float64).eps * size + 1e-300

    def test_abstract_kernels_are_not_evaluated(self):
        with pytest.raises(NotImplementedError, match="implements neither expression nor block"):
            Kernel().gram(X).dense()
