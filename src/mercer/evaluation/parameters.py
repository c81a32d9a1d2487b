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
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, beside, inner, namespace
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
from mercer.runtime.threads import single_threaded_blas


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

    x: Any
    y: Any

    def product_with(self, expression: Expression, values: Array) -> Array:
        """E V, E being the matrix of the values of an expression."""

    def values_of(self, expression: Expression, x: Any, y: Any) -> Array:
        """All values of an expression on points, stored."""

    def evaluate(self, term: Expression, numbers: Any) -> Array:
        """The values of a term in given coordinates."""


def parameter_gradient(
    execution: Products, left: Array, right: Array | None = None
) -> dict[str, Any]:
    """Σ_t u_tᵀ(∂K/∂θ)v_t for every real parameter θ of the kernel, by its name.

    Without `right`, `left` is a matrix P of weights, and the sum Σ_ij P_ij ∂k(x_i, y_j)/∂θ. A
    parameter of several numbers, as one lengthscale for each column, has a gradient of its shape.
    Parameters that change the form of the expression, as a smoothness, are left out.
    """
    if right is None:
        return _weighted_gradient(execution, left)

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
    expression = kernel.expression()

    def slope(rates: list[tuple[Place, float]]) -> Expression | None:
        total: Expression | None = None
        for place, rate in rates:
            part = _derivative(expression, place)
            if part is not None:
                total = rate * part if total is None else total + rate * part
        return total

    try:
        several = _rates_in(kernel, expression, name, value, tuning)
        return None if several is None else [slope(rates) for rates in several]
    except _OtherForm:
        return None


