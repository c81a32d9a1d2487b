"""Random Fourier features: a stationary kernel as the mean of cosines of random frequencies.

`Fastfood` has frequencies whose products with a point take the time of a fast transform.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.optimize import minimize_scalar
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import namespace, to_precision
from mercer.checks import check_count
from mercer.features.base import FeatureMap, Fill, Tuning, dense_pairs
from mercer.features.frequencies import TURN, FrequencySampler, IsotropicSpectrum
from mercer.features.inputs import KernelLike, dense, placed_like
from mercer.kernels import laws
from mercer.kernels.conversion import as_kernel
from mercer.kernels.measures import Seed, generator
from mercer.kernels.radial import Gaussian

FORMS = ("pairs", "phase", "complex")


@dataclass(frozen=True)
class FourierTuning(Tuning):
    """Sizes of the blocks of angles, which stay in the cache until their cosines are written."""

    panel_bytes: int = 4096  # of a row of angles: those of 512 rows take the L2 cache of a core
    fastfood_rows: int = 32  # whose angles Fastfood computes at a time, all frequencies at once


SHORTEST_TRANSFORM = 16  # columns of a block of Fastfood: the float32 numbers of the widest vector


class FourierFeatures(FeatureMap):
    """The base class of maps with frequencies ω_1, …, ω_F: forms, errors and compiled features.

    Subclasses set `kernel_`, `frequencies_` of shape (F, columns), `amplitude_` = k(0) and, for
    the form with phases, `phases_` in `_draw`. Where frequencies come in blocks that depend on each
    other they say so by `_block_size` and `_block_covariance`.
    """

    tuning = FourierTuning()

    n_components: int
    form: str
    frequencies_: np.ndarray
    phases_: np.ndarray | None
    amplitude_: float

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
    def _scale(self) -> float:
        real = 1.0 if self.form == "complex" else 2.0
        return math.sqrt(real * self.amplitude_ / self.feature_count)

    def _frequency_count(self) -> int:
        check_count(self, "n_components", self.n_components)
        if self.form not in FORMS:
            raise ValueError(f"form must be one of {list(FORMS)}; got {self.form!r}.")
        return (self.n_components + 1) // 2 if self.form == "pairs" else self.n_components

    def _drawn_phases(self, random: np.random.Generator) -> np.ndarray | None:
        if self.form == "phase":
            return random.uniform(0.0, TURN, self.n_components)
        odd = self.form == "pairs" and self.n_components % 2
        return random.uniform(0.0, TURN, 1) if odd else None

    def _set_drawn(self, X: Any, weights: np.ndarray, offset: np.ndarray) -> None:
        """Frequencies and phases of scikit-learn's samplers, under its names too."""
        dtype = X.dtype if X.dtype == np.float32 else np.float64
        self.random_weights_ = weights.astype(dtype, copy=False)
        self.random_offset_ = offset.astype(dtype, copy=False)
        self.frequencies_, self.phases_, self.amplitude_ = weights.T, offset, 1.0

    # ---- features ----------------------------------------------------------------------------

    def dtype(self, X: Any) -> np.dtype:
        real = super().dtype(X)
        return np.result_type(real, np.complex64) if self.form == "complex" else real

    def _filler(self, dtype: np.dtype) -> Fill:
        """Angles in turns for a panel of frequencies at a time, so that they stay in the cache."""
        turned, width = self.frequencies_ / TURN, self.tuning.panel_bytes // dtype.itemsize
        panels = [
            (first, np.ascontiguousarray(turned[first : first + width].T, dtype))
            for first in range(0, len(turned), width)
        ]

        def fill(rows: Any, out: np.ndarray) -> None:
            scratch = np.empty(rows.shape[0] * min(width, len(turned)), dtype)
            for first, panel in panels:
                if scipy.sparse.issparse(rows):
                    turns = np.ascontiguousarray(rows @ panel)
                else:
                    turns = scratch[: rows.shape[0] * panel.shape[1]].reshape(-1, panel.shape[1])
                    np.matmul(rows, panel, out=turns)
                self._write(turns, out, first)

        return fill

    def _write(self, turns: np.ndarray, out: np.ndarray, first: int) -> None:
        """The features of the frequencies from `first` on, for the angles ω·x in turns."""
        from mercer.features import compiled

        scale, pairs, width = self._scale, self._count - self._odd, turns.shape[1]
        if self.form == "phase":
            phases = np.asarray(self.phases_)[first : first + width] / TURN
            compiled.cosines(turns, phases.astype(turns.dtype), scale, out, first)
        elif self.form == "complex":
            both, target = np.empty((len(turns), 2 * width), turns.dtype), out[:, first:][:, :width]
            compiled.pairs(turns, scale, both, 0, width)
            target.real, target.imag = both[:, :width], both[:, width:]
        else:
            some = np.ascontiguousarray(turns[:, : max(pairs - first, 0)])
            compiled.pairs(some, scale, out, first, pairs + first)
            if self.phases_ is not None and first + width > pairs:
                last = turns[:, -1]  # a whole turn is subtracted first, so that no digits are lost
                out[:, -1] = scale * np.cos(TURN * (last - np.rint(last)) + self.phases_[0])

    def _formula(self, X: Any) -> Any:
        xp = namespace(X)

        def beside(numbers: np.ndarray) -> Any:
            return to_precision(placed_like(numbers, X), X.dtype)

        turns = X @ beside(self.frequencies_.T / TURN)
        angles, scale = TURN * (turns - xp.round(turns)), self._scale
        phases = 0.0 if self.phases_ is None else beside(self.phases_)
        if self.form == "phase":
            return scale * xp.cos(angles + phases)
        cosines, sines = scale * xp.cos(angles), scale * xp.sin(angles)
        if self.form == "complex":
            return cosines + 1j * sines
        pairs = self._count - self._odd
        last = scale * xp.cos(angles[:, pairs:] + phases)
        return xp.concat([cosines[:, :pairs], sines[:, :pairs], last], axis=1)

    # ---- errors ------------------------------------------------------------------------------

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """The root mean square of ⟨φ(x_i), φ(y_i)⟩ − k(x_i, y_i) over draws, for pairs of rows.

        With h = x − y and S frequencies its square is ((k(0)² + k(0)k(2h))/2 − k(h)²)/S for pairs,
        k(0)²/(2S) more with phases, and (k(0)² − k(h)²)/S for the complex form. Orthogonal
        frequencies and those of Fastfood have their correlation on top; for quasi-random ones this
        is the error of independent ones.
        """
        check_is_fitted(self)
        x, y = dense_pairs(X, Y)
        h, largest, sizes = x - y, self.amplitude_, self._block_sizes()
        value, double = self._profile(h), self._profile(2.0 * h)
        cosine = 0.5 * (largest**2 + largest * double) - value**2  # variance of k(0) cos(ω·h)
        with_phase, odd = cosine + 0.5 * largest**2, int(self._odd)
        if self.form == "complex":
            mean = (largest**2 - value**2) / self._count
        elif self.form == "phase":
            mean = with_phase / self._count
        else:
            pairs = self._count - odd
            mean = (pairs * cosine + 0.25 * odd * with_phase) / (pairs + 0.5 * odd) ** 2
        together = float((sizes * (sizes - 1)).sum()) / self._count**2  # pairs in one block
        if together:
            mean = mean + together * largest**2 * self._block_covariance(h)
        return np.sqrt(np.maximum(mean, 0.0))

    def _profile(self, h: np.ndarray) -> np.ndarray:
        """k(h), for every row."""
        return np.asarray(self.kernel_.gram(h, np.zeros((1, h.shape[1]))).dense()[:, 0])

    @property
    def _block_size(self) -> int:
        """How many frequencies depend on each other."""
        return 1

    def _block_sizes(self) -> np.ndarray:
        size, count = self._block_size, self._count
        return np.array([min(size, count - first) for first in range(0, count, size)])

    def _block_covariance(self, h: np.ndarray) -> np.ndarray:
        """Of cos(ω_i·h) and cos(ω_j·h) for frequencies of one block."""
        raise NotImplementedError

    def _uniform_error(self, radius: float, probability: float) -> float:
        """By Hoeffding's inequality on a net of points, and a bound on the slope between them.

        This is the argument of Rahimi and Recht. Infinite where frequencies have no second moment
        (Matérn with ν ≤ 1, Laplacian), since the slope then is not bounded. Frequencies in blocks
        count as 1/Σ (share of a block)² independent ones.
        """
        width, k0 = int(self.n_features_in_), self.amplitude_
        measure = FrequencySampler(self.kernel_, width).measure
        moment = float(np.trace(measure.covariance()))  # E‖ω‖²
        if not math.isfinite(moment):
            return math.inf
        count = self._count**2 / float((self._block_sizes() ** 2).sum())
        if self.form == "phase" or self._odd:  # of (x, y), with values in [−2k(0), 2k(0)]
            ball = 2 * width, math.sqrt(2.0) * radius
            return _largest_mean(*ball, 12.0 * k0**2 * moment, 2.0 * k0, count, probability)
        errors = width, 2.0 * radius, 4.0 * k0**2 * moment, k0, count
        if self.form == "pairs":
            return _largest_mean(*errors, probability)
        half = 1.0 - 0.5 * (1.0 - probability)  # real and imaginary part
        return math.sqrt(2.0) * _largest_mean(*errors, half)


