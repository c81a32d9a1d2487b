"""Laws of kernels: one small rule for each class and each operation.

Each law is a function of a kernel, and of the number of columns where it matters. It answers yes,
no or unknown, with the reason; a no rests on a theorem. Points are vectors of ℝ^d, or of the part
of it that the kernel is made for.

A kernel of your own joins by a rule of its own:

>>> from mercer.kernels import PairKernel, laws
>>> class Overlap(PairKernel):
...     pass
>>> laws.positive_definite(Overlap(min)).unknown
True
>>> @laws.positive_definite.register(Overlap)
... def _(kernel, dimension=None):
...     return laws.yes("it counts common elements")
>>> laws.positive_definite(2.0 * Overlap(min) + 1.0).yes
True
"""

from mercer.kernels.laws.answer import Answer, no, unknown, yes
from mercer.kernels.laws.boundedness import bounded
from mercer.kernels.laws.checking import Check, check
from mercer.kernels.laws.definiteness import positive_definite
from mercer.kernels.laws.invariance import isotropic, stationary
from mercer.kernels.laws.measures import SpectralMeasure
from mercer.kernels.laws.richness import finitely_many_features, universal
from mercer.kernels.laws.smoothness import sobolev_order
from mercer.kernels.laws.spectrum import spectral_density
from mercer.kernels.laws.summary import Laws, summary
from mercer.kernels.laws.torus import fourier_weights, period

__all__ = [
    "Answer",
    "Check",
    "Laws",
    "SpectralMeasure",
    "bounded",
    "check",
    "finitely_many_features",
    "fourier_weights",
    "isotropic",
    "no",
    "period",
    "positive_definite",
    "sobolev_order",
    "spectral_density",
    "stationary",
    "summary",
    "universal",
    "unknown",
    "yes",
]
