"""Radial kernels on other distances than the Euclidean one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.conversion.request import Request, column_pairs, dense, refuse_indefinite
from mercer.kernels.coordinates import Laplacian
from mercer.kernels.custom import BlockKernel
from mercer.kernels.radial import Exponential, Radial

EUCLIDEAN = ("euclidean", "l2")
L1 = ("l1", "manhattan", "cityblock")


def on_metric(kernel: Kernel, metric: str, request: Request) -> Kernel:
    """The kernel with another distance in place of the Euclidean one."""
    if metric not in L1:
        raise ValueError(f"metric must be one of {[*EUCLIDEAN, *L1]}; got {metric!r}.")
    if not isinstance(kernel, Radial):
        raise ValueError(f"{kernel!r} is no function of a distance: leave metric={metric!r} out.")
    return kernel if request.width() == 1 else _on_l1(kernel, request)


def _on_l1(kernel: Radial, request: Request) -> Kernel:
    """On L1 Matérn kernels are mixtures of Laplacians up to ν = ½, and indefinite beyond."""
    smoothness = 0.5 if isinstance(kernel, Exponential) else getattr(kernel, "smoothness", math.inf)
    if smoothness == 0.5:
        return Laplacian(kernel._lengthscale)
    if smoothness > 0.5:
        refuse_indefinite(
            request,
            f"{kernel!r} on the L1 distance is not positive definite beyond one column: that takes "
            "a smoothness of at most 1/2.",
            "Write Laplacian(lengthscale), keep the Euclidean distance, or multiply one kernel for "
            "each column, k.on(0) * k.on(1). For points with one column pass n_features=1.",
        )
    return BlockKernel(ManhattanProfile(kernel))


@dataclass(frozen=True)
class ManhattanProfile:
    """g(Σ_k |x_k − y_k|/ℓ_k) for all pairs, g(r) being the profile of a radial kernel.

    >>> from mercer.kernels import Gaussian
    >>> x, y = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> bool(ManhattanProfile(Gaussian())(x, y) == Gaussian()(np.array([[0.0]]), np.array([[7.0]])))
    True
    """

    kernel: Radial

    def __call__(self, X: Any, Y: Any) -> np.ndarray:
        scales, distances = np.asarray(self.kernel._lengthscale), np.zeros((X.shape[0], Y.shape[0]))
        for x, y in column_pairs(dense(X) / scales, dense(Y) / scales):
            distances += np.abs(x - y)
        line = self.kernel.with_(lengthscale=1.0)
        return line(distances.reshape(-1, 1), np.zeros((1, 1))).reshape(distances.shape)
