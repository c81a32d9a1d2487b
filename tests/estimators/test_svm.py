"""Support vector machines against scikit-learn's, and what theirs do not promise."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn import svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from mercer import SVC, SVR, KernelRidge, NuSVC, NuSVR, OneClassSVM
from mercer.errors import ApproximationWarning, IndefiniteKernelWarning
from mercer.estimators.pairs import OneVersusOne
from mercer.features import Nystroem
from mercer.kernels import Gaussian, Matern, PairKernel
from mercer.losses import Hinge
from mercer.solvers import DualAscent, Problem

IRIS = load_iris()


def common_letters(a, b):
    return len(set(a) & set(b))


def planes(X, Y):
    return X @ Y.T


@pytest.mark.parametrize(
    "options", [{"C": 5.0}, {"kernel": "linear"}, {"class_weight": "balanced"}]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_have_the_attributes_of_scikit_learn(classes, options):
    rows = IRIS.target < classes
    X, y = IRIS.data[rows][::2], IRIS.target_names[IRIS.target[rows]][::2]
    ours = SVC(tol=1e-8, **options).fit(X, y)
    theirs = svm.SVC(tol=1e-10, **options).fit(X, y)
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.dual_coef_.shape[0] == theirs.dual_coef_.shape[0]
    assert np.allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    if "kernel" not in options:  # with a linear one, coefficients are not unique
        assert np.array_equal(ours.support_, theirs.support_)
        assert np.array_equal(ours.n_support_, theirs.n_support_)
        assert np.allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)
        assert np.array_equal(ours.support_vectors_, theirs.support_vectors_)
    for shape in ("ovo", "ovr"):
        ours.decision_function_shape = theirs.decision_function_shape = shape
        assert np.allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    for ties in (False, True):
        ours.break_ties = theirs.break_ties = ties
        assert np.array_equal(ours.predict(X), theirs.predict(X))


def test_other_machines_agree_with_scikit_learn():
    X, y = IRIS.data[:, :3], IRIS.data[:, 3]
    pairs = [
        (SVR(tol=1e-8, C=2.0), svm.SVR(tol=1e-10, C=2.0)),
        (OneClassSVM(tol=1e-8, nu=0.2), svm.OneClassSVM(tol=1e-10, nu=0.2)),
        (NuSVC(tol=1e-8, nu=0.3), svm.NuSVC(tol=1e-10, nu=0.3)),
    ]
    for ours, theirs in pairs:
        targets = IRIS.target if isinstance(ours, NuSVC) else y
        ours.fit(X, targets)
        theirs.fit(X, targets)
        values = [
            m.predict(X) if isinstance(m, SVR | svm.SVR) else m.decision_function(X)
            for m in (ours, theirs)
        ]
        digits = 1e-3 if isinstance(ours, NuSVC) else 1e-4  # libsvm stores kernel values as float32
        scale = 10 * digits * np.abs(values[1]).max()
        assert np.allclose(values[0], values[1], atol=0.1 * scale), ours
        assert np.allclose(ours.intercept_, theirs.intercept_, atol=0.1 * scale)
    theirs = svm.OneClassSVM(tol=1e-10, nu=0.2).fit(X)
    assert np.allclose(pairs[1][0].score_samples(X), theirs.score_samples(X), atol=1e-4)
    assert pairs[1][0].offset_ == pytest.approx(theirs.offset_[0], abs=1e-4)


@pytest.mark.parametrize(
    "model",
    [SVC(), SVC(class_weight="balanced"), SVR(), NuSVC(nu=0.2), OneClassSVM(nu=0.3)],
    ids=str,
)
def test_weights_equal_repetition(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0) + (X[:, 1] > 0.5).astype(int)
    weights = rng.integers(0, 4, size=60)
    copies = np.repeat(np.arange(60), weights)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(X[copies], y[copies])
    method = "predict" if isinstance(model, SVR) else "decision_function"
    left, right = (getattr(m, method)(X) for m in (weighted, repeated))
    assert np.allclose(left, right, rtol=1e-7, atol=1e-8)


def test_kernels_of_every_kind_give_the_same_machine():
    X, y = make_classification(80, 5, random_state=0)
    gamma = 1 / (5 * X.var())
    base = SVC(tol=1e-8).fit(X, y)
    expected = base.decision_function(X)
    kernel = Gaussian((0.5 / gamma) ** 0.5)
    K = kernel(X)
    assert np.allclose(SVC(kernel=kernel, tol=1e-8).fit(X, y).decision_function(X), expected)
    assert np.allclose(SVC(kernel="precomputed", tol=1e-8).fit(K, y).decision_function(K), expected)
    sparse = scipy.sparse.csr_array(X)
    other = SVC(tol=1e-8).fit(sparse, y)
    assert np.allclose(other.decision_function(sparse), expected)
    assert scipy.sparse.issparse(other.support_vectors_)
    callables = SVC(kernel=planes, tol=1e-8).fit(X, y).decision_function(X)
    linear = SVC(kernel="linear", tol=1e-8).fit(X, y).decision_function(X)
    assert np.allclose(callables, linear, atol=1e-6)
    single = SVC().fit(X.astype(np.float32), y)
    assert single.decision_function(X.astype(np.float32)).dtype == np.float32
    assert np.allclose(single.decision_function(X.astype(np.float32)), expected, atol=1e-4)


@pytest.mark.parametrize(("scale", "degree"), [(1e15, 3), (1e-12, 5), (1e-15, 3)])
def test_polynomials_of_rows_whose_powers_are_beyond_float32(scale, degree):
    X = np.random.default_rng(0).standard_normal((300, 3))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    rows = (scale * X).astype(np.float32)
    for coef0 in (0.0, 1.0):
        options = {"kernel": "poly", "degree": degree, "coef0": coef0}
        expected = svm.SVC(**options).fit(X, y).predict(X)
        assert (SVC(**options).fit(rows, y).predict(rows) == expected).mean() > 0.99


def test_texts_are_points_too():
    words, y = ["aab", "abb", "ab", "xyz", "xz", "zzy"], [0, 0, 0, 1, 1, 1]
    kernel = PairKernel(common_letters)
    assert SVC(kernel=kernel).fit(words, y).predict(["ba", "zx"]).tolist() == [0, 1]
    assert SVC(kernel=common_letters).fit(words, y).predict(["ba", "zx"]).tolist() == [0, 1]
    values = SVR(kernel=kernel, C=10.0).fit(words, y, sample_weight=[1] * 6).predict(["ba", "zx"])
    assert values[0] < 0.5 < values[1]
    assert OneClassSVM(kernel=kernel).fit(words).predict(words).shape == (6,)


def test_many_classes_share_one_matrix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 70)) + np.repeat(np.eye(6, 70) * 4, 20, axis=0)  # 70 > CHEAP_WIDTH
    y = np.repeat(np.arange(6), 20)
    shuffle = rng.permutation(120)
    X, y = X[shuffle], y[shuffle]
    ours, theirs = SVC(tol=1e-8).fit(X, y), svm.SVC(tol=1e-10).fit(X, y)
    assert ours.function_.kernel is ours.kernel_
    assert np.allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-4)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert all(solution.status.converged for solution in ours.solutions_)
    alone = SVC(tol=1e-8, cache_size=1e-3).fit(X, y)  # no room: each pair by itself
    assert np.allclose(alone.dual_coef_, ours.dual_coef_, atol=1e-6)


@pytest.mark.parametrize("kernel", [Gaussian(3.0), Gaussian([2.0, 3.0, 4.0]), Matern(1.5, 3.0)])
@pytest.mark.parametrize(("classes", "near"), [(6, False), (6, True), (2, False), (2, True)])
def test_classes_that_lie_apart_need_few_rows_of_the_matrix(kernel, classes, near):
    """And where two of them overlap, that pair needs more of them, and no other one does."""
    n = 2400
    centres = 8.0 * np.concatenate([np.eye(3), -np.eye(3)])
    if near:
        centres[1] = centres[0] + 0.5
    X, y = make_blobs(n, centers=centres[:classes], cluster_std=0.7, random_state=1)
    gram = kernel.gram(X)
    pairs = OneVersusOne.of(gram, y, classes, np.ones(n))
    machines = pairs.solve(posed_hinge, DualAscent(1e-6), costs=np.ones(n))
    assert not machines.unsolved()
    assert len(machines) == classes * (classes - 1) // 2
    if not (near and classes == 2):
        assert gram.evaluations < (0.25 if near else 0.1) * n * n
    theirs = svm.SVC(kernel=lambda a, b: kernel(a, b), tol=1e-7).fit(X, y)
    for k, (i, j) in enumerate(pairs.pairs):
        members = pairs.members((i, j))
        f = kernel.gram(X[::7], X[members]) @ machines[k].coefficients + machines[k].intercept
        theirs.decision_function_shape = "ovo"
        other = theirs.decision_function(X[::7])
        other = -other if classes == 2 else other[:, k]
        assert np.allclose(f, other, atol=2e-3)


def test_pairs_that_overlap_make_the_others_compute_no_more():
    """Eleven classes in a plane, some of which overlap; half of K are 0.5 n² values."""
    X, y = make_blobs(5000, 2, centers=11, cluster_std=1.0, random_state=0)
    gram = Gaussian(float(X.std())).gram(X)
    pairs = OneVersusOne.of(gram, y, 11, np.ones(len(y)))
    machines = pairs.solve(posed_hinge, DualAscent(), costs=np.ones(len(y)))
    assert not machines.unsolved()
    assert gram.evaluations < 0.1 * len(y) ** 2


@pytest.mark.parametrize(
    ("classes", "n", "d", "alone"), [(6, 2700, 100, False), (3, 2250, 1000, True)]
)
def test_pairs_of_wide_points_share_the_values_of_a_class(classes, n, d, alone):
    """Half of K and the squares of classes; the widest in float32, certified where that matters."""
    X, y = make_blobs(n, d, centers=classes, cluster_std=10.0, random_state=0)
    gram = Gaussian(float(2.0**0.5 * X.std() * d**0.5)).gram(X)
    pairs = OneVersusOne.of(gram, y, classes, np.ones(len(y)))
    machines = pairs.solve(posed_hinge, DualAscent(), costs=np.ones(len(y)))
    assert not machines.unsolved()
    assert bool(machines.made) is alone
    assert gram.evaluations < (0.75 if alone else 0.6) * len(y) ** 2


def test_pairs_of_small_classes_go_no_further_than_their_gap_asks():
    """Steps to a gap of 1e-4; a round that went 300 times nearer took 28 for each pair."""
    X, y = make_blobs(900, 4, centers=30, random_state=0)
    gram = Gaussian(float(2.0**0.5 * X.std())).gram(X)
    machines = OneVersusOne.of(gram, y, 30, np.ones(900)).solve(
        posed_hinge, DualAscent(), costs=np.ones(900)
    )
    assert not machines.unsolved()
    assert machines.steps.mean() < 25


def posed_hinge(gram, labels, weights):
    return Problem(gram, labels, Hinge(), 1.0 / len(labels), weights, fit_intercept=True)


def test_searches_calibration_and_pickling_work():
    X, y = make_classification(60, 4, random_state=0)
    grid = {"kernel__lengthscale": [0.5, 2.0], "C": [0.1, 10.0]}
    scores = GridSearchCV(SVC(kernel=Gaussian()), grid, cv=2).fit(X, y).cv_results_
    assert len(set(scores["mean_test_score"])) > 1
    model = CalibratedClassifierCV(SVC(), ensemble=False, cv=3).fit(X, y)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
    fitted = SVC().fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.decision_function(X), fitted.decision_function(X))


def test_a_kernel_that_is_no_kernel_gives_a_stationary_point_and_says_so():
    X = IRIS.data[50:, 2:] - 4.0
    y = IRIS.target[50:]
    options = {"kernel": "sigmoid", "gamma": 0.3, "coef0": 0.5, "C": 2.0}
    with pytest.warns(IndefiniteKernelWarning, match="SVC: No minimum: .* bounds nothing"):
        ours = SVC(tol=1e-8, **options).fit(X, y)
    theirs = svm.SVC(tol=1e-8, **options).fit(X, y)
    status = ours.statuses_[0]
    K = np.tanh(0.3 * X @ X.T + 0.5)
    assert not status.converged
    assert status.witness @ K @ status.witness < 0
    signs = np.where(y == 2, 1.0, -1.0)
    alpha = np.zeros(len(y))
    alpha[ours.support_] = ours.dual_coef_[0] * signs[ours.support_]
    margins = signs * (K @ (alpha * signs) + ours.intercept_[0])
    assert (margins[alpha < 1e-9] >= 1 - 1e-4).all()  # the conditions that libsvm ends at
    assert (margins[alpha > 2.0 - 1e-9] <= 1 + 1e-4).all()
    assert np.allclose(margins[(alpha > 1e-9) & (alpha < 2.0 - 1e-9)], 1.0, atol=1e-4)
    assert (ours.predict(X) == theirs.predict(X)).mean() >= 0.95
    with pytest.warns(IndefiniteKernelWarning, match="SVR: No minimum"):
        SVR(kernel="sigmoid").fit(X, X[:, 0])
    with pytest.warns(IndefiniteKernelWarning, match="OneClassSVM: No minimum"):
        OneClassSVM(kernel="sigmoid", gamma=1.0).fit(X)


@pytest.mark.parametrize("nu", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_nu_regression_is_that_of_scikit_learn_and_svr_with_its_tube(nu, weighted):
    X, y = IRIS.data[::2, :3], IRIS.data[::2, 3]
    weights = np.random.default_rng(0).uniform(0.2, 2.0, len(y)) if weighted else None
    options = {"nu": nu, "C": 3.0, "gamma": 0.2}
    ours = NuSVR(tol=1e-9, **options).fit(X, y, weights)
    theirs = svm.NuSVR(tol=1e-9, **options).fit(X, y, weights)
    assert ours.solution_.status.converged
    assert np.allclose(ours.predict(X), theirs.predict(X), atol=1e-5)
    tube = SVR(C=3.0, gamma=0.2, epsilon=ours.epsilon_, tol=1e-9).fit(X, y, weights)
    assert np.allclose(ours.predict(X), tube.predict(X), atol=1e-5)
    w = np.ones(len(y)) if weights is None else weights
    outside = np.abs(y - ours.predict(X)) > ours.epsilon_ + 1e-6
    assert w[outside].sum() <= nu * w.sum() * (1 + 1e-9)
    if nu < 1:  # else the tube has no width, and need not be filled
        assert w[ours.support_].sum() >= nu * w.sum() * (1 - 1e-9)


@pytest.mark.parametrize("n", [40, 1500])
def test_the_gap_of_nu_regression_is_true(n):
    """The objective, in plain NumPy, is above the dual one of any α in its bounds, by the gap."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.sin(4 * X[:, 0]) + 0.3 * rng.standard_normal(n)
    model = NuSVR(nu=0.3, C=2.0, gamma=1.0, tol=1e-4).fit(X, y)
    alpha = np.zeros(n)
    alpha[model.support_] = model.dual_coef_[0]
    K, (b, epsilon) = Gaussian(0.5**0.5)(X), model.solution_.intercept
    assert abs(alpha.sum()) < 1e-9
    assert np.abs(alpha).sum() <= 0.3 * 2.0 * n * (1 + 1e-12)
    assert np.abs(alpha).max() <= 2.0
    loss = np.maximum(np.abs(y - K @ alpha - b) - epsilon, 0.0)
    primal = 2.0 * loss.sum() + 2.0 * 0.3 * n * epsilon + 0.5 * alpha @ K @ alpha
    dual = y @ alpha - 0.5 * alpha @ K @ alpha
    solution = model.solution_
    assert np.isclose(solution.objective * 2.0 * n, primal, rtol=1e-9)
    assert np.isclose(solution.gap * 2.0 * n, primal - dual, rtol=1e-3, atol=1e-9 * primal)
    assert primal - dual <= 1e-5 * primal


