"""Functions of features, normal equations, and models without training rows."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from mercer.features import Nystroem, RandomFourierFeatures, compress, to_features
from mercer.features.centres import Given, RandomlyPivoted
from mercer.kernels import Gaussian, Matern
from mercer.operators import Affine

K = Gaussian(2.0)


def data(n=400, d=3, outputs=None, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(dtype)
    y = np.sin(X[:, 0]) + X[:, 1] if outputs is None else np.tanh(X @ np.ones((d, outputs)))
    return X, y.astype(dtype)


def features(count=40, **options):
    return RandomFourierFeatures(K, count, random_state=0, **options)


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_that_of_scikit_learn(outputs, weighted):
    X, y = data(outputs=outputs)
    weights = np.random.default_rng(1).integers(0, 4, 400) if weighted else None
    total = 400 if weights is None else weights.sum()
    phi = features().fit(X)
    equations = phi.normal_equations(X, y, weights)
    plain = Ridge(alpha=0.3, fit_intercept=False).fit(phi.transform(X), y, weights)
    assert np.allclose(equations.ridge(0.3 / total)(X), plain.predict(phi.transform(X)))
    shifted = Ridge(alpha=0.3).fit(phi.transform(X), y, weights)
    f, intercept = equations.ridge_with_intercept(0.3 / total)
    assert np.allclose(f(X) + intercept, shifted.predict(phi.transform(X)))
    assert np.allclose(intercept, shifted.intercept_)


def test_normal_equations_of_two_tables_are_added():
    X, y = data(outputs=2)
    phi = features().fit(X)
    both = phi.normal_equations(X[:150], y[:150]) + phi.normal_equations(X[150:], y[150:])
    whole = phi.normal_equations(X, y)
    assert both.total == whole.total == 400
    f, intercept = both.ridge_with_intercept(1e-3)
    g, expected = whole.ridge_with_intercept(1e-3)
    assert np.allclose(f(X) + intercept, g(X) + expected, rtol=1e-9)
    with pytest.raises(TypeError):
        both + 1.0


def test_many_rows_in_float32_keep_their_digits():
    X, y = data(70_000, 4, dtype=np.float32)
    phi = features(30).fit(X)
    Z = phi.transform(X).astype(np.float64)
    equations = phi.normal_equations(X, y)
    assert np.abs(np.tril(equations.gram - Z.T @ Z)).max() < 2e-6 * len(X)
    assert equations.target_squares[0] == pytest.approx(float((y.astype(float) ** 2).sum()))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [features, lambda: Nystroem(K, n_components=20, random_state=0)])
def test_the_features_are_an_operator(kind, dtype):
    X, y = data(700, outputs=2, dtype=dtype)
    phi = kind().fit(X)
    Z, w = phi.transform(X), np.ones((phi.feature_count, 2), dtype)
    for rows in (X, scipy.sparse.csr_array(X)):
        matrix = phi.matrix(rows)
        assert matrix.shape == Z.shape
        assert matrix.dtype == phi.dtype(rows) == dtype
        tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {}
        assert np.allclose(matrix @ w, Z @ w, **tolerance)
        assert np.allclose(matrix.T @ y, Z.T @ y, **tolerance)
        assert np.allclose(matrix[:5].dense(), Z[:5], **tolerance)
        weighted = matrix.row_pass(w, Affine(y[:, :1], np.zeros((1, 2), dtype))).product
        assert np.allclose(weighted, Z.T @ (y[:, :1] * (Z @ w)), **tolerance)


def test_without_regularisation_it_is_least_squares():
    X, y = data(30)
    phi = features(60).fit(X)  # more features than rows
    assert np.allclose(phi.normal_equations(X, y).ridge(0.0)(X), y, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda phi, X, y: phi.normal_equations(X, y[:5]), "inconsistent numbers of samples"),
        (lambda phi, X, y: phi.normal_equations(X, y, -np.ones(400)), "finite and nonnegative"),
        (lambda phi, X, y: phi.normal_equations(X, y, np.ones(3)), "one number for each"),
        (lambda phi, X, y: phi.normal_equations(X, y).ridge(-1.0), "regularization must be nonneg"),
        (lambda phi, X, y: phi.function(np.ones(3)), "each of the 40 features; got shape"),
        (lambda phi, X, y: phi.function(np.full(40, np.nan)), "weights must be finite"),
        (lambda phi, X, y: phi.function(np.ones(40)).output(0), "one output, and is that"),
    ],
)
def test_refusals(call, text):
    X, y = data()
    with pytest.raises(ValueError, match=text):
        call(features().fit(X), X, y)


def test_the_space_of_functions():
    X, _ = data(50)
    phi = features().fit(X)
    rng = np.random.default_rng(1)
    v, w = rng.standard_normal((2, 40))
    f, g = phi.function(v), phi.function(w)
    assert np.allclose((2.0 * f - g / 4)(X), phi.transform(X) @ (2.0 * v - w / 4))
    assert f.inner(g) == pytest.approx(v @ w)
    assert f.distance(g) == pytest.approx(np.linalg.norm(v - w))
    assert np.allclose(sum([f, g])(X), f(X) + g(X))
    several = phi.function(np.stack([v, w], axis=1))
    assert np.allclose(several.output(1)(X), g(X))
    assert several.norm() ** 2 == pytest.approx(v @ v + w @ w)
    assert "40 features with 2 outputs" in repr(several)
    again = pickle.loads(pickle.dumps(f))
    assert np.allclose((again + g)(X), (f + g)(X))  # a copy has the same features
    complex_ = features(20, form="complex").fit(X)
    h = complex_.function(v[:20] + 1j * w[:20])
    assert np.allclose(h(X), (complex_.transform(X) @ (v[:20] + 1j * w[:20])).real)


def test_functions_of_different_spaces_do_not_mix():
    X, _ = data(50)
    f = features().fit(X).function(np.ones(40))
    other = RandomFourierFeatures(K, 40, random_state=1).fit(X).function(np.ones(40))
    k = K.function(X, np.ones(50))
    with pytest.raises(ValueError, match="functions of different features do not mix"):
        f + other
    for mix in (
        lambda: f + k,
        lambda: f - k,
        lambda: f.inner(k),
        lambda: k + f,
        lambda: k - f,
    ):
        with pytest.raises(ValueError, match="not in that of the kernel it approximates"):
            mix()
    with pytest.raises(ValueError, match="does not mix with FeatureFunction"):
        k.inner(f)
    with pytest.raises(ValueError, match="the same outputs; got 1 and 2"):
        f + f.features.function(np.ones((40, 2)))


def test_compression_is_a_projection_with_its_true_error():
    X, y = data(200)
    f = K.function(X, y)
    small = compress(f, RandomlyPivoted(40, random_state=0))
    assert len(small.function) == 40
    assert small.distance == pytest.approx((f - small.function).norm())
    gap = f(X) - small(X)
    assert small.value_error == pytest.approx(np.sqrt(np.mean(gap**2)))
    assert np.abs(gap).max() <= small.distance * (1 + 1e-9)  # k(x, x) = 1
    better = compress(f, RandomlyPivoted(120, random_state=0))
    assert better.distance < 0.1 * small.distance
    elsewhere = np.random.default_rng(5).standard_normal((60, 3))
    own = compress(f, Given(elsewhere), at=X[:50])
    assert own.function.centres is elsewhere
    assert own.relative_error < 0.1


@pytest.mark.parametrize("form", ["pairs", "complex"])
def test_a_function_becomes_one_of_features(form):
    X, y = data(150, outputs=2)
    f = K.function(X, y)
    phi = features(4000, form=form).fit(X)
    g = to_features(f, phi)
    Z = phi.transform(X)
    assert np.allclose(g(X), (Z @ Z.conj().T @ y).real)
    assert g.relative_error < 0.05
    assert g.distance is None
    if form == "pairs":
        fitted = to_features(f, phi, at=X)
        assert fitted.relative_error < 0.01 * g.relative_error
    with pytest.raises(ValueError, match="fit a map of that kernel"):
        to_features(Matern(1.5).function(X, y), phi)


def test_no_training_row_is_in_what_is_shipped():
    X, y = data(150)
    shipped = pickle.dumps(to_features(K.function(X, y), features(200).fit(X)).function)
    assert all(row.tobytes() not in shipped for row in X)


def test_maps_are_steps_of_a_pipeline():
    X, y = data()
    for phi in (features(), Nystroem(K, n_components=40, random_state=0)):
        assert make_pipeline(phi, Ridge(alpha=0.1)).fit(X, y).score(X, y) > 0.95


def test_the_page_of_the_documentation_runs_as_written():
    page = Path(__file__).parents[2] / "docs" / "features.md"
    code = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    exec("\n".join(code), {})
