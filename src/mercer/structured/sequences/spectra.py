"""Kernels that compare the words inside two sequences: spectra, mismatches, wildcards, positions.

All have sparse features, one for each word, found in time linear in the length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from mercer.checks import check_between, check_count, is_count
from mercer.structured.base import bad_item, check_share, offsets
from mercer.structured.hashing import Hashes, mixed
from mercer.structured.sequences.points import SequencePoints, same_alphabet
from mercer.structured.sparse import FeatureRows, SparseKernel

Words = tuple[np.ndarray, Hashes, float]  # sequence of each word, its hash, its weight


class _WordKernel(SparseKernel):
    """A kernel whose features count words; subclasses list them."""

    kind = SequencePoints

    def words(self, points: SequencePoints) -> Iterable[Words]:
        """Groups of words, each of one weight."""
        raise NotImplementedError

    positive_definite = "it is the inner product of weighted counts of words"

    def feature_rows(self, points: SequencePoints) -> FeatureRows:
        groups = list(self.words(points))
        owners = np.concatenate([np.empty(0, np.int64), *(owner for owner, _, _ in groups)])
        hashes = np.concatenate([np.empty(0, np.uint64), *(hashes for _, hashes, _ in groups)])
        weights = np.repeat([w for _, _, w in groups], [len(owner) for owner, _, _ in groups])
        order = np.argsort(owners, kind="stable")
        starts = offsets(np.bincount(owners, minlength=points.total))
        return FeatureRows.counted(starts, hashes[order], weights[order])

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

    def __post_init__(self) -> None:
        check_count(self, "length", self.length)

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

    def __post_init__(self) -> None:
        check_count(self, "longest", self.longest)
        check_between(self, "decay", self.decay, 0.0, math.inf)

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

    def __post_init__(self) -> None:
        check_count(self, "length", self.length)
        _check_fewer(self, "wildcards", self.wildcards, self.length)
        check_share(self, "decay", self.decay)

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

    def __post_init__(self) -> None:
        check_count(self, "length", self.length)
        _check_fewer(self, "mismatches", self.mismatches, self.length)
        if not hasattr(self.alphabet, "__len__") or not len(self.alphabet):
            raise ValueError(
                f"MismatchSpectrum needs its alphabet, as alphabet='ACGT'; got {self.alphabet!r}."
            )

    def check_points(self, points: Any) -> None:
        known = np.isin(points.symbols, self._symbols(points))
        if not known.all():
            place = int(np.argmin(known))
            item = int(np.searchsorted(points.starts, place, side="right")) - 1
            raise bad_item(
                item,
                f"holds {points.shown(int(points.symbols[place]))!r}, which is not in the alphabet "
                f"{self.alphabet!r}",
            )

    def _symbols(self, points: SequencePoints) -> np.ndarray:
        """The codes of the alphabet."""
        alphabet = SequencePoints.read([self.alphabet])
        same_alphabet(alphabet, points)
        return np.unique(alphabet.symbols)

    def words(self, points: SequencePoints) -> Iterator[Words]:
        symbols = self._symbols(points)
        owners, places = words_of(points, self.length)
        parts = [mixed(points.symbols[places + j], salt=j) for j in range(self.length)]
        others = np.searchsorted(symbols, points.symbols[places[:, None] + np.arange(self.length)])
        total = sum(parts, np.zeros(len(places), np.uint64))
        for j in range(self.mismatches + 1):
            for positions in combinations(range(self.length), j):
                for hashes in _replaced(total, positions, parts, others, symbols):
                    yield owners, mixed(hashes), 1.0


def _replaced(
    total: Hashes,
    positions: Sequence[int],
    parts: list[Hashes],
    others: np.ndarray,
    symbols: np.ndarray,
) -> Iterator[Hashes]:
    """The hashes of words with other symbols at all of the positions."""
    if not positions:
        yield total
        return
    j, rest = positions[0], positions[1:]
    for step in range(1, len(symbols)):
        symbol = symbols[(others[:, j] + step) % len(symbols)]
        changed = total - parts[j] + mixed(symbol, salt=j)
        yield from _replaced(changed, rest, parts, others, symbols)


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

    def __post_init__(self) -> None:
        check_count(self, "degree", self.degree)

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
        """By runs of equal symbols, which is quicker than the p·L features of a sequence."""
        from mercer.structured.compiled.sequences import weighted_degree

        self.check_pair(x, y)
        out = np.empty((len(x), len(y)))
        gains = self._gains(max(np.diff(x.starts).max(initial=0), np.diff(y.starts).max(initial=0)))
        weighted_degree(x.symbols, x.starts, x.chosen, y.symbols, y.starts, y.chosen, gains, out)
        return out

    def diagonal(self, x: Any) -> np.ndarray:
        lengths = np.diff(x.starts)
        return np.cumsum(self._gains(lengths.max(initial=0)))[lengths[x.chosen]]

    def _gains(self, longest: int) -> np.ndarray:
        """The gain of the r-th equal symbol of a run: Σ_{q ≤ min(r, p)} β_q."""
        gains = np.zeros(int(longest) + 1)
        steps = np.cumsum(self.weights())
        gains[1:] = steps[np.minimum(np.arange(int(longest)), len(steps) - 1)]
        return gains


def _check_fewer(owner: Any, name: str, value: Any, limit: int) -> None:
    """Refuse anything but a whole number from 0 to limit − 1."""
    if not (is_count(value) or value == 0) or isinstance(value, bool) or value >= limit:
        raise ValueError(
            f"{type(owner).__name__} needs a whole number {name} from 0 to length − 1 = "
            f"{limit - 1}; got {value!r}."
        )
