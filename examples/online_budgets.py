"""
Online learning: what a budget costs
====================================

How much error a budget costs, for each way to keep it.

The stream is a checkerboard of three by three fields. Run with
`python examples/online_budgets.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Gaussian
from mercer.online import OnlineKernelMachine, budgets, schedules

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 3.0, size=(4000, 2))
y = np.where(np.floor(X).sum(axis=1) % 2 == 0, 1, -1)
SIZES = [25, 50, 100, 200, 400, 800]
COLORS = {
    "Oldest": "#999999",
    "Smallest": "#c49a3a",
    "Random": "#8a6d9b",
    "Project": "#3a7d44",
    "Merge": "#1f5fa8",
}

figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, color in COLORS.items():
    errors = []
    for size in SIZES:
        machine = OnlineKernelMachine(
            Gaussian(0.35),
            regularization=1e-5,
            step=schedules.Constant(0.5),
            budget=getattr(budgets, name)(size),
            random_state=0,
        ).partial_fit(X, y, classes=[-1, 1])
        errors.append(machine.mistakes_ / len(X))
    style = "o--" if name == "Smallest" else "o-"  # with a constant step the smallest is the oldest
    axis.plot(SIZES, errors, style, color=color, label=name, markersize=4)
axis.set_xscale("log")
axis.set_xticks(SIZES, [str(size) for size in SIZES])
axis.minorticks_off()
axis.set_title("a checkerboard of three by three fields, 4,000 samples", fontsize=10)
axis.set_xlabel("bumps that are kept")
axis.set_ylabel("share of wrong predictions before learning")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
figure.savefig("online_budgets.png", dpi=110)
