"""Refusals of bad numbers, one sentence each: what was expected, and what came."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


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


def check_positive(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a positive finite number."""
    check_between(owner, name, value, 0.0, math.inf)


def check_nonnegative(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a nonnegative finite number."""
    if not (is_number(value) and value >= 0):
        raise ValueError(f"{_name(owner)} needs a finite {name} ≥ 0; got {value!r}.")


def check_between(owner: object, name: str, value: Any, low: float, high: float) -> None:
    """Refuse anything but a number strictly between two others."""
    if not (is_number(value) and low < value < high):
        wanted = f"{name} > {low:g}" if high == math.inf else f"{low:g} < {name} < {high:g}"
        raise ValueError(f"{_name(owner)} needs a finite {wanted}; got {value!r}.")


def check_count(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a whole number from 1."""
    if not is_count(value):
        raise ValueError(f"{_name(owner)} needs a whole number {name} ≥ 1; got {value!r}.")


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__