def test_infinite_costs_separate_or_interpolate():
    X, y = IRIS.data[:100:4, :2], IRIS.target[:100:4]
    ours = SVC(C=np.inf, kernel="linear").fit(X, y)
    theirs = svm.SVC(C=1e12, kernel="linear", tol=1e-9).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-4)
    with pytest.raises(ValueError, match="a function that separates the labels, and there is none"):
        SVC(C=np.inf, kernel="linear").fit(X, np.arange(len(y)) % 2)
    line = np.linspace(0, 1, 8)[:, None]
    model = SVR(C=np.inf, epsilon=1e-3).fit(line, line[:, 0] ** 2)
    assert np.abs(model.predict(line) - line[:, 0] ** 2).max() < 1.01e-3


@pytest.mark.parametrize("kind", [SVC, NuSVC])
@pytest.mark.filterwarnings("ignore:The `probability`:FutureWarning")
def test_probabilities_are_those_of_a_calibration(kind):
    X, y = IRIS.data, IRIS.target_names[IRIS.target]
    model = kind(probability=True, random_state=0, nu=0.3) if kind is NuSVC else kind(
        probability=True, random_state=0
    )  # fmt: skip
    p = model.fit(X, y).predict_proba(X)
    assert np.allclose(p.sum(axis=1), 1.0)
    assert np.allclose(np.log(p), model.predict_log_proba(X))
    assert (model.classes_[p.argmax(axis=1)] == y).mean() > 0.95
    assert np.array_equal(p, clone(model).fit(X, y).predict_proba(X))
    assert not hasattr(kind(), "predict_proba")
    with pytest.warns(ApproximationWarning, match="has one row only: its probabilities are those"):
        alone = clone(model).fit(X[45:51], y[45:51])
    assert np.allclose(alone.predict_proba(X).sum(axis=1), 1.0)


