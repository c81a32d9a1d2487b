"""Newton's method in the space of functions, for smooth losses, with a duality gap.

In coefficients, the Newton direction δ of J at f = Σ α_i k(x_i, ·) solves (λI + DK)δ = −g, where
g = p·ℓ'(y, f) + λα is the functional gradient, p = w/Σw, and D holds the curvatures p·ℓ''. λI + DK
is self-adjoint in the inner product aᵀKb of the space, and no less than λ there.
"""

from mercer.solvers.newton.method import Newton

__all__ = ["Newton"]
