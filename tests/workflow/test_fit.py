"""From a table to a model: what is chosen, what is told of it, and that it is honest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics import root_mean_squared_error

import mercer
from mercer.workflow import TableBlocks, TableEncoder, choice, read_table
from mercer.workflow.search import Limit
from mercer.workflow.targets import read_target

SECONDS = 1.0


def prices(rows=240):
    rng = np.random.default_rng(0)
    x, town = rng.uniform(size=rows), rng.choice(["Bonn", "Rome"], rows)
    price = np.sin(6 * x) + 0.5 * (town == "Rome") + 0.05 * rng.normal(size=rows)
    empty = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows))
    return pd.DataFrame({"x": x, "town": town, "noise": empty, "price": price})


def in_polars(table):
    return pl.DataFrame({name: table[name].to_list() for name in table}, nan_to_null=True)


@pytest.fixture(scope="module")
def table():
    return prices()


@pytest.fixture(scope="module")
def model(table):
    return mercer.fit(table, "price", time_limit=SECONDS)


@pytest.fixture(scope="module")
def wine():
    frame = load_wine(as_frame=True).frame
    frame["target"] = np.array(["red", "white", "rosé"])[frame["target"]]
    return frame


@pytest.fixture(scope="module")
def classifier(wine):
    return mercer.fit(wine, "target", time_limit=SECONDS)


def test_it_beats_a_linear_model_and_a_constant(model):
    scores = model.record_.scores
    assert scores["mercer"]["RMSE"] < 0.15 < scores["linear model"]["RMSE"]
    assert scores["linear model"]["RMSE"] < scores["constant"]["RMSE"]
    assert max(model.record_.importance, key=model.record_.importance.get) in ("x", "town")
    assert model.record_.importance["noise"] < 0.2


def test_the_code_makes_the_same_model(model, table):
    space = {"table": table}
    exec(model.code_, space)
    columns = table.drop(columns="price")
    assert np.array_equal(space["model"].predict(columns), model.predict(columns))


def test_the_error_is_that_of_rows_which_nothing_has_seen(table):
    """Held-out targets are replaced by noise: no choice changes, and the error shows it."""
    first = mercer.fit(table, "price", limit=Limit(1e9), random_state=3)
    hidden = np.isin(table["price"], first.record_.truth)
    assert hidden.sum() == first.record_.held_out_rows == 48
    spoiled = table.copy()
    spoiled.loc[hidden, "price"] = 100.0 + np.arange(48.0)
    second = mercer.fit(spoiled, "price", limit=Limit(1e9), random_state=3)
    assert repr(second.model_.kernel) == repr(first.model_.kernel)
    assert second.model_.alpha == first.model_.alpha
    assert second.record_.scores["mercer"]["RMSE"] > 50
    assert np.allclose(first.record_.predicted, second.record_.predicted)
    gap = root_mean_squared_error(first.record_.truth, first.record_.predicted)
    assert first.record_.scores["mercer"]["RMSE"] == pytest.approx(gap)


def test_it_is_a_pipeline_that_can_be_cloned_and_stored(model, table, tmp_path):
    columns = table.drop(columns="price")
    again = clone(model).fit(columns, table["price"])
    assert np.array_equal(again.predict(columns), model.predict(columns))
    with pytest.raises(Exception, match="no record"):
        again.certificate()
    loaded = mercer.load(model.save(tmp_path / "m.mercer"))
    assert np.array_equal(loaded.predict(columns), model.predict(columns))
    assert loaded.explain() == model.explain()
    small = mercer.load(model.save(tmp_path / "s.mercer", centres=40))
    assert len(small.model_.function_) == 40


def test_a_notebook_shows_errors_and_certificate(model):
    shown = model._repr_html_()
    assert "held-out rows" in shown
    assert "held-out RMSE:" in shown
    assert "gap:" in shown
    assert "TableEncoder" in shown


def test_frames_of_any_library_give_the_same_predictions(model, table):
    ours = model.predict(table)
    assert np.array_equal(model.predict(in_polars(table)), ours)
    assert np.array_equal(model.predict({name: table[name].to_list() for name in table}), ours)


def test_intervals_hold_as_often_as_they_say(model):
    new = prices(2000)
    low, high = model.predict_interval(new, 0.9)
    predicted = model.predict(new)
    assert np.all((low <= predicted) & (predicted <= high))
    share = np.mean((low <= new["price"]) & (new["price"] <= high))
    assert 0.8 < share < 0.99  # a quantile of 48 residuals


def test_classes_have_probabilities(classifier, wine):
    record = classifier.record_
    assert record.task == "classification"
    assert record.scores["mercer"]["error rate"] <= 0.1 < record.scores["constant"]["error rate"]
    stated = classifier.predict_proba(wine)
    assert np.allclose(stated.sum(axis=1), 1.0)
    assert set(classifier.predict(wine)) == {"red", "white", "rosé"}
    with pytest.raises(ValueError, match="predict_proba"):
        classifier.predict_interval(wine)


def test_tune_takes_arrays():
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    model = mercer.tune(X, X[:, 0] * X[:, 1], time_limit=SECONDS, loss="huber")
    assert type(model.model_).__name__ == "KernelRegressor"
    assert model.record_.scores["mercer"]["R²"] > 0.7
    assert "loss='huber'" in model.code_


def test_a_search_that_is_stopped_gives_its_best_model(table):
    limit = Limit(1e9)
    limit.stop()
    model = mercer.fit(table, "price", limit=limit)
    assert "stopped by hand" in str(model.certificate())
    assert model.record_.scores["mercer"]["RMSE"] < model.record_.scores["constant"]["RMSE"]


def test_a_learned_metric_is_taken_where_it_is_better(tmp_path):
    """Directions between columns matter, which no lengthscale can tell."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.abs(X[:, 0] + X[:, 1]) + 0.05 * rng.normal(size=400)
    model = mercer.tune(X, y, limit=Limit(1e9))
    chosen = model.record_.trials[-1]
    assert "learned metric" in chosen["kernel"]
    new = rng.normal(size=(1000, 3))
    gap = root_mean_squared_error(np.abs(new[:, 0] + new[:, 1]), model.predict(new))
    assert gap < 0.03  # 0.04 with lengthscales of columns, 0.02 with a map of them
    space = {"table": pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "x2": X[:, 2], "y": y})}
    exec(model.code_, space)
    ours = model.predict(X)
    assert np.array_equal(space["model"].predict(space["table"].drop(columns="y")), ours)
    assert np.array_equal(mercer.load(model.save(tmp_path / "m.mercer")).predict(X), ours)


