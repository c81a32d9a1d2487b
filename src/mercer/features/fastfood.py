"""Fastfood: frequencies whose products with a point take the time of a fast transform."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mercer.features.base import Fill
from mercer.features.fourier import FourierFeatures
from mercer.features.frequencies import TURN, FrequencySampler, IsotropicSpectrum
from mercer.features.inputs import KernelLike, dense
from mercer.kernels import laws
from mercer.kernels.measures import Seed, generator

ROWS = 32  # whose angles are computed at a time, all frequencies at once
SHORTEST_TRANSFORM = 16  # columns of a block: the float32 numbers of the widest vector


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
        turns, write, step = self._turns(dtype), self._writer(dtype), ROWS

        def fill(rows: Any, out: np.ndarray) -> None:
            angles = np.empty((step, self.signs_.size), dtype)
            for first in range(0, rows.shape[0], step):
                some, target = rows[first : first + step], out[first : first + step]
                block = angles[: len(target)]
                turns(some, block)
                write(np.ascontiguousarray(block[:, : self._count]), target, 0)

        return fill

    @property
    def _block_size(self) -> int:
        return int(self.signs_.shape[1])

    def _block_covariance(self, h: np.ndarray) -> np.ndarray:
        spectrum = IsotropicSpectrum.of(self.kernel_, h.shape[1], "Fastfood", self._block_size)
        return spectrum.orthogonal_covariance(h) + spectrum.fastfood_excess(h)
