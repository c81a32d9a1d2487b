"""
Splines: polynomials for free
=============================

**Claim.** A cubic smoothing spline and a thin-plate spline are ridge regression with a kernel that
is positive definite off polynomials only: lines and planes are fitted without a penalty, and what
is penalised is ∫ f″², or the bending energy of a plate. As the penalty grows, the fit tends to the
least-squares line. The fits are those of SciPy.
Run with `python examples/splines.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import RBFInterpolator, make_smoothing_spline

from mercer import KernelRidge, KernelRidgeCV
from mercer.kernels import Polyharmonic, ThinPlate

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 60))
y = np.sin(x) + 0.3 * x + 0.3 * rng.standard_normal(60)
t = np.linspace(-1, 11, 400)
cubic = Polyharmonic(3).energy_scale(1) * Polyharmonic(3)  # roughness ∫ f″²

# %%
# One column: three penalties, one of them chosen by leave-one-out.
chosen = KernelRidgeCV(alphas=np.logspace(-4, 4, 81), kernel=cubic).fit(x[:, None], y)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.plot(x, y, "o", color="#bbbbbb", markersize=4)
for alpha, colour in ((1e-3, "#c49a3a"), (chosen.alpha_, "#1f5fa8"), (1e5, "#d1495b")):
    model = KernelRidge(alpha=alpha, kernel=cubic).fit(x[:, None], y)
    theirs = make_smoothing_spline(x, y, lam=alpha)(x)
    gap = np.abs(model.predict(x[:, None]) - theirs).max()
    rough = model.function_.norm() ** 2
    print(f"penalty {alpha:.3g}: ∫ f″² = {rough:.3g}; SciPy's spline differs by {gap:.0e}")
    left.plot(
        t, model.predict(t[:, None]), color=colour, label=f"α = {alpha:.2g}: ∫ f″² = {rough:.2g}"
    )
line = np.polyval(np.polyfit(x, y, 1), t)
gap = np.abs(line - model.predict(t[:, None])).max()
print(f"the stiffest spline and the least-squares line differ by {gap:.1e}")
left.plot(t, line, ":", color="black", label="least-squares line")
left.legend(frameon=False, fontsize=8)
left.set_title("cubic smoothing splines", fontsize=10)
# sphinx_gallery_defer_figures

# %%
# Two columns: a thin plate over scattered points.
X = rng.uniform(-1, 1, (150, 2))
z = np.exp(-4 * (X**2).sum(axis=1)) + 0.3 * X[:, 0] + 0.05 * rng.standard_normal(150)
plate = KernelRidge(alpha=0.05, kernel=ThinPlate()).fit(X, z)
side = np.linspace(-1, 1, 80)
mesh = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
theirs = RBFInterpolator(X, z, kernel="thin_plate_spline", smoothing=0.05)(mesh)
print(f"thin plate: SciPy's differs by {np.abs(plate.predict(mesh) - theirs).max():.0e}")
drawn = right.contourf(side, side, plate.predict(mesh).reshape(80, 80), 14, cmap="viridis")
right.plot(*X.T, ".", color="white", markersize=3)
figure.colorbar(drawn, ax=right)
right.set_title("a thin-plate spline", fontsize=10)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("splines.png", dpi=110)
