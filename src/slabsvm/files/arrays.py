"""Tables of numbers in NPY and NPZ files of any origin."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from slabsvm.files.archives import DAMAGED, MAGIC, ArrayError, Header, opened
from slabsvm.runtime.counting import counted
from slabsvm.tables.cells import TableError, shown

# A member of an archive, its entry in the directory and its header, deflated.
BYTES_BY_MEMBER = 150
MOST_MEMBERS = 100_000
# Deflated bytes hold no more than some thousand times as many.
MOST_DEFLATED = 1100
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
EXTENSION = ".npy"


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
        try:
            header = Header.of(file, "it")
            size = file.seek(0, os.SEEK_END) - header.start
            if header.nbytes > size:
                _refuse_npy(f"it claims the shape {header.shape} of {header.dtype}, and has {size:,} bytes for that")
            if not header.nbytes:
                return header.empty()
        except ArrayError as error:
            _refuse_npy(str(error))
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
        header = Header.of(member, shown(name))
        claimed = header.start + header.nbytes
        if claimed != info.file_size or claimed > MOST_DEFLATED * (1 + min(info.compress_size, size)):
            _refuse_npz(f"{shown(name)} claims the shape {header.shape} of {header.dtype}, and has no bytes for that")
        return header.values(member)


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
