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

_HOMES = {
    "ConditionalMeanEmbedding": "mercer.estimators",
    "ConformalRegressor": "mercer.estimators",
    "FeatureFunction": "mercer.functions",
    "Gram": "mercer.operators",
    "KernelCCA": "mercer.estimators",
    "KernelClassifier": "mercer.estimators",
    "KernelClassifierCV": "mercer.estimators",
    "KernelDensity": "mercer.estimators",
    "KernelKMeans": "mercer.estimators",
    "KernelLogisticRegression": "mercer.estimators",
    "KernelPCA": "mercer.estimators",
    "KernelPoissonRegressor": "mercer.estimators",
    "KernelQuantileRegressor": "mercer.estimators",
    "KernelRegressor": "mercer.estimators",
    "KernelRidge": "mercer.estimators",
    "KernelRidgeCV": "mercer.estimators",
    "KernelRidgeClassifier": "mercer.estimators",
    "LearnedKernelClassifier": "mercer.estimators",
    "LearnedKernelRegressor": "mercer.estimators",
    "NuSVC": "mercer.estimators",
    "NuSVR": "mercer.estimators",
    "OneClassSVM": "mercer.estimators",
    "RKHSFunction": "mercer.functions",
    "SVC": "mercer.estimators",
    "SVCCV": "mercer.estimators",
    "SVR": "mercer.estimators",
    "SpectralClustering": "mercer.estimators",
    "estimators": "mercer.estimators",
    "hsic_test": "mercer.estimators",
    "mmd_test": "mercer.estimators",
    "features": "mercer.features",
    "fit": "mercer.workflow",
    "functions": "mercer.functions",
    "kernels": "mercer.kernels",
    "learning": "mercer.learning",
    "linalg": "mercer.linalg",
    "load": "mercer.persistence",
    "losses": "mercer.losses",
    "online": "mercer.online",
    "operators": "mercer.operators",
    "persistence": "mercer.persistence",
    "plotting": "mercer.plotting",
    "report": "mercer.report",
    "save": "mercer.persistence",
    "solvers": "mercer.solvers",
    "structured": "mercer.structured",
    "testing": "mercer.testing",
    "tune": "mercer.workflow",
    "workflow": "mercer.workflow",
}

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


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the rest on first use, so that `import mercer` is quick."""
        if name not in _HOMES:
            raise AttributeError(f"module 'mercer' has no attribute {name!r}")
        home = importlib.import_module(_HOMES[name])
        return home if home.__name__ == f"mercer.{name}" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