def test_the_state_of_the_solver_is_printed_where_that_is_asked_for(capsys):
    SVR(verbose=True).fit(IRIS.data, IRIS.target)
    assert capsys.readouterr().out.startswith("SVR: Solved: relative duality gap")


def test_a_kernel_on_lists_of_objects_may_take_blocks():
    words = ["A A", "A", "B", "B B", "A B"]
    counts = np.array([[2, 0], [1, 0], [0, 1], [0, 2], [1, 1]])

    def block(left, right):
        left, right = ([[w.count(c) for c in "AB"] for w in part] for part in (left, right))
        return np.array(left) @ np.array(right).T

    for kind, y in ((SVC, [1, 1, 2, 2, 1]), (SVR, [0.0, 1.0, 2.0, 3.0, 1.0])):
        ours, theirs = kind(kernel=block).fit(words, y), kind(kernel="linear").fit(counts, y)
        assert np.allclose(ours.predict(words), theirs.predict(counts))


def test_a_cap_that_is_hit_warns_with_advice():
    X, y = make_classification(100, 4, random_state=0)
    words = (
        r"Solver terminated early \(max_iter=3\)\.  Consider .* StandardScaler .* raise max_iter"
    )
    with pytest.warns(ConvergenceWarning, match=words):
        model = SVC(C=1e4, max_iter=3).fit(X, y)
    assert model.n_iter_.tolist() == [3]


