"""Refusals of bad parameters, one sentence each: what was expected, what came, what to write."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; True and False are none.

    >>> is_number(1.5), is_number(float("nan")), is_number(True), is_number("1")
    (True, False, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from 1 on.

    >>> is_count(3), is_count(0), is_count(2.0), is_count(True)
    (True, False, False, False)
    """
    return isinstance(value, Integral) and is_number(value) and int(value) >= 1


def check_finite_number(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a finite number."""
    if not is_number(value):
        raise ValueError(f"{_name(owner)} needs a finite {name}; got {value!r}.")


def check_positive(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a positive finite number."""
    if not (is_number(value) and value > 0):
        raise ValueError(
            f"{_name(owner)} needs a finite {name} > 0; got {value!r}. Write for example "
            f"{_name(owner)}({name}=1.0)."
        )


def check_nonnegative(owner: object, name: str, value: Any, reason: str = "") -> None:
    """Refuse anything but a nonnegative finite number."""
    if not (is_number(value) and value >= 0):
        because = f": {reason}" if reason else ""
        raise ValueError(f"{_name(owner)} needs a finite {name} ≥ 0; got {value!r}{because}.")


def check_between(owner: object, name: str, value: Any, low: float, high: float) -> None:
    """Refuse anything but a number strictly between two others."""
    if not (is_number(value) and low < value < high):
        wanted = f"{name} > {low:g}" if high == math.inf else f"{low:g} < {name} < {high:g}"
        raise ValueError(f"{_name(owner)} needs a finite {wanted}; got {value!r}.")


def check_count(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a whole number from 1."""
    if not is_count(value):
        raise ValueError(f"{_name(owner)} needs a whole number {name} ≥ 1; got {value!r}.")


def check_lengthscale(owner: object, value: Any) -> None:
    """Refuse lengthscales that are not positive and finite, one or one for each column."""
    if np.ndim(value) == 0:
        check_positive(owner, "lengthscale", value)
        return
    scales = np.asarray(value)
    if scales.ndim != 1 or scales.dtype.kind not in "fiu" or not len(scales):
        raise ValueError(
            f"{_name(owner)} needs one lengthscale, or a list with one for each column; got "
            f"{value!r}."
        )
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(
            f"{_name(owner)} needs finite lengthscales > 0; got {value!r}. To leave a column out, "
            "write kernel.on(columns)."
        )


def check_weights(owner: object, name: str, values: Any) -> None:
    """Refuse anything but a list of nonnegative finite numbers."""
    array = np.asarray(values)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiu":
        raise ValueError(f"{_name(owner)} needs a list of numbers as {name}; got {values!r}.")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(
            f"{_name(owner)} needs finite {name} ≥ 0; got {array.min()} among them: a negative one "
            "is not positive definite."
        )


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__
