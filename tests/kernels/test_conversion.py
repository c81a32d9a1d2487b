"""Each conversion has the values of scikit-learn; what is refused is indefinite, and said so."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    GenericKernelMixin,
    PairwiseKernel,
    WhiteKernel,
)
from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel
from sklearn.gaussian_process.kernels import Matern as GaussianProcessMatern
from sklearn.gaussian_process.kernels import RationalQuadratic as GaussianProcessRational
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.svm import SVC

import markets
from mercer.kernels import (
    BlockKernel,
    ChiSquared,
    Constant,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    PairKernel,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    Sigmoid,
    as_kernel,
)
from mercer.kernels.conversion import Circle, OnCircle, as_kernel_and_ridge
from processes import output_of

X, Y = markets.normal(6, 3), markets.normal(4, 3, 1)
COUNTS, OTHER_COUNTS = np.abs(X), np.abs(Y)
LINE, OTHER_LINE = X[:, :1], Y[:, :1]
WORDS = ["kernel", "learn", "space"]


def near(left, right):
    """Equal to 1e-12; scikit-learn's own distances, from norms, lose 8 ‖x‖² ulps ≈ 2e-14 here."""
    return np.allclose(left, right, rtol=1e-12, atol=1e-12 * np.abs(right).max())


# ---- names ---------------------------------------------------------------------------------------

NAMED = [
    ("rbf", {"gamma": 0.3}, Gaussian((2 * 0.3) ** -0.5)),
    ("rbf", {}, Gaussian((2 / 3) ** -0.5)),
    ("laplacian", {"gamma": 0.3}, Laplacian(1 / 0.3)),
    ("laplacian", {}, Laplacian(1 / (1 / 3))),
    ("poly", {"gamma": 0.2}, 0.2**3 * Polynomial(3, 1 / 0.2)),
    ("polynomial", {"gamma": 0.25, "degree": 2.0, "coef0": 3}, 0.25**2 * Polynomial(2, 12.0)),
    ("poly", {"degree": 2, "coef0": 0}, (1 / 3) ** 2 * Polynomial(2, 0.0)),
    ("cosine", {}, Linear().normalised()),
    ("linear", {}, Linear()),
    ("chi2", {"gamma": 0.3}, ChiSquared(0.3)),
    ("chi2", {}, ChiSquared(1.0)),
]
INDEFINITE = [
    ("sigmoid", {"gamma": 0.4, "coef0": -0.5}),
    ("sigmoid", {}),
    ("poly", {"coef0": -2.0}),
    ("poly", {"degree": 2.5}),
    ("additive_chi2", {}),
]


class TestNames:
    @pytest.mark.parametrize(("name", "options", "kernel"), NAMED)
    def test_values(self, name, options, kernel):
        converted = as_kernel(name, X=COUNTS, **options)
        assert converted == kernel
        expected = pairwise_kernels(COUNTS, OTHER_COUNTS, metric=name, **options)
        assert near(converted(COUNTS, OTHER_COUNTS), expected)

    @pytest.mark.parametrize("name", ["rbf", "poly", "linear", "cosine"])
    def test_values_of_both_signs(self, name):
        assert near(as_kernel(name, X=X)(X, Y), pairwise_kernels(X, Y, metric=name))

    @pytest.mark.parametrize(("name", "options"), INDEFINITE)
    def test_indefinite_values(self, name, options):
        converted = as_kernel(name, X=COUNTS, allow_indefinite=True, **options)
        expected = pairwise_kernels(COUNTS, OTHER_COUNTS, metric=name, **options)
        assert near(converted(COUNTS, OTHER_COUNTS), expected)

    def test_indefinite_values_on_sparse_points(self):
        points = scipy.sparse.csr_array(COUNTS)
        for name, options in INDEFINITE[2:]:
            k = as_kernel(name, n_features=3, allow_indefinite=True, **options)
            assert near(k(points), k(COUNTS))

    def test_empty_bins_count_as_nothing(self):
        k = as_kernel("additive_chi2", allow_indefinite=True)
        points = np.array([[0.0, 1.0], [0.0, 3.0]])
        assert near(k(points), pairwise_kernels(points, metric="additive_chi2"))

    def test_sigmoid_is_a_program(self):
        assert as_kernel("sigmoid", gamma=0.5, allow_indefinite=True) == Sigmoid(0.5, 1)

    def test_precomputed(self):
        assert as_kernel("precomputed", X=markets.MATRIX) == Precomputed(markets.MATRIX)

    def test_parameters_of_other_kernels_are_ignored(self):
        assert as_kernel("linear", gamma="scale", degree=0.5, coef0=-1) == Linear()

    def test_kernels_stay_what_they_are(self):
        kernel = Gaussian() + Linear()
        assert as_kernel(kernel, gamma=3.0) is kernel


