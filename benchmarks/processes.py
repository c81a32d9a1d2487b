"""Tasks that need a process of their own; run as python -m benchmarks.processes TASK.

Each prints one line of JSON. Imports are inside the tasks, because some of them time the imports.
"""

import json
import sys
import time


def imports() -> dict:
    """What `import mercer` costs once scikit-learn's base is there, and what it loads."""
    start = time.perf_counter()
    import sklearn.base  # noqa: F401

    base = time.perf_counter()
    import mercer

    package = time.perf_counter()
    import mercer.kernels  # noqa: F401

    kernels = time.perf_counter()
    return {
        "base": base - start,
        "package": package - base,
        "kernels": kernels - base,
        "numba": "numba" in sys.modules,
        "torch": "torch" in sys.modules,
    }


def first_product(record: str = "") -> dict:
    """The first product of a process: the imports, the call alone, and how much was compiled."""
    start = time.perf_counter()
    import numpy as np

    from mercer.kernels import Gaussian

    X = np.random.default_rng(0).standard_normal((2000, 10), dtype=np.float32)
    v = np.ones(1500, np.float32)
    recorder = _compilations() if record else None
    before = time.perf_counter()
    (Gaussian(lengthscale=2.0).gram(X, X[:1500]) @ v).sum()
    after = time.perf_counter()
    return {
        "imports": before - start,
        "call": after - before,
        "compilations": None if recorder is None else len(recorder.buffer) // 2,
        "finished": time.time(),
    }


def _compilations():
    from numba.core.event import install_recorder

    install = install_recorder("numba:compile")
    recorder = install.__enter__()
    recorder.installed = install  # kept, or it would be removed at once
    return recorder


def product_memory(width: str = "10") -> dict:
    """Peak of resident memory during K(X, Y)v beyond inputs and output."""
    import numpy as np

    from mercer.kernels import Gaussian

    d = int(width)
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((size, d), dtype=np.float32) for size in (20480, 10240))
    v = rng.standard_normal(len(Y), dtype=np.float32)
    kernel = Gaussian(lengthscale=(d / 2) ** 0.5)
    kernel.gram(X[:512], Y[:512]) @ v[:512]
    return _peak(lambda: kernel.gram(X, Y) @ v)


def sparse_memory() -> dict:
    """The same for the TF-IDF rows of the benchmark."""
    import numpy as np

    from benchmarks.data import tfidf
    from mercer.kernels import Gaussian

    X, kernel = tfidf("rt_polarity"), Gaussian(lengthscale=1.0)
    v = np.random.default_rng(0).standard_normal(X.shape[0])
    kernel.gram(X[:3072]) @ v[:3072]  # three stripes: the same code as for all rows
    return _peak(lambda: kernel.gram(X) @ v)


def _peak(work) -> dict:
    from benchmarks.measure import growth

    out, extra = growth(work)
    return {"extra": extra - out.nbytes}


TASKS = {task.__name__: task for task in (imports, first_product, product_memory, sparse_memory)}

if __name__ == "__main__":
    answer = TASKS[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({"finished": time.time(), **answer}))
