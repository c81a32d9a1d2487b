"""Gradients in the parameters of a kernel: Σ_t u_tᵀ(∂K/∂θ)v_t, and sums with any weights."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, as_numpy, beside, inner, namespace
from mercer.evaluation.constants import (
    OtherForm,
    Place,
    derivative_in,
    numbers_in,
    radial_slope,
    same_form,
)
from mercer.evaluation.execution import Names
from mercer.evaluation.expression import Expression, Number, X, Y
from mercer.evaluation.operations import derivative
from mercer.evaluation.parameters import TUNING, Tuning, rates_in, real_parameters
from mercer.points import View
from mercer.runtime.threads import single_threaded_blas


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
    execution: Products, left: Array, right: Array | None = None, names: Names = None
) -> dict[str, Any]:
    """Σ_t u_tᵀ(∂K/∂θ)v_t for every real parameter θ of the kernel, or some, by its name.

    Without `right`, `left` is a matrix P of weights, and the sum Σ_ij P_ij ∂k(x_i, y_j)/∂θ. A
    parameter of several numbers, as one lengthscale for each column, has a gradient of its shape.
    Those that change the form of the expression are left to `differences`; so are linear maps
    where there is a `right`.
    """
    if right is None:
        return _weighted_gradient(execution, left, names)

    def along(slope: Expression | None) -> float:
        if slope is None:
            return 0.0
        return inner(left, execution.product_with(slope, right))

    gradients: dict[str, Any] = {}
    for name, value in real_parameters(execution.kernel, names).items():
        slopes = slopes_in(execution.kernel, name, value) if np.ndim(value) < 2 else None
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

    def slope(tree: Expression, rates: list[tuple[Place, float]]) -> Expression | None:
        total: Expression | None = None
        for place, rate in rates:
            part = derivative_in(tree, place)
            if part is not None:
                total = rate * part if total is None else total + rate * part
        return total

    try:
        several = rates_in(kernel, kernel.expression(), name, value, tuning)
        return [slope(tree, rates) for tree, rates in several]
    except OtherForm:
        return None


def _weighted_gradient(execution: Products, weights: Array, names: Names) -> dict[str, Any]:
    """Σ_ij P_ij ∂k(x_i, y_j)/∂θ for every parameter, from a matrix for each constant."""
    kernel = execution.kernel
    expression = kernel.expression()
    sums = {id(expression): _Sums(execution, weights, expression)}
    gradients: dict[str, Any] = {}
    for name, value in real_parameters(kernel, names).items():
        try:
            if np.ndim(value) == 2:
                gradients[name] = sums[id(expression)].of_map(kernel, name, np.asarray(value))
                continue
            numbers = []
            for tree, rates in rates_in(kernel, expression, name, value):
                own = sums.setdefault(id(tree), _Sums(execution, weights, tree))
                numbers.append(sum(rate * own.of(place) for place, rate in rates))
        except OtherForm:
            continue
        gradients[name] = float(numbers[0]) if np.ndim(value) == 0 else np.array(numbers, float)
    return gradients


class _Sums:
    """Σ_ij P_ij ∂k/∂p for constants and scales p, each computed once."""

    def __init__(self, execution: Products, weights: Array, expression: Expression) -> None:
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
            return rates * self.term_sums(radial_slope(number), weights, x, y)
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

    def of_map(self, kernel: Any, name: str, matrix: np.ndarray) -> np.ndarray:
        """Σ_ij P_ij ∂k/∂A for a linear map A: the sum over all numbers that see points through A.

        Which rows of A each of them sees is told by a change of A.
        """
        change = np.random.default_rng(0).uniform(1.0, 2.0, matrix.shape)
        other = kernel.with_(**{name: matrix + change}).expression()
        if not same_form(self.expression, other, maps=True):
            raise OtherForm
        total = np.zeros(matrix.shape)
        pairs = zip(numbers_in(self.expression), numbers_in(other), strict=True)
        for number, twin in pairs:
            if number.view.matrix is None:
                continue
            moved = np.array(twin.view.matrix) - np.array(number.view.matrix)
            if not moved.any():
                continue
            near = (
                np.abs(moved[:, None, :] - change).max(axis=2)
                if moved.shape[1:] == change.shape[1:]
                else None
            )
            if near is None or number.view.unit or not (near.min(axis=1) < 1e-9).all():
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
            return scales * self.term_map_sums(
                number, self.weighted(self.factor_of(outer, number)), (x, y), (u, v)
            )
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

    def factor_of(self, outer: Expression, number: Number) -> Expression:
        """A product over coordinates is differentiated as its value times a sum."""
        return outer if number.kind == "coordinate_sum" else outer * number

    def term_map_sums(self, number: Number, weights: Array, points: Any, images: Any) -> Any:
        """The same for a sum or product of a term t over coordinates: Σ_ij W_ij (t_x x + t_y y)."""
        (x, y), (u, v), rows = points, images, []
        assert number.term is not None
        slopes = [derivative(number.term, side) for side in (X, Y)]
        for k in range(u.shape[1]):
            numbers, total = {X: u[:, k, None], Y: v[None, :, k]}, 0.0 * x[0]
            whole = (
                weights
                if number.kind == "coordinate_sum"
                else weights / self.execution.evaluate(number.term, numbers)
            )
            for axis, (slope, side) in enumerate(zip(slopes, (x, y), strict=True)):
                if slope is not None:
                    own = (whole * self.execution.evaluate(slope, numbers)).sum(axis=1 - axis)
                    total = total + own @ side
            rows.append(total)
        return namespace(x).stack(rows)


FEW_COLUMNS = 32  # up to which the threads of BLAS would wait longer than they work
SCALED = ("squared_distance", "product", "coordinate_sum")
