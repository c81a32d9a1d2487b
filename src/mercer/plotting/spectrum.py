"""The spectrum of a kernel, its eigenfunctions, and its Gram matrix as pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import as_numpy
from mercer.kernels.base import Kernel
from mercer.kernels.mercer import MercerDecomposition
from mercer.plotting.axes import BLUE, GREY, RED, axes, finished

SHOWN_POINTS = 500  # points of a Gram matrix that are drawn, at most


@dataclass(eq=False)
class GramDisplay:
    """The values k(x_i, x_j) as a heat map.

    Parameters
    ----------
    matrix : array of shape (n, n)
    title : str

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> display = GramDisplay.from_kernel(
    ...     Gaussian(), [[2.0], [0.0], [1.0]], y=[1, 0, 0], draw=False
    ... )
    >>> display.matrix.shape
    (3, 3)
    """

    matrix: np.ndarray
    title: str = ""

    @classmethod
    def from_kernel(
        cls, kernel: Kernel, X: Any, y: Any = None, *, ax: Any = None, draw: bool = True
    ) -> GramDisplay:
        """Draw the Gram matrix of points, at most 500 of them; sorted by y where that is given."""
        points = kernel.points(X)
        order = np.arange(len(points)) if y is None else np.argsort(np.asarray(y), kind="stable")
        rows = order[:: max(1, -(-len(order) // SHOWN_POINTS))]
        display = cls(np.asarray(as_numpy(kernel.gram(points.take(rows)).dense())), repr(kernel))
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> GramDisplay:
        """Draw on `ax`, or on axes of a new figure: `ax_` and `figure_` afterwards."""
        ax = axes(ax, (5.0, 4.2))
        image = ax.imshow(self.matrix, cmap="viridis", interpolation="nearest")
        ax.figure.colorbar(image, ax=ax, label="k(x, y)")
        return finished(self, ax, "point", "point", self.title)


@dataclass(eq=False)
class SpectrumDisplay:
    """Eigenvalues in falling order, and the decay that the kernel's Sobolev order predicts.

    Parameters
    ----------
    decomposition : MercerDecomposition
        As made by `kernel.mercer(measure)` or `kernel.mercer(X)`.

    Examples
    --------
    >>> from mercer.kernels import PeriodicBernoulli
    >>> from mercer.kernels.mercer import UniformCircle
    >>> display = SpectrumDisplay(PeriodicBernoulli(order=1).mercer(UniformCircle(), 100))
    >>> numbers, predicted = display.prediction()
    >>> bool(predicted[0] / predicted[-1] > 100)  # i⁻²
    True
    """

    decomposition: MercerDecomposition

    @classmethod
    def from_kernel(
        cls, kernel: Kernel, measure: Any, count: int = 50, *, ax: Any = None
    ) -> SpectrumDisplay:
        """Draw the spectrum of a kernel for a measure, or for points."""
        return cls(kernel.mercer(measure, count)).plot(ax)

    def prediction(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The line c·i^(−2s/d) through the middle eigenvalue, where a power is predicted."""
        power = self.decomposition.predicted_decay()
        values = self.decomposition.eigenvalues
        if power is None or not math.isfinite(power):
            return None
        numbers = np.arange(1, len(values) + 1)
        middle = len(values) // 2
        return numbers, values[middle] * (numbers / numbers[middle]) ** -power

    def plot(self, ax: Any = None) -> SpectrumDisplay:
        """Draw on `ax`, or on new axes, both logarithmic: `ax_` and `figure_` afterwards."""
        ax = axes(ax)
        spectrum = self.decomposition
        numbers = np.arange(1, len(spectrum.eigenvalues) + 1)
        ax.loglog(numbers, spectrum.eigenvalues, ".", color=BLUE, label="eigenvalues")
        line = self.prediction()
        if line is not None:
            label = f"i^(−{spectrum.predicted_decay():g}), by the Sobolev order"
            ax.loglog(*line, "--", color=RED, label=label)
        return finished(self, ax, "number", "eigenvalue", repr(spectrum.kernel), legend=True)


@dataclass(eq=False)
class EigenfunctionsDisplay:
    """Some eigenfunctions over one column.

    Parameters
    ----------
    decomposition : MercerDecomposition
    numbers : list of int, optional
        Which ones, from 0; the first four by default.

    Examples
    --------
    >>> from mercer.kernels import Brownian
    >>> from mercer.kernels.mercer import UniformCube
    >>> display = EigenfunctionsDisplay(Brownian().mercer(UniformCube(), 4), [0, 1])
    >>> display.values(np.linspace(0, 1, 5)).shape
    (5, 2)
    """

    decomposition: MercerDecomposition
    numbers: Any = None

    def __post_init__(self) -> None:
        count = len(self.decomposition.eigenvalues)
        if self.numbers is None:
            self.numbers = range(min(4, count))
        if not all(0 <= number < count for number in self.numbers):
            raise ValueError(
                f"there are {count} eigenfunctions, from 0 on; got numbers={list(self.numbers)}."
            )

    def values(self, places: Any) -> np.ndarray:
        """φ_i at places on the line, a column for each function."""
        column = np.asarray(places, np.float64)[:, None]
        return self.decomposition.functions(column)[:, list(self.numbers)]

    def plot(self, places: Any, ax: Any = None) -> EigenfunctionsDisplay:
        """Draw over these places on `ax`, or on new axes: `ax_` and `figure_` afterwards."""
        ax = axes(ax)
        shades = np.linspace(1.0, 0.35, len(self.numbers))
        for number, column, shade in zip(self.numbers, self.values(places).T, shades, strict=True):
            size = self.decomposition.eigenvalues[number]
            ax.plot(places, column, color=BLUE, alpha=shade, label=f"φ_{number}, λ = {size:.2g}")
        ax.axhline(0.0, color=GREY, linewidth=0.6)
        return finished(self, ax, "x", title=repr(self.decomposition.kernel), legend=True)