def _largest_mean(
    dimension: int, radius: float, slope: float, size: float, count: float, probability: float
) -> float:
    """The least ε for which sup |f| < ε on a ball, with the given probability, by bisection.

    f is a mean of `count` independent functions of mean 0 with values in an interval of length
    2·size; slope ≥ E L² for its largest slope L. (1 + 2R/r)^d balls of radius r cover the ball. At
    their centres |f| ≥ ε/2 has probability at most 2 exp(−count·ε²/(8 size²)) each (Hoeffding), and
    L ≥ ε/(2r) at most slope·(2r/ε)² (Markov).
    """
    if slope == 0:
        return 0.0

    def exceeds(error: float) -> bool:
        tail = math.log(2.0) - count * error**2 / (8.0 * size**2)

        def chance(logarithm: float) -> float:
            r = math.exp(logarithm)
            points = dimension * math.log1p(2.0 * radius / r)
            return math.exp(min(points + tail, 700.0)) + slope * (2.0 * r / error) ** 2

        widest = math.log(error / (2.0 * math.sqrt(slope) + 1e-300) + 1e-300)
        best = minimize_scalar(chance, bounds=(widest - 40.0, widest + 1.0), method="bounded")
        return bool(best.fun > 1.0 - probability)

    low, high = 1e-12, 4.0 * size
    while exceeds(high):
        high *= 2.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high


