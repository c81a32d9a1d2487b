"""
A table: regression with intervals
==================================

Progress of diabetes in 442 patients, from ten measurements. `mercer.fit` encodes the columns,
chooses a kernel and its regularisation by leave-one-out, tests the model on rows that it has not
seen, and fits it to all of them. `predict_interval` says where a new value will lie.
Run with `python examples/table_with_intervals.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import mercer

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size

# %%
# Rows for the model, and rows for us to judge it by.
table = load_diabetes(as_frame=True, scaled=False).frame.sample(frac=1.0, random_state=0)
known, new = table[:330], table[330:]
model = mercer.fit(known, "target", time_limit=2.0 if QUICK else 20.0)
print(model.explain())

# %%
# Intervals that should hold nine of ten values. They come from the errors on rows that were left
# out, so they need no assumption about the noise.
predicted = model.predict(new)
lower, upper = model.predict_interval(new, coverage=0.9)
truth = new["target"].to_numpy()
held = (lower <= truth) & (truth <= upper)
print(f"{held.mean():.0%} of the values lie in their interval; its mean width is "
      f"{np.mean(upper - lower):.0f}, the range of the target {np.ptp(truth):.0f}")  # fmt: skip

order = np.argsort(predicted)
figure, axis = plt.subplots(figsize=(8.5, 3.8), layout="constrained")
axis.vlines(np.arange(len(new)), lower[order], upper[order], color="#b9cce4", linewidth=3)
axis.plot(predicted[order], color="#1f5fa8", label="predicted")
for inside, colour, label in ((True, "#555555", "in its interval"), (False, "#d1495b", "outside")):
    at = np.flatnonzero(held[order] == inside)
    axis.plot(at, truth[order][at], ".", color=colour, label=label)
axis.set_title("progress of the disease, with intervals for 90 % of new patients", fontsize=10)
axis.set_xlabel("patients, by prediction")
axis.set_ylabel("progress after a year")
axis.legend(frameon=False, fontsize=8)
axis.spines[["top", "right"]].set_visible(False)
figure.savefig("table_with_intervals.png", dpi=110)