class TestGamma:
    def test_the_number_of_columns(self):
        of_width = as_kernel("rbf", n_features=3)
        assert as_kernel("rbf", X=X) == of_width
        assert as_kernel("rbf", gamma="auto", X=scipy.sparse.csr_array(X)) == of_width
        assert as_kernel("rbf", n_features=2) != of_width

    def test_auto_for_chi2(self):
        assert as_kernel("chi2", gamma="auto", n_features=4) == ChiSquared(0.25)

    @pytest.mark.parametrize("data", [X, scipy.sparse.csr_matrix(X), np.ones((6, 3))])
    def test_scale_is_that_of_svc(self, data):
        labels = [0, 1] * 3
        machine = SVC(kernel="rbf", gamma="scale").fit(data, labels)
        kernel = as_kernel("rbf", gamma="scale", X=data)
        own = SVC(kernel="precomputed").fit(kernel(data), labels)
        scores = own.decision_function(kernel(data))
        np.testing.assert_allclose(machine.decision_function(data), scores, rtol=1e-9, atol=1e-12)


# ---- kernels of Gaussian processes ---------------------------------------------------------------

RBF_SCALES = (0.5, 2.0, 1.5)
PROCESSES = [
    (RBF(0.7), Gaussian(0.7)),
    (RBF([0.7]), Gaussian(0.7)),
    (RBF(RBF_SCALES), Gaussian(RBF_SCALES)),
    (GaussianProcessMatern(0.7, nu=0.5), Matern(0.5, 0.7)),
    (GaussianProcessMatern(0.7, nu=1.5), Matern(1.5, 0.7)),
    (GaussianProcessMatern(RBF_SCALES, nu=2.5), Matern(2.5, RBF_SCALES)),
    (GaussianProcessMatern(0.7, nu=0.8), Matern(0.8, 0.7)),
    (GaussianProcessMatern(0.7, nu=np.inf), Gaussian(0.7)),
    (GaussianProcessRational(0.7, alpha=1.3), RationalQuadratic(1.3, 0.7)),
    (DotProduct(0.6), Linear(0.6**2)),
    (ConstantKernel(2.5), Constant(2.5)),
    (2.0 * RBF(0.7), 2.0 * Gaussian(0.7)),
    (RBF(0.7) * 2.0, 2.0 * Gaussian(0.7)),
    (ConstantKernel(2.0) * 3.0, 3.0 * Constant(2.0)),
    (DotProduct(0.6) ** 2, Polynomial(2, 0.6**2)),
    (Exponentiation(DotProduct(0.6), 1.0), Polynomial(1, 0.6**2)),
    (PairwiseKernel(metric="rbf", gamma=0.3), Gaussian((2 * 0.3) ** -0.5)),
    (
        PairwiseKernel(
            metric="poly", gamma=0.2, pairwise_kernels_kwargs={"degree": 2, "unknown": 7}
        ),
        0.2**2 * Polynomial(2, 1 / 0.2),
    ),
    (PairwiseKernel(metric="cosine"), Linear().normalised()),
    (
        2.0 * RBF(0.7) + DotProduct(0.6) * GaussianProcessMatern(1.1) + 0.5,
        2.0 * Gaussian(0.7) + Linear(0.6**2) * Matern(1.5, 1.1) + 0.5,
    ),
]


