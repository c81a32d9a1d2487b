"""Which kernel, which lengthscales, how much regularisation: chosen by exact leave-one-out.

Each kernel costs one eigendecomposition on a sample of rows, which gives the leave-one-out error
for every α. The search goes from many kernels on few rows to few kernels on many rows, and gives
columns their own lengthscales by how much the function changes along them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from mercer.functions import RKHSFunction
from mercer.kernels import Exponential, Gaussian, Kernel, Laplacian, LinearMap, Matern
from mercer.solvers.spectral import SpectralPath

ALPHAS = np.array([float(f"{alpha:.3g}") for alpha in np.logspace(-6, 2, 17)])
FAMILIES: dict[str, Callable[[Any], Kernel]] = {
    "Laplacian": Laplacian,
    "Gaussian": Gaussian,
    "Exponential": Exponential,
    "Matern": lambda scales: Matern(2.5, scales),
}


@dataclass(frozen=True)
class Tuning:
    """Sizes of the search for a kernel."""

    screened: int = 500  # rows of the first of three stages,
    refined: int = 1200  # the second,
    confirmed: int = 3000  # and the last
    factors: tuple[float, ...] = (1.0, 2.0, 0.5, 4.0)  # lengthscales in median distances, the
    # likeliest first
    rounds: int = 5  # in which columns get new lengthscales
    slopes_at: int = 400  # points at which slopes and distances are computed
    least_share: float = 1e-2  # of a column, relative to the mean


TUNING = Tuning()


class Limit:
    """A limit of time that can also be ended by hand; a part of a `whole` ends with it."""

    def __init__(self, seconds: float, whole: Limit | None = None) -> None:
        self.began = time.monotonic()
        self.seconds, self.whole, self.stopped = seconds, whole, False

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        own = 0.0 if self.stopped else max(self.seconds - self.spent, 0.0)
        return own if self.whole is None else min(own, self.whole.left)

    @property
    def done(self) -> float:
        """The share of the time that is spent."""
        return 1.0 - self.left / self.seconds if self.seconds else 1.0

    def stop(self) -> None:
        """End now: what is running goes on with the best that was found."""
        self.stopped = True

    def share(self, part: float) -> Limit:
        """A part of what is left, as a limit of its own."""
        return self.within(self.left * part)

    def within(self, seconds: float) -> Limit:
        """So many seconds of what is left, as a limit of its own."""
        return Limit(seconds, self)


@dataclass(frozen=True, eq=False)
class Trial:
    """A kernel that was tried: the leave-one-out error of the best α, and of all others."""

    family: str
    numbers: str
    factor: float
    shares: np.ndarray  # how much each column counts: 1 in the root mean square
    kernel: Kernel
    alpha: float
    error: float
    errors: np.ndarray
    rows: int
    seconds: float
    path: SpectralPath = field(repr=False)


@dataclass(eq=False)
class Search:
    """The search for a kernel on encoded columns."""

    encodings: Mapping[str, np.ndarray]  # the same rows, encoded in several ways
    targets: np.ndarray
    limit: Limit
    notify: Callable[[str, float], Any] | None = None  # of a text and the share that is done
    families: Sequence[str] = tuple(FAMILIES)
    loss: Callable[[np.ndarray], float] | None = None
    """Of what fits say of the first rows when they leave them out; by default the mean square."""
    trials: list[Trial] = field(default_factory=list)

    def run(self) -> Trial:
        """The best kernel that was found within the limit."""
        n, whole = len(self.targets), self.limit
        self.limit = whole.share(0.3)
        self._go(self._screened(min(n, TUNING.screened)))
        self.limit = whole.share(0.6)
        for trial in self._best_of_each(3):
            self._go(self._refined(trial, min(n, TUNING.refined)))
        self.limit = whole
        finalists = self._best_of_each(2)
        rows = min(n, TUNING.confirmed)
        cube = whole.left / 5.0 / (self.seconds(rows) / rows**3)  # four trials in the time left
        rows = min(rows, int(cube ** (1.0 / 3.0)))
        if rows > finalists[0].rows:
            self._go(self._confirmed(finalists, rows))
        return self._best()

    def screened(self) -> Trial:
        """The best kernel with the same lengthscale in all columns, without further rounds."""
        self._go(self._screened(min(len(self.targets), TUNING.refined)))
        return self._best()

    def _best(self) -> Trial:
        """The least error among trials on most rows: errors on fewer rows are no match."""
        most = max(trial.rows for trial in self.trials)
        return min((t for t in self.trials if t.rows == most), key=lambda trial: trial.error)

    # ---- the stages ------------------------------------------------------------------------------

    def _screened(self, rows: int) -> Iterator[Trial]:
        """All families on all encodings, with the same lengthscale in all columns."""
        for factor in TUNING.factors:
            for numbers, Z in self.encodings.items():
                for family in self.families:
                    shares = np.ones(Z.shape[1])
                    if self._has_time(rows):
                        yield self._trial(family, numbers, factor, shares, rows)

    def _refined(self, start: Trial, rows: int) -> Iterator[Trial]:
        """Columns along which the function changes more get shorter lengthscales, in rounds."""
        trial, worse = start, 0
        for _ in range(TUNING.rounds):
            shares = self._shares(trial)
            factors = [trial.factor * step for step in (1.0, 0.6, 1.6)]
            trials = []
            for factor in factors:
                if not self._has_time(rows):
                    return
                trials.append(self._trial(trial.family, trial.numbers, factor, shares, rows))
                yield trials[-1]
            best = min(trials, key=lambda tried: tried.error)
            worse = 0 if best.error < trial.error or trial is start else worse + 1
            if worse == 2:
                return
            trial = best

    def _confirmed(self, finalists: list[Trial], rows: int) -> Iterator[Trial]:
        """The best ones on more rows, with somewhat shorter and longer lengthscales."""
        for step in (1.0, 0.7):
            for t in finalists:
                if self._has_time(rows):
                    yield self._trial(t.family, t.numbers, t.factor * step, t.shares, rows)

    # ---- steps -----------------------------------------------------------------------------------

    def _go(self, trials: Iterator[Trial]) -> None:
        """Keep the trials of a stage."""
        for trial in trials:
            self.trials.append(trial)
            if self.notify is not None:
                self.notify(f"{trial.family} kernel, {trial.rows} rows", self.limit.done)

    def _has_time(self, rows: int) -> bool:
        """Whether another trial would end before the limit; there is always a first one.

        The first of each family tell nothing of the next: their code is compiled, or loaded.
        """
        if len(self.trials) < len(self.families):
            return not self.trials or self.limit.left > 0
        return self.seconds(rows) < self.limit.left

    def seconds(self, rows: int) -> float:
        """Seconds of a trial on so many rows, from the fastest on most rows, as n³."""
        most = max(trial.rows for trial in self.trials)
        quickest = min(trial.seconds for trial in self.trials if trial.rows == most)
        return max(quickest, 1e-3) * max(1.0, rows / most) ** 3

    def _best_of_each(self, count: int) -> list[Trial]:
        """The best trials of different families and encodings, those on most rows first."""
        best: dict[tuple[str, str], Trial] = {}
        for trial in sorted(self.trials, key=lambda t: (-t.rows, t.error)):
            best.setdefault((trial.family, trial.numbers), trial)
        most = max(trial.rows for trial in best.values())
        candidates = [trial for trial in best.values() if trial.rows == most]
        return sorted(candidates, key=lambda trial: trial.error)[:count]

    def _shares(self, trial: Trial) -> np.ndarray:
        """The root mean square slope of the fitted function along each column."""
        alpha, _ = trial.path.coefficients(trial.alpha / trial.rows)
        f = RKHSFunction(trial.path.gram.kernel, trial.path.gram.x, alpha)
        slopes = f.gradient(self.encodings[trial.numbers][: TUNING.slopes_at])
        along = np.sqrt((slopes**2).mean(axis=tuple(range(slopes.ndim - 1))))
        size = math.sqrt(float(np.mean(along**2)))
        if not size > 0:
            return trial.shares
        return np.maximum(along / size, TUNING.least_share)

    def _trial(
        self, family: str, numbers: str, factor: float, shares: np.ndarray, rows: int
    ) -> Trial:
        start, Z = time.monotonic(), self.encodings[numbers][:rows]
        metric = "cityblock" if family == "Laplacian" else "euclidean"
        distances = pdist((Z * shares)[: TUNING.slopes_at], metric)
        distances = distances[distances > 0]
        scales = factor * (np.median(distances) if len(distances) else 1.0) / shares
        kernel = FAMILIES[family](scales.tolist())
        path = SpectralPath.of(kernel.gram(Z), self.targets[:rows], fit_intercept=True)
        errors = self._errors(path, rows)
        best = int(np.argmin(errors))
        return Trial(
            family, numbers, factor, shares, readable(kernel), float(ALPHAS[best]),
            float(errors[best]), errors, rows, time.monotonic() - start, path,
        )  # fmt: skip

    def _errors(self, path: SpectralPath, rows: int) -> np.ndarray:
        """The leave-one-out error of each α."""
        penalties = (ALPHAS / rows).tolist()
        if self.loss is None:
            return np.asarray(path.leave_one_out_errors(penalties).mean(axis=1))
        left_out = (np.asarray(path.leave_one_out(penalty)) for penalty in penalties)
        return np.array([self.loss(v) if np.isfinite(v).all() else np.inf for v in left_out])


def readable(kernel: Kernel) -> Kernel:
    """The kernel with three digits of each number in its metric: it is there to be read."""
    if isinstance(kernel, LinearMap):
        rows = [[float(f"{entry:.3g}") for entry in row] for row in np.asarray(kernel.matrix)]
        return kernel.kernel.after(rows)
    scales = np.atleast_1d(kernel.get_params(deep=False)["lengthscale"])
    rounded = [float(f"{scale:.3g}") for scale in scales]
    return kernel.with_(lengthscale=rounded[0] if len(set(rounded)) == 1 else rounded)
