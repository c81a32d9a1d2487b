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
from typing import TYPE_CHECKING, Any

from mercer.version import __version__

if TYPE_CHECKING:  # so that editors and mypy see what `__getattr__` gives
    from mercer import estimators as estimators
    from mercer import features as features
    from mercer import functions as functions
    from mercer import kernels as kernels
    from mercer import learning as learning
    from mercer import linalg as linalg
    from mercer import losses as losses
    from mercer import online as online
    from mercer import operators as operators
    from mercer import persistence as persistence
    from mercer import plotting as plotting
    from mercer import report as report
    from mercer import solvers as solvers
    from mercer import structured as structured
    from mercer import testing as testing
    from mercer import workflow as workflow
    from mercer.estimators import (
        SVC,
        SVCCV,
        SVR,
        ConditionalMeanEmbedding,
        ConformalRegressor,
        KernelCCA,
        KernelClassifier,
        KernelClassifierCV,
        KernelDensity,
        KernelKMeans,
        KernelLogisticRegression,
        KernelPCA,
        KernelPoissonRegressor,
        KernelQuantileRegressor,
        KernelRegressor,
        KernelRidge,
        KernelRidgeClassifier,
        KernelRidgeCV,
        LearnedKernelClassifier,
        LearnedKernelRegressor,
        NuSVC,
        NuSVR,
        OneClassSVM,
        SpectralClustering,
        hsic_test,
        mmd_test,
    )
    from mercer.functions import FeatureFunction as FeatureFunction
    from mercer.functions import RKHSFunction
    from mercer.operators import Gram
    from mercer.persistence import load, save
    from mercer.workflow import fit, tune

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "ConditionalMeanEmbedding",
    "ConformalRegressor",
    "Gram",
    "KernelCCA",
    "KernelClassifier",
    "KernelClassifierCV",
    "KernelDensity",
    "KernelKMeans",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelPoissonRegressor",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "KernelRidge",
    "KernelRidgeCV",
    "KernelRidgeClassifier",
    "LearnedKernelClassifier",
    "LearnedKernelRegressor",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "RKHSFunction",
    "SpectralClustering",
    "__version__",
    "fit",
    "hsic_test",
    "load",
    "mmd_test",
    "save",
    "tune",
]


_PACKAGES = (
    *("estimators", "features", "functions", "kernels", "learning", "linalg", "losses", "online"),
    *("operators", "persistence", "plotting", "report", "solvers", "structured", "testing"),
    "workflow",
)
_HOMES = {  # of what is not an estimator or a test
    "FeatureFunction": "functions",
    "Gram": "operators",
    "RKHSFunction": "functions",
    "fit": "workflow",
    "load": "persistence",
    "save": "persistence",
    "tune": "workflow",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the rest on first use, so that `import mercer` is quick."""
        if name in _PACKAGES:
            return importlib.import_module(f"mercer.{name}")
        if name not in __all__ and name not in _HOMES:
            raise AttributeError(f"module 'mercer' has no attribute {name!r}")
        return getattr(importlib.import_module(f"mercer.{_HOMES.get(name, 'estimators')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_HOMES, *__all__})
