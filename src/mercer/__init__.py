"""Learning in reproducing kernel Hilbert spaces.

>>> import numpy as np
>>> from mercer.kernels import Gaussian
>>> k = Gaussian(lengthscale=0.5)
>>> X = np.linspace(0.0, 1.0, 4)[:, None]
>>> f = k.function(X, np.ones(4))
>>> bool(np.isclose(f.inner(k.function(X[:1], [1.0])), f(X[:1])[0]))
True
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "FeatureFunction": "mercer.functions",
    "Gram": "mercer.operators",
    "KernelClassifier": "mercer.estimators",
    "KernelClassifierCV": "mercer.estimators",
    "KernelLogisticRegression": "mercer.estimators",
    "KernelPoissonRegressor": "mercer.estimators",
    "KernelQuantileRegressor": "mercer.estimators",
    "KernelRegressor": "mercer.estimators",
    "KernelRidge": "mercer.estimators",
    "KernelRidgeCV": "mercer.estimators",
    "NuSVC": "mercer.estimators",
    "OneClassSVM": "mercer.estimators",
    "RKHSFunction": "mercer.functions",
    "SVC": "mercer.estimators",
    "SVCCV": "mercer.estimators",
    "SVR": "mercer.estimators",
    "estimators": "mercer.estimators",
    "features": "mercer.features",
    "functions": "mercer.functions",
    "kernels": "mercer.kernels",
    "linalg": "mercer.linalg",
    "losses": "mercer.losses",
    "online": "mercer.online",
    "operators": "mercer.operators",
    "plotting": "mercer.plotting",
    "solvers": "mercer.solvers",
    "structured": "mercer.structured",
    "testing": "mercer.testing",
}

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "Gram",
    "KernelClassifier",
    "KernelClassifierCV",
    "KernelLogisticRegression",
    "KernelPoissonRegressor",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "KernelRidge",
    "KernelRidgeCV",
    "NuSVC",
    "OneClassSVM",
    "RKHSFunction",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import the rest on first use, so that `import mercer` is quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    return home if home.__name__ == f"mercer.{name}" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
