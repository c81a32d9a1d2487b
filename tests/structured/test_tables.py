"""Kernels on mixed tables: what is read, what is learned, and that it is learned in training."""

from __future__ import annotations

import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from mercer import KernelClassifier, KernelRidge
from mercer.kernels import Gaussian, Linear, PairKernel, PeriodicExponential, laws
from mercer.structured import Category, Match, OfColumn, Spectrum, Table, Text, table_kernel
from mercer.structured.encodings import kind_of
from mercer.testing import check_kernel, strategies

FRAME = pd.DataFrame(
    {
        "town": ["Bonn", "Rome", "Rome", None, "Oslo", "Rome"],
        "age": [30.0, 41.0, np.nan, 50.0, 29.0, 30.0],
        "married": [True, False, True, True, False, False],
        "since": pd.to_datetime(
            ["2020-01-01", "2021-07-01", "2020-12-31", "2022-03-04", None, "2019-05-06"]
        ),
        "note": [
            "likes the sea and cats", "a cat and the sea", "has two dogs at home",
            "the sea is far away", None, "cats and dogs at sea",
        ],
        "id": list("uvwxyz"),
    }
)  # fmt: skip


def test_kinds_of_columns():
    kinds = {name: kind_of(FRAME[name]) for name in FRAME}
    assert kinds == {
        "town": "category", "age": "number", "married": "category", "since": "date",
        "note": "text", "id": "key",
    }  # fmt: skip
    assert kind_of([datetime.date(2020, 1, 1), None]) == "date"
    assert kind_of([1, None, 3]) == "number"
    assert kind_of([True, None]) == "category"
    assert kind_of(pd.Series(["a", "b", "a"], dtype="category")) == "category"
    assert kind_of(pd.array([1, None], dtype="Int64")) == "number"


def test_a_product_over_columns_by_hand():
    k = Table(Category(0.7).on("town") * Gaussian(1.5).on("age")).fitted(FRAME)
    age = FRAME["age"].fillna(FRAME["age"].median()).to_numpy()
    gaps = (age[:, None] - age) / FRAME["age"].std(ddof=0)
    town = FRAME["town"].fillna("missing").to_numpy()
    expected = np.exp(-0.7 * (town[:, None] != town) - gaps**2 / (2 * 1.5**2))
    np.testing.assert_allclose(k(FRAME), expected, rtol=1e-12)


def test_what_may_be_seen_of_a_column():
    k = Table(
        Linear().on(["age%", "age?"]) + Match().on("town") * Linear().on("town#")
        + PeriodicExponential().on("since@week")
    ).fitted(FRAME)  # fmt: skip
    rows = k.points(FRAME).rows
    names = list(k.points(FRAME).names)
    place = dict(zip(names, rows.T, strict=True))
    # the different ages are 29, 30, 41 and 50; what is missing is the median, 30
    np.testing.assert_allclose(place["age%"], [1 / 3, 2 / 3, 1 / 3, 1.0, 0.0, 1 / 3])
    np.testing.assert_allclose(place["age?"], [0, 0, 1, 0, 0, 0])
    np.testing.assert_allclose(place["town#"] ** 2, [5 / 6, 1 / 2, 1 / 2, 5 / 6, 5 / 6, 1 / 2])
    weeks = place["since@week"]
    days = (pd.Timestamp("2021-07-01") - pd.Timestamp("2020-01-01")).days
    assert np.isclose((weeks[1] - weeks[0]) % 1.0, (days % 7) / 7)


def test_new_rows():
    k = Table(Category(1.0).on("town")).fitted(FRAME)
    new = [{"town": "Rome"}, {"town": "Paris"}, {"town": "Lima"}, {"town": None}]
    same = k(new, FRAME) == 1.0
    assert same.sum(axis=1).tolist() == [3, 0, 0, 1]
    assert (k(new) == 1.0).tolist() == np.eye(4, dtype=bool).tolist()
    assert k({"town": "Rome"}, {"town": "Rome"}) == 1.0


def test_frames_of_other_libraries_and_dictionaries():
    k = Table(Category().on("town") * Gaussian().on(["age", "since"])).fitted(FRAME)
    expected = k(FRAME)
    columns = {name: [None if pd.isna(v) else v for v in FRAME[name]] for name in FRAME}
    for other in (columns, pl.DataFrame(columns), FRAME.to_dict("records")):
        np.testing.assert_allclose(k(other), expected)
        np.testing.assert_allclose(k.fitted(other)(other), expected)


def test_texts_and_sequences_in_columns():
    k = Table(
        (1.0 + Text().on("note")) * Gaussian().on("age")
        + OfColumn(Spectrum(1).normalised(), "town") * 0.5
    ).fitted(FRAME)  # fmt: skip
    notes, towns = ([v or "" for v in FRAME[name].astype(object).where(FRAME[name].notna(), "")]
                    for name in ("note", "town"))  # fmt: skip
    age = Table(Gaussian().on("age")).fitted(FRAME)
    text = Text().fitted(notes)
    expected = (1.0 + text(notes)) * age(FRAME) + 0.5 * Spectrum(1).normalised()(towns)
    np.testing.assert_allclose(k(FRAME), expected)
    check_kernel(k, FRAME)
    part = k.points(FRAME).take([4, 1])
    both = part.concatenated(k.points(FRAME.iloc[:2]))
    np.testing.assert_allclose(k.block(both, both), expected[np.ix_([4, 1, 0, 1], [4, 1, 0, 1])])


