"""Arrays of numbers in NPY and NPZ files of any origin.

NumPy reads an array's header as Python, warns of old ones, and fails as any wrong Python does. Here the header is
matched with patterns and never evaluated, and its sizes are compared with the file's before anything is allocated.
"""

from __future__ import annotations

import errno
import math
import os
import re
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from slabsvm.files.archives import DAMAGED, opened
from slabsvm.runtime.counting import counted
from slabsvm.tables.cells import TableError, shown

MAGIC = b"\x93NUMPY"
# How the header's length is written, by the version of the format.
LENGTHS = {1: "<H", 2: "<I", 3: "<I"}
LONGEST_HEADER = 10_000
# Their order is free.
FIELDS = (
    re.compile(rb"'descr' *: *'([^']{1,40})'"),
    re.compile(rb"'fortran_order' *: *(True|False)"),
    re.compile(rb"'shape' *: *\(((?:\d{1,19}L?, *)*(?:\d{1,19}L?)?) *\)"),
)
NUMBERS = re.compile(r"[<>|=]?(b1|[iu][1248]|f(2|4|8|12|16))")
# A member of an archive, its entry in the directory and its header, deflated.
BYTES_BY_MEMBER = 150
MOST_MEMBERS = 100_000
# Deflated bytes hold no more than some thousand times as many.
MOST_DEFLATED = 1100
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
AT_ONCE = 2**22
EXTENSION = ".npy"
# A table has 2. NumPy has arrays of 32 or 64, by its version, whose shape would fill a screen.
MOST_DIMENSIONS = 8

# Raises TableError with what is wrong.
Refuse = Callable[[str], NoReturn]


@dataclass(frozen=True)
class _Header:
    """What stands before an array: its dtype and shape, whether it is written by columns, and where it begins."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    by_columns: bool
    start: int

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def order(self) -> Any:
        """The order of the values, as NumPy calls it."""
        return "F" if self.by_columns else "C"


def mapped(path: Path) -> npt.NDArray[Any]:
    """Return the array of an NPY file, as a memory map.

    Raises
    ------
    TableError
        It is no such file, or of other values than numbers; the text says what is wrong.
    OSError
    """
    with path.open("rb") as file:
        if file.read(4).startswith(b"PK\x03\x04"):
            raise TableError("it is an archive of arrays. Say so (format): npz")
        file.seek(0)
        header = _header(file, _refuse_npy)
        size = file.seek(0, os.SEEK_END) - header.start
        if header.nbytes > size:
            _refuse_npy(f"it claims the shape {header.shape} of {header.dtype}, and has {size:,} bytes for that")
    if not header.nbytes:
        return _empty(header, _refuse_npy)
    return np.memmap(path, header.dtype, "r", offset=header.start, shape=header.shape, order=header.order)


def unpacked(path: Path, name: str | None) -> npt.NDArray[Any]:
    """Return an array of an NPZ file, of several the one of this name.

    Raises
    ------
    TableError
        It is no such file, holds no such array, or one of other values than numbers; the text says what is wrong.
    OSError
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            raise TableError("it is one array. Say so (format): npy")
        try:
            size = file.seek(0, os.SEEK_END)
            return _of_archive(opened(file, BYTES_BY_MEMBER, MOST_MEMBERS), name, size)
        except TableError:
            raise
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _refuse_npz("it leads out of the file")
        except DAMAGED as error:
            _refuse_npz("it begins as nothing that NumPy writes" if "not a zip file" in str(error) else _said(error))


def _of_archive(archive: zipfile.ZipFile, name: str | None, size: int) -> npt.NDArray[Any]:
    """Return an array of an archive of so many bytes, whose directory may claim any."""
    members = {
        info.filename.removesuffix(EXTENSION): info for info in archive.infolist() if info.filename.endswith(EXTENSION)
    }
    if not members:
        _refuse_npz("it holds no array")
    if name is None and len(members) != 1:
        raise TableError(f"it holds {len(members)} arrays, {listed(list(members))}. Say which one (array)")
    name = next(iter(members)) if name is None else name
    if name not in members:
        raise TableError(f"it holds no array {shown(name)}, but {listed(list(members))}")
    info = members[name]
    if info.compress_type not in METHODS:
        _refuse_npz(f"{shown(name)} is compressed in a way that is not NumPy's")
    with archive.open(info) as member:
        header = _header(member, _refuse_npz)
        claimed = header.start + header.nbytes
        if claimed != info.file_size or claimed > MOST_DEFLATED * (1 + min(info.compress_size, size)):
            _refuse_npz(f"{shown(name)} claims the shape {header.shape} of {header.dtype}, and has no bytes for that")
        array = _empty(header, _refuse_npz)
        target = (array.T if header.by_columns else array).reshape(-1).view(np.uint8).data
        filled = 0
        while piece := member.read(min(AT_ONCE, len(target) - filled) or 1):
            target[filled : filled + len(piece)] = piece
            filled += len(piece)
        if filled < len(target):
            _refuse_npz(f"{shown(name)} ends before its last value")
    return array


def _header(file: Any, refuse: Refuse) -> _Header:
    """Read what stands before an array."""
    start = file.read(len(MAGIC) + 2)
    if start[: len(MAGIC)] != MAGIC or len(start) < len(MAGIC) + 2 or start[-2] not in LENGTHS:
        refuse("it begins as nothing that NumPy writes")
    form = LENGTHS[start[-2]]
    size = file.read(struct.calcsize(form))
    length = struct.unpack(form, size)[0] if len(size) == struct.calcsize(form) else 0
    text = file.read(min(length, LONGEST_HEADER))
    found = [pattern.findall(text) for pattern in FIELDS]
    if len(text) != length or any(len(one) != 1 for one in found):
        refuse("its header is not that of an array of numbers")
    descr = found[0][0].decode("latin-1")
    if descr == "|O":
        refuse("it holds Python objects")
    shape = tuple(int(number) for number in re.findall(rb"\d+", found[2][0]))
    if len(shape) > MOST_DIMENSIONS:
        refuse(f"it claims {len(shape)} dimensions")
    return _Header(_dtype(descr, refuse), shape, found[1][0] == b"True", len(start) + len(size) + length)


def _dtype(descr: str, refuse: Refuse) -> np.dtype[Any]:
    if NUMBERS.fullmatch(descr):
        # Long floats have 12 bytes on some platforms, 16 on others, and there are none on the rest.
        with suppress(TypeError):
            return np.dtype(descr)
    refuse(f"it holds values of the type {shown(descr)}")


def _empty(header: _Header, refuse: Refuse) -> npt.NDArray[Any]:
    try:
        return np.empty(header.shape, header.dtype, order=header.order)
    except (ValueError, OverflowError):
        refuse(f"it claims the shape {header.shape}")


def _said(error: BaseException) -> str:
    """Return what an error says; where it says nothing, the archive ended."""
    return str(error) or "it ends too early"


def _refuse_npy(why: str) -> NoReturn:
    raise TableError(f"it is no NPY file of numbers, or was cut short: {why}")


def _refuse_npz(why: str) -> NoReturn:
    raise TableError(f"it is no NPZ file of numbers, or was cut short: {why}")


def listed(names: list[str]) -> str:
    """Return the first of some names, for an error."""
    return ", ".join(map(shown, names[:5])) + (f" and {counted(len(names) - 5, 'other')}" if len(names) > 5 else "")
