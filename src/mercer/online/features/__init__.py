"""Online learning on features: random Fourier features, Nyström features of the first points."""

from mercer.online.features.fourier import FourierFeatures, dense_rows, waves
from mercer.online.features.machines import NystroemMachine, RandomFeatureMachine
from mercer.online.features.streams import FeatureStream, FourierStream, NystroemStream
from mercer.online.features.streams import _OnCentres as _OnCentres  # older pickles look here

__all__ = [
    "FeatureStream",
    "FourierFeatures",
    "FourierStream",
    "NystroemMachine",
    "NystroemStream",
    "RandomFeatureMachine",
    "dense_rows",
    "waves",
]
