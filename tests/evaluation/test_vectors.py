"""What LLVM is told of the loops over coordinates."""

from __future__ import annotations

from numba import cfunc, types

from mercer.evaluation.cpu.panels import fill_distances, fill_signature
from mercer.evaluation.cpu.vectors import CALLED_BY_C, VECTOR_BYTES


def test_vectors_on_the_stack_are_aligned_and_loops_are_not_unrolled():
    """Neither changes a number, and what they save depends on where the stack lies."""
    function = cfunc(fill_signature(types.float32), **CALLED_BY_C)(fill_distances)
    text = function.inspect_llvm()
    assert f"alignstack={VECTOR_BYTES}" in text
    assert "llvm.loop.unroll.disable" in text
