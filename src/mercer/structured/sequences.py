"""Kernels on sequences: words inside them, subsequences with gaps, alignments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, ClassVar, Self

import numpy as np

from mercer.checks import check_count, check_positive
from mercer.kernels.base import checked
from mercer.kernels.facts import Facts, no
from mercer.structured.base import (
    Coder,
    Hashes,
    LogScaleKernel,
    RowPoints,
    StructuredKernel,
    StructuredPoints,
    as_items,
    bad_item,
    check_share,
    check_whole,
    coded,
    mixed,
    offsets,
)
from mercer.structured.sparse import FeatureRows, SparseKernel

Words = tuple[np.ndarray, Hashes, float]  # sequence of each word, its hash, its weight


@dataclass(frozen=True, eq=False)
class SequencePoints(StructuredPoints):
    """Sequences of symbols: the codes of all symbols, one sequence after the other.

    A sequence is a text, whose symbols are its characters, or bytes, or a list, tuple or array of
    tokens (text, numbers, tuples of those). All sequences of a set of points are of one alphabet.
    """

    parts = ("symbols",)
    symbols: np.ndarray
    alphabet: str  # "text", "bytes" or "tokens"

    @classmethod
    def read(cls, data: Any) -> Self:
        items = as_items(data, "sequences")
        alphabet = _alphabet(items)
        lengths = [len(item) for item in items]
        coder = Coder()
        if alphabet == "text":
            joined = "".join(map(str, items)).encode("utf-32-le", "surrogatepass")
            symbols = np.frombuffer(joined, np.uint32).astype(np.int64)
        elif alphabet == "bytes":
            symbols = np.frombuffer(b"".join(items), np.uint8).astype(np.int64)
        else:
            symbols = _tokens(items, coder)
        starts = offsets(lengths)
        return cls(np.arange(len(items)), starts, symbols, alphabet, tokens=coder.tokens)

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, (str, bytes, tuple)) or (
            isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind in "iu"
        )

    def restored(self, i: int) -> Any:
        symbols = self.symbols[self.starts[i] : self.starts[i + 1]]
        if self.alphabet == "text":
            return symbols.astype(np.uint32).tobytes().decode("utf-32-le", "surrogatepass")
        if self.alphabet == "bytes":
            return symbols.astype(np.uint8).tobytes()
        return tuple(self.symbols_of(symbols))

    def joined(self, other: Self) -> Self:
        same_alphabet(self, other)
        return super().joined(other)


def same_alphabet(x: SequencePoints, y: SequencePoints) -> None:
    """Refuse sequences over different alphabets; empty ones are of any alphabet."""
    if len({side.alphabet for side in (x, y) if len(side.symbols)}) > 1:
        raise ValueError(
            f"both sides must be sequences over one alphabet; got {x.alphabet} and {y.alphabet}."
        )


def _alphabet(items: list[Any]) -> str:
    """The kind of the items, which must be the same for all."""
    kinds = [(i, kind) for i, item in enumerate(items) if (kind := _alphabet_of(i, item))]
    first, alphabet = kinds[0] if kinds else (0, "tokens")
    for i, kind in kinds:
        if kind != alphabet:
            raise bad_item(i, f"is made of {kind}, and item {first} of {alphabet}: take one kind")
    return alphabet


def _alphabet_of(i: int, item: Any) -> str:
    if isinstance(item, str):
        return "text"
    if isinstance(item, bytes):
        return "bytes"
    if isinstance(item, Sequence) or (isinstance(item, np.ndarray) and item.ndim == 1):
        return "tokens" if len(item) else ""
    raise bad_item(
        i,
        f"is a {type(item).__name__}; a sequence is a text, bytes, or a list, tuple or "
        "one-dimensional array of symbols",
    )


def _tokens(items: list[Any], coder: Coder) -> np.ndarray:
    """The codes of the tokens of all items."""
    codes = [np.empty(0, np.int64)]
    for i, item in enumerate(items):
        if isinstance(item, np.ndarray) and item.dtype.kind in "iu":
            codes.append(item.astype(np.int64))
        else:
            tokens = item.tolist() if isinstance(item, np.ndarray) else item
            codes.append(np.array(coded(i, tokens, coder), np.int64))
    return np.concatenate(codes)


@dataclass(frozen=True, eq=False)
class SeriesPoints(RowPoints):
    """Series of measurements in time: arrays of numbers, or of vectors, a row for each time."""

    called, axes = "series", (1, 2)
    problem = "is no series: write an array of numbers, or one with a row for each time"

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.dtype.kind in "fiub" and x.ndim in (1, 2)

    def restored(self, i: int) -> np.ndarray:
        rows = super().restored(i)
        return rows[:, 0] if rows.shape[1] == 1 else rows


# ---- words inside sequences ----------------------------------------------------------------------


class _WordKernel(SparseKernel):
    """A kernel whose features count words; subclasses list them."""

    kind = SequencePoints
    positive_definite = "it is the inner product of weighted counts of words"

    def words(self, points: SequencePoints) -> Iterable[Words]:
        """Groups of words, each of one weight."""
        raise NotImplementedError

    def feature_rows(self, points: SequencePoints) -> FeatureRows:
        owners, hashes, weights = zip(*self.words(points), strict=True)
        weight = np.repeat(weights, [len(owner) for owner in owners])
        owner, hashed = np.concatenate(owners), np.concatenate(hashes)
        order = np.argsort(owner, kind="stable")
        starts = offsets(np.bincount(owner, minlength=points.total))
        return FeatureRows.counted(starts, hashed[order], weight[order])

    def check_pair(self, x: Any, y: Any) -> None:
        same_alphabet(x, y)


def words_of(points: SequencePoints, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The words of one length: the sequence that each belongs to, and where it starts."""
    lengths = np.diff(points.starts)
    counts = np.maximum(lengths - length + 1, 0)
    owners = np.repeat(np.arange(points.total), counts)
    places = np.arange(len(owners)) + np.repeat(points.starts[:-1] - offsets(counts)[:-1], counts)
    return owners, places


