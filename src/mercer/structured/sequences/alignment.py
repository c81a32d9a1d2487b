"""Kernels that align two sequences: global alignment of series, and similarity by edit distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_positive, is_count
from mercer.kernels.facts import Facts, no
from mercer.structured.base import LogScaleKernel, StructuredKernel
from mercer.structured.sequences.points import SequencePoints, SeriesPoints, same_alphabet
from mercer.structured.sequences.subsequences import flat


@dataclass(frozen=True, eq=False, repr=False)
class GlobalAlignment(LogScaleKernel):
    """The global alignment kernel of series: Σ over alignments of Π κ(x_i, y_j) over their pairs.

    κ = e^{−φ} with φ = d²/(2σ²) + log(2 − e^{−d²/(2σ²)}), d = ‖x_i − y_j‖: with this κ, unlike with
    a plain Gaussian, the sum is positive definite. An alignment goes from the first to the last
    pair, one step in x, in y or in both at a time. Two empty series have the value 1.

    Parameters
    ----------
    lengthscale : float, default=1.0
        σ. A start is the median distance of vectors times the root of the median length.
    band : int, default=0
        Pairs with |i − j| ≥ band are left out, nearer ones multiplied by 1 − |i − j|/band; 0
        admits all pairs.

    References
    ----------
    Cuturi, Fast global alignment kernels, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([0.0, 1.0, 3.0]), np.array([0.5])
    >>> g = np.exp(-((x - y) ** 2) / 2)
    >>> bool(np.isclose(GlobalAlignment()(x, y), np.prod(g / (2 - g))))  # one alignment only
    True
    """

    lengthscale: float = 1.0
    band: int = 0
    kind = SeriesPoints
    positive_definite = "κ/(1 + κ) is positive definite, which makes the sum over alignments one"

    def __post_init__(self) -> None:
        check_positive(self, "lengthscale", self.lengthscale)
        if not (is_count(self.band) or (self.band == 0 and not isinstance(self.band, bool))):
            raise ValueError(
                f"GlobalAlignment needs a whole number band ≥ 0, 0 for none; got {self.band!r}."
            )

    def values(self, x: SeriesPoints, y: SeriesPoints, logs: bool) -> np.ndarray:
        from mercer.structured.compiled.sequences import global_alignment

        widths = {side.vectors.shape[1] for side in (x, y) if len(side.vectors)}
        if len(widths) > 1:
            raise ValueError(
                f"both sides must be series of vectors of one length; got {x.vectors.shape[1]} and "
                f"{y.vectors.shape[1]}."
            )
        out = np.empty((len(x), len(y)))
        scale = 0.5 / float(self.lengthscale) ** 2
        sides = (a for side in (x, y) for a in (side.vectors, side.starts, side.chosen))
        global_alignment(*sides, scale, int(self.band), logs, out)
        return out


@dataclass(frozen=True, eq=False, repr=False)
class EditSimilarity(StructuredKernel):
    """exp(−d(x, y)/ℓ) for the edit distance d: not positive definite, and declared so.

    d counts the insertions, deletions and replacements of single symbols that turn x into y. It is
    no distance in a Hilbert space, so this similarity has negative eigenvalues on some sequences.
    Estimators that need a kernel warn or refuse; `EmpiricalMap(EditSimilarity(), landmarks)` is a
    kernel made of it.

    Parameters
    ----------
    lengthscale : float, default=1.0
        ℓ.

    References
    ----------
    Cortes, Haffner, Mohri, Rational kernels: theory and algorithms, 2004, section 6.

    Examples
    --------
    >>> import math
    >>> math.isclose(EditSimilarity(2.0)("kitten", "sitting"), math.exp(-3 / 2))
    True
    """

    lengthscale: float = 1.0
    kind = SequencePoints

    def __post_init__(self) -> None:
        check_positive(self, "lengthscale", self.lengthscale)

    def facts(self, dimension: int | None = None) -> Facts:
        return Facts(
            self,
            dimension,
            positive_definite=no(
                "the edit distance is not conditionally negative definite (Cortes et al., 2004)"
            ),
        )

    def distances(self, x: Any, y: Any) -> np.ndarray:
        """The edit distances of all pairs."""
        from mercer.structured.compiled.sequences import edit_distances

        same_alphabet(x, y)
        out = np.empty((len(x), len(y)))
        edit_distances(*flat(x), *flat(y), out)
        return out

    def block(self, x: Any, y: Any) -> np.ndarray:
        return np.exp(-self.distances(x, y) / float(self.lengthscale))

    def diagonal(self, x: Any) -> np.ndarray:
        return np.ones(len(x))


@dataclass(frozen=True, eq=False, repr=False)
class EmpiricalMap(StructuredKernel):
    """Σ_z s(x, z) s(y, z) over landmarks z: a kernel made of a similarity s that need not be one.

    The features of x are its similarities to the landmarks, whatever s is.

    Parameters
    ----------
    similarity : StructuredKernel
        s.
    landmarks : sequence of objects
        z_1, z_2, …, as some of the training objects.

    References
    ----------
    Tsuda, Support vector classifier with asymmetric kernel functions, 1999.

    Examples
    --------
    >>> s = EditSimilarity()
    >>> k = EmpiricalMap(s, ("kernel", "space"))
    >>> k("kern", "spice") == sum(s("kern", z) * s("spice", z) for z in k.landmarks)
    True
    """

    similarity: StructuredKernel
    landmarks: Sequence[Any]
    positive_definite = "it is the inner product of similarities to landmarks"

    def __post_init__(self) -> None:
        if not isinstance(self.similarity, StructuredKernel):
            raise ValueError(
                f"EmpiricalMap needs a kernel on objects; got {self.similarity!r}. For vectors "
                "write mercer.features.Nystroem."
            )

    def points(self, data: Any) -> Any:
        return self.similarity.points(data)

    def is_single(self, x: Any) -> bool:
        return self.similarity.is_single(x)

    def features(self, x: Any) -> np.ndarray:
        """s(x_i, z_j)."""
        landmarks = self.points(self.landmarks)
        return x.prepared(self, lambda points: self.similarity.block(points, landmarks))[x.chosen]

    def block(self, x: Any, y: Any) -> np.ndarray:
        return self.features(x) @ self.features(y).T

    def diagonal(self, x: Any) -> np.ndarray:
        return np.einsum("ij,ij->i", self.features(x), self.features(x))
