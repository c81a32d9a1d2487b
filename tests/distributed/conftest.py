"""A cluster inside this process: real scheduler and workers, that start at once."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="session")
def cluster():
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("dask.array")
    gc.freeze()  # rows on a cluster are admitted after a search for garbage, here among all tests
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
