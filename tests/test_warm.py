"""Compiling ahead, and the line that is said where someone waits for it."""

from __future__ import annotations

import io
import sys

from mercer import warm
from mercer.kernels import Gaussian
from mercer.runtime import cache


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_one_line_is_said_at_the_first_compilation_where_someone_watches(monkeypatch, tmp_path):
    monkeypatch.setenv("MERCER_CACHE", str(tmp_path))
    for stream, lines in ((Terminal(), 1), (io.StringIO(), 0)):
        monkeypatch.setattr(sys, "stderr", stream)
        cache.announce_compilation.cache_clear()
        for name in "ab":
            assert cache.load(f"{name}{lines} = 1\n") is not None
        assert stream.getvalue().count("mercer: compiling for this machine, once") == lines
        assert len(stream.getvalue().splitlines()) == lines
    cache.announce_compilation.cache_clear()


def test_what_is_compiled_ahead_is_what_estimators_use():
    told = []
    warm.warm((Gaussian(1.0),), told.append)
    assert told[0].startswith("Gaussian(lengthscale=1.0) in float64: ")
    assert told[-1].startswith("All is compiled after ")
    assert len(told) == 10
