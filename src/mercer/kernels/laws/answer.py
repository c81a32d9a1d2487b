"""Yes, no or unknown, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel


@dataclass(frozen=True)
class Answer:
    """What a law says of a kernel.

    Attributes
    ----------
    value : bool or None
        Yes, no, or None where no theorem decides.
    because : str
        The reason, in words.
    payload : object
        What comes with the answer, where something does: R², an order, a spectral measure.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, laws
    >>> answer = laws.bounded(3.0 * Gaussian())
    >>> answer.yes, answer.payload
    (True, 3.0)
    """

    value: bool | None
    because: str
    payload: Any = None

    @property
    def yes(self) -> bool:
        return self.value is True

    @property
    def no(self) -> bool:
        return self.value is False

    @property
    def unknown(self) -> bool:
        return self.value is None

    def __bool__(self) -> bool:
        raise TypeError(
            "an answer is yes, no or unknown, so it has no truth value: write answer.yes, "
            "answer.no or answer.unknown."
        )

    def __repr__(self) -> str:
        number = f" ({self.payload:.6g})" if isinstance(self.payload, float) else ""
        return f"{self.word}{number}: {self.because}"

    @property
    def word(self) -> str:
        return {True: "yes", False: "no", None: "unknown"}[self.value]


def yes(because: str, payload: Any = None) -> Answer:
    """The law holds."""
    return Answer(True, because, payload)


def no(because: str, payload: Any = None) -> Answer:
    """The law fails, by a theorem."""
    return Answer(False, because, payload)


def unknown(because: str, payload: Any = None) -> Answer:
    """No theorem of the library decides."""
    return Answer(None, because, payload)


def nothing_known(kernel: Any) -> Answer:
    """The answer for kernels without a rule."""
    if not isinstance(kernel, Kernel):
        raise ValueError(f"laws are about kernels; got {kernel!r}.")
    return unknown(f"nothing is known of {type(kernel).__name__}")


def state(law: Any, answers: Mapping[Any, Answer]) -> None:
    """Register the answers of a law that depend on nothing but the class of the kernel."""
    for classes, answer in answers.items():
        law.register(classes)(lambda kernel, dimension=None, answer=answer: answer)


def first(*answers: Answer | None) -> Answer:
    """The first answer that is given."""
    return next(answer for answer in answers if answer is not None)


def yes_alone(answer: Answer, otherwise: str) -> Answer:
    """A yes as it is, anything else as unknown: for operations that can mend a fault."""
    return answer if answer.yes else unknown(otherwise)


# ---- facts about columns and matrices that several laws need -------------------------------------


def distinct(columns: Any) -> bool:
    """Whether no column is listed twice, so that the selection reaches every vector."""
    signs = {column < 0 for column in columns if not isinstance(column, str)}
    return len(set(columns)) == len(columns) and len(signs) < 2  # 1 and −1 may be the same


def covers(columns: Any, dimension: int | None) -> bool:
    """Whether the listed columns are all of them; never, where the number of columns is open."""
    if dimension is None:
        return False
    return len({c if isinstance(c, str) else c % dimension for c in columns}) >= dimension


def rank(matrix: Any) -> int:
    """The rank of a matrix."""
    return int(np.linalg.matrix_rank(np.asarray(matrix, np.float64)))


def onto(matrix: Any) -> bool:
    """Whether Ax reaches every vector."""
    return rank(matrix) == np.shape(matrix)[0]


def one_to_one(matrix: Any) -> bool:
    """Whether Ax = Ay only for x = y."""
    return rank(matrix) == np.shape(matrix)[1]


def trivial_group(group: Any) -> bool:
    """Whether the identity is the only element."""
    return len(group) == 1 and np.array_equal(group[0], np.eye(len(group[0])))


def is_group(group: Any) -> bool:
    """Whether a list of matrices is closed under products, without repetition."""
    elements = np.asarray([np.asarray(g, np.float64) for g in group])
    products = np.einsum("aij,bjk->abik", elements, elements)
    gaps = np.abs(products[:, :, None] - elements).max(axis=(-2, -1))  # (a, b, element)
    return bool((gaps.min(axis=2) < 1e-9).all() and (np.sort(gaps, axis=2)[:, :, 1:] > 1e-9).all())
