"""
Text: which data set does a sentence describe?
==============================================

Sentences from the descriptions of the data sets in scikit-learn are told apart by words, by
letters in a row, and by letters with gaps. A kernel on texts goes into any estimator; how frequent
words are is learned from training texts, in each fold anew.
Run with `python examples/text.py`.
"""

import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_predict

from mercer import SVC
from mercer.structured import BlendedSpectrum, GapWeighted, Text

# %%
# Pieces of twelve words, with the names of the data sets left out: they would give it away.
SETS = {
    "iris": load_iris,
    "wine": load_wine,
    "cancer": load_breast_cancer,
    "digits": load_digits,
    "diabetes": load_diabetes,
}
GIVEN_AWAY = re.compile("iris|wine|cancer|digit|diabetes", re.IGNORECASE)
texts, labels = [], []
for name, load in SETS.items():
    words = GIVEN_AWAY.sub("", re.sub(r"[^A-Za-z ]+", " ", load().DESCR)).split()
    pieces = [" ".join(words[i : i + 12]) for i in range(0, len(words) - 11, 12)]
    texts += pieces
    labels += [name] * len(pieces)
labels = np.array(labels)

# %%
# Kernels on words and on letters, by five folds.
KERNELS = {
    "words, TF-IDF": Text(),
    "letters, 1 to 4 in a row": BlendedSpectrum(4, decay=1.5).normalised(),
    "letters, 3 with gaps": GapWeighted(3, 0.7).normalised(),
}
guesses = {
    name: cross_val_predict(SVC(kernel=kernel, C=10.0), texts, labels, cv=5)
    for name, kernel in KERNELS.items()
}
scores = {name: np.mean(guess == labels) for name, guess in guesses.items()}
chance = max(np.mean(labels == name) for name in SETS)
for name, score in scores.items():
    print(f"{name:25} {100 * score:.0f}% right; the most frequent class {100 * chance:.0f}%")

# %%
# Where words are wrong.
predicted = guesses["words, TF-IDF"]
confusion = np.array([[np.mean(predicted[labels == a] == b) for b in SETS] for a in SETS])

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.8), layout="constrained")
left.barh(list(scores), list(scores.values()), color="#1f5fa8", height=0.6)
left.axvline(chance, color="#d1495b", linewidth=1, linestyle="--", label="most frequent class")
left.invert_yaxis()
left.set_xlim(0, 1)
left.set_xlabel("accuracy in five folds")
left.set_title("accuracy of kernels on words and letters", fontsize=10)
left.legend(frameon=False, fontsize=8, loc="lower right")
left.spines[["top", "right"]].set_visible(False)
right.imshow(confusion, cmap="Blues", vmin=0, vmax=1)
for i, j in np.ndindex(confusion.shape):
    shade = "white" if confusion[i, j] > 0.5 else "black"
    right.text(j, i, f"{confusion[i, j]:.2f}", ha="center", va="center", color=shade, fontsize=8)
right.set_xticks(range(len(SETS)), list(SETS))
right.set_yticks(range(len(SETS)), list(SETS))
right.set_xlabel("predicted")
right.set_ylabel("true")
right.set_title("confusion of words, TF-IDF", fontsize=10)
figure.savefig("text.png", dpi=110)
