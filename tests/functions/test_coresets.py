"""Mean embeddings and coresets, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.functions.embeddings import thinned
from mercer.kernels import Gaussian, Linear
from mercer.structured import Jaccard


def points(n=200, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 2))


def test_the_mean_embedding_takes_means():
    X, k = points(30), Gaussian()
    f = k.function(points(5, 1), np.arange(5.0))
    weights = np.random.default_rng(2).uniform(size=30)
    np.testing.assert_allclose(k.mean_embedding(X).inner(f), f(X).mean())
    np.testing.assert_allclose(
        k.mean_embedding(X, weights).inner(f), np.average(f(X), weights=weights)
    )
    with pytest.raises(ValueError, match="at least one point"):
        k.mean_embedding(np.empty((0, 2)))
    with pytest.raises(ValueError, match="weights must be one number"):
        k.mean_embedding(X, weights[1:])


@pytest.mark.parametrize("method", ["thinning", "herding"])
def test_a_coreset_is_near_and_says_how_near(method):
    X, k = points(), Gaussian(0.7)
    chosen = k.thin(X, 16, method=method, random_state=0)
    mu = k.mean_embedding(X)
    np.testing.assert_array_equal(chosen.points, X[chosen.indices])
    np.testing.assert_allclose(chosen.discrepancy, chosen.embedding.distance(mu), rtol=1e-6)
    rng = np.random.default_rng(0)
    by_chance = [k.mean_embedding(X[rng.choice(200, 16, False)]).distance(mu) for _ in range(50)]
    assert chosen.discrepancy < 0.7 * min(by_chance)


def test_herding_is_greedy():
    X, k = points(40), Gaussian(0.7)
    K = k(X)
    chosen = k.thin(X, 6, method="herding").indices
    for t in range(6):

        def gap(i, t=t):
            S = [*chosen[:t], i]
            return K[np.ix_(S, S)].mean() - 2 * K[S].mean()

        assert gap(chosen[t]) <= min(gap(i) for i in range(40)) + 1e-12


def test_halving_beats_chance_at_its_own_rate():
    """Every halving alone, without exchanges, leaves less than drawing at random."""
    X, k = points(1024), Gaussian(1.0)
    gram, mu = k.gram(X), k.mean_embedding(X)
    kept = thinned(gram, 32, np.random.default_rng(0))
    assert len(set(kept.tolist())) == 32
    rng = np.random.default_rng(0)
    by_chance = np.mean([k.mean_embedding(X[rng.choice(1024, 32)]).distance(mu) for _ in range(20)])
    assert k.mean_embedding(X[kept]).distance(mu) < 0.5 * by_chance


def test_objects_kernels_of_varying_size_and_refusals():
    sets = [{i, i + 1} for i in range(20)]
    assert len(Jaccard().thin(sets, 4, random_state=0).points) == 4
    assert len(Linear().thin(points(), 5, method="herding")) == 5
    again = [Gaussian().thin(points(), 8, random_state=3).indices for _ in range(2)]
    np.testing.assert_array_equal(*again)
    with pytest.raises(ValueError, match="from 1 to 200; got 300"):
        Gaussian().thin(points(), 300)
    with pytest.raises(ValueError, match="method must be one of"):
        Gaussian().thin(points(), 3, method="random")
