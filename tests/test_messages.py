"""Refusals that named the wrong cause, or none: each says what came and what to write."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import mercer
from mercer import SVC, SVR, KernelClassifier, KernelQuantileRegressor, KernelRidge
from mercer.features import Nystroem
from mercer.features.centres import KMeansPlusPlus, Uniform
from mercer.kernels import Gaussian, Laplacian, Linear, Matern, PairKernel, Polynomial
from mercer.losses import Hinge, Huber
from mercer.online import OnlineKernelMachine
from mercer.online.budgets import Merge
from mercer.solvers import ConjugateGradient, Direct, Newton, Problem, interpolant
from mercer.structured import table_kernel

X = np.random.default_rng(0).standard_normal((30, 2))
y = X[:, 0]


class Blocks:
    """So many blocks of ten rows, as often as they are asked for."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return (X[:10] for _ in range(self.count))


SOLVERS = [
    (lambda: KernelClassifier(solver=ConjugateGradient()).fit(X, y > 0),
     r'ConjugateGradient solves the square loss; got Logistic\(\)\. Write Newton\(\), or solver='),
    (lambda: KernelClassifier("hinge", solver=Direct()).fit(X, y > 0), r"Write DualAscent\(\), or"),
    (lambda: KernelQuantileRegressor(solver=Newton()).fit(X, y),
     r"which has kinks\. Write DualAscent\(\) .*centres=1000 in an estimator"),
    (lambda: KernelRidge(solver=3).fit(X, y), "a solver object of .* with a method solve; got 3"),
    (lambda: KernelRidge(solver=None).fit(X, y), "with a method solve; got None"),
]  # fmt: skip
CLASSES = [
    (lambda: KernelRidge(solver=Direct).fit(X, y), r"got the class Direct: write Direct\("),
    (lambda: KernelRidge(kernel=Gaussian).fit(X, y), r"got the class Gaussian\. Write Gaussian\("),
    (lambda: KernelRidge(kernel="rbf", centres=KMeansPlusPlus).fit(X, y), "class KMeansPlusPlus"),
    (lambda: Nystroem(centres=Uniform).fit(X), r"centres of Nystroem .* class Uniform: write"),
    (lambda: Nystroem(centres=X[:3]).fit(X), r"centres must be a choice .* Given\(points\)"),
    (lambda: Nystroem(centres=3).fit(X), "None to draw n_components; got 3"),
    (lambda: KernelRidge(kernel="rbf", centres=X[:3]).fit(X, y), r"how many, .* Given\(points\)"),
    (lambda: Problem(Linear().gram(X), y, Huber, 0.1), "loss of Problem must be .* class Huber"),
    (lambda: OnlineKernelMachine(loss=Hinge).fit(X, y > 0), "the class Hinge: write Hinge"),
    (lambda: OnlineKernelMachine(budget=Merge).fit(X, y > 0), "the class Merge: write Merge"),
]
BLOCKS = [
    (lambda: KernelRidge(kernel=Gaussian(), centres=5).fit(Blocks(4), y),
     "the blocks of X have 40 rows, and y has 30: there must be one target for each row"),
    (lambda: KernelRidge(kernel=Gaussian(), centres=5).fit(Blocks(2), y), "have 20 rows, and y"),
    (lambda: KernelRidge(kernel=Gaussian(), centres=5).fit(Blocks(0), y), "no blocks of rows"),
]  # fmt: skip
NUMBERS = [
    (lambda: Gaussian().gram(X, memory=10) @ y, "takes at least 12 KB .* the budget is 10 bytes"),
    (
        lambda: KernelRidge(kernel="poly").fit(1e120 * X, y),
        r"overflows: k\(x, x\) is beyond 2e\+308",
    ),
    (
        lambda: KernelRidge(kernel=Linear().exp()).fit(1e3 * X, y),
        "as StandardScaler does, or write kernel",
    ),
    (lambda: Gaussian().gram(np.full((2, 1), np.inf)), "infinity: remove those rows, or scale"),
    (lambda: Gaussian().gram(np.full((2, 1), np.nan)), r"NaN: remove .*SimpleImputer"),
    (lambda: Gaussian(1e-170), r"Gaussian needs lengthscales above 1e-150, .* got 1e-170"),
    (lambda: Matern(1.5, [1.0, 1e-300]), "Matern needs lengthscales above 1e-150, .* got 1e-300"),
    (lambda: Laplacian(1e-320), "Laplacian needs lengthscales above"),
]
PAIRS = [
    (lambda: PairKernel(lambda a, b: a * b)(X), r"returned an array of shape \(2,\)\. Write Block"),
    (lambda: PairKernel(lambda a, b: a * b).gram(X).diagonal(), r"array of shape \(2,\)"),
    (lambda: PairKernel(lambda a, b: "x")(X), "returns a number for them; it returned 'x'"),
    (lambda: PairKernel(lambda a, b: 1j)(X), "it returned 1j"),
    (lambda: SVR(kernel=lambda a, b: np.ones((1, 2))).fit(X, y), "is no kernel on these points"),
]


