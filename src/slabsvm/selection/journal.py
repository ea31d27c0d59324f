"""A file of results, one JSON record a line, each written as soon as it is known.

Work that is killed half-way has lost no finished result: what the file holds is not computed again. A line that was
being written at that moment is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

Record = dict[str, Any]


class Journal:
    """Records in a file, appended from any thread.

    Parameters
    ----------
    path : str or path
        The file; it and its folder are made when the first record is written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = Lock()

    def records(self) -> Iterator[Record]:
        """Give the records in the order in which they were written; broken lines are passed over."""
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(record, dict):
                yield record

    def append(self, record: Record) -> None:
        """Write a record as a whole line; it is in the file when this returns.

        Raises
        ------
        OSError
            The file cannot be written.
        TypeError
            The record holds what JSON has no form for.
        """
        line = json.dumps(record).encode() + b"\n"
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                # Work killed in the middle of a line left it without an end: this record must not be glued to it.
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                file.write(line)
