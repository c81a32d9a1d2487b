"""scikit-learn's tests of support vector machines."""

from drop_in.swapped import swapped_tests
from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM

ours = {kind.__name__: kind for kind in (SVC, SVR, NuSVC, NuSVR, OneClassSVM)}
globals().update(swapped_tests("svm/tests/test_svm.py", {"sklearn.svm": ours}))
