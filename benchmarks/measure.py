"""What every benchmark shares: rows, interleaved timing, errors, processes, the machine."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import MissingData

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("mercer", "numpy", "scipy", "scikit-learn", "numba", "torch")
PAUSE = 0.05  # seconds between two timings, so that the threads of the last one have gone to sleep

MEGABYTE = 1 << 20

Work = Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """How large and how often: `quick` only shows that everything runs."""

    quick: bool

    def size(self, full: int) -> int:
        return full // 8 if self.quick else full

    def repeats(self, full: int) -> int:
        return min(2, full) if self.quick else full


@dataclass
class Row:
    """One figure: what was measured, against whom, and what it should be."""

    work: str
    measured: float | None  # None: not measured, `note` says why
    unit: str  # written after the figure
    peer: str = ""
    ours_ms: float | None = None
    entry_ns: float | None = None
    peer_ms: float | None = None
    floor: float | None = None
    goal: float | None = None
    larger_is_better: bool = True
    error: float | None = None  # of our answer, relative to float64
    note: str = ""

    def reaches(self, mark: float) -> bool:
        assert self.measured is not None
        return self.measured >= mark if self.larger_is_better else self.measured <= mark

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        if self.floor is not None and not self.reaches(self.floor):
            return "below floor"
        if self.goal is not None and self.reaches(self.goal):
            return "goal"
        if self.goal is not None:
            return "floor" if self.floor is not None else "below goal"
        return "floor" if self.floor is not None else ""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


Groups = Mapping[str, Callable[[Effort], Iterator[Row]]]


def measured(
    title: str, groups: Groups, quick: bool = False, only: list[str] | None = None
) -> dict[str, Any]:
    """All groups, or those in `only`, as a result that `benchmarks.report` can write.

    A set of benchmarks ends with `run = partial(measured, "Its title", GROUPS)`.
    """
    for name in only or []:
        if name not in groups:
            raise SystemExit(f"there is no group {name!r}; there are {list(groups)}")
    rows = []
    for name, group in groups.items():
        if not only or name in only:
            print(f"measuring: {name} …", flush=True)
            rows += [row.as_dict() | {"group": name} for row in _rows(name, group, Effort(quick))]
    if quick:
        print("quick: the sizes are too small for the floors, so nothing is judged.\n")
        rows = [row | {"floor": None, "goal": None, "verdict": ""} for row in rows]
    return {"title": title, "machine": machine(), "groups": list(groups), "rows": rows}


def _rows(name: str, group: Callable[[Effort], Iterator[Row]], effort: Effort) -> Iterator[Row]:
    """The rows of a group; where its data or its peer is missing, one that says so."""
    try:
        yield from group(effort)
    except (MissingData, ImportError) as missing:
        yield Row(name, None, "", note=str(missing))


# ---- kinds of rows -------------------------------------------------------------------------------


def faster(
    work: str, times: Mapping[str, float], peer: str, entries: int | None = None, **more: Any
) -> Row:
    """How many times faster `times["mercer"]` is than the peer, and of each kernel value."""
    ours, theirs = times["mercer"], times[peer]
    each = None if entries is None else 1e9 * ours / entries
    figures: dict[str, Any] = {"ours_ms": 1e3 * ours, "entry_ns": each, "peer_ms": 1e3 * theirs}
    return Row(work, theirs / ours, "× faster", peer, **figures, **more)


def smaller(work: str, measured: float, unit: str = "", **more: Any) -> Row:
    """A figure that is better where it is smaller."""
    return Row(work, measured, unit, larger_is_better=False, **more)


def taken(work: str, seconds: float, **more: Any) -> Row:
    """The seconds that something takes."""
    return smaller(work, seconds, " s", ours_ms=1e3 * seconds, **more)


def over(work: str, ours: float, theirs: float, peer: str, unit: str = "×", **more: Any) -> Row:
    """Our seconds over those of something else."""
    times = {"ours_ms": 1e3 * ours, "peer_ms": 1e3 * theirs}
    return smaller(work, ours / theirs, unit, peer=peer, **times, **more)


def memory(work: str, extra: float, floor: float, **more: Any) -> Row:
    """Bytes beyond input and output, which may be so many MB."""
    return smaller(work, extra / MEGABYTE, " MB", floor=floor, **more)


class Forecasts:
    """Times that the automatic choice predicted, beside those of all its candidates."""

    def __init__(self) -> None:
        self.ratios: list[float] = []
        self.losses: list[float] = []
        self.notes: list[str] = []

    def add(self, case: str, chosen: Any, found: Mapping[str, float], more: str = "") -> None:
        taken = found[chosen.name]
        self.ratios.append(max(chosen.seconds / taken, taken / chosen.seconds))
        self.losses.append(taken / min(found.values()))
        self.notes.append(f"({case}) {chosen.name} {chosen.seconds:.2g}/{taken:.2g} s{more}")

    def rows(self) -> Iterator[Row]:
        yield smaller(
            f"predicted time off by, at worst of {len(self.ratios)} cells",
            max(self.ratios),
            "×",
            floor=3.0,
            note="predicted/measured: " + "; ".join(self.notes),
        )
        yield smaller(
            "time of the choice over that of the best candidate, at worst",
            max(self.losses),
            "×",
            floor=1.5,
        )


# ---- time, memory, errors ------------------------------------------------------------------------


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The answer of a work that is done once, and its seconds."""
    start = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - start


