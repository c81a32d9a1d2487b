"""Laws of functions of a kernel: what is known of exp(k), p(k) and k(x, y)/√(k(x, x) k(y, y))."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mercer.kernels.facts import Answer, Facts, constant_facts, first, no, unknown, yes
from mercer.kernels.laws.combinations import MultipleLaws, of_multiple, with_payload


class _FunctionLaws(Facts):
    """The base of the laws of functions of one kernel."""

    inner: Facts
    same: tuple[str, ...] = ("columns", "period", "constant_diagonal")
    constant_term = True

    def __init__(self, kernel: Any, inner: Facts) -> None:
        super().__init__(kernel, inner.dimension)
        self.inner = inner

    def definite(self, reason: str, otherwise: str) -> Answer:
        """Positive definite where k is; unknown elsewhere."""
        inner = self.inner.positive_definite
        return yes(reason) if inner.yes else unknown(otherwise, advice=inner.advice)

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


# ---- exp(k) = Σ_n kⁿ/n! --------------------------------------------------------------------------


def of_exponential(kernel: Any, inner: Facts) -> Facts:
    """The facts of exp(k)."""
    if inner.constant is not None:
        return constant_facts(kernel, _exponential(inner.constant), inner.dimension)
    return ExponentialLaws(kernel, inner)


def _exponential(value: float) -> float:
    return math.exp(value) if value < 709.0 else math.inf


class ExponentialLaws(_FunctionLaws):
    """exp(k), which is one to one: what changes k changes it."""

    same = (*_FunctionLaws.same, "stationary", "isotropic")

    @cached_property
    def positive_values(self) -> bool:
        return True

    @cached_property
    def positive_definite(self) -> Answer:
        return self.definite(
            "exp(k) = Σ kⁿ/n! is a sum of products of positive definite kernels",
            "exp(k) can be positive definite where k is not known to be",
        )

    @cached_property
    def bounded(self) -> Answer:
        return with_payload(self.inner.bounded, _exponential)

    @cached_property
    def dense(self) -> Answer:
        if self.inner.separates and self.inner.positive_definite.yes:
            return yes("its space holds all polynomials of functions that separate points")
        return unknown("the functions of k are not known to separate points")


# ---- p(k) = Σ_n a_n kⁿ with a_n ≥ 0 --------------------------------------------------------------


def of_polynomial(kernel: Any, coefficients: Sequence[float], inner: Facts) -> Facts:
    """The facts of p(k); constants and multiples of k are known as such."""
    lowest, *higher = coefficients
    if not any(higher) or inner.constant is not None:
        value = np.polynomial.Polynomial(coefficients)(inner.constant or 0.0)
        return constant_facts(kernel, float(value), inner.dimension)
    if not lowest and not any(higher[1:]):
        return of_multiple(kernel, higher[0], inner)
    return PolynomialLaws(kernel, coefficients, inner)


class PolynomialLaws(_FunctionLaws):
    """p(k) where p is not constant."""

    same = (*_FunctionLaws.same, "finite_features", "positive_values")

    def __init__(self, kernel: Any, coefficients: Sequence[float], inner: Facts) -> None:
        super().__init__(kernel, inner)
        self.polynomial = np.polynomial.Polynomial(np.asarray(coefficients, np.float64))
        self.constant_term = bool(coefficients[0])

    @cached_property
    def positive_definite(self) -> Answer:
        return self.definite(
            "nonnegative multiples, sums and products of positive definite kernels are ones",
            "a polynomial of k can be positive definite where k is not known to be",
        )

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


# ---- k(x, y)/√(k(x, x) k(y, y)) ------------------------------------------------------------------


def of_normalised(kernel: Any, inner: Facts) -> Facts:
    """The facts of a kernel with features of length 1; where k(x, x) is constant, of a multiple."""
    if inner.constant is not None:
        return constant_facts(kernel, float(inner.constant > 0), inner.dimension)
    total = inner.bounded.payload if inner.constant_diagonal else None
    if total and math.isfinite(total):
        return MultipleLaws(kernel, 1.0 / total, inner)
    return NormalisedLaws(kernel, inner)


class NormalisedLaws(_FunctionLaws):
    """k(x, y)/√(k(x, x) k(y, y)), and 0 where k(x, x) = 0."""

    same = (*_FunctionLaws.same, "finite_features", "positive_values")

    @cached_property
    def positive_definite(self) -> Answer:
        return self.definite(
            "g(x)k(x,y)g(y) is positive definite where k is",
            "k is not known to be positive definite",
        )

    @cached_property
    def stationary(self) -> Answer:
        inner = self.inner.stationary
        return inner if inner.yes else unknown("normalising can remove what a shift changes")

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
