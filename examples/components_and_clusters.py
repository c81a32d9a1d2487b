"""
Rings and moons: components and clusters
========================================

Kernel principal components separate two rings, and kernel k-means and spectral clustering find
rings and moons without labels. A few points, chosen by kernel herding, stand for all of them.
Run with `python examples/components_and_clusters.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles, make_moons

from mercer import SVC, KernelKMeans, KernelPCA, SpectralClustering
from mercer.kernels import Gaussian
from mercer.plotting import ComponentsDisplay, GramDisplay, SupportVectorsDisplay

rings, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
moons, moon = make_moons(400, noise=0.06, random_state=0)

figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
GramDisplay.from_kernel(Gaussian(0.3), rings, y=ring, ax=axes[0, 0])
pca = KernelPCA(2, kernel=Gaussian(0.5)).fit(rings)
ComponentsDisplay.from_estimator(pca, rings, ring, ax=axes[0, 1])
axes[0, 1].set_title("rings by their components", fontsize=9)
SupportVectorsDisplay.from_estimator(SVC(gamma=2.0).fit(moons, moon), moons, moon, ax=axes[0, 2])

found = {
    "kernel k-means": (rings, KernelKMeans(2, kernel=Gaussian(0.3), random_state=0)),
    "spectral clustering": (moons, SpectralClustering(2, gamma=30.0, random_state=0)),
}
for axis, (name, (points, model)) in zip(axes[1], found.items(), strict=False):
    axis.scatter(*points.T, c=model.fit_predict(points), s=10, cmap="viridis")
    axis.set_title(name, fontsize=9)
axis = axes[1, 2]
chosen = Gaussian(0.3).thin(moons, 25, random_state=0)
axis.plot(*moons.T, ".", color="#8a8f98", markersize=3)
axis.plot(*np.asarray(chosen.points).T, "o", color="#d1495b", markersize=6)
axis.set_title(f"25 points for 400: discrepancy {chosen.discrepancy:.3f}", fontsize=9)
for axis in axes[1]:
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("components_and_clusters.png", dpi=70)