@pytest.mark.parametrize("main_effects", [True, False])
def test_a_proposal_for_every_kind(main_effects):
    k = table_kernel(FRAME, main_effects=main_effects)
    shown = repr(k)
    for column in ("'town'", "'age'", "'age?'", "'married'", "'since'", "'note'"):
        assert column in shown
    assert "'id'" not in shown
    assert ("'age%'" in shown) == main_effects
    assert laws.positive_definite(k).yes
    K = k(FRAME)
    assert np.isfinite(K).all()
    assert np.linalg.eigvalsh(K)[0] > -1e-10
    check_kernel(k, FRAME)


def test_a_proposal_without_texts_is_compiled():
    few = FRAME[["town", "age"]]
    k = table_kernel(few)
    assert k.expression() is not None
    check_kernel(k, few)
    assert table_kernel(FRAME.drop(columns="note")).expression() is not None


def test_dates_with_several_cycles():
    hours = pd.date_range("2020-01-01", periods=200, freq="97h")
    shown = repr(table_kernel({"when": hours.to_numpy(), "x": np.arange(200.0)}))
    for cycle in ("when@year", "when@week", "when@day"):
        assert cycle in shown
    days = pd.date_range("2020-01-01", periods=20, freq="D")
    assert "when@day" not in repr(table_kernel({"when": days.to_numpy()}))


def test_learned_in_each_fold():
    """A kernel that saw all rows must not differ from one that saw those of the fold alone."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": random.standard_normal(60) ** 3, "c": random.choice(list("abc"), 60)}
    )
    y = frame["x"].clip(-1, 1) + (frame["c"] == "a")
    k = table_kernel(frame)
    folds = [(np.arange(40), np.arange(40, 60))]
    scores = cross_val_score(KernelRidge(kernel=k, alpha=0.1), frame, y, cv=folds)
    train, test = frame.iloc[:40], frame.iloc[40:]
    by_hand = k.fitted(train)
    alpha = np.linalg.solve(by_hand(train) + 0.1 * np.eye(40), y[:40])
    gap = y[40:] - by_hand(test, train) @ alpha
    assert np.isclose(scores[0], 1 - (gap**2).sum() / ((y[40:] - y[40:].mean()) ** 2).sum())
    assert scores[0] > 0.8
    grid = {"kernel__kernel__left__kernel__lengthscale": [0.01, 0.5], "alpha": [0.1]}
    search = GridSearchCV(KernelRidge(kernel=k), grid, cv=3).fit(frame, y)
    assert len(set(search.cv_results_["mean_test_score"].round(9))) == 2


def test_classifiers_and_pickling():
    few = FRAME[["town", "age", "note"]]
    frame = pd.concat([few] * 5, ignore_index=True)
    y = np.array(
        ["sea" if "sea" in (note or "") else "land" for note in FRAME["note"].tolist()[:4]]
        + ["land", "sea"]
    )
    y = np.tile(y, 5)
    model = KernelClassifier(kernel=table_kernel(frame)).fit(frame, y)
    assert model.score(frame, y) > 0.9
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(few) == model.predict(few)).all()
    assert clone(model).fit(frame, y).kernel_ == model.kernel_
    centred = KernelClassifier(kernel=table_kernel(FRAME[["town", "age"]]), centres=5)
    assert centred.fit(frame, y).predict(few).shape == (6,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Table(Gaussian()),
            "looks at columns by name: write for example",
        ),
        (lambda: Table(Gaussian().on([0])), "looks at columns by name"),
        (lambda: Table("rbf"), "Table needs a kernel on named columns; got 'rbf'"),
        (lambda: Table(Gaussian().on("age"))(FRAME), r"write kernel\.fitted\(frame\), or pass it"),
        (
            lambda: Table(Gaussian().on("town")).fitted(FRAME),
            "holds 'Bonn', which is no number",
        ),
        (lambda: Table(Gaussian().on("size")).fitted(FRAME), "column 'size' does not exist; there"),
        (lambda: Table(Text().on("size")).fitted(FRAME), "column 'size' does not exist; there"),
        (
            lambda: Table(Text().on("town") + Spectrum().on("town")).fitted(FRAME)(FRAME),
            "column 'town' is read by kernels on different kinds of objects: write a copy",
        ),
        (
            lambda: Table(Gaussian().on("age") * Category().on("age")).fitted(FRAME),
            "column 'age' is asked for as a number and as a category",
        ),
        (
            lambda: Table(Gaussian().on("a")).fitted({"a": [1.0, np.inf]}),
            "infinity, in row 1",
        ),
        (lambda: Table(Gaussian().on("a")).fitted([1.0]), "a table is a DataFrame, a dictionary"),
        (lambda: Category(0.0), "Category needs a"),
        (lambda: table_kernel({"id": list("abc")}), "the table has no column to learn from"),
    ],
)
def test_bad_tables(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@settings(max_examples=8)
@given(strategies.tables())
def test_contract_on_random_tables(frame):
    kernel = Category(0.5).on(["town", "married"]) * Gaussian(2.0).on(["height", "weight"])
    rows = [dict(zip(frame, row, strict=True)) for row in zip(*frame.values(), strict=True)]
    check_kernel(Table(kernel).fitted(frame), rows)
    proposed = table_kernel(frame).gram(frame, precision="reference")  # others for every table
    assert np.isfinite(proposed.dense()).all()


def test_functions_in_a_column_are_called_from_one_thread():
    same_length = PairKernel(lambda a, b: float(len(a) == len(b)))
    assert not Table(OfColumn(same_length, "name") * Gaussian().on("age")).parallel
    assert Table(Spectrum(2).on("name")).parallel
