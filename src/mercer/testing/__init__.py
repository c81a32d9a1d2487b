"""Contracts to run on what you write yourself, as mercer's own tests do.

>>> from mercer.kernels import Gaussian
>>> from mercer.losses import Huber
>>> from mercer.testing import check_kernel, check_loss
>>> check_kernel(Gaussian(lengthscale=0.5), [[0.0], [0.1], [2.0]])
>>> check_loss(Huber(delta=0.5))
"""

from mercer.testing.estimators import (
    FEATURE_CONTRACTS,
    STRUCTURED_CONTRACTS,
    check_feature_map,
    check_structured_estimator,
)
from mercer.testing.kernels import KERNEL_CONTRACTS, check_kernel
from mercer.testing.losses import LOSS_CONTRACTS, check_loss
from mercer.testing.online import ONLINE_CONTRACTS, check_online

__all__ = [
    "FEATURE_CONTRACTS",
    "KERNEL_CONTRACTS",
    "LOSS_CONTRACTS",
    "ONLINE_CONTRACTS",
    "STRUCTURED_CONTRACTS",
    "check_feature_map",
    "check_kernel",
    "check_loss",
    "check_online",
    "check_structured_estimator",
]
