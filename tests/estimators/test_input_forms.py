"""What X may be: texts and objects in any container, tables with more columns than are read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mercer import SVC, SVR, KernelLogisticRegression, KernelRidge, OneClassSVM
from mercer.features import Nystroem
from mercer.kernels import Gaussian, Linear, PairKernel
from mercer.structured import Spectrum

WORDS, Y = ["aab", "abb", "xyz", "xz", "ab"], [0, 0, 1, 1, 0]
FORMS = {
    "tuple": tuple(WORDS),
    "Series": pd.Series(WORDS),
    "Series with another index": pd.Series(WORDS, index=[5, 3, 1, 9, 7]),
    "categories": pd.Series(WORDS, dtype="category"),
    "Index": pd.Index(WORDS),
    "extension array": pd.array(WORDS),
    "polars": pl.Series(WORDS),
    "array of objects": np.array(WORDS, object),
    "array of str": np.array(WORDS),
    "array of StringDType": np.array(WORDS, np.dtypes.StringDType()),
}
TABLE = pd.DataFrame({"a": [0.0, 1, 2, 3, 4], "word": WORDS, "b": [1.0, 2, 3, 1, 2]})


def common_letters(a, b):
    assert isinstance(a, str)
    return float(len(set(a) & set(b)))


@pytest.mark.parametrize("kernel", [common_letters, PairKernel(common_letters), Spectrum(2)])
@pytest.mark.parametrize("form", FORMS)
def test_objects_come_in_any_container(kernel, form):
    X = FORMS[form]
    for model in (SVC(kernel=kernel), KernelRidge(kernel=kernel)):
        expected = model.fit(WORDS, Y).predict(WORDS)
        assert np.array_equal(model.fit(X, Y).predict(X), expected)
    features = Nystroem(kernel=kernel, n_components=3, random_state=0)
    assert np.array_equal(features.fit_transform(X), features.fit_transform(WORDS))


@pytest.mark.parametrize("frame", [TABLE, pl.DataFrame(TABLE.to_dict("list"))], ids=["pd", "pl"])
@pytest.mark.parametrize("columns", ["a", ["b", "a"], 0, [0, -1], [2, "a"]])
def test_a_table_may_have_columns_that_the_kernel_does_not_read(frame, columns):
    plain = TABLE[["a", "b"]].to_numpy()
    places = [
        {"a": 0, "b": 1, 0: 0, 2: 1, -1: 1}[c] for c in np.atleast_1d(np.array(columns, object))
    ]
    expected = KernelRidge(kernel=Gaussian().on(places)).fit(plain, Y).predict(plain)
    model = KernelRidge(kernel=Gaussian().on(columns)).fit(frame, Y)
    assert np.allclose(model.predict(frame), expected)
    assert model.n_features_in_ == 3


def test_tables_that_do_not_fit_are_refused():
    twice = pd.DataFrame(np.ones((5, 3)), columns=["a", "a", "b"])
    for fit in (
        lambda: KernelRidge().fit(twice, Y),
        lambda: KernelRidge(kernel=Gaussian().on("b")).fit(twice, Y),
        lambda: Gaussian().gram(twice),
    ):
        with pytest.raises(ValueError, match="names must differ; 'a' is the name of 2 columns"):
            fit()
    with pytest.raises(ValueError, match="column 3 does not exist: the points have 3 columns"):
        KernelRidge(kernel=Gaussian().on(3)).fit(TABLE, Y)
    column = np.array(WORDS, object)[:, None]
    for kernel in (common_letters, Spectrum(2)):
        with pytest.raises(ValueError, match=r"of shape \(5, 1\): write X\[:, 0\]"):
            SVC(kernel=kernel).fit(column, Y)
    with pytest.raises(ValueError, match=r"got a table: write frame\['column'\]"):
        SVC(kernel=Spectrum(2)).fit(TABLE[["word"]], Y)
    assert PairKernel(common_letters).gram(column[:0]).shape == (0, 0)  # no row tells what they are


def test_numbers_in_an_array_of_objects_are_numbers():
    X = np.arange(10.0).reshape(5, 2)
    model = SVC(kernel=lambda a, b: a @ b.T)
    assert np.array_equal(model.fit(X.astype(object), Y).predict(X), model.fit(X, Y).predict(X))


def test_columns_by_a_slice():
    X = np.random.default_rng(0).standard_normal((4, 5))
    for piece in (slice(0, 2), slice(3), slice(1, 5, 2), slice(-2, None), slice(-4, -1)):
        places = np.arange(5)[piece].tolist()
        assert np.array_equal(Gaussian().on(piece)(X), Gaussian().on(places)(X))
    for piece in (slice(2, None), slice(None), slice(-1, 3), slice("a", "b"), slice(2, 0)):
        with pytest.raises(ValueError, match="columns are not known from slice"):
            Gaussian().on(piece)


def test_powers_of_a_kernel():
    X = np.random.default_rng(0).standard_normal((4, 2))
    kernel = Gaussian(0.7) + Linear()
    for power in range(4):
        assert np.allclose((kernel**power)(X), kernel(X) ** power, rtol=1e-12)
    for power in (0.5, -1, True, "2"):
        with pytest.raises(ValueError, match=r"powers k\*\*r for whole numbers r ≥ 0; got r ="):
            kernel**power


@pytest.mark.parametrize(
    "model",
    [
        SVR(kernel="linear"),
        SVC(kernel="linear"),
        OneClassSVM(kernel="linear", nu=0.3),
        KernelRidge(),
        KernelLogisticRegression(kernel="linear"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_terms_that_cancel_keep_their_digits_in_float32(model):
    """Values of a linear kernel of columns that are not scaled are a million times those of f."""
    rng = np.random.default_rng(0)
    X = (1e3 * rng.standard_normal((120, 2)) + 1e3).astype(np.float32)
    y = np.sin(X[:, 0] / 1e3) + 0.1 * rng.standard_normal(120)
    y = y if type(model) in (SVR, KernelRidge) else np.where(y > 0, 1, 0)
    answers = []
    for rows in (X.astype(np.float64), X):
        found = model.fit(rows, y)
        answers.append(getattr(found, "decision_function", found.predict)(rows))
    exact, single = answers
    assert np.abs(single - exact).max() <= 1e-3 * np.abs(exact).max()
