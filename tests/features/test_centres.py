"""Centres: every method against definitions, laws and sequential twins."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem as Theirs
from threadpoolctl import threadpool_limits

from mercer import KernelRidge
from mercer.features.centres import (
    Given,
    Greedy,
    KMeansPlusPlus,
    LeverageScores,
    RandomlyPivoted,
    Uniform,
    drawn,
)
from mercer.features.partial_cholesky import Candidates, PartialFactor, Tuning
from mercer.kernels import Gaussian, Linear, PairKernel, Precomputed

METHODS = {
    "uniform": Uniform(20, random_state=0),
    "k-means++": KMeansPlusPlus(20, random_state=0),
    "leverage": LeverageScores(20, random_state=0),
    "randomly pivoted": RandomlyPivoted(20, random_state=0),
    "greedy": Greedy(20),
    "given": Given(indices=np.arange(20)),
}
K = Gaussian(0.7)


def cloud(n=150, d=2, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def trace_error(kernel, X, indices):
    """By the definition, in float64, with a pseudo-inverse."""
    matrix = kernel(np.asarray(X, np.float64))
    cross = matrix[:, indices]
    inverse = np.linalg.pinv(matrix[np.ix_(indices, indices)], hermitian=True)
    return np.trace(matrix - cross @ inverse @ cross.T) / np.trace(matrix)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_centres_are_points_and_tell_their_trace_error(name, dtype):
    X = cloud(dtype=dtype)
    centres = METHODS[name].choose(K, X)
    assert len(centres) == 20 == len(set(centres.indices.tolist()))
    assert np.array_equal(centres.points.data, X[centres.indices])
    assert centres.trace_error == pytest.approx(trace_error(K, X, centres.indices), abs=1e-6)
    estimate, spread = centres.estimated_trace_error(60, random_state=1)
    assert abs(estimate - centres.trace_error) < 5 * spread + 1e-6
    assert centres.estimated_trace_error(1000) == (centres.trace_error, 0.0)


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_decides_for_any_number_of_threads(name):
    X = cloud(5000)
    one, two = [], []
    for threads, chosen in ((1, one), (2, two)):
        with threadpool_limits(threads, "blas"):
            chosen.append(METHODS[name].choose(K, X).indices)
    assert np.array_equal(one[0], two[0])


@pytest.mark.parametrize("name", METHODS)
def test_points_of_every_kind(name):
    words = ["".join(w) for w in np.random.default_rng(0).choice(list("abcdef"), (60, 4))]
    kernel = PairKernel(common_letters)
    centres = METHODS[name].choose(kernel, words)
    assert centres.points.data == [words[i] for i in centres.indices]
    assert 0 <= centres.trace_error < 0.5
    matrix = Precomputed(kernel(words))
    again = METHODS[name].choose(matrix, range(60))
    assert np.array_equal(again.indices, centres.indices)


def common_letters(a, b):
    return float(len(set(a) & set(b)))


def test_uniform_takes_the_rows_that_scikit_learn_takes():
    X = cloud()
    theirs = Theirs(n_components=30, random_state=3).fit(X)
    ours = Uniform(30, random_state=3).choose(K, X)
    assert np.array_equal(ours.indices, theirs.component_indices_)


def test_the_factor_is_a_cholesky_factor_at_the_pivots():
    X = cloud()
    for method in (RandomlyPivoted(40, random_state=1), Greedy(40)):
        centres = method.choose(K, X)
        F, S = centres.factor, centres.indices
        assert np.allclose(F[S], np.tril(F[S]))
        cross = K(X, X[S])
        assert np.allclose(F @ F[S].T, cross, atol=1e-9)
        assert np.allclose(centres.cholesky.lower, F[S], atol=1e-6)


def sequential(kernel, X, count, pick):
    """Pivoted Cholesky, one column at a time: the slow twin."""
    matrix = kernel(X)
    left, columns, pivots = matrix.diagonal().copy(), [], []
    for _ in range(count):
        i = pick(left)
        column = matrix[:, i] - sum((c * c[i] for c in columns), np.zeros(len(X)))
        columns.append(column / np.sqrt(column[i]))
        left = np.maximum(left - columns[-1] ** 2, 0)
        left[[*pivots, i]] = 0
        pivots.append(i)
    return pivots


@pytest.mark.parametrize("waiting", [0, 1000])
def test_pivots_that_wait_get_the_columns_of_others(waiting, monkeypatch):
    monkeypatch.setattr(RandomlyPivoted, "tuning", Tuning(rejected=0.0, waiting=waiting))
    X, choice = cloud(600), RandomlyPivoted(100, 0, pivots=100)
    *_, factor = choice.growing(K, K.points(X))
    assert (factor.rank == 0) is bool(waiting)
    assert factor.rank + factor.waiting == 100
    assert choice.choose(K, X).factor is None  # the last ones were never needed
    factor.grow()
    left = factor.residual.sum() / 600
    assert left == pytest.approx(trace_error(K, X, factor.pivots), abs=1e-9)
    assert np.allclose(factor.columns @ factor.columns[factor.pivots].T, K(X, X[factor.pivots]))


def test_a_factor_that_grows_takes_room_for_what_it_has():
    """Room for all columns that it might get took 2.6 s at 20,000 rows: the system clears it."""
    X, room = cloud(800), []
    for factor in RandomlyPivoted(600, 0).growing(K, K.points(X)):
        room.append(factor.columns.shape[1])
    assert room[0] == Tuning().room
    assert room[-1] == 600
    assert sorted(factor.pivots) == sorted(RandomlyPivoted(600, 0).choose(K, X).indices)
    F = factor.columns
    assert np.allclose(F @ F[factor.pivots].T, K(X, X[factor.pivots]))


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_greedy_in_blocks_is_greedy(spread):
    scales = np.exp(spread * cloud(200, 1)[:, 0])
    kernel = Precomputed(scales[:, None] * Gaussian(0.5)(cloud(200, 3)) * scales)
    slow = sequential(kernel, range(200), 45, lambda left: int(np.argmax(left)))
    assert Greedy(45).choose(kernel, range(200)).indices.tolist() == slow


def test_slack_costs_little():
    X = cloud(400, 3)
    exact, quick = (Greedy(60, slack=s).choose(K, X).trace_error for s in (0.0, 0.3))
    assert quick < 1.3 * exact


@pytest.mark.parametrize("waiting", [False, True])
def test_rejection_gives_the_law_of_one_pivot_at_a_time(waiting, monkeypatch):
    if waiting:  # blocks of two candidates, and no columns between them
        monkeypatch.setattr(RandomlyPivoted, "tuning", Tuning(fewest=1, rejected=0.0))
    pivots = 3 if waiting else None
    X = cloud(12)
    X[:6] *= 0.05  # half of the points are nearly one point
    draws = 400

    def counts(sample):
        counted = np.zeros((12, 12))
        for seed in range(draws):
            counted[tuple(sorted(sample(seed)[-2:]))] += 1  # the last two of three
        return counted / draws

    def twin(seed):
        random = np.random.default_rng(10_000 + seed)
        return sequential(K, X, 3, lambda left: int(random.choice(12, p=left / left.sum())))

    ours = counts(lambda seed: RandomlyPivoted(3, seed, pivots=pivots).choose(K, X).indices)
    slow = counts(twin)
    spread = np.sqrt((ours + slow) / draws)
    assert (np.abs(ours - slow) <= 4.5 * spread + 3 / draws).all()


def test_d2_sampling_has_its_law():
    X = np.array([[0.0], [0.5], [3.0], [3.2]])
    distances = 2.0 - 2.0 * K(X)
    chances = (distances / distances.sum(axis=1, keepdims=True)) / 4  # pairs in order
    counted = np.zeros((4, 4))
    draws = 500
    for seed in range(draws):
        counted[tuple(KMeansPlusPlus(2, random_state=seed).choose(K, X).indices)] += 1
    assert np.abs(counted / draws - chances).max() < 4 * np.sqrt(0.25 / draws)


@pytest.mark.parametrize("regularization", [None, 1e-9])
def test_leverage_scores_of_a_flat_kernel_do_not_depend_on_the_precision(regularization):
    points = np.random.default_rng(0).standard_normal((400, 3)).astype(np.float32)
    choice = LeverageScores(20, regularization=regularization, random_state=0)
    low, high = (
        choice.choose(Gaussian(30.0), points.astype(dtype)).scores for dtype in ("f4", "f8")
    )
    assert low == pytest.approx(high, rel=1e-3)


def test_leverage_scores_are_near_the_exact_ones():
    X = cloud(600, 2)
    ridge = 1e-3
    method = LeverageScores(150, regularization=ridge, random_state=0)
    scores = method.choose(K, X).scores
    matrix = K(X)
    exact = np.diag(np.linalg.solve(matrix + 600 * ridge * np.eye(600), matrix))
    assert (scores >= 0.9 * exact).all()  # scores may be too large, hardly too small
    assert scores.sum() < 3 * exact.sum()


def test_what_is_hard_to_predict_is_chosen():
    X = np.concatenate([cloud(500) * 0.01, cloud(12, seed=1) * 8.0])  # a lump and outliers
    uniform = Uniform(30, random_state=0).choose(K, X).trace_error
    for name in ("k-means++", "leverage", "randomly pivoted", "greedy"):
        assert METHODS[name].with_(count=30).choose(K, X).trace_error < 0.2 * uniform, name


def test_few_directions_need_few_centres():
    X = cloud(100, 3)
    X[50:] = X[:50]
    for method in (RandomlyPivoted(40, random_state=0), Greedy(40)):
        centres = method.choose(Linear(), X)
        assert len(centres) == 3
        assert centres.trace_error < 1e-12
    assert len(KMeansPlusPlus(80, random_state=0).choose(K, X)) == 50  # distinct points
    assert len(Uniform(400, random_state=0).choose(K, X)) == 100


def test_a_pool_or_a_small_budget_looks_at_some_points_only():
    X = cloud(3000)
    limited = RandomlyPivoted(20, random_state=0, memory=20 * 8 * 500).choose(K, X)
    assert limited.factor is None
    assert limited.indices.max() > 500
    pooled = RandomlyPivoted(20, random_state=0, pool=500).choose(K, X)
    assert np.array_equal(pooled.indices, limited.indices)
    assert pooled.trace_error == pytest.approx(trace_error(K, X, pooled.indices), abs=1e-8)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Uniform(0), "Uniform needs a whole number count ≥ 1; got 0"),
        (lambda: Uniform(3).choose(K, np.empty((0, 2))), "there are none"),
        (lambda: Given(), r"write Given\(points\) or Given\(indices"),
        (lambda: Given(indices=[5]).choose(K, cloud(3)), "row numbers lie between 0 and 2; got 5"),
        (lambda: Given(indices=[0.5]).choose(K, cloud(3)), "indices are a list of row numbers"),
        (lambda: Greedy(3, slack=1.0), "slack must lie between 0 and 1, 1 excluded; got 1.0"),
        (lambda: LeverageScores(3, regularization=0.0), "finite regularization > 0"),
        (lambda: RandomlyPivoted(3).choose(Linear(), np.zeros((4, 2))), "nothing to approximate"),
    ],
)
def test_refusals(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_pivots_in_order_are_those_of_a_whole_factorisation():
    """Accepting by rows of the inverse so far is accepting with all residuals at hand."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    matrix, chances = Gaussian(0.7)(X), rng.random(60)
    own = np.arange(60), matrix.diagonal(), np.empty((0, 60))
    quick, slow = (Candidates(matrix.copy(), *own) for _ in range(2))
    quick.accept_in_order(chances, 1e-12)
    for i in range(60):
        if max(chances[i] * slow.before[i], 1e-12) < slow.left[i]:
            slow.accept(i)
    assert quick.accepted == slow.accepted
    np.testing.assert_allclose(quick.lower, slow.lower, atol=1e-10)


