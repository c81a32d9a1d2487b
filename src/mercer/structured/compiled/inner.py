"""Helpers of compiled functions, which are compiled into their callers."""

from __future__ import annotations

from numba import njit

from mercer.evaluation.cpu.vectors import OPTIONS

inner = njit(no_cpython_wrapper=True, **OPTIONS)  # never called from Python
