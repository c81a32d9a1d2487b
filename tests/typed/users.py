"""What a type checker says of a user's code.

mypy reads this file with the library: where it does not find a marked mistake, it complains about
the mark. Nothing here is run.
"""

from typing import assert_type

import numpy as np

import mercer
from mercer import SVC, SVR, KernelRidge, KernelRidgeCV, NuSVR
from mercer.features import Nystroem
from mercer.features.centres import KMeansPlusPlus
from mercer.kernels import Gaussian, Kernel
from mercer.solvers import ConjugateGradient


def right(X: np.ndarray, y: np.ndarray) -> None:
    assert_type(SVC(C=2.0, kernel=Gaussian(0.5)), SVC)
    assert_type(SVR(kernel="rbf", gamma="scale").fit(X, y), SVR)
    assert_type(mercer.KernelRidge(0.1, kernel=lambda a, b: a @ b.T).fit(X, y), KernelRidge)
    KernelRidge([0.1, 1.0], solver=ConjugateGradient(), centres=KMeansPlusPlus(100))
    KernelRidgeCV(alphas=[0.1, 1.0], lengthscales=None)
    assert_type(NuSVR(nu=0.3).fit(X, y).epsilon_, float)
    Nystroem(Gaussian(), n_components=10, random_state=np.random.default_rng(0))
    kernel: Kernel = 2.0 * Gaussian() + Gaussian(2.0).on(slice(0, 2)) ** 2
    assert_type(mercer.Gram(kernel, kernel.points(X)), mercer.Gram)


def wrong() -> None:
    SVC(nonsense=3)  # type: ignore[call-arg]
    SVC(C="large")  # type: ignore[arg-type]
    KernelRidge(kernel=3)  # type: ignore[arg-type]
    KernelRidge(solver=ConjugateGradient)  # type: ignore[arg-type]
    KernelRidge(centres="many")  # type: ignore[arg-type]
    Nystroem(n_components="all")  # type: ignore[arg-type]
    mercer.SCV()  # type: ignore[attr-defined]
    mercer.SVC().fti()  # type: ignore[attr-defined]
