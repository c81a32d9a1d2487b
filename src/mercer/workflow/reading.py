"""Tables by path: CSV, Parquet, Feather and npz files, whole or in blocks of rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mercer.checks import check_count

READ_ROWS = 65_536
TEXTS = (".csv", ".tsv", ".txt")
ARROW = (".feather", ".arrow", ".ipc")
BLOCKS = (".parquet", *ARROW)
ENDINGS = (*TEXTS, *BLOCKS, ".npz")


class TableError(ValueError):
    """A file is no table that can be read."""


def _polars() -> ModuleType:
    try:
        import polars
    except ImportError:
        raise TableError(
            "reading files takes polars: pip install 'mercer[cli]', or read the table yourself and "
            "pass a DataFrame."
        ) from None
    return polars


def read_table(source: Any, columns: Sequence[str] | None = None) -> Any:
    r"""The table in a file, or in the bytes of a CSV file; a DataFrame of polars, npz a dictionary.

    Parameters
    ----------
    source : path or bytes
    columns : list of str, optional
        All by default.

    Examples
    --------
    >>> read_table(b"a,b\n1,2\n").columns
    ['a', 'b']
    """
    if isinstance(source, bytes):
        return _chosen(_csv(_polars(), io.BytesIO(source), "standard input"), columns)
    path = Path(source)
    _check(path)
    if path.suffix == ".npz":
        return _npz(path, columns)
    pl = _polars()
    if path.suffix in TEXTS:
        return _chosen(_csv(pl, path, path.name), columns)
    try:
        read = pl.read_parquet if path.suffix == ".parquet" else pl.read_ipc
        return read(path, columns=None if columns is None else list(columns))
    except Exception as refusal:  # of polars, whatever it is
        raise TableError(f"{path} cannot be read: {_first_line(refusal)}") from None


def _check(path: Path, endings: Sequence[str] = ENDINGS) -> None:
    if path.suffix not in endings:
        what = "a table" if endings is ENDINGS else "a table that is read in blocks"
        raise TableError(
            f"{path} ends in {path.suffix!r}; {what} is a file that ends in one of "
            f"{', '.join(endings)}."
        )
    if not path.is_file():
        raise TableError(f"there is no file {path}.")


def _csv(pl: ModuleType, source: Any, name: str) -> Any:
    separator = "\t" if isinstance(source, Path) and source.suffix == ".tsv" else ","
    missing = ["", "NA", "N/A", "nan", "NaN", "null", "None", "?"]
    try:
        frame = pl.read_csv(
            source,
            separator=separator,
            null_values=missing,
            infer_schema_length=None,
            try_parse_dates=True,
        )
    except Exception as refusal:  # of polars, whatever it is
        why = _odd_line(source, separator) or _first_line(refusal)
        raise TableError(f"{name} is no CSV table: {why}") from None
    if frame.width and frame[:, -1].null_count():  # polars fills up lines that are too short
        why = _odd_line(source, separator)
        if why:
            raise TableError(f"{name} is no CSV table: {why}")
    return frame


def _odd_line(source: Any, separator: str) -> str:
    """The first line with more or fewer fields than the header, in words; else nothing."""
    text = (
        source.read_text("utf-8", "replace")
        if isinstance(source, Path)
        else source.getvalue().decode("utf-8", "replace")
    )
    if not text.strip():
        return "it is empty."
    rows = csv.reader(io.StringIO(text), delimiter=separator)
    header = next(rows)
    for row in rows:
        if row and len(row) != len(header):
            return f"line {rows.line_num} has {len(row)} fields, the header {len(header)}."
    return ""


def _chosen(frame: Any, columns: Sequence[str] | None) -> Any:
    return frame if columns is None else frame.select(list(columns))


def _first_line(refusal: Exception) -> str:
    text = str(refusal).strip() or type(refusal).__name__
    return text.splitlines()[0][:200]


def _npz(path: Path, columns: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Arrays by name; a matrix X becomes the columns x0, x1, …."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except Exception as refusal:  # damaged archives raise many kinds
        raise TableError(f"{path} cannot be read: {_first_line(refusal)}") from None
    rows = max((len(array) for array in arrays.values() if array.ndim), default=0)
    table: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1 and len(array) == rows:
            table[name] = array
        elif array.ndim == 2 and len(array) == rows:
            table |= {f"{name.lower()}{i}": array[:, i] for i in range(array.shape[1])}
    if not table:
        raise TableError(f"{path} holds no columns: arrays with one number or text for each row.")
    return table if columns is None else {name: table[name] for name in columns}


# ---- blocks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableBlocks:
    """Rows of a Parquet or Feather file as blocks of numbers, read anew in every pass.

    Pass it as X to estimators with `centres`, which take rows in blocks: the file is never in
    memory as a whole.

    Parameters
    ----------
    path : path
    columns : sequence of str
        Columns of numbers.
    rows : int, default=65536
        In a block.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "t.parquet")
    ...     pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}).write_parquet(path)
    ...     [block.tolist() for block in TableBlocks(path, ["b", "a"], rows=2)]
    [[[4.0, 1.0], [5.0, 2.0]], [[6.0, 3.0]]]
    """

    path: Any
    columns: Sequence[str]
    rows: int = READ_ROWS

    def __post_init__(self) -> None:
        check_count(self, "rows", self.rows)
        _check(Path(self.path), BLOCKS)

    def __iter__(self) -> Iterator[np.ndarray]:
        rows = self._scanned().select(list(self.columns))
        for start in range(0, len(self), self.rows):
            yield rows.slice(start, self.rows).collect().to_numpy().astype(np.float64)

    def __len__(self) -> int:
        """The number of rows in the file."""
        return int(self._scanned().select(_polars().len()).collect().item())

    def _scanned(self) -> Any:
        pl, path = _polars(), Path(self.path)
        return pl.scan_parquet(path) if path.suffix == ".parquet" else pl.scan_ipc(path)

    def column(self, name: str) -> np.ndarray:
        """One column as a whole, as the target."""
        return np.asarray(read_table(self.path, [name])[name])
