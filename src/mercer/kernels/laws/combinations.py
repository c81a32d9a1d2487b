"""Laws of sums, products and multiples: what is known of k₁ + k₂, k₁·k₂ and c·k."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.kernels.facts import Answer, Facts, constant_facts, first, no, unknown, yes
from mercer.kernels.measures import Images, Mixture, Normal, SpectralMeasure, Zero


def of_sum(kernel: Any, left: Facts, right: Facts) -> Facts:
    """The facts of k₁ + k₂; adding zero changes nothing."""
    if left.constant is not None and right.constant is not None:
        return constant_facts(kernel, left.constant + right.constant, left.dimension)
    if 0 in (left.constant, right.constant):
        return Facts(kernel, left.dimension, right if left.constant == 0 else left)
    return SumLaws(kernel, left, right)


def of_product(kernel: Any, left: Facts, right: Facts) -> Facts:
    """The facts of k₁·k₂; a constant factor makes a multiple."""
    for side, other in ((left, right), (right, left)):
        if side.constant is not None:
            return of_multiple(kernel, side.constant, other)
    return ProductLaws(kernel, left, right)


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


def with_payload(answer: Answer, function: Any) -> Answer:
    """An answer with its payload sent through a function."""
    return answer if answer.payload is None else replace(answer, payload=function(answer.payload))


class _PairLaws(Facts):
    """The base of the laws of sums and products."""

    part, operation = "", ""
    both = ("positive_values", "constant_diagonal", "vanishes")

    def __init__(self, kernel: Any, left: Facts, right: Facts) -> None:
        super().__init__(kernel, left.dimension)
        self.left, self.right, self.sides = left, right, (left, right)

    def both_ways(self) -> Iterator[tuple[Facts, Facts]]:
        yield self.left, self.right
        yield self.right, self.left

    def unchanged(self, name: str) -> Answer:
        """Whether shifts, or motions, change nothing."""
        left, right = (getattr(side, name) for side in self.sides)
        if left.yes and right.yes:
            return yes(f"both {self.part}s are {name}")
        for side, other in self.both_ways():
            changes = getattr(other, name)
            if getattr(side, name).yes and changes.no and self.cannot_hide(side):
                return no(f"one {self.part} is {name}, the other is not: {changes.because}")
        return first(
            self._growing,
            unknown(f"the {self.part}s are not known to be {name}; what they change could cancel"),
        )

    def cannot_hide(self, side: Facts) -> bool:
        """Whether a change of the other side is one of the whole."""
        raise NotImplementedError

    @cached_property
    def positive_definite(self) -> Answer:
        sides = [side.positive_definite for side in self.sides]
        if all(side.yes for side in sides):
            return yes(f"a {self.operation} of positive definite kernels is one")
        weak = next(side for side in sides if not side.yes)
        return unknown(
            f"one side of the {self.operation} is not known to be positive definite: "
            f"{weak.because}",
            advice=weak.advice,
        )

    @cached_property
    def stationary(self) -> Answer:
        return self.unchanged("stationary")

    @cached_property
    def isotropic(self) -> Answer:
        return first(self._by_shifts, self.unchanged("isotropic"))

    @cached_property
    def finite_features(self) -> Answer:
        if self.left.finite_features.yes and self.right.finite_features.yes:
            return yes(f"both {self.part}s have finitely many features")
        return unknown(f"a {self.part} is not known to have finitely many features")

    def _value(self, name: str) -> Any:
        """Plain facts hold for both sides, or are not known."""
        return all(getattr(side, name) for side in self.sides) if name in self.both else None

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

    def weights(self, reason: str, operation: Any) -> Answer:
        left, right = (side.fourier_weights for side in self.sides)
        if not (left.yes and right.yes):
            return first(self._shifted, unknown("a part has no known Fourier weights"))
        if self.period is None:
            return unknown("its parts have different periods, or look at different columns")
        return yes(reason, operation(left.payload, right.payload))

    def totals(self, operation: Any) -> float | None:
        """R² from those of both sides."""
        left, right = (side.bounded.payload for side in self.sides)
        return None if left is None or right is None else float(operation(left, right))


class SumLaws(_PairLaws):
    """k₁ + k₂: its functions are the sums f₁ + f₂. Neither is constant zero."""

    part, operation = "summand", "sum"

    def cannot_hide(self, side: Facts) -> bool:
        return True

    @cached_property
    def bounded(self) -> Answer:
        left, right = self.left.bounded, self.right.bounded
        if left.yes and right.yes:
            return yes("both summands are bounded", self.totals(lambda a, b: a + b))
        for side, other in self.both_ways():
            if side.bounded.no and (other.bounded.no or other.positive_definite.yes):
                reason = side.bounded.because
                return no(f"one summand is unbounded and the other is not negative: {reason}")
        return unknown("a summand is not known to be bounded")

    @cached_property
    def dense(self) -> Answer:
        for side, other in self.both_ways():
            if side.dense.yes and other.positive_definite.yes and _sees_all_of(side, self):
                return yes("its space contains that of a universal summand")
        return first(self._small, unknown("no summand is known to be universal"))

    @cached_property
    def universal(self) -> Answer:
        if all(summand.blind for summand in self.summands()):
            return no("no summand sees all columns together, so interactions are missing")
        return super().universal

    def summands(self) -> Iterator[Facts]:
        for side in self.sides:
            part = bare(side)
            yield from part.summands() if isinstance(part, SumLaws) else [part]

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


class ProductLaws(_PairLaws):
    """k₁·k₂: the kernel of the tensor product. Neither is constant."""

    part, operation = "factor", "product"

    def cannot_hide(self, side: Facts) -> bool:
        return side.positive_values

    @cached_property
    def bounded(self) -> Answer:
        left, right = self.left.bounded, self.right.bounded
        if left.no and right.no:
            return no("both factors are unbounded, in the same directions")
        for side, other in self.both_ways():
            if side.bounded.no and other.constant_diagonal:
                reason = side.bounded.because
                return no(f"one factor is unbounded, the diagonal of the other constant: {reason}")
        if left.yes and right.yes and self.positive_definite.yes:
            return yes("both factors are bounded", self.totals(lambda a, b: a * b))
        return unknown("a factor is not known to be bounded")

    @cached_property
    def dense(self) -> Answer:
        if self.left.dense.yes and self.right.dense.yes:
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
    maps = [side.maps if isinstance(side, Images) else [None] for side in (left, right)]
    return Images(dimension, total, [*parts[0], *parts[1]], [*maps[0], *maps[1]])


def bare(facts: Facts) -> Facts:
    """The facts without positive factors."""
    while facts.like is not None:
        facts = facts.like
    return facts


def _sees_all_of(side: Facts, whole: Facts) -> bool:
    """Whether a summand depends on all the columns that the sum depends on."""
    if side.columns is None or not side.blind:
        return True
    return whole.columns is not None and whole.columns <= side.columns