def hashed_words(symbols: np.ndarray, places: np.ndarray, positions: Sequence[int]) -> Hashes:
    """A hash of the symbols at some positions of each word: Σ_j h_j(symbol j)."""
    total = np.full(len(places), mixed(len(positions), salt=999), np.uint64)
    for j in positions:
        total += mixed(symbols[places + j], salt=j)
    return mixed(total)


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(_WordKernel):
    """The spectrum kernel, Σ_u c_u(x) c_u(y) over all words u of p symbols.

    c_u(x) counts how often u occurs in x, without gaps. A sequence shorter than p has no words, so
    its values are 0.

    Parameters
    ----------
    length : int, default=3
        p.

    References
    ----------
    Leslie, Eskin, Noble, The spectrum kernel: a string kernel for SVM protein classification, 2002.

    Examples
    --------
    >>> Spectrum(2)("ababa", "bab")  # ab: 2·1, ba: 2·1
    4.0
    """

    length: int = 3
    checks = checked(length=check_count)

    def words(self, points: SequencePoints) -> Iterator[Words]:
        owners, places = words_of(points, self.length)
        yield owners, hashed_words(points.symbols, places, range(self.length)), 1.0


@dataclass(frozen=True, eq=False, repr=False)
class BlendedSpectrum(_WordKernel):
    """All words of up to p symbols, Σ_{q ≤ p} λ^{2q} Σ_{|u| = q} c_u(x) c_u(y).

    Parameters
    ----------
    longest : int, default=3
        p.
    decay : float, default=1.0
        λ: each symbol of a word gives its count another factor; above 1 long words weigh more.

    References
    ----------
    Shawe-Taylor, Cristianini, Kernel Methods for Pattern Analysis, 2004, section 11.2.

    Examples
    --------
    >>> k, x, y = BlendedSpectrum(3, decay=0.5), "kernel", "learner"
    >>> k(x, y) == sum(0.5 ** (2 * q) * Spectrum(q)(x, y) for q in (1, 2, 3))
    True
    """

    longest: int = 3
    decay: float = 1.0
    checks = checked(longest=check_count, decay=check_positive)

    def words(self, points: SequencePoints) -> Iterator[Words]:
        for q in range(1, self.longest + 1):
            owners, places = words_of(points, q)
            yield owners, hashed_words(points.symbols, places, range(q)), float(self.decay) ** q


