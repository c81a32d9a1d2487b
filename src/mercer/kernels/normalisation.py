"""k(x, y)/√(k(x, x) k(y, y)) as an expression that stays in range where k itself overflows.

Every kernel made by sums, products, powers and exponentials of others is taken apart, and only
logarithms of diagonals are ever compared. With n_i the normalised terms of a sum,

    n = Σ_i n_i √(r_i(x) r_i(y)),   r_i(x) = k_i(x, x)/Σ_j k_j(x, x),

a product has n₁n₂, a power n^r, and exp(k) has exp(−½‖φ(x) − φ(y)‖²), where with
a = k(x, x), b = k(y, y)

    ½‖φ(x) − φ(y)‖² = ½(√a − √b)² + √(ab)(1 − n(x, y)).

What is subtracted is written so that it is exactly 0 at x = y.
"""

from __future__ import annotations

import math
import operator
from functools import reduce

import numpy as np

from mercer.evaluation.expression import (
    X_KINDS,
    Y_KINDS,
    Constant,
    Expression,
    Number,
    Operation,
    Parameter,
    absolute,
    decay,
    exp,
    log,
    log1p,
    maximum,
    minimum,
    numbers_of,
    own,
    reciprocal_root,
    sqrt,
    squared_distance,
    transformed,
)
from mercer.evaluation.operations import apply
from mercer.evaluation.rewrite import is_nonnegative

ONE_SIDED = X_KINDS + Y_KINDS
LEAST = 1e-300  # stands for 0 under a logarithm
LARGEST_EXPONENT = 80.0  # e^80 is in the range of float32; e^−(e^80·1e-16) is 0 in every precision
INFINITE_LOGARITHM = 1e30  # stands for a logarithm that overflows


def normalised(k: Expression) -> Expression | None:
    """The normalised kernel; None where k(x, x) has no expression."""
    return None if own(k, "x") is None else _normalised(transformed(k, _without_zero, twins=True))


def growth(k: Expression) -> float:
    """The power of ‖x‖² with which k(x, x) grows at most; ∞ for an exponential.

    >>> from mercer.evaluation.expression import product
    >>> growth(product() ** 3 + 1.0), growth(exp(product())), growth(decay(squared_distance()))
    (3.0, inf, 0.0)
    """
    match k:
        case Number(kind="product" | "x_norm" | "y_norm"):
            return 1.0
        case Number(kind="x_length" | "y_length"):
            return 0.5
        case Operation("multiply", (left, right)):
            return growth(left) + growth(right)
        case Operation("power", (base,), exponent):
            return exponent * growth(base)
        case Operation("exp", (inner,)):
            return math.inf if growth(inner) > 0 else 0.0
        case Operation("add" | "subtract" | "minimum" | "maximum" | "absolute", arguments):
            return max(map(growth, arguments))
        case Operation("sqrt", (inner,)):
            return 0.5 * growth(inner)
    return 0.0


def _without_zero(node: Expression) -> Expression:
    """x + 0 = x, as polynomials of a kernel have it."""
    match node:
        case Operation("add", (x, Parameter(0.0)) | (Parameter(0.0), x)):
            return x
    return node


def _is_composed(k: Expression) -> bool:
    """Whether k is made of parts that have a diagonal ≥ 0 each, and are looked at one by one."""
    match k:
        case Operation("add", _) if growth(k) <= 1:
            return False  # which is in range as it is
        case Operation("multiply" | "power" | "exp" | "add", parts, twin=None):
            owns = (transformed(_own(part, "x"), _folded) for part in parts)
            return k.name == "exp" or all(map(is_nonnegative, owns))
    return False


def _folded(node: Expression) -> Expression:
    """An operation on constants as a constant."""
    if not isinstance(node, Operation):
        return node
    known = [np.array([a.value]) for a in node.arguments if isinstance(a, Parameter)]
    if len(known) < len(node.arguments):
        return node
    with np.errstate(all="ignore"):
        return Parameter(float(apply(node, *known)[0]))


def _normalised(k: Expression) -> Expression:
    match k:
        case Parameter(value):
            return Constant(1.0 if value > 0 else 0.0)
        case _ if not _is_composed(k):
            return k * (reciprocal_root(_own(k, "x")) * reciprocal_root(_own(k, "y")))
        case Operation("multiply", (Parameter(value), inner)) if value > 0:
            return _normalised(inner)
        case Operation("multiply", (left, right)):
            return _normalised(left) * _normalised(right)
        case Operation("power", (base,), exponent):
            return _normalised(base) ** exponent
        case Operation("exp", (inner,)):
            return _normalised_exponential(inner)
        case Operation("add", (left, right)):
            (p, p_), (q, q_) = _shares(left, right)
            return _normalised(left) * (p * p_) + _normalised(right) * (q * q_)
    raise AssertionError(k)