def test_centres_are_pivots_where_that_pays():
    k = Gaussian()
    many, all_of_them = k.points(np.zeros((50_000, 2))), k.points(np.zeros((100, 2)))
    assert isinstance(drawn(100, k, many), RandomlyPivoted)
    assert isinstance(drawn(100, k, all_of_them), Uniform)
    own = PairKernel(lambda x, y: float(x[0] == y[0]))  # nothing is known of it, and it is slow
    assert isinstance(drawn(100, own, own.points(np.zeros((50_000, 2)))), Uniform)


def test_centres_that_are_a_third_of_the_rows_are_independent():
    """Drawn at random, three hundred of them have a K_MM that is singular to rounding."""
    X = np.random.default_rng(0).standard_normal((900, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1]
    model = KernelRidge(1e-2, kernel=Gaussian(1.0), centres=300, random_state=0).fit(X, y)
    assert model.solution_.status.converged
    assert model.solution_.gap < 1e-8 * model.solution_.objective


@pytest.mark.parametrize(("width", "few"), [(60, True), (2, False)])
def test_pivots_that_stand_for_themselves_alone_end(width, few, monkeypatch):
    """In many dimensions all residuals are alike, and the other centres are drawn at once."""
    ranks, grow = [], PartialFactor.grow
    monkeypatch.setattr(RandomlyPivoted, "tuning", Tuning(waiting=100))
    monkeypatch.setattr(
        PartialFactor,
        "grow",
        lambda factor: (grow(factor), ranks.append(factor.rank)),
    )
    X = np.random.default_rng(0).standard_normal((2000, width))
    choice = RandomlyPivoted(400, random_state=0, pool=2000, pivots=400)
    found = choice.choose(Gaussian(0.2 * width**0.5 if few else 0.2), X)
    assert len(set(found.indices.tolist())) == 400
    assert (ranks[-1] < 200) is few
