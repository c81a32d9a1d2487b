"""Checks of what users pass in: numbers, counts, weights, targets.

A refusal is a `ValueError` that says what was expected and what came. `owner` is the object that
was given the value, or the name of a function.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from mercer.arrays import Array, namespace

SMALLEST_LENGTHSCALE = 1e-150  # so that 1/ℓ² is a float

# ---- numbers ------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; True and False are none.

    >>> is_number(1.5), is_number(float("nan")), is_number(True), is_number("1")
    (True, False, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number ≥ 1.

    >>> is_count(3), is_count(0), is_count(2.0), is_count(True)
    (True, False, False, False)
    """
    return isinstance(value, Integral) and is_number(value) and int(value) >= 1


def check_finite(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a finite number."""
    if not is_number(value):
        raise ValueError(f"{_name(owner)} needs a finite {name}; got {value!r}.")


def check_positive(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a positive finite number."""
    check_between(owner, name, value, 0.0, math.inf)


def check_nonnegative(owner: object, name: str, value: Any, reason: str = "") -> None:
    """Refuse anything but a nonnegative finite number; `reason` says why, where it is not plain."""
    if not (is_number(value) and value >= 0):
        because = f": {reason}" if reason else ""
        raise ValueError(f"{_name(owner)} needs a finite {name} ≥ 0; got {value!r}{because}.")


def check_between(owner: object, name: str, value: Any, low: float, high: float) -> None:
    """Refuse anything but a number strictly between two others."""
    if not (is_number(value) and low < value < high):
        wanted = f"{name} > {low:g}" if high == math.inf else f"{low:g} < {name} < {high:g}"
        raise ValueError(f"{_name(owner)} needs a finite {wanted}; got {value!r}.")


def check_count(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a whole number ≥ 1."""
    if not is_count(value):
        raise ValueError(f"{_name(owner)} needs a whole number {name} ≥ 1; got {value!r}.")


def check_step(owner: object, step: Any) -> None:
    """Refuse a step of a proximal map that is not positive; arrays of steps are trusted."""
    if isinstance(step, (int, float)) and not step > 0:
        raise ValueError(f"the proximal map of {_name(owner)} needs a step > 0; got {step!r}.")


def check_object(owner: object, name: str, value: Any) -> None:
    """Refuse a class where one of its objects is meant: Gaussian for Gaussian()."""
    if isinstance(value, type):
        raise ValueError(
            f"{name} of {_name(owner)} must be an object; got the class {value.__name__}: write "
            f"{value.__name__}(...)."
        )


# ---- lists of numbers ---------------------------------------------------------------------------


def check_lengthscale(owner: object, value: Any) -> None:
    """Refuse lengthscales that are not positive and finite, one or one for each column."""
    if np.ndim(value) == 0:
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not (number and 0 < value < math.inf):
            raise ValueError(
                f"{_name(owner)} needs a finite lengthscale > 0; got {value!r}. Write for example "
                f"{_name(owner)}(lengthscale=1.0)."
            )
    scales = np.atleast_1d(np.asarray(value))
    if scales.ndim != 1 or scales.dtype.kind not in "fiu" or not len(scales):
        raise ValueError(
            f"{_name(owner)} needs one lengthscale, or a list with one for each column; "
            f"got {value!r}."
        )
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(
            f"{_name(owner)} needs finite lengthscales > 0; got {value!r}. To leave a column out, "
            "write kernel.on(columns)."
        )
    if scales.min() < SMALLEST_LENGTHSCALE:
        raise ValueError(
            f"{_name(owner)} needs lengthscales above {SMALLEST_LENGTHSCALE:g}, beyond which 1/ℓ² "
            f"overflows; got {float(scales.min())!r}. Measure the points in a smaller unit."
        )


def check_coefficients(owner: object, name: str, values: Any) -> None:
    """Refuse anything but a list of nonnegative finite numbers, as a sum of kernels needs."""
    array = np.asarray(values)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiu":
        raise ValueError(f"{_name(owner)} needs a list of numbers as {name}; got {values!r}.")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(
            f"{_name(owner)} needs finite {name} ≥ 0; got {array.min()} among them: a negative one "
            "is not positive definite."
        )


# ---- samples ------------------------------------------------------------------------------------


def check_one_each(name: str, values: Array, rows: int) -> None:
    """Refuse anything but one number for each point."""
    if tuple(values.shape) != (rows,):
        raise ValueError(
            f"{name} must be one number for each of the {rows} points; got shape "
            f"{tuple(values.shape)}."
        )


def check_weights(
    weights: Array, rows: int, name: str = "weights", *, all_zero: bool = False
) -> None:
    """Refuse weights that are not one number ≥ 0 for each point, or, unless allowed, all zero."""
    check_one_each(name, weights, rows)
    xp = namespace(weights)
    if not bool(xp.all(xp.isfinite(weights) & (weights >= 0))):
        raise ValueError(f"{name} must be finite and nonnegative.")
    if not (all_zero or bool(xp.any(weights > 0))):
        raise ValueError(f"{name} must be nonnegative and not all zero.")


def refuse_targets(owner: object, y: Array, bad: Array, wanted: str, advice: str) -> None:
    """Refuse targets of which some are bad, and name the first of them."""
    xp = namespace(y)
    if xp.any(bad):
        index = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int32)))
        value = float(xp.reshape(y, (-1,))[index])
        raise ValueError(f"{_name(owner)} needs {wanted}; got {value:g} at index {index}. {advice}")


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__