def interleaved(works: Mapping[str, Work], repeats: Mapping[str, int] | int) -> dict[str, float]:
    """The best time of each work in seconds; they take turns, so that all see the same machine.

    Everything runs once before it is timed: code is loaded, memory is touched, threads exist.
    """
    counts = {name: repeats if isinstance(repeats, int) else repeats[name] for name in works}
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    for turn in range(max(counts.values())):
        for name, work in works.items():
            if turn < counts[name]:
                time.sleep(PAUSE)
                start = time.perf_counter()
                work()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def relative_error(answer: Any, reference: Any) -> float:
    """‖answer − reference‖ / ‖reference‖, in the precision of the reference."""
    reference = np.asarray(reference)
    gap = np.asarray(answer).astype(reference.dtype) - reference
    return float(np.sqrt((gap**2).sum() / (reference**2).sum()))


def growth(work: Callable[[], Any]) -> tuple[Any, int]:
    """The answer of a work, and by how many bytes this process was larger meanwhile, at most."""
    before = _resident("VmRSS", reset=True)
    answer = work()
    return answer, max(0, _resident("VmHWM") - before)


def _resident(field: str, reset: bool = False) -> int:
    """Bytes now (VmRSS) or at the peak (VmHWM); `reset` starts the peak anew where Linux can."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5", "ascii")
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def in_a_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """The answer of a function of a module, in a process where nothing was larger before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def fresh_process(task: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """The answer of one task of `benchmarks.processes`, run in a process of its own.

    `wall` is added: seconds from before the process was started to the answer.
    """
    start = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.processes", task, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the process for {task!r} failed:\n{done.stderr}")
    answer = json.loads(done.stdout.splitlines()[-1])
    answer["wall"] = answer.pop("finished") - start
    return answer


def machine() -> dict[str, Any]:
    """Processor, cores and libraries: what a figure depends on, and nothing that tells whose."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _cores() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict((part.strip() for part in line.split(":", 1)) for line in lines if ":" in line)
    name = fields.get("model name", platform.machine())
    flags = fields.get("flags", "").split()
    widest = next((f for f in ("avx512f", "avx2", "avx") if f in flags), "")
    family = f"family {fields['cpu family']} model {fields['model']}" if "model" in fields else ""
    return ", ".join(part for part in (name, family, widest) if part)
