"""Fits that are interrupted, or run in several threads and processes: the same answers."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.exceptions import NotFittedError

from fuzz import inputs
from mercer import (
    SVC,
    SVCCV,
    SVR,
    ConditionalMeanEmbedding,
    KernelClassifier,
    KernelClassifierCV,
    KernelLogisticRegression,
    KernelPCA,
    KernelQuantileRegressor,
    KernelRidge,
    KernelRidgeCV,
    LearnedKernelRegressor,
    NuSVC,
    OneClassSVM,
)
from mercer.features import Nystroem
from mercer.kernels import Gaussian
from mercer.online import Pegasos

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = (X[:, 0] + 0.3 * RNG.standard_normal(400) > 0).astype(int)
MODELS = [
    SVC,
    KernelLogisticRegression,
    lambda: KernelRidge(kernel="rbf"),
    lambda: KernelRidge(kernel="rbf", centres=40, random_state=0),
    lambda: KernelRidgeCV(lengthscales=[0.5, 1.0]),
    lambda: KernelClassifier("squared_hinge"),
    lambda: KernelClassifier(centres=40, random_state=0),
    lambda: KernelClassifierCV([1.0, 10.0], lengthscales=[0.5, 1.0], cv=2, random_state=0),
    lambda: SVCCV([1.0, 10.0], lengthscales=[0.5, 1.0], cv=2, random_state=0),
    SVR,
    NuSVC,
    OneClassSVM,
    KernelQuantileRegressor,
    lambda: KernelPCA(3),
    lambda: LearnedKernelRegressor(kernel=Gaussian(), rounds=1, rows=100, random_state=0),
    lambda: Nystroem(random_state=0),
    lambda: Pegasos(random_state=0),
]


def answer(model, points=X):
    """What a fitted model says of the points."""
    names = "decision_function", "predict", "transform", "score_samples", "weights"
    name = next((name for name in names if hasattr(model, name)), None)
    if name is None and not hasattr(model, "labels_"):
        raise NotFittedError
    return model.labels_ if name is None else getattr(model, name)(points)


PLACES = tuple(f"mercer/{place}/" for place in ("estimators", "features", "online"))


class Stop(BaseException):
    """Raised in the middle of a fit."""


def attempt(seed):
    """Interrupt one fit at a random moment; the text of what is wrong, or nothing."""
    random = np.random.default_rng(seed)
    return (at_a_line if seed % 2 else at_a_time)(random, seed)


def at_a_line(random, seed):
    """Any estimator, fitted anew to other points and stopped before a random line of it."""
    choices = [*inputs.REGRESSORS, *inputs.CLASSIFIERS, *inputs.SEARCHES, *inputs.UNSUPERVISED]
    choices += [*inputs.MAPS, *inputs.ONLINE]
    make = choices[random.integers(len(choices))]
    data = [(abs(X[:30]), Y[:30]), (1.0 + abs(X[30:60]), Y[30:60])]
    try:
        fits = [anew(make).fit(*_given(make, *pair)) for pair in data]
    except ValueError:  # maps that are not for three columns
        return ""
    expected = [answer(fit, abs(X[:9])) for fit in fits]
    model, lines = fits[0], _lines_of(lambda: anew(make).fit(*_given(make, *data[1])), None)
    last = int(random.integers(1, lines + 1)) if random.random() < 0.5 else lines
    _lines_of(lambda: model.fit(*_given(make, *data[1])), max(1, last - int(random.integers(20))))
    try:
        found = answer(model, abs(X[:9]))
    except NotFittedError:
        return ""
    except Exception as error:
        return f"seed {seed}: {model!r} is half fitted: {error!r}"
    same = any(np.array_equal(found, one) for one in expected)
    return "" if same else f"seed {seed}: {model!r} says something else after an interruption"


def anew(make):
    model = make()
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


def _given(make, points, labels):
    return (points, points) if make is ConditionalMeanEmbedding else (points, labels)


def _lines_of(fit, last):
    """How many lines of estimators a fit runs through; it is stopped before the last one."""
    count = 0

    def on_line(frame, event, argument):
        nonlocal count
        if event == "line":
            count += 1
            if count == last:
                raise Stop
        return on_line

    def on_call(frame, event, argument):
        home = frame.f_code.co_filename
        return on_line if any(part in home for part in PLACES) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        fit()
    except Stop:
        pass
    finally:
        sys.settrace(before)
    return count


def at_a_time(random, seed):
    model = MODELS[random.integers(len(MODELS))]()
    start = time.perf_counter()
    model.fit(X, Y)
    seconds = max(time.perf_counter() - start, 1e-3)
    expected = answer(model)

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
                if not np.array_equal(answer(model), expected):
                    return f"seed {seed}: {model!r} predicts something else after an interruption"
            except NotFittedError:
                pass
    except Stop:  # between the fit and the end of the timer
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    same = np.allclose(answer(model.fit(X, Y)), expected)
    return "" if same else f"seed {seed}: {model!r} fits otherwise after an interruption"


def answers(number):
    """What the fit of one model gives: the same in every thread and process."""
    return answer(MODELS[number % len(MODELS)]().fit(X, Y))


def threads(count=8):
    """The same fits in several threads at once."""
    alone = [answers(number) for number in range(len(MODELS))]
    with warnings.catch_warnings(), ThreadPoolExecutor(count) as pool:
        found = list(pool.map(answers, range(count * len(MODELS))))
    pairs = zip(MODELS * count, alone * count, found, strict=True)
    differ = {repr(make()) for make, one, other in pairs if not np.array_equal(one, other)}
    return f"threads disagree on {', '.join(sorted(differ))}" if differ else ""


def forks(count=8):
    """The same fits in processes that were forked after others ran here, with their threads."""
    for number in range(count):
        expected = answers(number)
        child = os.fork()
        if child == 0:  # no clean-up of the parent's affairs
            try:
                os._exit(0 if np.array_equal(answers(number), expected) else 1)
            except BaseException:
                os._exit(2)
        end = time.monotonic() + 120.0
        while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return f"a forked fit of {MODELS[number % len(MODELS)]()!r} hangs"
            time.sleep(0.01)
        if done[1]:
            return f"a forked fit of {MODELS[number % len(MODELS)]()!r} fails or differs"
    return ""