def test_refusals_say_what_to_write():
    X, y = np.eye(4), [0, 0, 1, 1]
    for model, text in [
        (SVC(C=0.0), "C must be a number above 0; got 0.0"),
        (SVC(tol=-1), "tol must be a number above 0; got -1"),
        (SVC(max_iter=0), "max_iter must be a positive whole number, or −1"),
        (SVC(cache_size="much"), "cache_size must be a number above 0"),
        (SVC(class_weight="even"), 'class_weight must be a dict, "balanced" or None'),
        (SVC(decision_function_shape="all"), 'must be "ovr" or "ovo"; got \'all\''),
        (SVC(kernel="precomputed"), "a precomputed kernel is a square matrix in fit"),
        (SVR(C="1"), "C must be a number above 0; got '1'"),
        (NuSVR(C=np.inf), "C must be a number above 0; got inf"),
        (NuSVC(nu=1.5), "nu must be a number above 0 and at most 1; got 1.5"),
        (NuSVC(nu=0.9, class_weight={0: 3.0}), "nu is infeasible: got nu=0.9.* at most 0.5,"),
        (OneClassSVM(nu=0.0), "nu must be a number above 0 and at most 1; got 0.0"),
    ]:
        data = np.eye(4)[:, :3] if getattr(model, "kernel", "") == "precomputed" else X
        with pytest.raises(ValueError, match=text):
            model.fit(data, y)
    with pytest.raises(ValueError, match="every class needs a point with positive weight"):
        SVC().fit(X, [0, 0, 1, 2], sample_weight=[1, 1, 1, 0])
    with pytest.raises(ValueError, match="positive weights belong to the same class; class 1"):
        SVC().fit(X, y, sample_weight=[1, 1, 0, 0])
    with pytest.raises(ValueError, match="all samples have zero or negative weights"):
        SVR().fit(X, y, sample_weight=[0, 0, 0, 0])
    with pytest.raises(ValueError, match="at least two classes; got 1 class"):
        SVC().fit(X, [1, 1, 1, 1])
    with pytest.raises(ValueError, match=r'must be False when .* decision_function_shape="ovr"'):
        SVC(break_ties=True, decision_function_shape="ovo").fit(X, y).predict(X)
    with pytest.raises(ValueError, match="one number for each of the 2 points"):
        SVR(kernel=common_letters).fit(["a", "b"], [0.0, 1.0], sample_weight=[1.0])


