"""Data that are functionals of a function: its values, derivatives, integrals and averages.

A continuous linear functional L of the space of k has a representer, f_L = L_x k(x, ·), with
L(f) = ⟨f, f_L⟩. So functionals can stand where points do: the kernel k(L, M) = L_x M_y k(x, y) is
positive definite, and f = Σ α_i k(L_i, ·) is fitted to numbers L_i(f) as to values at points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from mercer.checks import check_count, check_finite
from mercer.evaluation.expression import (
    Expression,
    Number,
    X,
    Y,
    is_smooth,
    numbers_of,
    squared_distance,
)
from mercer.evaluation.operations import derivative, evaluate
from mercer.evaluation.reference import block
from mercer.functions import RKHSFunction
from mercer.kernels.algebra import Product, Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.calculus import Differentiable, on_functionals
from mercer.kernels.facts import Facts, unknown, yes
from mercer.kernels.radial import Radial, column_scales
from mercer.points import ObjectPoints, PointSet, VectorPoints, View

__all__ = [
    "Average",
    "Combination",
    "Derivative",
    "Evaluation",
    "Functional",
    "Integral",
    "OnFunctionals",
    "are_functionals",
]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)  # exact up to degree 31 on each piece


class Functional(Differentiable):
    """A linear functional L of f: L(f) = ⟨f, f_L⟩; its gradient at every f is the representer f_L.

    Functionals add up and take factors.

    >>> change = Evaluation([1.0]) - Evaluation([0.0])
    >>> 0.5 * change
    0.5 * Evaluation([1.0]) - 0.5 * Evaluation([0.0])
    >>> from mercer.kernels import Polynomial
    >>> change(Polynomial(degree=2, bias=0.0).function([[1.0]], [3.0]))  # f(x) = 3x²
    3.0
    """

    def representer(self, kernel: Kernel) -> RKHSFunction:
        """f_L = L_x k(x, ·): k(x, ·) for the evaluation at x."""
        if isinstance(self, Evaluation):
            return kernel.function([self.point], [1.0])
        return kernel.function([self], [1.0])

    def __call__(self, f: RKHSFunction) -> float:
        if isinstance(self, Evaluation):
            return float(f([self.point])[0])
        return float(on_functionals(f)([self])[0])

    def gradient(self, f: RKHSFunction) -> RKHSFunction:
        space: Any = f.kernel
        return self.representer(space)

    def terms(self) -> list[tuple[float, Functional]]:
        """Factors, and functionals that are no sums."""
        return [(1.0, self)]

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Functional):
            return super().__add__(other)
        return Combination((*self.terms(), *other.terms()))

    def __mul__(self, factor: float) -> Functional:
        check_finite("a functional", "factor", factor)
        return Combination(tuple((float(factor) * c, part) for c, part in self.terms()))

    __rmul__ = __mul__


@dataclass(frozen=True)
class Combination(Functional):
    """Σ c_i L_i, made by adding functionals.

    >>> len((Evaluation([0.0]) + 2.0 * Evaluation([1.0])).terms())
    2
    """

    parts: tuple[tuple[float, Functional], ...]

    def terms(self) -> list[tuple[float, Functional]]:
        return list(self.parts)

    def __repr__(self) -> str:
        shown = ""
        for factor, part in self.parts:
            sign = " - " if factor < 0 else " + "
            size = "" if abs(factor) == 1 else f"{abs(factor):g} * "
            shown += f"{sign}{size}{part!r}"
        return shown.removeprefix(" + ") if shown.startswith(" + ") else shown.strip()


@dataclass(frozen=True)
class Evaluation(Functional):
    """f(x): the evaluation functional, with the representer k(x, ·).

    >>> from mercer.kernels import Linear
    >>> Evaluation([2.0])(Linear().function([[3.0]], [1.0]))  # f(x) = 3x
    6.0
    """

    point: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", _vector("Evaluation", self.point))

    def __repr__(self) -> str:
        return f"Evaluation({list(self.point)})"


@dataclass(frozen=True)
class Derivative(Functional):
    """∂f/∂u at x: ⟨∇f(x), u⟩.

    Parameters
    ----------
    point : array of shape (columns,)
        x.
    direction : int or array of shape (columns,), default=0
        The number of a column, or u.

    Examples
    --------
    >>> from mercer.kernels import Polynomial
    >>> f = Polynomial(degree=2, bias=0.0).function([[1.0]], [1.0])  # f(x) = x²
    >>> Derivative([3.0])(f)
    6.0
    """

    point: Any
    direction: Any = 0

    def __post_init__(self) -> None:
        point = _vector("Derivative", self.point)
        object.__setattr__(self, "point", point)
        direction = np.asarray(self.direction, np.float64)
        if direction.ndim == 0:
            column = int(self.direction)
            if not 0 <= column < len(point):
                raise ValueError(
                    f"Derivative needs a column among 0, …, {len(point) - 1}, or a direction; got "
                    f"{self.direction!r}."
                )
            direction = np.eye(len(point))[column]
        if direction.shape != (len(point),):
            raise ValueError(
                f"Derivative needs a direction of {len(point)} numbers, as x has; got "
                f"{self.direction!r}."
            )
        object.__setattr__(self, "direction", tuple(direction.tolist()))


@dataclass(frozen=True)
class Integral(Functional):
    """∫ f(x) dx from low to high, in one column.

    Computed by Gauss's rule on pieces between all places where k(·, y) may have a kink, so that it
    is exact to rounding for splines, and nearly so for kernels that vary little within a piece.

    Parameters
    ----------
    low, high : float
    pieces : int, default=4
        The interval is cut at least so often; take more where it is many lengthscales long.

    Examples
    --------
    >>> from mercer.kernels import Polynomial
    >>> f = Polynomial(degree=2, bias=0.0).function([[1.0]], [1.0])  # f(x) = x²
    >>> round(Integral(0.0, 3.0)(f), 12)
    9.0
    """

    low: float
    high: float
    pieces: int = 4

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            check_finite(self, name, getattr(self, name))
        check_count(self, "pieces", self.pieces)
        if not self.low < self.high:
            raise ValueError(f"Integral needs low < high; got {self.low!r} and {self.high!r}.")

    def cuts(self) -> np.ndarray:
        return np.linspace(self.low, self.high, self.pieces + 1)


@dataclass(frozen=True)
class Average(Functional):
    """Σ w_i f(x_i)/Σw: the mean of f over some points, with weights where given.

    >>> Average([[0.0], [2.0]]).terms()
    [(0.5, Evaluation([0.0])), (0.5, Evaluation([2.0]))]
    """

    points: Any
    weights: Any = None

    def __post_init__(self) -> None:
        rows = np.atleast_2d(np.asarray(self.points, np.float64))
        weights = np.ones(len(rows)) if self.weights is None else self.weights
        shares = np.asarray(weights, np.float64)
        if shares.shape != (len(rows),) or not shares.sum():
            raise ValueError("Average needs one weight for each point, with a sum that is not 0.")
        object.__setattr__(self, "points", tuple(map(tuple, rows.tolist())))
        object.__setattr__(self, "weights", tuple((shares / shares.sum()).tolist()))

    def terms(self) -> list[tuple[float, Functional]]:
        return [(w, Evaluation(x)) for w, x in zip(self.weights, self.points, strict=True)]


def _vector(owner: str, point: Any) -> tuple[float, ...]:
    row = np.asarray(point, np.float64)
    if row.ndim > 1 or not np.isfinite(row).all():
        raise ValueError(f"{owner} needs one point, a vector of finite numbers; got {point!r}.")
    return tuple(np.atleast_1d(row).tolist())


def are_functionals(data: Any) -> bool:
    """Whether data are a list of functionals, or one.

    >>> are_functionals([Evaluation([0.0])]), are_functionals([[0.0]])
    (True, False)
    """
    if isinstance(data, (list, tuple)) and len(data):
        return any(isinstance(item, Functional) for item in data)
    return isinstance(data, Functional)


@dataclass(frozen=True, eq=False, repr=False)
class OnFunctionals(Kernel):
    """k(L, M) = L_x M_y k(x, y): the inner product of the representers of two functionals.

    Its points are lists of functionals; vectors x among them stand for f ↦ f(x). Made by
    `kernel.on_functionals()`.

    Parameters
    ----------
    kernel : Kernel
        k, on vectors.

    References
    ----------
    Wendland, Scattered Data Approximation, 2005, chapter 16.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> k = OnFunctionals(Gaussian())
    >>> k(Derivative([0.0]), Derivative([0.0]))  # −∂²k(x, 0)/∂x² at x = 0
    1.0
    """

    kernel: Kernel

    def __post_init__(self) -> None:
        if self.kernel.null_degree() is not None:
            raise ValueError(
                f"functionals need a positive definite kernel; {self.kernel!r} is one off "
                "polynomials only: use kernel.anchored(points)."
            )

    def points(self, data: Any) -> PointSet:
        if isinstance(data, ObjectPoints):
            return data
        if isinstance(data, VectorPoints):
            data = data.data
        items = [data] if isinstance(data, Functional) else list(data)
        return ObjectPoints([i if isinstance(i, Functional) else Evaluation(i) for i in items])

    def is_single(self, x: Any) -> bool:
        return isinstance(x, Functional)

    def check_points(self, points: PointSet) -> None:
        """Functionals are checked where they are made."""

    def facts(self, dimension: int | None = None) -> Facts:
        inner = self.kernel.facts(dimension).positive_definite
        known = super().facts(dimension)
        if inner.yes:
            return known.stating(positive_definite=yes("it is an inner product of representers"))
        return known.stating(positive_definite=unknown(inner.because, advice=inner.advice))

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        (left, rows), (right, columns) = (_taken_apart(self.kernel, points) for points in (x, y))
        blocks = [np.hstack([_pair(self.kernel, a, b) for b in right]) for a in left]
        return rows @ np.vstack(blocks) @ columns.T


# ---- blocks between functionals of one kind ------------------------------------------------------


class _AtPoints(NamedTuple):
    """Evaluations at points, or derivatives along directions."""

    points: Any
    directions: np.ndarray | None = None

    def places(self) -> np.ndarray:
        """Where k(·, y) may have a kink."""
        return np.asarray(self.points.data)[:, 0]


class _Spans(NamedTuple):
    """Integrals."""

    integrals: list[Integral]

    def places(self) -> np.ndarray:
        """All cuts, of which each integral covers the pieces between some."""
        return np.unique(np.concatenate([part.cuts() for part in self.integrals]))

    def cover(self, cuts: np.ndarray) -> np.ndarray:
        """Which pieces between the cuts belong to which integral."""
        middle = 0.5 * (cuts[1:] + cuts[:-1])
        ends = np.array([[part.low, part.high] for part in self.integrals])
        return ((ends[:, :1] < middle) & (middle < ends[:, 1:])).astype(float)


def _taken_apart(kernel: Kernel, points: Any) -> tuple[list[Any], Any]:
    """Functionals that are no sums, those of one kind together, and the factors that mix them."""
    kinds = (Evaluation, Derivative, Integral)
    every = [(i, *term) for i, functional in enumerate(points) for term in functional.terms()]
    groups = [[term for term in every if isinstance(term[2], kind)] for kind in kinds]
    values, slopes, integrals = ([part for _, _, part in group] for group in groups)
    widths = {len(part.point) for part in (*values, *slopes)} | ({1} if integrals else set())
    if len(widths) > 1:
        raise ValueError(
            f"functionals are about functions of one number of columns, integrals about those "
            f"of one column; got {sorted(widths)} columns."
        )
    parts: list[Any] = []
    if values:
        parts.append(_AtPoints(kernel.points(np.array([part.point for part in values]))))
    if slopes:
        at = kernel.points(np.array([part.point for part in slopes]))
        mixed_derivative(kernel, at.slice(0, 1), at.slice(0, 1))  # refuses kernels with kinks
        parts.append(_AtPoints(at, np.array([part.direction for part in slopes])))
    if integrals:
        parts.append(_Spans(integrals))
    rows, factors = np.array([term[:2] for group in groups for term in group]).reshape(-1, 2).T
    places = rows.astype(int), np.arange(len(every))
    return parts, scipy.sparse.csr_array((factors, places), shape=(len(points), len(every)))


def _pair(kernel: Kernel, a: Any, b: Any) -> np.ndarray:
    """L_x M_y k for all L of one kind and M of another."""
    if isinstance(a, _Spans):
        return _of_spans(kernel, a, b) if isinstance(b, _Spans) else _of_span(kernel, a, b)
    if isinstance(b, _Spans) or (a.directions is None and b.directions is not None):
        return _pair(kernel, b, a).T
    if a.directions is None:
        return np.asarray(kernel.block(a.points, b.points), np.float64)
    if b.directions is None:
        slopes = kernel.derivative(a.points, b.points)
        return np.einsum("nmk,nk->nm", slopes, a.directions)
    mixed = mixed_derivative(kernel, a.points, b.points)
    return np.einsum("nmab,na,mb->nm", mixed, a.directions, b.directions)


def _of_span(kernel: Kernel, a: _Spans, b: Any) -> np.ndarray:
    """Integrals against values or derivatives, by Gauss's rule between the places of these."""
    cuts = np.union1d(a.places(), b.places())
    nodes, weights = _rule(cuts[:-1], cuts[1:])
    values = _pair(kernel, _AtPoints(kernel.points(nodes.reshape(-1, 1))), b)
    pieces = (weights.reshape(-1, 1) * values).reshape(*nodes.shape, -1).sum(axis=1)
    return a.cover(cuts) @ pieces


