"""Learning a metric in rounds: fit, average the outer products of gradients, measure by them, fit.

A recursive feature machine: a ridge fit in one metric tells by its gradients along which columns
and directions the targets vary, M = (1/n) Σ_i ∇f(x_i)∇f(x_i)ᵀ, and the next fit measures distances
by M. Lengthscale and ridge of every round, and the number of rounds, are those with the least error
on held-out rows: leave-one-out would not do, as the metric has seen every target.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import as_numpy
from mercer.checks import check_between, check_count, is_number
from mercer.errors import NotPositiveDefiniteError
from mercer.kernels.base import Kernel
from mercer.learning.fits import (
    RidgeFit,
    Sample,
    column_deviations,
    fit_of,
    mean_square,
    splits_of,
)
from mercer.learning.metric import Form, Metric, average_outer_product, blocks_of, within_blocks
from mercer.operators import Gram
from mercer.points import VectorPoints
from mercer.runtime.budget import memory_budget

# ---- numbers of the search in each round ---------------------------------------------------------


@dataclass(frozen=True)
class Tuning:
    """Numbers of the search in each round."""

    scale_step: float = math.sqrt(2.0)  # factor of the lengthscale,
    ridge_step: float = math.sqrt(10.0)  # and of the ridge
    first_ridge: float = 1e-2  # α over the mean of k(x, x)
    scales: tuple[int, int] = (-8, 10)  # steps of the lengthscale from the first that may be taken,
    ridges: tuple[int, int] = (-10, 10)  # and of the ridge
    gain: float = 0.995  # of the error, to go on: the valley of good settings is long and flat
    patience: int = 2  # rounds without a lower error after which no other is tried
    gradient_rows: int = 1000  # that are averaged over, at least where there are more
    few_rows: int = 2000  # below, several splits share the decision
    matrices: int = 5  # with an entry for each pair of rows: what fits of all splits and gradients
    # take
    pairs: int = 400  # rows whose kernel values tell where to begin
    typical_value: float = math.exp(-0.5)  # of half of them, relative to k(x, x)
    halvings: int = 7  # of a range of 2¹⁶, on a log scale: to a factor of 1.1


@dataclass(frozen=True, eq=False)
class Round:
    """One round: a metric, and the lengthscale and ridge that were best with it.

    `scale` multiplies distances in units in which the columns have mean M_kk = 1, `alpha` is
    relative to the mean of k(x, x), `error` the mean square on held-out rows, `shares` the part of
    each column in the trace of the metric, in units of the columns' deviations.

    >>> Round(1.0, 0.1, error=0.25, shares=np.array([0.5, 0.5]), seconds=0.0).error
    0.25
    """

    scale: float
    alpha: float
    error: float
    shares: np.ndarray
    seconds: float


@dataclass(frozen=True, eq=False)
class LearnedKernel:
    """A learned kernel with its metric, its ridge, and the rounds that led to it.

    Attributes
    ----------
    kernel : Kernel
        The kernel given, in the metric that was learned.
    metric : Metric
    alpha : float
        The ridge α of `KernelRidge` that was best on held-out rows.
    rounds : list of Round
        All that were tried; round 0 has every column in units of its deviation. Where lengthscales
        were learned from neighbourhoods, the last one is that, judged by rows with all neighbours.
    chosen : int
        The round with the least held-out error, or the last where neighbourhoods decided.
    importances : array of shape (columns,)
        The part of each column in the trace of the metric, in units of its deviation: how much
        the targets vary along it. They add up to 1.
    held_out : (rows, predictions)
        Which rows of X were held out, and what the chosen round predicted for them.

    Examples
    --------
    >>> from mercer.kernels import Exponential
    >>> X = np.random.default_rng(0).uniform(size=(80, 3))
    >>> learned = GradientRounds(rounds=1).learn(Exponential(), X, np.sin(6 * X[:, 0]))
    >>> int(learned.importances.argmax())
    0
    """

    kernel: Kernel
    metric: Metric
    alpha: float
    rounds: list[Round]
    chosen: int
    importances: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray]

    @property
    def error(self) -> float:
        """The mean square on held-out rows in the chosen round."""
        return self.rounds[self.chosen].error


@dataclass(frozen=True)
class GradientRounds:
    """Learn a metric by rounds of average gradient outer products.

    Parameters
    ----------
    form : "diagonal", "full" or list of groups of columns, default="diagonal"
        Whether M weighs columns, is any positive semidefinite matrix, or one that mixes columns
        within each group alone.
    rounds : int, default=5
        At most so many; 0 chooses lengthscale and ridge alone.
    rows : int, default=4000
        Rows that are learned from, at most: a sample of them where there are more, or where the
        memory budget has no room for matrices of so many.
    centres : int, default=5000
        Where more rows than this are learned from, fits have so many centres.
    held_out : float, default=0.2
        The part of these rows that each split holds out.
    splits : int, optional
        How many splits; by default one, or three where there are less than 2,000 rows.
    time_limit : float, optional
        Seconds. After the first, no fit is begun that would end later if it took as long as others.
    random_state : int, Generator, RandomState or None, default=0
        Draws the rows and the splits.
    callback : callable, optional
        Called as callback(round, Round) after each round; True ends the rounds.
    tuning : Tuning
        Numbers of the search in each round.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, Mechanism for feature learning in neural
    networks and backpropagation-free machine learning models, Science 383, 2024.

    Examples
    --------
    >>> from mercer.kernels import Exponential
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 6))
    >>> learned = GradientRounds(rounds=3).learn(Exponential(), X, X[:, 2] ** 2)
    >>> int(np.argmax(learned.importances)), bool(learned.importances[2] > 0.9)
    (2, True)
    """

    form: Form = "diagonal"
    rounds: int = 5
    rows: int = 4000
    centres: int = 5000
    held_out: float = 0.2
    splits: int | None = None
    time_limit: float | None = None
    random_state: Any = 0
    callback: Callable[[int, Round], Any] | None = None
    tuning: Tuning = field(default=Tuning(), repr=False)

    def __post_init__(self) -> None:
        if self.rounds != 0:
            check_count(self, "rounds", self.rounds)
        check_count(self, "rows", self.rows)
        check_count(self, "centres", self.centres)
        check_between(self, "held_out", self.held_out, 0.0, 1.0)
        if self.splits is not None:
            check_count(self, "splits", self.splits)
        if self.time_limit is not None and not (is_number(self.time_limit) and self.time_limit > 0):
            raise ValueError(f"time_limit must be seconds > 0, or None; got {self.time_limit!r}.")

    def learn(self, kernel: Kernel, X: Any, y: Any, weights: Any = None) -> LearnedKernel:
        """The kernel in the metric that these targets, one or several for each row, ask for."""
        points = kernel.points(X)
        if not isinstance(points, VectorPoints) or hasattr(points.data, "tocsr"):
            raise ValueError(
                "a metric is learned from dense rows of numbers; got "
                f"{type(getattr(points, 'data', points)).__name__}: write X.toarray() for a sparse "
                "matrix."
            )
        random = np.random.default_rng(self.random_state)
        sample = Sample.of(points, y, weights)
        rows = self.rows
        if points.home == "host":
            rows = min(rows, max(2, math.isqrt(memory_budget() // (8 * self.tuning.matrices))))
        drawn = sample.drawn_rows(rows, random)
        sample = sample.take(drawn)
        return _Path(self, kernel, sample, drawn, random).result()


class _Path:
    """The rounds on the splits of a sample, and once more on all of it where there is time."""

    def __init__(
        self,
        settings: GradientRounds,
        kernel: Kernel,
        sample: Sample,
        drawn: np.ndarray,
        random: np.random.Generator,
    ) -> None:
        self.settings, self.kernel, self.sample, self.drawn = settings, kernel, sample, drawn
        self.tuning = settings.tuning
        self.started = time.perf_counter()
        self.fit_seconds = 0.0  # that the fits of all splits took, at most
        self.round_seconds = 0.0  # that a fit and the metric after it took, at most
        width = sample.points.width  # type: ignore[attr-defined]
        self.groups = blocks_of(settings.form, width)
        self.deviations = column_deviations(sample)
        self.metric = Metric.of_columns(self.deviations).normalised(self.deviations)
        self.unit = typical_scale(kernel, self.metric, sample, self.tuning)
        self.predictions, self.kept_metric = np.empty((0, sample.targets.shape[1])), self.metric
        splits = settings.splits or (1 if len(sample) >= self.tuning.few_rows else 3)
        self.splits = splits_of(len(sample), settings.held_out, splits, random)
        self.parts = [(sample.take(kept), sample.take(held)) for kept, held in self.splits]

    @property
    def late(self) -> bool:
        """Whether there is no time for other fits."""
        return not self.has_time(self.fit_seconds)

    def has_time(self, seconds: float) -> bool:
        """Whether so much of the time is left."""
        limit = self.settings.time_limit
        return limit is None or time.perf_counter() - self.started + seconds <= limit

    def result(self) -> LearnedKernel:
        rounds = self.searched()
        chosen = int(np.argmin([one.error for one in rounds]))
        again = self.has_time(chosen * self.round_seconds)  # the metrics once more, from all rows
        metric = self.metric if again else self.kept_metric
        for one in rounds[:chosen] if again else []:
            metric = self.next_metric(self.fit(metric, one.scale, self.sample), one)
        best = rounds[chosen]
        fit = self.fit(metric, best.scale, self.sample)
        return LearnedKernel(
            fit.kernel,
            metric,
            best.alpha * fit.scale,
            rounds,
            chosen,
            metric.shares(self.deviations),
            (self.drawn[np.concatenate([held for _, held in self.splits])], self.predictions),
        )

    def searched(self) -> list[Round]:
        """Rounds on the splits, until their held-out error no longer falls."""
        metrics = [self.metric] * len(self.parts)
        rounds: list[Round] = []
        place, step = (0, 0), 2
        for number in range(self.settings.rounds + 1):
            search = _Search(self, metrics)
            place, error = search.best(place, step)
            step = 1
            shares = np.mean([metric.shares(self.deviations) for metric in metrics], axis=0)
            seconds = time.perf_counter() - self.started
            rounds.append(Round(*self.values(place), error, shares, seconds))
            call = self.settings.callback
            ended = bool(call(number, rounds[-1])) if call is not None else False
            least = int(np.argmin([one.error for one in rounds]))
            if least == number:
                self.predictions, self.kept_metric = search.predictions[place], metrics[0]
            if ended or self.late or number - least >= self.tuning.patience:
                break
            if number < self.settings.rounds:
                begun = time.perf_counter()
                fits = [fit for fit, _ in search.prepared(place[0])]
                metrics = [self.next_metric(fit, rounds[-1]) for fit in fits]
                del fits  # their matrices go before those of the next round
                taken = (time.perf_counter() - begun) / len(metrics)
                self.round_seconds = max(self.round_seconds, taken)
        return rounds

    def values(self, place: tuple[int, int]) -> tuple[float, float]:
        """The lengthscale and the ridge at a place of the grid.

        A wide kernel is a constant minus something in 1/ℓ, so that the fit depends on ℓ times the
        ridge: that product stays as it is when the lengthscale is changed.
        """
        tuning = self.tuning
        factor = tuning.scale_step ** place[0]
        return self.unit * factor, tuning.first_ridge * tuning.ridge_step ** place[1] / factor

    def fit(self, metric: Metric, scale: float, sample: Sample) -> RidgeFit:
        return fit_of(metric.applied(self.kernel, scale), sample, self.settings.centres)

    def next_metric(self, fit: RidgeFit, one: Round) -> Metric:
        sample = fit.sample
        stride = max(1, len(sample) // self.tuning.gradient_rows)
        some = sample.take(np.arange(0, len(sample), stride))  # spread over all
        product = average_outer_product(
            fit.kernel,
            some.points,
            fit.centres,
            fit.coefficients(one.alpha),
            self.deviations,
            weights=some.weights,
            diagonal=self.groups is None,
        )
        if not (np.isfinite(product).all() and np.any(product)):
            return self.metric  # a constant fit has no gradients
        return within_blocks(product, self.groups).normalised(self.deviations)


class _Search:
    """The lengthscale and ridge with the least error on held-out rows, for given metrics."""

    def __init__(self, path: _Path, metrics: Sequence[Metric]) -> None:
        self.path, self.metrics = path, metrics
        self.known: dict[tuple[int, int], float] = {}
        self.predictions: dict[tuple[int, int], np.ndarray] = {}  # for rows that are held out
        self.power, self.fits = math.nan, list[Any]()  # the last lengthscale, and its fits

    def best(self, place: tuple[int, int], step: int) -> tuple[tuple[int, int], float]:
        """Walk along one axis of the grid, then the other, while the error falls markedly."""
        while step >= 1:
            for axis in (1, 0, 1):  # the ridge, the lengthscale, and the ridge that goes with it
                place = self.walked(place, axis, step)
            step //= 2
        return place, self.error(place)

    def walked(self, place: tuple[int, int], axis: int, step: int) -> tuple[int, int]:
        """The last place along an axis up to which the error falls."""
        for sign in (-step, step):
            begun = place
            while not self.path.late:
                other = (place[0] + sign * (axis == 0), place[1] + sign * (axis == 1))
                if not self.error(other) < self.path.tuning.gain * self.error(place):
                    break
                place = other
            if place != begun:
                break
        return place

    def error(self, place: tuple[int, int]) -> float:
        if place not in self.known:
            self.known[place] = self.computed(place)
        return self.known[place]

    def computed(self, place: tuple[int, int]) -> float:
        bounds = self.path.tuning.scales, self.path.tuning.ridges
        if not all(low <= at <= high for at, (low, high) in zip(place, bounds, strict=True)):
            return math.inf
        _, alpha = self.path.values(place)
        begun = time.perf_counter()
        try:
            values = [cross(fit.coefficients(alpha)) for fit, cross in self.prepared(place[0])]
        except NotPositiveDefiniteError:
            return math.inf
        pairs = zip(self.path.parts, values, strict=True)
        errors = [mean_square(held, own) for (_, held), own in pairs]
        self.predictions[place] = np.concatenate([as_numpy(own) for own in values])
        self.path.fit_seconds = max(self.path.fit_seconds, time.perf_counter() - begun)
        return float(np.mean(errors)) if np.isfinite(errors).all() else math.inf

    def prepared(self, power: int) -> list[Any]:
        """Fits at a lengthscale with what predicts held-out rows; the last one's are kept."""
        if self.power != power:
            self.power, self.fits = math.nan, []  # frees the matrices of the last one
            scale, _ = self.path.values((power, 0))
            for (sample, held), metric in zip(self.path.parts, self.metrics, strict=True):
                fit = self.path.fit(metric, scale, sample)
                self.fits.append((fit, fit.predictions_at(held.points)))
            self.power = power
        return self.fits


def typical_scale(
    kernel: Kernel, metric: Metric, sample: Sample, tuning: Tuning = Tuning()
) -> float:
    """The factor by which distances are divided so that half of all pairs have k < e^{−½}k(x, x).

    Where no factor does that, as for kernels that do not decay, it is the distance that pairs in
    this metric have in the mean.
    """
    some = sample.points.slice(0, min(len(sample), tuning.pairs))
    mean = math.sqrt(2.0 * len(metric.diagonal))

    def median(scale: float) -> float:
        values = Gram(metric.applied(kernel, scale).normalised(), some).dense()
        pairs = as_numpy(values)[np.triu_indices(len(some), 1)]
        return float(np.median(pairs)) if len(pairs) else math.nan

    low, high = mean / 256.0, mean * 256.0
    if not median(low) < tuning.typical_value < median(high):
        return mean
    for _ in range(tuning.halvings):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if median(middle) < tuning.typical_value else (low, middle)
    return math.sqrt(low * high)
