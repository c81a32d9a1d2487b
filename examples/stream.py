"""
A stream whose rule changes
===========================

Samples come one after another, each is predicted before its label is seen, and half way through
the rule changes. A machine that remembers everything keeps on believing the old rule; a budget and
a constant step let it forget. Memory stays that of 100 samples.
Run with `python examples/stream.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Gaussian
from mercer.online import OnlineKernelMachine, budgets, schedules

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
SAMPLES, WINDOW = (2000, 100) if QUICK else (12_000, 300)
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 3.0, size=(SAMPLES, 2))
fields = np.where(np.floor(X).sum(axis=1) % 2 == 0, 1, -1)  # a board of three by three fields
y = np.where(np.arange(SAMPLES) < SAMPLES // 2, fields, -fields)  # colours swap half way

MACHINES = {
    "step 1/√t, everything kept": OnlineKernelMachine(
        Gaussian(0.35), step=schedules.InverseSqrt(1.0), regularization=1e-4
    ),
    "step 1/√t, 100 bumps, merged": OnlineKernelMachine(
        Gaussian(0.35), step=schedules.InverseSqrt(1.0), budget=budgets.Merge(100)
    ),
    "constant step, 100 newest bumps": OnlineKernelMachine(
        Gaussian(0.35), step=schedules.Constant(0.5), budget=budgets.Oldest(100)
    ),
}

# %%
# `partial_fit` takes blocks and gives the same machine as one sample at a time. `mistakes_` counts
# predictions that were made before their label was learned.
figure, axis = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
for (name, machine), colour in zip(
    MACHINES.items(), ("#999999", "#1f5fa8", "#d1495b"), strict=True
):
    rates, before = [], 0
    for start in range(0, SAMPLES, WINDOW):
        rows = slice(start, start + WINDOW)
        machine.partial_fit(X[rows], y[rows], classes=[-1, 1])
        rates.append((machine.mistakes_ - before) / len(y[rows]))
        before = machine.mistakes_
    wrong, bumps = machine.mistakes_ / SAMPLES, len(machine.function_)
    print(f"{name}: {wrong:.1%} wrong, {bumps} bumps at the end")
    axis.plot(np.arange(len(rates)) * WINDOW, rates, color=colour, label=name)
axis.axvline(SAMPLES // 2, color="black", linewidth=0.8, linestyle=":")
axis.set_title(f"share of wrong predictions, over windows of {WINDOW} samples", fontsize=10)
axis.set_xlabel("samples seen")
axis.set_ylim(0, 1)
axis.legend(frameon=False, fontsize=8)
axis.spines[["top", "right"]].set_visible(False)
figure.savefig("stream.png", dpi=110)
