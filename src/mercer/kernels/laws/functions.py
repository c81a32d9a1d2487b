"""Laws of functions of a kernel: what is known of exp(k), p(k) and k(x, y)/√(k(x, x) k(y, y))."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from mercer.kernels.facts import Answer, Facts, constant_facts, first, no, unknown, yes
from mercer.kernels.laws.combinations import MultipleLaws, of_multiple, with_payload


def of_exponential(kernel: Any, inner: Facts) -> Facts:
    """The facts of exp(k)."""
    if inner.constant is not None:
        return constant_facts(kernel, _exponential(inner.constant), inner.dimension)
    return ExponentialLaws(kernel, inner)


def of_polynomial(kernel: Any, polynomial: Any, inner: Facts) -> Facts:
    """The facts of p(k) with coefficients a_n ≥ 0; polynomials of degree 1 are sums."""
    coefficients = polynomial.coef
    if not coefficients[1:].any() or inner.constant is not None:
        value = coefficients[0] if inner.constant is None else polynomial(inner.constant)
        return constant_facts(kernel, float(value), inner.dimension)
    if not coefficients[0] and not coefficients[2:].any():
        return of_multiple(kernel, coefficients[1], inner)
    return PolynomialLaws(kernel, polynomial, inner)


def of_normalised(kernel: Any, inner: Facts) -> Facts:
    """The facts of k(x, y)/√(k(x, x) k(y, y)); of stationary kernels it is a multiple."""
    if inner.constant is not None:
        return constant_facts(kernel, float(inner.constant > 0), inner.dimension)
    total = inner.bounded.payload if inner.constant_diagonal else None
    if total and math.isfinite(total):
        return MultipleLaws(kernel, 1.0 / total, inner)
    return NormalisedLaws(kernel, inner)


def _exponential(value: float) -> float:
    return math.exp(value) if value < 709.0 else math.inf


class _FunctionLaws(Facts):
    """What functions of one kernel share."""

    def __init__(self, kernel: Any, inner: Facts) -> None:
        super().__init__(kernel, inner.dimension)
        self.inner = inner

    @cached_property
    def columns(self) -> frozenset[Any] | None:
        return self.inner.columns

    @cached_property
    def period(self) -> float | None:
        return self.inner.period

    @cached_property
    def constant_diagonal(self) -> bool:
        return self.inner.constant_diagonal

    def of_known_sign(self, reason: str, otherwise: str) -> Answer:
        """Positive definite where k is; unknown elsewhere."""
        inner = self.inner.positive_definite
        return yes(reason) if inner.yes else unknown(otherwise, advice=inner.advice)

    def powers_are_as_smooth(self) -> Answer:
        order = self.inner.sobolev_order
        if not order.yes:
            return unknown("k has no known order")
        if math.isinf(order.payload) or self.inner.stationary.yes:
            return yes("powers of k are as smooth as k", order.payload)
        return unknown("k is not known to be stationary")

    def convolution_powers(self, constant_term: bool) -> Answer:
        if constant_term and self.stationary.yes and self.positive_definite.yes:
            return no("its constant term puts mass at frequency 0")
        return first(self._shifted(), unknown("convolution powers are not computed"))


class ExponentialLaws(_FunctionLaws):
    """exp(k) = Σ_n kⁿ/n!."""

    @cached_property
    def positive_definite(self) -> Answer:
        return self.of_known_sign(
            "exp(k) = Σ kⁿ/n! is a sum of products of positive definite kernels",
            "exp(k) can be positive definite where k is not known to be",
        )

    @cached_property
    def stationary(self) -> Answer:
        return self.inner.stationary

    @cached_property
    def isotropic(self) -> Answer:
        return self.inner.isotropic

    @cached_property
    def bounded(self) -> Answer:
        return with_payload(self.inner.bounded, _exponential)

    @cached_property
    def dense(self) -> Answer:
        if self.inner.separates and self.inner.positive_definite.yes:
            return yes("its space holds all polynomials of functions that separate points")
        return unknown("the functions of k are not known to separate points")

    @cached_property
    def sobolev_order(self) -> Answer:
        return self.powers_are_as_smooth()

    @cached_property
    def spectral_density(self) -> Answer:
        return self.convolution_powers(constant_term=True)

    @cached_property
    def positive_values(self) -> bool:
        return True


class PolynomialLaws(_FunctionLaws):
    """p(k) = Σ_n a_n kⁿ with a_n ≥ 0, not all of them 0 for n ≥ 1."""

    def __init__(self, kernel: Any, polynomial: Any, inner: Facts) -> None:
        super().__init__(kernel, inner)
        self.polynomial = polynomial

    @cached_property
    def positive_definite(self) -> Answer:
        return self.of_known_sign(
            "nonnegative multiples, sums and products of positive definite kernels are ones",
            "a polynomial of k can be positive definite where k is not known to be",
        )

    def unchanged(self, inner: Answer) -> Answer:
        if inner.yes or (inner.no and self.inner.positive_values):
            return inner
        return first(self._growing(), unknown("an even power can hide the sign that changes"))

    @cached_property
    def stationary(self) -> Answer:
        return self.unchanged(self.inner.stationary)

    @cached_property
    def isotropic(self) -> Answer:
        return first(self._by_shifts(), self.unchanged(self.inner.isotropic))

    @cached_property
    def bounded(self) -> Answer:
        if self.inner.bounded.no or self.inner.positive_definite.yes:
            return with_payload(self.inner.bounded, lambda value: float(self.polynomial(value)))
        return unknown("k(x, x) is not known to be nonnegative")

    @cached_property
    def dense(self) -> Answer:
        if self.inner.dense.yes:
            return yes("a power of a universal kernel is universal, and so is its sum with others")
        return first(self._small(), unknown("k is not known to be universal"))

    @cached_property
    def sobolev_order(self) -> Answer:
        return self.powers_are_as_smooth()

    @cached_property
    def spectral_density(self) -> Answer:
        return self.convolution_powers(constant_term=bool(self.polynomial.coef[0]))

    @cached_property
    def finite_features(self) -> Answer:
        return self.inner.finite_features

    @cached_property
    def positive_values(self) -> bool:
        return self.inner.positive_values


class NormalisedLaws(_FunctionLaws):
    """k(x, y)/√(k(x, x) k(y, y)), and 0 where k(x, x) = 0: features of length 1."""

    @cached_property
    def positive_definite(self) -> Answer:
        return self.of_known_sign(
            "g(x)k(x,y)g(y) is positive definite where k is", "k is not known to be"
        )

    @cached_property
    def stationary(self) -> Answer:
        if self.inner.stationary.yes:
            return self.inner.stationary
        return unknown("normalising can remove what a shift changes")

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
        if self.inner.dense.yes:
            return yes("k is universal, and dividing by √k(x, x) > 0 keeps a space dense")
        return first(self._small(), unknown("k is not known to be universal"))

    @cached_property
    def sobolev_order(self) -> Answer:
        if self.inner.stationary.yes:
            return self.inner.sobolev_order
        return unknown("√k(x, x) may be rough, or zero")

    @cached_property
    def spectral_density(self) -> Answer:
        return unknown("k is not known to be stationary")

    @cached_property
    def finite_features(self) -> Answer:
        return self.inner.finite_features

    @cached_property
    def positive_values(self) -> bool:
        return self.inner.positive_values
