"""What all tests share: Hypothesis without a clock, and the array libraries to run on."""

from __future__ import annotations

import gc
import os
import sys
import threading

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before NumPy is loaded: with a thread for each core in each worker, threads wait for one
    # another, and all tests take twice as long. Tests of threads ask for two by themselves.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

EXAMPLES = 30  # a law that fails on one kernel in a market fails on many
settings.register_profile("mercer", deadline=None, max_examples=EXAMPLES)
settings.register_profile("ci", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=500)
chosen = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "mercer")
settings.load_profile(chosen)


def pytest_configure(config):
    """Our own warnings are errors; a test that expects one says so with `pytest.warns`.

    Said here, not in pyproject.toml: there it would import mercer before coverage looks on.
    """
    config.addinivalue_line("filterwarnings", "error::mercer.errors.MercerWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected stays to the end, so it need not be searched for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)  # the compiler makes objects by the million, and few cycles
        gc.enable()


# ---- coverage ------------------------------------------------------------------------------------
#
# While the tracer of coverage is set, CPython 3.11 takes half as long again for all code, measured
# or not. So it stops where the code of others runs at length.


def _watching():
    """The tracer of coverage, if it is set."""
    tracer = sys.gettrace()
    return tracer if hasattr(tracer, "stop") and hasattr(tracer, "start") else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Measure what our own tests reach: those of scikit-learn, on our classes, are not traced.

    Nor is Numba's compiler, but in the tests of evaluation, which reach what writes code for it.
    Nor are fuzz tests: an interruption that comes while the tracer holds its lock would never end.
    """
    tracer, folder = _watching(), item.path.parent.name
    if tracer is None or folder == "evaluation":
        return (yield)
    cases = item.callspec.params if hasattr(item, "callspec") else {}
    foreign = folder == "drop_in" or {"estimator", "check"} <= cases.keys()
    if foreign or item.path.name == "test_fuzz.py":
        tracer.stop()
        try:
            return (yield)
        finally:
            tracer.start()
    with _unwatched_compiler():
        return (yield)


def _unwatched_compiler():
    from numba.core.event import Listener, install_listener

    class Unwatched(Listener):
        of_thread = threading.local()

        def on_start(self, event):
            self.of_thread.stopped = getattr(self.of_thread, "stopped", [])
            self.of_thread.stopped.append(tracer := _watching())
            if tracer:
                tracer.stop()

        def on_end(self, event):
            if self.of_thread.stopped and (tracer := self.of_thread.stopped.pop()):
                tracer.start()

    return install_listener("numba:compiler_lock", Unwatched())


# ---- arrays --------------------------------------------------------------------------------------


def _library(name):
    if name == "torch":
        pytest.importorskip("torch")
        return pytest.importorskip("array_api_compat.torch")
    return np if name == "numpy" else pytest.importorskip(name)


@pytest.fixture(scope="session", params=["numpy", "array_api_strict", "torch"])
def xp(request):
    """Give the array-API namespace of each library that is installed."""
    return _library(request.param)
