"""Kernels on images, and on histograms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import cross_val_score

from mercer import SVC
from mercer.features import AdditiveFeatures
from mercer.kernels import AdditiveChiSquared, ChiSquared, Gaussian, HistogramIntersection, laws
from mercer.structured import VisualWords
from mercer.structured.images import ImagePoints, daisies, oriented_gradients
from mercer.testing import check_kernel, check_structured_estimator, strategies

random = np.random.default_rng(0)
HISTOGRAMS = random.dirichlet(np.full(6, 0.4), 12) * random.integers(1, 4, 12)[:, None]
HISTOGRAMS[0, 2:] = 0.0
DIGITS, LABELS = load_digits().images[:120], load_digits().target[:120]


def test_kernels_on_histograms():
    low = np.minimum(HISTOGRAMS[:, None], HISTOGRAMS).sum(axis=2)
    np.testing.assert_allclose(HistogramIntersection()(HISTOGRAMS), low, rtol=1e-12)
    distance = -additive_chi2_kernel(HISTOGRAMS)
    total = HISTOGRAMS.sum(axis=1)
    expected = (total[:, None] + total - distance) / 2  # 2xy/(x + y) = (x + y − (x−y)²/(x+y))/2
    np.testing.assert_allclose(AdditiveChiSquared()(HISTOGRAMS), expected, rtol=1e-12)
    for kernel in (HistogramIntersection(), AdditiveChiSquared()):
        check_kernel(kernel, HISTOGRAMS)
        assert laws.positive_definite(kernel).yes
        with pytest.raises(ValueError, match="is a kernel on nonnegative values"):
            kernel([[-1.0]])


@pytest.mark.parametrize("kernel", [AdditiveChiSquared(), HistogramIntersection()], ids=repr)
def test_explicit_features_come_nearer_with_more_steps(kernel):
    worst = []
    for steps in (1, 3, 9):
        phi = AdditiveFeatures(kernel, steps).fit(HISTOGRAMS)
        Z = phi.transform(HISTOGRAMS)
        assert Z.shape == (12, 6 * (2 * steps + 1))
        gap = np.abs(Z @ Z.T - kernel(HISTOGRAMS))
        np.testing.assert_allclose(phi.expected_error(HISTOGRAMS[:3], HISTOGRAMS[3:6]),
                                   [gap[i, i + 3] for i in range(3)], atol=1e-12)  # fmt: skip
        worst.append(gap.max())
    assert worst[0] > worst[1] > worst[2]
    assert worst[1] < 0.2 * kernel(HISTOGRAMS).max()


def test_features_of_chi_squared_are_those_of_scikit_learn():
    phi = AdditiveFeatures(steps=2).fit(HISTOGRAMS)
    peer = AdditiveChi2Sampler(sample_steps=3, sample_interval=phi.interval_)
    Z, W = phi.transform(HISTOGRAMS), peer.fit_transform(HISTOGRAMS)
    np.testing.assert_allclose(Z @ Z.T, W @ W.T, rtol=1e-10)
    with pytest.raises(ValueError, match="AdditiveFeatures are of"):
        AdditiveFeatures(Gaussian()).fit(HISTOGRAMS)


# ---- visual words --------------------------------------------------------------------------------

WORDS = VisualWords(words=10, patch=4, stride=2, levels=2)


def test_gradients_turn_with_the_image():
    ramp = np.outer(np.arange(16.0), np.ones(16))
    middles, down = oriented_gradients(ramp, 8, 4)
    _, right = oriented_gradients(ramp.T, 8, 4)
    cells = down.reshape(-1, 16, 8)
    assert (cells.argmax(axis=2) == 2).all()  # a quarter turn from the axis of columns
    assert (right.reshape(-1, 16, 8).argmax(axis=2) == 0).all()
    np.testing.assert_allclose(np.linalg.norm(down, axis=1), 1.0)
    np.testing.assert_allclose(middles[0], [0.25, 0.25])
    assert not oriented_gradients(np.ones((16, 16)), 8, 4)[1].any()
    assert len(oriented_gradients(np.ones((3, 16)), 8, 4)[1]) == 0


def test_histograms_of_a_pyramid():
    k = WORDS.with_(levels=3).fitted(DIGITS)
    rows = k.features(k.points(DIGITS))
    assert rows.shape == (120, 10 * (1 + 4 + 16))
    whole, quarters, rest = rows[:, :10], rows[:, 10:50], rows[:, 50:]
    for part, weight in ((whole, 0.25), (quarters, 0.25), (rest, 0.5)):
        np.testing.assert_allclose(part.sum(axis=1), weight)
    np.testing.assert_allclose(quarters.reshape(120, 4, 10).sum(axis=1), whole)
    np.testing.assert_allclose(k(DIGITS[:5]), HistogramIntersection()(rows[:5]))


@pytest.mark.parametrize("inner", [HistogramIntersection(), ChiSquared(2.0)], ids=repr)
def test_contract(inner):
    images = [*DIGITS[:5], np.zeros((8, 8)), np.zeros((2, 2)), DIGITS[7][:6]]
    k = WORDS.with_(kernel=inner).fitted(DIGITS)
    check_kernel(k, images)
    assert laws.positive_definite(k).yes
    empty = k.normalised()(np.zeros((2, 2)), np.zeros((2, 2)))
    assert empty == 1.0


@settings(max_examples=8)
@given(strategies.images())
def test_contract_on_random_images(X):
    check_kernel(WORDS.fitted(DIGITS[:20]).normalised(), X)


def test_estimators_learn_the_words():
    model = SVC(kernel=WORDS, C=10.0)
    assert cross_val_score(model, DIGITS, LABELS, cv=3).mean() > 0.7
    model.fit(list(DIGITS), LABELS)
    assert model.kernel_.codebook.shape == (10, 128)
    assert model.kernel.codebook is None
    assert clone(model).kernel == WORDS
    check_structured_estimator(SVC(kernel=WORDS), DIGITS[:40], LABELS[:40] > 4)


def grey_values(image, patch, stride):
    """Patches as they are, one for each corner."""
    places = [(i, j) for i in (0, 4) for j in (0, 4)]
    rows = [image[i : i + patch, j : j + patch].ravel() for i, j in places]
    return (np.array(places) + patch / 2) / image.shape, np.array(rows)


def test_descriptors_of_scikit_image():
    daisy = pytest.importorskip("skimage.feature").daisy
    image = np.kron(DIGITS[0], np.ones((3, 3)))
    middles, rows = daisies(image, patch=8, stride=5)
    expected = daisy(image, step=5, radius=4)
    np.testing.assert_array_equal(rows, expected.reshape(-1, 200))
    assert len(rows) == expected.shape[0] * expected.shape[1] == len(middles)
    np.testing.assert_allclose(middles[[0, -1]] * 24, [[4, 4], [19, 19]])
    k = WORDS.with_(descriptor="daisy").fitted(DIGITS)
    assert k.codebook.shape == (10, 200)
    check_kernel(k, [*DIGITS[:4], np.zeros((8, 8)), np.zeros((2, 2))])


def test_descriptors_of_your_own():
    k = WORDS.with_(descriptor=grey_values, words=4, levels=1).fitted(DIGITS)
    histograms = k.features(k.points(DIGITS))
    patches = np.concatenate([grey_values(image, 4, 2)[1] for image in DIGITS])
    nearest = ((patches[:, None] - k.codebook) ** 2).sum(axis=2).argmin(axis=1).reshape(-1, 4)
    np.testing.assert_allclose(histograms, np.eye(4)[nearest].mean(axis=1))
    with pytest.raises(ValueError, match=r"needs a descriptor of \['gradients', 'daisy'\], or a f"):
        VisualWords(descriptor="sift")


def test_colours_and_sizes():
    colour = np.stack([DIGITS[0]] * 3, axis=2)
    k = WORDS.fitted(DIGITS)
    assert np.isclose(k([colour], [DIGITS[0]])[0, 0], k(DIGITS[0], DIGITS[0]))
    points = ImagePoints.read([DIGITS[0], np.ones((3, 5))])
    few = points.take([1, 0]).concatenated(ImagePoints.read([DIGITS[1]]))
    assert [image.shape for image in few] == [(3, 5), (8, 8), (8, 8)]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([DIGITS[0], [1.0, 2.0]], "item 1 is no image"),
        ([np.full((4, 4), np.nan)], "item 0 contains NaN"),
        (["cat.png"], "item 0 is no image"),
    ],
)
def test_bad_images_are_named(X, message):
    with pytest.raises(ValueError, match=message):
        WORDS.points(X)


def test_words_that_were_not_learned():
    with pytest.raises(ValueError, match=r"write kernel\.fitted\(images\), or pass it to an est"):
        WORDS(DIGITS)
    with pytest.raises(ValueError, match="9 patches are too few for 10 words"):
        WORDS.fitted(DIGITS[:1])
    with pytest.raises(ValueError, match="VisualWords needs a whole number words ≥ 1"):
        VisualWords(words=0)
