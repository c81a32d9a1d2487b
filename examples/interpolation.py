"""
Interpolation: the function of least norm through six points
============================================================

The function of least norm through six points, in the spaces of five kernels.

**Claim.** Every curve passes through the same values, and has the least norm of all functions of
its space that do: ‖f‖² = yᵀK⁻¹y. Any other function through the points is f + g with g = 0 at all
of them, and ‖f + g‖² = ‖f‖² + ‖g‖². The kernel decides which functions have a small norm.
Run with `python examples/interpolation.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Exponential, Gaussian, Matern, PeriodicBernoulli, Spline
from mercer.solvers import interpolant

X = np.array([[0.05], [0.2], [0.35], [0.5], [0.75], [0.9]])
y = np.array([0.3, 1.0, 0.4, -0.6, -0.2, 0.8])
grid = np.linspace(0, 1, 400)[:, None]
KERNELS = {
    "Exponential(0.2)": Exponential(0.2),
    "Matern(1.5, 0.2)": Matern(1.5, 0.2),
    "Gaussian(0.1)": Gaussian(0.1),
    "PeriodicBernoulli(2)": PeriodicBernoulli(2),
    "Spline()": Spline(),
}

figure, axes = plt.subplots(
    2, 3, figsize=(8.4, 5.0), sharex=True, sharey=True, layout="constrained"
)
together = axes[1, 2]
for axis, (name, kernel) in zip(axes.flat, KERNELS.items(), strict=False):
    f = interpolant(kernel, X, y)
    theory = np.sqrt(y @ np.linalg.solve(kernel(X), y))
    bump = kernel.function([[0.62]], [1.0])
    g = bump - bump.project(X)  # 0 at all points
    other = f + (0.75 * f.norm() / g.norm()) * g
    print(
        f"{name}: ‖f‖ = {f.norm():.4f}, √(yᵀK⁻¹y) = {theory:.4f}; f and 3/4 as much of g have "
        f"{other.norm():.4f}, by Pythagoras 5/4‖f‖ = {1.25 * f.norm():.4f}"
    )
    axis.plot(grid[:, 0], other(grid), color="#999999", linewidth=1, linestyle="--")
    axis.plot(grid[:, 0], f(grid), color="#1f5fa8", linewidth=1.8)
    together.plot(grid[:, 0], f(grid), linewidth=1.0)
    axis.set_title(f"{name}\n‖f‖ = {f.norm():.2f}; dashed: {other.norm():.2f}", fontsize=10)
together.set_title("all five", fontsize=10)
for axis in axes.flat:
    axis.plot(X[:, 0], y, "o", color="#d1495b", markersize=5)
    axis.spines[["top", "right"]].set_visible(False)
axes[0, 0].set_ylim(-1.6, 1.8)
figure.supxlabel("x")
figure.supylabel("f(x)")
figure.savefig("interpolation.png", dpi=110)
