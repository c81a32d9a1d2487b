"""The assembly that a card runs, carried out in NumPy, instruction by instruction."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from mercer.evaluation.gpu.elementary import ROOT, functions

POWER = 7.5e-8  # relative error of the polynomial of 2^x
WHOLE = {"mov.b32": lambda x: x, "shr.u32": np.right_shift, "shl.b32": np.left_shift}
WHOLE |= {"sub.s32": np.subtract, "add.s32": np.add}
REAL = {
    "mov": lambda x: x,
    "neg": np.negative,
    "abs": np.abs,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "fma": lambda x, y, z: x.astype(np.float64) * y + z,  # rounded once, to float32
    "ex2": lambda x: np.exp2(x.astype(np.float64)),
    "sqrt": lambda x: np.sqrt(x.astype(np.float64)),
}


def carry_out(name: str, *inputs: np.ndarray) -> np.ndarray:
    """A function of so many columns of values, `pack` of which one piece of assembly computes."""
    text = functions("float32", assembly=True)[name]
    pack = int(re.search(r"pack=(\d+)", text)[1])
    code = re.search(r"inline_asm_elementwise\('\{ (.*) \}'", text)[1]
    registers = {
        f"${(k + 1) * pack + i}": np.full_like(inputs[0], values).view(np.uint32)
        for k, values in enumerate(inputs)
        for i in range(pack)
    }
    for instruction in code.split(";"):
        operation, _, operands = instruction.strip().partition(" ")
        if operation in ("", ".reg"):
            continue
        target, *arguments = operands.split(", ")
        registers[target] = one_step(operation, [value(a, registers) for a in arguments])
    return np.stack([registers[f"${i}"].view(np.float32) for i in range(pack)])


def one_step(operation: str, arguments: list[np.ndarray]) -> np.ndarray:
    """The bits of one result; subnormal numbers are 0."""
    if operation in WHOLE:
        return WHOLE[operation](*arguments).astype(np.uint32)
    with np.errstate(over="ignore", invalid="ignore"):
        found = REAL[operation.partition(".")[0]](*(a.view(np.float32) for a in arguments))
        found = np.asarray(found, np.float32)
    return np.where(np.abs(found) < 2.0**-126, np.float32(0), found).view(np.uint32)


def value(name: str, registers: dict[str, np.ndarray]) -> np.ndarray:
    if name.startswith("0f"):
        return np.array([struct.unpack(">f", bytes.fromhex(name[2:]))[0]], np.float32).view("u4")
    return np.array([int(name)], np.uint32) if name.isdigit() else registers[name]


@pytest.mark.parametrize("name", ["sqrt", "sqrt_mixed"])
def test_roots_by_the_card_and_by_polynomials(name):
    x = np.exp2(np.linspace(-100, 100, 4001)).astype(np.float32)
    found = carry_out(name, x)
    np.testing.assert_allclose(found, np.sqrt(x, dtype=float)[None].repeat(len(found), 0), 2e-7)


@pytest.mark.parametrize("name", ["sqrt", "sqrt_mixed"])
def test_roots_of_what_rounding_made_negative(name):
    x = -np.array([0.0, 1e-37, 1e-20, 1e-8, 1e-5, 1e-2, 0.2], np.float32)
    found = carry_out(name, x)
    assert np.isfinite(found).all()
    assert (np.abs(found) <= np.sqrt(-x)).all()


@pytest.mark.parametrize("name", ["shifted_root", "shifted_root_more"])
def test_shifted_roots(name):
    x = np.exp2(np.linspace(-40, 20, 2001)).astype(np.float32)
    factor, shift = 1.9, 1.4426950408889634
    factors = [np.float32(factor * c) for c in ROOT]
    found = carry_out(name, x, *factors, np.float32(shift))
    exact = np.tile(factor * np.sqrt(x, dtype=float) + shift, (len(found), 1))
    np.testing.assert_allclose(found, exact, 3e-7)


@pytest.mark.parametrize(
    ("name", "sign"), [("decay2", 1), ("decay2_plain", 1), ("decay2_root", -1)]
)
def test_powers_of_two(name, sign):
    x = np.float32(sign) * np.linspace(-125.9, 0, 4001, dtype=np.float32)
    found = carry_out(name, x)
    exact = np.tile(np.exp2(sign * x.astype(float)), (len(found), 1))
    np.testing.assert_allclose(found, exact, POWER + 1.5 * 2.0**-23)
