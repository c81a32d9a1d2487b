from __future__ import annotations

import math

import pytest

from mercer.runtime.budget import Tuning, free_memory, memory_budget


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64MB", 64 << 20),
        ("1.5 gb", int(1.5 * 2**30)),
        (" 10 kb ", 10240),
        ("100", 100),
        (4096, 4096),
        ("2.GB", 2 << 30),
        ("1tb", 1 << 40),
    ],
)
def test_texts(text, expected):
    assert memory_budget(text) == expected


@pytest.mark.parametrize("text", ["lots", "12 parsecs", "", "1.2.3MB", "-5MB", "MB", "1e9", True])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="number of bytes or a text like '500MB' or '2GB'; got"):
        memory_budget(text)


@pytest.mark.parametrize("amount", [0, -1, "0MB"])
def test_nothing_is_refused(amount):
    with pytest.raises(ValueError, match="memory must be positive; got"):
        memory_budget(amount)


def test_the_environment_decides_where_nothing_was_said(monkeypatch):
    monkeypatch.setenv("MERCER_MEMORY", "70MB")
    assert memory_budget() == 70 << 20
    assert memory_budget("80MB") == 80 << 20


def test_a_share_of_what_is_free_otherwise(monkeypatch):
    monkeypatch.delenv("MERCER_MEMORY", raising=False)
    tuning = Tuning(share=0.5, seconds=0.0)
    assert memory_budget(tuning=tuning) == pytest.approx(0.5 * free_memory(), rel=0.2)
    kept = Tuning(share=0.5, seconds=math.inf)
    assert memory_budget(tuning=kept) == memory_budget(tuning=kept)


def test_free_memory_is_a_number_of_bytes():
    assert free_memory() > 1 << 20
