"""Workers with a card. Here the CPU stands for it: rows, centres and vectors go through torch."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from sklearn.base import clone

from mercer import KernelClassifier, KernelPCA, KernelRidge
from mercer.distributed import cards
from mercer.evaluation import cluster as execution
from mercer.features import inputs
from mercer.features.centres import Given
from mercer.kernels import Gaussian

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")
torch = pytest.importorskip("torch")

N = 300
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_normal(N)
ON = {"kernel": Gaussian(1.0), "centres": Given(X[:20])}
MODELS = {
    "targets": (KernelRidge(0.1, fit_intercept=True, **ON), np.stack([Y, Y**2, -Y], axis=1)),
    "ridge": (KernelRidge(0.1, **ON), Y),
    "multinomial": (KernelClassifier("multinomial", 0.1, tol=1e-8, **ON), np.digitize(Y, [0, 1])),
}


def scattered(array):
    return da.from_array(array, chunks=(100, *array.shape[1:]))


@pytest.fixture
def uploads(monkeypatch):
    """Give the shapes of what goes to a card, in whose place the CPU stands."""
    seen = []

    def copied(values, device):
        seen.append(np.shape(values))
        return torch.tensor(values, device=device)

    monkeypatch.setattr(cards, "card", lambda: "cpu")
    monkeypatch.setattr(execution, "card", lambda: "cpu")
    monkeypatch.setattr(execution, "on_device", copied)
    monkeypatch.setattr(inputs, "on_device", copied)
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_blocks_are_computed_on_the_card_of_their_worker(cluster, uploads, name):
    model, y = MODELS[name]
    wanted = model.fit(X, y)
    rows = scattered(X).persist()
    found = clone(model).fit(rows, scattered(y))
    np.testing.assert_allclose(found.dual_coef_, wanted.dual_coef_, rtol=1e-6, atol=1e-8)
    assert isinstance(found.dual_coef_, np.ndarray)
    assert uploads.count((100, 2)) == 3  # each block of rows once, whatever the number of passes


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_computed_on_the_card_of_a_worker(cluster, uploads, name):
    model, y = MODELS[name]
    wanted, rows = model.fit(X, y), scattered(X)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(wanted, method):
            found = getattr(wanted, method)(rows)
            uploads.clear()
            np.testing.assert_allclose(found.compute(), getattr(wanted, method)(X), rtol=1e-9)
            assert 1 <= uploads.count((20, 2)) <= 2  # centres, once for each worker
    assert isinstance(wanted.function_.coefficients, np.ndarray)
    low = wanted.predict(rows.astype(np.float32)).compute()
    np.testing.assert_allclose(low, wanted.predict(X.astype(np.float32)), atol=1e-5)


def test_models_that_take_no_tensors_predict_on_the_cpu_of_a_worker(cluster, uploads):
    model = KernelPCA(2, **ON).fit(X)
    found = model.transform(scattered(X)).compute()
    np.testing.assert_allclose(found, model.transform(X))
    assert not uploads


def test_copies_on_a_card_end_with_the_rows(monkeypatch):
    monkeypatch.setattr(cards, "card", lambda: "cpu")
    rows = np.ones((3, 2))

    def tensor(values, device):
        return torch.tensor(values, device=device)

    copy = weakref.ref(cards.resident(rows, tensor))
    assert cards.resident(rows, tensor) is copy()
    del rows
    gc.collect()
    assert copy() is None


def test_workers_take_the_cards_of_a_machine_in_turn(cluster, monkeypatch):
    monkeypatch.setattr(cards, "cards", lambda: 2)
    assert cards.card() is None  # not on a worker
    found = [cluster.submit(cards.card, pure=False, workers=w).result() for w in workers(cluster)]
    assert sorted(found) == ["cuda:0", "cuda:1"]


def workers(client):
    return list(client.scheduler_info()["workers"])
