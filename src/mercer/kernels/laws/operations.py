"""How facts pass through operations: a class for each operation, a rule for each fact.

Sums, products and multiples come first, then functions of a kernel, then transformed points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.kernels.facts import Answer, Facts, constant_facts, first, no, unknown, yes
from mercer.kernels.measures import Images, Mixture, Normal, SpectralMeasure, Zero


def with_payload(answer: Answer, function: Callable[[Any], Any]) -> Answer:
    """An answer with its payload sent through a function."""
    return answer if answer.payload is None else replace(answer, payload=function(answer.payload))


class Law(Facts):
    """Facts of a kernel that is made of others, its `sides`; it is definite where all of them are.

    Facts that `same` names are handed on: by one side as they are, by two where both have them.
    """

    same: tuple[str, ...] = ()
    definite, otherwise = "", ""  # why it is positive definite, and what is open elsewhere
    inner: Facts  # the only side, where there is one

    def __init__(self, kernel: Any, dimension: int | None, *sides: Facts) -> None:
        super().__init__(kernel, dimension)
        self.sides, self.inner = sides, sides[0]

    @classmethod
    def of(cls, kernel: Any, dimension: int | None, inner: Facts, *details: Any) -> Facts:
        """The facts of an operation on one kernel, where a constant stays one."""
        if inner.constant is not None:
            return constant_facts(kernel, cls.of_constant(inner.constant), dimension)
        return cls(kernel, dimension, inner, *details)

    @staticmethod
    def of_constant(value: float) -> float:
        """What the operation makes of a constant."""
        return value

    @cached_property
    def positive_definite(self) -> Answer:
        for side in self.sides:
            answer = side.positive_definite
            if not answer.yes:
                return unknown(f"{self.otherwise}: {answer.because}", advice=answer.advice)
        return yes(self.definite)

    def _value(self, name: str) -> Any:
        if name not in self.same:
            return None
        values = [getattr(side, name) for side in self.sides]
        return values[0] if len(values) == 1 else all(values)

    def unless_mended(self, answer: Answer, otherwise: str) -> Answer:
        """A yes as it is, anything else as unknown: the operation may mend a fault."""
        return answer if answer.yes else unknown(otherwise, advice=answer.advice)


# ---- multiples, sums, products -------------------------------------------------------------------


def of_multiple(kernel: Any, factor: float, inner: Facts) -> Facts:
    """The facts of c·k with c ≥ 0."""
    if factor == 0 or inner.constant is not None:
        return constant_facts(kernel, factor * (inner.constant or 0.0), inner.dimension)
    return MultipleLaws(kernel, factor, inner)


class MultipleLaws(Facts):
    """c·k with c > 0: the functions of k, with another norm."""

    like: Facts

    def __init__(self, kernel: Any, factor: float, like: Facts) -> None:
        super().__init__(kernel, like.dimension, like)
        self.factor = float(factor)

    @cached_property
    def bounded(self) -> Answer:
        return with_payload(self.like.bounded, lambda value: self.factor * value)

    @cached_property
    def spectral_density(self) -> Answer:
        def times(measure: SpectralMeasure) -> SpectralMeasure:
            return replace(measure, total=self.factor * measure.total)

        return with_payload(self.like.spectral_density, times)

    @cached_property
    def fourier_weights(self) -> Answer:
        return with_payload(self.like.fourier_weights, lambda weights: self.factor * weights)


class _PairLaws(Law):
    """The base of the laws of sums and products."""

    part = ""
    same: tuple[str, ...] = ("positive_values", "constant_diagonal", "vanishes")

    def __init__(self, kernel: Any, left: Facts, right: Facts) -> None:
        super().__init__(kernel, left.dimension, left, right)
        self.left, self.right = left, right

    def both_ways(self) -> Iterator[tuple[Facts, Facts]]:
        yield self.left, self.right
        yield self.right, self.left

    def cannot_hide(self, side: Facts) -> bool:
        """Whether a change of the other side is one of the whole."""
        raise NotImplementedError

    def unchanged(self, name: str) -> Answer:
        """Whether shifts, or motions, change nothing."""
        if all(getattr(side, name).yes for side in self.sides):
            return yes(f"both {self.part}s are {name}")
        for side, other in self.both_ways():
            changes = getattr(other, name)
            if getattr(side, name).yes and changes.no and self.cannot_hide(side):
                return no(f"one {self.part} is {name}, the other is not: {changes.because}")
        return first(
            self._growing,
            unknown(f"the {self.part}s are not known to be {name}; what they change could cancel"),
        )

    @cached_property
    def stationary(self) -> Answer:
        return self.unchanged("stationary")

    @cached_property
    def isotropic(self) -> Answer:
        return first(self._by_shifts, self.unchanged("isotropic"))

    @cached_property
    def finite_features(self) -> Answer:
        if all(side.finite_features.yes for side in self.sides):
            return yes(f"both {self.part}s have finitely many features")
        return unknown(f"a {self.part} is not known to have finitely many features")

    @cached_property
    def columns(self) -> frozenset[Any] | None:
        left, right = self.left.columns, self.right.columns
        return None if left is None or right is None else left | right

    @cached_property
    def period(self) -> float | None:
        """The common one, where both look at one and the same column."""
        seen = {side.columns for side in self.sides if side.constant is None}
        left, right = self.left.period, self.right.period
        if len(seen) > 1 and self.dimension != 1:
            return None
        if left is None or right is None or (left != right and 0.0 not in (left, right)):
            return None
        return max(left, right)

    def weights(self, reason: str, operation: Callable[[Any, Any], Any]) -> Answer:
        left, right = (side.fourier_weights for side in self.sides)
        if not (left.yes and right.yes):
            return first(self._shifted, unknown("a part has no known Fourier weights"))
        if self.period is None:
            return unknown("its parts have different periods, or look at different columns")
        return yes(reason, operation(left.payload, right.payload))

    def totals(self, operation: Callable[[float, float], float]) -> float | None:
        """R² from those of both sides."""
        left, right = (side.bounded.payload for side in self.sides)
        return None if left is None or right is None else float(operation(left, right))


def of_sum(kernel: Any, left: Facts, right: Facts) -> Facts:
    """The facts of k₁ + k₂; adding zero changes nothing."""
    if left.constant is not None and right.constant is not None:
        return constant_facts(kernel, left.constant + right.constant, left.dimension)
    if 0 in (left.constant, right.constant):
        return Facts(kernel, left.dimension, right if left.constant == 0 else left)
    return SumLaws(kernel, left, right)


class SumLaws(_PairLaws):
    """k₁ + k₂: its functions are the sums f₁ + f₂. Neither is constant zero."""

    part = "summand"
    definite = "a sum of positive definite kernels is one"
    otherwise = "one side of the sum is not known to be positive definite"

    def cannot_hide(self, side: Facts) -> bool:
        return True

    @cached_property
    def bounded(self) -> Answer:
        if all(side.bounded.yes for side in self.sides):
            return yes("both summands are bounded", self.totals(lambda a, b: a + b))
        for side, other in self.both_ways():
            if side.bounded.no and (other.bounded.no or other.positive_definite.yes):
                reason = side.bounded.because
                return no(f"one summand is unbounded and the other is not negative: {reason}")
        return unknown("a summand is not known to be bounded")

    @cached_property
    def dense(self) -> Answer:
        for side, other in self.both_ways():
            seen, whole = side.columns, self.columns
            sees_all = seen is None or not side.blind or (whole is not None and whole <= seen)
            if side.dense.yes and other.positive_definite.yes and sees_all:
                return yes("its space contains that of a universal summand")
        return first(self._small, unknown("no summand is known to be universal"))

    @cached_property
    def universal(self) -> Answer:
        if all(summand.blind for summand in self.summands()):
            return no("no summand sees all columns together, so interactions are missing")
        return super().universal

    def summands(self) -> Iterator[Facts]:
        """All of them, without positive factors."""
        for side in self.sides:
            bare = side
            while bare.like is not None:
                bare = bare.like
            yield from bare.summands() if isinstance(bare, SumLaws) else [bare]

    @cached_property
    def sobolev_order(self) -> Answer:
        """The rougher summand decides, unless it repeats and the other one does not.

        Then f(x + period) − f(x) is as smooth as the smoother summand for all f of the space.
        """
        if not all(side.sobolev_order.yes for side in self.sides):
            return unknown("a summand has no known order")
        rough, smooth = sorted(self.sides, key=lambda side: side.sobolev_order.payload)
        order = rough.sobolev_order.payload
        if order == smooth.sobolev_order.payload == math.inf or rough.period is None:
            return yes("the rougher summand decides", order)
        if smooth.period is not None and self.period is None:
            return unknown("its summands have different periods")
        if smooth.period is None and order < smooth.sobolev_order.payload:
            return no("its rough functions repeat with the period, the others do not")
        return yes("the rougher summand decides", order)

    @cached_property
    def spectral_density(self) -> Answer:
        left, right = (side.spectral_density for side in self.sides)
        if left.payload is not None and right.payload is not None:
            total = left.payload.total + right.payload.total
            measure = Mixture(left.payload.dimension, total, (left.payload, right.payload))
            return Answer(measure.has_density, "spectral measures add up", measure)
        measures = all(side.stationary.yes and side.positive_definite.yes for side in self.sides)
        if measures and (left.no or right.no):
            return no("mass without a density in one summand stays there")
        return first(self._shifted, unknown("a summand has no known spectral measure"))

    @cached_property
    def fourier_weights(self) -> Answer:
        return self.weights("weights 1/c_m add up", lambda left, right: left + right)

    @cached_property
    def separates(self) -> bool:
        return any(a.separates and b.positive_definite.yes for a, b in self.both_ways())


def of_product(kernel: Any, left: Facts, right: Facts) -> Facts:
    """The facts of k₁·k₂; a constant factor makes a multiple."""
    for side, other in ((left, right), (right, left)):
        if side.constant is not None:
            return of_multiple(kernel, side.constant, other)
    return ProductLaws(kernel, left, right)


class ProductLaws(_PairLaws):
    """k₁·k₂: the kernel of the tensor product. Neither is constant."""

    part = "factor"
    definite = "a product of positive definite kernels is one"
    otherwise = "one side of the product is not known to be positive definite"

    def cannot_hide(self, side: Facts) -> bool:
        return side.positive_values

    @cached_property
    def bounded(self) -> Answer:
        if all(side.bounded.no for side in self.sides):
            return no("both factors are unbounded, in the same directions")
        for side, other in self.both_ways():
            if side.bounded.no and other.constant_diagonal:
                reason = side.bounded.because
                return no(f"one factor is unbounded, the diagonal of the other constant: {reason}")
        if all(side.bounded.yes for side in self.sides) and self.positive_definite.yes:
            return yes("both factors are bounded", self.totals(lambda a, b: a * b))
        return unknown("a factor is not known to be bounded")

    @cached_property
    def dense(self) -> Answer:
        if all(side.dense.yes for side in self.sides):
            return yes("products of functions from two dense spaces are dense")
        return first(self._small, unknown("not both factors are known to be universal"))

    @cached_property
    def sobolev_order(self) -> Answer:
        """Spectral densities are convolved, which a rough factor that repeats has none of."""
        if not all(side.sobolev_order.yes for side in self.sides):
            return unknown("a factor has no known order")
        rough, smooth = sorted(self.sides, key=lambda side: side.sobolev_order.payload)
        order = rough.sobolev_order.payload
        if math.isinf(order):
            return yes("its functions have derivatives of every order", order)
        if not self.stationary.yes:
            return unknown("the factor that is not stationary may vanish somewhere")
        repeats = rough.period is not None and self.period is None
        if repeats and not smooth.spectral_density.yes:
            return unknown("its rough factor repeats with a period, the product does not")
        return yes("spectral measures are convolved, and the slower decay decides", order)

    @cached_property
    def spectral_density(self) -> Answer:
        left, right = (side.spectral_density.payload for side in self.sides)
        if left is None or right is None:
            return first(self._shifted, unknown("a factor has no known spectral measure"))
        measure = _convolution(left, right)
        return Answer(measure.has_density, "spectral measures are convolved", measure)

    @cached_property
    def fourier_weights(self) -> Answer:
        return self.weights("weights 1/c_m are convolved", lambda left, right: left * right)


def _convolution(left: Any, right: Any) -> SpectralMeasure:
    """Sums of independent frequencies."""
    dimension, total = left.dimension, left.total * right.total
    for point, other in ((left, right), (right, left)):
        if isinstance(point, Zero):
            return replace(other, total=total)
    if isinstance(left, Normal) and isinstance(right, Normal):
        scales = (np.square(left.lengthscales) ** -1 + np.square(right.lengthscales) ** -1) ** -0.5
        return Normal(dimension, total, scales)
    parts = [side.parts if isinstance(side, Images) else [side] for side in (left, right)]
    every = [list(range(dimension))]
    maps = [side.maps if isinstance(side, Images) else every for side in (left, right)]
    return Images(dimension, total, [*parts[0], *parts[1]], [*maps[0], *maps[1]])


# ---- functions of a kernel: exp(k), p(k), k(x, y)/√(k(x, x) k(y, y)) -----------------------------


class _FunctionLaws(Law):
    """The base of the laws of functions of one kernel."""

    same: tuple[str, ...] = ("columns", "period", "constant_diagonal")
    constant_term = True

    def dense_where_inner_is(self, reason: str) -> Answer:
        if self.inner.dense.yes:
            return yes(reason)
        return first(self._small, unknown("k is not known to be universal"))

    @cached_property
    def sobolev_order(self) -> Answer:
        order = self.inner.sobolev_order
        if not order.yes:
            return unknown("k has no known order")
        if math.isinf(order.payload) or self.inner.stationary.yes:
            return yes("powers of k are as smooth as k", order.payload)
        return unknown("k is not known to be stationary")

    @cached_property
    def spectral_density(self) -> Answer:
        if self.constant_term and self.stationary.yes and self.positive_definite.yes:
            return no("its constant term puts mass at frequency 0")
        return first(self._shifted, unknown("convolution powers are not computed"))


class ExponentialLaws(_FunctionLaws):
    """exp(k) = Σ_n kⁿ/n!, which is one to one: what changes k changes it."""

    same = (*_FunctionLaws.same, "stationary", "isotropic")
    definite = "exp(k) = Σ kⁿ/n! is a sum of products of positive definite kernels"
    otherwise = "exp(k) can be positive definite where k is not known to be"
    positive_values = True

    @staticmethod
    def of_constant(value: float) -> float:
        return math.exp(value) if value < 709.0 else math.inf

    @cached_property
    def bounded(self) -> Answer:
        return with_payload(self.inner.bounded, self.of_constant)

    @cached_property
    def dense(self) -> Answer:
        if self.inner.separates and self.inner.positive_definite.yes:
            return yes("its space holds all polynomials of functions that separate points")
        return unknown("the functions of k are not known to separate points")


def of_polynomial(kernel: Any, coefficients: Sequence[float], inner: Facts) -> Facts:
    """The facts of p(k); constants and multiples of k are known as such."""
    lowest, *higher = coefficients
    if not any(higher) or inner.constant is not None:
        value = np.polynomial.Polynomial(coefficients)(inner.constant or 0.0)
        return constant_facts(kernel, float(value), inner.dimension)
    if not lowest and not any(higher[1:]):
        return of_multiple(kernel, higher[0], inner)
    return PolynomialLaws(kernel, inner.dimension, inner, coefficients)


class PolynomialLaws(_FunctionLaws):
    """p(k) = Σ_n a_n kⁿ with a_n ≥ 0, where p is not constant."""

    same = (*_FunctionLaws.same, "finite_features", "positive_values")
    definite = "nonnegative multiples, sums and products of positive definite kernels are ones"
    otherwise = "a polynomial of k can be positive definite where k is not known to be"

    def __init__(
        self, kernel: Any, dimension: int | None, inner: Facts, coefficients: Sequence[float]
    ) -> None:
        super().__init__(kernel, dimension, inner)
        self.polynomial = np.polynomial.Polynomial(np.asarray(coefficients, np.float64))
        self.constant_term = bool(coefficients[0])

    def unchanged(self, inner: Answer) -> Answer:
        if inner.yes or (inner.no and self.inner.positive_values):
            return inner
        return first(self._growing, unknown("an even power can hide the sign that changes"))

    @cached_property
    def stationary(self) -> Answer:
        return self.unchanged(self.inner.stationary)

    @cached_property
    def isotropic(self) -> Answer:
        return first(self._by_shifts, self.unchanged(self.inner.isotropic))

    @cached_property
    def bounded(self) -> Answer:
        if self.inner.bounded.no or self.inner.positive_definite.yes:
            return with_payload(self.inner.bounded, lambda value: float(self.polynomial(value)))
        return unknown("k(x, x) is not known to be nonnegative")

    @cached_property
    def dense(self) -> Answer:
        return self.dense_where_inner_is(
            "a power of a universal kernel is universal, and so is its sum with others"
        )


def of_normalised(kernel: Any, inner: Facts) -> Facts:
    """The facts of a kernel with features of length 1; where k(x, x) is constant, of a multiple."""
    total = inner.bounded.payload if inner.constant_diagonal else None
    if total and math.isfinite(total) and inner.constant is None:
        return MultipleLaws(kernel, 1.0 / total, inner)
    return NormalisedLaws.of(kernel, inner.dimension, inner)


class NormalisedLaws(_FunctionLaws):
    """k(x, y)/√(k(x, x) k(y, y)), and 0 where k(x, x) = 0."""

    same = (*_FunctionLaws.same, "finite_features", "positive_values")
    definite = "g(x)k(x,y)g(y) is positive definite where k is"
    otherwise = "k is not known to be positive definite"

    @staticmethod
    def of_constant(value: float) -> float:
        return float(value > 0)

    @cached_property
    def stationary(self) -> Answer:
        otherwise = "normalising can remove what a shift changes"
        return self.unless_mended(self.inner.stationary, otherwise)

    @cached_property
    def isotropic(self) -> Answer:
        if self.inner.isotropic.yes or self.inner.stationary.yes:
            return self.inner.isotropic
        return unknown("normalising can remove what a motion changes")

    @cached_property
    def bounded(self) -> Answer:
        return yes("its features have length 1, or 0 where k(x, x) = 0", 1.0)

    @cached_property
    def dense(self) -> Answer:
        return self.dense_where_inner_is(
            "k is universal, and dividing by √k(x, x) > 0 keeps a space dense"
        )

    @cached_property
    def sobolev_order(self) -> Answer:
        stationary = self.inner.stationary.yes
        return self.inner.sobolev_order if stationary else unknown("√k(x, x) may be rough, or zero")

    @cached_property
    def spectral_density(self) -> Answer:
        return unknown("k is not known to be stationary")


# ---- transformed points: k(Ax, Ay), of which a choice of columns is one --------------------------


class MapLaws(Law):
    """k(Ax, Ay) for a matrix A, not 0, with so many rows and columns; None where not known.

    `onto` says that Ax reaches every vector, `one_to_one` that Ax = Ay only for x = y, `conformal`
    that AᵀA is a multiple of the identity, `orthant` that u > 0 gives Au > 0. Where Ax = ax_k for
    one column, `stretch` is |a|.
    """

    same = ("finite_features", "positive_values", "constant_diagonal")
    onto: bool
    one_to_one: bool | None
    conformal: bool
    orthant: bool
    stretch: float | None
    rows: int

    def measure(self, inner: SpectralMeasure) -> SpectralMeasure | None:
        """The measure of the frequencies Aᵀω."""
        raise NotImplementedError

    @property
    def invertible(self) -> bool:
        return self.onto and self.one_to_one is True

    @cached_property
    def positive_definite(self) -> Answer:
        inner = self.inner.positive_definite
        if inner.yes or self.onto:
            return inner
        return unknown("the map does not reach every vector", advice=inner.advice)

    @cached_property
    def stationary(self) -> Answer:
        inner = self.inner.stationary
        if inner.yes or self.onto:
            return inner
        return first(self._growing, unknown("the map does not reach every shift"))

    @cached_property
    def isotropic(self) -> Answer:
        inner = self.inner.isotropic
        decided = self._by_shifts()
        if decided is not None:
            return decided
        if self.conformal and (inner.yes or self.onto):
            return inner
        if self.one_to_one is False and self.inner.vanishes:
            return no("it tends to 0 in some directions and is constant along the others")
        if inner.yes and self.inner.vanishes and self.one_to_one:
            return no("the map stretches some directions more than others")
        return unknown("the map changes distances")

    @cached_property
    def bounded(self) -> Answer:
        inner = self.inner.bounded
        if inner.yes or self.orthant:
            return inner
        return unknown("the map may avoid the directions in which k(x, x) grows")

    @cached_property
    def universal(self) -> Answer:
        if self.one_to_one is False:
            return no("points that differ may have the same image, and look equal to the kernel")
        return super().universal

    def dense_on_images(self, inner: Answer) -> Answer:
        if inner.yes or self.onto:
            return inner
        return first(self._small, unknown("k is not known to be universal on the images"))

    @cached_property
    def sobolev_order(self) -> Answer:
        inner = self.inner.sobolev_order
        if (inner.yes and math.isinf(inner.payload)) or self.invertible:
            return inner
        if inner.yes and self.one_to_one is False:
            return no("its functions are rough in some directions and constant along the others")
        if inner.yes and self.one_to_one and self.dimension is not None:
            lost = 0.5 * (self.rows - self.dimension)
            reason = "a restriction to a subspace loses half an order for each dimension"
            return yes(reason, inner.payload - lost)
        return unknown("k has no known order on the images")

    @cached_property
    def spectral_density(self) -> Answer:
        inner = self.inner.spectral_density
        measure = None if inner.payload is None else self.measure(inner.payload)
        if measure is not None:
            return Answer(measure.has_density, "its frequencies are Aᵀω", measure)
        if inner.no and self.invertible:
            return inner
        if self.stationary.yes and self.positive_definite.yes and self.one_to_one is False:
            return no("its frequencies Aᵀω fill a subspace only")
        return first(self._shifted, unknown("the frequencies on the images are not known"))

    @cached_property
    def fourier_weights(self) -> Answer:
        if self.stretch is None:
            return super().fourier_weights
        period = self.period or 0.0
        return with_payload(self.inner.fourier_weights, lambda w: replace(w, period=period))

    @cached_property
    def period(self) -> float | None:
        inner = self.inner.period
        return None if inner is None or self.stretch is None else inner / self.stretch

    @cached_property
    def vanishes(self) -> bool:
        return self.one_to_one is True and self.inner.vanishes

    @cached_property
    def separates(self) -> bool:
        return self.one_to_one is True and self.inner.separates


class ColumnsLaws(MapLaws):
    """k on some columns, by number or name: each row of A has a single 1."""

    orthant = True

    def __init__(
        self, kernel: Any, dimension: int | None, inner: Facts, chosen: Sequence[Any]
    ) -> None:
        super().__init__(kernel, dimension, inner)
        self.rows = len(chosen)
        self.stretch = 1.0 if self.rows == 1 else None
        self.chosen = _positions(chosen, dimension)
        counts = Counter(self.chosen)
        self.onto = self.chosen is not None and len(counts) == self.rows
        self.one_to_one = None if self.chosen is None else len(counts) == dimension
        if dimension is None:
            self.one_to_one = False  # among all numbers of columns there are larger ones
        self.conformal = self.one_to_one is True and len(set(counts.values())) == 1

    @cached_property
    def columns(self) -> frozenset[Any] | None:
        if self.chosen is None:
            return None
        inner = range(self.rows) if self.inner.columns is None else self.inner.columns
        return frozenset(c if isinstance(c, str) else self.chosen[c] for c in inner)

    @cached_property
    def dense(self) -> Answer:
        return self.dense_on_images(self.inner.dense)

    def measure(self, inner: SpectralMeasure) -> SpectralMeasure | None:
        if self.dimension is None or self.chosen is None or isinstance(self.chosen[0], str):
            return None
        columns = list(self.chosen)
        which = columns if self.onto else np.eye(self.dimension)[columns]
        return Images(self.dimension, inner.total, [inner], [which])


def _positions(chosen: Sequence[Any], dimension: int | None) -> tuple[Any, ...] | None:
    """Columns so that equal ones have equal numbers or names; None where that is not known."""
    names = [column for column in chosen if isinstance(column, str)]
    if len(names) == len(chosen):
        return tuple(names)
    if names:
        return None  # a name and a number may mean one column
    numbers = [int(column) for column in chosen]
    if dimension is None:
        return tuple(numbers) if len({number < 0 for number in numbers}) == 1 else None
    if not all(-dimension <= number < dimension for number in numbers):
        raise ValueError(f"there are no columns {numbers} among {dimension}.")
    return tuple(number % dimension for number in numbers)


class LinearMapLaws(MapLaws):
    """k(Ax, Ay) for any matrix A that is not 0."""

    def __init__(self, kernel: Any, dimension: int, inner: Facts, matrix: np.ndarray) -> None:
        super().__init__(kernel, dimension, inner)
        self.matrix, self.rows = matrix, len(matrix)
        self.stretch = abs(float(matrix[0, 0])) if matrix.size == 1 else None
        self.orthant = bool((matrix >= 0).all() and matrix.any(axis=1).all())

    @cached_property
    def rank(self) -> int:
        return int(np.linalg.matrix_rank(self.matrix))

    @property
    def onto(self) -> bool:  # type: ignore[override]
        return self.rank == self.rows

    @property
    def one_to_one(self) -> bool:  # type: ignore[override]
        return self.rank == self.dimension

    @cached_property
    def conformal(self) -> bool:  # type: ignore[override]
        square = self.matrix.T @ self.matrix
        size = square[0, 0]
        return bool((np.abs(square - size * np.eye(len(square))) <= 1e-12 * size).all())

    @cached_property
    def dense(self) -> Answer:
        return self.dense_on_images(self.inner.universal) if self.one_to_one else self.universal

    def measure(self, inner: SpectralMeasure) -> SpectralMeasure:
        return Images(self.matrix.shape[1], inner.total, [inner], [self.matrix])


# ---- functions of points, weights, groups --------------------------------------------------------


class CompositionLaws(Law):
    """k(φ(x), φ(y)) for a function φ of points."""

    same = ("finite_features", "positive_values", "constant_diagonal")
    definite = "k is positive definite, on the images too"
    otherwise = "k is not known to be positive definite on the images"

    @cached_property
    def bounded(self) -> Answer:
        return self.unless_mended(self.inner.bounded, "k may be bounded on the images of φ")


class WeightedLaws(Law):
    """g(x) k(x, y) g(y) for a function g of points."""

    same = ("finite_features",)
    definite = "g(x)k(x,y)g(y) is positive definite where k is"
    otherwise = "k is not known to be positive definite"


def of_average(kernel: Any, group: Sequence[Any], inner: Facts) -> Facts:
    """The facts of (1/|G|²) Σ_{g,h} k(gx, hy)."""
    if len(group) == 1 and np.array_equal(group[0], np.eye(len(group[0]))):
        return Facts(kernel, inner.dimension, inner)
    return AverageLaws.of(kernel, inner.dimension, inner, group)


class AverageLaws(Law):
    """(1/|G|²) Σ_{g,h} k(gx, hy) for a list of matrices other than the identity alone."""

    same = ("finite_features",)
    definite = "it is the inner product of features averaged over the group"
    otherwise = "k is not known to be positive definite"

    def __init__(
        self, kernel: Any, dimension: int | None, inner: Facts, group: Sequence[Any]
    ) -> None:
        super().__init__(kernel, dimension, inner)
        self.elements = group

    @cached_property
    def is_group(self) -> bool:
        """Whether the list holds the identity and all products, without repetition."""
        elements = np.asarray([np.asarray(g, np.float64) for g in self.elements])
        products = np.einsum("aij,bjk->abik", elements, elements)
        gaps = np.abs(products[:, :, None] - elements).max(axis=(-2, -1))  # (a, b, element)
        near, others = gaps.min(axis=2), np.sort(gaps, axis=2)[:, :, 1:]
        identity = np.abs(elements - np.eye(elements.shape[1])).max(axis=(1, 2)).min()
        return bool(identity < 1e-9 and (near < 1e-9).all() and (others > 1e-9).all())

    @cached_property
    def stationary(self) -> Answer:
        if self.inner.vanishes and self.is_group:
            return no("k(x, x) is larger where the group leaves x in place than far away")
        return unknown("the group moves x and y apart")

    @cached_property
    def bounded(self) -> Answer:
        if not self.inner.positive_definite.yes:
            return unknown(self.otherwise)
        return self.unless_mended(
            self.inner.bounded, "the average of unbounded values may be bounded"
        )

    @cached_property
    def dense(self) -> Answer:
        if self.is_group:
            return no("its functions take the same value at x and gx")
        return first(self._small, unknown("the list of matrices is not a group"))

    @cached_property
    def sobolev_order(self) -> Answer:
        inner = self.inner.sobolev_order
        if inner.yes and math.isinf(inner.payload):
            return inner
        return unknown("its functions are those that the group leaves in place")
