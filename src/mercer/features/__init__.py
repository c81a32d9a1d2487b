"""Feature maps: vectors φ(x) with ⟨φ(x), φ(y)⟩ ≈ k(x, y), and centres that stand for many points.

Each is a transformer of scikit-learn that says which kernel it approximates and how well.

>>> import numpy as np
>>> from mercer.features import RandomFourierFeatures
>>> from mercer.kernels import Matern
>>> X = np.random.default_rng(0).standard_normal((200, 3))
>>> phi = RandomFourierFeatures(Matern(2.5), n_components=1000, random_state=0).fit(X)
>>> gaps = np.einsum("ij,ij->i", phi.transform(X[:100]), phi.transform(X[100:]))
>>> gaps -= np.diagonal(Matern(2.5)(X[:100], X[100:]))
>>> bool(np.sqrt(np.mean(gaps**2)) < 1.5 * phi.expected_error(X[:100], X[100:]).mean())
True
"""

from mercer.features import centres
from mercer.features.additive import AdditiveChi2Sampler, AdditiveFeatures, SkewedChi2Sampler
from mercer.features.base import FeatureMap, NormalEquations
from mercer.features.compression import Compressed, compress, to_features
from mercer.features.fourier import Fastfood, RandomFourierFeatures, RBFSampler
from mercer.features.inner_product import PolynomialCountSketch, ReLUFeatures, TensorSketch
from mercer.features.mercer import MercerFeatures
from mercer.features.nystroem import Nystroem
from mercer.features.sparse import ExplicitFeatures, MinHash

__all__ = [
    "AdditiveChi2Sampler",
    "AdditiveFeatures",
    "Compressed",
    "ExplicitFeatures",
    "Fastfood",
    "FeatureMap",
    "MercerFeatures",
    "MinHash",
    "NormalEquations",
    "Nystroem",
    "PolynomialCountSketch",
    "RBFSampler",
    "RandomFourierFeatures",
    "ReLUFeatures",
    "SkewedChi2Sampler",
    "TensorSketch",
    "centres",
    "compress",
    "to_features",
]