class Doubled(RBF):
    """A user's own class must not be taken for the one it extends."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return 2.0 * super().__call__(X, Y)


Doubled.__name__ = "RBF"


class CommonLetters(GenericKernelMixin, GaussianProcessKernel):
    """A kernel on words, as in scikit-learn's gallery."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.array([[markets.common_letters(a, b) for b in Y] for a in X])

    def diag(self, X):
        return np.array([markets.common_letters(a, a) for a in X])

    def is_stationary(self):
        return False


def power_of_product(x, y, gamma):
    return (x @ y + gamma) ** 2


class TestGaussianProcesses:
    @pytest.mark.parametrize(("process", "kernel"), PROCESSES, ids=lambda value: str(value)[:40])
    def test_values(self, process, kernel):
        converted = as_kernel(process)
        assert converted == kernel
        assert near(converted(X, Y), process(X, Y))
        assert near(converted(X), process(X))

    def test_powers(self):
        process = (RBF(0.7) + 0.5) ** 3
        assert as_kernel(process).coefficients == (0.0, 0.0, 0.0, 1.0)
        assert near(as_kernel(process)(X, Y), process(X, Y))

    @pytest.mark.parametrize(
        "process", [Doubled(0.7), PairwiseKernel(metric=power_of_product, gamma=0.3)]
    )
    def test_unknown_ones_are_called(self, process):
        assert as_kernel(process) == BlockKernel(process)
        assert near(as_kernel(process)(X, Y), process(X, Y))

    def test_unknown_ones_inside_expressions(self):
        process = 2.0 * Doubled(0.7) + RBF(0.3)
        assert near(as_kernel(process)(X, Y), process(X, Y))

    def test_words(self):
        expected = PairKernel(markets.common_letters)(WORDS)
        assert near(as_kernel(CommonLetters())(WORDS), expected)

    @pytest.mark.parametrize("exponent", [1.5, -1])
    def test_other_powers_where_allowed(self, exponent):
        process = (DotProduct(0.6) + 1.0) ** exponent
        converted = as_kernel(process, allow_indefinite=True)
        assert near(converted(COUNTS, OTHER_COUNTS), process(COUNTS, OTHER_COUNTS))

    def test_parameters_can_be_searched(self):
        process = 2.0 * RBF(0.7) + DotProduct(0.6)
        changed = as_kernel(process).with_(left__scale=3.0, left__kernel__lengthscale=1.7)
        assert near(changed(X, Y), (3.0 * RBF(1.7) + DotProduct(0.6))(X, Y))


class TestPeriodic:
    process = ExpSineSquared(length_scale=0.8, periodicity=1.7)

    def test_values(self):
        converted = as_kernel(self.process)
        assert converted == OnCircle(Gaussian(0.8), Circle(1.7))
        assert near(converted(LINE, OTHER_LINE), self.process(LINE, OTHER_LINE))
        assert near(converted(scipy.sparse.csr_array(LINE)), self.process(LINE))

    def test_one_column_is_converted_where_others_are_allowed(self):
        assert as_kernel(self.process, X=LINE, allow_indefinite=True) == as_kernel(self.process)

    def test_more_columns_where_allowed(self):
        converted = as_kernel(self.process, allow_indefinite=True)
        assert near(converted(X, Y), self.process(X, Y))

    def test_inside_expressions(self):
        process = 2.0 * self.process + DotProduct(0.6)
        assert near(as_kernel(process)(LINE, OTHER_LINE), process(LINE, OTHER_LINE))

    def test_one_of_several_columns(self):
        assert near(as_kernel(self.process).on(1)(X), self.process(X[:, 1:2]))

    def test_products_over_columns_are_positive_definite(self):
        k = as_kernel(self.process)
        assert smallest_eigenvalue(k.on(0) * k.on(1), PLANE) > -1e-13

    def test_gradients(self):
        f = as_kernel(self.process).function(LINE, np.arange(1.0, 7.0))
        step = 1e-5
        slopes = (f(OTHER_LINE + step) - f(OTHER_LINE - step)) / (2 * step)
        assert np.allclose(f.gradient(OTHER_LINE).ravel(), slopes, rtol=1e-8, atol=1e-8)


