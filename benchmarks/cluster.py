"""The figures of a cluster: time against one process, numbers moved, workers lost, time foreseen.

The cluster is on this machine: two worker processes of one thread each, on TCP. Land or sea comes
from the PyPI package `global-land-mask`. Where dask is missing, that is said.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.data import MissingData
from benchmarks.measure import Effort, Groups, Row
from benchmarks.scale import SPHERE_CENTRES, SPHERE_GAMMA, SPHERE_RIDGE, gaussian, sphere
from mercer import KernelRidge
from mercer.features.centres import Given, Uniform
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.operators import Affine, Gram

WORKERS = 2


@contextmanager
def local_cluster(**options: Any) -> Iterator[Any]:
    """The client of two worker processes."""
    from distributed import Client, LocalCluster

    chosen = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": ":0"} | options
    with LocalCluster(**chosen) as cluster, Client(cluster) as client:
        yield client


def persisted(*arrays: np.ndarray, blocks: int = 16) -> list[Any]:
    """Arrays of Dask whose blocks lie on the workers."""
    import dask.array as da

    from distributed import wait

    rows = -(-len(arrays[0]) // blocks)
    there = [da.from_array(a, chunks=(rows, *a.shape[1:])).persist() for a in arrays]
    wait(there)
    return there


# ---- against one process -------------------------------------------------------------------------


def two_workers(effort: Effort) -> Iterator[Row]:
    n, count = effort.size(2_000_000), effort.size(SPHERE_CENTRES)
    X, y = sphere(n, 0, np.float64)  # in float32 rounding would be all that answers differ by
    new = sphere(20_000, 1, np.float64)[0]

    def model() -> KernelRidge:
        kernel = gaussian(SPHERE_GAMMA)
        return KernelRidge(SPHERE_RIDGE * n, kernel=kernel, centres=Uniform(count, 0))

    model().fit(X[:5000], y[:5000])  # code is loaded
    alone = seconds = float("inf")
    with local_cluster():
        model().fit(*persisted(X[:5000], y[:5000], blocks=WORKERS))  # on all workers
        rows, targets = persisted(X, y)
        for _ in range(effort.repeats(2)):  # they take turns
            here, took = measure.timed(lambda: model().fit(X, y))
            alone = min(alone, took)
            there, took = measure.timed(lambda: model().fit(rows, targets))
            seconds = min(seconds, took)
    yield measure.over(
        f"land or sea, {n:,} rows, M = {count:,}: 2 workers over one process with two threads",
        seconds,
        alone,
        "mercer in one process",
        "× its time",
        floor=1.25,
        error=float(np.abs(there.predict(new) - here.predict(new)).max()),
        note=f"{there.solution_.status}",
    )


# ---- workers with a GPU --------------------------------------------------------------------------


def on_cards(effort: Effort) -> Iterator[Row]:
    """One worker for each card, and two workers, against one process with one card."""
    from mercer.arrays import cards

    count = cards()
    if not count:
        raise MissingData("torch finds no GPU")
    n, centres = effort.size(2_000_000), effort.size(SPHERE_CENTRES)
    X, y = sphere(n, 0, np.float32)
    new = sphere(20_000, 1, np.float32)[0]

    def model(**options: Any) -> KernelRidge:
        chosen = Uniform(centres, 0)
        return KernelRidge(
            SPHERE_RIDGE * n, kernel=gaussian(SPHERE_GAMMA), centres=chosen, **options
        )

    model(device="cuda").fit(X, y)  # code is compiled
    here, alone = measure.timed(lambda: model(device="cuda").fit(X, y))
    expected = np.asarray(here.predict(new))
    _, told = measure.timed(lambda: here.predict(X).sum())
    for workers in sorted({count, max(2, count)}):
        with local_cluster(n_workers=workers) as client:
            rows, targets = persisted(X, y)
            model().fit(rows, targets)  # code is loaded, rows are copied to the card
            there, seconds = measure.timed(partial(model().fit, rows, targets))
            used = set(client.run(_used_card).values())
            some = there.predict(rows[: len(new)]).compute()  # code is loaded
            _, waited = measure.timed(there.predict(rows).sum().compute)
        yield Row(
            f"land or sea, {n:,} rows, M = {centres:,}: workers with a card ({workers} on {count}) "
            "over one process with one card",
            seconds / alone,
            "× its time",
            peer="mercer in one process",
            ours_ms=1e3 * seconds,
            peer_ms=1e3 * alone,
            error=float(np.abs(there.predict(new) - expected).max()),
            note=f"rows lay on {', '.join(sorted(used))}; {there.solution_.status}",
        )
        yield Row(
            f"land or sea, {n:,} rows, M = {centres:,}: predictions of workers with a card "
            f"({workers} on {count}) over those of one process with one card",
            waited / told,
            "× its time",
            peer="mercer in one process",
            ours_ms=1e3 * waited,
            peer_ms=1e3 * told,
            error=float(np.abs(some - there.predict(X[: len(new)])).max()),
            note="errors are differences from the CPU of the client",
        )


def _used_card() -> str:
    """The card on which a worker has rows, by its name."""
    import torch

    from mercer.arrays import is_tensor
    from mercer.distributed.cards import _copies

    devices = sorted({str(copy.device) for _, copy in _copies.values() if is_tensor(copy)})
    names = [torch.cuda.get_device_name(device) for device in devices]
    return ", ".join(f"{device} ({name})" for device, name in zip(devices, names, strict=True))


def _workers(client: Any) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


# ---- what travels --------------------------------------------------------------------------------


def start_counting() -> None:
    """From now on, count the bytes that this process sends."""
    from distributed.comm import tcp

    if not hasattr(tcp.TCP, "sent"):
        tcp.TCP.sent, send = 0, tcp.TCP.write

        async def write(self: Any, *args: Any, **options: Any) -> int:
            size = await send(self, *args, **options)
            tcp.TCP.sent += size
            return size

        tcp.TCP.write = write


def bytes_sent() -> int:
    from distributed.comm import tcp

    return int(tcp.TCP.sent)


def sent_in_a_pass(client: Any, rows: Any, centres: int, outputs: int, passes: int) -> float:
    """Bytes that all processes send for a pass over the rows."""
    kernel = Gaussian(1.0)
    points = kernel.points(rows)
    gram = Gram(kernel, points, kernel.points(points.take(np.arange(centres)).rows))
    values = np.random.default_rng(0).standard_normal((centres, outputs))
    row_map = Affine(np.ones((1, 1)), np.zeros((1, outputs)))

    def total() -> int:
        return bytes_sent() + sum(client.run(bytes_sent).values())

    gram.row_pass(values, row_map)
    before = total()
    idle = total() - before  # of asking
    start = total()
    for _ in range(passes):
        gram.row_pass(values, row_map)
    return (total() - start - idle) / passes


def traffic(effort: Effort) -> Iterator[Row]:
    """Bytes with many centres less those with one: what is left are the vectors."""
    X = np.random.default_rng(0).standard_normal((effort.size(16_000), 3))
    count, outputs = effort.size(2000), 2
    with local_cluster() as client:
        start_counting()
        client.run(start_counting)
        (rows,) = persisted(X)
        few, many = (sent_in_a_pass(client, rows, m, outputs, 10) for m in (1, count))
    yield measure.smaller(
        f"numbers moved in a pass with M = {count:,}, {outputs} outputs, {WORKERS} workers",
        (many - few) / 8.0,
        " numbers",
        floor=float(4 * count * outputs * WORKERS),
        note=f"(2W + 2)Mk = {(2 * WORKERS + 2) * count * outputs:,}; messages without the vectors "
        f"take {few / 1024:.0f} kB more",
    )


# ---- what goes wrong -----------------------------------------------------------------------------


class Trouble:
    """A fit that takes some seconds, and what it should find."""

    def __init__(self, rows: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.standard_normal((rows, 3))
        noise = 0.1 * rng.standard_normal(rows)
        self.y = np.sin(2.0 * self.X[:, 0]) * np.cos(self.X[:, 1]) + noise
        self.wanted = self.model().fit(self.X, self.y).predict(self.X[:2000])

    def model(self, **options: Any) -> KernelRidge:
        centres = Given(self.X[:200])
        return KernelRidge(
            1e-7 * len(self.X), kernel=Gaussian(1.0), centres=centres, fit_intercept=True, **options
        )

    def error(self, rows: Any, targets: Any) -> float:
        fitted = self.model().fit(rows, targets)
        return float(np.abs(fitted.predict(self.X[:2000]) - self.wanted).max())


def killed(effort: Effort) -> Iterator[Row]:
    """A worker process is killed at a random moment of the fit."""
    trouble, random, runs = Trouble(effort.size(24_000)), np.random.default_rng(0), 20
    errors = []
    for _ in range(runs):  # on a new cluster each: Dask does not replace every lost worker
        with local_cluster() as client:
            data = persisted(trouble.X, trouble.y)
            seconds = measure.timed(partial(trouble.error, *data))[1]
            victim = int(random.choice(list(client.run(os.getpid).values())))
            clock = threading.Timer(random.uniform(0, seconds), os.kill, (victim, signal.SIGKILL))
            clock.start()
            errors.append(trouble.error(*data))
            clock.join()
        print(f"  run {len(errors)}: difference {errors[-1]:.1e}", flush=True)
    yield Row(
        f"right answers to 1e-6 in {runs} runs with a worker killed at a random moment",
        float(sum(error <= 1e-6 for error in errors)),
        f" of {runs}",
        floor=float(runs),
        error=max(errors),
    )


def stopped(client: Any, seconds: float) -> Callable[[], None]:
    """A worker that does nothing for some seconds."""
    pid = next(iter(client.run(os.getpid).values()))

    def stop() -> None:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    return stop


def hog() -> int:
    """Memory until the worker is ended for it."""
    held = []
    while True:
        held.append(np.ones(1 << 24))
        time.sleep(0.01)


def out_of_memory(client: Any) -> Callable[[], None]:
    worker = _workers(client)[0]

    def fill() -> None:
        client.submit(hog, workers=[worker], pure=False)

    return fill


def faults(effort: Effort) -> Iterator[Row]:
    """One slow worker, and one that runs out of memory."""
    trouble = Trouble(effort.size(24_000))
    kinds: dict[str, Callable[[Any], Callable[[], None]]] = {
        "a worker that stands still for 3 s": partial(stopped, seconds=3.0),
        "a worker that runs out of memory": out_of_memory,
    }
    for name, make in kinds.items():
        with local_cluster(memory_limit="1GiB") as client:
            rows, targets = persisted(trouble.X, trouble.y)
            clock = threading.Timer(0.3, make(client))
            clock.start()
            error = trouble.error(rows, targets)
            clock.join()
        yield measure.smaller(f"{name}: largest difference of the answer", error, floor=1e-6)


def scheduler_lost(effort: Effort) -> Iterator[Row]:
    """The scheduler is killed; a new one goes on from the checkpoint."""
    import subprocess
    import sys

    from distributed import Client

    trouble = Trouble(effort.size(24_000))

    @contextmanager
    def processes() -> Iterator[tuple[Any, Any]]:
        """A scheduler on TCP, and two workers of it."""
        with tempfile.TemporaryDirectory() as folder:
            contact = Path(folder, "scheduler.json")
            run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
            begun = [
                subprocess.Popen([*run, "--host", "127.0.0.1", "--scheduler-file", str(contact)])
            ]
            while not contact.exists():
                time.sleep(0.1)
            work = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1"]
            for _ in range(WORKERS):
                begun.append(
                    subprocess.Popen([*work, "--scheduler-file", str(contact), "--no-dashboard"])
                )
            try:
                with Client(scheduler_file=str(contact), timeout=20) as client:
                    client.wait_for_workers(WORKERS)
                    yield client, begun[0]
            finally:
                for process in begun:
                    process.terminate()
                    process.wait()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fit.ckpt")
        model = trouble.model(checkpoint=path)
        try:
            with processes() as (_, scheduler):
                rows, targets = persisted(trouble.X, trouble.y)
                killer = threading.Thread(target=_killed_once_stored, args=(scheduler, path))
                killer.start()
                model.fit(rows, targets)
        except (ConnectionError, OSError) as lost:
            said = str(lost)
        else:
            said = "the fit was over before the scheduler was lost"
        stored = path.exists()
        with processes():
            rows, targets = persisted(trouble.X, trouble.y)
            model.fit(rows, targets)
    error = float(np.abs(model.predict(trouble.X[:2000]) - trouble.wanted).max())
    yield measure.smaller(
        "the scheduler lost, the fit resumed: largest difference of the answer",
        error,
        floor=1e-6,
        note=f"a checkpoint {'was' if stored else 'was not'} there; {said}",
    )


def _killed_once_stored(scheduler: Any, path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)
    scheduler.kill()


# ---- what it will take ---------------------------------------------------------------------------


def predicted(effort: Effort) -> Iterator[Row]:
    """The plan is what `explain(X, y)` says before the fit."""
    from mercer.solvers.workload import Workload

    sizes = [effort.size(n) for n in (100_000, 1_000_000, 10_000_000)]
    count, kernel, plan = effort.size(500), gaussian(SPHERE_GAMMA), None
    for n in sizes:
        X, y = sphere(n, 0, np.float32)
        with local_cluster():
            rows, targets = persisted(X, y)
            model = KernelRidge(SPHERE_RIDGE * n, kernel=kernel, centres=Given(X[:count]))
            model.fit(*persisted(X[:5000], y[:5000], blocks=WORKERS))  # code is loaded
            gram = Gram(kernel, kernel.points(rows), kernel.points(X[:count]))
            plan = gram.forecast(Workload.of(gram, Squared()))
            _, seconds = measure.timed(partial(model.fit, rows, targets))
        foreseen = plan.seconds
        yield measure.smaller(
            f"{n:,} rows, M = {count:,}: time foreseen, by how much it differs from the time taken",
            abs(foreseen / seconds - 1.0),
            " of it",
            ours_ms=1e3 * seconds,
            floor=0.25,
            note=f"foreseen {foreseen:.1f} s, taken {seconds:.1f} s; {model.solution_.status}",
        )
    if plan is not None:
        large = plan.scaled(10**9, workers=100, centres=20_000)
        yield Row(
            "10⁹ rows, M = 20,000, 100 workers: time foreseen",
            large.seconds / 60.0,
            " minutes",
            note=str(large),
        )


GROUPS: Groups = {
    "two workers": two_workers,
    "cards": on_cards,
    "traffic": traffic,
    "killed": killed,
    "faults": faults,
    "scheduler": scheduler_lost,
    "predicted": predicted,
}


run = partial(measure.measured, "Cluster", GROUPS)
