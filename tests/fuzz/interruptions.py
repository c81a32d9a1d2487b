"""Fits that are interrupted, or run in several threads: nothing half-fitted, the same answers."""

from __future__ import annotations

import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.exceptions import NotFittedError

from mercer import SVC, KernelLogisticRegression, KernelRidge

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = (X[:, 0] + 0.3 * RNG.standard_normal(400) > 0).astype(int)
MODELS = [SVC, KernelLogisticRegression, lambda: KernelRidge(kernel="rbf")]


class Stop(BaseException):
    """Raised in the middle of a fit."""


def attempt(seed):
    """Interrupt one fit at a random moment; the text of what is wrong, or nothing."""
    random = np.random.default_rng(seed)
    model = MODELS[random.integers(len(MODELS))]()
    start = time.perf_counter()
    model.fit(X, Y)
    seconds = max(time.perf_counter() - start, 1e-3)
    expected = model.predict(X)

    def stop(number, frame):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, float(random.uniform(1e-4, seconds)))
        try:
            model.fit(X, Y)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        except BaseException:  # NumPy may turn what a signal raises into another error
            try:
                if not np.array_equal(model.predict(X), expected):
                    return f"seed {seed}: {model!r} predicts something else after an interruption"
            except NotFittedError:
                pass
    except Stop:  # between the fit and the end of the timer
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    same = np.allclose(model.fit(X, Y).predict(X), expected)
    return "" if same else f"seed {seed}: {model!r} fits otherwise after an interruption"


def threads(count=8):
    """The same fit in several threads at once."""
    with warnings.catch_warnings(), ThreadPoolExecutor(count) as pool:
        found = list(pool.map(lambda _: SVC().fit(X, Y).decision_function(X), range(count)))
    return "" if all(np.array_equal(found[0], one) for one in found) else "threads disagree"