class TestNoise:
    @pytest.mark.parametrize(
        ("process", "ridge"),
        [
            (RBF(0.7) + WhiteKernel(0.3), 0.3),
            (WhiteKernel(0.3) + RBF(0.7), 0.3),
            (RBF(0.7) + 2.0 * WhiteKernel(0.3), 0.6),
            ((WhiteKernel(0.25) + RBF(0.7)) + 2.0 * (WhiteKernel(0.5) * 3.0), 3.25),
            (RBF(0.7), 0.0),
        ],
    )
    def test_noise_is_a_ridge(self, process, ridge):
        kernel, found = as_kernel_and_ridge(process)
        assert kernel == Gaussian(0.7)
        assert found == ridge
        assert near(kernel(X) + found * np.eye(len(X)), process(X))

    def test_all_other_terms_stay(self):
        process = RBF(0.7) + (WhiteKernel(0.3) + DotProduct(0.6))
        assert as_kernel_and_ridge(process) == (Gaussian(0.7) + Linear(0.6**2), 0.3)

    def test_options_reach_the_kernel(self):
        assert as_kernel_and_ridge("rbf", gamma=0.5) == (Gaussian(1.0), 0.0)


# ---- functions -----------------------------------------------------------------------------------


def row_product(x, y):
    return x @ y


def block_product(X, Y):
    return X @ Y.T


def common_letters_of_lists(A, B):
    return np.array([[markets.common_letters(a, b) for b in B] for a in A])


class TestFunctions:
    @pytest.mark.parametrize("columns", [1, 2, 3])
    def test_rows(self, columns):
        """On three columns x @ y also takes the blocks of two and three rows that are tried."""
        points, others = X[:, :columns], Y[:, :columns]
        converted = as_kernel(row_product, X=points)
        assert converted == PairKernel(row_product)
        assert near(converted(points, others), points @ others.T)

    @pytest.mark.parametrize("points", [np.eye(3), np.zeros((4, 3)), X[:1]])
    def test_rows_that_say_little(self, points):
        assert as_kernel(row_product, X=points) == PairKernel(row_product)

    @pytest.mark.parametrize("block", [block_product, markets.laplace_block, rbf_kernel])
    @pytest.mark.parametrize("columns", [1, 3])
    def test_blocks(self, block, columns):
        points, others = X[:, :columns], Y[:, :columns]
        converted = as_kernel(block, X=points)
        assert converted == BlockKernel(block)
        assert near(converted(points, others), block(points, others))

    def test_a_number_may_come_as_a_vector(self):
        converted = as_kernel(np.minimum, X=np.abs(LINE))
        assert converted == PairKernel(np.minimum)

    def test_words_one_by_one(self):
        converted = as_kernel(markets.common_letters, X=WORDS)
        assert converted == PairKernel(markets.common_letters)
        assert converted("kernel", "learn") == 4.0

    def test_lists_of_words(self):
        converted = as_kernel(common_letters_of_lists, X=WORDS)
        assert converted == BlockKernel(common_letters_of_lists)
        assert near(converted(WORDS), PairKernel(markets.common_letters)(WORDS))

    def test_sparse_rows(self):
        assert as_kernel(block_product, X=scipy.sparse.csr_array(X)) == BlockKernel(block_product)

    @pytest.mark.filterwarnings("error")
    def test_trials_are_silent(self):
        def talkative(x, y):
            warnings.warn("look at this", stacklevel=1)
            return float(x[0] * y[0])

        assert as_kernel(talkative, X=X) == PairKernel(talkative)


# ---- what is not positive definite ---------------------------------------------------------------

SIDE = np.linspace(0.0, 1.0, 6)
PLANE = np.array(np.meshgrid(SIDE, SIDE)).reshape(2, -1).T


