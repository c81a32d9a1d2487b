"""Facts of a kernel: answers with their reasons, stated next to the formula.

A class states in `facts` what is known of its kernel, and leaves the rest out:

>>> from mercer.kernels import BlockKernel, laws
>>> from mercer.kernels.facts import yes
>>> class Counts(BlockKernel):
...     def facts(self, dimension=None):
...         known = super().facts(dimension)
...         return known.stating(
...             positive_definite=yes("it is an inner product of counts"),
...             bounded=yes("a word has at most 9 letters", 81.0),
...         )
>>> laws.bounded(2.0 * Counts(min) + 1.0)
yes (163): both summands are bounded

What operations do with facts stands in `mercer.kernels.laws`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from mercer.kernels.measures import FourierWeights, Zero


@dataclass(frozen=True)
class Answer:
    """Yes, no or unknown, and why.

    Attributes
    ----------
    value : bool or None
        Yes, no, or None where no theorem decides.
    because : str
        The reason, in words.
    payload : object
        What comes with the answer, where something does: R², an order, a spectral measure.
    advice : str
        What to write where the answer is unknown and the user may know it.

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
    advice: str = ""

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
        word = {True: "yes", False: "no", None: "unknown"}[self.value]
        number = f" ({self.payload:.6g})" if isinstance(self.payload, float) else ""
        return f"{word}{number}: {self.because}" + (f". {self.advice}" if self.advice else "")


def yes(because: str, payload: Any = None) -> Answer:
    """The fact holds.

    >>> yes("it is an inner product").because
    'it is an inner product'
    """
    return Answer(True, because, payload)


def no(because: str, payload: Any = None) -> Answer:
    """The fact does not hold, by a theorem.

    >>> no("its diagonal is 0").because
    'its diagonal is 0'
    """
    return Answer(False, because, payload)


def unknown(because: str, payload: Any = None, advice: str = "") -> Answer:
    """No theorem of the library decides.

    >>> unknown("nothing is known of this function").because
    'nothing is known of this function'
    """
    return Answer(None, because, payload, advice)


def first(*answers: Answer | Callable[[], Answer | None] | None) -> Answer:
    """The first answer that is given; functions are asked in turn."""
    for answer in answers:
        given = answer() if callable(answer) else answer
        if given is not None:
            return given
    raise ValueError("no answer was given.")


UNIT_DIAGONAL: dict[str, Any] = {"bounded": yes("k(x, x) = 1", 1.0), "constant_diagonal": True}

QUESTIONS = (
    "positive_definite",
    "stationary",
    "isotropic",
    "bounded",
    "universal",
    "sobolev_order",
    "spectral_density",
    "fourier_weights",
)
FACT_NAMES = {*QUESTIONS, "finite_features", "positive_values", "constant_diagonal", "vanishes"}
FACT_NAMES |= {"separates", "constant", "columns"}


