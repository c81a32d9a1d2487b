"""
Online learning: three steps as bumps
=====================================

Three steps of an online kernel machine, as bumps.

**Claim.** Each sample with a loss shrinks f by 1 − ηλ and adds one bump −ηℓ′·k(x, ·), upwards or
downwards. After three steps of η = 1 with λ = 0.2 and the hinge loss, the coefficients are 0.8²,
−0.8 and 1. Run with `python examples/online_bumps.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Gaussian
from mercer.losses import Hinge
from mercer.online import OnlineKernelMachine, schedules

samples = [(1.0, 1), (2.2, -1), (3.6, 1)]
grid = np.linspace(-1.0, 6.0, 400)[:, None]
machine = OnlineKernelMachine(
    Gaussian(0.7), loss=Hinge(), regularization=0.2, step=schedules.Constant(1.0)
)

figure, axes = plt.subplots(1, 3, figsize=(12, 3), sharey=True, layout="constrained")
for axis, (x, y) in zip(axes, samples, strict=True):
    f = machine.learn_one([x], y, classes=[-1, 1]).function_
    for centre, value in zip(f.centres, f.coefficients, strict=True):
        bump = f.kernel.function(centre[None], [value])
        color = "#1f5fa8" if value > 0 else "#d1495b"
        axis.fill_between(grid[:, 0], bump(grid), color=color, alpha=0.25, linewidth=0)
        axis.plot(grid[:, 0], bump(grid), color=color, linewidth=1)
    axis.plot(grid[:, 0], f(grid), color="black", linewidth=2)
    axis.axhline(0, color="#999999", linewidth=0.6)
    axis.plot([x], [0], "o", color="black")
    axis.annotate(f"$x$, {y:+d}", (x, 0), (0, -16), textcoords="offset points", ha="center")
    axis.set_title(f"after {len(f)} sample{'s' if len(f) > 1 else ''}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
print(f"coefficients {np.round(f.coefficients, 6).tolist()}; theory {[0.8**2, -0.8, 1.0]}")
axes[0].set_ylabel("f(x)")
figure.savefig("online_bumps.png", dpi=110)
