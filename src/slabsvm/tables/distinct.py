"""Whether the texts of a column all differ: told by hashes of eight bytes a step, and by the texts where these agree.

pandas tells texts apart with a table of all of them, which takes as long as to read three columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# A text's first bytes are hashed: texts that begin with as many of the same are compared.
MOST_BYTES = 128
WORD = 8
# Odd, with bits in all places: the product has each bit of a word in those above it.
FACTOR = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
# So many of a hash's first bits part hashes before they are sorted.
BITS = 23


def all_differ(column: Any) -> bool:
    """Return whether the texts of a pandas Series of texts, (n,), all differ; gaps count for nothing."""
    texts = column.dropna().array
    # Serial numbers mostly ascend, and neighbours are compared in a tenth of the time.
    if bool((texts[:-1] < texts[1:]).all()):
        return True
    if (hashes := _hashes(texts)) is not None:
        slots = (hashes >> np.uint64(64 - BITS)).view(np.int64)
        beside = np.flatnonzero(np.bincount(slots)[slots] > 1)
        ordered = np.sort(hashes[beside])
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        texts = texts[beside[np.isin(hashes[beside], twice)]] if len(twice) else texts[:0]
    return len(texts.unique()) == len(texts)


def _hashes(texts: Any) -> npt.NDArray[np.uint64] | None:
    """Return hashes that are the same for the same texts; None where pyarrow does not hold these in one piece."""
    if getattr(texts.dtype, "storage", "") != "pyarrow":
        return None
    held = texts.__arrow_array__().combine_chunks()
    if str(held.type) != "large_string" or not len(held):
        return None
    _, offsets, content = held.buffers()
    ends = np.frombuffer(offsets, np.int64)[held.offset :][: len(held) + 1]
    starts, lengths = ends[:-1], np.diff(ends)
    # The word of eight bytes at each byte, with zeros behind the last.
    letters = np.append(np.frombuffer(content, np.uint8)[: ends[-1]], np.zeros(WORD, np.uint8))
    words = np.ndarray((len(letters) - WORD + 1,), "<u8", letters, strides=(1,))
    hashes = lengths.astype(np.uint64)
    for begin in range(0, min(int(lengths.max()), MOST_BYTES), WORD):
        rows = slice(None) if lengths.min() > begin else np.flatnonzero(lengths > begin)
        beyond = WORD - np.minimum(lengths[rows] - begin, WORD)
        # Bytes of the next text are shifted out.
        found = (hashes[rows] ^ (words[starts[rows] + begin] << (WORD * beyond).astype(np.uint64))) * FACTOR
        hashes[rows] = found ^ (found >> HALF)
    return hashes
