"""
First functions: two noisy samples
==================================

Regularised least squares by hand: minimise (1/2n) Σ (y_i − f(x_i))² + (λ/2)‖f‖² over the space of
a kernel. The solution is f = Σ α_i k(x_i, ·) with (K + nλI) α = y. Left: a curve, and the kernel
functions that it is the sum of. Right: a function of two variables, with its gradient.
Run with `python examples/first_functions.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import linalg
from mercer.kernels import Gaussian, Linear, Matern

rng = np.random.default_rng(0)


def fit(kernel, X, y, regularization):
    """The f that minimises (1/2n) Σ (y_i − f(x_i))² + (λ/2)‖f‖²."""
    K = kernel.gram(X).dense()
    K[np.diag_indices_from(K)] += len(X) * regularization
    return kernel.function(X, linalg.cholesky(K, overwrite=True).solve(y))


# %%
# A wave on the line that gets quicker.
def wave(x):
    return (0.5 + 0.4 * x) * np.sin(2.0 * np.pi * x * (0.6 + 0.5 * x))


X = np.sort(rng.uniform(0.0, 1.8, (80, 1)), axis=0)
y = wave(X[:, 0]) + 0.2 * rng.standard_normal(80)
f = fit(Gaussian(0.12), X, y, regularization=4e-3)
x = np.linspace(0.0, 1.8, 600)
print(f"‖f‖ = {f.norm():.2f}, error {np.sqrt(np.mean((f(x[:, None]) - wave(x)) ** 2)):.3f}")


# %%
# Two hills and a hollow in the plane, by a sum of kernels.
def hills(u, v):
    right = np.exp(-((u - 0.9) ** 2) - (v - 0.6) ** 2)
    left = 0.7 * np.exp(-((u + 1.1) ** 2) - 2.0 * (v - 0.9) ** 2)
    return right + left - np.exp(-((u + 0.2) ** 2) - (v + 1.0) ** 2)


P = rng.uniform(-2.2, 2.2, (400, 2))
kernel = Gaussian(0.8) + 0.1 * Linear() * Matern(1.5, lengthscale=2.0)
g = fit(kernel, P, hills(*P.T) + 0.1 * rng.standard_normal(400), regularization=1e-3)
side = np.linspace(-2.2, 2.2, 120)
grid = np.stack(np.meshgrid(side, side), axis=-1)
surface = g(grid.reshape(-1, 2)).reshape(120, 120)
print(f"‖g‖ = {g.norm():.2f}, error {np.sqrt(np.mean((surface - hills(*grid.T).T) ** 2)):.3f}")

# %%
# The picture.
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4.1), width_ratios=(1.45, 1.0), layout="constrained"
)
terms = f.kernel(x[:, None], X) * f.coefficients
terms[np.abs(terms) < 0.01] = np.nan  # their tails would draw a thick line at zero
left.plot(x, terms, color="#1f5fa8", alpha=0.2, linewidth=0.7)
left.plot([], [], color="#1f5fa8", alpha=0.5, linewidth=0.7, label="its terms $α_i\\,k(x_i, ·)$")
left.plot(x, wave(x), "--", color="#22303c", linewidth=1.1, label="truth")
left.plot(x, f(x[:, None]), color="#1f5fa8", linewidth=2.4, label="$f = Σ\\,α_i\\,k(x_i, ·)$")
left.scatter(X[:, 0], y, s=16, color="#e07b39", edgecolor="white", zorder=3, label="sample")
left.set(title="a function is a sum of bumps", xlabel="x", ylim=(-1.75, 1.45))
left.legend(loc="lower left", frameon=False, fontsize=9, ncols=2)
left.spines[["top", "right"]].set_visible(False)

levels = np.linspace(-1.1, 1.1, 23)
shown = right.contourf(side, side, surface, levels, cmap="RdBu_r", extend="both")
at = grid[5::10, 5::10].reshape(-1, 2)
right.quiver(*at.T, *g.gradient(at).T, color="#22303c", scale=24, width=0.005)
right.set(title="a function in the plane, and its gradient", xlabel="$x_1$", ylabel="$x_2$")
right.set_aspect("equal")
figure.colorbar(shown, ax=right, shrink=0.85, ticks=[-1, 0, 1])
figure.savefig("first_functions.png", dpi=110)
