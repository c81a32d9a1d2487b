"""
Functionals: learning from slopes and areas
===========================================

**Claim.** A continuous linear functional of f is an inner product with its representer, so that
slopes and integrals can be data just as values are: the function of least norm with given numbers
L_i(f) = y_i is Σ α_i k(L_i, ·). Slopes at eight points and one value nearly determine a sine; for
Brownian motion the closed form of the integrals is met to rounding.
Run with `python examples/functionals.py`.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Brownian, Gaussian, Matern
from mercer.kernels.functionals import Derivative, Evaluation, Integral
from mercer.solvers import interpolant

t = np.linspace(0, 6, 300)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
# sphinx_gallery_defer_figures

# %%
# Slopes: the antiderivative of cos, from its values at eight points and f(0) = 0.
places = np.linspace(0, 6, 8)
data = [Evaluation([0.0])] + [Derivative([p]) for p in places]
f = interpolant(Gaussian(1.5), data, np.concatenate([[0.0], np.cos(places)]))
print(f"from slopes: the largest error is {np.abs(f(t[:, None]) - np.sin(t)).max():.4f}")
left.plot(t, np.sin(t), "--", color="black", label="sin")
left.plot(t, f(t[:, None]), color="#1f5fa8", label="from eight slopes and one value")
for p in places:
    ends = np.array([p - 0.25, p + 0.25])
    left.plot(ends, np.sin(p) + np.cos(p) * (ends - p), color="#d1495b", linewidth=2.5)
left.set_title("a sine from eight slopes and one value", fontsize=10)
left.legend(frameon=False, fontsize=8)
# sphinx_gallery_defer_figures

# %%
# Areas: a histogram is a list of integrals, and f has exactly these areas.
edges = np.linspace(0, 6, 13)
counts = np.histogram(np.random.default_rng(0).gamma(3.0, 0.7, 2000), edges)[0] / (2000 * 0.5)
bins = [Integral(a, b) for a, b in pairwise(edges)]
g = interpolant(Matern(2.5, 2.0), bins, counts * 0.5)
print(f"areas differ by {np.abs(g(bins) - counts * 0.5).max():.0e} from those of the histogram")
density = t**2 * np.exp(-t / 0.7) / (2 * 0.7**3)
right.stairs(counts, edges, color="#bbbbbb", fill=True)
right.plot(t, g(t[:, None]), color="#1f5fa8", label="least norm with these areas")
right.plot(t, density, "--", color="black", label="the density")
right.set_title("a density with the areas of a histogram", fontsize=10)
right.legend(frameon=False, fontsize=8)
# sphinx_gallery_defer_figures

# %%
# The kernel of two integrals of Brownian motion over [0, 1] is ∫∫ min(s, t) = 1/3.
whole = Integral(0.0, 1.0)
print(f"∫∫ min(s, t) = {Brownian().on_functionals()(whole, whole):.15f}; theory {1 / 3:.15f}")
for axis in (left, right):
    axis.set_xlabel("x")
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("functionals.png", dpi=110)
