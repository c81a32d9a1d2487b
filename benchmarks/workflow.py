"""From a table to a model: errors against tuned and default peers, damage, kills, size, start."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks import measure
from benchmarks.data import SIXTEEN
from benchmarks.measure import Effort, Row
from benchmarks.workflow_peers import OURS, ROWS, error, split, store, stored

KERNELS = ("tuned SVC", "tuned SVR")
LIMIT = 60.0  # seconds of each fit
CHOSEN = os.environ.get("MERCER_WORKFLOW_TABLES", " ".join(SIXTEEN)).split()
"""The tables that are run; of the others, what `workflow_tables.json` holds is told."""


def tables(effort: Effort) -> Iterator[Row]:
    """`mercer.tune` with its defaults and 60 s, against stored errors of peers on the same rows."""
    if effort.quick:
        for name in SIXTEEN[:2]:
            yield _row(f"{name}, 300 rows", _fitted(name, 300, 5.0)[1], {})
        return
    for name in CHOSEN:
        key, found = _fitted(name, ROWS, LIMIT)
        store(OURS, key, found)
        print(f"  {key}: {found}", flush=True)
    peers, ours = stored(), stored(OURS)
    keys = [key for key in ours if len(peers.get(key, {})) == 3]
    for key in keys:
        yield _row(key, ours[key], peers[key])
    errors = [[ours[k]["error"], *(v["error"] for v in peers[k].values())] for k in keys]
    yield mean_rank(errors)
    ratios = {k: ours[k]["error"] / _least(peers[k]) for k in keys}
    worst = max(ratios, key=lambda key: ratios[key])
    yield measure.smaller(
        "error over that of the tuned support vector machine, the worst table",
        ratios[worst],
        "×",
        floor=1.1,
        note=f"on {worst}, {ours[worst]['tested']} rows to test",
    )
    slowest = max(keys, key=lambda key: ours[key]["seconds"])
    yield measure.taken(
        "seconds of a fit with a limit of 60, the slowest table",
        ours[slowest]["seconds"],
        floor=LIMIT,
        note=f"on {slowest}",
    )


def _fitted(name: str, rows: int, limit: float) -> tuple[str, dict[str, Any]]:
    """The table with its number of rows, and what a fit to it gives."""
    import mercer

    X, y, X_test, y_test, classes = split(name, rows)
    task = "classification" if classes else "regression"
    model, seconds = measure.timed(lambda: mercer.tune(X, y, task=task, time_limit=limit))
    return f"{name}, {len(y)} rows", {
        "error": error(y_test, model.predict(X_test), classes),
        "claimed": next(iter(model.record_.scores["mercer"].values())),
        "seconds": round(seconds, 1),
        "tested": len(y_test),
        "model": f"{type(model.model_).__name__}, {model.model_.kernel!r:.60}",
    }


def _least(peers: dict[str, Any]) -> float:
    """The error of the best kernel model."""
    return min(found["error"] for peer, found in peers.items() if peer in KERNELS)


def _row(key: str, ours: dict[str, Any], peers: dict[str, Any]) -> Row:
    return measure.smaller(
        f"error on {key}",
        ours["error"],
        peer=", ".join(f"{peer} {found['error']:.4g}" for peer, found in peers.items()),
        ours_ms=1e3 * ours["seconds"],
        note=f"held-out rows of the fit said {ours['claimed']:.4g}; {ours['model']}",
    )


def mean_rank(errors: list[list[float]]) -> Row:
    """The mean rank of our errors, the first of each table, against that of the best peer."""
    ranks = np.mean([rankdata(row) for row in errors], axis=0)
    names = "mercer", "tuned support vector machine", "boosted trees", "random forest"
    return measure.smaller(
        f"mean rank of mercer.tune among 4 models on {len(errors)} tables",
        float(ranks[0]),
        floor=float(ranks[1:].min()),
        note=", ".join(f"{name} {rank:.2f}" for name, rank in zip(names, ranks, strict=True)),
    )


def damage(effort: Effort) -> Iterator[Row]:
    """Altered model files: all are refused, by one kind of error."""
    import mercer
    from mercer.errors import ModelFileError

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = mercer.tune(X, np.sin(X[:, 0]), time_limit=1.0)
    count, refused, other = effort.size(10_000), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(model.save(Path(folder, "m.mercer"))).read_bytes()
        bad = Path(folder, "bad.mercer")
        for _ in range(count):
            bad.write_bytes(_altered(whole, rng))
            try:
                mercer.load(bad)
            except ModelFileError:
                refused += 1
            except Exception:
                other += 1
    yield Row(
        f"altered model files that are refused, of {count:,}",
        100.0 * refused / count,
        " %",
        floor=100.0,
        note=f"{other} gave another error than ModelFileError",
    )


def _altered(whole: bytes, rng: Any) -> bytes:
    content = bytearray(whole)
    while bytes(content) == whole:
        kind, at = rng.integers(4), int(rng.integers(len(content)))
        if kind == 0:
            content[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del content[at:]
        elif kind == 2:
            content[at : at + int(rng.integers(1, 40))] = rng.bytes(int(rng.integers(0, 40)))
        else:
            content += rng.bytes(int(rng.integers(1, 40)))
    return bytes(content)


KILLED = """
import os
import sys
import numpy as np
from mercer import KernelLogisticRegression
from mercer.kernels import Gaussian
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 4))
y = np.sin(3 * X[:, 0]) * X[:, 1] > 0.1 * rng.standard_normal(2000)
for line in sys.stdin:  # a checkpoint and where the result goes; each fit has a process of its own
    checkpoint, out = line.split()
    child = os.fork()
    if not child:
        model = KernelLogisticRegression(1e4, kernel=Gaussian(0.5), tol=1e-9, checkpoint=checkpoint)
        np.save(out, model.fit(X, y).decision_function(X))
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