@dataclass(frozen=True, eq=False, repr=False)
class WildcardSpectrum(_WordKernel):
    """Words of p symbols in which up to m are wildcards that stand for any symbol.

    The feature of a pattern u with j wildcards is λ^j times how often it fits. So words that differ
    in up to m places have patterns in common. With m = 0 it is the spectrum kernel.

    Parameters
    ----------
    length : int, default=3
        p.
    wildcards : int, default=1
        m < p.
    decay : float, default=0.5
        λ ≤ 1.

    References
    ----------
    Leslie, Kuang, Fast string kernels using inexact matching for protein sequences, 2004.

    Examples
    --------
    >>> WildcardSpectrum(3, 1, decay=0.5)("cat", "cut")  # c*t: 0.5²
    0.25
    """

    length: int = 3
    wildcards: int = 1
    decay: float = 0.5

    checks = checked(length=check_count, decay=check_share)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "wildcards", self.wildcards, self.length)

    def words(self, points: SequencePoints) -> Iterator[Words]:
        owners, places = words_of(points, self.length)
        for j in range(self.wildcards + 1):
            for positions in combinations(range(self.length), self.length - j):
                hashes = hashed_words(points.symbols, places, positions)
                yield owners, hashes, float(self.decay) ** j


@dataclass(frozen=True, eq=False, repr=False)
class MismatchSpectrum(_WordKernel):
    """Words of p symbols that occur in both sequences up to m mismatches.

    The feature of a word u over the alphabet counts the words of x that differ from u in at most m
    places, k(x, y) = Σ_u c_u^m(x) c_u^m(y). With m = 0 it is the spectrum kernel.

    Parameters
    ----------
    alphabet : str or sequence of symbols, default="ACGT"
        All symbols that may occur: the words u are made of them.
    length : int, default=5
        p.
    mismatches : int, default=1
        m < p. A word has Σ_{j ≤ m} (p choose j)(s − 1)^j features for s symbols.

    References
    ----------
    Leslie, Eskin, Cohen, Weston, Noble, Mismatch string kernels for discriminative protein
    classification, 2004.

    Examples
    --------
    >>> MismatchSpectrum("ab", 2, 1)("aa", "ab")  # aa and ab are near both words
    2.0
    """

    alphabet: Any = "ACGT"
    length: int = 5
    mismatches: int = 1

    checks = checked(length=check_count)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "mismatches", self.mismatches, self.length)
        if not hasattr(self.alphabet, "__len__") or not len(self.alphabet):
            raise ValueError(
                f"MismatchSpectrum needs its alphabet, as alphabet='ACGT'; got {self.alphabet!r}."
            )

    def check_points(self, points: Any) -> None:
        known = np.isin(points.symbols, self._symbols(points))
        if not known.all():
            place = int(np.argmin(known))
            item = int(points.owners[place])
            symbol = points.restored(item)[place - points.starts[item]]
            problem = f"holds {symbol!r}, which is not in the alphabet {self.alphabet!r}"
            raise bad_item(item, problem)

    def _symbols(self, points: SequencePoints) -> np.ndarray:
        """The codes of the alphabet."""
        alphabet = SequencePoints.read([self.alphabet])
        same_alphabet(alphabet, points)
        return np.unique(alphabet.symbols)

    def words(self, points: SequencePoints) -> Iterator[Words]:
        symbols = self._symbols(points)
        owners, places = words_of(points, self.length)
        codes = [mixed(symbols, salt=j) for j in range(self.length)]
        numbers = [np.searchsorted(symbols, points.symbols[places + j]) for j in range(self.length)]
        total = sum(map(np.take, codes, numbers), np.zeros(len(places), np.uint64))
        for count in range(self.mismatches + 1):
            for positions in combinations(range(self.length), count):
                for steps in product(range(1, len(symbols)), repeat=count):  # to other symbols
                    changed = total.copy()
                    for j, step in zip(positions, steps, strict=True):
                        others = (numbers[j] + step) % len(symbols)
                        changed += codes[j][others] - codes[j][numbers[j]]
                    yield owners, mixed(changed), 1.0


