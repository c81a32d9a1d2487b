"""A short version of `make fuzz`."""

from __future__ import annotations

import os
from dataclasses import fields
from inspect import isclass

import pytest

import mercer
from fuzz import inputs, interruptions, objects, problems
from mercer import features, kernels, online, structured
from mercer.kernels import Kernel


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_inputs_are_answered_or_refused_in_words(first):
    assert [wrong for seed in range(first, first + 20) if (wrong := inputs.attempt(seed))] == []


def test_no_solver_says_solved_where_another_is_better():
    assert [wrong for seed in range(25) if (wrong := problems.attempt(seed))] == []


def test_interrupted_fits_leave_nothing_half_done():
    assert [wrong for seed in range(12) if (wrong := interruptions.attempt(seed))] == []


def test_threads_agree():
    assert interruptions.threads(2) == ""


def test_every_estimator_is_tried():
    homes = (mercer, features, online)
    found = {name: getattr(home, name) for home in homes for name in home.__all__}
    public = {name for name, thing in found.items() if isclass(thing) and hasattr(thing, "fit")}
    made = [*inputs.REGRESSORS, *inputs.CLASSIFIERS, *inputs.SEARCHES, *inputs.UNSUPERVISED]
    tried = {type(make()).__name__ for make in [*made, *inputs.MAPS, *inputs.ONLINE]}
    tried |= {"KernelCCA", "MinHash", "ExplicitFeatures"}  # which have attempts of their own
    assert public - tried == {"FeatureMap", "OnlineMachine"}


def test_every_kernel_is_tried():
    homes = (kernels, structured)
    found = {name: getattr(home, name) for home in homes for name in home.__all__}
    public = {name for name, thing in found.items() if isclass(thing) and issubclass(thing, Kernel)}
    tried = [*inputs.VALUES, *inputs.FUNCTIONS, *(kernel for kernel, *_ in objects.KERNELS)]
    tried = {type(part).__name__ for kernel in tried for part in parts(kernel)}
    assert public - tried == {"Kernel", "Radial", "Table", "OfColumn", "Category", "Match"}
    # the first two are base classes, the others kernels of tables


def parts(kernel):
    yield kernel
    for field in fields(kernel):
        if isinstance(inner := getattr(kernel, field.name), Kernel):
            yield from parts(inner)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_processes_agree():
    assert interruptions.forks(2) == ""
