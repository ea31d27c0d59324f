"""A file of records, one JSON record a line, each written as soon as it is known.

Work that is killed half-way has lost no finished record. Each line has its record's checksum: one that was cut short or
changed since is passed over, so that no report is made of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from zlib import crc32

from slabsvm.data.files import named_errors, open_regular, write_whole

Record = dict[str, Any]

CHECKSUM = "checksum"
LONGEST = 1 << 26  # bytes; no record is so long, and of a file without ends of lines no more than this is in memory


class Journal:
    """Records in a file, appended from any thread.

    All methods raise OSError where the file cannot be read or written, is a link, or no regular file.

    Parameters
    ----------
    path : str or path
        The file; it and its folder are made when the first record is written. A link is refused: whoever put it there
        would have records read from, or written into, another file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = Lock()

    def records(self) -> Iterator[Record]:
        """Give the records in the order in which they were written; broken lines are passed over."""
        return (record for _, record in self._lines() if record is not None)

    def broken(self) -> list[int]:
        """Return the numbers, from 1, of lines that hold no record as it was written."""
        return [number for number, record in self._lines() if record is None]

    def append(self, record: Record) -> None:
        """Write a record as a whole line, at once; TypeError where it holds what JSON has no form for."""
        line = line_of(record)
        with self._lock, named_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open_regular(self.path, "a+b", links=False) as file:
                # Work killed in the middle of a line left it without an end: this record must not be glued to it.
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                file.write(line)

    def keep(self, wanted: Callable[[Record], bool]) -> None:
        """Forget all records but those that are wanted."""
        with self._lock:
            write_whole(self.path, b"".join(line_of(record) for record in self.records() if wanted(record)))

    def _lines(self) -> Iterator[tuple[int, Record | None]]:
        """Give the number of each line that is not blank, and its record, None where there is none."""
        if not os.path.lexists(self.path):
            return
        with open_regular(self.path, links=False) as file:
            for number, line in enumerate(iter(partial(file.readline, LONGEST), b""), start=1):
                if line.strip():
                    yield number, _record(line)


def line_of(record: Record) -> bytes:
    """Return a record as a line, with its checksum."""
    return json.dumps({**record, CHECKSUM: _checksum(record)}).encode() + b"\n"


def _record(line: bytes) -> Record | None:
    """Return the record of a line, None where the line is not what was written."""
    try:
        record = json.loads(line)
        return record if record.pop(CHECKSUM) == _checksum(record) else None
    # Not JSON, or nested too deep to be read; no record; or one without a checksum.
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return None


def _checksum(record: Record) -> int:
    """Return the checksum of a record, the same before it was written and after it was read."""
    return crc32(json.dumps(record).encode())
