"""
Primal and dual ridge: the same answer, different condition numbers
===================================================================

**Claim.** w = (XᵀX + nλ)⁻¹Xᵀy takes a system as large as the features, w = Xᵀ(XXᵀ + nλ)⁻¹y one as
large as the data; the matrix inversion lemma says that they agree. Both matrices have the
eigenvalues σ² + nλ, but the larger one also has nλ itself, as often as it is larger: with more
samples than features the primal system is better conditioned, and stays so for λ → 0.
Run with `python examples/primal_dual.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Linear
from mercer.losses import Squared
from mercer.solvers import Direct, Problem
from mercer.theory import ridge_conditions

rng = np.random.default_rng(0)
RIDGES = np.logspace(-10, 1, 23)
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
for axis, (n, d) in zip(axes, [(100, 5), (5, 100)], strict=True):
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    conditions, theory = [], []
    for ridge in RIDGES:
        primal, dual = X.T @ X + n * ridge * np.eye(d), X @ X.T + n * ridge * np.eye(n)
        conditions.append([np.linalg.cond(primal), np.linalg.cond(dual)])
        theory.append(ridge_conditions(X, ridge))
    # the inversion lemma at one λ: as matrices, and as solutions of the library
    shift = n * 0.01
    left = np.linalg.solve(X.T @ X + shift * np.eye(d), X.T)
    right = X.T @ np.linalg.inv(X @ X.T + shift * np.eye(n))
    lemma = np.abs(left - right).max() / np.abs(right).max()
    problem = Problem(Linear().gram(X), y, Squared(), 0.01)
    sides = [X.T @ Direct(primal=side).solve(problem).coefficients for side in (True, False)]
    gap = np.linalg.norm(sides[0] - sides[1]) / np.linalg.norm(sides[1])
    worst = np.abs(np.array(conditions) / theory - 1)[RIDGES >= 1e-6].max()
    print(f"n = {n}, d = {d}: primal and dual differ by {gap:.1e}; condition numbers are those of")
    print(
        f"    theory to {worst:.0e} for λ ≥ 1e-6; the two sides of the lemma differ by {lemma:.0e}"
    )
    for column, (name, colour) in enumerate((("primal", "#1f5fa8"), ("dual", "#d1495b"))):
        axis.loglog(RIDGES, np.array(theory)[:, column], color=colour, linewidth=1.2)
        axis.loglog(RIDGES, np.array(conditions)[:, column], "o", color=colour, label=name)
    axis.set_title(f"{n} samples, {d} features", fontsize=10)
    axis.set_xlabel("λ")
    axis.legend(frameon=False, title="dots: computed; lines: theory", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("condition number")
figure.savefig("primal_dual.png", dpi=110)
