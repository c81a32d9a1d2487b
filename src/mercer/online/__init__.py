"""Online kernel machines: learn one sample at a time, on a budget, with the regret in view.

>>> from mercer.kernels import Gaussian
>>> from mercer.losses import Hinge
>>> from mercer.online import OnlineKernelMachine, budgets, schedules
>>> m = OnlineKernelMachine(Gaussian(0.5), loss=Hinge(), budget=budgets.Merge(200))
>>> m = m.partial_fit([[0.0], [1.0]], [-1, 1], classes=[-1, 1]).learn_one([0.9], 1)
>>> m.predict_one([1.1])
1
"""

from mercer.online import budgets
from mercer.online.features import (
    DoublyStochasticMachine,
    NystroemMachine,
    RandomFeatureMachine,
)
from mercer.online.machine import OnlineKernelMachine, OnlineMachine
from mercer.online.named import (
    NORMA,
    Forgetron,
    KernelPerceptron,
    OneClassMachine,
    PassiveAggressive,
    Pegasos,
)
from mercer.online.recursive import KernelRecursiveLeastSquares
from mercer.online.regret import Regret, regret
from mercer.solvers import schedules

__all__ = [
    "NORMA",
    "DoublyStochasticMachine",
    "Forgetron",
    "KernelPerceptron",
    "KernelRecursiveLeastSquares",
    "NystroemMachine",
    "OneClassMachine",
    "OnlineKernelMachine",
    "OnlineMachine",
    "PassiveAggressive",
    "Pegasos",
    "RandomFeatureMachine",
    "Regret",
    "budgets",
    "regret",
    "schedules",
]
