"""The loss of several classes: a prediction is a row with one score for each class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from mercer.arrays import Array, floating, identity, namespace
from mercer.checks import check_step, refuse_targets
from mercer.losses.base import Loss
from mercer.losses.numerics import (
    beyond_noise,
    exponential_root,
    increasing_root,
    like,
    log_omega,
    negative_entropy,
)

SUM_UNITS = 8.0  # rounding units for each class by which the sum of probabilities may miss 1


@dataclass(frozen=True)
class Multinomial(Loss):
    """The multinomial logistic loss, log Σ_k e^{f_k} − f_y: −log of the probability of class y.

    Predictions have shape (n, K). Targets are labels 0, …, K − 1 of shape (n,), or rows of shape
    (n, K): one-hot, or probabilities, for which the loss is log Σ_k e^{f_k} − Σ_k y_k f_k.

    Values have shape (n,), slopes p − y shape (n, K). The curvature is the full block
    diag(p) − ppᵀ of shape (n, K, K); `curvature_product` multiplies by it without storing it, and
    `smoothness` bounds it. Constants are in the Euclidean norm of rows.

    References
    ----------
    D. Böhning, Multinomial logistic regression algorithm, 1992, for the bound ½(I − 11ᵀ/K).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Logistic
    >>> f = np.array([-2.0, 0.0, 5.0])
    >>> rows = np.stack([np.zeros(3), f], axis=1)
    >>> bool(np.allclose(Multinomial().value([1, 1, 1], rows), Logistic().value(1, f)))
    True
    """

    is_classification: ClassVar[bool] = True
    is_multiclass: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        xp, y, f = _rows(y, f)
        top = xp.argmax(f, axis=-1, keepdims=True) == xp.arange(f.shape[-1], device=f.device)
        shifted = f - xp.sum(xp.where(top, f, 0.0), axis=-1, keepdims=True)
        others = xp.sum(xp.where(top, 0.0, xp.exp(shifted)), axis=-1)
        return xp.log1p(others) - xp.sum(y * shifted, axis=-1)

    def slope(self, y: Array, f: Array) -> Array:
        _, y, f = _rows(y, f)
        return _softmax(f) - y

    def curvature(self, y: Array, f: Array) -> Array:
        """diag(p) − ppᵀ, one K × K block for each row."""
        p = self.probability(f)
        return p[..., None] * (identity(p.shape[-1], p) - p[..., None, :])

    def curvature_product(self, y: Array, f: Array, v: Array) -> Array:
        """p∘v − p⟨p, v⟩, the block times a row, without the block."""
        p = self.probability(f)
        return p * (v - namespace(p).sum(p * v, axis=-1, keepdims=True))

    def conjugate(self, y: Array, u: Array) -> Array:
        """Σ_k p_k log p_k with p = u + y, if p is a row of probabilities (up to rounding)."""
        xp, y, u = _rows(y, u)
        p = u + y
        slack = SUM_UNITS * p.shape[-1] * float(xp.finfo(p.dtype).eps)
        whole = xp.abs(xp.sum(p, axis=-1) - 1.0) <= slack
        inside = whole & xp.all(p >= -slack, axis=-1)
        return xp.where(inside, xp.sum(negative_entropy(xp.clip(p, min=0.0)), axis=-1), math.inf)

    def domain(self, y: Array) -> tuple[Any, Any]:
        """The box −y ≤ u ≤ 1 − y for rows y; the domain is its part with Σ_k u_k = 0."""
        y = floating(y)
        if y.ndim < 2:
            raise ValueError(
                "the domain of Multinomial needs rows, as labels do not say how many classes there "
                "are: write loss.domain(one_hot(y, classes))."
            )
        return -y, 1.0 - y

    def proximal(self, y: Array, f: Array, step: Array) -> Array:
        """The z = f − step·(p(z) − y), from one equation for L = log Σ_k e^{z_k}.

        Given L, step·p_k = ω(a_k − L + log step) with a = f + step·y and Wright's ω; they have to
        sum to step.
        """
        check_step(self, step)
        _, y, f = _rows(y, f)
        step = like(step, f)
        step = step[..., None] if step.ndim else step
        a = f + step * y
        return exponential_root(a, step, _level(a, step))

    @property
    def lipschitz(self) -> float:
        return math.sqrt(2.0)

    @property
    def smoothness(self) -> float:
        return 0.5

    def check_targets(self, y: Any) -> Array:
        y = super().check_targets(y)
        if y.ndim == 2:
            _check_probabilities(self, y)
        else:
            xp = namespace(y)
            bad = (y < 0) | (y != xp.floor(y))
            wanted = "labels 0, 1, …, K − 1, or rows of probabilities"
            refuse_targets(
                self, y, bad, wanted, "Write numpy.unique(y, return_inverse=True)[1] for others."
            )
        return y

    def probability(self, f: Array) -> Array:
        """e^{f_k}/Σ_j e^{f_j}, the probability of each class."""
        return _softmax(floating(f))


def one_hot(y: Array, classes: int) -> Array:
    """Rows with a 1 in the column of the label: labels 0, …, K − 1 for K classes.

    >>> one_hot([0, 2], classes=3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    y = floating(y)
    xp = namespace(y)
    rows = y[..., None] == xp.arange(classes, dtype=y.dtype, device=y.device)
    if not xp.all(xp.any(rows, axis=-1)):
        raise ValueError(
            f"labels must be whole numbers from 0 to {classes - 1}, one for each column of the "
            f"predictions; got labels from {float(xp.min(y)):g} to {float(xp.max(y)):g}."
        )
    return xp.astype(rows, y.dtype)


def _rows(y: Array, f: Array) -> tuple[Any, Array, Array]:
    """The library of both, targets as rows, and predictions."""
    f = floating(f)
    xp = namespace(f)
    if f.ndim == 0:
        raise ValueError("Multinomial needs rows of predictions, of shape (n, K); got one number.")
    y = like(y, f)
    if tuple(y.shape) == tuple(f.shape):
        return xp, y, f
    if tuple(y.shape) in ((), tuple(f.shape[:-1])):
        return xp, xp.broadcast_to(one_hot(y, f.shape[-1]), f.shape), f
    raise ValueError(
        f"Multinomial needs predictions of shape (n, K) with labels of shape (n,) or rows of shape "
        f"(n, K); got predictions of shape {tuple(f.shape)} and targets of shape {tuple(y.shape)}."
    )


def _softmax(f: Array) -> Array:
    xp = namespace(f)
    sizes = xp.exp(f - xp.max(f, axis=-1, keepdims=True))
    return sizes / xp.sum(sizes, axis=-1, keepdims=True)


def _level(a: Array, step: Array) -> Array:
    """The L with Σ_k ω(a_k − L + log step) = step; the largest term is from step/K to step."""
    xp = namespace(a)
    classes, eps = a.shape[-1], float(xp.finfo(a.dtype).eps)
    top, offsets = xp.max(a, axis=-1, keepdims=True), a + xp.log(step)

    def missing(level: Array) -> tuple[Array, Array]:
        """1 − Σ_k p_k, and its derivative."""
        p = xp.exp(log_omega(offsets - level)) / step
        total = xp.sum(p, axis=-1, keepdims=True)
        growth = xp.sum(p / (1.0 + step * p), axis=-1, keepdims=True)
        noise = 4 * eps * (1.0 + growth * (xp.abs(level) + xp.abs(top)))
        return beyond_noise(1.0 - total, noise), growth

    return increasing_root(missing, top - step, top - step / classes + math.log(classes))


def _check_probabilities(owner: object, y: Array) -> None:
    xp = namespace(y)
    wanted = "rows of probabilities, as one-hot rows are"
    refuse_targets(owner, y, y < 0, wanted, "Write labels 0, …, K − 1 instead.")
    sums = xp.sum(y, axis=-1)
    off = xp.abs(sums - 1.0) > 1e-5
    if xp.any(off):
        row = int(xp.argmax(xp.astype(off, xp.int32)))
        raise ValueError(
            f"{type(owner).__name__} needs {wanted}; row {row} sums to {float(sums[row]):g}. "
            "Divide each row by its sum."
        )
