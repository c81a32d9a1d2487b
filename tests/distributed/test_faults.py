"""A worker that is killed, and a cluster that is lost: the answer is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from mercer import KernelRidge
from mercer.features.centres import Given
from mercer.kernels import Gaussian
from mercer.solvers import Newton

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

N = 2000
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(N)


def model(**options: object) -> KernelRidge:
    return KernelRidge(1e-4, kernel=Gaussian(1.0), centres=Given(X[:30]), **options)


def scattered(array: np.ndarray) -> object:
    return da.from_array(array, chunks=(500, *array.shape[1:])).persist()


@pytest.fixture(scope="module")
def wanted():
    return model().fit(X, Y).predict(X[:200])


@contextmanager
def local_cluster():
    """Two worker processes, with a scheduler in this one, that starts others for lost ones."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def separate_processes():
    """A scheduler in a process of its own, on TCP, and two workers that nobody starts again."""
    begun = []

    def start(*command):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        begun.append(subprocess.Popen([sys.executable, "-m", *command], **quiet))

    with tempfile.TemporaryDirectory() as folder:
        contact = Path(folder, "scheduler.json")
        to = "--no-dashboard", "--scheduler-file", str(contact)
        try:
            start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *to)
            for _ in range(2):  # which wait for the file
                start("distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *to)
            while not contact.exists():
                time.sleep(0.05)
            with distributed.Client(scheduler_file=str(contact), timeout=60) as client:
                client.wait_for_workers(2)
                yield client
        finally:
            for process in begun:
                process.kill()
                process.wait()


@pytest.mark.parametrize("processes", [local_cluster, separate_processes])
def test_a_worker_process_is_killed_while_it_computes(processes, wanted):
    """Which worker and when is left to chance: every moment must do."""
    with processes() as client:
        rows, targets = scattered(X), scattered(Y)
        victim = int(np.random.default_rng().choice(list(client.run(os.getpid).values())))
        killed = []

        def kill(iteration: int, state: object) -> bool:
            """In the middle of the next iteration, once."""
            if not killed:
                moment = float(np.random.default_rng().uniform(0.0, 0.1))
                killed.append(threading.Timer(moment, os.kill, (victim, signal.SIGKILL)))
                killed[0].start()
            return False

        solver = Newton(tolerance=1e-10, sample=100, callback=kill)
        found = model(solver=solver).fit(rows, targets)
        killed[0].join()
        assert found.solution_.status.converged
    np.testing.assert_allclose(found.predict(X[:200]), wanted, atol=1e-6)


class Lost(Exception):
    """What a user sees of a cluster that is gone is any error in the middle of a fit."""


def test_a_fit_goes_on_from_its_checkpoint_on_another_cluster(cluster, wanted, tmp_path):
    path = tmp_path / "fit.ckpt"
    steps = []

    def lose(iteration: int, state: object) -> bool:
        steps.append(iteration)
        if len(steps) == 3:
            raise Lost
        return False

    few = {"tolerance": 1e-10, "sample": 100}
    with pytest.raises(Lost):
        model(solver=Newton(**few, callback=lose), checkpoint=path).fit(scattered(X), scattered(Y))
    assert path.exists()
    again = model(solver=Newton(**few), checkpoint=path).fit(scattered(X), scattered(Y))
    np.testing.assert_allclose(again.predict(X[:200]), wanted, atol=1e-6)
    assert not path.exists()  # the fit is done
    steps.clear()
    with pytest.raises(Lost):
        model(solver=Newton(**few, callback=lose), checkpoint=path).fit(scattered(X), scattered(Y))
    with pytest.raises(ValueError, match="checkpoint of another problem"):
        model(solver=Newton(**few), checkpoint=path).fit(scattered(X), scattered(-Y))


def test_a_lost_scheduler_is_told_with_what_to_do():
    from mercer.distributed.placement import connected

    with pytest.raises(ConnectionError, match=r"checkpoint='fit\.ckpt' it goes on"), connected():
        raise OSError("Timed out trying to connect")
