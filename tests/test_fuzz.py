"""A short version of `make fuzz`."""

from __future__ import annotations

import os

import pytest

from fuzz import inputs, interruptions, problems


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_inputs_are_answered_or_refused_in_words(first):
    assert [wrong for seed in range(first, first + 20) if (wrong := inputs.attempt(seed))] == []


def test_no_solver_says_solved_where_another_is_better():
    assert [wrong for seed in range(25) if (wrong := problems.attempt(seed))] == []


def test_interrupted_fits_leave_nothing_half_done():
    assert [wrong for seed in range(4) if (wrong := interruptions.attempt(seed))] == []


def test_threads_agree():
    assert interruptions.threads(4) == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_processes_agree():
    assert interruptions.forks(2) == ""
