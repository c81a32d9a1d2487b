"""Kernels on images: bags of visual words, with a spatial pyramid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from mercer.checks import check_count
from mercer.kernels.base import Kernel, checked
from mercer.kernels.coordinates import HistogramIntersection
from mercer.kernels.facts import Facts
from mercer.structured.base import (
    Same,
    StructuredKernel,
    StructuredPoints,
    as_arrays,
    facts_inside,
    offsets,
)
from mercer.structured.sets import check_inner

CELLS, ANGLES = 4, 8  # of a descriptor: 4 × 4 cells of 8 orientations, as in SIFT
CLIPPED = 0.2  # what an entry of a descriptor may be at most, so that no edge outweighs all others
SAMPLED_DESCRIPTORS = 50_000  # descriptors from which the words are learned


@dataclass(frozen=True, eq=False)
class ImagePoints(StructuredPoints):
    """Images, as arrays of grey values: the values of all images, one after the other.

    An image is an array of shape (height, width), or (height, width, colours), whose colours are
    averaged. All images need not have one size.
    """

    parts = ("pixels",)
    pixels: np.ndarray
    shapes: np.ndarray

    @classmethod
    def read(cls, data: Any) -> Self:
        shapes = "write an array of shape (height, width) or (height, width, colours)"
        arrays = as_arrays(data, "images", (2, 3), f"is no image: {shapes}")
        images = [a.mean(axis=2) if a.ndim == 3 else np.atleast_2d(a) for a in arrays]
        pixels = np.concatenate([np.empty(0), *(image.ravel() for image in images)])
        sizes = np.array([image.shape for image in images], np.int64).reshape(-1, 2)
        return cls(np.arange(len(images)), offsets(sizes.prod(axis=1)), pixels, sizes)

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.ndim == 2

    def restored(self, i: int) -> np.ndarray:
        return self.pixels[self.starts[i] : self.starts[i + 1]].reshape(self.shapes[i])

    def selected(self, indices: np.ndarray) -> Self:
        return replace(super().selected(indices), shapes=self.shapes[indices])

    def joined(self, other: Self) -> Self:
        shapes = np.concatenate([self.shapes, other.shapes])
        return replace(super().joined(other), shapes=shapes)


def oriented_gradients(image: np.ndarray, patch: int, stride: int) -> tuple[Any, Any]:
    """Descriptors of the patches of an image on a grid: gradients by cell and orientation.

    A patch of `patch` pixels is cut into 4 × 4 cells, and the gradient of each pixel is shared by
    the two nearest of 8 orientations. Descriptors have unit length; those of flat patches are 0.
    Returned are the middles of the patches, as shares of height and width, and the descriptors.

    References
    ----------
    Lowe, Distinctive image features from scale-invariant keypoints, 2004.

    Examples
    --------
    >>> middles, descriptors = oriented_gradients(np.eye(16), patch=8, stride=4)
    >>> middles.shape, descriptors.shape
    ((9, 2), (9, 128))
    """
    height, width = image.shape
    rows, columns = (np.arange(0, size - patch + 1, stride) for size in (height, width))
    middles = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    if not len(middles):
        return np.empty((0, 2)), np.empty((0, CELLS * CELLS * ANGLES))
    sums = np.zeros((height + 1, width + 1, ANGLES))  # over all pixels above and left of a place
    sums[1:, 1:] = _orientations(image).cumsum(axis=0).cumsum(axis=1)
    edges = np.linspace(0, patch, CELLS + 1).round().astype(int)
    y, x = (middles[:, [axis]] + edges for axis in (0, 1))
    corners = sums[y[:, :, None], x[:, None, :]]
    cells = np.diff(np.diff(corners, axis=1), axis=2).reshape(len(middles), -1)
    descriptors = _unit(np.minimum(_unit(cells), CLIPPED))
    return (middles + patch / 2) / (height, width), descriptors


def daisies(image: np.ndarray, patch: int, stride: int) -> tuple[Any, Any]:
    """DAISY descriptors of scikit-image on a grid, as `oriented_gradients` gives its own.

    References
    ----------
    Tola, Lepetit, Fua, DAISY: an efficient dense descriptor applied to wide-baseline stereo, 2010.
    """
    try:
        from skimage import feature
    except ImportError:
        raise ImportError(
            'descriptor="daisy" needs scikit-image: pip install "mercer[images]".'
        ) from None
    radius, (height, width) = max(1, patch // 2), image.shape
    if min(height, width) <= 2 * radius:
        return np.empty((0, 2)), np.empty((0, 200))
    described: Any = feature
    rows = described.daisy(image, step=stride, radius=radius)
    places = [radius + stride * np.arange(count) for count in rows.shape[:2]]
    middles = np.stack(np.meshgrid(*places, indexing="ij"), axis=-1).reshape(-1, 2)
    return middles / (height, width), rows.reshape(len(middles), -1)


DESCRIPTORS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "gradients": oriented_gradients,
    "daisy": daisies,
}


def _orientations(image: np.ndarray) -> np.ndarray:
    """The length of the gradient of each pixel, shared by the two nearest orientations."""
    flat = [axis for axis in (0, 1) if image.shape[axis] < 2]
    slopes = [np.zeros_like(image) if a in flat else np.gradient(image, axis=a) for a in (0, 1)]
    angle = np.arctan2(*slopes) * (ANGLES / (2 * np.pi)) % ANGLES
    low = np.floor(angle).astype(int) % ANGLES
    share, length = angle - np.floor(angle), np.hypot(*slopes)
    out = np.zeros((*image.shape, ANGLES))
    np.put_along_axis(out, low[..., None], (length * (1 - share))[..., None], axis=2)
    np.put_along_axis(out, (low[..., None] + 1) % ANGLES, (length * share)[..., None], axis=2)
    return out


def _unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 1e-12, lengths, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class VisualWords(StructuredKernel):
    """A kernel on histograms of visual words: an image as a bag of the patches it is made of.

    Patches on a grid are described by numbers, and each description is one of `words`
    learned by k-means from training images. An image is the histogram of its words, over the whole
    image, over its quarters, their quarters and so on; level l of L counts with the weight
    2^{−(L−l)} (the first as the second), and all words of an image count 1 together. With
    `HistogramIntersection` this is the spatial pyramid match kernel.

    The words are learned by the `fit` of an estimator, in each fold of a cross-validation anew, or
    by `kernel.fitted(images)`.

    Parameters
    ----------
    words : int, default=100
    patch : int, default=16
        Height and width of a patch, in pixels.
    stride : int, default=8
        Pixels from one patch to the next.
    levels : int, default=3
        Of the pyramid; 1 for the whole image only.
    kernel : Kernel, default=HistogramIntersection()
        On histograms; `ChiSquared` is another.
    random_state : int, default=0
        Of k-means.
    descriptor : {"gradients", "daisy"} or function, default="gradients"
        What a patch is described by: gradients by cell and orientation, 128 numbers; the DAISY
        descriptor of scikit-image, 200 numbers; or descriptor(image, patch, stride), which returns
        the middles of patches as shares of height and width, and a row of numbers for each.
    codebook : array with a row for each word, optional
        The words, where they were learned.

    References
    ----------
    Csurka, Dance, Fan, Willamowski, Bray, Visual categorization with bags of keypoints, 2004.
    Lazebnik, Schmid, Ponce, Beyond bags of features: spatial pyramid matching for recognizing
    natural scene categories, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> images = load_digits().images[:50]
    >>> k = VisualWords(words=8, patch=4, stride=2, levels=2).fitted(images)
    >>> bool(np.isclose(k(images[0], images[0]), 1.0))
    True
    """

    words: int = 100
    patch: int = 16
    stride: int = 8
    levels: int = 3
    kernel: Kernel = field(default_factory=HistogramIntersection)
    random_state: int = 0
    descriptor: Any = "gradients"
    codebook: Any = None
    kind = ImagePoints
    checks = checked(
        words=check_count,
        patch=check_count,
        stride=check_count,
        levels=check_count,
        kernel=check_inner,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.descriptor) and self.descriptor not in list(DESCRIPTORS):
            raise ValueError(
                f"VisualWords needs a descriptor of {list(DESCRIPTORS)}, or a function; got "
                f"{self.descriptor!r}."
            )

    def facts(self, dimension: int | None = None) -> Facts:
        return facts_inside(self, dimension)

    def fitted(self, data: Any) -> VisualWords:
        """This kernel with words learned from training images."""
        from sklearn.cluster import MiniBatchKMeans

        points = self.points(data)
        rows = np.concatenate([d for _, d in self._described(points)] or [np.empty((0, 1))])
        if len(rows) < self.words:
            raise ValueError(
                f"{len(rows)} patches are too few for {self.words} words: write fewer words, a "
                f"smaller patch than {self.patch} pixels, or a smaller stride."
            )
        random = np.random.RandomState(self.random_state)
        few = rows[random.permutation(len(rows))[:SAMPLED_DESCRIPTORS]]
        means = MiniBatchKMeans(self.words, random_state=random, n_init=1, batch_size=4096).fit(few)
        return replace(self, codebook=means.cluster_centers_)

    def features(self, x: Any) -> np.ndarray:
        """The histograms of words over all regions, as rows."""
        return x.prepared(self._key(), self._histograms)[x.chosen]

    def block(self, x: Any, y: Any) -> np.ndarray:
        return self.kernel.block(self._rows(x), self._rows(y))

    def diagonal(self, x: Any) -> np.ndarray:
        return self.kernel.diagonal(self._rows(x))

    def _rows(self, points: Any) -> Any:
        return self.kernel.points(self.features(points))

    def _key(self) -> Any:
        grid = self.patch, self.stride, self.levels, self.descriptor
        return type(self), *grid, Same(self.codebook)

    def _described(self, points: Any) -> Any:
        describe = DESCRIPTORS.get(self.descriptor, self.descriptor)
        images = (points.restored(i) for i in points.chosen)
        return [describe(image, self.patch, self.stride) for image in images]

    def _histograms(self, points: ImagePoints) -> np.ndarray:
        if self.codebook is None:
            raise ValueError(
                "VisualWords learns its words from training images: write kernel.fitted(images), "
                "or pass it to an estimator, whose fit does that."
            )
        return np.array([self._histogram(*part) for part in self._described(points)])

    def _histogram(self, middles: np.ndarray, descriptors: np.ndarray) -> np.ndarray:
        """The weighted histograms of all regions of one image, side by side."""
        squares = (self.codebook**2).sum(axis=1) - 2.0 * descriptors @ self.codebook.T
        nearest = squares.argmin(axis=1)
        parts = []
        for level in range(self.levels):
            side = 2**level
            weight = 2.0 ** (max(level, 1) - self.levels) if self.levels > 1 else 1.0
            region = np.minimum((middles * side).astype(int), side - 1) @ (side, 1)
            counts = np.bincount(region * self.words + nearest, minlength=side**2 * self.words)
            parts.append(weight * counts)
        return np.concatenate(parts) / max(len(nearest), 1)