def test_parameters_of_named_kernels_are_refused_beside_a_kernel():
    X, y = IRIS.data, IRIS.target
    for model, name in (
        (SVC(kernel=Gaussian(), gamma=0.1), "gamma=0.1"),
        (SVR(kernel=Gaussian(), degree=2), "degree=2"),
        (KernelRidge(kernel=Gaussian(), coef0=0.0), "coef0=0.0"),
        (Nystroem(kernel=Gaussian(), kernel_params={"a": 1}), "kernel_params="),
    ):
        with pytest.raises(ValueError, match=f"belongs to kernels given by name; got {name}"):
            model.fit(X, y)
    SVC(kernel="linear", gamma=0.1).fit(X, y)  # a name that takes none: a grid may try several


def test_a_solution_prints_in_one_line():
    text = repr(SVC().fit(IRIS.data, IRIS.target).solutions_[0])
    assert text.startswith("Solution(Solved: relative duality gap")
    assert text.endswith("coefficients of shape (100,))")
    assert len(text) < 200


@pytest.mark.filterwarnings("ignore::mercer.errors.LengthscaleWarning")
def test_far_from_all_points_classes_of_equal_size_share_their_votes():
    """Kernel values of 1e-308, whose sum is what rounding left of Σα = 0, decided for one."""
    X = np.random.default_rng(1).standard_normal((20, 2))
    model = SVC(gamma=1e6, decision_function_shape="ovo").fit(X, np.arange(20) % 5)
    pairs = model.decision_function(100.0 + X)
    assert (pairs == 0.0).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_the_variance_of_gamma_is_that_of_float64(form, weighted):
    """Squares of 1e20 overflow in float32; far out E x² − (E x)² has no digits."""
    X = np.random.default_rng(0).standard_normal((60, 2))
    y, weights = X[:, 0] > 0, np.random.default_rng(1).uniform(1, 2, 60) if weighted else None
    for rows in ((1e20 * X).astype(np.float32), X + 1e7):
        given = rows.astype(np.float64)
        counts = np.ones(60) if weights is None else weights
        mean = np.average(given.mean(axis=1), weights=counts)
        variance = np.average(((given - mean) ** 2).mean(axis=1), weights=counts)
        model = SVC(kernel="rbf").fit(form(rows), y, weights)
        assert model.kernel_.lengthscale == pytest.approx(np.sqrt(variance), rel=1e-6)
