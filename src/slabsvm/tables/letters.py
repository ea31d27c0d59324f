"""The bytes of texts, by which many are read at once: texts of one shape differ in their digits alone.

Numbers and times have few shapes. One text of each is matched by an expression, and the digits of all the others stand
at the same places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.runtime.arrays import BoolArray, IndexArray

# Texts of more bytes are read one by one: no number is so long.
LONGEST_TEXT = 64
ZERO = ord("0")


@dataclass(frozen=True)
class Shape:
    """Texts that differ in their digits alone."""

    example: str
    places: IndexArray  # (n,): which texts they are
    rows: npt.NDArray[np.uint8]  # (n, size): their bytes

    @cached_property
    def pattern(self) -> str:
        """The example with 1 for each of its digits 0 to 9."""
        return "".join("1" if "0" <= letter <= "9" else letter for letter in self.example)

    def texts(self) -> list[str]:
        """Return the texts, in the order of their places."""
        return [row.tobytes().decode("utf-8", "surrogatepass") for row in self.rows]

    def number(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Return the numbers, (n,), whose digits are at places of the pattern, other letters left out."""
        found = np.zeros(len(self.rows), dtype=np.int64)
        for place in range(start, end):
            if self.pattern[place] == "1":
                found *= 10
                found += self.rows[:, self._bytes[place]]
                found -= ZERO
        return found

    @cached_property
    def _bytes(self) -> Sequence[int]:
        """Where each letter begins in the bytes."""
        if self.example.isascii():
            return range(len(self.example))
        sizes = (len(letter.encode("utf-8", "surrogatepass")) for letter in self.example)
        return [*accumulate(sizes, initial=0)]


@dataclass(frozen=True)
class Letters:
    """Texts as bytes in UTF-8."""

    content: npt.NDArray[np.uint8]  # all bytes, and LONGEST_TEXT more
    starts: IndexArray  # (n,): where each text begins
    sizes: IndexArray  # (n,): how many bytes it has

    @classmethod
    def of(cls, texts: Sequence[str]) -> Letters:
        """Return the bytes of texts."""
        content = "\n".join(texts).encode("utf-8", "surrogatepass") + bytes(LONGEST_TEXT)
        letters = np.frombuffer(content, dtype=np.uint8)
        ends = np.append(np.flatnonzero(letters[:-LONGEST_TEXT] == ord("\n")), len(letters) - LONGEST_TEXT)
        if len(ends) != len(texts):  # some hold lines themselves
            ends = np.cumsum([len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts], dtype=np.intp) - 1
        starts = np.append(0, ends[:-1] + 1)[: len(texts)]
        return cls(letters, starts, ends[: len(texts)] - starts)

    @classmethod
    def of_column(cls, column: Any) -> tuple[Letters, BoolArray] | None:
        """Return the bytes of the texts of a pandas column that are there, and which are missing; None where pyarrow
        does not hold them.
        """
        if getattr(column.dtype, "storage", "") != "pyarrow":
            return None
        array = column.array.__arrow_array__()
        array = array.combine_chunks() if hasattr(array, "combine_chunks") else array
        missing = column.isna().to_numpy(dtype=bool)
        array = array.drop_null() if missing.any() else array
        if str(array.type) not in ("string", "large_string"):
            return None
        _, places, content = array.buffers()
        wide = np.int64 if str(array.type) == "large_string" else np.int32
        ends = np.frombuffer(places, dtype=wide)[array.offset : array.offset + len(array) + 1].astype(np.intp)
        letters = np.zeros((len(content) if content else 0) + LONGEST_TEXT, dtype=np.uint8)
        if content:
            letters[:-LONGEST_TEXT] = np.frombuffer(content, dtype=np.uint8)
        return cls(letters, ends[:-1], np.diff(ends)), missing

    @property
    def are_ascii(self) -> bool:
        """Whether all letters are of ASCII."""
        return bool((self.content < 128).all())

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, some: slice | npt.NDArray[Any]) -> Letters:
        """Return some of the texts."""
        return Letters(self.content, self.starts[some], self.sizes[some])

    def texts(self) -> list[str]:
        """Return the texts."""
        if not len(self):
            return []
        first, ends = int(self.starts.min()), self.starts + self.sizes
        content = self.content[first : int(ends.max())].tobytes()
        pairs = zip((self.starts - first).tolist(), (ends - first).tolist(), strict=True)
        return [content[start:end].decode("utf-8", "surrogatepass") for start, end in pairs]

    def text(self, place: int) -> str:
        """Return one of the texts."""
        start = int(self.starts[place])
        return self.content[start : start + int(self.sizes[place])].tobytes().decode("utf-8", "surrogatepass")

    @cached_property
    def shapes(self) -> list[Shape]:
        """All texts by their shapes; those of more than LONGEST_TEXT bytes are one each."""
        counts = np.bincount(np.minimum(self.sizes, LONGEST_TEXT + 1), minlength=LONGEST_TEXT + 2)
        found = []
        for size in np.flatnonzero(counts[: LONGEST_TEXT + 1]).tolist():
            places = np.flatnonzero(self.sizes == size)
            found += [*self._of_size(size, places)]
        for place in np.flatnonzero(self.sizes > LONGEST_TEXT).tolist() if counts[LONGEST_TEXT + 1] else ():
            start = int(self.starts[place])
            rows = self.content[start : start + int(self.sizes[place])][None, :]
            found.append(Shape(self.text(place), np.array([place]), rows))
        return found

    def _of_size(self, size: int, places: IndexArray) -> Iterator[Shape]:
        """Give the shapes of texts of as many bytes."""
        width = max(8, -(-size // 8) * 8)  # bytes, of whole words
        rows = np.lib.stride_tricks.sliding_window_view(self.content, width)[self.starts[places]]
        rows[:, size:] = 0
        # The digits 0 to 9 differ in their four lowest bits.
        is_digit = (rows - np.uint8(ZERO) < 10).view(np.uint8)
        words = (rows & ~(is_digit * np.uint8(15))).view(np.uint64)
        rest, turn = np.arange(len(places)), 0
        # The first 16 are looked for one after the other, and all others are sorted.
        while len(rest) and turn < 16:
            some = words[rest] if turn else words
            alike = some[:, 0] == some[0, 0]
            for word in range(1, words.shape[1]):
                alike &= some[:, word] == some[0, word]
            group = rest if alike.all() else rest[alike]
            yield Shape(self.text(int(places[group[0]])), places[group], rows[group][:, :size])
            rest, turn = rest[~alike], turn + 1
        if len(rest):
            order = rest[np.lexsort(words[rest].T)]
            firsts = np.flatnonzero((words[order[1:]] != words[order[:-1]]).any(axis=1)) + 1
            for group in np.split(order, firsts):
                yield Shape(self.text(int(places[group[0]])), places[group], rows[group][:, :size])
