"""Accuracy of distances: where ‖x‖² + ‖y‖² − 2⟨x,y⟩ may stand for ‖x−y‖² in float32.

It has an error of a few rounding units times R = ‖x‖² + ‖y‖². A kernel k(s, …) multiplies it by its
slope ∂k/∂s, so what counts is the steepness

    max over 0 < s ≤ R of |∂k/∂s| · R / |k(0, …)|.

It is R/(2ℓ²) for a Gaussian, and infinite for a kernel with a kink at zero. Where it is small,
kernel values keep float32 accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.expression import Expression, Number, numbers_of
from mercer.evaluation.operations import derivative, evaluate
from mercer.evaluation.program import straight_line


@dataclass(frozen=True)
class Tuning:
    """Limits of steepness, without unit: errors are about 6e-8 times it; measured on an H200."""

    product: float = 40.0  # errors of single values average out in a product with a vector
    entry: float = 8.0  # entries of a stored matrix keep all but three bits of float32
    wide: float = 2000.0  # in float64, where errors are about 2e-16 times it
    octaves: int = 60  # of distances below R at which slopes are taken: down to 1e-18 R
    grid: int = 4  # sizes R in an octave that are distinguished, so that answers can be cached
    remembered: int = 1024  # answers


TUNING = Tuning()
_answers: dict[Hashable, float] = {}


def expansion_is_safe(
    expression: Expression, number: Number, size: float, most: float = TUNING.product
) -> bool:
    """Whether a squared distance of an expression may be expanded in float32, ‖x‖² + ‖y‖² ≤ size.

    That is where its steepness is at most `most`.

    >>> from mercer.evaluation.expression import decay, sqrt, squared_distance
    >>> s = squared_distance()
    >>> [expansion_is_safe(decay(0.5 * s), s, size) for size in (10.0, 1e4)]
    [True, False]
    >>> expansion_is_safe(decay(sqrt(s)), s, 1.0)  # a kink at 0
    False
    """
    if size == 0.0 or not math.isfinite(size):
        return size == 0.0
    size = 2.0 ** (math.ceil(TUNING.grid * math.log2(size)) / TUNING.grid)
    numbers = numbers_of(expression)
    names: dict[Expression, str] = {other: f"q{i}" for i, other in enumerate(numbers)}
    key = straight_line(expression, names), numbers, number, size
    if key not in _answers:
        if len(_answers) >= TUNING.remembered:
            _answers.clear()
        _answers[key] = steepness(expression, number, size)
    return _answers[key] <= most


def safe_norm(expression: Expression, number: Number, largest: float) -> float:
    """The largest ‖y‖² ≤ `largest`, up to a factor of √2, for which all x may be expanded.

    For ‖x‖ ≤ 1.5‖y‖ the size is at most 3.25‖y‖². For longer x the distance s is at least ‖x‖²/9,
    so that the error is at most that of 13 s|∂k/∂s|, which is small where k decays.
    """
    while largest > 0.0 and not expansion_is_safe(expression, number, 3.25 * largest):
        largest /= 2.0**0.5
        if largest < 1e-30:
            return 0.0
    slope = derivative(expression, number)
    if slope is not None:
        distances = largest / 9.0 * 2.0 ** np.arange(0.0, TUNING.octaves)
        value, slopes = _top_and_slopes(expression, slope, {}, number, distances)
        with np.errstate(all="ignore"):
            worst = 13.0 * np.max(distances * slopes)
        if not worst <= TUNING.product * value:
            return 0.0
    return largest


def steepness(expression: Expression, number: Number, size: float) -> float:
    """How much an expression multiplies an error of ‖x−y‖² that is relative to `size`."""
    try:
        slope = derivative(expression, number)
    except NotImplementedError:  # the slope of a table's slope: nothing is known of it
        return math.inf
    if slope is None:
        return 0.0
    distances, worst = size * 2.0 ** -np.arange(0.0, TUNING.octaves), 0.0
    for norm in (size / 2, size / 32):  # ‖x‖² and ‖y‖² of points that are far out, and less so
        # the other pair numbers at a distance near 0 are those of a point with itself
        own = {"squared_distance": 0.0, "x_length": math.sqrt(norm), "y_length": math.sqrt(norm)}
        others = {o: np.full(1, own.get(o.kind, norm)) for o in numbers_of(expression)}
        value, slopes = _top_and_slopes(expression, slope, others, number, distances)
        with np.errstate(all="ignore"):
            ratio = np.max(slopes) * size / value if value > 0 else np.inf
        worst = max(worst, float(ratio) if not np.isnan(ratio) else math.inf)
    return worst


def _top_and_slopes(
    expression: Expression,
    slope: Expression,
    others: Mapping[Any, np.ndarray],
    number: Number,
    distances: np.ndarray,
) -> tuple[float, np.ndarray]:
    """The largest size of an expression at a distance of 0, and those of its slope at others."""
    with np.errstate(all="ignore"):
        value = float(np.abs(evaluate(expression, {**others, number: np.zeros(1)})).max())
        slopes = np.abs(evaluate(slope, {**others, number: distances})) * np.ones(TUNING.octaves)
    return value, slopes
