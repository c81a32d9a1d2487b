"""
DNA strings: a signal with and without a fixed place
====================================================

Half of the strings carry the word TATAAT, in which one letter may have changed. Where it stands at
the same place in all of them, a kernel that compares strings place by place sees it at once; where
it may stand anywhere, only kernels that count words do. The weights of a linear machine on the
explicit features tell which words were learned. Run with `python examples/dna.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mercer import SVC
from mercer.features import ExplicitFeatures
from mercer.structured import (
    BlendedSpectrum,
    GapWeighted,
    MismatchSpectrum,
    Spectrum,
    WeightedDegree,
)

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
rng = np.random.default_rng(0)
WORD, LENGTH, COUNT = "TATAAT", 40, 60 if QUICK else 300


def strings(fixed):
    """Random strings and labels; those of class 1 hold the word, at most one letter changed."""
    made, labels = [], np.arange(COUNT) % 2
    for label in labels:
        letters = rng.choice(list("ACGT"), LENGTH)
        if label:
            start = 20 if fixed else rng.integers(LENGTH - len(WORD))
            letters[start : start + len(WORD)] = list(WORD)
            letters[start + rng.integers(len(WORD))] = rng.choice(list("ACGT"))
        made.append("".join(letters))
    return made, labels


# %%
# Five kernels on both tasks, by five folds.
KERNELS = {
    "weighted degree 6": WeightedDegree(6),
    "5-spectrum": Spectrum(5),
    "blended spectrum 1–5": BlendedSpectrum(5, decay=2.0),
    "mismatch, 6 letters, 1 wrong": MismatchSpectrum("ACGT", 6, 1),
    "gap-weighted, 5 letters": GapWeighted(5, 0.6),
}
scores = {}
for fixed in (True, False):
    X, y = strings(fixed)
    for name, kernel in KERNELS.items():
        model = SVC(kernel=kernel.normalised(), C=10.0)
        scores[fixed, name] = cross_val_score(model, X, y, cv=5).mean()
        place = "at a fixed place" if fixed else "anywhere"
        print(f"{place}, {name}: accuracy {scores[fixed, name]:.2f}")

# %%
# The same kernel machine as a linear one, on explicit features: each is a word, so that weights can
# be read. A word's weight is the prediction for that word alone.
phi = ExplicitFeatures(Spectrum(4))
linear = make_pipeline(phi, LinearSVC(C=0.01)).fit(X, y)
words = sorted({x[i : i + 4] for x in X for i in range(LENGTH - 3)})
weights = linear.decision_function(words) - linear[-1].intercept_
best = np.argsort(weights)[::-1][:12]
print("words with the largest weights:", ", ".join(words[i] for i in best[:6]))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
places = np.arange(len(KERNELS))
for shift, fixed, colour in ((-0.2, True, "#1f5fa8"), (0.2, False, "#d1495b")):
    values = [scores[fixed, name] for name in KERNELS]
    label = "at a fixed place" if fixed else "anywhere"
    left.barh(places + shift, values, height=0.36, color=colour, label=f"the word stands {label}")
left.axvline(0.5, color="#999999", linewidth=0.8, linestyle="--")
left.set_yticks(places, list(KERNELS))
left.invert_yaxis()
left.set_xlim(0.4, 1.0)
left.set_xlabel("accuracy in five folds")
left.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=2)
left.set_title("accuracy of five kernels on strings", fontsize=10)
inside = [words[i] in WORD for i in best]
colours = np.where(inside, "#1f5fa8", "#9db8d6")
right.barh(np.arange(12), weights[best], color=colours)
right.set_yticks(np.arange(12), [words[i] for i in best], family="monospace")
right.invert_yaxis()
right.set_xlabel("weight of the word; dark: part of TATAAT")
right.set_title("words with the largest weights", fontsize=10)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("dna.png", dpi=110)
