"""What all features with frequencies share: their forms, and their errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import beside, namespace, to_precision
from mercer.checks import check_count
from mercer.features import frequencies
from mercer.features.base import FeatureMap, Fill
from mercer.features.bounds import Net, least_error

FORMS = ("pairs", "phase", "complex")
PANEL_BYTES = 4096  # of a row of angles that lie in the cache together
TURN = 2.0 * math.pi


class FourierFeatures(FeatureMap):
    """What maps with frequencies ω_1, …, ω_F share: forms, errors and compiled features.

    Subclasses set `kernel_`, `frequencies_` of shape (F, columns), `amplitude_` = k(0) and, for
    the form with phases, `phases_` in `_draw`.
    """

    form: str
    frequencies_: np.ndarray
    phases_: np.ndarray | None
    amplitude_: float
    n_features_in_: int

    @property
    def feature_count(self) -> int:
        return 2 * self._count - self._odd if self.form == "pairs" else self._count

    @property
    def _odd(self) -> bool:
        """Whether the last of the pairs has no sine, but a phase: for an odd number of features."""
        return self.form == "pairs" and self.phases_ is not None

    @property
    def _count(self) -> int:
        """The number of frequencies."""
        return len(self.frequencies_)

    @property
    def _width(self) -> int:
        """The number of columns of a point."""
        return int(self.n_features_in_)

    def _frequency_count(self, n_components: int) -> int:
        check_count(self, "n_components", n_components)
        if self.form not in FORMS:
            raise ValueError(f"form must be one of {list(FORMS)}; got {self.form!r}.")
        return (n_components + 1) // 2 if self.form == "pairs" else n_components

    def _drawn_phases(self, random: np.random.Generator, n_components: int) -> np.ndarray | None:
        if self.form == "phase":
            return random.uniform(0.0, TURN, n_components)
        odd = self.form == "pairs" and n_components % 2
        return random.uniform(0.0, TURN, 1) if odd else None

    def _scale(self) -> float:
        real = 1.0 if self.form == "complex" else 2.0
        return math.sqrt(real * self.amplitude_ / self.feature_count)

    def _dtype(self, X: Any) -> np.dtype:
        real = super()._dtype(X)
        return np.result_type(real, np.complex64) if self.form == "complex" else real

    def _filler(self, dtype: np.dtype) -> Fill:
        angles = self._angles(dtype)
        write = self._writer(dtype)

        def fill(rows: Any, out: np.ndarray) -> None:
            for first, turns in angles(rows):
                write(turns, out, first)

        return fill

    def _angles(self, dtype: np.dtype) -> Any:
        """A function of rows that gives ω·x in turns, a panel of frequencies at a time."""
        turned, width = self.frequencies_ / TURN, PANEL_BYTES // dtype.itemsize
        panels = [
            (first, np.ascontiguousarray(turned[first : first + width].T, dtype))
            for first in range(0, len(turned), width)
        ]

        def angles(rows: Any) -> Any:
            scratch = np.empty((rows.shape[0], min(width, len(turned))), dtype)
            for first, panel in panels:
                if scipy.sparse.issparse(rows):
                    yield first, np.ascontiguousarray(rows @ panel)
                elif panel.shape[1] == scratch.shape[1]:
                    yield first, np.matmul(rows, panel, out=scratch)
                else:
                    yield first, rows @ panel

        return angles

    def _writer(self, dtype: np.dtype) -> Any:
        from mercer.features import compiled

        scale, count = self._scale(), self._count
        if self.form == "phase":
            assert self.phases_ is not None
            shifts = np.ascontiguousarray(self.phases_ / TURN, dtype)
            return lambda turns, out, first: compiled.cosines(turns, shifts, scale, out, first)
        if self.form == "pairs" and not self._odd:
            return lambda turns, out, first: compiled.pairs(turns, scale, out, first, count + first)
        if self.form == "pairs":
            return self._odd_writer(scale)

        def complex_exponentials(turns: np.ndarray, out: np.ndarray, first: int) -> None:
            both = np.empty((turns.shape[0], 2 * turns.shape[1]), dtype)
            compiled.pairs(turns, scale, both, 0, turns.shape[1])
            target = out[:, first : first + turns.shape[1]]
            target.real, target.imag = both[:, : turns.shape[1]], both[:, turns.shape[1] :]

        return complex_exponentials

    def _odd_writer(self, scale: float) -> Any:
        """Pairs for all frequencies but the last, which has one cosine with a phase."""
        from mercer.features import compiled

        assert self.phases_ is not None
        pairs, phase = self._count - 1, float(self.phases_[0])

        def write(turns: np.ndarray, out: np.ndarray, first: int) -> None:
            some = np.ascontiguousarray(turns[:, : max(pairs - first, 0)])
            compiled.pairs(some, scale, out, first, pairs + first)
            if first + turns.shape[1] > pairs:
                last = turns[:, -1]
                out[:, -1] = scale * np.cos(TURN * (last - np.rint(last)) + phase)

        return write

    def _of_tensors(self, X: Any) -> Any:
        xp = namespace(X)
        turns = X @ to_precision(beside(self.frequencies_.T / TURN, X), X.dtype)
        angles = TURN * (turns - xp.round(turns))
        scale = self._scale()
        if self.form == "phase":
            phases = to_precision(beside(self.phases_, X), X.dtype)
            return scale * xp.cos(angles + phases)
        pairs = self._count - 1 if self._odd else self._count
        cosines, sines = scale * xp.cos(angles), scale * xp.sin(angles)
        if self.form == "complex":
            return cosines + 1j * sines
        columns = [cosines[:, :pairs], sines[:, :pairs]]
        if self._odd:
            assert self.phases_ is not None
            columns.append(scale * xp.cos(angles[:, pairs:] + float(self.phases_[0])))
        return xp.concat(columns, axis=1)

    # ---- errors ------------------------------------------------------------------------------

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """The root mean square of ⟨φ(x_i), φ(y_i)⟩ − k(x_i, y_i) over draws, for pairs of rows.

        With h = x − y and S frequencies its square is ((k(0)² + k(0)k(2h))/2 − k(h)²)/S for pairs,
        k(0)²/(2S) more with phases, and (k(0)² − k(h)²)/S for the complex form. Orthogonal
        frequencies and those of Fastfood have their correlation on top; for quasi-random ones this
        is the error of independent ones.
        """
        check_is_fitted(self)
        h = _difference(X, Y)
        largest, value, double = self.amplitude_, self._profile(h), self._profile(2.0 * h)
        if self.form == "complex":
            variance = largest**2 - value**2
        else:
            variance = 0.5 * (largest**2 + largest * double) - value**2
        covariance, share = self._correlation(h)
        excess = share * largest**2 * covariance
        return np.sqrt(np.maximum(self._mean_variance(variance) + excess, 0.0))

    def _mean_variance(self, variance: np.ndarray) -> np.ndarray:
        """Of the mean of independent terms, given that of k(0) cos(ω·h)."""
        with_phase = variance + 0.5 * self.amplitude_**2
        if self.form == "phase":
            return with_phase / self._count
        if not self._odd:
            return variance / self._count
        pairs = self._count - 1
        return (pairs * variance + 0.25 * with_phase) / (pairs + 0.5) ** 2

    def _correlation(self, h: np.ndarray) -> tuple[np.ndarray | float, float]:
        """The covariance of cos(ω_i·h) and cos(ω_j·h) in one block, and the share of such pairs."""
        return 0.0, 0.0

    def _independent_parts(self) -> float:
        """How many independent frequencies the mean is worth at least: 1/Σ (size of block/S)²."""
        return float(self._count)

    def _profile(self, h: np.ndarray) -> np.ndarray:
        """k(h), for every row."""
        return np.asarray(self.kernel_.gram(h, np.zeros((1, h.shape[1]))).dense()[:, 0])

    def uniform_error(self, radius: float, probability: float = 0.9) -> float:
        """What |⟨φ(x), φ(y)⟩ − k(x, y)| stays below for all x, y in the ball ‖x‖ ≤ radius.

        By Hoeffding's inequality on a net of points, and a bound on the slope between them (the
        argument of Rahimi and Recht). Infinite where frequencies have no second moment (Matérn with
        ν ≤ 1, Laplacian), since the slope then is not bounded, and for quasi-random frequencies,
        which are not independent.
        """
        check_is_fitted(self)
        width = self._width
        moment = self._second_moment()
        if not math.isfinite(moment) or not self._independent_parts():
            return math.inf
        k0, count = self.amplitude_, self._independent_parts()
        if self.form == "phase" or self._odd:  # of (x, y), with values in [−2k(0), 2k(0)]
            net = Net(2 * width, math.sqrt(2.0) * radius, 12.0 * k0**2 * moment, 2.0 * k0, count)
            return least_error(net, probability)
        net = Net(width, 2.0 * radius, 4.0 * k0**2 * moment, k0, count)
        if self.form == "pairs":
            return least_error(net, probability)
        half = 1.0 - 0.5 * (1.0 - probability)  # real and imaginary part
        return math.sqrt(2.0) * least_error(net, half)

    def _second_moment(self) -> float:
        """E‖ω‖²."""
        measure = frequencies.spectral_measure(self.kernel_, self._width)
        return float(np.trace(measure.covariance()))


def _difference(X: Any, Y: Any) -> np.ndarray:
    first, second = (
        np.asarray(part.toarray() if scipy.sparse.issparse(part) else part, np.float64)
        for part in (X, Y)
    )
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(
            f"pairs are rows of two arrays of one shape; got {first.shape} and {second.shape}."
        )
    return first - second
