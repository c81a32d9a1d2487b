"""Kernels that compare subsequences, which may have gaps, by dynamic programming."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_between, check_count
from mercer.structured.base import LogScaleKernel, check_share
from mercer.structured.sequences.points import SequencePoints, same_alphabet


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
class AllSubsequences(LogScaleKernel):
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

    decay: float = 1.0
    kind = SequencePoints
    positive_definite = "it is the inner product of weighted counts of subsequences"

    def __post_init__(self) -> None:
        check_between(self, "decay", self.decay, 0.0, math.inf)

    def values(self, x: SequencePoints, y: SequencePoints, logs: bool) -> np.ndarray:
        return _all_subsequences(self, x, y, False, logs)


@dataclass(frozen=True, eq=False, repr=False)
class CommonSubsequences(LogScaleKernel):
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

    decay: float = 1.0
    kind = SequencePoints
    positive_definite = "it is the inner product of weighted indicators of subsequences"

    def __post_init__(self) -> None:
        check_between(self, "decay", self.decay, 0.0, math.inf)

    def values(self, x: SequencePoints, y: SequencePoints, logs: bool) -> np.ndarray:
        return _all_subsequences(self, x, y, True, logs)


def _all_subsequences(kernel: Any, x: Any, y: Any, presence: bool, logs: bool) -> np.ndarray:
    from mercer.structured.compiled.sequences import all_subsequences

    same_alphabet(x, y)
    out = np.empty((len(x), len(y)))
    local = x.prepared("local symbols", local_symbols)
    most = int(local.max(initial=0)) + 1
    weight = float(kernel.decay) ** 2
    all_subsequences(*flat(x), local, most, *flat(y), weight, presence, logs, out)
    return out


def flat(points: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Symbols, starts and chosen sequences, as compiled code takes them."""
    return points.symbols, points.starts, points.chosen


def local_symbols(points: SequencePoints) -> np.ndarray:
    """For each symbol its number among the different symbols of its own sequence.

    >>> local_symbols(SequencePoints.read(["kayak", "yes"])).tolist()
    [1, 0, 2, 0, 1, 2, 0, 1]
    """
    owners = np.repeat(np.arange(points.total), np.diff(points.starts))
    pairs = np.stack([owners, points.symbols])
    different, number = np.unique(pairs, axis=1, return_inverse=True)
    first = np.searchsorted(different[0], np.arange(points.total))
    return number.reshape(-1) - first[owners]
