"""The loops around kernel values: tiles of K, K v, Kᵀw and Kᵀ(w ∘ (K V + B)).

They are the same for all kernels, and compiled once for each precision. For a few rows and a panel
of columns `fill_numbers` calls what fills in the pair numbers, and `use_numbers` the kernel's own
function, which writes its values, or their products with a vector.

All loops begin with the same arguments: `leaves`, a line for each pair number (see
`operands.Code`); `a` and `b`, norms of rows and columns; `p`, parameters; `tables`, a line of
addresses, one of lengths and one of first pieces; `own`, the address of the kernel's function, 0
where its values are the pair numbers; `panel`, the columns of a panel; `step`, those that are
filled in together; and how many rows and columns.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mercer.evaluation.cpu.panels import (
    address,
    call,
    flush_subnormals,
    numbers_at,
    restore_subnormals,
)
from mercer.evaluation.cpu.vectors import (
    COORDINATES,
    OPTIONS,
    PANEL_ROWS,
    PRODUCT,
    SCALED_DIFFERENCE,
    SCALED_PRODUCT,
    TILE,
    VECTOR_BYTES,
    compiled,
    widen,
)

SECOND_HALF = 2.0**-24  # what the second half of split columns is multiplied by
INNER = OPTIONS | {"no_cpython_wrapper": True, "forceinline": True}


def _place_operands(leaf, source, x, y, scales):  # type: ignore[no-untyped-def]
    """Write into the line of a pair number where its operands are; the caller keeps them alive."""
    leaf[0], leaf[1], leaf[2] = source, address(x), x.shape[1]
    leaf[3], leaf[4], leaf[5] = address(y), y.shape[1], address(scales)


@njit(**INNER)
def panels_for(leaves, panel, p):  # type: ignore[no-untyped-def]
    """Room for a panel of each pair number, and for `aligned` to begin a little later."""
    return np.empty(len(leaves) * PANEL_ROWS * panel + VECTOR_BYTES // p.itemsize, p.dtype)


@njit(**INNER)
def aligned(room):  # type: ignore[no-untyped-def]
    """Where panels begin: a vector across two lines of the cache takes twice as long to store."""
    return (address(room) + VECTOR_BYTES - 1) // VECTOR_BYTES * VECTOR_BYTES


@njit(**INNER)
def fill_one_row(source, x, y, y_width, scales, size, width, out, p):  # type: ignore[no-untyped-def]
    """⟨x, y⟩ or ‖x − y‖² of one row with some columns: four times as fast as PANEL_ROWS of them."""
    scaled = source in (SCALED_PRODUCT, SCALED_DIFFERENCE)
    factors, own, line = numbers_at(scales, p), numbers_at(x, p), numbers_at(out, p)
    for j in range(width):
        line[j] = p.dtype.type(0.0)
    for k in range(size):
        others = numbers_at(y + p.itemsize * k * y_width, p)
        mine, factor = own[k], factors[k] if scaled else p.dtype.type(1.0)
        if source in (PRODUCT, SCALED_PRODUCT):
            for j in range(width):
                line[j] += (factor * mine) * (factor * others[j])
        else:
            for j in range(width):
                gap = factor * (mine - others[j])
                line[j] += gap * gap


@njit(**INNER)
def fill_numbers(  # type: ignore[no-untyped-def]
    leaves, p, step, row, few, column, width, panel, scratch, places, alone=False
):
    """Pair numbers of a few rows with some columns; `places` receives where, and the strides."""
    for i in range(len(leaves)):
        source, x, x_width = leaves[i, 0], leaves[i, 1], leaves[i, 2]
        y, y_width, scales = leaves[i, 3], leaves[i, 4], leaves[i, 5]
        fill, decay, factor = leaves[i, 6], leaves[i, 7], leaves[i, 8]
        here = scratch + p.itemsize * i * PANEL_ROWS * panel
        place, stride = here, panel
        if source == TILE:
            place, stride = x + p.itemsize * (row * x_width + column), x_width
        elif alone and source < COORDINATES:
            item, mine = p.itemsize, x + p.itemsize * row * x_width
            fill_one_row(source, mine, y + item * column, y_width, scales, x_width, width, here, p)
        else:
            operands = source, x, x_width, y, y_width, scales
            call(fill, (*operands, row, column, width, step, here, panel))
        if decay:
            given = np.intp(source == TILE), place, stride
            call(decay, (*given, few, width, step, here, panel, address(p) + p.itemsize * factor))
            place, stride = here, panel
        places[0, i], places[1, i] = place, stride


@njit(**INNER)
def row_at(places, r, p):  # type: ignore[no-untyped-def]
    """The first pair number of row r with all columns of a block."""
    return numbers_at(places[0, 0] + p.itemsize * r * places[1, 0], p)


@njit(**INNER)
def copy_rows(places, few, width, out, out_width, p):  # type: ignore[no-untyped-def]
    """Copy the first pair number of a few rows with some columns to rows from an address on."""
    for r in range(few):
        k, line = row_at(places, r, p), numbers_at(out + p.itemsize * r * out_width, p)
        for j in range(width):
            line[j] = k[j]


@njit(**INNER)
def use_numbers(  # type: ignore[no-untyped-def]
    a, b, p, tables, own, row, few, column, width, places, v, out, out_width
):
    """Call the kernel's own function: `source.FUNCTION` says what it takes."""
    numbers = address(places[0]), address(places[1])
    norms = address(a), a.shape[1], address(b), b.shape[1]
    constants = address(p), address(tables[0]), address(tables[1])
    call(own, (row, few, column, width, *numbers, *norms, *constants, v, out, out_width))


