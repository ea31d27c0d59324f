"""Files of any origin, read as a whole up to a number of bytes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from slabsvm.data.files import open_regular

MB = 1_000_000


def read_regular(path: Path, most: int) -> bytes:
    """Read a regular file, or what a link leads to; OSError where it is none, or of more bytes than so many."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        # The bytes asked for are allocated: no more than the file has, unless it has grown.
        content = file.read(size + 1) if size <= most else b""
        if len(content) > size:
            content += file.read(most + 1 - len(content))
    if (size := max(size, len(content))) > most:
        raise OSError(errno.EFBIG, f"it has {size / MB:,.1f} MB, where at most {most / MB:,.1f} are read", str(path))
    return content
