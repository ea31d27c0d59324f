"""Zip archives of any origin: how many members a directory may name, and what zipfile raises of a damaged one."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from typing import BinaryIO

# Before each entry of a directory.
ENTRY = b"PK\x01\x02"
# What zipfile raises where bytes are not what they should be. An OSError may be of the system, or of a place before the
# file's beginning (EINVAL).
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError),
    *(NotImplementedError, RuntimeError),
)


def opened(file: BinaryIO, bytes_by_member: int, most: int) -> zipfile.ZipFile:
    """Return an archive, whose directory is counted before zipfile makes an object of some 300 bytes of each entry.

    Parameters
    ----------
    file : binary file, open for reading
    bytes_by_member : int
        What a member takes at least, in the archive and in its directory.
    most : int
        Of members, in a file of any size.

    Raises
    ------
    zipfile.BadZipFile
        It is no archive, or names more members; and all of DAMAGED.
    """
    size = file.seek(0, os.SEEK_END)
    counted = _Counted(file, min(most, 1 + size // bytes_by_member))
    archive = zipfile.ZipFile(counted)
    counted.most = None
    return archive


class _Counted:
    """A file for zipfile, which reads an archive's directory in one piece.

    Parameters
    ----------
    file : binary file, open for reading
    most : int or None
        The entries that a piece may hold.
    """

    def __init__(self, file: BinaryIO, most: int | None) -> None:
        self._file = file
        self.most = most
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes, unless these are a directory of too many entries."""
        content = self._file.read(size)
        if self.most is not None and (found := content.count(ENTRY)) > self.most:
            raise zipfile.BadZipFile(f"it holds {found:,} members, where one of its size has at most {self.most:,}")
        return content
