"""Random Fourier features: a stationary kernel as the mean of cosines of random frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.checks import check_count
from mercer.features import frequencies
from mercer.features.fourier.base import TURN, FourierFeatures
from mercer.features.fourier.blocks import blocks_worth, pairs_in_blocks
from mercer.features.inputs import KernelInput
from mercer.kernels.base import Kernel
from mercer.kernels.conversion import as_kernel
from mercer.kernels.laws.measures import generator
from mercer.kernels.radial import Gaussian


class RandomFourierFeatures(KernelInput, FourierFeatures):
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
        scrambled Sobol' sequence, for measures with known quantiles. All are unbiased.
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

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: int = 100,
        *,
        gamma: Any = None,
        form: str = "pairs",
        sampling: str = "independent",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.gamma = gamma
        self.form = form
        self.sampling = sampling
        self.random_state = random_state

    def _resolved_kernel(self, X: Any) -> Kernel:
        return as_kernel(self.kernel, gamma=self.gamma, X=X)

    def _draw(self, X: Any) -> None:
        count = self._frequency_count(self.n_components)
        kernel, width = self._resolved_kernel(X), X.shape[1]
        random = generator(self.random_state)
        measure = frequencies.spectral_measure(kernel, width)
        self.frequencies_ = frequencies.draw(kernel, width, count, self.sampling, random)
        self.phases_ = self._drawn_phases(random, self.n_components)
        self.amplitude_ = float(measure.total)
        self.kernel_ = kernel

    def _correlation(self, h: np.ndarray) -> tuple[np.ndarray | float, float]:
        if self.sampling != "orthogonal":
            return 0.0, 0.0
        spectrum = frequencies.Isotropic.of(self.kernel_, self._width, "orthogonal sampling")
        lengths = np.linalg.norm(h * spectrum.scales, axis=1)
        values = frequencies.Orthogonal.of(spectrum, self._width).covariance(lengths)
        return values, pairs_in_blocks(self._count, self._width)

    def _independent_parts(self) -> float:
        if self.sampling == "quasi-random":
            return 0.0
        count, width = self.frequencies_.shape
        if self.sampling == "independent":
            return float(count)
        return blocks_worth(count, width)


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

    def __init__(
        self, *, gamma: Any = 1.0, n_components: int = 100, random_state: Any = None
    ) -> None:
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state

    def _draw(self, X: Any) -> None:
        check_count(self, "n_components", self.n_components)
        kernel = as_kernel("rbf", gamma=self.gamma, X=X)
        assert isinstance(kernel, Gaussian)
        random = check_random_state(self.random_state)
        deviation = 1.0 / float(np.asarray(kernel.lengthscale))
        weights = deviation * random.normal(size=(X.shape[1], self.n_components))
        offset = random.uniform(0.0, TURN, size=self.n_components)
        dtype = X.dtype if X.dtype == np.float32 else np.float64
        self.random_weights_ = weights.astype(dtype, copy=False)
        self.random_offset_ = offset.astype(dtype, copy=False)
        self.frequencies_ = weights.T
        self.phases_ = offset
        self.amplitude_ = 1.0
        self.kernel_ = kernel