@pytest.mark.parametrize(("call", "text"), [*SOLVERS, *CLASSES, *BLOCKS, *NUMBERS, *PAIRS])
def test_a_refusal_names_the_cause_and_what_to_write(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_a_class_in_a_sum_of_kernels():
    for combine in (
        lambda: Gaussian + Linear(),
        lambda: Linear() + Gaussian,
        lambda: Linear() * Gaussian,
    ):
        with pytest.raises(TypeError, match=r"got the class Gaussian: write Gaussian\("):
            combine()


def test_interpolation_tells_an_ill_conditioned_matrix_from_a_small_space():
    line = np.linspace(0, 1, 40)[:, None]
    values = np.sign(np.sin(40 * line[:, 0]))
    with pytest.raises(ValueError, match=r"ill-conditioned, of numerical rank .* lengthscale"):
        interpolant(Gaussian(2.0), line, values)
    with pytest.raises(ValueError, match=r"no function of this space takes .* rank 4"):
        interpolant(Polynomial(3), line, values)


@pytest.mark.parametrize("radius", [np.nan, np.inf, -1.0, "1", [1.0]])
def test_errors_on_a_ball_need_its_radius(radius):
    with pytest.raises(ValueError, match="needs a finite radius ≥ 0; got"):
        Nystroem(Gaussian(), n_components=3).fit(X).uniform_error(radius)


OVERFLOWING = 1e80 * np.random.default_rng(0).standard_normal((30, 2))


@pytest.mark.parametrize(
    "model",
    [
        mercer.KernelRidge(kernel=Polynomial(5)),
        mercer.KernelRidge(kernel=Polynomial(5), centres=5),
        mercer.KernelLogisticRegression(kernel=Polynomial(5)),
        mercer.SVC(kernel=Polynomial(5)),
        mercer.KernelKMeans(2, kernel=Polynomial(5)),
        mercer.KernelPCA(2, kernel=Polynomial(5)),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_that_overflows_is_named_by_every_estimator(model, dtype):
    X = OVERFLOWING if dtype == np.float64 else (1e-70 * OVERFLOWING).astype(dtype)
    with pytest.raises(ValueError, match=r"overflows: k\(x, x\) is beyond .* Scale the columns"):
        model.fit(X, np.arange(30) % 2)


@pytest.mark.parametrize("model", [KernelRidge(kernel="rbf"), SVR(), KernelQuantileRegressor()])
def test_targets_beyond_the_precision_of_the_rows(model):
    """Predictions were infinite, and nothing was said."""
    with pytest.raises(ValueError, match=r"size 2e\+150, beyond 3e\+38, .* pass X as float64"):
        model.fit(X.astype(np.float32), 1e150 * y)
    model.fit(X.astype(np.float32), 1e30 * y)


@pytest.mark.parametrize("value", [np.ones(2), [1, [2]], None, "a"], ids=repr)
def test_a_function_of_pairs_that_returns_no_number(value):
    """In an estimator, where each pair is computed once."""
    model = KernelRidge(kernel=PairKernel(lambda a, b: value))
    with pytest.raises(ValueError, match=r"returns a number for them; it returned .* Write Block"):
        model.fit(X, y)


def test_a_function_of_pairs_that_returns_nan():
    with pytest.raises(ValueError, match=r"PairKernel\(.*\) returned NaN or infinity: check"):
        KernelRidge(kernel=PairKernel(lambda a, b: np.nan)).fit(X, y)


def test_columns_of_a_table_that_hold_no_numbers():
    table = pandas.DataFrame({"a": y, "town": ["Bonn"] * 30})
    for model in (KernelRidge(kernel="rbf"), Nystroem()):
        with pytest.raises(ValueError, match=r"columns \['town'\] of the table hold no numbers: w"):
            model.fit(table, y)


def test_parameters_of_named_kernels_beside_kernels_of_all_views():
    with pytest.raises(ValueError, match=r"gamma belongs to kernels given by name; got gamma=2\.0"):
        mercer.KernelCCA(kernel=Gaussian(), gamma=2.0).fit(X, X)
    mercer.KernelCCA(kernel=[Gaussian(), "rbf"], gamma=2.0).fit(X, X)


def test_a_table_without_rows():
    table = pandas.DataFrame({"a": [0.0, 1.0], "town": ["Bonn", "Rome"]})
    for model in (SVC(kernel=table_kernel(table)), KernelRidge(kernel=table_kernel(table))):
        with pytest.raises(ValueError, match="needs at least one object; X has none"):
            model.fit(table[:0], [])
