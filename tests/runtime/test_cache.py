"""Compiled code on disk: found again, never run unless it is ours to the letter."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest
from numba import njit

import markets
import mercer
from mercer.evaluation.cpu import loops
from mercer.evaluation.cpu.source import makes_values, source_of
from mercer.evaluation.program import lower
from mercer.kernels import Gaussian, Linear, Matern
from mercer.runtime import cache
from mercer.runtime.cache import fingerprint, reached
from processes import output_of

SOURCE = "VALUE = 'ours'\n"
FOREIGN = "VALUE = 'foreign'\nraise SystemExit('it ran')\n"
load = cache.load.__wrapped__  # without its memory of what this process loaded


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MERCER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / mercer.__version__


def stored(folder):
    (path,) = folder.glob("*.py")
    return path


def in_memory(module):
    return module.__file__.startswith("<")


def test_the_folder_is_private(folder):
    module = load(SOURCE)
    assert module.VALUE == "ours"
    assert module.__file__ == str(stored(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_to_is_not_used(folder):
    folder.mkdir(parents=True, mode=0o777)
    folder.chmod(0o777)
    assert load(SOURCE).VALUE == "ours"
    assert not list(folder.iterdir())


def test_a_folder_that_others_can_read_is_closed(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    load(SOURCE)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", [FOREIGN.encode(), b""], ids=["code", "empty"])
def test_an_edited_file_does_not_run(folder, text):
    load(SOURCE)
    stored(folder).write_bytes(text)
    assert load(SOURCE).VALUE == "ours"
    assert stored(folder).read_text() == SOURCE


def test_a_garbled_file_does_not_matter(folder):
    load(SOURCE)
    stored(folder).write_bytes(b"\xff\xfe")
    assert load(SOURCE).VALUE == "ours"


def test_a_symbolic_link_is_not_followed(folder, tmp_path):
    load(SOURCE)
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(FOREIGN)
    path = stored(folder)
    path.unlink()
    path.symlink_to(elsewhere)
    assert load(SOURCE).VALUE == "ours"
    assert not path.is_symlink()
    assert elsewhere.read_text() == FOREIGN


def test_a_linked_folder_is_not_used(folder, tmp_path):
    (tmp_path / "theirs").mkdir()
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "theirs")
    assert in_memory(load(SOURCE))
    assert not list((tmp_path / "theirs").iterdir())


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    module = load(SOURCE)
    assert module.VALUE == "ours"
    assert in_memory(module)
    assert not list(folder.iterdir())


def test_without_a_folder_code_runs_in_memory(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MERCER_CACHE", str(tmp_path / "file"))
    module = load(SOURCE)
    assert module.VALUE == "ours"
    assert in_memory(module)


PRODUCT = """
import numpy as np
from mercer.evaluation.cpu import loops
from mercer.kernels import RationalQuadratic

X = np.linspace(0, 1, 50)[:, None]
gram = RationalQuadratic(1.0, 0.5).gram(X)
assert np.allclose(gram @ np.ones(50), (1 / (1 + 2 * (X - X.T) ** 2)).sum(axis=1))
own = gram.execution().operands.code.functions["reduce"]
loop = loops.reduce.stats
hits = [sum(loop.cache_hits.values()), own.cache_hits]
print(own.__wrapped__.__code__.co_filename.startswith("<"), hits, sum(loop.cache_misses.values()))
"""


def test_a_second_process_does_not_compile(tmp_path):
    assert output_of(PRODUCT, MERCER_CACHE=str(tmp_path)) == "False [0, 0] 1"
    assert output_of(PRODUCT, MERCER_CACHE=str(tmp_path)) == "False [1, 1] 0"


def test_products_need_no_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert output_of(PRODUCT, MERCER_CACHE=str(tmp_path / "file")).startswith("True")


def test_fifty_lengthscales_compile_once():
    scales = [0.1 * i for i in range(1, 51)]
    programs = [lower(Gaussian(scale).expression()) for scale in scales]
    assert len({program.structure for program in programs}) == 1
    assert len({program.parameters for program in programs}) == 50
    assert len({id(cache.load(source_of(program, "float32"))) for program in programs}) == 1


def test_columns_and_lengthscales_of_columns_share_code():
    kernels = [Matern(1.5), Matern(1.5, [1.0, 2.0]), Matern(1.5, 3.0).on([1, 0])]
    assert len({lower(kernel.expression()).structure for kernel in kernels}) == 1


def test_other_kernels_and_precisions_have_other_code():
    kernels = [Gaussian(), Matern(0.5), Matern(1.5), Matern(2.5)]
    sources = {source_of(lower(k.expression()), d) for k in kernels for d in ("float32", "float64")}
    assert len(sources) == 8


def test_the_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("MERCER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache.sys, "platform", "linux")
    assert cache.cache_folder() == tmp_path / "mercer"
    monkeypatch.setattr(cache.sys, "platform", "darwin")
    assert cache.cache_folder().parts[-2:] == ("Caches", "mercer")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_structure_of_a_program_decides_its_code(dtype):
    """Compiled code is found by structure alone, so that a product need not write its text."""
    sources: dict[str, set[str]] = {}
    for kernel in markets.WITH_EXPRESSION.values():
        program = lower(kernel.expression())
        sources.setdefault(program.structure, set()).add(source_of(program, dtype))
    assert len(sources) > 20
    assert {len(texts) for texts in sources.values()} == {1}


def test_a_fingerprint_reaches_all_that_compiled_code_is_built_from():
    files = reached(("mercer.online.compiled.loop",))
    names = {path.name for path in files}
    assert {"loop.py", "budgets.py", "bumps.py", "state.py", "vectors.py", "minimax.py"} <= names
    assert "kernels" not in {path.parent.name for path in files}


def test_a_fingerprint_changes_with_what_is_imported(tmp_path):
    (tmp_path / "caller.py").write_text("from mercer.helper import (\n    LIMIT,  # own\n)\n")
    (tmp_path / "helper.py").write_text("LIMIT = 1\n")
    (tmp_path / "stranger.py").write_text("LIMIT = 1\n")
    before = fingerprint.__wrapped__("mercer.caller", root=tmp_path)
    (tmp_path / "stranger.py").write_text("LIMIT = 2\n")
    assert fingerprint.__wrapped__("mercer.caller", root=tmp_path) == before
    (tmp_path / "helper.py").write_text("LIMIT = 2\n")
    assert fingerprint.__wrapped__("mercer.caller", root=tmp_path) != before


def test_functions_of_the_package_are_stored_with_the_fingerprint_of_all_they_call(folder):
    compiled = cache.compiled_on_disk(twice.py_func, {})
    text = stored(folder).read_text()
    assert text.endswith(f"# on top of {fingerprint(__name__)}\n")
    assert compiled(4) == 8
    assert list((folder / "__pycache__").glob("*twice*.nbc"))


@njit
def twice(x):
    return x + x


def test_all_kernels_share_compiled_loops():
    X = np.eye(3)
    Matern(1.5)(X)
    compiled = list(loops.fill.signatures)
    (Gaussian() * Linear() + Matern(2.5))(X)
    assert loops.fill.signatures == compiled


def test_a_gaussian_needs_no_code_of_its_own():
    assert not makes_values(lower(Gaussian().expression()))
    assert makes_values(lower((2.0 * Gaussian()).expression()))
