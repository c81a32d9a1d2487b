"""Symbols and structures as 64-bit numbers, the same in every process.

A feature of a string, tree or graph (a word, a subtree, a label with its neighbours) is known by a
hash of 64 bits. So points that are seen later need no table of what was seen before: an unseen word
is simply another number. Two of f different features share a number with probability f²/2⁶⁵, which
is 3·10⁻⁸ for a million of them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

Hashes = np.ndarray  # of uint64; sums and products wrap around

_STEP = 0x9E3779B97F4A7C15  # 2⁶⁴ divided by the golden ratio: salts far apart


def mixed(values: Any, salt: Any = 0) -> Hashes:
    """A random-looking one-to-one map of 64-bit numbers: the finaliser of SplitMix64.

    Other salts, one or one for each value, make other maps.

    References
    ----------
    Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014.

    Examples
    --------
    >>> codes = mixed(np.arange(1000))
    >>> len(set(codes.tolist()))
    1000
    """
    z = np.asarray(values)
    z = z if z.dtype == np.uint64 else z.astype(np.int64).view(np.uint64)
    with np.errstate(over="ignore"):
        z = z + (np.asarray(salt).astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def token_code(token: Any) -> int:
    """A token as a 64-bit number: a whole number is itself, text and tuples are hashed.

    >>> token_code(7), token_code("seven") == token_code("seven")
    (7, True)
    """
    if isinstance(token, (float, np.floating)) and float(token).is_integer():
        token = int(token)  # equal to it, as keys of a dictionary are
    if isinstance(token, (int, np.integer)) and -(2**63) <= token < 2**63:
        return int(token)
    digest = hashlib.blake2b(_spelled(token), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _spelled(token: Any) -> bytes:
    """A token as bytes, different for different tokens."""
    if isinstance(token, str):
        return b"s" + token.encode("utf-8", "surrogatepass")
    if isinstance(token, bytes):
        return b"b" + token
    if isinstance(token, (int, np.integer)):
        return b"i" + str(int(token)).encode()
    if isinstance(token, (float, np.floating)):
        return b"f" + float(token).hex().encode()
    if token is None:
        return b"n"
    if isinstance(token, tuple):
        parts = [_spelled(part) for part in token]
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    raise TypeError(
        f"{token!r} cannot be a symbol: symbols are text, bytes, numbers, None or tuples of those"
    )


class Coder:
    """Codes of tokens, each computed once; `tokens` leads back from code to token."""

    def __init__(self) -> None:
        self.codes: dict[Any, int] = {}
        self.tokens: dict[int, Any] = {}

    def code(self, token: Any) -> int:
        if type(token) is int and -(2**63) <= token < 2**63:
            return token
        if token not in self.codes:
            self.codes[token] = token_code(token)
            self.tokens[self.codes[token]] = token
        return self.codes[token]
