"""The real parameters of kernels, and how the constants of their expressions move with them.

A kernel's expression holds constants p_i(θ) and scales s_j(θ) of coordinates. Both are read off the
expressions of the kernel at a few values of θ, which must be the same tree; then

    ∂k/∂θ = Σ_i (∂k/∂p_i) p_i'(θ) + Σ_j (∂k/∂s_j) s_j'(θ),

where the derivatives of k are exact, and p_i' and s_j' are differences of fourth order of smooth
functions of one number. The result is an expression like any other, so that fused code multiplies
by ∂K/∂θ without storing it (`parameter_gradients`).

A parameter that changes the tree, as the order of a Bessel function, and any of a kernel without an
expression, has `differences` of fourth order of the values of k. Whole numbers have no
derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np

from mercer.evaluation.constants import OtherForm, Place, constants_in, same_form
from mercer.evaluation.execution import Names
from mercer.evaluation.expression import Expression


@dataclass(frozen=True)
class Tuning:
    """How constants are differentiated."""

    step: float = 1e-3
    """Relative to θ, or to 1 where θ is 0: the error of fourth order, 1e-12, is then near the
    rounding, 2e-16/1e-3."""
    step_of_values: float = 3e-4
    """The same for differences of values of k, which may vary faster than constants do: a kernel
    with period θ whose points are N periods apart needs 2πN·step < 0.1 for seven digits. Rounding
    is 1e-12 of k."""
    shift: float = 1e-12
    """From a θ at which the tree is a special one, as a bias of 0 or a period of 1, to one whose
    tree is that of its neighbours: the derivative there is taken for that at θ."""


TUNING = Tuning()

# Weights of θ + k·step in a difference of fourth order: on both sides, and on one.
CENTRAL = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
FORWARD = {0: -25 / 12, 1: 4.0, 2: -3.0, 3: 4 / 3, 4: -1 / 4}


def real_parameters(kernel: Any, names: Names = None) -> dict[str, Any]:
    """The parameters in which a kernel may have derivatives: numbers, lists and matrices of them.

    All, or those with some names.

    A whole number is one of them where the kernel declares a float, as a lengthscale of 1. Matrices
    are those of linear maps.

    >>> from mercer.kernels import Polynomial
    >>> real_parameters(2.0 * Polynomial(3))
    {'scale': 2.0, 'kernel__bias': 1.0}
    """
    every = kernel.get_params(deep=True)
    asked = every if names is None else {name: every[name] for name in every if name in names}
    return {name: value for name, value in asked.items() if _is_real(kernel, every, name, value)}


def keeps_form(kernel: Any, name: str, value: Any) -> bool:
    """Whether the kernel is computed alike for all values of a parameter near this one.

    It is not where it has a closed form for this one alone, as Matérn kernels for half-integers.

    >>> from mercer.kernels import Matern
    >>> [keeps_form(Matern(1.5), *one) for one in (("smoothness", 1.5), ("lengthscale", 1.0))]
    [False, True]
    """
    expression = kernel.expression()
    if expression is None or np.ndim(value) == 2:
        return True
    try:
        return all(tree is expression for tree, _ in rates_in(kernel, expression, name, value))
    except OtherForm:
        return False


def _is_real(kernel: Any, every: dict[str, Any], name: str, value: Any) -> bool:
    owner, _, last = name.rpartition("__")
    holder = every[owner] if owner else kernel
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return last == "matrix" and hasattr(holder, "kernel")
    if isinstance(value, (str, bytes, dict)):
        return False
    declared = {part.name: str(part.type) for part in fields(holder)}.get(last, "")
    kinds = Real if "float" in declared or "Lengthscale" in declared else (float, np.floating)
    entries = np.atleast_1d(np.asarray(value, dtype=object))
    real = (isinstance(entry, kinds) and not isinstance(entry, bool) for entry in entries)
    return entries.ndim == 1 and entries.size > 0 and all(real)


def around(
    kernel: Any, name: str, value: Any, place: tuple[int, ...], entry: float, width: float
) -> list[tuple[float, Any]]:
    """Kernels with values beside θ = entry of one number of a parameter, with their weights.

    Σ weight · k' is ∂k/∂θ to fourth order. At the edge of what the kernel admits all are on one
    side.

    >>> from mercer.kernels import Matern
    >>> [
    ...     round(float(k.smoothness), 4)
    ...     for _, k in around(Matern(), "smoothness", 1.5, (), 1.5, 0.1)
    ... ]
    [1.3, 1.4, 1.6, 1.7]
    """
    for weights, step in ((CENTRAL, width), (FORWARD, width), (FORWARD, -width)):
        try:
            return [
                (weight / step, moved(kernel, name, value, place, entry + k * step))
                for k, weight in weights.items()
            ]
        except ValueError:
            continue
    raise OtherForm  # single values are admitted, and none beside them


def moved(kernel: Any, name: str, value: Any, place: tuple[int, ...], entry: float) -> Any:
    """The kernel with one number of a parameter replaced."""
    changed: Any = entry
    if place:
        changed = np.array(value, dtype=float)
        changed[place] = entry
    return kernel.with_(**{name: tuple(changed.tolist()) if len(place) == 1 else changed})


def differences(
    kernel: Any, name: str, value: Any, form: Callable[[Any], float], tuning: Tuning = TUNING
) -> Any:
    """∂/∂θ form(k) for every number θ of a parameter, by values of a form that is linear in k.

    None where no values beside θ are admitted.

    >>> from mercer.kernels import Matern
    >>> k = Matern(0.5)
    >>> slope = differences(k, "smoothness", 0.5, lambda other: other([0.0], [1.0]))
    >>> bool(k([0.0], [1.0]) < k.with_(smoothness=0.51)([0.0], [1.0])), slope > 0
    (True, True)
    """
    numbers = np.asarray(value, dtype=float)
    slopes = np.empty(numbers.shape)
    for place in np.ndindex(numbers.shape):
        entry = float(numbers[place])
        width = tuning.step_of_values * (abs(entry) or 1.0)
        try:
            others = around(kernel, name, value, place, entry, width)
        except OtherForm:
            return None
        slopes[place] = sum(weight * form(other) for weight, other in others)
    return slopes if slopes.shape else float(slopes)


def rates_in(
    kernel: Any, expression: Expression, name: str, value: Any, tuning: Tuning = TUNING
) -> list[tuple[Expression, list[tuple[Place, float]]]]:
    """The constants and scales that each number of a parameter moves, with rates, and their tree.

    Constants are known by identity. The tree is the expression given or, where that is a special
    case, the one of a value beside it.
    """
    found, numbers = [], np.asarray(value, dtype=float)
    for place in np.ndindex(numbers.shape):
        entry = float(numbers[place])
        size = abs(entry) or 1.0

        def rates(tree: Expression, at: float, place: Any = place, size: float = size) -> Any:
            others = around(kernel, name, value, place, at, tuning.step * size)
            return tree, _rates(tree, [(weight, k.expression()) for weight, k in others])

        try:
            found.append(rates(expression, entry))
        except OtherForm:
            nearby = entry + tuning.shift * size
            try:
                other = moved(kernel, name, value, place, nearby)
            except ValueError as refusal:
                raise OtherForm from refusal
            found.append(rates(other.expression(), nearby))
    return found


def _rates(
    expression: Expression, trees: list[tuple[float, Expression]]
) -> list[tuple[Place, float]]:
    """The derivatives of constants and scales in one number θ, those that are not 0."""
    constants = list(constants_in(expression))
    rates, largest = np.zeros(len(constants)), 0.0
    for weight, tree in trees:
        if not same_form(expression, tree):
            raise OtherForm
        rates += weight * np.array([other for _, other in constants_in(tree)])
        largest = max(largest, abs(weight))
    return [
        (place, float(rate))
        for (place, size), rate in zip(constants, rates, strict=True)
        if abs(rate) > 1e-11 * largest * abs(size)  # else it is rounding of the difference
    ]


# ---- constants of an expression, in order --------------------------------------------------------