def smallest_eigenvalue(kernel, points):
    return np.linalg.eigvalsh(kernel(points))[0]


GROUNDS = {
    "sigmoid": ("sigmoid", {"gamma": 1.0}),
    "coef0": ("poly", {"gamma": 1.0, "coef0": -1.0}),
    "degree": ("poly", {"gamma": 1.0, "degree": 2.5}),
    "additive_chi2": ("additive_chi2", {}),
    "ExpSineSquared": (ExpSineSquared(0.8, 0.5), {}),
    "exponent": (DotProduct(1.0) ** 1.5, {}),
    "L1 Matérn 3/2": (Matern(1.5), {"metric": "l1"}),
    "L1 Matérn 5/2": (GaussianProcessMatern(RBF_SCALES[:2], nu=2.5), {"metric": "manhattan"}),
    "L1 Gaussian": ("rbf", {"gamma": 1.0, "metric": "cityblock"}),
    "L1 rational quadratic": (RationalQuadratic(1.0), {"metric": "l1"}),
}


class TestGrounds:
    """What is refused would be wrong: there are points where the matrix has a negative value."""

    @pytest.mark.parametrize("name", GROUNDS)
    def test_refusals_are_right(self, name):
        kernel, options = GROUNDS[name]
        with pytest.raises(ValueError, match=r"positive definite.* pass allow_indefinite=True"):
            as_kernel(kernel, X=PLANE, **options)
        allowed = as_kernel(kernel, X=PLANE, allow_indefinite=True, **options)
        values = np.linalg.eigvalsh(allowed(PLANE))
        assert values[0] < -1e-9 * values[-1]


class TestMetric:
    def test_exponential_kernels_on_l1_are_laplacians(self):
        assert as_kernel(Exponential(0.7), metric="l1") == Laplacian(0.7)
        assert as_kernel(GaussianProcessMatern(0.7, nu=0.5), metric="manhattan") == Laplacian(0.7)
        assert as_kernel(Matern(0.5, RBF_SCALES), metric="l1") == Laplacian(RBF_SCALES)

    def test_one_column_has_one_distance(self):
        assert as_kernel(Matern(1.5), metric="l1", X=LINE) == Matern(1.5)
        assert as_kernel(Matern(1.5), metric="l1", n_features=1) == Matern(1.5)

    def test_euclidean_is_what_kernels_have(self):
        assert as_kernel(Matern(1.5), metric="l2") == Matern(1.5)

    def test_values(self):
        scales = np.array([0.5, 2.0])
        k = as_kernel(Gaussian(scales), metric="l1", allow_indefinite=True)
        distances = np.abs((PLANE[:, None] - PLANE) / scales).sum(axis=-1)
        assert near(k(PLANE), np.exp(-(distances**2) / 2))

    def test_rough_kernels_are_positive_definite_on_l1(self):
        k = as_kernel(Matern(0.3), metric="l1")
        distances = np.abs(PLANE[:, None] - PLANE).sum(axis=-1)
        assert near(k(PLANE)[0], Matern(0.3)(distances[0][:, None], [[0.0]])[:, 0])
        assert smallest_eigenvalue(k, PLANE) > 0


# ---- refusals ------------------------------------------------------------------------------------

