"""Workers with a card. Here the CPU stands for it: rows, centres and vectors go through torch."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import KernelClassifier, KernelRidge
from mercer.evaluation import cluster as execution
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
    "ridge": (KernelRidge(0.1, **ON), Y),
    "multinomial": (KernelClassifier("multinomial", 0.1, tol=1e-8, **ON), np.digitize(Y, [0, 1])),
}


def scattered(array):
    return da.from_array(array, chunks=(100, *array.shape[1:]))


@pytest.mark.parametrize("name", MODELS)
def test_blocks_are_computed_on_the_card_of_their_worker(cluster, monkeypatch, name):
    model, y = MODELS[name]
    wanted = model.fit(X, y).dual_coef_
    uploads = []

    def copied(values, device):
        uploads.append(np.shape(values))
        return torch.tensor(values, device=device)

    monkeypatch.setattr(execution, "card", lambda: "cpu")
    monkeypatch.setattr(execution, "on_device", copied)
    rows = scattered(X).persist()
    found = model.fit(rows, scattered(y))
    np.testing.assert_allclose(found.dual_coef_, wanted, rtol=1e-6, atol=1e-8)
    assert isinstance(found.dual_coef_, np.ndarray)
    assert uploads.count((100, 2)) == 3  # each block of rows once, whatever the number of passes


def test_workers_take_the_cards_of_a_machine_in_turn(cluster, monkeypatch):
    monkeypatch.setattr(execution, "cards", lambda: 2)
    assert execution.card() is None  # not on a worker
    found = [
        cluster.submit(execution.card, pure=False, workers=w).result() for w in workers(cluster)
    ]
    assert sorted(found) == ["cuda:0", "cuda:1"]


def workers(client):
    return list(client.scheduler_info()["workers"])
