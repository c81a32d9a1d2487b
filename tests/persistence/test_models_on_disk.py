"""Models on disk: the same model comes back, and nothing else ever does."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer.errors import ModelFileError
from mercer.kernels import Gaussian, Kernel, Linear, Matern
from mercer.persistence import compressed, container, load, save
from mercer.structured import table_kernel

numbers, target = load_diabetes(return_X_y=True)
numbers, target = numbers[:120], target[:120]
flowers, kinds = (part[::3] for part in load_iris(return_X_y=True))
names = np.array(["setosa", "versicolor", "virginica"])[kinds]

REGRESSORS = [
    mercer.KernelRidge(0.1, kernel=Gaussian([0.1] * 10) + 0.1 * Linear(), fit_intercept=True),
    mercer.KernelRidge(kernel="rbf", centres=20, random_state=0),
    mercer.KernelRidgeCV(kernel=Matern(2.5)),
    mercer.KernelRegressor("huber", 1e-3),
    mercer.KernelQuantileRegressor([0.1, 0.9]),
    mercer.KernelPoissonRegressor(),
    mercer.SVR(),
    make_pipeline(StandardScaler(), mercer.KernelRidge(kernel="laplacian")),
]
CLASSIFIERS = [
    mercer.KernelClassifier("hinge"),
    mercer.KernelLogisticRegression(),
    mercer.SVC(),
    mercer.NuSVC(),
]


@dataclass(frozen=True, eq=False, repr=False)
class Halved(Kernel):
    """Half of the inner product."""

    def expression(self):
        return 0.5 * Linear().expression()


def returned(model, path):
    return load(save(model, path / "m.mercer"))


def ridge():
    return mercer.KernelRidge(0.1, kernel=Gaussian(0.2)).fit(numbers, target)


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
def test_a_regressor_comes_back(model, tmp_path):
    model.fit(numbers, target)
    again = returned(model, tmp_path)
    assert np.array_equal(again.predict(numbers), model.predict(numbers))
    assert repr(again) == repr(model)
    own = {name for name in vars(model) if not name.startswith("_")}
    assert own == {name for name in vars(again) if not name.startswith("_")}


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_a_classifier_comes_back_with_its_labels(model, tmp_path):
    model.fit(flowers, names)
    again = returned(model, tmp_path)
    assert np.array_equal(again.predict(flowers), model.predict(flowers))
    assert np.array_equal(again.decision_function(flowers), model.decision_function(flowers))
    assert again.classes_.dtype == model.classes_.dtype


@pytest.mark.parametrize(
    ("model", "methods"),
    [
        (mercer.KernelDensity(), ["score_samples"]),
        (mercer.KernelKMeans(3, random_state=0), ["predict"]),
        (mercer.KernelPCA(2), ["transform"]),
        (mercer.OneClassSVM(), ["decision_function"]),
    ],
    ids=lambda part: type(part).__name__ if not isinstance(part, list) else "",
)
def test_what_learns_without_targets_comes_back(model, methods, tmp_path):
    model.fit(flowers)
    again = returned(model, tmp_path)
    for name in methods:
        assert np.array_equal(getattr(again, name)(flowers), getattr(model, name)(flowers))


def test_functions_of_two_views_come_back(tmp_path):
    X, Y = flowers[:, :2], flowers[:, 2:]
    model = mercer.KernelCCA(1).fit(X, Y)
    again = returned(model, tmp_path)
    assert np.array_equal(again.transform(X, Y), model.transform(X, Y))


@pytest.mark.parametrize(
    "options",
    [
        {"form": "full"},
        {"local": True, "form": "diagonal"},
        {"linear_part": True},
        {"target_transform": "rank"},
    ],
    ids=str,
)
def test_learned_kernels_come_back_with_how_they_were_learned(options, tmp_path):
    settings = {"kernel": Gaussian(), "rounds": 1} | options
    model = mercer.LearnedKernelRegressor(**settings).fit(numbers, target)
    again = returned(model, tmp_path)
    assert np.array_equal(again.predict(numbers), model.predict(numbers))
    assert again.explain() == model.explain()
    assert again.importances() == model.importances()


def test_a_learned_classifier_comes_back(tmp_path):
    model = mercer.LearnedKernelClassifier(kernel=Gaussian(), rounds=1).fit(flowers, names)
    again = returned(model, tmp_path)
    assert np.array_equal(again.predict_proba(flowers), model.predict_proba(flowers))
    assert again.explain() == model.explain()


def test_precision_sparse_rows_and_explanations_come_back(tmp_path):
    rows = sparse.csr_array(np.where(flowers > 2, flowers, 0).astype(np.float32))
    model = mercer.KernelRidge(kernel=Gaussian(2.0)).fit(rows, kinds.astype(float))
    again = returned(model, tmp_path)
    assert np.array_equal(again.predict(rows), model.predict(rows))
    assert again.dual_coef_.dtype == np.float32
    assert model.explain().startswith(again.explain())  # what an intercept would gain takes targets
    assert str(again.solution_.status) == str(model.solution_.status)


def test_a_kernel_of_tables_comes_back_with_what_it_learned(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "town": ["Bonn", "Rome", None, "Rome"] * 10,
            "age": np.arange(40.0),
            "when": pd.date_range("2020-01-01", periods=40, freq="11D"),
            "words": [f"a text of many words {i} {i % 7}" for i in range(40)],
        }
    )
    model = mercer.KernelRidge(kernel=table_kernel(frame)).fit(frame, np.arange(40.0))
    assert np.array_equal(returned(model, tmp_path).predict(frame), model.predict(frame))


def test_a_kernel_of_ones_own_is_named_when_loading(tmp_path):
    model = mercer.KernelRidge(kernel=Halved()).fit(numbers, target)
    path = save(model, tmp_path / "m.mercer")
    with pytest.raises(ModelFileError, match=r"load\(path, kernels=\[Halved\]\)"):
        load(path)
    again = load(path, kernels=[Halved])
    assert np.array_equal(again.predict(numbers), model.predict(numbers))


def test_functions_and_foreign_objects_are_refused_when_saving(tmp_path):
    model = mercer.KernelRidge(kernel=lambda x, y: float(x @ y)).fit(numbers[:5], target[:5])
    with pytest.raises(ModelFileError, match="is the function '<lambda>'"):
        save(model, tmp_path / "m.mercer")
    with pytest.raises(ModelFileError, match="cannot be stored"):
        save(object(), tmp_path / "m.mercer")
    assert not list(tmp_path.iterdir())


def test_other_readers_of_the_format_read_the_arrays(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    model = ridge()
    arrays = safetensors.load_file(save(model, tmp_path / "m.mercer"))
    assert any(np.array_equal(array, model.dual_coef_) for array in arrays.values())


def test_a_compressed_model_holds_no_training_row(tmp_path):
    model = ridge()
    path = save(model, tmp_path / "m.mercer", centres=30)
    again = load(path)
    assert len(again.function_) == 30
    assert not (again.X_fit_[:, None] == numbers).all(axis=2).any()
    gap = np.sqrt(np.mean((again.predict(numbers) - model.predict(numbers)) ** 2))
    assert gap < 0.5 * np.std(model.predict(numbers))
    # the projection is the best such function: no other one on these centres is nearer
    best = model.function_.project(again.X_fit_)
    assert again.function_.distance(model.function_) <= best.distance(model.function_) * (1 + 1e-6)
    assert len(compressed(mercer.SVR().fit(numbers, target), 5).function_) == 5
    with pytest.raises(ValueError, match="no function of centres to make smaller: fit it first"):
        compressed(mercer.SVR(), 5)


# ---- damage --------------------------------------------------------------------------------------


def test_every_altered_file_is_refused(tmp_path):
    whole = bytes(save(ridge(), tmp_path / "m.mercer").read_bytes())
    rng = np.random.default_rng(0)
    bad = tmp_path / "bad.mercer"
    for _ in range(300):
        content = bytearray(whole)
        match rng.integers(4):
            case 0:
                content[rng.integers(len(content))] ^= 1 << rng.integers(8)
            case 1:
                del content[rng.integers(len(content)) :]
            case 2:
                content += bytes(rng.integers(1, 9))
            case 3:
                start = rng.integers(len(content))
                content[start : start + rng.integers(1, 50)] = rng.bytes(rng.integers(0, 50))
        if content == whole:
            continue
        bad.write_bytes(content)
        with pytest.raises(ModelFileError):
            load(bad)


def rewritten(arrays, texts, tree, path):
    """A file with a right checksum and another description."""
    return container.write(path, arrays, {**texts, "description": json.dumps(tree)})


def test_altered_descriptions_with_a_right_checksum_give_no_other_error(tmp_path):
    arrays, texts = container.read(save(ridge(), tmp_path / "m.mercer"))
    del texts["sha256"]
    rng = np.random.default_rng(0)
    odd = [None, -1, "x", [], {}, {"class": "os.system"}, {"array": "a99"}, {"same": 7}, 1e308]
    for _ in range(300):
        tree = json.loads(texts["description"])
        node = tree
        while True:
            places = list(node) if isinstance(node, dict) else list(range(len(node)))
            place = places[rng.integers(len(places))]
            inner = node[place]
            if not isinstance(inner, (dict, list)) or not len(inner) or rng.random() < 0.2:
                node[place] = odd[rng.integers(len(odd))]
                break
            node = inner
        path = rewritten(arrays, texts, tree, tmp_path / "bad.mercer")
        with contextlib.suppress(ModelFileError):
            load(path)


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "kernels.Path", "user.Halved", ""])
def test_unknown_classes_are_refused(name, tmp_path):
    arrays, texts = container.read(save(ridge(), tmp_path / "m.mercer"))
    tree = json.loads(texts.pop("description")) | {"class": name}
    del texts["sha256"]
    path = rewritten(arrays, texts, tree, tmp_path / "bad.mercer")
    with pytest.raises(ModelFileError, match="the model needs"):
        load(path)


def test_another_format_is_refused_with_both_versions(tmp_path):
    arrays, texts = container.read(save(ridge(), tmp_path / "m.mercer"))
    del texts["sha256"]
    later = {**texts, "format": "mercer 2", "version": "9.0"}
    path = container.write(tmp_path / "later.mercer", arrays, later)
    with pytest.raises(ModelFileError, match=r"written by mercer 9\.0; this is"):
        load(path)


def test_what_is_missing_or_no_model_is_said(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be read: No such file"):
        load(tmp_path / "none.mercer")
    (tmp_path / "text.mercer").write_text("price,rooms\n1,2\n")
    with pytest.raises(ModelFileError, match="is not a model of mercer"):
        load(tmp_path / "text.mercer")


def test_a_full_disk_leaves_the_old_model_and_no_rest(tmp_path, monkeypatch):
    path = save(ridge(), tmp_path / "m.mercer")
    before = hashlib.sha256(path.read_bytes()).digest()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="was not written: the disk is full"):
        save(ridge(), path)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.mercer"]
