"""Descent in the space of functions: kernel gradient descent, subgradients, one sample at a time.

J(f) = (1/Σw) Σ_i w_i ℓ(y_i, f(x_i)) + (λ/2)‖f‖² has the functional gradient

    ∇J(f) = Σ_i g_i k(x_i, ·),    g = w·ℓ'(y, f(x))/Σw + λα,

so that f ← f − η∇J(f) is α ← α − ηg: not the gradient in α, which is Kg.
"""

from mercer.solvers.descent.gradient import Discrepancy, KernelGradientDescent
from mercer.solvers.descent.stochastic import StochasticFunctionalGradient
from mercer.solvers.descent.subgradient import SubgradientDescent

__all__ = [
    "Discrepancy",
    "KernelGradientDescent",
    "StochasticFunctionalGradient",
    "SubgradientDescent",
]
