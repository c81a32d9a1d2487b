"""First functions: `python examples/first_functions.py [file.png]` fits two noisy samples.

Regularised least squares, by hand: minimise (1/2n) Σ (y_i − f(x_i))² + (λ/2)‖f‖² over the space of
a kernel. Its solution is f = Σ α_i k(x_i, ·) with (K + nλI) α = y.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.functions import RKHSFunction
from mercer.kernels import Gaussian, Kernel, Linear, Matern
from mercer.operators import Gram

INK, CURVE, POINT, QUIET = "#22303c", "#1f5fa8", "#e07b39", "#9aa4ae"


@dataclass(frozen=True, eq=False)
class Sample:
    """Noisy values of a function that is known, and a grid to compare on."""

    name: str
    truth: Callable[[np.ndarray], np.ndarray]
    X: np.ndarray
    y: np.ndarray
    grid: np.ndarray


def _noisy(values: np.ndarray, noise: float) -> np.ndarray:
    return values + noise * np.random.default_rng(1).normal(size=len(values))


def curve() -> Sample:
    """A wave on the line that gets quicker."""

    def truth(X: np.ndarray) -> np.ndarray:
        x = X[:, 0]
        return (0.5 + 0.4 * x) * np.sin(2.0 * np.pi * x * (0.6 + 0.5 * x))

    X = np.sort(np.random.default_rng(0).uniform(0.0, 1.8, (80, 1)), axis=0)
    grid = np.linspace(0.0, 1.8, 600)[:, None]
    return Sample("a curve", truth, X, _noisy(truth(X), 0.2), grid)


def landscape() -> Sample:
    """Two hills and a hollow in the plane."""

    def truth(X: np.ndarray) -> np.ndarray:
        x, y = X.T
        right = np.exp(-((x - 0.9) ** 2) - (y - 0.6) ** 2)
        left = 0.7 * np.exp(-((x + 1.1) ** 2) - 2.0 * (y - 0.9) ** 2)
        return right + left - np.exp(-((x + 0.2) ** 2) - (y + 1.0) ** 2)

    X = np.random.default_rng(0).uniform(-2.2, 2.2, (400, 2))
    grid = np.stack(np.meshgrid(*[np.linspace(-2.2, 2.2, 120)] * 2), axis=-1).reshape(-1, 2)
    return Sample("a landscape", truth, X, _noisy(truth(X), 0.1), grid)


def fit(kernel: Kernel, X: np.ndarray, y: np.ndarray, regularization: float) -> RKHSFunction:
    """The f that minimises (1/2n) Σ (y_i − f(x_i))² + (λ/2)‖f‖².

    >>> X, y = np.array([[0.0], [1.0]]), np.array([1.0, -1.0])
    >>> f = fit(Gaussian(), X, y, regularization=1e-8)
    >>> bool(np.allclose(f(X), y))
    True
    """
    K = kernel.gram(X).dense()
    K[np.diag_indices_from(K)] += len(X) * regularization
    return kernel.function(X, linalg.cholesky(K, overwrite=True).solve(y))


def described(sample: Sample, f: RKHSFunction) -> str:
    """What was fitted, and how well, in a few lines."""
    residual = np.sqrt(np.mean((sample.y - f(sample.X)) ** 2))
    error = np.sqrt(np.mean((sample.truth(sample.grid) - f(sample.grid)) ** 2))
    plan = Gram(f.kernel, f.kernel.points(sample.grid), f.points).plan()
    return "\n".join(
        (
            f"{sample.name}: {len(f)} noisy values in dimension {sample.X.shape[1]}",
            f"  kernel      {f.kernel!r}",
            f"  norm        ‖f‖ = {f.norm():.3f}",
            f"  residual    {residual:.3f}, root mean square on the sample",
            f"  error       {error:.3f}, root mean square against the truth at "
            f"{len(sample.grid):,} points",
            f"  evaluation  {plan}",
        )
    )


# ---- the picture ---------------------------------------------------------------------------------


def _draw_curve(axes: Any, sample: Sample, f: RKHSFunction) -> None:
    x = sample.grid[:, 0]
    terms = f.kernel.gram(sample.grid, f.centres).dense() * f.coefficients  # type: ignore[attr-defined]
    terms[np.abs(terms) < 0.01] = np.nan  # their tails would draw a thick line at zero
    axes.plot(x, terms, color=CURVE, alpha=0.2, linewidth=0.7)
    axes.plot([], [], color=CURVE, alpha=0.5, linewidth=0.7, label="its terms $α_i\\,k(x_i, ·)$")
    axes.plot(x, sample.truth(sample.grid), "--", color=INK, linewidth=1.1, label="truth")
    axes.plot(x, f(sample.grid), color=CURVE, linewidth=2.4, label="$f = Σ\\,α_i\\,k(x_i, ·)$")
    dots = {"s": 16, "color": POINT, "edgecolor": "white", "linewidth": 0.5, "zorder": 3}
    axes.scatter(sample.X[:, 0], sample.y, **dots, label="sample")
    title = f"a function is a sum of bumps: ‖f‖ = {f.norm():.2f}"
    axes.set(title=title, xlabel="x", xlim=(0, 1.8), ylim=(-1.75, 1.45))
    axes.legend(loc="lower left", frameon=False, fontsize=9, ncols=2, handlelength=1.6)


def _draw_landscape(axes: Any, sample: Sample, f: RKHSFunction) -> Any:
    side = int(len(sample.grid) ** 0.5)
    x, y = sample.grid.T.reshape(2, side, side)
    levels = np.linspace(-1.1, 1.1, 23)
    z = f(sample.grid).reshape(side, side)
    shown = axes.contourf(x, y, z, levels, cmap="RdBu_r", extend="both")
    axes.contour(x, y, z, levels[1::2], colors="white", linewidths=0.5, linestyles="solid")
    axes.scatter(*sample.X.T, s=4, color=INK, alpha=0.35, linewidth=0)
    at = sample.grid.reshape(side, side, 2)[5::10, 5::10].reshape(-1, 2)
    axes.quiver(*at.T, *f.gradient(at).T, color=INK, scale=24, width=0.005)
    title = "f in the plane, and its gradient"
    axes.set(title=title, xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    return shown


def draw(path: str, line: tuple[Sample, RKHSFunction], plane: tuple[Sample, RKHSFunction]) -> None:
    """Both functions side by side, as a PNG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style = {
        "font.size": 10, "axes.titlesize": 11, "axes.titlelocation": "left",
        "axes.edgecolor": QUIET, "axes.labelcolor": INK, "text.color": INK,
        "xtick.color": QUIET, "ytick.color": QUIET, "xtick.labelcolor": INK,
        "ytick.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
    }  # fmt: skip
    with rc_context(style):
        figure = Figure(figsize=(10.5, 4.1), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.45, 1.0))
        _draw_curve(left, *line)
        shown = _draw_landscape(right, *plane)
        figure.colorbar(shown, ax=right, shrink=0.85, ticks=[-1, 0, 1]).outline.set_visible(False)
        figure.savefig(path, dpi=120)


def main(path: str = "demo.png") -> int:
    """Fit, say what was fitted, draw. The exit status is 1 if matplotlib is missing."""
    samples = curve(), landscape()
    functions = (
        fit(Gaussian(lengthscale=0.12), samples[0].X, samples[0].y, regularization=4e-3),
        fit(
            Gaussian(lengthscale=0.8) + 0.1 * Linear() * Matern(1.5, lengthscale=2.0),
            samples[1].X,
            samples[1].y,
            regularization=1e-3,
        ),
    )
    for sample, f in zip(samples, functions, strict=True):
        print(described(sample, f))
    try:
        draw(path, (samples[0], functions[0]), (samples[1], functions[1]))
    except ImportError:
        print("To draw it, install matplotlib: pip install matplotlib")
        return 1
    print(f"drawn to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
