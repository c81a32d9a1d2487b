"""scikit-learn's tests of support vector machines on sparse arrays; matrices are the same."""

from unittest import mock

import scipy.sparse
import sklearn.utils.fixes

from drop_in.swapped import swapped_tests
from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM

ours = {kind.__name__: kind for kind in (SVC, SVR, NuSVC, NuSVR, OneClassSVM)}
arrays = {"CSR_CONTAINERS": [scipy.sparse.csr_array], "LIL_CONTAINERS": [scipy.sparse.lil_array]}
with mock.patch.multiple(sklearn.utils.fixes, **arrays):
    globals().update(swapped_tests("svm/tests/test_sparse.py", {"sklearn.svm": ours}))
