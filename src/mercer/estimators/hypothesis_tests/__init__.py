"""Tests of whether two samples have one distribution, and whether two variables are independent.

The tests by permutation have the level they state, for every sample size: p = (1 + #)/(1 + B),
where # counts permutations whose statistic is at least that of the data. The kernel's lengthscale
does not look at what is permuted: it comes from the pooled sample, or from each variable by itself.
"""

from mercer.estimators.hypothesis_tests.independence import hsic_test
from mercer.estimators.hypothesis_tests.permutations import TestResult
from mercer.estimators.hypothesis_tests.two_samples import mmd_test

__all__ = ["TestResult", "hsic_test", "mmd_test"]
