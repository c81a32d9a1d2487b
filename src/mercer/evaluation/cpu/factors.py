"""The constant factor of a product over coordinates, taken out of its loop.

Π_k c·t_k = c^d Π_k t_k saves a multiplication in each coordinate. So that nothing leaves the range
of float32, however many coordinates there are, the product starts at c^(d mod m), and is multiplied
by c^m after every m-th coordinate.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mercer.evaluation.expression import Number
from mercer.evaluation.program import CoordinateCode, coordinate_code

LARGEST = 1e20  # that c^m, or its inverse, may be
LONGEST = 16  # coordinates between two powers


def looped(number: Number) -> tuple[CoordinateCode, float | None]:
    """The instructions of a coordinate number inside the loop, and the factor outside, if any.

    >>> from mercer.evaluation.expression import X, Y, coordinate_product
    >>> code, factor = looped(coordinate_product(3.0 * (X * Y + 1.0)))
    >>> code.instructions, factor
    ((('multiply', 'x0', 'y0'), ('add', 't0', 'c1')), 3.0)
    """
    assert number.term is not None
    code = coordinate_code(number.term)
    operation, *arguments = code.instructions[-1] if code.instructions else ("",)
    if number.kind != "coordinate_product" or operation != "multiply" or arguments[0][0] != "c":
        return code, None
    rest = replace(code, instructions=code.instructions[:-1], result=arguments[1])
    return rest, code.constants[int(arguments[0][1:])]


def powers(factor: float, width: int) -> tuple[float, float, float]:
    """c^(d mod m), c^m, and m, the coordinates from one multiplication by a power to the next.

    >>> powers(2.0, 35)
    (8.0, 65536.0, 16.0)
    >>> powers(1e8, 3)
    (100000000.0, 1e+16, 2.0)
    """
    size = abs(math.log(abs(factor))) if factor else math.inf
    chunk = max(1, math.floor(min(LONGEST, math.log(LARGEST) / size if size else LONGEST)))
    return factor ** (width % chunk), factor**chunk, float(chunk)
