"""Random Fourier features: a stationary kernel as the mean of cosines of random frequencies."""

from mercer.features.fourier.base import TURN, FourierFeatures
from mercer.features.fourier.blocks import blocks_worth, pairs_in_blocks
from mercer.features.fourier.maps import RandomFourierFeatures, RBFSampler

__all__ = [
    "TURN",
    "FourierFeatures",
    "RBFSampler",
    "RandomFourierFeatures",
    "blocks_worth",
    "pairs_in_blocks",
]