REFUSALS = {
    "name": (lambda: as_kernel("rfb"), r"no kernel 'rfb'\. Did you mean 'rbf'\? The names are \["),
    "capitals": (lambda: as_kernel("RBF"), "no kernel 'RBF'. Did you mean 'rbf'"),
    "strange name": (
        lambda: as_kernel("xyzzy"),
        r"no kernel 'xyzzy'\. The names are \['additive_chi2', 'chi2', 'cosine', 'laplacian', "
        r"'linear', 'poly', 'polynomial', 'precomputed', 'rbf', 'sigmoid'\]",
    ),
    "object": (
        lambda: as_kernel(np.eye(2)),
        r"a kernel is a kernel of mercer, a name .*; got an object of ndarray\. For a matrix K "
        r"write Precomputed\(K\)",
    ),
    "class": (lambda: as_kernel(Gaussian), r"got the class Gaussian\. Write Gaussian\(\)"),
    "class of a process": (lambda: as_kernel(RBF), r"got the class RBF\. Write RBF\(\)"),
    "features": (
        lambda: as_kernel("rbf"),
        "gamma=None means 1/n_features, and the number of features is not known: write gamma=0.1, "
        "n_features=3 or X=X",
    ),
    "auto": (lambda: as_kernel("chi2", gamma="auto"), "gamma='auto' means 1/n_features"),
    "scale": (
        lambda: as_kernel("rbf", gamma="scale", n_features=3),
        "gamma='scale' needs the variance of the data: write X=X, or gamma=0.1",
    ),
    "gamma zero": (
        lambda: as_kernel("poly", gamma=0),
        "gamma must be a positive number, None, 'auto', 'scale' or 'median'; got 0",
    ),
    "gamma text": (lambda: as_kernel("rbf", gamma="sclae"), "gamma must be .*; got 'sclae'"),
    "gamma nan": (lambda: as_kernel("chi2", gamma=np.nan), "gamma must be .*; got nan"),
    "degree": (
        lambda: as_kernel("poly", gamma=1.0, degree=2.5),
        r"'poly' with degree=2\.5 is not positive definite: the binomial coefficients .* change "
        r"sign\. Write a whole number such as degree=3\. To use it all the same, pass "
        "allow_indefinite=True",
    ),
    "degree zero": (lambda: as_kernel("poly", gamma=1.0, degree=0), "whole number degree ≥ 1"),
    "coef0": (
        lambda: as_kernel("poly", gamma=1.0, coef0=-1),
        "coef0=-1 is not positive definite: a negative coef0 gives some monomials a negative "
        "weight. Write coef0=0 or coef0=1. To use it",
    ),
    "sigmoid": (
        lambda: as_kernel("sigmoid", gamma=1.0),
        r"tanh\(γ⟨x, y⟩ \+ c\), which is not positive definite: .*Write 'rbf', or "
        r"ArcCosine\(order=1\)",
    ),
    "additive chi2": (
        lambda: as_kernel("additive_chi2"),
        "only conditionally positive definite: its diagonal is 0. Write 'chi2', its exponential",
    ),
    "precomputed": (
        lambda: as_kernel("precomputed"),
        r"needs the matrix K: write as_kernel\('precomputed', X=K\)",
    ),
    "function without data": (
        lambda: as_kernel(row_product),
        r"found by trying it on data: write as_kernel\(function, X=X\), or PairKernel\(function\) "
        r"or BlockKernel\(function\)",
    ),
    "function and no points": (lambda: as_kernel(row_product, X=[]), "X holds no points to try"),
    "function that fails": (
        lambda: as_kernel(lambda x, y: x.nothing, X=X),
        r"is no kernel on these points: on two points it gave AttributeError.*, on two blocks "
        r"AttributeError.*\. It must return a number for two points, or for blocks",
    ),
    "function of another shape": (
        lambda: as_kernel(lambda x, y: np.ones((2, 2)), X=X),
        r"on two blocks ValueError\('shape \(2, 2\) for 2 and 3 points'\)",
    ),
    "periodic on more columns": (
        lambda: as_kernel(1.0 + ExpSineSquared(), X=X),
        r"ExpSineSquared is positive definite on one column; there are 3\..* would make every "
        r"function constant\. Write k = as_kernel\(kernel\), then k\.on\(0\).*allow_indefinite",
    ),
    "periodic, later on more columns": (
        lambda: as_kernel(ExpSineSquared())(X),
        "ExpSineSquared is positive definite on one column; there are 3",
    ),
    "exponent": (
        lambda: as_kernel(RBF() ** 1.5),
        r"\*\* 1\.5 is not positive definite in general: only powers 1, 2, … of a kernel are\. "
        "Write a whole exponent; for a power of an RBF change its length_scale",
    ),
    "negative exponent": (lambda: as_kernel(RBF() ** -1), "only powers 1, 2, … of a kernel are"),
    "pairwise sigmoid": (
        lambda: as_kernel(PairwiseKernel(metric="sigmoid") + RBF()),
        "'sigmoid' is tanh.*not positive definite",
    ),
    "noise": (
        lambda: as_kernel(RBF() + WhiteKernel()),
        r"WhiteKernel\(noise_level=1\) is noise on the diagonal, not a function of two points\. .*"
        r"write kernel, ridge = as_kernel_and_ridge\(kernel\)",
    ),
    "noise in a product": (
        lambda: as_kernel_and_ridge(RBF() * WhiteKernel() + RBF()),
        "times another kernel, it is none: take it out",
    ),
    "noise in a power": (
        lambda: as_kernel((RBF() + WhiteKernel()) ** 1.5, allow_indefinite=True),
        "Inside a power",
    ),
    "noise alone": (
        lambda: as_kernel_and_ridge(WhiteKernel() * 2.0),
        "is noise and nothing else: add a kernel to it",
    ),
    "compound": (
        lambda: as_kernel(CompoundKernel([RBF(), DotProduct()])),
        r"a list of kernels, not one: write \[as_kernel\(k\) for k in kernel\.kernels\]",
    ),
    "L1 Matérn": (
        lambda: as_kernel(Matern(1.5), metric="l1", X=X),
        r"Matern\(smoothness=1\.5, lengthscale=1\.0\) on the L1 distance is not positive definite "
        r"beyond one column: that takes a smoothness of at most 1/2\. Write Laplacian\(lengthscale",
    ),
    "L1 Matérn without data": (
        lambda: as_kernel(GaussianProcessMatern(nu=2.5), metric="manhattan"),
        "For points with one column pass n_features=1. To use it all the same",
    ),
    "metric": (
        lambda: as_kernel("rbf", gamma=1.0, metric="chebyshev"),
        r"metric must be one of \['euclidean', 'l2', 'l1', 'manhattan', 'cityblock'\]; got 'cheb",
    ),
    "metric of a product": (
        lambda: as_kernel("linear", metric="l1"),
        r"Linear\(bias=0\.0\) is no function of a distance: leave metric='l1' out",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    attempt, text = REFUSALS[name]
    with pytest.raises(ValueError, match=text):
        attempt()


# ---- values like any other -----------------------------------------------------------------------

PICKLED = [
    as_kernel("poly", gamma=0.2, coef0=-1.0, allow_indefinite=True),
    as_kernel("additive_chi2", allow_indefinite=True),
    as_kernel(block_product, X=X),
    as_kernel(row_product, X=X),
    as_kernel(2.0 * RBF(0.7) + DotProduct(0.6) * GaussianProcessMatern(1.1) + 0.5),
    as_kernel(Matern(1.5), metric="l1", allow_indefinite=True),
    as_kernel(ExpSineSquared(0.8, 1.7)).on(0),
]


@pytest.mark.parametrize("kernel", PICKLED, ids=repr)
def test_pickled_kernels_have_the_same_values(kernel):
    twin = pickle.loads(pickle.dumps(kernel))
    assert isinstance(twin, Kernel)
    assert twin == kernel
    assert np.array_equal(twin(COUNTS), kernel(COUNTS))


def test_scikit_learn_is_not_imported():
    code = "import sys; from mercer.kernels import as_kernel; as_kernel('rbf', gamma=1.0); "
    assert output_of(code + "print('sklearn' in sys.modules)") == "False"


@pytest.mark.parametrize("gamma", [1e150, 1e-150])
def test_a_power_of_gamma_beyond_floats_is_folded_into_the_kernel(gamma):
    """γ³ overflows, or vanishes; (γ⟨x, y⟩ + 1)³ does not."""
    X = np.array([[1.0, 2.0], [0.5, -1.0]]) / np.sqrt(gamma)
    kernel = as_kernel("poly", gamma=gamma, degree=3, coef0=1.0)
    assert np.allclose(kernel(X), (gamma * X @ X.T + 1.0) ** 3, rtol=1e-12)
