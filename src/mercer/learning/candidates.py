"""Which kernel, form of metric and scale of targets: a race on few rows, the winner on more.

A ridge fit has one lengthscale and one noise for all levels of the targets. Where these spread over
orders of magnitude, or have long tails, a monotone function g of them may be easier to fit. A
square loss asks for the mean of y at x, and g⁻¹(f(x)) is rather the median: what is predicted is
the mean of g⁻¹(f(x) + e) over residuals e of held-out rows (Duan's smearing).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import as_numpy, beside
from mercer.kernels import Exponential, Laplacian, Matern, StretchedExponential
from mercer.kernels.base import Kernel
from mercer.learning.fits import Sample
from mercer.learning.metric import Form
from mercer.learning.neighbourhoods import Neighbourhoods, densest
from mercer.learning.rounds import GradientRounds, LearnedKernel

Candidate = tuple[Kernel, Form]

CANDIDATES: tuple[Candidate, ...] = (
    (Laplacian(), "diagonal"),
    (StretchedExponential(0.5), "diagonal"),
    (Exponential(), "diagonal"),
    (Matern(1.5), "diagonal"),
    (Matern(1.5), "full"),
)
"""From the L1 distance and targets that jump to smooth ones in any direction. On one split of
sixteen tables with 1,250 rows each of the five was the best of some. Sums of two of them gained
little and not always, so that none is among them."""
FOR_CATEGORIES: tuple[Kernel, ...] = (Exponential(), Matern(1.5))
"""With a map for the columns of each category, which gives levels that act alike close places."""


@dataclass(frozen=True)
class Tuning:
    """Sizes and thresholds of the race between kernels, and between scales of the targets."""

    rows: int = 1200  # that candidates are fitted to,
    held_out: int = 2000  # and others, at most, that tell which is best
    rounds: int = 2
    near: float = 1.02  # times the least loss in a race, which noise cannot tell from it
    pays: float = 0.97  # times the loss with targets as they are: another scale must have less
    sampled: float = 0.5  # of the time is for learning from a sample where neighbourhoods follow
    residuals: int = 32  # quantiles of them that are averaged over
    skewed: float = 1.0  # |third moment| of standardised targets from which another scale may pay
    heavy: float = 6.0  # fourth moment, which is 3 for normal ones


TUNING = Tuning()
SCALES = ("log", "rank")


# ---- the race ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Race:
    """The candidates, and the held-out loss of each on the rows of the race.

    Where neighbourhoods of many rows were learned from, `dense_errors` are the losses there, which
    decided; they are none else. `transform_errors` are mean squares, in units of the targets as
    they are, of the best candidate with targets on other scales, by their names; `transform` is the
    scale that was taken.

    >>> race = Race(CANDIDATES[:2], np.array([0.5, 0.1]))
    >>> race.finalists == [CANDIDATES[1]]
    True
    """

    candidates: Sequence[Candidate]
    errors: np.ndarray
    dense_errors: np.ndarray = field(default_factory=lambda: np.empty(0))
    transform_errors: dict[str, float] = field(default_factory=dict)
    transform: TargetTransform | None = None

    @property
    def finalists(self) -> list[Candidate]:
        """The best, and the second where it is nearly as good: more rows decide between them."""
        first, *others = np.argsort(self.errors, kind="stable")
        near = [i for i in others[:1] if self.errors[i] <= TUNING.near * self.errors[first]]
        return [self.candidates[i] for i in (first, *near)]


def raced(
    candidates: Sequence[Candidate],
    settings: GradientRounds,
    X: Any,
    y: Any,
    weights: Any = None,
    loss: Callable[[np.ndarray, np.ndarray], float] | None = None,
    transforms: Sequence[str] = (),
) -> tuple[LearnedKernel, Race]:
    """Compare candidates on few rows, and learn the best on more; a single one is just learned.

    Two that are nearly equal in the race are both learned from all rows that are asked for; where
    the time is over, the race has decided. Where there are many more rows than these, all
    candidates are learned from neighbourhoods instead.
    `loss(rows, predictions)` of held-out rows tells which is best; by default the mean square.
    The best of a race is also fitted to the targets on other scales, `transforms` by name; what is
    learned is for the scale of `Race.transform`.

    >>> X = np.random.default_rng(0).uniform(size=(80, 2))
    >>> learned, race = raced(CANDIDATES[:1], GradientRounds(rounds=1), X, X[:, 0])
    >>> int(learned.importances.argmax())
    0
    """

    def judged(learned: LearnedKernel) -> float:
        return learned.error if loss is None else loss(*learned.held_out)

    begun, whole = time.perf_counter(), settings.time_limit
    sample = Sample.of(candidates[0][0].points(X), y, weights)
    dense = Neighbourhoods.serve(sample, settings.rows)
    if dense and whole is not None:
        settings = replace(settings, time_limit=TUNING.sampled * whole)
    short, first = _shorter(settings, len(y), len(candidates) + len(transforms)), []
    if len(candidates) > 1 or transforms:
        first = [replace(short, form=form).learn(k, X, y, weights) for k, form in candidates]
    race = Race(candidates, np.array(list(map(judged, first)) or [0.0]))
    finalists = race.finalists
    if transforms:
        race, winner = _on_other_scales(race, short, X, y, weights, transforms)
        if winner is not None and race.transform is not None:
            y, first, finalists = race.transform.forward(y), [winner], finalists[:1]
            sample = Sample.of(sample.points, y, weights)
    learned = first
    if not (dense and first):  # else neighbourhoods tell what more rows would not
        learned = _finals(finalists, settings, X, y, weights, begun, bool(first)) or first
    best = min(learned, key=judged)
    if dense:
        around = Neighbourhoods(sample, settings.random_state)
        rest = math.inf if whole is None else whole - (time.perf_counter() - begun)
        best, losses = densest(around, best, first or [best], judged, rest)
        race = replace(race, dense_errors=np.array(losses))
    return best, race


def _finals(
    finalists: Sequence[Candidate],
    settings: GradientRounds,
    X: Any,
    y: Any,
    weights: Any,
    begun: float,
    raced: bool,
) -> list[LearnedKernel]:
    """Finalists learned from all rows that are asked for, while there is time; one if not raced."""
    learned: list[LearnedKernel] = []
    for kernel, form in finalists:
        limit, left = settings.time_limit, len(finalists) - len(learned)
        if limit is not None:
            limit = (limit - (time.perf_counter() - begun)) / left
            if limit <= 0 and (learned or raced):
                break
            limit = max(limit, 1e-3)
        own = replace(settings, form=form, time_limit=limit)
        learned.append(own.learn(kernel, X, y, weights))
    return learned


def _on_other_scales(
    race: Race, short: GradientRounds, X: Any, y: Any, weights: Any, names: Sequence[str]
) -> tuple[Race, LearnedKernel | None]:
    """The race with the best candidate on other scales of the targets, and what won on one."""
    kernel, form = race.finalists[0]
    least, winner = TUNING.pays * float(race.errors.min()), None
    for name in names:
        transform = TargetTransform.of(name, y, weights)
        scores = transform.forward(y)
        learned = replace(short, form=form).learn(kernel, X, scores, weights)
        transform = transform.smeared(scores, learned.held_out)
        rows, said = learned.held_out
        missed = np.ravel(as_numpy(y))[rows] - transform.backward(said[:, 0])
        own = None if weights is None else as_numpy(weights)[rows]
        error = float(np.average(missed**2, weights=own))
        race.transform_errors[name] = error
        if error < least:
            least, winner, race = error, learned, replace(race, transform=transform)
    return race, winner


def _shorter(settings: GradientRounds, count: int, candidates: int) -> GradientRounds:
    """The settings of a race of some candidates on so many rows."""
    rows, limit = min(count, TUNING.rows + TUNING.held_out), settings.time_limit
    return replace(
        settings,
        rows=rows,
        held_out=max(settings.held_out, 1.0 - TUNING.rows / rows),
        rounds=min(settings.rounds, TUNING.rounds),
        splits=1 if rows > TUNING.rows else settings.splits,
        time_limit=limit and 0.4 * limit / candidates,
        callback=None,
    )


# ---- targets on another scale --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TargetTransform:
    """A monotone function g of one output that gives it deviation 1, and the way back.

    g does not depend on the unit of the targets.

    Parameters
    ----------
    name : {"log", "rank"}
        g(y) = (log y − m)/s with the mean m and the deviation s of the logarithms; or the normal
        quantile of the rank of y among the targets, linear in between, over its deviation.
    places, scores : arrays
        For ranks, the different targets and what they are mapped to. For logarithms, m and s.
    residuals : array
        Quantiles of what held-out rows missed, in units of g.

    References
    ----------
    N. Duan, Smearing estimate: a nonparametric retransformation method, Journal of the American
    Statistical Association 78, 1983.

    Examples
    --------
    >>> y = np.array([1.0, 10.0, 100.0])
    >>> for name in SCALES:
    ...     g = TargetTransform.of(name, y)
    ...     print(g.forward(y).round(2), np.allclose(g.backward(g.forward(y)), y))
    [-1.22  0.    1.22] True
    [-1.22  0.    1.22] True
    """

    name: str
    places: np.ndarray
    scores: np.ndarray
    residuals: np.ndarray

    @classmethod
    def of(cls, name: str, y: Any, weights: Any = None) -> TargetTransform:
        """The transform of a name for these targets, ranks counted with weights."""
        y, none = np.asarray(as_numpy(y), np.float64), np.zeros(1)
        if name == "log":
            if not y.min() > 0:
                raise ValueError(
                    f'target_transform="log" needs targets > 0; got {y.min():g}. Write "rank", '
                    "which serves all."
                )
            logs = np.log(y)
            return cls(name, logs.mean()[None], np.array([logs.std() or 1.0]), none)
        places, inverse = np.unique(y, return_inverse=True)
        counts = np.bincount(inverse, None if weights is None else as_numpy(weights))
        middle = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
        scores = scipy.special.ndtri(np.clip(middle, 1e-12, 1.0 - 1e-12))
        return cls(name, places, scores / (scores[inverse].std() or 1.0), none)

    def forward(self, y: Any) -> Any:
        """g(y), in the library of y."""
        values = np.asarray(as_numpy(y), np.float64)
        if self.name == "log":
            return beside((np.log(values) - self.places[0]) / self.scores[0], y)
        return beside(np.interp(values, self.places, self.scores), y)

    def backward(self, values: Any) -> Any:
        """The mean of g⁻¹(value + e), in the library of the values and their precision."""
        z = np.asarray(as_numpy(values), np.float64)
        total = np.zeros_like(z)
        for residual in self.residuals:
            if self.name == "log":
                total += np.exp(self.places[0] + self.scores[0] * (z + residual))
            else:
                total += np.interp(z + residual, self.scores, self.places)
        return beside((total / len(self.residuals)).astype(as_numpy(values).dtype), values)

    def smeared(self, scores: Any, held_out: tuple[np.ndarray, np.ndarray]) -> TargetTransform:
        """The same with the residuals of held-out rows, whose g(y) is among the scores."""
        rows, said = held_out
        parts = (np.arange(TUNING.residuals) + 0.5) / TUNING.residuals
        missed = np.ravel(as_numpy(scores))[rows] - said[:, 0]
        return replace(self, residuals=np.quantile(missed, parts))

    def __repr__(self) -> str:
        return {"log": "log(y)", "rank": "normal quantiles of the ranks of y"}[self.name]


def worth_trying(y: Any) -> list[str]:
    """The transforms that may pay for these targets: none where they are spread evenly.

    >>> worth_trying(np.arange(9.0)), worth_trying(np.exp(np.arange(9.0)))
    ([], ['log', 'rank'])
    """
    y = np.asarray(as_numpy(y), np.float64)
    if y.ndim > 1 or not y.std() > 0:
        return []
    z = (y - y.mean()) / y.std()
    if abs((z**3).mean()) < TUNING.skewed and (z**4).mean() < TUNING.heavy:
        return []
    return [name for name in SCALES if name != "log" or y.min() > 0]
