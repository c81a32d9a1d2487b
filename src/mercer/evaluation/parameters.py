"""Derivatives of kernels in their parameters: Σ_t u_tᵀ(∂K/∂θ)v_t, and sums with any weights.

A kernel's expression holds constants p_i(θ) and scales s_j(θ) of coordinates. Both are read off the
expressions of the kernel at a few values of θ, which must be the same tree; then

    ∂k/∂θ = Σ_i (∂k/∂p_i) p_i'(θ) + Σ_j (∂k/∂s_j) s_j'(θ),

where the derivatives of k are exact, and p_i' and s_j' are differences of fourth order of smooth
functions of one number. The result is an expression like any other, so that fused code multiplies
by ∂K/∂θ without storing it.

A parameter that changes the tree, as the order of a Bessel function, and any of a kernel without an
expression, has `differences` of fourth order of the values of k. Whole numbers have no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.arrays import Array, as_numpy, beside, inner, namespace
from mercer.evaluation.execution import Names
from mercer.evaluation.expression import (
    Expression,
    Number,
    Operation,
    Parameter,
    X,
    Y,
    coordinate_sum,
    nodes_of,
    numbers_of,
    reciprocal_root,
)
from mercer.evaluation.operations import derivative
from mercer.points import View
from mercer.runtime.threads import single_threaded_blas

if TYPE_CHECKING:
    from mercer.evaluation.gradients import Differentiable


@dataclass(frozen=True)
class Tuning:
    """How constants are differentiated."""

    step: float = 1e-3  # relative to θ, or to 1 where θ is 0: the error of fourth order, 1e-12, is
    # then near the rounding, 2e-16/1e-3
    step_of_values: float = 3e-4  # the same for differences of values of k, which may vary faster:
    # a kernel with period θ whose points are N periods apart needs 2πN·step < 0.1 for seven digits.
    # Rounding is 1e-12 of k
    shift: float = 1e-12  # from a θ at which the tree is a special one, as a bias of 0, a period of
    # 1 or a list of lengthscales that two kernels have in common, to one whose tree is that of its
    # neighbours: the derivative there is taken for that at θ
    few_columns: int = 32  # up to which the threads of BLAS would wait longer than they work


TUNING = Tuning()
SCALED = ("squared_distance", "product", "coordinate_sum")

# Weights of θ + k·step in a difference of fourth order: on both sides, and on one.
CENTRAL = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
FORWARD = {0: -25 / 12, 1: 4.0, 2: -3.0, 3: 4 / 3, 4: -1 / 4}

Place = Parameter | tuple[Number, Parameter] | tuple[Number, int]
Rates = list[tuple[Place, float]]
Slot = tuple[int, ...]  # of one number in a parameter that is a list or a matrix; () for a number


class OtherForm(Exception):
    """Two expressions are not the same tree, or there is no kernel to compare with."""


# ---- parameters, and kernels with others beside them ---------------------------------------------


def real_parameters(kernel: Any, names: Names = None) -> dict[str, Any]:
    """The parameters in which a kernel may have derivatives: numbers, lists and matrices of them.

    All, or those with some names. A whole number is one of them where the kernel declares a float,
    as a lengthscale of 1. Matrices are those of linear maps.

    >>> from mercer.kernels import Polynomial
    >>> real_parameters(2.0 * Polynomial(3))
    {'scale': 2.0, 'kernel__bias': 1.0}
    """
    every = kernel.get_params(deep=True)
    asked = every if names is None else {name: every[name] for name in every if name in names}
    return {name: value for name, value in asked.items() if _is_real(kernel, every, name, value)}


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
        trees = [tree for tree, _ in rates_in(kernel, expression, name, value)]
    except OtherForm:
        return False
    return all(same_form(tree, expression) for tree in trees)


def moved(kernel: Any, name: str, value: Any, slot: Slot, entry: float) -> Any:
    """The kernel with one number of a parameter replaced; `OtherForm` where it refuses that."""
    changed: Any = entry
    if slot:
        changed = np.array(value, dtype=float)
        changed[slot] = entry
        changed = tuple(changed.tolist()) if len(slot) == 1 else changed
    try:
        return kernel.with_(**{name: changed})
    except ValueError as refusal:
        raise OtherForm from refusal


def around(
    kernel: Any, name: str, value: Any, slot: Slot, entry: float, width: float
) -> list[tuple[float, Any]]:
    """Kernels with values beside θ = entry of one number of a parameter, with their weights.

    Σ weight · k' is ∂k/∂θ to fourth order. At the edge of what the kernel admits all are on one
    side.

    >>> from mercer.kernels import Matern
    >>> beside = around(Matern(), "smoothness", 1.5, (), 1.5, 0.1)
    >>> [round(float(k.smoothness), 4) for _, k in beside]
    [1.3, 1.4, 1.6, 1.7]
    """
    for weights, step in ((CENTRAL, width), (FORWARD, width), (FORWARD, -width)):
        try:
            return [
                (weight / step, moved(kernel, name, value, slot, entry + k * step))
                for k, weight in weights.items()
            ]
        except OtherForm:
            continue
    raise OtherForm  # single values are admitted, and none beside them


def differences(kernel: Any, name: str, value: Any, form: Callable[[Any], float]) -> Any:
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
    for slot in np.ndindex(numbers.shape):
        entry = float(numbers[slot])
        width = TUNING.step_of_values * (abs(entry) or 1.0)
        try:
            others = around(kernel, name, value, slot, entry, width)
        except OtherForm:
            return None
        slopes[slot] = sum(weight * form(other) for weight, other in others)
    return slopes if slopes.shape else float(slopes)


# ---- constants of an expression, and how they move with a parameter ------------------------------


def constants_in(expression: Expression) -> Iterator[tuple[Place, float]]:
    """The constants of an expression and the scales of its numbers, in order of the tree."""
    for node in nodes_of(expression, twins=True):
        if isinstance(node, Parameter):
            yield node, node.value
        elif isinstance(node, Number):
            yield from (((node, j), scale) for j, scale in enumerate(node.view.scales or ()))
            inside = () if node.term is None else nodes_of(node.term)
            yield from (((node, p), p.value) for p in inside if isinstance(p, Parameter))


def same_form(first: Any, second: Any, maps: bool = False) -> bool:
    """Whether two expressions differ in their constants and scales alone, and in `maps`."""
    if type(first) is not type(second):
        return False
    match first:
        case Parameter():
            return True
        case Number():
            drop: dict[str, Any] = {"scales": None} | ({"matrix": None} if maps else {})
            views = (replace(side.view, **drop) for side in (first, second))
            counts = (len(side.view.scales or ()) for side in (first, second))
            same = first.kind == second.kind and len(set(views)) == len(set(counts)) == 1
            return same and same_form(first.term, second.term, maps)
        case Operation():
            compare = partial(same_form, maps=maps)
            heads = ((n.name, n.exponent, n.table, len(n.arguments)) for n in (first, second))
            return (
                len(set(heads)) == 1
                and all(map(compare, first.arguments, second.arguments))
                and compare(first.twin, second.twin)
            )
    return bool(first == second)


def rates_in(
    kernel: Any, expression: Expression, name: str, value: Any
) -> list[tuple[Expression, Rates]]:
    """The constants and scales that each number of a parameter moves, with rates, and their tree.

    Constants are known by identity. The tree is the expression given or, where that is a special
    case, the one of a value beside it.
    """
    found, numbers = [], np.asarray(value, dtype=float)
    for slot in np.ndindex(numbers.shape):
        entry = float(numbers[slot])
        size, tree = abs(entry) or 1.0, expression
        try:
            rates = _rates(tree, around(kernel, name, value, slot, entry, TUNING.step * size))
        except OtherForm:
            entry += TUNING.shift * size
            tree = moved(kernel, name, value, slot, entry).expression()
            rates = _rates(tree, around(kernel, name, value, slot, entry, TUNING.step * size))
        found.append((tree, rates))
    return found


def _rates(expression: Expression, kernels: list[tuple[float, Any]]) -> Rates:
    """The derivatives of constants and scales in one number θ, those that are not 0."""
    constants = list(constants_in(expression))
    rates, largest = np.zeros(len(constants)), 0.0
    for weight, kernel in kernels:
        tree = kernel.expression()
        others = [other for _, other in constants_in(tree)]
        # numbers that are equal for one θ are one number of the tree, and two for another θ
        if not same_form(expression, tree) or len(others) != len(constants):
            raise OtherForm
        rates += weight * np.array(others)
        largest = max(largest, abs(weight))
    return [
        (place, float(rate))
        for (place, size), rate in zip(constants, rates, strict=True)
        if abs(rate) > 1e-11 * largest * abs(size)  # else it is rounding of the difference
    ]


def derivative_in(expression: Expression, place: Place) -> Expression | None:
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
        raise OtherForm
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
    slopes = ((coordinate, derivative(number.term, coordinate)) for coordinate in (X, Y))
    first, *others = [coordinate * slope for coordinate, slope in slopes if slope is not None]
    return first + others[0] if others else first


# ---- gradients -----------------------------------------------------------------------------------


def parameter_gradient(
    execution: Differentiable, left: Array, right: Array | None, names: Names
) -> dict[str, Any]:
    """Σ_t u_tᵀ(∂K/∂θ)v_t for every real parameter θ of the kernel, or some, by its name.

    Without `right`, `left` is a matrix P of weights, and the sum Σ_ij P_ij ∂k(x_i, y_j)/∂θ. A
    parameter of several numbers, as one lengthscale for each column, has a gradient of its shape.
    Those that change the form of the expression are left to `differences`; so are linear maps
    where there is a `right`.
    """
    if right is None:
        return _weighted_gradient(execution, left, names)
    kernel: Any = execution.kernel
    expression, gradients = kernel.expression(), dict[str, Any]()
    for name, value in real_parameters(kernel, names).items():
        if np.ndim(value) == 2:
            continue
        try:
            slopes = [_slope(*one) for one in rates_in(kernel, expression, name, value)]
        except OtherForm:
            continue
        numbers = [
            0.0 if slope is None else inner(left, execution.product_with(slope, right))
            for slope in slopes
        ]
        gradients[name] = numbers[0] if np.ndim(value) == 0 else np.array(numbers)
    return gradients


def _slope(tree: Expression, rates: Rates) -> Expression | None:
    """∂k/∂θ for one number θ; None where it is 0."""
    total: Expression | None = None
    for place, rate in rates:
        part = derivative_in(tree, place)
        if part is not None:
            total = rate * part if total is None else total + rate * part
    return total


def _weighted_gradient(execution: Differentiable, weights: Array, names: Names) -> dict[str, Any]:
    """Σ_ij P_ij ∂k(x_i, y_j)/∂θ for every parameter, from a matrix for each constant."""
    kernel: Any = execution.kernel
    whole = _Sums(execution, weights, kernel.expression())
    sums = {whole.expression: whole}
    gradients: dict[str, Any] = {}
    for name, value in real_parameters(kernel, names).items():
        try:
            if np.ndim(value) == 2:
                gradients[name] = whole.of_map(kernel, name, np.asarray(value))
                continue
            numbers = []
            for tree, rates in rates_in(kernel, whole.expression, name, value):
                own = sums.setdefault(tree, _Sums(execution, weights, tree))
                numbers.append(sum(rate * own.of(place) for place, rate in rates))
        except OtherForm:
            continue
        gradients[name] = float(numbers[0]) if np.ndim(value) == 0 else np.array(numbers, float)
    return gradients


class _Sums:
    """Σ_ij P_ij ∂k/∂p for constants and scales p, each computed once."""

    def __init__(self, execution: Differentiable, weights: Array, expression: Expression) -> None:
        self.execution, self.weights, self.expression = execution, weights, expression
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
            slope = derivative_in(self.expression, place)
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
        few = x.shape[1] <= TUNING.few_columns
        ones = namespace(y).ones_like(y[:, :1])
        with single_threaded_blas() if few else nullcontext():
            sums = weights @ namespace(y).concat([y, ones], axis=1)  # read once for both
        across, own = (x * sums[:, :-1]).sum(axis=0), sums[:, -1:]
        if number.kind == "product":
            return 2.0 * rates * across
        other = weights.sum(axis=0)[:, None]
        return 2.0 * rates * ((own * x**2).sum(axis=0) + (other * y**2).sum(axis=0) - 2.0 * across)

    def term_sums(self, term: Expression, weights: Array, x: Array, y: Array) -> Array:
        compiled = self.execution.coordinate_moments
        if compiled is not None:
            return compiled(term, weights, x, y, np.ones((len(y), 1))).sum(axis=(0, 1))
        columns = [{X: x[:, k, None], Y: y[None, :, k]} for k in range(x.shape[1])]
        sums = [(weights * self.execution.evaluate(term, numbers)).sum() for numbers in columns]
        return namespace(x).stack(sums)

    def of_map(self, kernel: Any, name: str, matrix: np.ndarray) -> np.ndarray:
        """Σ_ij P_ij ∂k/∂A for a linear map A: the sum over all numbers that see points through A.

        Which rows of A each of them sees is told by a change of A.
        """
        change = np.random.default_rng(0).uniform(1.0, 2.0, matrix.shape)
        other = kernel.with_(**{name: matrix + change}).expression()
        numbers, twins = (numbers_of(tree, twins=True) for tree in (self.expression, other))
        # two maps that are equal are one number of the tree, and two after the change
        if not same_form(self.expression, other, maps=True) or len(numbers) != len(twins):
            raise OtherForm
        total = np.zeros(matrix.shape)
        for number, twin in zip(numbers, twins, strict=True):
            if number.view.matrix is None:
                continue
            difference = np.array(twin.view.matrix) - np.array(number.view.matrix)
            if not difference.any():
                continue
            if number.view.unit or difference.shape[1] != change.shape[1]:
                raise OtherForm
            near = np.abs(difference[:, None, :] - change).max(axis=2)
            if not (near.min(axis=1) < 1e-9).all():
                raise OtherForm  # A is multiplied by another map
            np.add.at(total, near.argmin(axis=1), as_numpy(self.map_sums(number)))
        return total

    def map_sums(self, number: Number) -> Any:
        """Σ_ij P_ij ∂k/∂B for a number of the points diag(s) B x."""
        outer = derivative(self.expression, number)
        view, sides = number.view, (self.execution.x, self.execution.y)
        x, y = (side.seen(View(view.columns), "float64") for side in sides)
        u, v = (side.seen(view, "float64") for side in sides)
        scales = 1.0 if view.scales is None else beside(view.scales, x)[:, None]
        if outer is None:
            return 0.0 * (u[:1].T @ x[:1])
        if number.kind.startswith("coordinate"):
            if number.kind == "coordinate_product":  # whose slope is its value times a sum
                outer = outer * number
            return scales * self.term_map_sums(number, self.weighted(outer), (x, y), (u, v))
        weights = self.weighted(outer)
        rows, columns = weights.sum(axis=1)[:, None], weights.sum(axis=0)[:, None]
        match number.kind:
            case "product":
                return scales * (u.T @ (weights @ y) + v.T @ (weights.T @ x))
            case "squared_distance":
                middle, image = y.mean(axis=0), v.mean(axis=0)
                x, y, u, v = x - middle, y - middle, u - image, v - image
                across = u.T @ (weights @ y) + v.T @ (weights.T @ x)
                return 2.0 * scales * (u.T @ (rows * x) + v.T @ (columns * y) - across)
            case "x_norm":
                return 2.0 * scales * (u.T @ (rows * x))
            case "y_norm":
                return 2.0 * scales * (v.T @ (columns * y))
        raise OtherForm

    def term_map_sums(self, number: Number, weights: Array, points: Any, images: Any) -> Any:
        """The same for a sum or product of a term t over coordinates: Σ_ij W_ij (t_x x + t_y y)."""
        (x, y), (u, v), rows = points, images, []
        assert number.term is not None
        slopes = [derivative(number.term, side) for side in (X, Y)]
        for k in range(u.shape[1]):
            numbers, total, whole = {X: u[:, k, None], Y: v[None, :, k]}, 0.0 * x[0], weights
            if number.kind == "coordinate_product":
                whole = weights / self.execution.evaluate(number.term, numbers)
            for axis, (slope, side) in enumerate(zip(slopes, (x, y), strict=True)):
                if slope is not None:
                    own = (whole * self.execution.evaluate(slope, numbers)).sum(axis=1 - axis)
                    total = total + own @ side
            rows.append(total)
        return namespace(x).stack(rows)