class Facts:
    """The facts of a kernel on points with a given number of columns.

    Without a dimension an answer is meant for every number of columns that the kernel accepts.

    Parameters
    ----------
    kernel : Kernel
        What the facts are about.
    dimension : int, optional
        The number of columns.
    like : Facts, optional
        The facts of a kernel that differs by a positive factor only; they hold where no other is
        stated.
    **stated
        Facts by name, those below: each an `Answer`, or a function that takes the dimension and
        returns one; plain ones as they are.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> Gaussian().facts(dimension=2)
    Gaussian(lengthscale=1.0) on points of 2 columns
    positive definite  yes: its spectral density is positive in every dimension (Bochner)
    stationary         yes: it is a function of the scaled distance of x and y
    isotropic          yes: it is a function of ‖x − y‖
    bounded            yes (1): k(x, x) = 1
    universal          yes: its spectral density is positive everywhere
    sobolev order      yes (inf): its spectral measure has all moments: its functions have ...
    spectral density   yes: its frequencies are normal
    fourier weights    no: it tends to 0 far away, so it does not repeat
    """

    def __init__(
        self, kernel: Any, dimension: int | None = None, like: Facts | None = None, **stated: Any
    ) -> None:
        if not FACT_NAMES.issuperset(stated):
            raise TypeError(
                f"no facts: {sorted(set(stated) - FACT_NAMES)}; those are {sorted(FACT_NAMES)}"
            )
        self.kernel, self.dimension, self.like, self._stated = kernel, dimension, like, stated

    def stating(self, **more: Any) -> Self:
        """These facts and some more, which take the place of those of the same name."""
        return type(self)(self.kernel, self.dimension, self.like, **self._stated | more)

    def __repr__(self) -> str:
        columns = {None: "any number of columns", 1: "1 column"}
        width = columns.get(self.dimension, f"{self.dimension} columns")
        lines = (f"{name.replace('_', ' '):<19}{getattr(self, name)!r}" for name in QUESTIONS)
        return "\n".join([f"{self.kernel!r} on points of {width}", *lines])

    # ---- answers -----------------------------------------------------------------------------

    @cached_property
    def positive_definite(self) -> Answer:
        """Σ_ij v_i v_j k(x_i, x_j) ≥ 0 for all points."""
        known = self._known("positive_definite")
        if known is not None:
            return known
        claim = getattr(self.kernel, "positive_definite", None)  # True, False, or a reason
        if claim is not None:
            reason = claim if isinstance(claim, str) else "it is stated to be"
            return yes(reason) if claim else no("it is stated not to be")
        if self.finite_features.yes:
            return self.finite_features
        name = type(self.kernel).__name__
        place = f"`positive_definite = True` in the class {name}"
        if hasattr(self.kernel, "positive_definite"):
            place = f"{name}(…, positive_definite=True)"
        advice = f"If it is, write {place}; kernel.check(X) tests it."
        return replace(self._nothing(), advice=advice)

    @cached_property
    def stationary(self) -> Answer:
        """k(x + h, y + h) = k(x, y)."""
        return first(self._known("stationary"), self._growing, self._nothing)

    @cached_property
    def isotropic(self) -> Answer:
        """k is a function of ‖x − y‖ alone."""
        return first(self._by_shifts, lambda: self._known("isotropic"), self._nothing)

    @cached_property
    def bounded(self) -> Answer:
        """k(x, x) ≤ R², the payload; a no says that k(tu, tu) → ∞ as t → ∞ for all u > 0."""
        return first(self._known("bounded"), self._nothing)

    @cached_property
    def universal(self) -> Answer:
        """The space is dense in the continuous functions on every compact set."""
        if self.like is not None:
            return self.like.universal
        if self.blind:
            return no("it cannot tell apart points that differ in the other columns")
        return self.dense

    @cached_property
    def dense(self) -> Answer:
        """The space is dense in the continuous functions of the columns that k depends on."""
        return first(self._known("universal"), self._small, self._nothing)

    @cached_property
    def sobolev_order(self) -> Answer:
        """The space is, on bounded sets, the Sobolev space of the order in the payload.

        Where the kernel has a period, a space of functions on the circle is meant.
        """
        return first(self._known("sobolev_order"), self._no_space, self._nothing)

    @cached_property
    def spectral_density(self) -> Answer:
        """k(x − y) = ∫ p(ω) cos(ω·(x − y)) dω; the payload is a `SpectralMeasure`."""
        return first(self._known("spectral_density"), self._shifted, self._nothing)

    @cached_property
    def fourier_weights(self) -> Answer:
        """k(x, y) = Σ_m e^{2iπm(x−y)/period}/c_m, one column; the payload is `FourierWeights`."""
        known = first(self._known("fourier_weights"), self._shifted, self._nothing)
        once = known.unknown and self.vanishes
        return no("it tends to 0 far away, so it does not repeat") if once else known

    @cached_property
    def finite_features(self) -> Answer:
        """k(x, y) = ⟨φ(x), φ(y)⟩ with finitely many features."""
        return first(self._known("finite_features"), self._nothing)

    # ---- plain facts; False and None mean: not known -------------------------------------------

    @cached_property
    def positive_values(self) -> bool:
        """k(x, y) > 0 for all x and y."""
        return bool(self._value("positive_values"))

    @cached_property
    def vanishes(self) -> bool:
        """k is a function of x − y, not zero, that tends to 0 as x − y goes to infinity."""
        return bool(self._value("vanishes"))

    @cached_property
    def constant_diagonal(self) -> bool:
        """k(x, x) is one positive number for all x."""
        if self._value("constant_diagonal") or self.constant is not None:
            return self.constant != 0
        return self.stationary.yes and self.positive_definite.yes

    @cached_property
    def separates(self) -> bool:
        """The functions of the space tell any two points apart."""
        return bool(self._value("separates")) or self.universal.yes

    @cached_property
    def constant(self) -> float | None:
        """c where k(x, y) = c ≥ 0."""
        return self._value("constant")

    @cached_property
    def columns(self) -> frozenset[Any] | None:
        """The columns that k depends on, by number or name; None where it is all of them."""
        return self._value("columns")

    @cached_property
    def period(self) -> float | None:
        """With which k repeats on one column, 0 for a constant."""
        inner = self._value("period")
        return self.fourier_weights.payload.period if self.fourier_weights.yes else inner

    @property
    def blind(self) -> bool:
        """Some column is not looked at, which is so where their number is open."""
        if self.columns is None:
            return False
        return self.dimension is None or len(self.columns) < self.dimension

    # ---- where answers come from ----------------------------------------------------------------

    def _value(self, name: str) -> Any:
        """The stated fact, or that of a kernel with the same facts."""
        if name in self._stated or self.like is None:
            return self._stated.get(name)
        return getattr(self.like, "dense" if name == "universal" else name)

    def _known(self, name: str) -> Answer | None:
        answer: Any = self._value(name)
        if not callable(answer):
            return answer
        if self.dimension is None and name in ("sobolev_order", "spectral_density"):
            return unknown("it depends on the number of columns: write facts(dimension=d)")
        return answer(self.dimension)

    def _nothing(self) -> Answer:
        return unknown(f"nothing is known of {type(self.kernel).__name__}")

    def _growing(self) -> Answer | None:
        if not self.bounded.no:
            return None
        return no("k(x, x) grows without bound, and that of a stationary kernel is constant")

    def _shifted(self) -> Answer | None:
        shifts = self.stationary
        return no(f"it is not stationary: {shifts.because}") if shifts.no else None

    def _by_shifts(self) -> Answer | None:
        """Invariance under motions where shifts decide it: in one column, or if shifts change k."""
        if self.dimension == 1 and self.stationary.yes:
            return yes("in one column a stationary kernel is a function of |x − y|")
        return self._shifted()

    def _no_space(self) -> Answer | None:
        if not self.positive_definite.no:
            return None
        return no("it is not positive definite, so it has no space")

    def _small(self) -> Answer | None:
        """Spaces that are not dense: none, or of finite dimension."""
        if self.finite_features.yes and not self.positive_definite.no:
            return no("its space has a finite dimension")
        return self._no_space()


def constant_facts(kernel: Any, value: float, dimension: int | None) -> Facts:
    """The facts of a kernel that is the constant c ≥ 0."""
    if value == 0:
        density: Any = no("it is zero")
    else:
        density = lambda d: no("all its mass is at frequency 0", Zero(d, value))  # noqa: E731
    return Facts(
        kernel,
        dimension,
        positive_definite=yes("it is a nonnegative constant"),
        stationary=yes("it is constant"),
        isotropic=yes("it is constant"),
        bounded=yes("it is constant", value),
        sobolev_order=yes("its functions are constant", math.inf),
        spectral_density=density,
        fourier_weights=yes("it is constant", FourierWeights.finite([value])),
        finite_features=yes("it has one feature, a constant"),
        positive_values=value > 0,
        constant=value,
        columns=frozenset(),
    )
