"""Refusals of bad parameters and bad targets, one sentence each."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array, namespace
from mercer.losses.numerics import floating


def check_step(owner: object, step: Any) -> None:
    """Refuse steps that are not positive; arrays of steps are trusted."""
    if isinstance(step, (int, float)) and not step > 0:
        raise ValueError(
            f"the proximal map of {type(owner).__name__} needs a step > 0; got {step!r}."
        )


def finite_targets(owner: object, y: Array) -> Array:
    """Targets as real numbers; refuse what is none, and what is not finite."""
    y = _as_array(y)
    xp = namespace(y)
    if not xp.isdtype(y.dtype, ("bool", "integral", "real floating")):
        raise ValueError(
            f"{type(owner).__name__} needs targets that are numbers; got an array of {y.dtype}. "
            "Names of classes are turned into numbers first, as by numpy.unique(y, "
            "return_inverse=True)[1]."
        )
    numbers = floating(y)
    refuse_targets(owner, numbers, ~xp.isfinite(numbers), "finite targets", "Leave such rows out.")
    return numbers


def refuse_targets(owner: object, y: Array, bad: Array, wanted: str, advice: str) -> None:
    """Refuse targets of which some are bad, and name the first of them."""
    xp = namespace(y)
    if xp.any(bad):
        index = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int32)))
        value = float(xp.reshape(y, (-1,))[index])
        raise ValueError(
            f"{type(owner).__name__} needs {wanted}; got {value:g} at index {index}. {advice}"
        )


def _as_array(y: Any) -> Array:
    try:
        namespace(y)
    except TypeError:
        return np.asarray(y)
    return y
