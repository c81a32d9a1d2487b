"""May a squared distance be expanded? Only where the program forgives the rounding error.

‖x‖² + ‖y‖² − 2⟨x,y⟩ has an error of a few rounding units times R = ‖x‖² + ‖y‖². A program k(s, …)
multiplies it by its slope ∂k/∂s, so what counts is the steepness

    max over 0 < s ≤ R of |∂k/∂s| · R / |k(0, …)|.

It is R/(2ℓ²) for a Gaussian, and infinite for a kernel with a kink at zero.
"""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.expression import Expression, Number, numbers_of
from mercer.evaluation.operations import derivative
from mercer.evaluation.program import Program
from mercer.evaluation.reference import evaluate

OCTAVES = 60  # of distances that are looked at, below R
REMEMBERED = 1024  # answers
NEIGHBOURS = 3.25  # (‖x‖² + ‖y‖²)/‖y‖² for ‖x‖ ≤ 1.5‖y‖
STEPS = 4  # sizes in an octave that are told apart
FORGIVEN = 40.0  # steepness up to which a float32 expansion keeps the digits of a product
STRICT = 4.0  # and those of every entry of a matrix that is stored


def forgives(
    program: Program, expression: Expression, q: int, size: float, most: float = FORGIVEN
) -> bool:
    """Whether the distance `q` of a program may be expanded in float32, ‖x‖² + ‖y‖² ≤ size.

    That is where its steepness is at most `most`.

    >>> from mercer.evaluation.expression import decay, sqrt, squared_distance
    >>> from mercer.evaluation.program import lower
    >>> smooth, kinked = decay(0.5 * squared_distance()), decay(sqrt(squared_distance()))
    >>> [forgives(lower(smooth), smooth, 0, size) for size in (10.0, 1e4)]
    [True, False]
    >>> forgives(lower(kinked), kinked, 0, 1.0)
    False
    """
    if size == 0.0 or not math.isfinite(size):
        return size == 0.0
    size = 2.0 ** (math.ceil(STEPS * math.log2(size)) / STEPS)
    key = program, q, size
    if key not in _answers:
        if len(_answers) >= REMEMBERED:
            _answers.clear()
        _answers[key] = steepness(expression, program.pairs[q], size)
    return _answers[key] <= most


_answers: dict[tuple[Program, int, float], float] = {}


def near(program: Program, expression: Expression, q: int, largest: float) -> float:
    """The largest ‖y‖² ≤ `largest`, up to a factor of √2, for which all x may be expanded.

    For ‖x‖ ≤ 1.5‖y‖ the size is at most 3.25‖y‖². For longer x the distance s is at least ‖x‖²/9,
    so that the error is at most that of 13 s|∂k/∂s|, which is small where k decays.

    >>> from mercer.evaluation.expression import decay, squared_distance
    >>> from mercer.evaluation.program import lower
    >>> smooth = decay(0.5 * squared_distance())
    >>> [round(near(lower(smooth), smooth, 0, size), 6) for size in (1.0, 64.0)]
    [1.0, 22.627417]
    """
    while largest > 0.0:
        if forgives(program, expression, q, NEIGHBOURS * largest):
            break
        largest /= 2.0**0.5
        if largest < 1e-30:
            return 0.0
    return largest if _settles(expression, program.pairs[q], largest) else 0.0


def _settles(expression: Expression, number: Number, start: float) -> bool:
    """Whether 13 s|∂k/∂s| is forgiven for every s from `start`/9 on."""
    slope = derivative(expression, number)
    if slope is None:
        return True
    distances = start / 9.0 * 2.0 ** np.arange(0.0, OCTAVES)
    with np.errstate(all="ignore"):
        value = float(np.abs(evaluate(expression, {number: np.zeros(1)})).max())
        slopes = np.abs(evaluate(slope, {number: distances})) * np.ones(OCTAVES)
        worst = 13.0 * np.max(distances * slopes)
    return bool(worst <= FORGIVEN * value)


def steepness(expression: Expression, number: Number, size: float) -> float:
    """How much a program multiplies an error of ‖x−y‖² that is relative to `size`."""
    try:
        slope = derivative(expression, number)
    except NotImplementedError:  # the slope of a table's slope: nothing is known of it
        return math.inf
    if slope is None:
        return 0.0
    distances = size * 2.0 ** -np.arange(0.0, OCTAVES)
    worst = 0.0
    for own in (size / 2, size / 32):  # ‖x‖² and ‖y‖² of points that are far out, and less so
        at = {other: _own(other, own) for other in numbers_of(expression)}
        with np.errstate(all="ignore"):
            value = float(np.abs(evaluate(expression, at | {number: np.zeros(1)})).max())
            slopes = np.abs(evaluate(slope, at | {number: distances})) * np.ones(OCTAVES)
            ratio = np.max(slopes) * size / value if value > 0 else np.inf
        worst = max(worst, float(ratio) if not np.isnan(ratio) else math.inf)
    return worst


def _own(number: Number, norm: float) -> np.ndarray:
    """What other numbers may be beside a small distance: those of a point and itself."""
    if number.kind == "squared_distance":
        return np.zeros(1)
    if number.kind in ("x_length", "y_length"):
        return np.full(1, math.sqrt(norm))
    return np.full(1, norm)
