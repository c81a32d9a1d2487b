"""The peers of the online machines: the same algorithm in plain NumPy, river, scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np

EIGHTHS = np.linspace(0.0, 1.0, 9)[:, None]


class PlainMachine:
    """Hinge loss, steps 1/√t, Gaussian kernel, budget: as one would write it in NumPy."""

    def __init__(self, lengthscale: float, ridge: float, size: int, merge: bool):
        self.scale, self.ridge = math.sqrt(0.5) / lengthscale, ridge
        self.size, self.merge = size, merge
        self.count = self.mistakes = 0

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        if not self.count:
            self.centres = np.zeros((self.size + 1, X.shape[1]))
            self.a, self.ages = np.zeros(self.size + 1), np.zeros(self.size + 1)
            self.shrunk, self.rounds = 1.0, 0
        X = X * self.scale
        for x, label in zip(X, y, strict=True):
            self.rounds += 1
            n = self.count
            gaps = self.centres[:n] - x
            row = np.exp(-np.einsum("ij,ij->i", gaps, gaps))
            f = self.shrunk * (row @ self.a[:n])
            self.mistakes += (f > 0) != (label > 0)
            step = 1.0 / math.sqrt(self.rounds)
            self.shrunk *= 1.0 - step * self.ridge
            if label * f < 1.0:
                self.centres[n], self.a[n] = x, step * label / self.shrunk
                self.ages[n] = self.rounds
                self.count = n + 1
                if self.count > self.size:
                    self.merge_two() if self.merge else self.drop(int(self.ages.argmin()))

    def drop(self, i: int) -> None:
        last = self.count - 1
        self.centres[i], self.a[i] = self.centres[last], self.a[last]
        self.ages[i], self.count = self.ages[last], last

    def merge_two(self) -> None:
        a, i = self.a, int(np.abs(self.a).argmin())
        gaps = self.centres - self.centres[i]
        s = np.einsum("ij,ij->i", gaps, gaps)
        first, second = np.exp(-s * (1 - EIGHTHS) ** 2), np.exp(-s * EIGHTHS**2)
        gains = (a[i] * first + a * second) ** 2
        losses = a[i] ** 2 + a**2 + 2 * a[i] * a * np.exp(-s) - gains.max(axis=0)
        losses[i] = np.inf
        j = int(losses.argmin())
        h = self.refined(a[i], a[j], s[j], float(EIGHTHS[gains[:, j].argmax(), 0]))
        a[j] = a[i] * math.exp(-s[j] * (1 - h) ** 2) + a[j] * math.exp(-s[j] * h * h)
        self.centres[j] = h * self.centres[i] + (1 - h) * self.centres[j]
        self.ages[j] = max(self.ages[i], self.ages[j])
        self.drop(i)

    @staticmethod
    def refined(own: float, other: float, s: float, h: float) -> float:
        low, high = max(h - 0.125, 0.0), min(h + 0.125, 1.0)
        for _ in range(40):
            mine, theirs = own * math.exp(-s * (1 - h) ** 2), other * math.exp(-s * h * h)
            value, tilt = mine + theirs, (1 - h) * mine - h * theirs
            curved = (1 - h) ** 2 * mine + h * h * theirs
            slope, bend = value * tilt, 2 * s * (tilt**2 + value * curved) - value**2
            low, high = (h, high) if slope > 0 else (low, h)
            step = -slope / bend if bend < 0 else math.inf
            if not low < h + step < high:
                step = 0.5 * (low + high) - h
            h += step
            if abs(step) < 1e-7:
                break
        return h

    def decision(self, X: np.ndarray) -> np.ndarray:
        gaps = (X * self.scale)[:, None] - self.centres[: self.count]
        return self.shrunk * (np.exp(-(gaps**2).sum(axis=2)) @ self.a[: self.count])


# ---- models of other libraries, with their grids ------------------------------------------------


def river_logistic(width: int) -> Iterable[tuple[str, Any]]:
    """Twelve trials: rate × penalty."""
    from river import linear_model, optim

    for rate, penalty in product((0.01, 0.05, 0.2, 1.0), (0.0, 1e-4, 1e-2)):
        model = linear_model.LogisticRegression(optim.SGD(rate), l2=penalty)
        yield f"rate {rate}, l2 {penalty}", model


def river_sampler(width: int, components: int) -> Iterable[tuple[str, Any]]:
    """Twelve trials: lengthscale × rate."""
    from river import feature_extraction, linear_model, optim

    for share, rate in product((0.25, 0.5, 1.0, 2.0), (0.01, 0.1, 1.0)):
        gamma = 0.5 / (share**2 * width)
        sampler = feature_extraction.RBFSampler(gamma=gamma, n_components=components, seed=0)
        yield (
            f"ℓ {share}√d, rate {rate}",
            sampler | linear_model.LogisticRegression(optim.SGD(rate)),
        )


def sgd_sampler(width: int, components: int) -> Iterable[tuple[str, Any]]:
    """Twelve trials: lengthscale × rate."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier

    for share, rate in product((0.25, 0.5, 1.0, 2.0), (0.01, 0.1, 1.0)):
        gamma = 0.5 / (share**2 * width)
        sampler = RBFSampler(gamma=gamma, n_components=components, random_state=0)
        model = SGDClassifier(
            loss="log_loss", learning_rate="constant", eta0=rate, alpha=1e-6, random_state=0
        )
        yield f"ℓ {share}√d, rate {rate}", (sampler.fit(np.zeros((1, width))), model)


def river_mistakes(model: Any, X: np.ndarray, y: np.ndarray) -> int:
    """Predict, then learn, one sample at a time."""
    wrong, names = 0, [str(i) for i in range(X.shape[1])]
    for x, label in zip(X.tolist(), (y > 0).tolist(), strict=True):
        row = dict(zip(names, x, strict=True))
        wrong += model.predict_one(row) != label
        model.learn_one(row, label)
    return wrong


def sgd_mistakes(model: Any, X: np.ndarray, y: np.ndarray) -> int:
    """Predict, then learn, one sample at a time, on features that are computed at once."""
    sampler, linear = model
    features, wrong = sampler.transform(X), 0
    linear.partial_fit(features[:1], y[:1], classes=[-1, 1])
    for row, label in zip(features[1:, None], y[1:, None], strict=True):
        score = row @ linear.coef_[0] + linear.intercept_[0]
        wrong += (score[0] > 0) != (label[0] > 0)
        linear.partial_fit(row, label)
    return wrong
