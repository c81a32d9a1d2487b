"""Online learning on features: random Fourier features, Nyström features of the first points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import check_count
from mercer.kernels.base import Kernel
from mercer.online.features.streams import FourierStream, NystroemStream
from mercer.online.machine import GradientMachine
from mercer.online.schedules import Average
from mercer.points import PointSet


class RandomFeatureMachine(GradientMachine):
    """Online learning on random Fourier features: w ← (1 − ηλ)w − η ℓ'(y, ⟨w, φ(x)⟩) φ(x).

    Stationary kernels on vectors. Time and memory for a sample are those of `n_components`
    features, whatever the length of the stream.

    Parameters
    ----------
    kernel : Kernel or str, default="rbf"
    n_components : int, default=200
        The number of features: cosines and sines of half as many random frequencies.
    loss, regularization, step, averaging, passes, record, gamma, degree, coef0 :
        As in `OnlineKernelMachine`.
    random_state : int, Generator or None, default=None
        The same number gives the same frequencies.

    References
    ----------
    J. Lu, S. C. H. Hoi, J. Wang, P. Zhao, Z.-Y. Liu, Large scale online kernel learning, 2016.

    Examples
    --------
    >>> m = RandomFeatureMachine(gamma=1.0, n_components=500, random_state=0)
    >>> m.fit([[0.0], [1.0]], [0, 1]).predict([[0.1], [0.9]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        n_components: int = 200,
        loss: Any = None,
        regularization: float = 1e-4,
        step: Any = None,
        averaging: Average | None = None,
        passes: int = 5,
        record: bool = False,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.loss = loss
        self.regularization = regularization
        self.step = step
        self.averaging = averaging
        self.passes = passes
        self.record = record
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def _new_stream(self, kernel: Kernel, points: PointSet, outputs: int, classes: Any) -> Any:
        check_count(self, "n_components", self.n_components)
        return FourierStream(kernel, self._settings(), points, outputs, self.n_components)

    def _values(self, points: PointSet) -> np.ndarray:
        return self.stream_.evaluate(points, self._flat)


class NystroemMachine(GradientMachine):
    """Online learning on Nyström features of the first points of the stream. Any kernel.

    The first `size` samples are learned as bumps, and stay as centres; then f moves in their span,
    at the cost of `size`² for a sample, whatever the length of the stream.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    size : int, default=100
        The number of centres.
    loss, regularization, step, averaging, passes, record, gamma, degree, coef0 :
        As in `OnlineKernelMachine`.

    References
    ----------
    J. Lu, S. C. H. Hoi, J. Wang, P. Zhao, Z.-Y. Liu, Large scale online kernel learning, 2016.

    Examples
    --------
    >>> m = NystroemMachine(gamma=1.0, size=2).fit([[0.0], [1.0], [0.9]], [0, 1, 1])
    >>> len(m.function_), m.predict([[0.1]]).tolist()
    (2, [0])
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        size: int = 100,
        loss: Any = None,
        regularization: float = 1e-4,
        step: Any = None,
        averaging: Average | None = None,
        passes: int = 5,
        record: bool = False,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
    ) -> None:
        self.kernel = kernel
        self.size = size
        self.loss = loss
        self.regularization = regularization
        self.step = step
        self.averaging = averaging
        self.passes = passes
        self.record = record
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def _new_stream(self, kernel: Kernel, points: PointSet, outputs: int, classes: Any) -> Any:
        check_count(self, "size", self.size)
        return NystroemStream(kernel, self._settings(), points, outputs, int(self.size))
