"""The numbers of dual ascent, with where each comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of dual ascent; those without another unit are shares."""

    mixed_size: int = 2000  # points from which float64 problems are first solved with float32 rows
    mixed_tolerance: float = 1e-6  # a smaller relative gap is beyond float32
    slack: float = 0.7  # of the tolerance, which steps with float32 rows must reach: the gap in
    # float64 is larger
    refinements: int = 3  # times that steps with float32 rows are taken before float64 rows are
    # computed

    # Of the violation that steps on a working set leave; the latter where it is everything, so that
    # no other round follows.
    inner_share: float = 0.1
    whole_share: float = 1e-4

    carried: float = 0.5  # of a working set that may come from the last one
    idle_rounds: int = 3  # rounds in a row without a step, after which no digits are left
    rounding: float = 1e-15  # of sums of float64 numbers, relative to their size
    row_error: float = 1e-5  # of a kernel value in float32, relative to the largest: ten times what
    # is allowed
    sample: int = 64  # points whose values are computed again though they do not count, to see how
    # wrong they are
    vanishing: float = 1e-3  # of the largest ‖f‖² that the coefficients admit: a smaller objective
    # is as good as 0

    # Halvings that look for a multiplier: on the way, and at the end.
    coarse: int = 12
    fine: int = 100

    safely: float = 1.0  # violations by which a slope must hold a coefficient to its bound for it
    # to rest
    resting: float = 0.5  # of all coefficients that must rest before the others go on alone
    least_margin: float = 1e-5  # of the largest √k(x, x): a thinner margin is taken for none.
    # float64 would show some that are thinner, down to √(n · 2e-16), but steps grow like their
    # inverse: with that limit most refusals run into the cap on steps instead of ending within a
    # second

    # Two-variable steps for each point before the first linear system, and between two of them.
    steps_before_polish: int = 100
    steps_between: int = 50

    polished: int = 1024  # free coefficients up to which the linear system is solved

    # Points up to which it is solved whatever the tolerance is, and where the tolerance is
    # `out_of_reach` of steps.
    always: int = 1024
    sometimes: int = 4096

    out_of_reach: float = 1e-6  # a relative gap below which steps take long
    polished_gap: float = 1e-14  # a relative gap that is only rounding

    # Linear systems one after the other, as bounds are met; and turns with steps.
    systems: int = 100
    attempts: int = 30

    least_pivot: float = 1e-6  # of the largest, below which a factor has lost its digits
    stored: int = 1024  # points up to which the whole matrix is stored
    resident_share: float = 0.3  # of the memory that is free on a device, up to which the whole
    # matrix is stored there: two problems may be solved at a time
    parallel: int = 1 << 18  # products of one update from which threads pay
    cheap_width: int = 64  # columns of points up to which rows are not stored: computing one and
    # adding it takes about 0.5 to 1.5 ns for each point, filling a store 1.5 to 5 and adding from
    # it 0.2, so that a row would have to be used four times or more, which is about what dual
    # ascent does


TUNING = Tuning()
