"""What compiled code is made of: the text of a module and of all it imports from mercer.

Numba keeps a compiled function as long as its own file is unchanged, and does not see when a
function, or a constant, that it took from another file changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mercer

ROOT = Path(mercer.__file__).parent
IMPORT = re.compile(r"^from (mercer[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


@cache
def fingerprint(*modules: str) -> str:
    """A digest that changes with any of these modules and with what they import from mercer.

    >>> fingerprint("mercer.evaluation.minimax") == fingerprint("mercer.evaluation.tables")
    False
    """
    digest = hashlib.sha256()
    for path in sorted(_reached(modules)):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _reached(modules: tuple[str, ...]) -> set[Path]:
    """The files of the modules, of what these import, and so on."""
    found: set[Path] = set()
    waiting = [path for module in modules if (path := _file_of(module))]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(_imported(path.read_text(encoding="utf-8")))
    return found


def _imported(text: str) -> Iterator[Path]:
    """The file of each imported name: a module's own, or that of the module it comes from."""
    for module, names in IMPORT.findall(text):
        for name in re.findall(r"\w+", re.sub(r" as \w+|#.*", "", names)):
            path = _file_of(f"{module}.{name}") or _file_of(module)
            if path:
                yield path


def _file_of(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split(".")[1:])
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None
