"""A matrix of features on disk, filled row by row, in any order, by any process; a killed run goes on from there.

One .npy file for each class, since it is then the memory map that a kernel reads, written once and never copied. Beside
it a journal of the rows that are in it, each with its checksum. A row counts while its bytes have the checksum that
was noted: what another run overwrote, a crash did not bring to the disk, or the disk lost is computed again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from slabsvm.data.files import beside, open_regular
from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.run.journal import Journal


class FeatureStore:
    """Rows of float32 in a folder.

    Parameters
    ----------
    folder : Path
        Its name must stand for all that the rows depend on; it is made when the first row is written.
    shape : tuple (rows, columns)
    """

    def __init__(self, folder: Path, shape: tuple[int, int]) -> None:
        self.file = folder / "features.npy"
        self.journal = Journal(folder / "rows.jsonl")
        self.shape = shape

    def prepare(self) -> None:
        """Make the file, or make it anew where it is not whole.

        Raises
        ------
        DataError
            There is no room for it, or the folder cannot be written.
        """
        if self._is_whole():
            return
        with _kept_in(self.file.parent):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._check_room()
            with beside(self.file) as (part, _):
                np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=self.shape)
                self._publish(part)

    def missing(self) -> list[int]:
        """The rows that are not in the file yet, or are no more what was written."""
        if not self._is_whole():
            return list(range(self.shape[0]))
        noted: dict[int, int] = {}
        for record in self.journal.records():
            # A line that is no note counts no row.
            with suppress(KeyError, TypeError, ValueError):
                noted |= dict(zip(record["rows"], record["crc32"], strict=True))
        return [row for row, checksum in enumerate(self._checksums()) if noted.get(row) != checksum]

    def note(self, rows: Sequence[int], checksums: Sequence[int]) -> None:
        """Note that these rows are written, with what `write_rows` gave for them.

        Raises
        ------
        DataError
            The journal cannot be written.
        """
        with _kept_in(self.file.parent):
            self.journal.append({"rows": list(rows), "crc32": list(checksums)})

    def matrix(self) -> np.memmap[tuple[int, int], np.dtype[np.float32]]:
        """The file as a read-only memory map."""
        matrix: np.memmap[tuple[int, int], np.dtype[np.float32]] = np.load(self.file, mmap_mode="r")
        return matrix

    def _publish(self, part: Path) -> None:
        """Give the file its name, if no other run has given it to one of its own meanwhile: that may have rows."""
        try:
            # A file is there that is not whole, or was not when this run looked.
            if not self._is_whole():
                self.file.unlink(missing_ok=True)
            os.link(part, self.file)
        except FileExistsError:
            pass
        except OSError:
            # A file system without links: one of two runs that began at once may lose rows, which checksums show.
            os.replace(part, self.file)

    def _checksums(self) -> Iterator[int]:
        """The rows' checksums, one row in memory at a time."""
        matrix = self.matrix()
        with open_regular(self.file, links=False) as stream:
            stream.seek(matrix.offset)
            for _ in range(self.shape[0]):
                yield crc32(stream.read(4 * self.shape[1]))

    def _is_whole(self) -> bool:
        try:
            # A link would have rows written into somebody else's file.
            with open_regular(self.file, links=False) as stream:
                version = np.lib.format.read_magic(stream)
            matrix = self.matrix()
        except Exception:  # a damaged header is read as Python, and fails as any wrong Python does
            return False
        # As it is made here, and as rows are written: not column by column, and with a header of the first kind.
        plain = version == (1, 0) and matrix.flags.c_contiguous
        return plain and matrix.shape == self.shape and matrix.dtype == np.float32

    def _check_room(self) -> None:
        needed = 4 * self.shape[0] * self.shape[1]
        free = shutil.disk_usage(self.file.parent).free
        if free < needed:
            raise DataError(
                f"The features need {needed / 1e6:,.1f} MB in {self.file.parent}, where {free / 1e6:,.1f} MB are free. "
                "Make room, name another cache, or ask for fewer backgrounds."
            )


def write_rows(file: Path, rows: Sequence[int], values: NDArray[np.float32]) -> list[int]:
    """Write rows into a .npy file of float32 that is there already; returns their checksums, to be noted.

    By plain writes: on a full disk these raise, where a write through a memory map would kill the process.

    Raises
    ------
    DataError
        The file cannot be written, or the disk is full.
    """
    with _kept_in(file.parent), open_regular(file, "r+b", links=False) as stream:
        np.lib.format.read_magic(stream)
        np.lib.format.read_array_header_1_0(stream)
        begin = stream.tell()
        for row, value in zip(rows, values, strict=True):
            stream.seek(begin + row * value.nbytes)
            stream.write(value.tobytes())
    return [crc32(value.tobytes()) for value in values]


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Say of what the system refuses that features cannot be kept there."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"Features cannot be kept in {folder}: {error.strerror or error}. Make room, or name another cache."
        ) from error
