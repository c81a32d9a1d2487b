"""K(X, Y)v takes at most 64 MB beside its input and output, measured in processes of their own."""

from __future__ import annotations

import pytest

from processes import output_of

SCRIPT = """
import os, tempfile
import numpy as np, scipy.sparse
from mercer.kernels import Gaussian, Matern

def resident(field):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) / 1024

def growth(work):
    before = resident("VmRSS")
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak starts here
    except OSError:
        pass
    output = work()
    return resident("VmHWM") - before - output.nbytes / 2**20

def measured(n, m, make, kernel, values, product):
    here = globals() | {"n": n, "m": m, "random": np.random.default_rng(0), "k": eval(kernel)}
    X, Y = (eval(make, here | {"rows": rows}) for rows in (n, m))
    here |= {"X": X, "Y": Y}
    k, v = here["k"], eval(values, here)
    here["v"] = v
    small = k.gram(X[:1100], X[:1100].copy())
    small @ v[:1100]
    k.gram(X[:2100]) @ (v[:1] * np.ones((2100,) + v.shape[1:], np.float32))
    small.normal_matmul(v[:1100])
    return growth(lambda: eval(product, here))

warm = Gaussian().gram(np.ones((3, 1), np.float32)) @ np.ones(3, np.float32)
for name, case in CASES.items():  # each in a child that has only what all of them have
    child = os.fork()
    if child == 0:
        print(name, measured(*case), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""

DENSE = "random.standard_normal((rows, 10), dtype=np.float32)"
WIDE = "random.standard_normal((rows, 200), dtype=np.float32)"
SPARSE = (
    "scipy.sparse.random_array((rows, 20000), density=1e-3, rng=random, dtype=np.float64)"
    ".tocsr().astype(np.float32)"
)
MAPPED = (
    "np.lib.format.open_memmap(tempfile.mkstemp(suffix='.npy')[1], 'w+', np.float32, (rows, 10))"
)
VECTOR = "random.standard_normal(m, dtype=np.float32)"
GENERAL, SYMMETRIC = "k.gram(X, Y) @ v", "k.gram(X) @ np.ones(n, np.float32)"

CASES = {
    "general": (20480, 10240, DENSE, "Gaussian()", VECTOR, GENERAL),
    "symmetric": (20480, 10240, DENSE, "Matern(0.5)", VECTOR, SYMMETRIC),
    "transposed": (10240, 20480, DENSE, "Gaussian()", VECTOR, GENERAL),
    "normal": (20480, 4096, DENSE, "Gaussian()", VECTOR, "k.gram(X, Y).normal_matmul(v)"),
    "several": (10240, 5120, DENSE, "Gaussian()", "np.ones((m, 8), np.float32)", GENERAL),
    "wide": (8192, 4096, WIDE, "Gaussian(10.0)", VECTOR, GENERAL),
    "sparse": (8192, 4096, SPARSE, "Gaussian()", VECTOR, GENERAL),
    "sparse-symmetric": (4096, 2048, SPARSE, "Gaussian()", VECTOR, SYMMETRIC),
    "memory-map": (20480, 10240, MAPPED, "Gaussian()", VECTOR, GENERAL),
}
TAKEN = {
    "taken": (
        *(2200, 1100, DENSE, "Gaussian()", VECTOR),
        "np.ones(10 * 2**20).sum(keepdims=True)",
    )
}


@pytest.fixture(scope="module")
def growths():
    """Megabytes for each case, with two threads, which have a workspace each."""
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    lines = output_of(f"CASES = {CASES | TAKEN!r}\n{SCRIPT}", **threads).splitlines()
    return {name: float(size) for name, size in (line.split() for line in lines)}


@pytest.mark.parametrize("case", CASES)
def test_peak_of_a_product(case, growths):
    assert growths[case] <= 64.0


def test_the_measure_sees_what_is_taken(growths):
    assert growths["taken"] >= 60.0  # 80 MB were taken
