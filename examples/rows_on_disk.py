"""
A million rows on disk
======================

A million rows in a file, more than we want in memory. Ridge regression on centres reads the file
once a step, a block at a time, and stops when the duality gap says that it is done. The file is a
memory map of NumPy; Parquet files go through `mercer.workflow.TableBlocks`.
Run with `python examples/rows_on_disk.py`.
"""

import os
import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRidge
from mercer.kernels import Gaussian

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
ROWS, COLUMNS, BLOCK = (20_000 if QUICK else 1_000_000), 4, 10_000
CENTRES = [30, 60, 120] if QUICK else [50, 100, 200, 400, 800]
rng = np.random.default_rng(0)


def target(rows):
    return np.sin(3 * rows[:, 0]) * rows[:, 1] + np.abs(rows[:, 2])


# %%
# Write the file a block at a time, as a program that collects data would.
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(ROWS, COLUMNS))
y = np.empty(ROWS, dtype=np.float32)
for start in range(0, ROWS, BLOCK):
    block = rng.uniform(-1, 1, (BLOCK, COLUMNS)).astype(np.float32)
    X[start : start + BLOCK] = block
    y[start : start + BLOCK] = target(block) + 0.1 * rng.standard_normal(BLOCK)
X.flush()
X = np.load(path, mmap_mode="r")
new = rng.uniform(-1, 1, (5000, COLUMNS)).astype(np.float32)
print(f"{path.stat().st_size / 2**20:.0f} MiB on disk")

# %%
# More centres, smaller error. Memory does not grow with them: the matrix of kernel values
# between rows and centres is never stored.
errors, peaks = [], []
for count in CENTRES:
    tracemalloc.start()
    model = KernelRidge(alpha=1.0, kernel=Gaussian(0.7), centres=count, random_state=0).fit(X, y)
    peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
    tracemalloc.stop()
    errors.append(np.sqrt(np.mean((model.predict(new) - target(new)) ** 2)))
    print(f"{count} centres: error {errors[-1]:.4f}, peak {peaks[-1]:.0f} MiB, "
          f"stored K would be {4 * ROWS * count / 2**20:.0f} MiB")  # fmt: skip
    print("   ", model.solution_.status)

figure, axis = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
axis.semilogx(CENTRES, errors, "o-", color="#1f5fa8")
axis.set_title(f"ridge regression on {ROWS:,} rows from disk", fontsize=10)
axis.set_xlabel("centres")
axis.set_ylabel("root mean squared error, new rows")
axis.set_xticks(CENTRES, [str(count) for count in CENTRES])
axis.minorticks_off()
axis.set_ylim(0, None)
axis.spines[["top", "right"]].set_visible(False)
figure.savefig("rows_on_disk.png", dpi=110)
