"""Zip archives and NumPy's arrays of any origin: sizes are compared before anything is allocated."""

from __future__ import annotations

import errno
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from slabsvm.tables.cells import TableError, listed, shown

# How NumPy and skops pack the members of an archive.
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ArrayError(ValueError):
    """What should be an array of numbers is not, or has not the bytes that it claims."""


@contextmanager
def naming_damage(kind: type[ValueError], what: str) -> Iterator[None]:
    """Raise an error of a kind, which says what a file is not, for all that zipfile, NumPy or parsers raise where bytes
    are wrong; errors of this kind stay as they are.
    """
    try:
        yield
    except kind:
        raise
    except OSError as error:
        # Damaged archives may ask to read before the file's beginning; what else the system says is of no damage.
        if error.errno != errno.EINVAL:
            raise
        raise kind(f"{what}, or was cut short: it leads out of the file") from error
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError, RuntimeError) as error:
        # Where an error says nothing, the archive ended.
        raise kind(f"{what}, or was cut short: {str(error) or 'it ends too early'}") from error


def opened(file: BinaryIO) -> zipfile.ZipFile:
    """Return an archive, whose directory is counted before zipfile makes an object of some 300 bytes of each entry.

    Raises zipfile.BadZipFile where it names more members than one of its size has, and what `naming_damage` names.
    """
    size = file.seek(0, os.SEEK_END)
    # A member takes at least 150 bytes: its entry in the directory and its header, deflated. No file has 100,000.
    inner = _Counted(file, min(100_000, 1 + size // 150))
    archive = zipfile.ZipFile(inner)
    inner.most = None
    return archive


class _Counted:
    """A file for zipfile, which reads an archive's directory in one piece: a piece may hold most entries."""

    def __init__(self, file: BinaryIO, most: int | None) -> None:
        self._file = file
        self.most = most
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes, unless these are a directory of too many entries."""
        content = self._file.read(size)
        # The signature that stands before each entry of a directory.
        if self.most is not None and (found := content.count(b"PK\x01\x02")) > self.most:
            raise zipfile.BadZipFile(f"it holds {found:,} members, where one of its size has at most {self.most:,}")
        return content


@dataclass(frozen=True)
class Header:
    """What stands before an array."""

    dtype: np.dtype[Any]  # dtype of bool, int, unsigned int or float
    shape: tuple[int, ...]
    start: int  # where the values begin

    @classmethod
    def of(cls, file: Any, name: str, kinds: str = "biuf") -> Header:
        """Read what stands before an array; ArrayError where it holds objects, or is of no kind among these."""
        beginning = io.BytesIO(file.read(10_000))  # NumPy reads no longer header
        # By the version of the format; the third is for names of fields, which no array of numbers has.
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        try:
            shape, _, dtype = readers[npy.read_magic(beginning)](beginning)
        # A literal of Python that is none, or of no header, fails in many ways.
        except Exception as error:
            raise ArrayError(f"{name} begins as nothing that NumPy writes") from error
        # NumPy has 32 or 64 dimensions, by its version; a shape of these would fill a screen.
        if len(shape) > 8:
            raise ArrayError(f"{name} claims {len(shape)} dimensions")
        if not all(0 <= length < 2**64 for length in shape):
            raise ArrayError(f"{name} claims a length below 0, or beyond all memory")
        if dtype.hasobject:
            raise ArrayError(f"{name} holds Python objects")
        if dtype.kind not in kinds:
            raise ArrayError(f"{name} holds values of the type {dtype.str!r}")
        return cls(dtype, shape, beginning.tell())

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def mapped(path: Path) -> npt.NDArray[Any]:
    """Return the array of an NPY file, as a memory map; TableError where it is no such file of numbers, or OSError."""
    with path.open("rb") as file, naming_damage(TableError, "it is no NPY file of numbers"):
        if file.read(4) == b"PK\x03\x04":
            raise TableError("it is an archive of arrays. Say so (format): npz")
        file.seek(0)
        header = Header.of(file, "it")
        size = file.seek(0, os.SEEK_END) - header.start
        if header.nbytes > size:
            raise ArrayError(f"it claims the shape {header.shape} of {header.dtype}, and has {size:,} bytes for that")
        found: npt.NDArray[Any] = np.load(path, mmap_mode="r")
        return found


def unpacked(path: Path, name: str | None) -> npt.NDArray[Any]:
    """Return an array of an NPZ file, of several the one of this name; TableError where there is none of numbers, or
    OSError.
    """
    with path.open("rb") as file, naming_damage(TableError, "it is no NPZ file of numbers"):
        if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            raise TableError("it is one array. Say so (format): npy")
        size = file.seek(0, os.SEEK_END)
        try:
            archive = opened(file)
        except zipfile.BadZipFile as error:
            why = "it begins as nothing that NumPy writes" if "not a zip file" in str(error) else str(error)
            raise ArrayError(why) from error
        infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        members = {info.filename.removesuffix(".npy"): info for info in infos}
        if not members:
            raise ArrayError("it holds no array")
        if name is None and len(members) != 1:
            raise TableError(f"it holds {len(members)} arrays, {listed(list(members), 5)}. Say which one (array)")
        name = next(iter(members)) if name is None else name
        if name not in members:
            raise TableError(f"it holds no array {shown(name)}, but {listed(list(members), 5)}")
        info, name = members[name], shown(name)
        if info.compress_type not in PACKINGS:
            raise ArrayError(f"{name} is compressed in a way that is not NumPy's")
        with archive.open(info) as member:
            header = Header.of(member, name)
        claimed = header.start + header.nbytes
        # Deflate packs 1,032 bytes into one at most.
        if claimed != info.file_size or claimed > 1100 * (1 + min(info.compress_size, size)):
            what = f"the shape {header.shape} of {header.dtype}"
            raise ArrayError(f"{name} claims {what}, and has {info.file_size:,} bytes")
        with archive.open(info) as member:
            found: npt.NDArray[Any] = npy.read_array(member, allow_pickle=False)
            return found
