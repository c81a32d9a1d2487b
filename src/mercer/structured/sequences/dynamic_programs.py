"""Kernels by dynamic programs over pairs of sequences: subsequences with gaps, and alignments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer.checks import check_between, check_count, check_positive, is_count
from mercer.kernels.facts import Facts, no
from mercer.structured.base import LogScaleKernel, StructuredKernel, check_share
from mercer.structured.sequences.points import SequencePoints, SeriesPoints, same_alphabet


@dataclass(frozen=True, eq=False, repr=False)
class GapWeighted(LogScaleKernel):
    """Subsequences of p symbols, with a weight that falls with the stretch they take.

    The feature of a word u of p symbols is Σ λ^{l} over its occurrences in x as a subsequence, l
    being the number of symbols of x from the first to the last of the occurrence. A pair of
    sequences takes p·|x|·|y| operations.

    Parameters
    ----------
    length : int, default=3
        p.
    decay : float, default=0.5
        0 < λ ≤ 1; with λ = 1 gaps cost nothing.

    References
    ----------
    Lodhi, Saunders, Shawe-Taylor, Cristianini, Watkins, Text classification using string kernels,
    2002.

    Examples
    --------
    >>> k = GapWeighted(2, decay=0.5)
    >>> k("cat", "cart") == 0.5 ** (2 + 2) + 0.5 ** (2 + 3) + 0.5 ** (3 + 4)  # ca, at, ct
    True
    """

    length: int = 3
    decay: float = 0.5
    kind = SequencePoints
    positive_definite = "it is the inner product of weighted counts of subsequences"

    def __post_init__(self) -> None:
        check_count(self, "length", self.length)
        check_share(self, "decay", self.decay)

    def values(self, x: SequencePoints, y: SequencePoints, logs: bool) -> np.ndarray:
        from mercer.structured.compiled.sequences import gap_weighted

        same_alphabet(x, y)
        out = np.empty((len(x), len(y)))
        gap_weighted(*flat(x), *flat(y), int(self.length), float(self.decay), logs, out)
        if logs:
            return out + 2 * self.length * math.log(self.decay)
        return out * float(self.decay) ** (2 * self.length)


@dataclass(frozen=True, eq=False, repr=False)
class _Subsequences(LogScaleKernel):
    """All subsequences, by presence or by count."""

    decay: float = 1.0
    kind = SequencePoints
    presence: ClassVar[bool]

    def __post_init__(self) -> None:
        check_between(self, "decay", self.decay, 0.0, math.inf)

    def values(self, x: SequencePoints, y: SequencePoints, logs: bool) -> np.ndarray:
        from mercer.structured.compiled.sequences import all_subsequences

        same_alphabet(x, y)
        out = np.empty((len(x), len(y)))
        local = x.prepared("local symbols", local_symbols)
        most, weight = int(local.max(initial=0)) + 1, float(self.decay) ** 2
        all_subsequences(*flat(x), local, most, *flat(y), weight, self.presence, logs, out)
        return out


@dataclass(frozen=True, eq=False, repr=False)
class AllSubsequences(_Subsequences):
    """All subsequences, by count: Σ_u λ^{2|u|} c_u(x) c_u(y) over all words u, the empty one too.

    c_u(x) counts the occurrences of u in x as a subsequence, with any gaps. A pair takes |x|·|y|
    operations. Values grow like 2^{|x| + |y|}: `normalised()` is computed on a log scale.

    Parameters
    ----------
    decay : float, default=1.0
        λ > 0, the weight of each symbol of u.

    References
    ----------
    Shawe-Taylor, Cristianini, Kernel Methods for Pattern Analysis, 2004, section 11.3.

    Examples
    --------
    >>> AllSubsequences()("aa", "a")  # the empty word, and a: 2·1
    3.0
    """

    presence = False
    positive_definite = "it is the inner product of weighted counts of subsequences"


@dataclass(frozen=True, eq=False, repr=False)
class CommonSubsequences(_Subsequences):
    """All subsequences, by presence: Σ λ^{2|u|} over all u that are subsequences of both x and y.

    The empty word is one of them. A pair takes |x|·|y| operations.

    Parameters
    ----------
    decay : float, default=1.0
        λ > 0, the weight of each symbol of u; with λ = 1 the value is the number of common
        subsequences.

    References
    ----------
    Elzinga, Rahmann, Wang, Algorithms for subsequence combinatorics, 2008.

    Examples
    --------
    >>> CommonSubsequences()("aab", "ab")  # nothing, a, b, ab
    4.0
    """

    presence = True
    positive_definite = "it is the inner product of weighted indicators of subsequences"


def flat(points: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Symbols, starts and chosen sequences, as compiled code takes them."""
    return points.symbols, points.starts, points.chosen


def local_symbols(points: SequencePoints) -> np.ndarray:
    """For each symbol its number among the different symbols of its own sequence.

    >>> local_symbols(SequencePoints.read(["kayak", "yes"])).tolist()
    [1, 0, 2, 0, 1, 2, 0, 1]
    """
    owners = points.owners
    pairs = np.stack([owners, points.symbols])
    different, number = np.unique(pairs, axis=1, return_inverse=True)
    first = np.searchsorted(different[0], np.arange(points.total))
    return number.reshape(-1) - first[owners]


# ---- alignments ----------------------------------------------------------------------------------


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