def _rates_in(
    kernel: Any, expression: Expression, name: str, value: Any, tuning: Tuning = TUNING
) -> list[list[tuple[Place, float]]] | None:
    """The constants and scales of an expression that each number of a parameter moves, with rates.

    Constants are known by identity, so that the expression is the one they are looked up in.
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

    return [_rates(expression, at(i), float(entry), tuning) for i, entry in enumerate(entries)]


class _OtherForm(Exception):
    """Two expressions are not the same tree."""


def _rates(
    expression: Expression, at: Callable[[float], Any], entry: float, tuning: Tuning
) -> list[tuple[Place, float]]:
    """The derivatives of constants and scales in one number θ, those that are not 0."""
    step = tuning.step * (abs(entry) or 1.0)
    weights, trees = _around(at, entry, step)
    constants = list(_constants(expression))
    rates = np.zeros(len(constants))
    for weight, tree in zip(weights, trees, strict=True):
        others = list(_constants(tree)) if _same_form(expression, tree) else []
        if len(others) != len(constants):
            raise _OtherForm
        rates += weight / step * np.array([other[1] for other in others])
    return [
        (place, float(rate))
        for (place, size), rate in zip(constants, rates, strict=True)
        if abs(rate) * step > 1e-11 * abs(size)  # else it is rounding of the difference
    ]


def _around(at: Callable[[float], Any], entry: float, step: float) -> tuple[list[float], list[Any]]:
    """Weights of a difference, and the expressions at its places."""
    try:
        return list(CENTRAL.values()), [at(entry + k * step) for k in CENTRAL]
    except ValueError:  # at the edge of what the kernel admits
        pass
    try:
        return list(FORWARD.values()), [at(entry + k * step) for k in FORWARD]
    except ValueError as refusal:  # single values are admitted, and none beside them
        raise _OtherForm from refusal


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


# ---- sums with a matrix of weights ---------------------------------------------------------------


def _weighted_gradient(execution: Products, weights: Array) -> dict[str, Any]:
    """Σ_ij P_ij ∂k(x_i, y_j)/∂θ for every parameter, from a matrix for each constant."""
    sums, kernel = _Sums(execution, weights), execution.kernel
    gradients: dict[str, Any] = {}
    for name, value in kernel.get_params(deep=True).items():
        try:
            several = _rates_in(kernel, sums.expression, name, value)
            if several is None:
                continue
            numbers = [sum(rate * sums.of(place) for place, rate in rates) for rates in several]
        except _OtherForm:
            continue
        gradients[name] = float(numbers[0]) if np.ndim(value) == 0 else np.array(numbers, float)
    return gradients


class _Sums:
    """Σ_ij P_ij ∂k/∂p for constants and scales p, each computed once."""

    def __init__(self, execution: Products, weights: Array) -> None:
        self.execution, self.weights = execution, weights
        self.expression = execution.kernel.expression()
        self.of_constants: dict[Place, float] = {}
        self.of_scales: dict[Number, Array | None] = {}

    def of(self, place: Place) -> float:
        if isinstance(place, tuple) and isinstance(place[1], int):
            number, j = place
            if number not in self.of_scales:
                self.of_scales[number] = self.scale_sums(number)
            scales = self.of_scales[number]
            if scales is not None:
                return float(scales[j])
        if place not in self.of_constants:
            slope = _derivative(self.expression, place)
            self.of_constants[place] = 0.0 if slope is None else inner(self.weights, self.at(slope))
        return self.of_constants[place]

    def at(self, expression: Expression) -> Array:
        return self.execution.values_of(expression, self.execution.x, self.execution.y)

    def weighted(self, expression: Expression) -> Array:
        """P_ij times the values of an expression, in place of these where that can be."""
        values = self.at(expression)
        fixed = isinstance(values, np.ndarray) and not values.flags.writeable  # one number for all
        if fixed or values.dtype != self.weights.dtype:
            return self.weights * values
        values *= self.weights
        return values

    def scale_sums(self, number: Number) -> Array | None:
        """Σ_ij P_ij ∂k/∂s_k for all scales s_k of a number at once, where products do it."""
        view = number.view
        outer = derivative(self.expression, number)
        if outer is None or view.unit or number.kind not in SCALED:
            return None
        weights = self.weighted(outer)
        x, y = (side.seen(view, "float64") for side in (self.execution.x, self.execution.y))
        rates = 1.0 / beside(view.scales, x)
        if number.kind == "coordinate_sum":
            return rates * self.term_sums(_radial_slope(number), weights, x, y)
        middle = y.mean(axis=0) if number.kind == "squared_distance" else 0.0
        x, y = x - middle, y - middle
        few = x.shape[1] <= FEW_COLUMNS
        ones = namespace(y).ones_like(y[:, :1])
        with single_threaded_blas() if few else nullcontext():
            sums = weights @ namespace(y).concat([y, ones], axis=1)  # read once for both
        across, own = (x * sums[:, :-1]).sum(axis=0), sums[:, -1:]
        if number.kind == "product":
            return 2.0 * rates * across
        other = weights.sum(axis=0)[:, None]
        return 2.0 * rates * ((own * x**2).sum(axis=0) + (other * y**2).sum(axis=0) - 2.0 * across)

    def term_sums(self, term: Expression, weights: Array, x: Array, y: Array) -> Array:
        compiled = getattr(self.execution, "coordinate_moments", None)
        if compiled is not None:
            return compiled(term, weights, x, y, np.ones((len(y), 1))).sum(axis=(0, 1))
        columns = [{X: x[:, k, None], Y: y[None, :, k]} for k in range(x.shape[1])]
        sums = [(weights * self.execution.evaluate(term, numbers)).sum() for numbers in columns]
        return namespace(x).stack(sums)


FEW_COLUMNS = 32  # up to which the threads of BLAS would wait longer than they work
SCALED = ("squared_distance", "product", "coordinate_sum")


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
    slope = _radial_slope(number)
    assert number.term is not None
    if number.kind == "coordinate_sum":
        return rate * coordinate_sum(slope, alone)
    return rate * (number * coordinate_sum(slope / number.term, alone))


def _radial_slope(number: Number) -> Expression:
    """x t_x + y t_y for the term t of a sum or product over coordinates."""
    assert number.term is not None
    parts = [
        coordinate * slope
        for coordinate in (X, Y)
        if (slope := derivative(number.term, coordinate)) is not None
    ]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]
