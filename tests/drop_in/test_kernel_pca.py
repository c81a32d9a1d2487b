"""scikit-learn's tests of kernel principal components."""

from drop_in.swapped import swapped_tests
from mercer import KernelPCA

ours = {"KernelPCA": KernelPCA}
file = "decomposition/tests/test_kernel_pca.py"
globals().update(swapped_tests(file, {"sklearn.decomposition": ours}))
