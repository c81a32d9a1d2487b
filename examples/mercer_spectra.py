"""
Mercer's theorem: a kernel as a sum over its eigenfunctions
===========================================================

**Claim.** k(x, y) = Σ λ_i φ_i(x) φ_i(y). With m terms the error on the diagonal is, in the mean
over the measure, the sum of the eigenvalues that are left out; and the eigenvalues of a kernel
whose space is a Sobolev space of order s fall like i^(−2s) in one column.

Left: eigenfunctions of the Gaussian kernel for a normal measure. Middle: Σ λ_i φ_i(x) φ_i(0) with
more and more terms. Right: the spectra of Matérn kernels on a sample.
Run with `python examples/mercer_spectra.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Gaussian, Matern
from mercer.kernels.mercer import Normal
from mercer.plotting import EigenfunctionsDisplay, SpectrumDisplay

places = np.linspace(-2.5, 2.5, 300)
k = Gaussian(0.5)
figure, axes = plt.subplots(1, 3, figsize=(14, 3.8), layout="constrained")
EigenfunctionsDisplay(k.mercer(Normal(), 4)).plot(places, ax=axes[0])

axis = axes[1]
sample = np.random.default_rng(1).standard_normal((20_000, 1))
for count, shade in ((2, 0.25), (5, 0.45), (10, 0.7), (20, 1.0)):
    found = k.mercer(Normal(), count)
    approximation = found.approximation(places[:, None], [[0.0]])
    left_out = 1.0 - np.mean((found.functions(sample) ** 2) @ found.eigenvalues)
    theory = 1.0 - found.eigenvalues.sum()  # all eigenvalues add up to ∫ k(x, x) dμ = 1
    print(f"{count} terms leave out {left_out:.4f} of the diagonal; theory {theory:.4f}")
    axis.plot(places, approximation[:, 0], color="#1f5fa8", alpha=shade, label=f"{count} terms")
axis.plot(places, k(places[:, None], [[0.0]])[:, 0], "--", color="#d1495b", label="k(x, 0)")
axis.set_xlabel("x")
axis.set_title("sums over the leading eigenvalues", fontsize=9)
axis.legend(frameon=False, fontsize=9)
axis.spines[["top", "right"]].set_visible(False)

X = np.random.default_rng(0).uniform(size=(2000, 1))
for smoothness in (0.5, 1.5, 2.5):
    spectrum = Matern(smoothness, 0.5).mercer(X, 60)
    decay, theory = spectrum.decay(start=20), spectrum.predicted_decay()  # of the tail
    print(f"Matérn {smoothness}: eigenvalues fall like i^−{decay:.2f}; theory {theory:.0f}")
    SpectrumDisplay.from_kernel(Matern(smoothness, 0.5), X, 60, ax=axes[2])
axes[2].set_title("Matérn ½, 3/2 and 5/2 on 2,000 points", fontsize=9)
handles, labels = axes[2].get_legend_handles_labels()
axes[2].legend(handles[1::2], labels[1::2], frameon=False, fontsize=9)
figure.savefig("mercer_spectra.png", dpi=110)