def _fill(  # type: ignore[no-untyped-def]
    leaves, a, b, p, tables, own, panel, step, rows, columns, out, out_row, out_column
):
    """Write K into `out`, from a row and a column on."""
    widen()
    flushed = flush_subnormals()
    scratch = panels_for(leaves, panel, p)
    places = np.empty((2, len(leaves)), np.int64)
    out_width = out.strides[0] // out.itemsize
    for j0 in range(0, columns, panel):
        width = min(panel, columns - j0)
        for i0 in range(0, rows, PANEL_ROWS):
            few = min(PANEL_ROWS, rows - i0)
            block = i0, few, j0, width
            fill_numbers(leaves, p, step, *block, panel, aligned(scratch), places)
            goal = address(out[out_row + i0, out_column + j0 :])
            if own:
                use_numbers(a, b, p, tables, own, *block, places, 0, goal, out_width)
            else:
                copy_rows(places, few, width, goal, out_width, p)
    restore_subnormals(flushed)


def _fill_row(  # type: ignore[no-untyped-def]
    leaves, a, b, p, tables, own, panel, step, row, column, width, out
):
    """Write one row of K, from a column on, into a line: where rows are needed one by one.

    Rows are packed with PANEL_ROWS, and columns with `step` of them beyond the last that is asked
    for: all of those are read.
    """
    widen()
    flushed = flush_subnormals()
    scratch = panels_for(leaves, panel, p)
    places = np.empty((2, len(leaves)), np.int64)
    for j0 in range(0, width, panel):
        block = row, 1, column + j0, min(panel, width - j0)
        fill_numbers(leaves, p, step, *block, panel, aligned(scratch), places, True)
        goal = address(out[j0:])
        if own:
            use_numbers(a, b, p, tables, own, *block, places, 0, goal, width)
        else:
            copy_rows(places, 1, block[3], goal, width, p)
    restore_subnormals(flushed)


def _reduce(  # type: ignore[no-untyped-def]
    leaves, a, b, p, tables, own, panel, step, rows, columns, v, out
):
    """Add K v to `out`, which may be wider: sums over a panel are in the precision of K."""
    widen()
    flushed = flush_subnormals()
    scratch = panels_for(leaves, panel, p)
    places = np.empty((2, len(leaves)), np.int64)
    sums = np.empty(PANEL_ROWS, p.dtype)
    for j0 in range(0, columns, panel):
        width = min(panel, columns - j0)
        vj = v[j0 : j0 + width]
        for i0 in range(0, rows, PANEL_ROWS):
            few = min(PANEL_ROWS, rows - i0)
            block = i0, few, j0, width
            fill_numbers(leaves, p, step, *block, panel, aligned(scratch), places)
            if own:
                goal = address(sums)
                use_numbers(a, b, p, tables, own, *block, places, address(vj), goal, 0)
            else:
                for r in range(few):
                    k, s = row_at(places, r, p), p.dtype.type(0.0)
                    for j in range(width):
                        s += k[j] * vj[j]
                    sums[r] = s
            for r in range(few):
                out[i0 + r] += sums[r]
    restore_subnormals(flushed)


def _reduce_both(  # type: ignore[no-untyped-def]
    leaves, a, b, p, tables, own, panel, step, rows, columns, v, w, out, out_columns
):
    """Add K v to `out`, and Kᵀw to `out_columns`."""
    widen()
    flushed = flush_subnormals()
    scratch = panels_for(leaves, panel, p)
    places = np.empty((2, max(1, len(leaves))), np.int64)  # of values, too
    values, totals = np.empty((PANEL_ROWS, panel), p.dtype), np.empty(panel, p.dtype)
    for j0 in range(0, columns, panel):
        width = min(panel, columns - j0)
        vj = v[j0 : j0 + width]
        for i0 in range(0, rows, PANEL_ROWS):
            few = min(PANEL_ROWS, rows - i0)
            block = i0, few, j0, width
            fill_numbers(leaves, p, step, *block, panel, aligned(scratch), places)
            if own:
                use_numbers(a, b, p, tables, own, *block, places, 0, address(values), panel)
                places[0, 0], places[1, 0] = address(values), panel
            totals[:] = p.dtype.type(0.0)
            for r in range(few):
                k, s, wi = row_at(places, r, p), p.dtype.type(0.0), w[i0 + r]
                for j in range(width):
                    s += k[j] * vj[j]
                    totals[j] += k[j] * wi
                out[i0 + r] += s
            for j in range(width):
                out_columns[j0 + j] += totals[j]
    restore_subnormals(flushed)