# ---- the maps ------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class RandomFourierFeatures(FourierFeatures):
    """φ(x) from cos(ω·x) and sin(ω·x), ω drawn from the spectral measure of a stationary kernel.

    By Bochner's theorem k(x, y) = k(0) E cos(ω·(x − y)), so the mean over S frequencies is an
    unbiased estimate whose error falls like 1/√S. Works for every kernel whose spectral measure is
    known: Gaussian, Matérn, Laplacian, Cauchy, rational quadratic, `Spectral`, their sums, products
    and multiples, with a lengthscale for each column, on some columns, after a linear map.

    Parameters
    ----------
    kernel : Kernel or str, default="rbf"
        "rbf" and "laplacian" with `gamma`, as in scikit-learn.
    n_components : int, default=100
        The number of features.
    gamma : float, optional
        Of a kernel given by name.
    form : {"pairs", "phase", "complex"}, default="pairs"
        (cos ω·x, sin ω·x) for n_components/2 frequencies: all cosines come first, and ⟨φ(x), φ(x)⟩
        is exactly k(0) (of an odd number the last is a single cosine with a phase);
        √2 cos(ω·x + b) with a random phase b; or exp(iω·x).
    sampling : {"independent", "orthogonal", "quasi-random"}, default="independent"
        Orthogonal blocks of d frequencies, uniform directions, for kernels of the distance; a
        scrambled Sobol' sequence, for measures with known quantiles. All are unbiased; there is no
        `uniform_error` of quasi-random ones, which are not independent.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    frequencies_ : array of shape (frequencies, columns)
    phases_ : array or None
    amplitude_ : float
        k(0).
    kernel_ : Kernel

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines, 2007; Yu et al., Orthogonal
    random features, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import RandomFourierFeatures
    >>> from mercer.kernels import Gaussian, Matern
    >>> k = Gaussian(1.0) + Matern(1.5, lengthscale=2.0)
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> phi = RandomFourierFeatures(k, n_components=20_000, random_state=0).fit(X)
    >>> Z = phi.transform(X)
    >>> bool(np.abs(Z @ Z.T - k(X)).max() < 0.1)
    True
    """

    kernel: KernelLike = "rbf"
    n_components: int = 100
    _: KW_ONLY
    gamma: float | str | None = None
    form: str = "pairs"
    sampling: str = "independent"
    random_state: Seed = None

    def _draw(self, X: Any) -> None:
        count, kernel = self._frequency_count(), self._resolved_kernel(X)
        sampler = FrequencySampler(kernel, X.shape[1], self.sampling)
        random = generator(self.random_state)
        self.amplitude_ = sampler.amplitude
        self.frequencies_ = sampler.draw(count, random)
        self.phases_ = self._drawn_phases(random)
        self.kernel_ = kernel

    @property
    def _block_size(self) -> int:
        return int(self.n_features_in_) if self.sampling == "orthogonal" else 1

    def _block_covariance(self, h: np.ndarray) -> np.ndarray:
        spectrum = IsotropicSpectrum.of(self.kernel_, h.shape[1], "orthogonal sampling")
        return spectrum.orthogonal_covariance(h)

    def _uniform_error(self, radius: float, probability: float) -> float:
        if self.sampling == "quasi-random":
            return math.inf
        return super()._uniform_error(radius, probability)


