"""
Lifting: a circle becomes a plane
=================================

**Claim.** Points inside and outside a circle cannot be told apart by a line in (x, y). With the
feature x² + y² as a third coordinate they can, by a plane. The kernel ⟨u, v⟩ + ‖u‖²‖v‖² is the
inner product of lifted points, so that a kernel machine does the same without ever lifting.
Run with `python examples/lifting.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC
from mercer.kernels import BlockKernel, Linear

rng = np.random.default_rng(0)
X = rng.uniform(-1.5, 1.5, (300, 2))
labels = np.where(np.linalg.norm(X, axis=1) < 1.0, 1, -1)


def lifted(points):
    return np.column_stack([points, (points**2).sum(axis=1)])


lifting = BlockKernel(
    lambda a, b: a @ b.T + np.outer((a**2).sum(axis=1), (b**2).sum(axis=1)), positive_definite=True
)

# %%
# Three machines: on the plane, on lifted points, and with the kernel of lifted points.
flat = SVC(kernel=Linear(), C=100.0).fit(X, labels)
space = SVC(kernel=Linear(), C=100.0).fit(lifted(X), labels)
kernel = SVC(kernel=lifting, C=100.0).fit(X, labels)
difference = np.abs(space.decision_function(lifted(X)) - kernel.decision_function(X)).max()
print(f"right on the plane: {flat.score(X, labels):.2f}")
print(f"right on lifted points: {space.score(lifted(X), labels):.2f}")
print(f"the kernel machine differs from the lifted one by {difference:.1e} at most")

w = space.function_.gradient(np.zeros((1, 3)))[0]
radius = np.sqrt(-space.intercept_[0] / w[2])
print(f"the learned circle has radius {radius:.3f}; the true one 1")

figure = plt.figure(figsize=(10.5, 4.2), layout="constrained")
left = figure.add_subplot(1, 2, 1)
axis = np.linspace(-1.5, 1.5, 200)
mesh = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
left.contour(axis, axis, kernel.decision_function(mesh).reshape(200, 200), [0.0], colors="black")
right = figure.add_subplot(1, 2, 2, projection="3d")
for label, colour in ((1, "#1f5fa8"), (-1, "#d1495b")):
    chosen = X[labels == label]
    left.plot(*chosen.T, "o", color=colour, markersize=3.5)
    right.plot(*lifted(chosen).T, "o", color=colour, markersize=3)
left.set_aspect("equal")
left.set_title("(x, y), and where the kernel machine draws the line", fontsize=10)
u, v = np.meshgrid([-1.5, 1.5], [-1.5, 1.5])
right.plot_surface(
    u, v, -(space.intercept_[0] + w[0] * u + w[1] * v) / w[2], alpha=0.3, color="grey"
)
right.set_title("(x, y, x² + y²)", fontsize=10)
right.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1], zticks=[0, 2, 4])
right.view_init(elev=12, azim=-60)
figure.savefig("lifting.png", dpi=110)
