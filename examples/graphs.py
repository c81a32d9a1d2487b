"""
Graphs: which process made this network?
========================================

Networks of equal size, with about as many edges, come from three processes: edges at random, new
nodes that prefer well-connected ones, and a ring with shortcuts. Kernels on graphs tell them apart
without any labels of nodes. Run with `python examples/graphs.py`.
"""

import matplotlib.pyplot as plt
import networkx
import numpy as np
from sklearn.model_selection import cross_val_score

from mercer import SVC
from mercer.structured import Graphlets, RandomWalk, ShortestPath, WeisfeilerLehman

COUNT, NODES = 30, 40
MAKERS = {
    "at random": lambda seed: networkx.gnm_random_graph(NODES, 76, seed=seed),
    "preferential": lambda seed: networkx.barabasi_albert_graph(NODES, 2, seed=seed),
    "small world": lambda seed: networkx.connected_watts_strogatz_graph(NODES, 4, 0.2, seed=seed),
}
COLOURS = {"at random": "#1f5fa8", "preferential": "#d1495b", "small world": "#3b8c5a"}
graphs = [make(seed) for make in MAKERS.values() for seed in range(COUNT)]
labels = np.repeat(list(MAKERS), COUNT)

# %%
# Graphs of networkx are points as they are.
KERNELS = {
    "Weisfeiler–Lehman, 2 rounds": WeisfeilerLehman(2),
    "shortest paths": ShortestPath(),
    "graphlets of 4 nodes": Graphlets(4),
    "random walks": RandomWalk(decay=0.5, by_degree=True),
}
figure, axes = plt.subplots(1, 5, figsize=(15, 3.2), layout="constrained")
for axis, (name, kernel) in zip(axes[1:], KERNELS.items(), strict=True):
    model = SVC(kernel=kernel.normalised(), C=100.0)
    score = cross_val_score(model, graphs, labels, cv=5).mean()
    print(f"{name}: {100 * score:.0f}% right, five folds")
    K = kernel.normalised()(graphs)
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(centred)
    plane = vectors[:, -2:][:, ::-1] * np.sqrt(values[-2:][::-1])
    for family, colour in COLOURS.items():
        axis.plot(*plane[labels == family].T, "o", color=colour, markersize=3.5, label=family)
    axis.set_title(f"{name}\n{100 * score:.0f}% right", fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
axes[1].set_xlabel("two main directions of the space")
axes[-1].legend(frameon=False, fontsize=8)
# sphinx_gallery_defer_figures

# %%
# One network of each kind.
axes[0].set_axis_off()
for i, (family, make) in enumerate(MAKERS.items()):
    graph = make(0)
    place = networkx.circular_layout(graph, scale=0.9, center=(0, -2.2 * i))
    networkx.draw_networkx_edges(graph, place, ax=axes[0], width=0.4, edge_color=COLOURS[family])
    axes[0].text(1.2, -2.2 * i, family, va="center", fontsize=9, color=COLOURS[family])
axes[0].set_xlim(-1, 4.2)
axes[0].set_aspect("equal")
figure.savefig("graphs.png", dpi=110)
