"""
Molecules: boiling points from structure
========================================

A molecule is a graph of atoms. The Weisfeiler–Lehman kernel counts atoms, atoms with their
neighbours, with the neighbours of those and so on, and ridge regression on it predicts the boiling
point of molecules that were left out. Run with `python examples/molecules.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict

from mercer import KernelRidge
from mercer.structured import Spectrum, WeisfeilerLehman

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size

# %%
# Alkanes, alcohols, ethers, amines, ketones and chlorides with their boiling points in °C.
BOILING = {
    "C": -161.5, "CC": -88.6, "CCC": -42.1, "CCCC": -0.5, "CC(C)C": -11.7, "CCCCC": 36.1,
    "CC(C)CC": 27.8, "CC(C)(C)C": 9.5, "CCCCCC": 68.7, "CC(C)CCC": 60.3, "CCC(C)CC": 63.3,
    "CC(C)C(C)C": 58.0, "CC(C)(C)CC": 49.7, "CCCCCCC": 98.4, "CCCCCCCC": 125.7,
    "CCCCCCCCC": 150.8, "CCCCCCCCCC": 174.1, "CO": 64.7, "CCO": 78.4, "CCCO": 97.2,
    "CC(C)O": 82.6, "CCCCO": 117.7, "CC(C)CO": 107.9, "CCC(C)O": 99.5, "CC(C)(C)O": 82.4,
    "CCCCCO": 138.0, "CCCCCCO": 157.0, "CCCCCCCO": 176.0, "CCCCCCCCO": 195.0, "COC": -24.8,
    "CCOCC": 34.6, "COCC": 7.4, "CCCOCCC": 90.1, "CN": -6.3, "CCN": 16.6, "CCCN": 47.8,
    "CCCCN": 77.0, "CCCCCN": 104.0, "CNC": 7.0, "CCNCC": 55.5, "CC(=O)C": 56.1,
    "CC(=O)CC": 79.6, "CC(=O)CCC": 102.0, "CCC(=O)CC": 101.5, "CC(=O)CCCC": 127.6,
    "CCl": -24.0, "CCCl": 12.3, "CCCCl": 46.6, "CCCCCl": 78.4, "ClCCl": 39.6, "ClC(Cl)Cl": 61.2,
}  # fmt: skip


def molecule(smiles):
    """(edges, labels) of a molecule without rings; a double bond is part of the labels."""
    edges, labels, open_at, last, double = [], [], [], None, False
    for letter in smiles.replace("Cl", "L"):
        if letter == "(":
            open_at.append(last)
        elif letter == ")":
            last = open_at.pop()
        elif letter == "=":
            double = True
        else:
            labels.append(letter + ("=" if double else ""))
            if last is not None:
                edges.append((last, len(labels) - 1))
            last, double = len(labels) - 1, False
    return edges, labels


graphs = [molecule(smiles) for smiles in BOILING]
degrees = np.array(list(BOILING.values()))

# %%
# The number of rounds and the regularization are chosen among the molecules that were not left out.
# Beside it stands a kernel on the same molecules as strings.
models = {
    "Weisfeiler–Lehman on graphs": (
        KernelRidge(kernel=WeisfeilerLehman(2), fit_intercept=True),
        {"kernel__rounds": [1, 2, 3], "alpha": [0.3, 3.0]},
        graphs,
    ),
    "spectrum of the strings": (
        KernelRidge(kernel=Spectrum(2), fit_intercept=True),
        {"kernel__length": [1, 2, 3], "alpha": [0.3, 3.0]},
        list(BOILING),
    ),
}
folds = KFold(2 if QUICK else 10, shuffle=True, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.6), sharey=True, layout="constrained")
for axis, (name, (model, grid, X)) in zip(axes, models.items(), strict=True):
    search = GridSearchCV(model, grid, cv=4, scoring="neg_mean_absolute_error")
    guesses = cross_val_predict(search, X, degrees, cv=folds)
    error = np.abs(guesses - degrees).mean()
    print(f"{name}: off by {error:.1f} °C in the mean, {folds.n_splits} folds")
    axis.plot([-170, 210], [-170, 210], color="#999999", linewidth=0.8)
    for family, has, colour in (
        ("hydrocarbons", "C", "#1f5fa8"),
        ("with oxygen", "O", "#d1495b"),
        ("with nitrogen", "N", "#3b8c5a"),
        ("with chlorine", "Cl", "#b8860b"),
    ):
        mine = [has in s if has != "C" else set(s) <= set("C()") for s in BOILING]
        axis.plot(degrees[mine], guesses[mine], "o", color=colour, markersize=5, label=family)
    axis.set_title(f"{name}\n{error:.1f} °C off in the mean", fontsize=10)
    axis.set_xlabel("boiling point, °C")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("predicted, °C")
axes[0].legend(frameon=False, fontsize=8)
figure.savefig("molecules.png", dpi=110)
