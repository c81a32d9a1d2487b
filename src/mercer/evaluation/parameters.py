"""Derivatives of kernels in their parameters: ∂k/∂θ as another expression, for learning kernels.

A kernel's expression holds constants p_i(θ) and scales s_j(θ) of coordinates. Both are read off the
expressions of the kernel at a few values of θ, which must be the same tree; then

    ∂k/∂θ = Σ_i (∂k/∂p_i) p_i'(θ) + Σ_j (∂k/∂s_j) s_j'(θ),

where the derivatives of k are exact, and p_i' and s_j' are differences of fourth order of smooth
functions of one number. The result is an expression like any other, so that fused code multiplies
by ∂K/∂θ without storing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, inner
from mercer.evaluation.expression import (
    Expression,
    Number,
    Operation,
    Parameter,
    X,
    Y,
    coordinate_sum,
    reciprocal_root,
)
from mercer.evaluation.operations import derivative


@dataclass(frozen=True)
class Tuning:
    """How constants are differentiated."""

    step: float = 1e-3
    """Relative to θ, or to 1 where θ is 0: the error of fourth order, 1e-12, is then near the
    rounding, 2e-16/1e-3."""


TUNING = Tuning()

# Weights of θ + k·step in a difference of fourth order: on both sides, and on one.
CENTRAL = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
FORWARD = {0: -25 / 12, 1: 4.0, 2: -3.0, 3: 4 / 3, 4: -1 / 4}


class Products(Protocol):
    """An execution that multiplies by the matrix of another expression on its points."""

    kernel: Any

    def product_with(self, expression: Expression, values: Array) -> Array:
        """E V, E being the matrix of the values of an expression."""


def parameter_gradient(execution: Products, left: Array, right: Array) -> dict[str, Any]:
    """Σ_t u_tᵀ(∂K/∂θ)v_t for every real parameter θ of the kernel, by its name.

    A parameter of several numbers, as one lengthscale for each column, has a gradient of its shape.
    Parameters that change the form of the expression, as a smoothness, are left out.
    """

    def along(slope: Expression | None) -> float:
        if slope is None:
            return 0.0
        return inner(left, execution.product_with(slope, right))

    gradients: dict[str, Any] = {}
    for name, value in execution.kernel.get_params(deep=True).items():
        slopes = slopes_in(execution.kernel, name, value)
        if slopes is None:
            continue
        numbers = [along(slope) for slope in slopes]
        gradients[name] = numbers[0] if np.ndim(value) == 0 else np.array(numbers)
    return gradients


def slopes_in(
    kernel: Any, name: str, value: Any, tuning: Tuning = TUNING
) -> list[Expression | None] | None:
    """∂k/∂θ for each number θ of a parameter; None where it has no derivative of this form.

    >>> from mercer.kernels import Gaussian
    >>> (slope,) = slopes_in(Gaussian(2.0), "lengthscale", 2.0)
    >>> slope is None
    False
    """
    entries = np.atleast_1d(np.asarray(value, dtype=object))
    real = [isinstance(entry, Real) and not isinstance(entry, (bool, int)) for entry in entries]
    if entries.ndim != 1 or not entries.size or not all(real):
        return None

    def at(index: int) -> Callable[[float], Any]:
        def changed(entry: float) -> Any:
            if np.ndim(value) == 0:
                return kernel.with_(**{name: entry}).expression()
            others = [float(other) for other in entries]
            others[index] = entry
            return kernel.with_(**{name: tuple(others)}).expression()

        return changed

    try:
        return [_slope(kernel, at(i), float(entry), tuning) for i, entry in enumerate(entries)]
    except _OtherForm:
        return None


class _OtherForm(Exception):
    """Two expressions are not the same tree."""


def _slope(kernel: Any, at: Callable[[float], Any], entry: float, tuning: Tuning) -> Any:
    """∂k/∂θ at one number θ; None where it is identically zero."""
    step = tuning.step * (abs(entry) or 1.0)
    expression = kernel.expression()
    weights, trees = _around(at, entry, step)
    constants = list(_constants(expression))
    rates = np.zeros(len(constants))
    for weight, tree in zip(weights, trees, strict=True):
        others = list(_constants(tree)) if _same_form(expression, tree) else []
        if len(others) != len(constants):
            raise _OtherForm
        rates += weight / step * np.array([other[1] for other in others])
    total: Expression | None = None
    for (place, size), rate in zip(constants, rates, strict=True):
        if abs(rate) * step <= 1e-11 * abs(size):  # rounding of the difference
            continue
        part = _derivative(expression, place)
        if part is not None:
            total = float(rate) * part if total is None else total + float(rate) * part
    return total


def _around(at: Callable[[float], Any], entry: float, step: float) -> tuple[list[float], list[Any]]:
    """Weights of a difference, and the expressions at its places."""
    try:
        return list(CENTRAL.values()), [at(entry + k * step) for k in CENTRAL]
    except ValueError:  # at the edge of what the kernel admits
        return list(FORWARD.values()), [at(entry + k * step) for k in FORWARD]


# ---- constants of an expression, in order --------------------------------------------------------

Place = Parameter | tuple[Number, Parameter] | tuple[Number, int]


def _nodes(expression: Expression) -> Iterator[Expression]:
    """All nodes, the slopes' twins too; shared nodes once."""
    seen: set[int] = set()
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, Operation):
            waiting.extend(node.arguments)
            waiting.extend([node.twin] if node.twin is not None else [])