@dataclass(eq=False, repr=False)
class RBFSampler(FourierFeatures):
    """√(2/S) cos(ω_j·x + b_j): scikit-learn's `RBFSampler`, with the same arguments and draws.

    For an int `random_state` the features are those of scikit-learn, computed faster.

    Parameters
    ----------
    gamma : "scale" or float, default=1.0
        γ of exp(−γ‖x − y‖²).
    n_components : int, default=100
    random_state : int, RandomState instance or None

    Attributes
    ----------
    random_weights_ : array of shape (columns, n_components)
    random_offset_ : array of shape (n_components,)

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import RBFSampler as Theirs
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> ours, theirs = (kind(gamma=0.5, random_state=0).fit(X) for kind in (RBFSampler, Theirs))
    >>> bool(np.allclose(ours.transform(X), theirs.transform(X)))
    True
    """

    form = "phase"

    _: KW_ONLY
    gamma: float | str = 1.0
    n_components: int = 100
    random_state: Seed = None

    def _draw(self, X: Any) -> None:
        count, kernel = self._frequency_count(), as_kernel("rbf", gamma=self.gamma, X=X)
        assert isinstance(kernel, Gaussian)
        random = check_random_state(self.random_state)  # the numbers that scikit-learn draws
        self._gamma = 0.5 / float(np.asarray(kernel.lengthscale)) ** 2  # under scikit-learn's name
        deviation = 1.0 / float(np.asarray(kernel.lengthscale))
        weights = deviation * random.normal(size=(X.shape[1], count))
        self._set_drawn(X, weights, random.uniform(0.0, TURN, size=count))
        self.kernel_ = kernel


