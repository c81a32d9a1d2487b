"""Tensors of torch in, tensors of torch out: points, operators, functions, solvers, estimators.

On the CPU they are computed as the NumPy arrays whose memory they share, so that what is tested
here is the path of the arrays; `tests/evaluation/test_gpu.py` tests the code of the GPU.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from markets import ON_TWO_COLUMNS, WITH_EXPRESSION  # noqa: E402
from mercer.arrays import on_device  # noqa: E402
from mercer.estimators import (  # noqa: E402
    SVC,
    SVR,
    KernelRidge,
    KernelRidgeCV,
    NuSVC,
    OneClassSVM,
)
from mercer.evaluation.gpu.blocks import values  # noqa: E402
from mercer.evaluation.gpu.execution import Torch  # noqa: E402
from mercer.features import (  # noqa: E402
    Fastfood,
    Nystroem,
    RandomFourierFeatures,
    RBFSampler,
    TensorSketch,
)
from mercer.features.centres import KMeansPlusPlus, RandomlyPivoted, Uniform  # noqa: E402
from mercer.kernels import Gaussian, Linear, Matern  # noqa: E402
from mercer.losses import Hinge, Squared  # noqa: E402
from mercer.points import View, as_vectors  # noqa: E402
from mercer.solvers import (  # noqa: E402
    BlockCoordinateDescent,
    ConjugateGradient,
    Direct,
    DualAscent,
    Problem,
    SpectralPath,
    Splitting,
    StochasticFunctionalGradient,
)
from mercer.solvers.schedules import Constant  # noqa: E402


def rows(n, width=3, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, width)).astype(dtype)


class TestPoints:
    def test_types_stay_and_others_become_float64(self):
        assert as_vectors(torch.zeros((2, 3), dtype=torch.float32)).dtype == np.float32
        assert as_vectors(torch.zeros((2, 3), dtype=torch.int64)).dtype == np.float64

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (torch.tensor([[1.0, float("nan")]]), "contain NaN"),
            (torch.tensor([[1.0, float("inf")]]), "contain infinity"),
            (torch.zeros(3), "two-dimensional tensor.*reshape"),
            (torch.zeros((2, 2), dtype=torch.float16), "float32 or float64; got torch.float16"),
            (torch.zeros((2, 2), dtype=torch.complex64), "got torch.complex64"),
        ],
    )
    def test_what_is_refused(self, data, message):
        with pytest.raises(ValueError, match=message):
            as_vectors(data)

    @pytest.mark.parametrize("power", [-1060, -600, 1022])
    def test_rows_of_any_size_have_a_direction(self, power):
        whole = np.random.default_rng(0).integers(-3, 4, (9, 5)).astype(float)
        unit, points = View(unit=True), as_vectors(torch.tensor(np.ldexp(whole, power)))
        exact = as_vectors(whole).seen(unit, np.float64)
        assert np.allclose(points.seen(unit, np.float64).numpy(), exact, rtol=0, atol=1e-15)

    def test_tensors_and_arrays_do_not_mix(self):
        with pytest.raises(ValueError, match="of one kind; got TensorPoints and DensePoints"):
            Gaussian().gram(torch.zeros((2, 3)), np.zeros((2, 3)))


class TestOperators:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_products_are_those_of_arrays(self, dtype):
        X, Y, V = rows(20, dtype=dtype), rows(30, seed=1, dtype=dtype), rows(30, 2, 2, dtype)
        kernel = Gaussian() + Linear()
        ours = kernel.gram(torch.tensor(X), torch.tensor(Y))
        theirs = kernel.gram(X, Y)
        W = rows(20, 2, 3, dtype)
        pairs = [
            (ours @ torch.tensor(V), theirs @ V),
            (ours.T @ torch.tensor(W), theirs.T @ W),
            (torch.tensor(W).T @ ours, W.T @ theirs),
            (ours.normal_matmul(torch.tensor(V), torch.tensor(W)), theirs.normal_matmul(V, W)),
            (ours.dense(), theirs.dense()),
            (ours.columns([2, 0]), theirs.columns([2, 0])),
            (kernel.gram(torch.tensor(X)).diagonal(), kernel.gram(X).diagonal()),
        ]
        for tensor, array in pairs:
            assert isinstance(tensor, torch.Tensor)
            np.testing.assert_array_equal(tensor.numpy(), array)

    def test_what_a_gram_matrix_cannot_multiply(self):
        gram = Gaussian().gram(torch.zeros((3, 2)))
        with pytest.raises(ValueError, match=r"needs values with 3 rows here; got shape \(2,\)"):
            gram @ torch.zeros(2)
        with pytest.raises(ValueError, match=r"in at most float64; got torch\.complex64"):
            gram @ torch.zeros(3, dtype=torch.complex64)

    def test_precisions(self):
        with pytest.raises(ValueError, match="precision must be one of"):
            Gaussian().gram(torch.zeros((3, 2)), precision="half")
        with pytest.raises(ValueError, match=r"tf32.*is for tensors"):
            Gaussian().gram(np.zeros((3, 2)), precision="tf32")
        assert (
            Gaussian().gram(np.zeros((3, 2), np.float32), precision="float64").dtype == np.float64
        )


class TestFunctions:
    def test_a_function_on_tensors_is_the_function_on_arrays(self):
        X, Z, alpha = rows(15), rows(7, seed=1), rows(15, 2, seed=2)
        f = Gaussian().function(torch.tensor(X), torch.tensor(alpha))
        g = Gaussian().function(X, alpha)
        np.testing.assert_allclose(f(torch.tensor(Z)).numpy(), g(Z))
        np.testing.assert_allclose(f.gradient(torch.tensor(Z)).numpy(), g.gradient(Z))
        assert f.norm() == pytest.approx(g.norm())
        assert f.inner(f.project(torch.tensor(Z))) == pytest.approx(g.inner(g.project(Z)))
        moved = 2.0 * f + Gaussian().function(torch.tensor(Z), torch.tensor(alpha[:7]))
        assert moved.norm() == pytest.approx((2.0 * g + Gaussian().function(Z, alpha[:7])).norm())
        assert isinstance(f.output(1)(torch.tensor(Z)), torch.Tensor)

    def test_two_points(self):
        assert Linear()(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])) == 11.0


class TestSolvers:
    @pytest.mark.parametrize("regularization", [0.0, 1e-3])
    @pytest.mark.parametrize("fit_intercept", [False, True])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_direct(self, regularization, fit_intercept, weighted):
        X, y = rows(25), rows(25, 2, seed=1)
        weights = np.arange(25.0) % 4 if weighted else None
        solutions = []
        for made in (np.asarray, torch.tensor):
            gram = Matern(1.5).gram(made(X))
            w = None if weights is None else made(weights)
            problem = Problem(gram, made(y), Squared(), regularization, w, fit_intercept)
            solutions.append(Direct(primal=False).solve(problem))
        theirs, ours = solutions
        assert isinstance(ours.coefficients, torch.Tensor)
        np.testing.assert_allclose(ours.coefficients.numpy(), theirs.coefficients, atol=1e-8)
        np.testing.assert_allclose(np.asarray(ours.intercept), theirs.intercept, atol=1e-8)
        assert ours.objective == pytest.approx(theirs.objective)
        assert ours.status.converged
        assert ours.gap < 1e-9

    @pytest.mark.parametrize("fit_intercept", [False, True])
    @pytest.mark.parametrize("mixed", [False, True])
    def test_conjugate_gradients(self, fit_intercept, mixed):
        X, y, weights = rows(60), rows(60, 2, seed=1), 1.0 + np.arange(60.0) % 3
        solver = ConjugateGradient(tolerance=1e-9, mixed=mixed)
        theirs, ours = (
            solver.solve(
                Problem(Gaussian().gram(a(X)), a(y), Squared(), 1e-2, a(weights), fit_intercept)
            )
            for a in (np.asarray, torch.tensor)
        )
        assert isinstance(ours.coefficients, torch.Tensor)
        assert ours.status.converged
        np.testing.assert_allclose(ours.coefficients.numpy(), theirs.coefficients, atol=1e-6)
        np.testing.assert_allclose(np.asarray(ours.intercept), theirs.intercept, atol=1e-6)

    def test_block_coordinate_descent(self):
        """The same blocks, pivots and steps as on arrays."""
        X, y, weights = rows(60), rows(60, 2, seed=1), np.arange(60.0) % 3
        solver = BlockCoordinateDescent(tolerance=1e-9, block_size=20, rank=12)
        theirs, ours = (
            solver.solve(Problem(Gaussian().gram(a(X)), a(y), Squared(), 1e-2, a(weights), True))
            for a in (np.asarray, torch.tensor)
        )
        assert isinstance(ours.coefficients, torch.Tensor)
        assert ours.status.converged
        assert str(ours.status)[:20] == str(theirs.status)[:20]  # passes
        np.testing.assert_allclose(ours.coefficients.numpy(), theirs.coefficients, atol=1e-8)
        np.testing.assert_allclose(np.asarray(ours.intercept), theirs.intercept, atol=1e-8)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(("n", "rank"), [(1, 1), (40, 7), (300, 90)])
    def test_the_preconditioner_of_conjugate_gradients(self, n, rank, dtype):
        """It is that of arrays, column for column, and its columns are tensors."""
        X, y, weights = (
            a.astype(dtype) for a in (rows(n), rows(n, 1, seed=1), 1.0 + rows(n)[:, 0] ** 2)
        )
        theirs, ours = (
            ConjugateGradient(rank=rank)
            .shared(Problem(Gaussian(0.5).gram(a(X)), a(y), Squared(), 1e-2, a(weights)))
            .columns
            for a in (np.asarray, torch.tensor)
        )
        assert isinstance(ours.columns, torch.Tensor)
        assert ours.rank == theirs.rank == rank
        np.testing.assert_allclose(ours.moments.numpy(), theirs.moments, rtol=1e-5, atol=1e-5)
        residual = rows(n, 2, seed=3)
        for ridge in (0.1, 1.0):  # the moments are kept
            solved = [
                columns.preconditioner(ridge).solve(made(residual))
                for columns, made in ((theirs, np.asarray), (ours, torch.tensor))
            ]
            tolerance = 1e-12 if dtype == np.float64 else 2e-5
            np.testing.assert_allclose(solved[1], solved[0], atol=tolerance)

    def test_a_preconditioner_that_a_device_cannot_hold(self, monkeypatch):
        library = pytest.importorskip("array_api_compat.torch")
        zeros = library.zeros

        def full(shape, **options):
            if shape == (40, 7):
                raise torch.OutOfMemoryError
            return zeros(shape, **options)

        monkeypatch.setattr(library, "zeros", full)
        gram = Gaussian().gram(torch.tensor(rows(40)))
        problem = Problem(gram, torch.tensor(rows(40, 1)), Squared(), 1e-2)
        with pytest.raises(MemoryError, match=r"7 columns of 40 points .* smaller rank"):
            ConjugateGradient(rank=7).solve(problem)

    def test_splitting(self):
        X, y = rows(40), np.sign(rows(40, 1, seed=1)[:, 0])
        theirs, ours = (
            Splitting(1e-6).solve(Problem(Gaussian().gram(a(X)), a(y), Hinge(), 1e-2))
            for a in (np.asarray, torch.tensor)
        )
        assert isinstance(ours.coefficients, torch.Tensor)
        np.testing.assert_allclose(ours.coefficients.numpy(), theirs.coefficients, atol=1e-8)

    @pytest.mark.parametrize(
        "solver", [DualAscent(), StochasticFunctionalGradient(1, Constant(0.1))]
    )
    def test_solvers_of_the_cpu_say_so(self, solver):
        gram = Gaussian().gram(torch.tensor(rows(20)))
        with pytest.raises(ValueError, match=r"computes on the CPU.*Newton"):
            solver.solve(Problem(gram, torch.ones(20), Squared(), 1e-2))

    def test_a_float32_factor_refined(self):
        X, y = rows(40), rows(40, 1, seed=1)[:, 0]
        problem = Problem(Gaussian().gram(torch.tensor(X)), torch.tensor(y), Squared(), 1e-2)
        solution = Direct(mixed=True).solve(problem)
        assert "refined" in solution.status.message
        assert solution.gap < 1e-12

    @pytest.mark.parametrize("fit_intercept", [False, True])
    def test_the_path(self, fit_intercept):
        X, y = rows(25), rows(25, 2, seed=1)
        weights = 1.0 + np.arange(25.0) % 3
        theirs = SpectralPath.of(Gaussian().gram(X), y, weights, fit_intercept=fit_intercept)
        ours = SpectralPath.of(
            Gaussian().gram(torch.tensor(X)),
            torch.tensor(y),
            torch.tensor(weights),
            fit_intercept=fit_intercept,
        )
        for name in ("leave_one_out", "fitted", "degrees_of_freedom"):
            one, other = (getattr(path, name)(1e-2) for path in (ours, theirs))
            np.testing.assert_allclose(np.asarray(one), other, atol=1e-8)
        np.testing.assert_allclose(
            ours.leave_one_out_errors([1e-2, 1.0]), theirs.leave_one_out_errors([1e-2, 1.0])
        )
        one, other = (path.generalised_cross_validation(1e-2) for path in (ours, theirs))
        assert one == pytest.approx(other)


class TestEstimators:
    @pytest.mark.parametrize("alpha", [0.1, [0.1, 1.0]])
    def test_kernel_ridge_on_tensors(self, alpha):
        X, y, new = rows(30), rows(30, 2, seed=1), rows(5, seed=2)
        options = {"kernel": Gaussian(), "fit_intercept": True}
        theirs = KernelRidge(alpha, **options).fit(X, y)
        ours = KernelRidge(alpha, **options).fit(torch.tensor(X), torch.tensor(y))
        answer = ours.predict(torch.tensor(new))
        assert isinstance(answer, torch.Tensor)
        np.testing.assert_allclose(answer.numpy(), theirs.predict(new), atol=1e-8)
        assert ours.score(torch.tensor(X), torch.tensor(y)) == pytest.approx(theirs.score(X, y))

    def test_kernel_ridge_cv_on_tensors(self):
        X, y = rows(40), np.sin(rows(40)[:, 0])
        theirs, ours = KernelRidgeCV().fit(X, y), KernelRidgeCV()
        ours.fit(torch.tensor(X), torch.tensor(y), torch.ones(40))
        assert ours.alpha_ == pytest.approx(theirs.alpha_)
        assert ours.kernel_ == theirs.kernel_

    def test_arrays_on_a_device(self):
        X, y, new = rows(30), rows(30, 1, seed=1)[:, 0], rows(5, seed=2)
        model = KernelRidge(0.1, kernel=Gaussian(), device="cpu").fit(X, y)
        assert isinstance(model.function_.coefficients, torch.Tensor)
        answer = model.predict(new)
        assert isinstance(answer, np.ndarray)
        expected = KernelRidge(0.1, kernel=Gaussian()).fit(X, y).predict(new)
        np.testing.assert_allclose(answer, expected, atol=1e-8)

    def test_what_is_refused(self):
        X, y = torch.tensor(rows(30)), torch.tensor(rows(30, 1)[:, 0])
        model = KernelRidge(kernel=Gaussian()).fit(X, y)
        with pytest.raises(ValueError, match="X has 2 features, but KernelRidge is expecting 3"):
            model.predict(X[:, :2])
        with pytest.raises(
            ValueError, match=r"one row for each of the 30 rows of X; got .*\(29,\)"
        ):
            KernelRidge().fit(X, y[1:])
        with pytest.raises(ValueError, match="takes NumPy arrays"):
            KernelRidge(kernel="precomputed").fit(X, y)
        if not torch.cuda.is_available():
            with pytest.raises(ValueError, match=r"torch sees none.*device=None"):
                KernelRidge(device="cuda").fit(X.numpy(), y.numpy())


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(0.1, kernel=Gaussian()),
        KernelRidge(1e-3, kernel=Gaussian(0.5), centres=200, random_state=0),
        KernelRidge(1e-3, kernel=Gaussian(), solver=ConjugateGradient(rank=50)),
        KernelRidge(1e-3, kernel=Gaussian(), solver=BlockCoordinateDescent(iterations=5)),
        KernelRidgeCV([0.01, 0.1], kernel=Gaussian()),
        SVR(kernel=Gaussian()),
        OneClassSVM(kernel=Gaussian()),
    ],
    ids=lambda model: repr(model)[:60],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_tensor_becomes_an_array_of_numpy_by_accident(model, monkeypatch):
    """On a card that raises an error, which a tensor on the CPU would hide."""

    def refused(self, *args, **kwargs):
        raise TypeError("can't convert a tensor on a device to numpy")

    X = rows(12_000 if getattr(model, "centres", None) else 300, 2, dtype=np.float32)
    X[:50] *= 8.0  # rows far out are drawn by leverage
    y = torch.tensor(np.sin(X).sum(axis=1))
    monkeypatch.setattr(torch.Tensor, "__array__", refused)
    model.fit(torch.tensor(X), y).predict(torch.tensor(X[:5]))


def test_without_torch_the_device_says_what_to_install(monkeypatch):
    import builtins

    real_import = builtins.__import__

    def import_without_torch(name, *args, **kwargs):
        if name == "torch":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", import_without_torch)
    with pytest.raises(ImportError, match=r'needs torch.*pip install "mercer\[gpu\]"'):
        on_device(np.zeros(2), "cuda")


class TestFeatures:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(
        "features",
        [
            RandomFourierFeatures(n_components=16, random_state=0),
            RandomFourierFeatures(n_components=7, random_state=0),
            RandomFourierFeatures(n_components=8, form="phase", random_state=0),
            RBFSampler(n_components=9, random_state=0),
            Fastfood(n_components=16, random_state=0),
            Nystroem(n_components=9, random_state=0),
            TensorSketch(n_components=9, random_state=0),
        ],
        ids=lambda features: f"{type(features).__name__}-{features.n_components}",
    )
    def test_features_of_tensors_are_those_of_arrays(self, features, dtype):
        X, new = rows(20, dtype=dtype), rows(6, seed=1, dtype=dtype)
        theirs = clone(features).fit(X).transform(new)
        ours = clone(features).fit(torch.tensor(X)).transform(torch.tensor(new))
        assert isinstance(ours, torch.Tensor)
        assert ours.dtype == torch.tensor(new).dtype
        np.testing.assert_allclose(
            ours.numpy(), theirs, atol=1e-12 if dtype == np.float64 else 1e-5
        )

    @pytest.mark.parametrize("form", ["pairs", "complex"])
    def test_values_and_sums_stay_with_the_points(self, form):
        X, y = rows(20), rows(20, 1, seed=1)[:, 0]
        features = RandomFourierFeatures(n_components=7, form=form, random_state=0).fit(X)
        for ours, theirs in (
            (features.function(np.ones(7))(torch.tensor(X)), features.function(np.ones(7))(X)),
            (features.weighted_sum(torch.tensor(X), y), features.weighted_sum(X, y)),
        ):
            assert isinstance(ours, torch.Tensor)
            np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-12)

    @pytest.mark.parametrize("choice", [Uniform, KMeansPlusPlus, RandomlyPivoted])
    def test_centres_are_those_of_arrays_and_stay_with_the_points(self, choice):
        X = rows(60)
        theirs, ours = (
            choice(9, random_state=0).choose(Gaussian(), a) for a in (X, torch.tensor(X))
        )
        assert isinstance(ours.points.data, torch.Tensor)
        np.testing.assert_array_equal(ours.indices, theirs.indices)
        assert ours.trace_error == pytest.approx(theirs.trace_error)

    def test_another_width_is_refused(self):
        features = RandomFourierFeatures(random_state=0).fit(torch.tensor(rows(20)))
        with pytest.raises(ValueError, match="X has 2 features, but RandomFourierFeatures is"):
            features.transform(torch.zeros((4, 2)))


class TestSupportVectorMachines:
    """Values of the kernel come from tensors; objective, gap and answers are those of NumPy."""

    @staticmethod
    def agree(model, X, y, weights=None):
        new, ours, theirs = rows(30, seed=5, dtype=X.dtype), clone(model), clone(model)
        ours.fit(torch.tensor(X), torch.tensor(y), None if weights is None else weights)
        theirs.fit(X, y, weights)
        np.testing.assert_array_equal(ours.support_, theirs.support_)
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-8)
        assert isinstance(ours.support_vectors_, torch.Tensor)
        for method in {"predict", "decision_function", "score_samples"}.intersection(dir(ours)):
            values = getattr(ours, method)(torch.tensor(new))
            assert isinstance(values, torch.Tensor)
            expected = getattr(theirs, method)(new)
            np.testing.assert_allclose(values.numpy(), expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(getattr(ours, method)(new), values.numpy())
        return ours, theirs

    @pytest.mark.parametrize(
        "model", [SVC(), SVC(kernel="linear"), NuSVC(nu=0.3), SVR(), OneClassSVM(nu=0.2)]
    )
    def test_they_agree_with_those_of_arrays(self, model):
        X = rows(60)
        ours, theirs = self.agree(model, X, (X[:, 0] > 0).astype(int))
        lists = (getattr(m, "solutions_", None) or [m.solution_] for m in (ours, theirs))
        for own, other in zip(*lists, strict=True):
            assert own.status.converged
            assert own.objective == pytest.approx(other.objective, rel=1e-6)

    def test_many_points_of_several_classes_with_weights(self):
        X = rows(700, dtype=np.float32)
        y = (X[:, 0] > 0.3).astype(int) + (X[:, 1] > 0)
        ours, _ = self.agree(SVC(C=2.0, gamma=0.5), X, y, 0.5 + rows(700, 1)[:, 0] ** 2)
        assert ours.score(torch.tensor(X), torch.tensor(y)) > 0.9

    def test_rows_are_cached_where_they_are_not_cheap(self):
        X = rows(3000, 40)
        ours, theirs = (SVC(cache_size=10).fit(a, X[:, 0] > 0) for a in (torch.tensor(X), X))
        found, known = ours.solutions_[0], theirs.solutions_[0]
        assert found.status.converged
        assert found.objective == pytest.approx(known.objective, rel=2e-4)

    def test_labels_that_are_texts_stay_with_numpy(self):
        X = rows(20)
        model = SVC(probability=True, random_state=0)
        with pytest.warns(FutureWarning, match="deprecated"):
            model.fit(torch.tensor(X), np.where(X[:, 0] > 0, "a", "b"))
        assert model.predict(torch.tensor(X)).dtype.kind == "U"
        assert model.predict_proba(torch.tensor(X)).shape == (20, 2)
        assert model.certificate()["norm"].value > 0

    def test_a_model_of_arrays_refuses_tensors(self):
        model = SVR().fit(rows(20), rows(20)[:, 0])
        with pytest.raises(ValueError, match="fitted on arrays of NumPy, and X is a tensor"):
            model.predict(torch.tensor(rows(20)))


def differences(kernel, x, z, alpha, step=1e-6):
    """∇f by central differences, from values in torch."""
    parts = []
    for k in range(x.shape[1]):
        there = torch.zeros_like(x)
        there[:, k] = step
        ends = (
            values(kernel.expression(), kernel.points(x + s * there), kernel.points(z), x.dtype)
            for s in (1, -1)
        )
        parts.append((next(ends) - next(ends)) @ alpha / (2 * step))
    return torch.stack(parts, dim=-1)


@pytest.mark.parametrize("name", WITH_EXPRESSION)
def test_gradients_in_torch_are_slopes(name):
    kernel, width = WITH_EXPRESSION[name], 2 if name in ON_TWO_COLUMNS else 4
    x, z, alpha = (torch.tensor(rows(9, d, seed)) for seed, d in enumerate((width, width, 2)))
    found = Torch(kernel, kernel.points(x), kernel.points(z), x.dtype, None).gradient(alpha)
    expected = differences(kernel, x, z, alpha)
    scale = 1.0 + float(expected.abs().max())
    np.testing.assert_allclose(found.numpy() / scale, expected.numpy() / scale, atol=1e-6)


@pytest.mark.parametrize("name", ["matern-1/2", "composite"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_in_torch_are_those_of_the_compiled_code(name, dtype):
    kernel = WITH_EXPRESSION[name]
    X, Z, alpha = rows(12, dtype=dtype), rows(9, seed=1, dtype=dtype), rows(9, 2, 2, dtype)
    X[0] = Z[0]  # at a centre, where kernels may have kinks
    points = (kernel.points(torch.tensor(part)) for part in (X, Z))
    found = Torch(kernel, *points, dtype.__name__, None).gradient(torch.tensor(alpha))
    assert found.dtype == torch.tensor(X).dtype
    expected = kernel.function(Z, alpha).gradient(X)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-5 if dtype == np.float32 else 1e-12)
