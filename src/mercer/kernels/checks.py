"""Refusals of bad parameters, one sentence each: what came, and what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import is_count, is_number


def check_positive(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a positive finite number."""
    if not (is_number(value) and value > 0):
        raise ValueError(
            f"{type(owner).__name__} needs a positive, finite {name}; got {value!r}. "
            f"Write for example {type(owner).__name__}({name}=1.0)."
        )


def check_nonnegative(owner: object, name: str, value: Any, reason: str = "") -> None:
    """Refuse anything but a nonnegative finite number."""
    if not (is_number(value) and value >= 0):
        because = f": {reason}" if reason else ""
        raise ValueError(
            f"{type(owner).__name__} needs a nonnegative, finite {name}; got {value!r}{because}."
        )


def check_finite_number(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a finite number."""
    if not is_number(value):
        raise ValueError(f"{type(owner).__name__} needs a finite {name}; got {value!r}.")


def check_count(owner: object, name: str, value: Any) -> None:
    """Refuse anything but a whole number from 1 on."""
    if not is_count(value):
        raise ValueError(
            f"{type(owner).__name__} needs a {name} that is a whole number from 1 on; got "
            f"{value!r}."
        )


def check_lengthscale(owner: object, value: Any) -> None:
    """Refuse lengthscales that are not positive and finite, one or one for each column."""
    if np.ndim(value) == 0:
        check_positive(owner, "lengthscale", value)
        return
    scales = np.asarray(value)
    if scales.ndim != 1 or scales.dtype.kind not in "fiu" or not len(scales):
        raise ValueError(
            f"{type(owner).__name__} needs one lengthscale, or a list with one for each column; "
            f"got {value!r}."
        )
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(
            f"{type(owner).__name__} needs positive, finite lengthscales; got {value!r}. To leave "
            "a column out, write kernel.on(columns)."
        )


def check_weights(owner: object, name: str, values: Any) -> None:
    """Refuse anything but a list of nonnegative finite numbers."""
    array = np.asarray(values)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"{type(owner).__name__} needs a list of numbers as {name}; got {values!r}."
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(
            f"{type(owner).__name__} needs nonnegative, finite {name}; got {array.min()} among "
            "them: a negative one is not positive definite."
        )