def _constants(expression: Expression) -> Iterator[tuple[Place, float]]:
    """The constants of an expression and the scales of its numbers, in an order of the tree."""
    numbers: dict[Number, None] = {}
    for node in _nodes(expression):
        if isinstance(node, Parameter):
            yield node, node.value
        elif isinstance(node, Number):
            numbers.setdefault(node)
    for number in numbers:
        for j, scale in enumerate(number.view.scales or ()):
            yield (number, j), scale
        for node in _nodes(number.term) if number.term is not None else ():
            if isinstance(node, Parameter):
                yield (number, node), node.value


def _same_form(first: Any, second: Any) -> bool:
    """Whether two expressions differ in their constants and scales alone."""
    if type(first) is not type(second):
        return False
    match first:
        case Parameter():
            return True
        case Number():
            views = (replace(side.view, scales=None) for side in (first, second))
            counts = (len(side.view.scales or ()) for side in (first, second))
            same = first.kind == second.kind and len(set(views)) == len(set(counts)) == 1
            return same and _same_form(first.term, second.term)
        case Operation():
            heads = ((n.name, n.exponent, n.table, len(n.arguments)) for n in (first, second))
            return (
                len(set(heads)) == 1
                and all(map(_same_form, first.arguments, second.arguments))
                and _same_form(first.twin, second.twin)
            )
    return bool(first == second)


# ---- derivatives in one constant -----------------------------------------------------------------


def _derivative(expression: Expression, place: Place) -> Expression | None:
    """∂k/∂p for a constant p; None where it is 0, or a twin that has slopes stands for p."""
    if isinstance(place, Parameter):
        return derivative(expression, place)
    number, what = place
    outer = derivative(expression, number)
    if outer is None:
        return None
    inside = (
        _term_slope(number, what) if isinstance(what, Parameter) else _scale_slope(number, what)
    )
    return None if inside is None else outer * inside


def _term_slope(number: Number, parameter: Parameter) -> Expression | None:
    """∂/∂p of a sum or product over coordinates; of a product, its value times Σ_k t'/t."""
    assert number.term is not None
    slope = derivative(number.term, parameter)
    if slope is None:
        return None
    if number.kind == "coordinate_sum":
        return coordinate_sum(slope, number.view)
    return number * coordinate_sum(slope / number.term, number.view)


def _scale_slope(number: Number, j: int) -> Expression:
    """∂/∂s_j of a number of the points s ∘ x: a number of coordinate j alone."""
    view = number.view
    assert view.scales is not None
    if view.unit:
        raise _OtherForm
    if view.matrix is not None:
        alone = replace(view, matrix=(view.matrix[j],), scales=(view.scales[j],))
    else:
        column = j if view.columns is None else view.columns[j]
        alone = replace(view, columns=(column,), scales=(view.scales[j],))
    rate = 1.0 / view.scales[j]
    match number.kind:
        case "product" | "squared_distance" | "x_norm" | "y_norm":
            return (2.0 * rate) * replace(number, view=alone)
        case "x_length" | "y_length":
            norm = number.kind.replace("length", "norm")
            return rate * (Number(norm, alone) * reciprocal_root(Number(norm, view)))
    assert number.term is not None
    parts = [
        coordinate * slope
        for coordinate in (X, Y)
        if (slope := derivative(number.term, coordinate)) is not None
    ]
    slope = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    if number.kind == "coordinate_sum":
        return rate * coordinate_sum(slope, alone)
    return rate * (number * coordinate_sum(slope / number.term, alone))