@dataclass(eq=False, repr=False)
class Fastfood(FourierFeatures):
    """Random Fourier features with ω = R H G Π H B/√D: O(S log d) operations for S frequencies.

    H is the Walsh–Hadamard matrix of size D = 2^p ≥ d, B random signs, Π a random permutation, G
    independent standard normal numbers and R_ii = r_i/‖G‖_F, with r_i from the law of ‖ω‖ in ℝ^D:
    chi with D degrees of freedom for the Gaussian kernel, times the mixing scale for Matérn and
    rational quadratic. Each ω then has exactly the law of a frequency, so the estimate is unbiased.
    Points are filled with zeros up to D columns, so the kernel must be one of the distance, and
    positive definite, on D columns too; columns may have lengthscales of their own. Frequencies of
    one block depend on each other, so the error is somewhat larger than with independent ones: up
    to √2 times for points much nearer than the lengthscale, hardly for distant ones.

    Parameters
    ----------
    kernel : Kernel or str, default="rbf"
        Gaussian, Matérn, exponential, rational quadratic, their sums and products.
    n_components : int, default=100
        The number of features, any.
    gamma : float, optional
        Of a kernel given by name.
    form : {"pairs", "phase", "complex"}, default="pairs"
        As in `RandomFourierFeatures`.
    random_state : int, Generator, RandomState or None

    References
    ----------
    Le, Sarlos and Smola, Fastfood: approximating kernel expansions in loglinear time, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> phi = Fastfood(Gaussian(4.0), n_components=4096, random_state=0).fit(X)
    >>> Z = phi.transform(X)
    >>> bool(np.abs(Z @ Z.T - Gaussian(4.0)(X)).max() < 0.1)
    True
    """

    kernel: KernelLike = "rbf"
    n_components: int = 100
    _: KW_ONLY
    gamma: float | str | None = None
    form: str = "pairs"
    random_state: Seed = None

    def _draw(self, X: Any) -> None:
        count, kernel, width = self._frequency_count(), self._resolved_kernel(X), X.shape[1]
        size = max(SHORTEST_TRANSFORM, 1 << (width - 1).bit_length())
        spectrum = IsotropicSpectrum.of(kernel, width, "Fastfood", size)
        wide = laws.isotropic(spectrum.kernel, size)
        if not wide.yes or laws.spectral_density(spectrum.kernel, size).payload is None:
            raise ValueError(
                f"Fastfood fills points with zeros up to {size} columns, and {kernel!r} is not "
                f"known to be a positive definite kernel of the distance there: {wide.because}. "
                "Write RandomFourierFeatures(kernel)."
            )
        random = generator(self.random_state)
        shape = math.ceil(count / size), size
        self.signs_ = random.choice(np.array([-1.0, 1.0]), shape)
        self.permutations_ = np.stack([random.permutation(size) for _ in range(shape[0])])
        self.gaussians_ = random.standard_normal(shape)
        lengths = np.linalg.norm(self.gaussians_, axis=1, keepdims=True)
        radii = spectrum.radii(math.prod(shape), random).reshape(shape)
        self.factors_ = radii / (lengths * math.sqrt(size))
        self.scales_ = spectrum.scales
        self.phases_ = self._drawn_phases(random)
        self.frequency_count_ = count
        self.amplitude_ = FrequencySampler(kernel, width).amplitude
        self.kernel_ = kernel

    @property
    def _count(self) -> int:
        return int(self.frequency_count_)

    @property
    def frequencies_(self) -> np.ndarray:  # type: ignore[override]
        """The frequencies, as a dense array (frequencies, columns): for looking, not computing."""
        turns = np.empty((len(self.scales_), self.signs_.size))
        self._turns(np.dtype(np.float64))(np.eye(len(self.scales_)), turns)
        return TURN * turns.T[: self._count]

    def _turns(self, dtype: np.dtype) -> Fill:
        """A function that writes ω·x in turns for all rows and all blocks."""
        from mercer.features import compiled

        matrices = (
            self.signs_.astype(dtype),
            self.permutations_.astype(np.uint32),
            self.gaussians_.astype(dtype),
            (self.factors_ / TURN).astype(dtype),
        )
        scales = None if (self.scales_ == 1.0).all() else self.scales_.astype(dtype)

        def turns(rows: Any, out: np.ndarray) -> None:
            points = dense(rows) if scales is None else dense(rows) * scales
            compiled.fastfood(np.ascontiguousarray(points), matrices, out)

        return turns

    def _filler(self, dtype: np.dtype) -> Fill:
        turns, step = self._turns(dtype), self.tuning.fastfood_rows

        def fill(rows: Any, out: np.ndarray) -> None:
            angles = np.empty((step, self.signs_.size), dtype)
            for first in range(0, rows.shape[0], step):
                some, target = rows[first : first + step], out[first : first + step]
                block = angles[: len(target)]
                turns(some, block)
                self._write(np.ascontiguousarray(block[:, : self._count]), target, 0)

        return fill

    @property
    def _block_size(self) -> int:
        return int(self.signs_.shape[1])

    def _block_covariance(self, h: np.ndarray) -> np.ndarray:
        spectrum = IsotropicSpectrum.of(self.kernel_, h.shape[1], "Fastfood", self._block_size)
        return spectrum.orthogonal_covariance(h) + spectrum.fastfood_excess(h)
