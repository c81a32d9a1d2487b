"""All laws of one kernel, to read."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mercer.kernels.algebra import Columns
from mercer.kernels.base import Kernel
from mercer.kernels.input_maps import Composed, GroupAverage, LinearMap
from mercer.kernels.laws.answer import Answer
from mercer.kernels.laws.boundedness import bounded
from mercer.kernels.laws.definiteness import positive_definite
from mercer.kernels.laws.invariance import isotropic, stationary
from mercer.kernels.laws.richness import universal
from mercer.kernels.laws.smoothness import sobolev_order
from mercer.kernels.laws.spectrum import spectral_density
from mercer.kernels.laws.torus import fourier_weights


@dataclass(frozen=True, eq=False, repr=False)
class Laws:
    """What is known of a kernel on points with so many columns.

    >>> from mercer.kernels import Gaussian
    >>> Gaussian().laws(dimension=2)
    Gaussian(lengthscale=1.0) on points of 2 columns
    positive definite  yes: its spectral density is positive in every dimension (Bochner)
    stationary         yes: it is a function of the scaled distance of x and y
    isotropic          yes: it is a function of ‖x − y‖
    bounded            yes (1): k(x, x) = 1
    universal          yes: its spectral density is positive everywhere
    sobolev order      yes (inf): its spectral measure has all moments: its functions have ...
    spectral density   yes: its frequencies are normal
    fourier weights    no: it tends to 0 far away, so it does not repeat
    """

    kernel: Kernel
    dimension: int
    positive_definite: Answer
    stationary: Answer
    isotropic: Answer
    bounded: Answer
    universal: Answer
    sobolev_order: Answer
    spectral_density: Answer
    fourier_weights: Answer

    def __repr__(self) -> str:
        columns = "1 column" if self.dimension == 1 else f"{self.dimension} columns"
        lines = [f"{self.kernel!r} on points of {columns}"]
        for field in fields(self)[2:]:
            lines.append(f"{field.name.replace('_', ' '):<19}{getattr(self, field.name)!r}")
        return "\n".join(lines)


def summary(kernel: Kernel, dimension: int | None = None, count: int = 16) -> Laws:
    """Every law of a kernel; by default for as many columns as it needs, else for one."""
    size = needed_columns(kernel) if dimension is None else int(dimension)
    return Laws(
        kernel,
        size,
        positive_definite(kernel, size),
        stationary(kernel, size),
        isotropic(kernel, size),
        bounded(kernel, size),
        universal(kernel, size),
        sobolev_order(kernel, size),
        spectral_density(kernel, size),
        fourier_weights(kernel, count),
    )


def needed_columns(kernel: Kernel) -> int:
    """How many columns the points of a kernel have at least.

    >>> from mercer.kernels import Gaussian
    >>> needed_columns(Gaussian([1.0, 2.0]) + Gaussian()), needed_columns(Gaussian().on([0, 2]))
    (2, 3)
    """
    match kernel:
        case Columns():
            numbers = [int(c) for c in kernel.columns if not isinstance(c, str)]
            highest = max((c + 1 if c >= 0 else -c for c in numbers), default=1)
            return max(highest, len(set(kernel.columns)))
        case LinearMap():
            return int(np.shape(kernel.matrix)[1])
        case GroupAverage():
            return len(kernel.group[0])
        case Composed():
            return 1
    scales = getattr(kernel, "lengthscale", 1.0)
    inner = [needed_columns(part) for part in _inside(kernel)]
    return max([len(scales) if hasattr(scales, "__len__") else 1, *inner])


def _inside(kernel: Kernel) -> list[Kernel]:
    return [v for v in kernel.get_params(deep=False).values() if isinstance(v, Kernel)]
