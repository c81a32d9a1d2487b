"""Learning theory as plain functions: bounds, effective dimension, approximation error, exponents.

Every function says in its docstring what it assumes. `model.certificate()` gathers what applies to
a fitted model.

>>> round(estimation_error(lipschitz=1.0, norm=5.0, radius=1.0, samples=10_000), 3)
0.1
"""

from mercer.solvers.schedules import average_bound, subgradient_bound, weighted_average_bound
from mercer.theory.approximation import (
    Split,
    approximation_error,
    gaussian_bound,
    norm_needed,
    on_line,
    on_torus,
    projection_split,
)
from mercer.theory.bounds import (
    ball_around,
    deviation,
    deviation_on_ball,
    estimation_error,
    excess_risk,
    largest_norm,
    online_deviation,
    rademacher_complexity,
    random_features_error,
    regret_of_constant_step,
    regret_of_inverse_steps,
    regularised_excess,
    stability,
    stability_deviation,
)
from mercer.theory.certificate import Assumption, Certificate, Statement, certify
from mercer.theory.spectrum import (
    RidgeConditions,
    RidgeRisk,
    effective_dimension,
    expected_ridge_risk,
    fitted_exponent,
    lipschitz_exponent,
    ridge_conditions,
    ridge_risk,
    risk_exponent,
)

__all__ = [
    "Assumption",
    "Certificate",
    "RidgeConditions",
    "RidgeRisk",
    "Split",
    "Statement",
    "approximation_error",
    "average_bound",
    "ball_around",
    "certify",
    "deviation",
    "deviation_on_ball",
    "effective_dimension",
    "estimation_error",
    "excess_risk",
    "expected_ridge_risk",
    "fitted_exponent",
    "gaussian_bound",
    "largest_norm",
    "lipschitz_exponent",
    "norm_needed",
    "on_line",
    "on_torus",
    "online_deviation",
    "projection_split",
    "rademacher_complexity",
    "random_features_error",
    "regret_of_constant_step",
    "regret_of_inverse_steps",
    "regularised_excess",
    "ridge_conditions",
    "ridge_risk",
    "risk_exponent",
    "stability",
    "stability_deviation",
    "subgradient_bound",
    "weighted_average_bound",
]
