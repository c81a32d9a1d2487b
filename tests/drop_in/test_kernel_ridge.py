"""scikit-learn's tests of kernel ridge regression."""

from drop_in.swapped import swapped_tests
from mercer import KernelRidge

ours = {"KernelRidge": KernelRidge}
globals().update(swapped_tests("tests/test_kernel_ridge.py", {"sklearn.kernel_ridge": ours}))
