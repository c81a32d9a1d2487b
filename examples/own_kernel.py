"""
Writing your own kernel
=======================

A kernel on pairs (hour of the day, temperature), periodic in the first and smooth in the second:
put together from kernels that are there, and written as a function of two blocks of rows.
`check_kernel` tests what a kernel owes.
Run with `python examples/own_kernel.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRidge
from mercer.kernels import BlockKernel, Gaussian
from mercer.testing import check_kernel

rng = np.random.default_rng(0)
hours, warmth = rng.uniform(0, 24, 200), rng.uniform(-5, 30, 200)
X = np.column_stack([hours, warmth])
load = 3 + np.sin(2 * np.pi * (hours - 7) / 24) + 0.002 * (warmth - 15) ** 2
y = load + 0.1 * rng.standard_normal(200)


# %%
# By composition: the hour as a point on a circle, and a product of kernels on columns.
def on_circle(points):
    angle = 2 * np.pi * points / 24
    return np.column_stack([np.cos(angle), np.sin(angle)])


composed = Gaussian(1.0).after(on_circle).on([0]) * Gaussian(15.0).on([1])


# %%
# As a function of two blocks of rows, for what cannot be composed. It says that it is positive
# definite; mercer cannot know.
def values(a, b):
    circle = on_circle(a[:, :1]) @ on_circle(b[:, :1]).T
    return np.exp(circle - 1.0 - 0.5 * ((a[:, 1:] - b[:, 1:].T) / 15.0) ** 2)


own = BlockKernel(values, positive_definite=True)
check_kernel(own, X[:20])
print(f"both differ by {np.abs(own(X) - composed(X)).max():.1e} at most")

# %%
# Either goes into every estimator.
model = KernelRidge(alpha=0.1, kernel=own).fit(X, y)
grid = np.stack(np.meshgrid(np.linspace(0, 24, 97), np.linspace(-5, 30, 71)), axis=-1)
fitted = model.predict(grid.reshape(-1, 2)).reshape(71, 97)
ends = model.predict([[0.0, 20.0], [24.0, 20.0]])
print(f"at 0 and at 24 o'clock: {ends[0]:.6f} and {ends[1]:.6f}")

figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
shown = axis.contourf(grid[0, :, 0], grid[:, 0, 1], fitted, levels=20, cmap="viridis")
axis.plot(hours, warmth, ".", color="white", markersize=3)
axis.set_title("load by hour and temperature, with the kernel of our own", fontsize=10)
axis.set_xlabel("hour")
axis.set_ylabel("temperature, °C")
figure.colorbar(shown, label="load")
figure.savefig("own_kernel.png", dpi=110)
