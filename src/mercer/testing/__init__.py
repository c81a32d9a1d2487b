"""Contracts to run on what you write yourself, as mercer's own tests do.

>>> from mercer.kernels import Gaussian
>>> from mercer.losses import Huber
>>> from mercer.testing import check_kernel, check_loss
>>> check_kernel(Gaussian(lengthscale=0.5), [[0.0], [0.1], [2.0]])
>>> check_loss(Huber(delta=0.5))
"""

from mercer.testing.estimators import STRUCTURED_LAWS, check_structured_estimator
from mercer.testing.features import FEATURE_LAWS, check_feature_map
from mercer.testing.kernels import KERNEL_LAWS, check_kernel
from mercer.testing.losses import LOSS_LAWS, check_loss
from mercer.testing.online import ONLINE_LAWS, check_online

__all__ = [
    "FEATURE_LAWS",
    "KERNEL_LAWS",
    "LOSS_LAWS",
    "ONLINE_LAWS",
    "STRUCTURED_LAWS",
    "check_feature_map",
    "check_kernel",
    "check_loss",
    "check_online",
    "check_structured_estimator",
]
