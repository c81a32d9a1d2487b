"""
Feature maps: how their error falls
===================================

How the error of feature maps falls with their number, and Nyström against random features.

**Claim.** With S random features the kernel is off by a multiple of 1/√S, which is known before
anything is drawn. Nyström's features see the data, and their error falls with the eigenvalues of
the kernel: on equal budgets they predict better.

Left: the root mean square of ⟨φ(x), φ(y)⟩ − k(x, y) over pairs of points, for maps of one Gaussian
kernel. Right: ridge regression on equal numbers of features, random ones and centres chosen in
three ways. Run with `python examples/feature_maps.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from mercer.features import Fastfood, MercerFeatures, Nystroem, RandomFourierFeatures
from mercer.features.centres import KMeansPlusPlus, RandomlyPivoted, Uniform
from mercer.kernels import Gaussian
from mercer.theory import fitted_exponent

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
COUNTS = [16, 64] if QUICK else [16, 32, 64, 128, 256, 512, 1024]
SEEDS = range(2 if QUICK else 12)
kernel = Gaussian(1.5)
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 3))
K = kernel(X[:300])

FOURIER = {
    "independent": {},
    "with phases": {"form": "phase"},
    "orthogonal": {"sampling": "orthogonal"},
    "quasi-random": {"sampling": "quasi-random"},
}
MAPS = {
    **{
        f"Fourier, {name}": lambda s, seed, o=options: RandomFourierFeatures(
            kernel, s, random_state=seed, **o
        )
        for name, options in FOURIER.items()
    },
    "Fastfood": lambda s, seed: Fastfood(kernel, s, random_state=seed),
    "Mercer, sampled": lambda s, seed: MercerFeatures(
        kernel, s, sampling="random", random_state=seed
    ),
    "Mercer, leading": lambda s, seed: MercerFeatures(kernel, s),
    "Nyström, uniform": lambda s, seed: Nystroem(kernel, centres=Uniform(s, seed)),
    "Nyström, pivoted": lambda s, seed: Nystroem(kernel, centres=RandomlyPivoted(s, seed)),
}


def kernel_error(make, count):
    gaps = []
    for seed in SEEDS:
        Z = make(count, seed).fit(X).transform(X[:300])
        gaps.append(np.mean((Z @ Z.T - K) ** 2))
    return np.sqrt(np.mean(gaps))


def target(points):
    return np.sin(2 * points[:, 0]) * np.cos(points[:, 1]) + 0.5 * np.tanh(3 * points[:, 2])


y = target(X) + 0.1 * rng.standard_normal(len(X))
new = rng.standard_normal((2000, 3))
BUDGETS = {
    "random Fourier features": MAPS["Fourier, independent"],
    "Nyström, uniform": MAPS["Nyström, uniform"],
    "Nyström, k-means++": lambda s, seed: Nystroem(kernel, centres=KMeansPlusPlus(s, seed)),
    "Nyström, randomly pivoted": MAPS["Nyström, pivoted"],
}


def test_error(make, count):
    errors = []
    for seed in SEEDS:
        phi = make(count, seed).fit(X)
        f = phi.normal_equations(X, y).ridge(1e-5)
        errors.append(np.mean((f(new) - target(new)) ** 2))
    return np.sqrt(np.mean(errors))


figure, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.8), layout="constrained")
colours = plt.cm.tab10(np.arange(10))
for (name, make), colour in zip(MAPS.items(), colours, strict=False):
    errors = [kernel_error(make, count) for count in COUNTS]
    slope = fitted_exponent(COUNTS, errors)
    print(f"{name}: error {errors[-1]:.1e} at {COUNTS[-1]} features, falling like S^−{slope:.2f}")
    style = "o-" if name.startswith(("Fourier", "Fastfood", "Mercer, sampled")) else "s--"
    left.loglog(COUNTS, errors, style, label=name, color=colour, linewidth=1.6, markersize=4)
phi = MAPS["Fourier, independent"](COUNTS[-1], 0).fit(X)
pairs = np.repeat(X[:300], 300, axis=0), np.tile(X[:300], (300, 1))
expected = np.sqrt(np.mean(phi.expected_error(*pairs) ** 2))
print(f"theory for independent Fourier features: {expected:.1e}, falling like S^−0.50")
theory = expected * np.sqrt(COUNTS[-1] / np.array(COUNTS))
left.loglog(COUNTS, theory, ":", color="black", label="theory, independent")
left.set_ylim(1e-5, 1)
left.set_title("Error of the kernel, Gaussian(1.5), three columns")
left.set_ylabel("root mean square of k̂ − k")
left.legend(fontsize=8, loc="lower left")
for (name, make), colour in zip(BUDGETS.items(), colours, strict=False):
    errors = [test_error(make, count) for count in COUNTS]
    middle = len(COUNTS) // 2
    print(f"{name}: error on new points {errors[middle]:.3f} with {COUNTS[middle]} features")
    right.loglog(COUNTS, errors, "o-", label=name, color=colour, linewidth=1.6, markersize=4)
right.set_title("Ridge on equal budgets: error on new points")
right.set_ylabel("root mean square of f − truth")
right.set_yticks([0.1, 0.2, 0.4], ["0.1", "0.2", "0.4"])
right.legend(fontsize=8)
for axis in (left, right):
    axis.set_xlabel("number of features")
    axis.set_xticks(COUNTS, [str(count) for count in COUNTS])
    axis.minorticks_off()
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("feature_maps.png", dpi=110)
