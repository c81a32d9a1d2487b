"""Sums of rows of a stored matrix."""

from __future__ import annotations

from mercer.evaluation.cpu.vectors import widen
from mercer.solvers.dual.compiled.terms import compiled

CHUNK = 2048  # values that stay in the first-level cache while rows are added to them


@compiled
def gather(store, slots, columns, out):  # type: ignore[no-untyped-def]
    """Copy K[slots][:, columns]."""
    for i in range(len(slots)):
        row = store[slots[i]]
        for j in range(len(columns)):
            out[i, j] = row[columns[j]]


@compiled
def add_rows(store, slots, factors, values, start, stop, column):  # type: ignore[no-untyped-def]
    """Add Σ_k factors_k · store[slots_k] to the values from start to stop.

    The value at `start` belongs to the given column of the store, and so on from there.
    """
    widen()
    for a in range(start, stop, CHUNK):
        b = min(a + CHUNK, stop)
        part = values[a:b]
        shift = column - start
        for k in range(len(slots)):
            row = store[slots[k]][a + shift : b + shift]
            factor = factors[k]
            for j in range(len(part)):
                part[j] += factor * row[j]
