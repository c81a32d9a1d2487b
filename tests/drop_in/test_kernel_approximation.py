"""scikit-learn's tests of feature maps."""

from drop_in.swapped import swapped_tests
from mercer.features import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)

ours = {
    kind.__name__: kind
    for kind in (
        AdditiveChi2Sampler,
        Nystroem,
        PolynomialCountSketch,
        RBFSampler,
        SkewedChi2Sampler,
    )
}
globals().update(
    swapped_tests("tests/test_kernel_approximation.py", {"sklearn.kernel_approximation": ours})
)
