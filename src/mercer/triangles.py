"""Triangular systems on a device, for a few columns: panel by panel."""

from __future__ import annotations

from mercer.arrays import Array, namespace

PANEL = 1024  # rows of a triangle that are solved together


class Triangle:
    """A lower triangular tensor whose blocks on the diagonal are inverted beforehand.

    A solve for a few columns then reads the triangle once, where substitution waits for one row
    after the other. What the inverses lose is won back by one step of refinement, unless it is not
    `refined`.
    """

    def __init__(self, lower: Array, panel: int = PANEL, *, refined: bool = True) -> None:
        xp, self.lower, self.refined = namespace(lower), lower, refined
        self.spans = [(a, min(a + panel, len(lower))) for a in range(0, len(lower), panel)]
        self.inverses = [
            xp.linalg.solve_triangular(
                lower[a:b, a:b], xp.eye(b - a, dtype=lower.dtype, device=lower.device), upper=False
            )
            for a, b in self.spans
        ]

    def solve(self, b: Array) -> Array:
        """L⁻¹b, for columns b."""
        x = self._forward(b)
        return x + self._forward(b - self._product(x)) if self.refined else x

    def transposed_solve(self, b: Array) -> Array:
        """L⁻ᵀb."""
        x = self._backward(b)
        return x + self._backward(b - self._transposed_product(x)) if self.refined else x

    def _product(self, x: Array) -> Array:
        """Lx: whatever stands above the diagonal is not read."""
        return namespace(x).concat(
            [
                self.lower[a:b, :a] @ x[:a] + namespace(x).tril(self.lower[a:b, a:b]) @ x[a:b]
                for a, b in self.spans
            ]
        )

    def _transposed_product(self, x: Array) -> Array:
        return namespace(x).concat(
            [
                self.lower[b:, a:b].T @ x[b:] + namespace(x).tril(self.lower[a:b, a:b]).T @ x[a:b]
                for a, b in self.spans
            ]
        )

    def _forward(self, b: Array) -> Array:
        x = namespace(b).zeros_like(b)
        for (start, stop), inverse in zip(self.spans, self.inverses, strict=True):
            rest = b[start:stop] - self.lower[start:stop, :start] @ x[:start]
            x[start:stop] = inverse @ rest
        return x

    def _backward(self, b: Array) -> Array:
        x = namespace(b).zeros_like(b)
        for (start, stop), inverse in reversed(list(zip(self.spans, self.inverses, strict=True))):
            rest = b[start:stop] - self.lower[stop:, start:stop].T @ x[stop:]
            x[start:stop] = inverse.T @ rest
        return x
