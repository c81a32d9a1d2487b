"""Constants and scales of an expression: which there are, and its derivatives in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

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

Place = Parameter | tuple[Number, Parameter] | tuple[Number, int]


class OtherForm(Exception):
    """Two expressions are not the same tree."""


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


def numbers_in(expression: Expression) -> list[Number]:
    """The numbers of an expression, in an order of the tree."""
    return list(dict.fromkeys(node for node in _nodes(expression) if isinstance(node, Number)))


def constants_in(expression: Expression) -> Iterator[tuple[Place, float]]:
    """The constants of an expression and the scales of its numbers, in an order of the tree."""
    for node in _nodes(expression):
        if isinstance(node, Parameter):
            yield node, node.value
    for number in numbers_in(expression):
        for j, scale in enumerate(number.view.scales or ()):
            yield (number, j), scale
        for node in _nodes(number.term) if number.term is not None else ():
            if isinstance(node, Parameter):
                yield (number, node), node.value


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
    slope = radial_slope(number)
    assert number.term is not None
    if number.kind == "coordinate_sum":
        return rate * coordinate_sum(slope, alone)
    return rate * (number * coordinate_sum(slope / number.term, alone))


def radial_slope(number: Number) -> Expression:
    """x t_x + y t_y for the term t of a sum or product over coordinates."""
    assert number.term is not None
    parts = [
        coordinate * slope
        for coordinate in (X, Y)
        if (slope := derivative(number.term, coordinate)) is not None
    ]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]
