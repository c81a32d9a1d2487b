"""Copies of rows on the card of a worker. Here the CPU stands for it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from mercer.evaluation import cluster as execution

pytest.importorskip("distributed")
torch = pytest.importorskip("torch")


def test_copies_on_a_card_end_with_the_rows(monkeypatch):
    monkeypatch.setattr(execution, "card", lambda: "cpu")
    monkeypatch.setattr(execution, "on_device", lambda values, device: torch.tensor(values))
    rows = np.ones((3, 2))
    key, copy = (id(rows), "cpu"), execution._resident(rows)
    assert execution._resident(rows) is copy
    del rows
    gc.collect()
    assert key not in execution._uploaded