def _of_spans(kernel: Kernel, a: _Spans, b: _Spans) -> np.ndarray:
    """Double integrals; on the square over a piece by itself the inner one is cut at x = y."""
    cuts = np.union1d(a.places(), b.places())
    nodes, weights = _rule(cuts[:-1], cuts[1:])
    points, count = kernel.points(nodes.reshape(-1, 1)), len(nodes)
    values = weights.reshape(-1, 1) * kernel.block(points, points) * weights.ravel()
    pieces = values.reshape(count, nodes.shape[1], count, nodes.shape[1]).sum(axis=(1, 3))
    for i in range(count):
        below, low_weights = _rule(np.full_like(nodes[i], cuts[i]), nodes[i])
        above, high_weights = _rule(nodes[i], np.full_like(nodes[i], cuts[i + 1]))
        inner, inner_weights = np.hstack([below, above]), np.hstack([low_weights, high_weights])
        at = [kernel.points(part.reshape(-1, 1)) for part in (nodes[i], inner)]
        own = kernel.block(*at).reshape(len(nodes[i]), *inner.shape)
        lines = np.einsum("ppr,pr->p", own, inner_weights)
        pieces[i, i] = weights[i] @ lines
    return a.cover(cuts) @ pieces @ b.cover(cuts).T


def _rule(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss's rule on intervals, one row for each."""
    half, middle = 0.5 * (high - low)[:, None], 0.5 * (high + low)[:, None]
    return middle + half * NODES, half * WEIGHTS


# ---- ∂²k/∂x_a∂y_b: what data that are derivatives need -------------------------------------------


def mixed_derivative(kernel: Kernel, x: Any, y: Any) -> np.ndarray:
    """∂²k(x_i, y_j)/∂x_i∂y_j as an array (n, m, columns, columns).

    Refused where the functions of the space need not have derivatives, or none is known. Radial
    kernels give their slope by `profile_slope`, without the singularity that it may have at x = y.
    """
    match kernel:
        case Sum(left, right):
            return mixed_derivative(left, x, y) + mixed_derivative(right, x, y)
        case Scaled(scale, inner):
            return float(scale) * mixed_derivative(inner, x, y)
        case Product(left, right):
            return _of_product(left, right, x, y)
        case Radial():
            s = squared_distance(View(scales=tuple(1.0 / column_scales(kernel, x.width))))
            slope = kernel.profile_slope(s)
            if slope is None:
                raise ValueError(
                    f"functions of the space of {kernel!r} need not have derivatives, so these are "
                    "no data to fit: choose a smoother kernel, as Matern(2.5) or Gaussian()."
                )
            return _by_chain_rule({s: slope}, x, y)
    expression = kernel.expression()
    if expression is None or not is_smooth(expression):
        raise ValueError(
            f"{kernel!r} has no known derivative in both points, which data that are derivatives "
            "need: choose a smooth kernel, as Gaussian() or Matern(2.5), or sums and products."
        )
    slopes = {number: derivative(expression, number) for number in numbers_of(expression)}
    return _by_chain_rule(slopes, x, y)


def _of_product(f: Kernel, g: Kernel, x: Any, y: Any) -> np.ndarray:
    """(fg)_ab = f_ab g + f_a g_b + f_b g_a + f g_ab."""
    values = [side.block(x, y)[:, :, None, None] for side in (f, g)]
    in_x = [side.derivative(x, y)[:, :, :, None] for side in (f, g)]
    in_y = [side.derivative(y, x).transpose(1, 0, 2)[:, :, None, :] for side in (f, g)]
    return (
        mixed_derivative(f, x, y) * values[1]
        + in_x[0] * in_y[1]
        + in_y[0] * in_x[1]
        + values[0] * mixed_derivative(g, x, y)
    )


def _by_chain_rule(slopes: Mapping[Number, Expression | None], x: Any, y: Any) -> np.ndarray:
    """Σ_i E_i ∂_a∂_b N_i + Σ_ij E_ij ∂_a N_i ∂_b N_j for the slopes E_i of k in its numbers N_i."""
    jets = {number: _jets(number, x, y) for number in slopes}
    total = np.zeros((len(x), len(y), x.width, x.width))
    for number, slope in slopes.items():
        if slope is None:
            continue
        in_x, _, both = jets[number]
        total += block(slope, x, y)[:, :, None, None] * both
        for other, (_, in_y, _) in jets.items():
            bend = derivative(slope, other)
            if bend is not None:
                # where ‖x − y‖ = 0, so are its slopes, and what is singular in g″ does not count
                second = np.nan_to_num(block(bend, x, y), posinf=0.0, neginf=0.0)
                total += second[:, :, None, None] * in_x[:, :, :, None] * in_y[:, :, None, :]
    return total


TERMS = {  # numbers of a pair as sums over coordinates
    "squared_distance": (X - Y) ** 2,
    "product": X * Y,
    "x_norm": X**2,
    "y_norm": Y**2,
}


def _jets(number: Number, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∂_a N, ∂_b N and ∂_a∂_b N of a sum or product N of terms t(x_k, y_k) over coordinates."""
    term: Any = TERMS.get(number.kind, number.term)
    a, b = (side.seen(number.view, np.float64) for side in (x, y))
    width = a.shape[1]

    def values(part: Expression | None) -> np.ndarray:
        at = {X: a[:, None, :], Y: b[None, :, :]}
        shape = len(a), len(b), width
        return np.broadcast_to(0.0 if part is None else evaluate(part, at), shape)

    slope = derivative(term, X)
    in_x, in_y = values(slope), values(derivative(term, Y))
    both = values(slope and derivative(slope, Y))[..., None] * np.eye(width)
    if number.kind == "coordinate_product":
        terms = values(term)
        others = np.stack([np.delete(terms, k, axis=-1).prod(axis=-1) for k in range(width)], -1)
        both *= others[..., None]
        for k, other in permutations(range(width), 2):
            rest = np.delete(terms, [k, other], axis=-1).prod(axis=-1)
            both[..., k, other] = in_x[..., k] * in_y[..., other] * rest
        in_x, in_y = in_x * others, in_y * others
    unit_vectors = x.made_of(np.eye(x.width), x.names)
    jacobian = unit_vectors.seen(number.view, np.float64).T  # of the linear map that a view is
    seen = np.einsum("ka,nmkl,lb->nmab", jacobian, both, jacobian)
    return in_x @ jacobian, in_y @ jacobian, seen
