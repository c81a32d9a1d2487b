"""Compiled code on disk, so that a second process does not compile.

Numba caches only what has a file. The file lies in a folder that belongs to the user alone
(mode 0700, owner checked), is written under a temporary name and renamed, and is compared with
the text that was generated before anything of it runs; what runs is the text in memory. Where no
such folder can be had, the code is compiled in memory.

Numba uses a compiled function again as long as its own file is unchanged, and does not see when a
function, or a constant, that it took from another file changes. So the text carries a fingerprint
of all it is built from.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import os
import re
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import njit

from mercer.version import __version__

ROOT = Path(__file__).parents[1]  # of the package, which imports all layers for type checkers
IMPORT = re.compile(r"^from (mercer[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


def cache_folder() -> Path:
    """`MERCER_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("MERCER_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "mercer"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/mercer"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mercer"


@cache
def load(source: str) -> ModuleType:
    """The module with this source, from the cache where that is safe."""
    key = hashlib.sha256(source.encode()).hexdigest()
    name, path = f"mercer_generated_{key}", _stored(source, key)
    filename = str(path) if path else f"<{name}>"
    module = ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module  # Numba looks the module up by name when it loads cached code
    if path is None:
        source = source.replace("cache=True, ", "")
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), module.__dict__)
    return module


def compiled_on_disk(function: Any, options: dict[str, Any], compiler: Any = njit) -> Any:
    """Compile a function of the package on its first call, and store the result in the same folder.

    Numba is shown a copy of the function's file with the fingerprint of all it is built from, so
    that what was compiled from other text is not used.
    """
    text = inspect.getsource(sys.modules[function.__module__])
    text += f"\n# on top of {fingerprint(function.__module__)}\n"
    path = _stored(text, hashlib.sha256(text.encode()).hexdigest())
    if path is None:
        return compiler(**options)(function)
    function.__code__ = function.__code__.replace(co_filename=str(path))
    try:
        return compiler(cache=True, **options)(function)
    except RuntimeError:  # the folder beside the file cannot be written to
        return compiler(**options)(function)


def _stored(source: str, key: str) -> Path | None:
    """Where the source lies on disk, put there if need be; None if no folder is safe."""
    try:
        folder = _private_folder(cache_folder() / __version__)
        path = folder / f"{key}.py"
        if not _holds(path, source):
            announce_compilation()
            handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(source)
            os.replace(temporary, path)
        return path if _holds(path, source) else None
    except (OSError, RuntimeError):
        return None


@cache
def announce_compilation() -> None:
    """Tell someone who is waiting why: code that was never compiled here is about to be."""
    watched = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    if watched:
        print(
            "mercer: compiling for this machine, once, which takes some seconds; "
            "python -m mercer.warm compiles ahead what common kernels need.",
            file=sys.stderr,
        )


def _private_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(f"{folder} is not a folder.")
    if hasattr(os, "getuid"):
        if status.st_uid != os.getuid():
            raise OSError(f"{folder} belongs to another user.")
        if stat.S_IMODE(status.st_mode) & 0o022:
            raise OSError(f"{folder} can be written by others.")
        folder.chmod(0o700)
    return folder


def _holds(path: Path, source: str) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == source.encode()


# ---- fingerprints --------------------------------------------------------------------------------


@cache
def fingerprint(*modules: str, root: Path = ROOT) -> str:
    """A digest that changes with any of these modules and with what they import from mercer.

    >>> fingerprint("mercer.evaluation.minimax") == fingerprint("mercer.evaluation.tables")
    False
    """
    digest = hashlib.sha256()
    for path in sorted(reached(modules, root)):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def reached(modules: tuple[str, ...], root: Path = ROOT) -> set[Path]:
    """The files of the modules, of what these import from mercer, and so on."""
    files: set[Path] = set()
    waiting = [path for module in modules if (path := _file_of(module, root))]
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for module, names in IMPORT.findall(path.read_text(encoding="utf-8")):
            for name in re.findall(r"\w+", re.sub(r" as \w+|#.*", "", names)):
                # a module of its own, or a name of the module it comes from
                imported = _file_of(f"{module}.{name}", root) or _file_of(module, root)
                waiting += [imported] if imported else []
    return files


def _file_of(module: str, root: Path) -> Path | None:
    place = root.joinpath(*module.split(".")[1:])
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None