def test_fits_that_would_take_too_long_take_centres_and_fewer_rows(table, monkeypatch):
    monkeypatch.setattr(choice, "TUNING", choice.Tuning(exact_rows=100, least_centres=20))
    monkeypatch.setattr(choice.Size, "seconds", lambda size, centres=None: 0.1 * (centres or 1e9))
    model = mercer.fit(table, "price", time_limit=SECONDS)
    assert model.model_.centres == 20
    assert "fitted to 208 of 240 rows" in str(model.certificate())  # 5/(3·0.1·20) of 192, and 48


def test_classes_are_judged_by_the_order_of_scores():
    """Scores of another size and place say the same of classes; worse ones do not."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=200)
    goal = read_target("y", labels, None)
    scores = 2.0 * np.eye(3)[labels] - 1.0 + rng.normal(size=(200, 3))
    assert goal.loss(scores) == pytest.approx(goal.loss(0.1 * scores + 5.0), rel=1e-2)
    assert goal.loss(scores) < 0.7 * goal.loss(scores + 2.0 * rng.normal(size=scores.shape))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: (t, "rent"), "there is no column 'rent'; there are"),
        (lambda t: (t, t["price"]), r"for X and y write mercer\.tune\(X, y\)"),
        (lambda t: (t[["price"]], "price"), "no column beside 'price'"),
        (lambda t: (t[:10], "price"), "10 rows are too few"),
        (lambda t: (t.assign(price=1.0), "price"), "is '1.0' in every row: nothing to learn"),
        (lambda t: (t.assign(price=np.r_[np.nan, t["price"][1:]]), "price"), "missing in 1 of 240"),
        (lambda t: (t.assign(town=["Oslo", *t["town"][1:]]), "town"), "class 'Oslo' of 'town'"),
    ],
)
def test_what_cannot_be_learned_is_said(table, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        mercer.fit(*change(table), time_limit=SECONDS)


# ---- columns and files ---------------------------------------------------------------------------


def test_columns_become_numbers_of_comparable_size():
    table = {
        "age": [20.0, 30.0, None, 50.0],
        "town": ["Bonn", None, "Rome", "Bonn"],
        "when": np.array(["2020-01-01", "2021-05-01", "2022-09-09", "2023-03-03"], "M8[D]"),
        "key": ["a1", "b2", "c3", "d4"],
    }
    encoder = TableEncoder().fit(table)
    names = encoder.get_feature_names_out().tolist()
    assert names[:6] == ["age", "age?", "town=Bonn", "town=None", "town=Rome", "when"]
    assert "key" not in encoder.origins()
    Z = encoder.transform(table)
    assert Z[:, 0] == pytest.approx((np.array([20, 30, 30, 50]) - 30) / np.std([20, 30, 50]))
    assert Z[:, 1].tolist() == [0, 0, 1, 0]
    assert Z[:, 2].tolist() == [1, 0, 0, 1]
    unseen = {**table, "town": ["Oslo"] * 4}
    assert not encoder.transform(unseen)[:, 2:5].any()
    with pytest.raises(ValueError, match="column 'age' is missing"):
        encoder.transform({"town": ["Bonn"]})


def test_ranks_do_not_change_with_monotone_maps():
    x = np.random.default_rng(0).normal(size=200)
    plain = TableEncoder(numbers="rank").fit_transform({"x": x})
    curved = TableEncoder(numbers="rank").fit_transform({"x": np.exp(x)})
    assert np.allclose(plain, curved)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".feather", ".npz"])
def test_files_are_tables(table, tmp_path, ending):
    path, frame = tmp_path / f"t{ending}", in_polars(table)
    match ending:
        case ".csv":
            frame.write_csv(path)
        case ".tsv":
            frame.write_csv(path, separator="\t")
        case ".parquet":
            frame.write_parquet(path)
        case ".feather":
            frame.write_ipc(path)
        case ".npz":
            np.savez(path, **{name: np.array(table[name].to_list()) for name in table})
    read = read_table(path)
    assert np.allclose(np.asarray(read["x"], float), table["x"])
    assert list(read["town"]) == table["town"].to_list()


def test_broken_files_are_named(tmp_path):
    for line, fields in (("1,2,3", 3), ("1", 1)):
        (tmp_path / "bad.csv").write_text(f"a,b\n1,2\n{line}\n3,\n")
        with pytest.raises(ValueError, match=f"line 3 has {fields} fields, the header 2"):
            read_table(tmp_path / "bad.csv")
    for name, content in {
        "bad.parquet": b"PAR1",
        "bad.npz": b"PK",
        "bad.feather": b"ARROW1",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read"):
            read_table(tmp_path / name)


def test_a_parquet_file_is_fitted_in_blocks(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = np.sin(X[:, 0])
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}).write_parquet(path)
    blocks = TableBlocks(path, ["a", "b", "c"], rows=128)
    assert [len(block) for block in blocks] == [128, 128, 128, 116]
    options = {"kernel": mercer.kernels.Gaussian(1.0), "centres": 40, "random_state": 0}
    on_disk = mercer.KernelRidge(0.1, **options).fit(blocks, blocks.column("y"))
    centres = mercer.features.centres.Given(points=on_disk.X_fit_)
    in_memory = mercer.KernelRidge(0.1, **options | {"centres": centres}).fit(X, y)
    assert np.allclose(on_disk.predict(X), in_memory.predict(X), atol=1e-6)
    with pytest.raises(ValueError, match=r"read in blocks is a file that ends in one of .parquet"):
        TableBlocks(tmp_path / "t.csv", ["a"])