@dataclass(frozen=True, eq=False, repr=False)
class WeightedDegree(_WordKernel):
    """Words at the same place of two aligned sequences, Σ_{q ≤ p} β_q Σ_l 1[x_{l:l+q} = y_{l:l+q}].

    β_q = 2(p − q + 1)/(p(p + 1)), so that a position where all words agree adds 1. Sequences of
    different lengths are compared from their start.

    Parameters
    ----------
    degree : int, default=5
        p, the length of the longest word.

    References
    ----------
    Rätsch, Sonnenburg, Accurate splice site prediction for Caenorhabditis elegans, 2004.

    Examples
    --------
    >>> k = WeightedDegree(2)  # β = 2/3, 1/3
    >>> round(k("abcd", "abxd"), 12) == round(2 / 3 * 3 + 1 / 3 * 1, 12)
    True
    """

    degree: int = 5
    positive_definite = "it is the inner product of weighted indicators of words at places"
    checks = checked(degree=check_count)

    def words(self, points: SequencePoints) -> Iterator[Words]:
        for q, weight in enumerate(self.weights(), start=1):
            owners, places = words_of(points, q)
            words = hashed_words(points.symbols, places, range(q))
            there = mixed(places - points.starts[owners], salt=77)
            yield owners, mixed(words + there), math.sqrt(weight)

    def weights(self) -> list[float]:
        """β_1, …, β_p."""
        p = int(self.degree)
        return [2.0 * (p - q + 1) / (p * (p + 1)) for q in range(1, p + 1)]

    def block(self, x: Any, y: Any) -> np.ndarray:
        """By runs of equal symbols: on four letters 3 to 10 times as fast as by p·L features."""
        longest = max(np.diff(side.starts).max(initial=0) for side in (x, y))
        return computed("weighted_degree", x, y, self._gains(longest))

    def diagonal(self, x: Any) -> np.ndarray:
        lengths = np.diff(x.starts)
        return np.cumsum(self._gains(lengths.max(initial=0)))[lengths[x.chosen]]

    def _gains(self, longest: int) -> np.ndarray:
        """The gain of the r-th equal symbol of a run: Σ_{q ≤ min(r, p)} β_q."""
        steps = np.append(0.0, np.cumsum(self.weights()))
        return steps[np.minimum(np.arange(int(longest) + 1), len(steps) - 1)]


# ---- dynamic programs over pairs -----------------------------------------------------------------


def computed(program: str, x: Any, y: Any, *arguments: Any) -> np.ndarray:
    """What a compiled program makes of all pairs of sequences of symbols, or series of vectors."""
    from mercer.structured.compiled import sequences

    if isinstance(x, SequencePoints):
        same_alphabet(x, y)
    parts = x.parts[0]
    sides = [sequences.Flat(getattr(side, parts), side.starts, side.chosen) for side in (x, y)]
    out = np.empty((len(x), len(y)))
    getattr(sequences, program)(*sides, *arguments, out)
    return out


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
    checks = checked(length=check_count, decay=check_share)

    def values(self, x: SequencePoints, y: SequencePoints, logs: bool) -> np.ndarray:
        out = computed("gap_weighted", x, y, int(self.length), float(self.decay), logs)
        if logs:
            return out + 2 * self.length * math.log(self.decay)
        return out * float(self.decay) ** (2 * self.length)


@dataclass(frozen=True, eq=False, repr=False)
class _Subsequences(LogScaleKernel):
    """All subsequences, by presence or by count."""

    decay: float = 1.0
    kind = SequencePoints
    presence: ClassVar[bool]
    checks = checked(decay=check_positive)

    def values(self, x: SequencePoints, y: SequencePoints, logs: bool) -> np.ndarray:
        local = x.prepared("local symbols", local_symbols)
        most, weight = int(local.max(initial=0)) + 1, float(self.decay) ** 2
        return computed("all_subsequences", x, y, local, most, weight, self.presence, logs)


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


def local_symbols(points: SequencePoints) -> np.ndarray:
    """For each symbol its number among the different symbols of its own sequence."""
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
    checks = checked(lengthscale=check_positive, band=check_whole)

    def values(self, x: SeriesPoints, y: SeriesPoints, logs: bool) -> np.ndarray:
        widths = {side.vectors.shape[1] for side in (x, y) if len(side.vectors)}
        if len(widths) > 1:
            raise ValueError(
                f"both sides must be series of vectors of one length; got {x.vectors.shape[1]} and "
                f"{y.vectors.shape[1]}."
            )
        scale = 0.5 / float(self.lengthscale) ** 2
        return computed("global_alignment", x, y, scale, int(self.band), logs)


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
    checks = checked(lengthscale=check_positive)

    def facts(self, dimension: int | None = None) -> Facts:
        reason = "the edit distance is not conditionally negative definite (Cortes et al., 2004)"
        return Facts(self, dimension, positive_definite=no(reason))

    def distances(self, x: Any, y: Any) -> np.ndarray:
        """The edit distances of all pairs."""
        return computed("edit_distances", x, y)

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
