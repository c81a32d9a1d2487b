"""Feature maps: vectors φ(x) with ⟨φ(x), φ(y)⟩ ≈ k(x, y), and centres that stand for many points.

Each is a transformer of scikit-learn.
"""

from mercer.features import centres
from mercer.features.base import FeatureMap
from mercer.features.nystroem import Nystroem

__all__ = ["FeatureMap", "Nystroem", "centres"]
