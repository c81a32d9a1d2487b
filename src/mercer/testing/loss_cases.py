"""A loss on targets and predictions, and what the contracts ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.losses import Loss, one_hot

SIZE = 24
CLASSES = 3
SLACK = 64 * float(np.finfo(np.float64).eps)  # relative, for sums of a few rounded terms


@dataclass(frozen=True, eq=False)
class LossCase:
    """A loss on targets; predictions are drawn around them, on kinks too, in steps of float32."""

    loss: Loss
    targets: np.ndarray
    seed: int = 0

    @cached_property
    def y(self) -> np.ndarray:
        """The targets, once for each prediction."""
        return self._pairs[0]

    @cached_property
    def f(self) -> np.ndarray:
        return self._pairs[1]

    @cached_property
    def direction(self) -> np.ndarray:
        """Where predictions move to; 1 where a prediction is a single number."""
        if not self.loss.is_multiclass:
            return np.ones_like(self.f)
        return np.random.default_rng(self.seed + 1).standard_normal(self.f.shape)

    @cached_property
    def size(self) -> np.ndarray:
        """The size of the numbers in y and f, entry by entry, and at least 1."""
        rows = _lengths(self.f) if self.loss.is_multiclass else np.abs(self.f)
        return 1.0 + rows + (np.abs(self.y) if self.y.ndim == 1 else 1.0)

    @cached_property
    def value(self) -> np.ndarray:
        return self.loss.value(self.y, self.f)

    @cached_property
    def slope(self) -> np.ndarray:
        return self.loss.slope(self.y, self.f)

    @cached_property
    def value_noise(self) -> np.ndarray:
        """How far rounding may move the values."""
        return SLACK * (np.abs(self.value) + (1 + self.lengths(self.slope)) * self.size)

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(self.seed)
        if self.loss.is_multiclass:
            y = np.concatenate([self.targets] * 4)
            scales = random.choice([0.0, 0.3, 3.0, 10.0], (len(y), 1))
            f = scales * random.standard_normal((len(y), self._classes()))
        else:
            near = [np.full(SIZE, offset) for offset in self._offsets()]
            far = [scale * random.standard_normal(SIZE) for scale in (0.1, 1.0, 5.0)]
            shifts = near + far
            y = np.concatenate([self.targets[:SIZE]] * len(shifts))
            f = y + np.concatenate([shift[: len(self.targets)] for shift in shifts])
        return y, f.astype(np.float32).astype(np.float64)

    def _classes(self) -> int:
        if self.targets.ndim == 2:
            return self.targets.shape[1]
        return max(CLASSES, int(self.targets.max()) + 1)

    def _offsets(self) -> list[float]:
        """Where losses may have kinks: y, one beside it, and each parameter beside it."""
        numbers = [v for v in self.loss.get_params().values() if isinstance(v, (int, float))]
        return [0.0, *(sign * float(v) for v in (1.0, *numbers) for sign in (-1, 1))]

    def inner(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """⟨u, v⟩ of each prediction."""
        return np.sum(u * v, axis=-1) if self.loss.is_multiclass else u * v

    def lengths(self, u: np.ndarray) -> np.ndarray:
        """‖u‖ of each prediction."""
        return _lengths(u) if self.loss.is_multiclass else np.abs(u)

    def wide(self, numbers: np.ndarray) -> np.ndarray:
        """One number for each prediction, against its entries."""
        return numbers[:, None] if self.loss.is_multiclass else numbers

    def dual_points(self) -> np.ndarray:
        """Points u inside the domain of the conjugate, on its edge, and outside."""
        random = np.random.default_rng(self.seed + 2)
        if self.loss.is_multiclass:
            rows = random.dirichlet(np.ones(self.f.shape[1]), len(self.f))
            return rows - self.rows()
        low, high = (np.broadcast_to(edge, self.f.shape) for edge in self.loss.domain(self.y))
        u = random.uniform(np.maximum(low, -5.0) - 0.5, np.minimum(high, 5.0) + 0.5)
        return np.where(random.random(u.shape) < 0.5, np.clip(u, low, high), u)

    def rows(self) -> np.ndarray:
        return self.y if self.y.ndim == 2 else one_hot(self.y, self.f.shape[1])

    def require(self, holds: Any, sentence: str) -> None:
        """Refuse unless it holds everywhere, and name the first pair where it does not."""
        holds = np.asarray(holds)
        holds = holds.reshape(len(holds), -1).all(axis=1) if holds.ndim else holds
        if not holds.all():
            i = int(np.argmin(holds))
            self.refuse(f"{sentence}, as at y = {self.y[i]}, f = {self.f[i]}")

    def refuse(self, sentence: str) -> None:
        raise AssertionError(f"{self.loss!r}: {sentence}.")


def loss_cases(loss: Loss, y: Any = None, seed: int = 0) -> Iterator[LossCase]:
    """The given targets, or some that the loss accepts."""
    if y is not None:
        yield LossCase(loss, np.asarray(y), seed)
        return
    candidates = _rows_of_classes(seed) if loss.is_multiclass else _numbers(seed)
    accepted = [targets for targets in candidates if accepts(loss, targets)]
    if not accepted:
        raise ValueError(
            f"{loss!r} refuses real targets, counts and labels: pass targets it is made for, "
            "check_loss(loss, y)."
        )
    for targets in accepted if loss.is_multiclass else accepted[:1]:
        yield LossCase(loss, targets, seed)


def _numbers(seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    reals = np.concatenate([[0.0, 1.0, -1.0, 2.5], 2.0 * random.standard_normal(SIZE - 4)])
    counts = np.concatenate([[0.0, 1.0], random.poisson(3.0, SIZE - 2)])
    labels = np.where(np.arange(SIZE) % 2, 1.0, -1.0)
    return [reals.astype(np.float32).astype(np.float64), counts, labels]


def _rows_of_classes(seed: int) -> list[np.ndarray]:
    rows = np.random.default_rng(seed).dirichlet(np.ones(CLASSES), SIZE)
    return [np.arange(SIZE) % CLASSES, rows]


def accepts(loss: Loss, targets: np.ndarray) -> bool:
    """Whether `check_targets` lets targets pass."""
    try:
        loss.check_targets(targets)
    except ValueError:
        return False
    return True


def _lengths(rows: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows, axis=-1)