def kills(effort: Effort) -> Iterator[Row]:
    """A checkpointed fit that is killed at random moments, started again until it ends."""
    count, right, resumed = effort.repeats(50), 0, 0
    command = [sys.executable, "-c", KILLED]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as fits,
    ):
        whole = Path(folder, "whole.ckpt"), Path(folder, "whole.npy")
        _run(fits, *whole)  # code is compiled
        _, seconds = measure.timed(lambda: _run(fits, *whole))
        expected = np.load(whole[1])
        for trial in range(count):
            checkpoint, out = Path(folder, f"{trial}.ckpt"), Path(folder, f"{trial}.npy")
            _run(fits, checkpoint, out, random.Random(trial).uniform(0.0, seconds))
            resumed += checkpoint.exists()
            if not out.exists():
                _run(fits, checkpoint, out)
            gap = np.abs(np.load(out) - expected).max() / np.abs(expected).max()
            right += bool(gap < 1e-4) and not checkpoint.exists()
    yield Row(
        f"right models after {count} kills at random moments of a checkpointed fit",
        float(right),
        "",
        floor=float(count),
        note=f"{resumed} of them had written a checkpoint when they were killed; a whole fit takes "
        f"{seconds:.1f} s",
    )


def _run(fits: Any, checkpoint: Path, out: Path, seconds: float | None = None) -> None:
    """Run a fit in a process of its own to its end, or kill it after so many seconds."""
    fits.stdin.write(f"{checkpoint} {out}\n")
    fits.stdin.flush()
    process = int(fits.stdout.readline())
    if seconds is not None:
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(process, signal.SIGKILL)
    fits.stdout.readline()


def million(effort: Effort) -> Iterator[Row]:
    """`mercer fit` on a Parquet file of a million rows."""
    import polars as pl

    import mercer

    rng, rows = np.random.default_rng(0), effort.size(1_000_000)
    X = rng.normal(size=(rows, 10))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2]) + 0.2 * rng.normal(size=rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        pl.DataFrame({f"c{i}": X[:, i] for i in range(10)} | {"y": y}).write_parquet(path)
        command = f"fit {path} --target y -o {folder}/m.mercer --report {folder}/r.html --quiet"
        used = _resources(command.split())
        rmse = mercer.load(f"{folder}/m.mercer").record_.scores["mercer"]["RMSE"]
    yield measure.taken(
        f"mercer fit on {rows:,} rows × 10 from Parquet",
        used["wall"],
        floor=180.0,
        note=f"processors were busy for {used['cpu']:.0f} s; RMSE {rmse:.3g}, of noise 0.2",
    )
    yield measure.smaller(
        f"peak memory of mercer fit on {rows:,} rows × 10", used["memory"], " GB", floor=2.0
    )


def start(effort: Effort) -> Iterator[Row]:
    """The start of the command line."""
    best = min(_resources(["--help"])["wall"] for _ in range(effort.repeats(7)))
    yield measure.taken("mercer --help", best, floor=0.3)


def _resources(arguments: list[str]) -> dict[str, float]:
    """Seconds on the clock, seconds of processors, and peak memory in GB of one command."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "mercer", *arguments], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"mercer {' '.join(arguments)} failed")
    return {
        "wall": time.perf_counter() - begun,
        "cpu": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss / 1e6,
    }


GROUPS = {
    "tables": tables,
    "damage": damage,
    "kills": kills,
    "million rows": million,
    "start": start,
}
run = partial(measure.measured, "From a table to a model", GROUPS)
