"""Whether the texts of a column all differ: told by their hashes, and by the texts where these agree.

pandas tells texts apart by a table of all of them, which takes as long as to read four columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

# A text's first bytes are hashed: texts that begin with as many of the same are compared.
MOST_BYTES = 128
WORD = 8
# Odd, with bits in all places: the product has each bit of a word in those above it.
FACTOR = np.uint64(0x9E3779B97F4A7C15)
# Hashes are parted by so many of their first bits before they are sorted: a table of so many rows stays in a cache.
BITS = 21
# So many texts are hashed at once, for the same reason.
ROWS = 2**15


def all_differ(column: Any) -> bool:
    """Return whether the texts of a pandas Series of texts, (n,), all differ; gaps count for nothing."""
    texts = column.dropna().array
    # Serial numbers mostly ascend, and neighbours are compared in a tenth of the time.
    if bool((texts[:-1] < texts[1:]).all()):
        return True
    # Without pyarrow texts are Python's objects.
    if getattr(texts.dtype, "storage", "") == "pyarrow":
        chunks = texts.__arrow_array__().cast("large_string").chunks
        pieces = [chunk[first : first + ROWS] for chunk in chunks for first in range(0, len(chunk), ROWS)]
        hashes = np.concatenate([_hashes(piece) for piece in pieces])
        texts = texts[np.isin(hashes, twice)] if len(twice := _repeated(hashes)) else texts[:0]
    return len(texts.unique()) == len(texts)


def _hashes(texts: Any) -> Hashes:
    """Return a hash of each text of an array of pyarrow without gaps, (n,)."""
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset :][: len(texts) + 1]
    starts, lengths = ends[:-1] - ends[0], np.diff(ends)
    # The word of eight bytes at each byte, with zeros behind the last.
    letters = np.append(np.frombuffer(content or b"", np.uint8)[ends[0] : ends[-1]], np.zeros(WORD, np.uint8))
    words = np.ndarray((len(letters) - WORD + 1,), "<u8", letters, strides=(1,))
    hashes = lengths.astype(np.uint64)
    shortest, longest = int(lengths.min()), int(lengths.max())
    rows: Any = slice(None)
    for begin in range(0, min(longest, MOST_BYTES), WORD):
        if shortest == longest:
            # Texts of one length are read in a fifth of the time.
            beyond = np.array(max(0, begin + WORD - longest))
            found = np.ndarray((len(texts),), "<u8", letters, begin, (longest,))
        else:
            rows = np.flatnonzero(lengths > begin)
            beyond = np.maximum(begin + WORD - lengths[rows], 0)
            found = words[starts[rows] + begin]
        # Bytes of the next text are shifted out.
        found = (hashes[rows] ^ (found << (8 * beyond).astype(np.uint64))) * FACTOR
        hashes[rows] = found ^ (found >> np.uint64(32))
    return hashes


def _repeated(hashes: Hashes) -> Hashes:
    """Return the hashes that are there twice or more."""
    slots = (hashes >> np.uint64(64 - BITS)).view(np.int64)
    rows = np.arange(len(hashes), dtype=np.int32)
    last = np.empty(1 << BITS, dtype=np.int32)
    last[slots] = rows
    # Of those in one slot all but the last are sorted, and compared with the last.
    others = np.flatnonzero(last[slots] != rows)
    found, ordered = hashes[others], np.sort(hashes[others])
    return np.append(found[found == hashes[last[slots[others]]]], ordered[1:][ordered[1:] == ordered[:-1]])
