"""The execution of kernels with an expression on the host: fused compiled tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation import reference
from mercer.evaluation.cpu import loops
from mercer.evaluation.cpu.operands import OperandPlan, Packed, operand_plan
from mercer.evaluation.cpu.source import moments_of
from mercer.evaluation.cpu.vectors import panel_width
from mercer.evaluation.execution import Affine
from mercer.evaluation.expression import Expression, Parameter, numbers_of
from mercer.evaluation.program import EvaluableKernel, Program, lower
from mercer.evaluation.tiling import Tiled, Values
from mercer.points import DensePoints, SparsePoints
from mercer.runtime.budget import Memory
from mercer.runtime.threads import Span, run, spans, thread_count

THREAD_ROWS = 32  # of slopes that a thread takes at a time


@dataclass
class Side:
    """Some rows or columns: how many points, packed for each operand, and their norms.

    Norms are ‖x‖² or ‖x‖ in every view that needs it, a line for each.
    """

    count: int
    operands: list[Packed]
    norms: np.ndarray


def _packing(form: str) -> Any:
    """The method that packs some rows, or some columns."""

    def packed(self: Cpu, start: int, stop: int) -> Side:
        points, numbers = self.sides[form]
        operands = []
        for operand, centre in zip(self.operands.each, self.centres, strict=True):
            operands.append(getattr(operand, form)(points, start, stop, centre))
        norms = np.empty((len(numbers), stop - start), self.dtype)
        for i, number in enumerate(numbers):
            values = points.slice(start, stop).squared_norms(number.view)
            norms[i] = np.sqrt(values) if number.kind in ("x_length", "y_length") else values
        return Side(stop - start, operands, norms)

    return packed


class Cpu(Tiled):
    """K(X, Y) of a program: pair numbers, kernel values and reduction in one compiled pass."""

    name = "fused on the CPU"

    def __init__(
        self,
        kernel: EvaluableKernel,
        program: Program,
        x: Any,
        y: Any,
        dtype: Any,
        memory: Memory = None,
    ) -> None:
        super().__init__(kernel, x, y, dtype, memory)
        sparse = isinstance(x, SparsePoints) or isinstance(y, SparsePoints)
        if sparse:  # a sparse side is never made dense
            x, y = x.as_sparse(), y.as_sparse()
        self.program = program
        self.sides = {"rows": (x, program.x_norms), "columns": (y, program.y_norms)}
        widths = tuple(map(x.width_of, program.views))
        self.operands: OperandPlan = operand_plan(program, widths, sparse, self.dtype.name)
        self.stripe, self.tile = self.operands.stripe, self.operands.tile
        self.costly, self.distances = self.operands.costly, self.operands.distances
        self.in_registers = self.operands.in_registers
        self.row_bytes, self.column_bytes = self.operands.bytes or self.operands.measured(x, y)
        self.centres = self.operands.unmoved or self.operands.centres(y)

    def _transposed(self) -> Cpu:
        return Cpu(self.kernel, self.program, self.y, self.x, self.dtype, self.memory)

    rows, columns = _packing("rows"), _packing("columns")

    def _inputs(self, rows: Side, columns: Side, task: str) -> tuple[Any, ...]:
        """What compiled loops take, described in `loops`; `rows` and `columns` keep it alive."""
        plan, leaves = self.operands, []
        for operand, x, y in zip(plan.each, rows.operands, columns.operands, strict=True):
            leaves.append(operand.leaves(x, y))
        lines = plan.code.numbers.copy()
        for line, (i, kind, constants) in zip(lines, plan.numbers, strict=True):
            leaf = leaves[i][kind]
            loops.place_operands(line, *leaf[:3], leaf[3] if constants is None else constants)
        sides = rows.norms, columns.norms, plan.parameters, plan.table_places
        return lines, *sides, plan.code[task], *plan.widths, rows.count, columns.count

    def fill(self, rows: Side, columns: Side, out: np.ndarray, row: int, column: int) -> None:
        assert out.dtype == self.dtype  # the kernel's own function writes there
        assert out.strides[1] == out.itemsize
        loops.fill(*self._inputs(rows, columns, "values"), out, row, column)

    def single_rows(self) -> tuple[tuple[Any, ...], tuple[Side, Side]] | None:
        """What `loops.fill_row` begins with, and what keeps it alive; None for wide points."""
        if not self.operands.in_registers:
            return None
        sides = self.rows(0, len(self.x)), self.columns(0, len(self.y))
        return self._inputs(*sides, "values")[:8], sides

    def reduce(self, rows: Side, columns: Side, v: np.ndarray, out: np.ndarray) -> None:
        v = np.ascontiguousarray(v, self.dtype)  # the kernel's own function reads it
        loops.reduce(*self._inputs(rows, columns, "reduce"), v, out)

    def reduce_both(
        self, rows: Side, columns: Side, v: Values, w: Values, out: Values, out_columns: Values
    ) -> None:
        loops.reduce_both(*self._inputs(rows, columns, "values"), v, w, out, out_columns)

    def compiled_row_pass(
        self, rows: Side, columns: Side, lines: Values, row_map: Affine, values: Values | None
    ) -> Values:
        if values is None:
            values = np.empty((rows.count, len(lines) // (1 + row_map.split)))
        padded = -(-columns.count // panel_width(self.dtype)) * panel_width(self.dtype)
        out = np.zeros((row_map.columns, padded), self.dtype)
        sides = row_map.factors, row_map.added, row_map.with_factors
        inputs = self._inputs(rows, columns, "values")
        loops.row_pass(*inputs, lines, row_map.split, *sides, values, out)
        return out[:, : columns.count].astype(np.float64)

    def diagonal(self) -> np.ndarray:
        if self.program.diagonal is not None:
            return np.full(len(self.x), self.program.diagonal, self.x.dtype)
        return reference.diagonal(self.program.expression, self.x)

    # ---- derivatives ---------------------------------------------------------------------------

    def gradient(self, values: np.ndarray) -> np.ndarray:
        if not isinstance(self.x, DensePoints) or not isinstance(self.y, DensePoints):
            raise ValueError("gradients of sparse points are dense: pass X.toarray().")
        return super().gradient(values)

    def _of(self, expression: Expression, x: Any, y: Any) -> Cpu:
        """The execution of another expression, on other points."""
        return Cpu(self.kernel, lower(expression), x, y, self.dtype, self.memory)

    def values_of(self, expression: Expression, x: Any, y: Any) -> np.ndarray:
        if isinstance(expression, Parameter):
            return np.full((len(x), len(y)), expression.value, self.dtype)
        if not self._has_compiled_terms(expression):
            parts = [reference.block(expression, x.slice(*s), y) for s in self._strips(x, y)]
            return np.concatenate(parts).astype(self.dtype)
        return self._of(expression, x, y).block()

    def _has_compiled_terms(self, expression: Expression) -> bool:
        """Whether an expression sums over coordinates only what the kernel does.

        Slopes of terms need operations that compiled terms do not have (a step, a quotient): these
        come from the reference, a strip of rows at a time.
        """
        terms = {number.term for number in numbers_of(expression)} - {None}
        return terms <= {number.term for number in self.program.pairs}

    def _strips(self, x: Any, y: Any) -> list[tuple[int, int]]:
        return spans(len(x), max(1, self.strip_bytes // max(1, 16 * len(y) * x.width)))

    def product_with(self, expression: Expression, values: np.ndarray) -> np.ndarray:
        if isinstance(expression, Parameter):
            return np.tile(expression.value * values.sum(axis=0), (len(self.x), 1))
        if self._has_compiled_terms(expression):
            return self._of(expression, self.x, self.y).product(values)
        x: Any = self.x
        y: Any = self.y
        strips = self._strips(x, y)
        parts = [reference.block(expression, x.slice(*s), y) @ values for s in strips]
        return np.concatenate(parts or [np.zeros((0, values.shape[1]))]).astype(self.dtype)

    def coordinate_moments(
        self, term: Expression, slopes: np.ndarray, x: np.ndarray, y: np.ndarray, a: np.ndarray
    ) -> np.ndarray:
        """Σ_j s_ij a_jo t(x_ik, y_jk), shape (rows, outputs, coordinates)."""
        function, parameters = moments_of(term, slopes.dtype.name)
        out = np.zeros((len(x), a.shape[1], x.shape[1]), slopes.dtype)
        x, y, a = (np.ascontiguousarray(array, slopes.dtype) for array in (x, y, a))

        def work(span: Span) -> None:
            rows = slice(*span)
            function(slopes[rows], x[rows], y, a, parameters, out[rows])

        run(work, spans(len(x), THREAD_ROWS), thread_count())
        return out
