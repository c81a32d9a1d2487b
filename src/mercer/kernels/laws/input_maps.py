"""Laws of transformed points: what is known of k(Ax, Ay), k∘φ, g·k·g and averages over a group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.kernels.facts import Answer, Facts, constant_facts, first, no, unknown, yes
from mercer.kernels.laws.combinations import with_payload
from mercer.kernels.measures import Images, SpectralMeasure


def yes_alone(answer: Answer, otherwise: str) -> Answer:
    """A yes as it is, anything else as unknown: for operations that can mend a fault."""
    return answer if answer.yes else unknown(otherwise, advice=answer.advice)


# ---- linear maps, of which a choice of columns is one --------------------------------------------


class MapLaws(Facts):
    """k(Ax, Ay) for a matrix A, not 0, with so many rows and columns; None where not known.

    `onto` says that Ax reaches every vector, `one_to_one` that Ax = Ay only for x = y, `conformal`
    that AᵀA is a multiple of the identity, `orthant` that u > 0 gives Au > 0. Where Ax = ax_k for
    one column, `stretch` is |a|.
    """

    inner: Facts
    same = ("finite_features", "positive_values", "constant_diagonal")
    onto: bool
    one_to_one: bool | None
    conformal: bool
    orthant: bool
    stretch: float | None

    def __init__(self, kernel: Any, inner: Facts, dimension: int | None, rows: int) -> None:
        super().__init__(kernel, dimension)
        self.inner, self.rows = inner, rows

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


def of_columns(kernel: Any, chosen: Sequence[Any], inner: Facts, dimension: int | None) -> Facts:
    """The facts of k on some columns, by number or name."""
    if inner.constant is not None:
        return constant_facts(kernel, inner.constant, dimension)
    return ColumnsLaws(kernel, chosen, inner, dimension)


class ColumnsLaws(MapLaws):
    """k on some columns: each row of A has a single 1."""

    orthant = True

    def __init__(
        self, kernel: Any, chosen: Sequence[Any], inner: Facts, dimension: int | None
    ) -> None:
        super().__init__(kernel, inner, dimension, len(chosen))
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


def of_linear_map(kernel: Any, matrix: np.ndarray, inner: Facts) -> Facts:
    """The facts of k(Ax, Ay) where A is not 0."""
    if inner.constant is not None:
        return constant_facts(kernel, inner.constant, matrix.shape[1])
    return LinearMapLaws(kernel, matrix, inner)


class LinearMapLaws(MapLaws):
    """k(Ax, Ay) for any matrix A that is not 0."""

    def __init__(self, kernel: Any, matrix: np.ndarray, inner: Facts) -> None:
        super().__init__(kernel, inner, matrix.shape[1], len(matrix))
        self.matrix = matrix
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


def of_composition(kernel: Any, inner: Facts, dimension: int | None) -> Facts:
    """The facts of k(φ(x), φ(y))."""
    if inner.constant is not None:
        return constant_facts(kernel, inner.constant, dimension)
    images = "k is not known to be positive definite on the images"
    return Facts(
        kernel,
        dimension,
        positive_definite=yes_alone(inner.positive_definite, images),
        bounded=yes_alone(inner.bounded, "k may be bounded on the images of φ"),
        finite_features=inner.finite_features,
        positive_values=inner.positive_values,
        constant_diagonal=inner.constant_diagonal,
    )


def of_weighted(kernel: Any, inner: Facts) -> Facts:
    """The facts of g(x) k(x, y) g(y)."""
    return Facts(
        kernel,
        inner.dimension,
        positive_definite=yes_alone(inner.positive_definite, "k is not known to be"),
        finite_features=inner.finite_features,
    )


def of_average(kernel: Any, group: Sequence[Any], inner: Facts) -> Facts:
    """The facts of (1/|G|²) Σ_{g,h} k(gx, hy)."""
    identity = len(group) == 1 and np.array_equal(group[0], np.eye(len(group[0])))
    if identity:
        return Facts(kernel, inner.dimension, inner)
    if inner.constant is not None:
        return constant_facts(kernel, inner.constant, inner.dimension)
    return AverageLaws(kernel, group, inner)


class AverageLaws(Facts):
    """(1/|G|²) Σ_{g,h} k(gx, hy) for a list of matrices other than the identity alone."""

    inner: Facts
    same = ("finite_features",)

    def __init__(self, kernel: Any, group: Sequence[Any], inner: Facts) -> None:
        super().__init__(kernel, inner.dimension)
        self.elements, self.inner = group, inner

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
    def positive_definite(self) -> Answer:
        inner = self.inner.positive_definite
        if inner.yes:
            return yes("it is the inner product of features averaged over the group")
        return unknown("k is not known to be positive definite", advice=inner.advice)

    @cached_property
    def stationary(self) -> Answer:
        if self.inner.vanishes and self.is_group:
            return no("k(x, x) is larger where the group leaves x in place than far away")
        return unknown("the group moves x and y apart")

    @cached_property
    def bounded(self) -> Answer:
        if self.inner.positive_definite.yes:
            return yes_alone(self.inner.bounded, "the average of unbounded values may be bounded")
        return unknown("k is not known to be positive definite")

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
