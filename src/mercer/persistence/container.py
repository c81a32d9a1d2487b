"""The file: named arrays and texts in the safetensors format, with a checksum over all bytes.

A file is the length of its header (8 bytes), the header in JSON, and the bytes of the arrays. The
header begins with the checksum, at a fixed place, so that it can be computed over the whole file
with zeros in its place; other readers of safetensors find it among the metadata.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mercer.errors import ModelFileError

TYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "<u2", "I16": "<i2", "U32": "<u4",
    "I32": "<i4", "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
TYPE_NAMES = {np.dtype(code): name for name, code in TYPES.items()}
ALIGNMENT = 8
OPENING = b'{"__metadata__":{"sha256":"'
UNSIGNED = "0" * 64
DIGEST = slice(8 + len(OPENING), 8 + len(OPENING) + 64)


def write(path: Any, arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> Path:
    """Write arrays and texts to a file, as a whole or not at all."""
    return write_whole(path, _content(arrays, texts))


def write_whole(path: Any, content: bytes | bytearray) -> Path:
    """Write a file as a whole or not at all: under another name first, which is then replaced."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as refusal:
        temporary.unlink(missing_ok=True)
        full = refusal.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if full else str(refusal.strerror or refusal)
        raise OSError(refusal.errno, f"{target} was not written: {reason}") from refusal
    return target


def _content(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> bytearray:
    header: dict[str, Any] = {"__metadata__": {"sha256": UNSIGNED, **texts}}
    parts, start = [], 0
    for name, array in arrays.items():
        part = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        stop = start + len(part)
        header[name] = {
            "dtype": TYPE_NAMES[array.dtype.newbyteorder("<")],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        parts.append(part)
        start = stop
    described = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    described += b" " * (-len(described) % ALIGNMENT)
    content = bytearray(struct.pack("<Q", len(described)) + described + b"".join(parts))
    content[DIGEST] = hashlib.sha256(content).hexdigest().encode()
    return content


def read(path: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and texts of a file whose checksum is right; anything else is refused."""
    source = Path(path)
    try:
        content = bytearray(source.read_bytes())
    except OSError as refusal:
        raise ModelFileError(f"{source} cannot be read: {refusal.strerror}.") from None
    return parsed(content, source)


def parsed(content: bytearray, source: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and texts in the bytes of a file."""
    if content[8 : DIGEST.start] != OPENING:
        raise ModelFileError(f"{source} is not a model of mercer, or its beginning is damaged.")
    digest = bytes(content[DIGEST])
    content[DIGEST] = UNSIGNED.encode()
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise ModelFileError(
            f"{source} is damaged: its checksum is wrong. It was altered or cut off after it was "
            "written; take another copy, or save the model again."
        )
    try:
        (size,) = struct.unpack("<Q", content[:8])
        header = json.loads(bytes(content[8 : 8 + size]))
        texts = header.pop("__metadata__")
        return {name: _array(content, 8 + size, at) for name, at in header.items()}, texts
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as refusal:
        raise ModelFileError(f"{source} is not a model of mercer: {refusal}.") from None


def _array(content: bytearray, data: int, entry: Mapping[str, Any]) -> np.ndarray:
    start, stop = entry["data_offsets"]
    if not 0 <= start <= stop <= len(content) - data:
        raise ValueError("an array lies outside the file")
    values = np.frombuffer(bytes(content[data + start : data + stop]), TYPES[entry["dtype"]])
    return values.reshape(entry["shape"]).copy()
