"""
A GPU: stored results
=====================

On a GPU the same lines run on tensors of torch::

    import torch
    from mercer import KernelRidge
    from mercer.kernels import Gaussian

    X, y = X.cuda(), y.cuda()  # 1,844,333 rows of household power, 11 columns
    model = KernelRidge(alpha=0.01844, kernel=Gaussian(2.0)).fit(
        X, y
    )  # exact: all rows are centres
    model = KernelRidge(alpha=0.01844, kernel=Gaussian(2.0), centres=5000, random_state=0).fit(X, y)
    model.predict(X[:5])  # a tensor on the same device

Arrays of NumPy stay on the CPU unless you write `KernelRidge(device="cuda")`. This page needs no
GPU: it draws what `python -m benchmarks gpu` measured and stored in `benchmarks/results/gpu.json`.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

try:
    here = Path(__file__).parent
except NameError:  # the gallery runs the file in its own folder
    here = Path.cwd()
stored = json.loads((here.parent / "benchmarks" / "results" / "gpu.json").read_text())
rows = {row["work"]: row for row in stored["rows"]}
print("measured on", stored["machine"]["processor"])

# %%
# Kernel values a second in products K(X, Y)v with 200,000 × 200,000 entries, which are never
# stored, and what plain torch reaches on the same card.
rates = {
    f"d = {d}": rows[f"K(X,Y)v Gaussian, n = m = 200,000, d = {d}"]["measured"]
    for d in (3, 10, 28, 60)
}
rates["plain torch,\nd = 10"] = next(
    row["measured"] for work, row in rows.items() if work.startswith("the same in plain torch")
)

# %%
# Whole fits of `KernelRidge`, in seconds.
fits = {
    work.replace("household power, ", "").replace(" × 11", " rows"): row["measured"]
    for work, row in rows.items()
    if work.startswith("household power")
}
for name, seconds in fits.items():
    print(f"{name}: {seconds:.2f} s")

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.6), layout="constrained")
left.bar(list(rates), list(rates.values()), color=["#1f5fa8"] * 4 + ["#b0b7c0"])
left.set_ylabel("10¹² kernel values a second")
left.set_title("Gaussian kernel times a vector, float32", fontsize=10)
right.barh(list(fits), list(fits.values()), color="#1f5fa8")
right.set_xscale("log")
right.set_xlabel("seconds")
right.set_title("household power: KernelRidge.fit", fontsize=10)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("gpu.png", dpi=110)