@njit(**INNER)
def row_products(values, width, v, first, inner):  # type: ignore[no-untyped-def]
    """Add the products of a row of values with the lines of `v`, from a column on, to `inner`."""
    for c in range(len(v)):
        vc, s = v[c, first : first + width], v.dtype.type(0.0)
        for j in range(width):
            s += values[j] * vc[j]
        inner[c] += s


@njit(**INNER)
def mapped_rows(  # type: ignore[no-untyped-def]
    row, few, inner, split, factors, added, extra, products, pushes
):
    """Of a few rows of K V: write them, and what w ∘ (K V + B) makes of them into `pushes`."""
    outputs, used = products.shape[1], added.shape[1]
    pushes[:] = pushes.dtype.type(0.0)
    for r in range(few):
        i = row + r
        for c in range(outputs):
            if split:
                inner[r, c] += SECOND_HALF * inner[r, outputs + c]
            products[i, c] = inner[r, c]
        w = i if len(factors) > 1 else 0
        for c in range(used):
            shift = added[i if len(added) > 1 else 0, c]
            factor = factors[w, c if factors.shape[1] > 1 else 0]
            pushes[c, r] = factor * (inner[r, c] + shift)
        if extra:
            pushes[used, r] = factors[w, 0]


@njit(**INNER)
def add_rows(lines, factors, total):  # type: ignore[no-untyped-def]
    """Add Σ_r u_r k_rj to a line, all rows at once."""
    u0, u1, u2, u3 = factors[0], factors[1], factors[2], factors[3]
    k0, k1, k2, k3 = lines[0], lines[1], lines[2], lines[3]
    if PANEL_ROWS == 4:
        for j in range(len(total)):
            total[j] += k0[j] * u0 + k1[j] * u1 + k2[j] * u2 + k3[j] * u3
    else:
        u4, u5, u6, u7 = factors[4], factors[5], factors[6], factors[7]
        k4, k5, k6, k7 = lines[4], lines[5], lines[6], lines[7]
        for j in range(len(total)):
            first = k0[j] * u0 + k1[j] * u1 + k2[j] * u2 + k3[j] * u3
            total[j] += first + k4[j] * u4 + k5[j] * u5 + k6[j] * u6 + k7[j] * u7


def _row_pass(  # type: ignore[no-untyped-def]
    leaves, a, b, p, tables, own, panel, step, rows, columns,
    v, split, factors, added, extra, products, out,
):  # fmt: skip
    """Add Kᵀ(w ∘ (K V + B)) to `out`: a few rows of K live in the second-level cache, no longer.

    All columns of them are computed and multiplied by V, and stay until the sum of each row is
    known; then they are multiplied by what the map makes of it. `v` has a line for each column of
    V; where `split`, the second half of them holds what rounding took from the first, times 2²⁴.
    `products` receives K V, and where `extra` the last line of `out` receives Kᵀw.
    """
    widen()
    flushed = flush_subnormals()
    scratch = panels_for(leaves, panel, p)
    places = np.empty((2, len(leaves)), np.int64)
    stored = np.zeros(((columns + panel - 1) // panel, PANEL_ROWS, panel), p.dtype)
    inner = np.zeros((PANEL_ROWS, len(v)), np.float64)
    pushes = np.zeros((len(out), PANEL_ROWS), p.dtype)
    for i0 in range(0, rows, PANEL_ROWS):
        few = min(PANEL_ROWS, rows - i0)
        inner[:] = 0.0
        for n in range(len(stored)):
            width = min(panel, columns - n * panel)
            block = i0, few, n * panel, width
            goal = address(stored[n])
            filled = aligned(scratch) if own else goal
            fill_numbers(leaves, p, step, *block, panel, filled, places)
            if own:
                use_numbers(a, b, p, tables, own, *block, places, 0, goal, panel)
            elif places[0, 0] != goal:
                copy_rows(places, few, width, goal, panel, p)
            for r in range(few):
                row_products(stored[n, r], width, v, n * panel, inner[r])
        mapped_rows(i0, few, inner, split, factors, added, extra, products, pushes)
        for n in range(len(stored)):
            for c in range(len(out)):
                add_rows(stored[n], pushes[c], out[c, n * panel : (n + 1) * panel])
    restore_subnormals(flushed)


place_operands = compiled(_place_operands)
fill, reduce, reduce_both, row_pass = map(compiled, (_fill, _reduce, _reduce_both, _row_pass))
fill_row = compiled(_fill_row)
