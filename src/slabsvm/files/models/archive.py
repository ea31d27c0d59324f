"""The container of a model file: a zip of `.npy` members and one JSON document, not compressed.

`numpy.load(path)` reads the arrays too. What is read here is believed in no detail: a member's size is compared with
the file's before anything is allocated, so that a file takes no more memory than it has bytes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from slabsvm.files.arrays import DAMAGED, ArrayError, Header, array_of, opened

DOCUMENT = "model.json"
# What the document of a small file may take, in bytes and values; of a large one half, a value for each so many bytes.
TEXT = 2**24
VALUES = 500_000
BYTES_BY_VALUE = 64
# An archive of more members, or more than a file of its size holds, is refused unread: each takes 226 bytes.
MOST_MEMBERS = 1_000_000
BYTES_BY_MEMBER = 200
# Every member has this date, so that a model makes the same bytes whenever it is saved.
DATE = (1980, 1, 1, 0, 0, 0)
NAME = re.compile(r"model(\.[A-Za-z0-9_]+)*\.npy", re.ASCII)
# Members from this size on get fields of 64 bits.
LARGE = 2**30
# zlib's flag for a UTF-8 name is harmless; encryption, patches and sizes that follow the data are not read.
ALLOWED_FLAGS = 0x800


class ModelFileError(ValueError):
    """A file that holds no model that can be read here, or a model that no file can hold; the text says why."""


def must(holds: object, text: str) -> None:
    """Raise ModelFileError unless something holds."""
    if not holds:
        raise ModelFileError(text)


class Outgoing:
    """An archive that is being written to a binary file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._zip = file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # Nothing is left of the archive where there was an error.
        with suppress(OSError, ValueError):
            self._zip.close()

    def keep(self, place: str, array: npt.NDArray[Any]) -> dict[str, Any]:
        """Write an array, and return what the document says of it."""
        little = np.asarray(array, dtype=array.dtype.newbyteorder("<"))
        with self._member(f"{place}.npy", little.nbytes) as member:
            np.lib.format.write_array(member, little, (1, 0), allow_pickle=False)
        return {"npy": f"{place}.npy", "crc32": self._zip.getinfo(f"{place}.npy").CRC}

    def end(self, document: dict[str, Any]) -> None:
        """Write the document, and end the archive."""
        text = json.dumps(document, indent=1, allow_nan=False).encode()
        _refuse_large(text, self._file.tell() + len(text), "the model")
        with self._member(DOCUMENT, len(text)) as member:
            member.write(text)
        self._zip.close()

    def _member(self, name: str, size: int) -> Any:
        info = zipfile.ZipInfo(name, DATE)
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        return self._zip.open(info, "w", force_zip64=size >= LARGE)


class Incoming:
    """An archive that is being read from a binary file; ModelFileError wherever it is not what it should be."""

    def __init__(self, file: BinaryIO) -> None:
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)
        start = file.read(2)
        must(start[:1] != b"\x80", "it is a pickle, and none is read here, since reading one may run anything")
        foreign = "it is not a model file. Give one that `slabsvm fit` or `slabsvm.files.save` wrote"
        must(start == b"PK", foreign if self._size else "it is empty")
        file.seek(0)
        self._zip = _read(opened, file, BYTES_BY_MEMBER, MOST_MEMBERS)
        self._unread: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            self._refuse_strange(info)
            self._unread[info.filename] = info
        claimed = sum(info.file_size for info in self._unread.values())
        must(claimed <= self._size, "its members claim more bytes than the file has")

    def document(self) -> Any:
        """Return the document, of which nothing but its grammar has been checked."""
        must(DOCUMENT in self._unread, f"it holds no {DOCUMENT}, so that it is no model file")
        info, most = self._unread.pop(DOCUMENT), TEXT + self._size // 2
        # Before it takes any memory.
        claim = f"its {DOCUMENT} has {info.file_size:,} bytes of text, where at most {most:,} are kept"
        must(info.file_size <= most, claim)
        text = _read(self._zip.read, info)
        _refuse_large(text, self._size, f"its {DOCUMENT}")
        # Python would keep all of it in characters of four bytes, for one that needs them.
        must(text.isascii(), f"its {DOCUMENT} is not in ASCII, with escapes for other letters")
        try:
            return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"its {DOCUMENT} cannot be read: {error or type(error).__name__}") from error

    def array(self, name: str, crc: int, match: Callable[[Header], object]) -> npt.NDArray[Any]:
        """Return an array, once for each, in this machine's byte order; crc is the document's, and match refuses a
        header.
        """
        info = self._unread.pop(name, None)
        if info is None:
            raise ModelFileError(f"it holds no {name}, which its {DOCUMENT} names, or names twice")
        must(crc == info.CRC, f"{name} is not what its {DOCUMENT} says: another content was put in its place")
        array: npt.NDArray[Any] = _read(array_of, self._zip, info, name, self._size, match)
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def finish(self) -> None:
        """Refuse members that the document does not name."""
        must(not self._unread, f"it holds {sorted(self._unread)[:3]}, which its {DOCUMENT} does not name")

    def _refuse_strange(self, info: zipfile.ZipInfo) -> None:
        """Refuse a member by what the directory says of it."""
        name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
        known = name == DOCUMENT or NAME.fullmatch(name)
        must(known, f"it holds {name[:80]!r}, which is no name of a member of a model file")
        must(name not in self._unread, f"it holds {name} twice")
        must(not info.flag_bits & ~ALLOWED_FLAGS, f"{name} is encrypted, or was written as a stream")
        stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        must(stored, f"{name} is compressed, and members of a model file never are")
        must(kind in (0, stat.S_IFREG), f"{name} is a link, a folder or a device, not a regular file")


def _read(action: Any, *args: Any) -> Any:
    """Return what an action of zipfile returns, or say that the archive is damaged."""
    try:
        return action(*args)
    except (ArrayError, ModelFileError) as error:
        raise ModelFileError(str(error)) from error
    except (OSError, *DAMAGED) as error:
        # A damaged archive may ask to read before the file's beginning.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        why = "it leads out of the file" if isinstance(error, OSError) else error
        raise ModelFileError(f"it is damaged, or was cut short: {why}") from error


def _refuse_large(text: bytes, size: int, what: str) -> None:
    """Refuse a document that is too large for a file of this size, or would be when it is made to values."""
    n_values, most_values = sum(map(text.count, (b",", b"[", b"{", b":"))), VALUES + size // BYTES_BY_VALUE
    limits = (len(text), TEXT + size // 2, "bytes of text"), (n_values, most_values, "values that are in no array")
    for count, most, of in limits:
        must(count <= most, f"{what} has {count:,} {of}, where at most {most:,} are kept")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