def _normalised_exponential(k: Expression) -> Expression:
    """exp(−½‖φ(x) − φ(y)‖²)."""
    distances = _half_distances(k)
    if distances is not None:
        return decay(distances)
    if growth(k) == 0:
        return exp(k - 0.5 * (_own(k, "x") + _own(k, "y")))
    x, y = _log_own(k, "x"), _log_own(k, "y")
    lengths = 0.5 * _capped_exp(maximum(x, y)) * (1.0 - decay(0.5 * absolute(x - y))) ** 2
    return decay(lengths + _capped_exp(0.5 * (x + y)) * _defect(k))


def _capped_exp(x: Expression) -> Expression:
    return exp(minimum(x, LARGEST_EXPONENT))


def _shares(left: Expression, right: Expression) -> tuple[tuple[Expression, ...], ...]:
    """√r₁ at x and at y, and √r₂."""
    logs = [(_log_own(left, side), _log_own(right, side)) for side in "xy"]
    first = tuple(decay(0.5 * _softplus(b - a)) for a, b in logs)
    return first, tuple(decay(0.5 * _softplus(a - b)) for a, b in logs)


def _softplus(x: Expression) -> Expression:
    """log(1 + e^x) ≥ 0, in range with its slope for every x."""
    return maximum(x, 0.0) + log1p(decay(absolute(x)))


def _defect(k: Expression) -> Expression:
    """1 − n(x, y) ≥ 0, exactly 0 at x = y."""
    distances = _half_distances(k)
    if distances is not None:
        x, y = _own(k, "x"), _own(k, "y")
        rest = maximum(distances - 0.5 * (sqrt(x) - sqrt(y)) ** 2, 0.0)
        return rest * (reciprocal_root(x) * reciprocal_root(y))
    match k:
        case _ if not _is_composed(k) or any(n.kind in ONE_SIDED for n in numbers_of(k)):
            return maximum(1.0 - _normalised(k), 0.0)  # parts in x or y alone are no kernels
        case Operation("multiply", (Parameter(value), inner)) if value > 0:
            return _defect(inner)
        case Operation("multiply", (left, right)):
            return _defect(left) + _normalised(left) * _defect(right)
        case Operation("power", (base,), exponent):
            n, terms = _normalised(base), Constant(1.0) + Constant(0.0)
            for _ in range(exponent - 1):  # 1 + n + … + n^(r−1)
                terms = 1.0 + n * terms
            return _defect(base) * terms
        case Operation("add", (left, right)):
            (p, p_), (q, q_) = _shares(left, right)
            apart = 0.5 * ((p - p_) ** 2 + (q - q_) ** 2)
            return _defect(left) * (p * p_) + _defect(right) * (q * q_) + apart
    return maximum(1.0 - _normalised(k), 0.0)


def _log_own(k: Expression, side: str) -> Expression:
    """log k(x, x), or log k(y, y)."""
    match k:
        case _ if not _is_composed(k):
            return log(maximum(_own(k, side), LEAST))
        case Operation("multiply", (left, right)):
            return _log_own(left, side) + _log_own(right, side)
        case Operation("power", (base,), exponent):
            return float(exponent) * _log_own(base, side)
        case Operation("exp", (inner,)):
            value = _own(inner, side)
            return minimum(value, INFINITE_LOGARITHM) if growth(inner) > 1 else value
        case Operation("add", (left, right)):
            a, b = _log_own(left, side), _log_own(right, side)
            return a + _softplus(b - a)
    raise AssertionError(k)


def _own(k: Expression, side: str) -> Expression:
    value = own(k, side)
    assert value is not None  # `normalised` looked
    return value


def mixed(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """Σ_i n_i √(r_i(x) r_i(y)) of blocks n_i, with log k_i(x, x) and log k_i(y, y) beside each."""
    totals = [np.logaddexp.reduce([part[side] for part in parts]) for side in (1, 2)]
    values: np.ndarray = np.zeros(())
    for block, *logs in parts:
        with np.errstate(invalid="ignore"):  # −∞ − (−∞), where k(x, x) = 0
            x, y = (np.exp(0.5 * (own - all_)) for own, all_ in zip(logs, totals, strict=True))
        values = values + x[:, None] * block * y
    return values


def _half_distances(k: Expression) -> Expression | None:
    """½‖φ(x) − φ(y)‖² of sums of multiples of ⟨x, y⟩ and constants; None for any other."""
    parts = _terms(k, 1.0)
    return reduce(operator.add, parts) if parts else None


def _terms(k: Expression, factor: float) -> list[Expression] | None:
    match k:
        case Parameter():
            return []
        case Number(kind="product", view=view):
            return [0.5 * factor * squared_distance(view)]
        case Operation("add", (left, right)):
            parts = _terms(left, factor), _terms(right, factor)
            return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
        case Operation("multiply", (Parameter(value=scale), inner)) if scale >= 0:
            return _terms(inner, factor * scale)
    return None
