"""Texts of separated values, cut into blocks of whole records: what is wrong with one is said with its line.

pandas fills short records with gaps, takes the first cells of long ones for an index, and reads on to the end of a file
for the quote that ends a cell. So each block is counted before it is believed, and has a bounded size.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, BinaryIO

from slabsvm.runtime.caller import counted
from slabsvm.tables.columns import TableError, distinct_names, listed, shown
from slabsvm.tables.texts import as_number

BLOCK_BYTES = 2**22
# A record of more bytes is refused: a cell without end must not fill the memory.
MOST_BYTES = 2**25
# A comma may be in numbers and names, too: it is the separator where no other is in each line.
SEPARATORS = ("\t", ";", "|", ",")
# So many lines tell the separator.
LINES = 10
NAMES_OF_SEPARATORS = {"\t": "tab", " ": "space"}
BOM = b"\xef\xbb\xbf"
BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
AS_CSV = "Save its sheet as CSV in UTF-8, and give that"
STRAY_QUOTE = "line {line:,}: a quote is not closed, or stands inside of a cell"
_LIMIT = Lock()
TITLE = "Delete the lines above that of the columns' names, such as a title"
# What files of other formats begin with, whatever their names are.
OTHERS = {
    b"PK\x03\x04": f"it is a workbook or another zip archive, and no text. Say so (format): xlsx; of others: {AS_CSV}",
    b"\xd0\xcf\x11\xe0": f"it is an old workbook of a spreadsheet (.xls), and no text. {AS_CSV}",
    b"%PDF": "it is a PDF document, and no text of separated values. Give the table that it was made of",
    b"\x1f\x8b": "it is compressed by gzip. Let its name end in .gz",
    b"PAR1": "it is a Parquet file. Say so (format), or let its name end in .parquet",
    b"\x93NUMPY": "it is an NPY file. Say so (format), or let its name end in .npy",
}


@dataclass(frozen=True)
class Block:
    """Whole records."""

    content: bytes  # in UTF-8
    line: int  # the number of its first line in the file, from 1


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let Python's reader take cells as long as a record may be; its limit is one for all threads."""
    with _LIMIT:
        limit = csv.field_size_limit(MOST_BYTES)
        try:
            yield
        finally:
            csv.field_size_limit(limit)


class Records:
    """The header of a text, and its records a block at a time.

    The first record has the columns' `names` where there is a header; otherwise they are x0, x1, ... A separator that
    nobody named is found by the first lines. Raises TableError:
    the text is empty, in another encoding, with another separator, or a record is not what it should be.
    """

    def __init__(self, file: BinaryIO, *, separator: str | None, encoding: str, header: bool) -> None:
        self._asked = separator
        self.separator = separator or ","
        self._encoding = encoding
        self._file = _Recoded(file, encoding) if encoding != "utf-8" else file
        self._line = 1
        self._rest = b""
        first = self._next()
        if first is None:
            raise TableError("it is empty: there is not even a header. Give a table with a header and rows")
        self._first: Block | None = first
        start, cells = self._header(first)
        if header:
            self.names = self._checked(cells)
            rest = first.content[start:]
            self._first = Block(rest, 1 + first.content.count(b"\n", 0, start)) if rest else None
        else:
            self.names = [f"x{place}" for place in range(len(cells))]

    def __iter__(self) -> Iterator[Block]:
        """Give the blocks, without the header."""
        if self._first is not None:
            yield self._first
        while (block := self._next()) is not None:
            yield block

    def check(self, blocks: Sequence[Block], n_rows: int) -> None:
        """Refuse blocks, from which so many rows were read, that have records which are too short or too long."""
        n_records = self.examine(blocks, strict=False)
        if n_records != n_rows:
            raise TableError(f"it has {counted(n_records, 'record')}, of which {counted(n_rows, 'row')} could be read")

    @_long_cells()
    def examine(self, blocks: Sequence[Block], *, strict: bool = True) -> int:
        """Refuse the first record that has not one cell for each name, or a stray quote (strict); count the records."""
        n_records = 0
        for block in blocks:
            reader = self._reader(block.content, strict=strict)
            try:
                for cells in reader:
                    n_records += bool(cells) or len(self.names) == 1
                    if cells and len(cells) != len(self.names):
                        line = block.line + reader.line_num - 1
                        titled = line <= LINES and 1 in (n_records, len(self.names)) and len(cells) > len(self.names)
                        cure = f"{TITLE}, or mend" if titled else "Mend"
                        raise TableError(
                            f"line {line:,} has {counted(len(cells), 'cell')}, where the header has "
                            f"{len(self.names):,}. {cure} the line; a cell that holds the separator, "
                            f"{_named(self.separator)}, needs quotes"
                        )
            except csv.Error as error:
                raise TableError(STRAY_QUOTE.format(line=block.line + reader.line_num - 1)) from error
        return n_records

    def _next(self) -> Block | None:
        """Return the next block, or None at the end."""
        content, size = self._rest, BLOCK_BYTES
        while True:
            read = self._file.read(size)
            content += read
            if self._line == 1 and not self._rest:
                if other := next((text for start, text in OTHERS.items() if content.startswith(start)), None):
                    raise TableError(other)
                content = content.removeprefix(BOM)
            if not content:
                return None
            if self._line == 1 and self._asked is None and (not read or b"\n" in content):
                self.separator = separator_of(content)
            end = self._end(content) if read else len(content)
            if end:
                break
            if len(content) > MOST_BYTES:
                raise TableError(
                    f"line {self._line:,} has more than {MOST_BYTES / 2**20:.0f} MB and no end in sight: a line is too "
                    f"long, or a quote was opened and never closed"
                )
            size = len(content)
        block, self._rest = Block(content[:end], self._line), content[end:]
        self._line += block.content.count(b"\n")
        self._refuse_encoding(block)
        return block

    @_long_cells()
    def _end(self, content: bytes) -> int:
        """Return where the last whole record ends, 0 where none does."""
        end = content.rfind(b"\n") + 1
        if end == 0 or b'"' not in content or content.count(b'"', 0, end) % 2 == 0:
            return end
        # A quote is open at the last line's end, or quotes stand where they mean nothing.
        reader, n_lines = self._reader(content[:end]), 0
        try:
            for _ in reader:
                n_lines = reader.line_num
        except csv.Error as error:
            if "unexpected end" not in str(error):
                return end
        return _start_of_line(content, n_lines)

    def _reader(self, content: bytes, *, strict: bool = True) -> Any:
        text = io.StringIO(content.decode("latin-1"), newline="")
        return csv.reader(text, delimiter=self.separator, strict=strict)

    @_long_cells()
    def _header(self, first: Block) -> tuple[int, list[str]]:
        """Return where the first record ends, and its cells."""
        if b"\r" in first.content[:MOST_BYTES] and b"\n" not in first.content:
            raise TableError("its lines end with a carriage return alone, as long ago. End them with a line feed")
        reader = self._reader(first.content)
        try:
            cells = next((cells for cells in reader if cells), None)
        except csv.Error as error:
            raise TableError(STRAY_QUOTE.format(line=reader.line_num)) from error
        if cells is None:
            raise TableError("it holds nothing but empty lines")
        start = _start_of_line(first.content, reader.line_num)
        return start, [cell.encode("latin-1").decode().strip() for cell in cells]

    def _checked(self, names: list[str]) -> list[str]:
        """Return the header's names; refuse those that cannot be names, or not of this separator."""
        if len(names) == 1:
            others = [other for other in SEPARATORS if other != self.separator and other in names[0]]
            if others:
                raise TableError(
                    f"the header is one name, {shown(names[0])}. Is {_named(others[0])} the separator? Then say so "
                    "(separator)",
                    remedy=("separator", others[0]),
                )
        if all(as_number(name) is not None for name in names):
            raise TableError(
                f"the first line holds numbers, {', '.join(map(shown, names[:3]))}, where names of columns belong. Add "
                "a line of names, or say that there is none (no header)",
                remedy=("no-header", ""),
            )
        if names.count("") > len(names) / 2:
            named = listed([name for name in names if name], 5)
            raise TableError(f"the first line, {named}, names few of {len(names):,} columns. {TITLE}")
        if "" in names:
            place = names.index("") + 1
            also = f", or take off the {_named(self.separator)} that ends each line" if place == len(names) else ""
            raise TableError(f"the header has no name for column {place}. Give it one{also}")
        return distinct_names(names)

    def _refuse_encoding(self, block: Block) -> None:
        start = block.content[:2] if block.line == 1 else b""
        try:
            _ = block.content.isascii() or block.content.decode()
        except UnicodeDecodeError as error:
            line = block.line + block.content.count(b"\n", 0, error.start)
            # Five bytes mean nothing in cp1252, among them the ü of cp850.
            is_windows = len(block.content.decode("cp1252", "ignore")) == len(block.content)
            hint = BOMS.get(start) or ("cp1252" if is_windows else "cp850")
            byte = f"{block.content[error.start]:#04x}"
            what = f"line {line:,} is not in {self._encoding}, where byte {byte} means nothing"
            if not block.content[: error.start].isascii():
                raise TableError(f"{what}, but the text above it is. Mend the line") from error
            raise TableError(
                f"{what}. Say which encoding it is in, for example {hint} (encoding)", remedy=("encoding", hint)
            ) from error
        if b"\x00" in block.content:
            line = block.line + block.content.count(b"\n", 0, block.content.index(b"\x00"))
            raise TableError(f"line {line:,} holds a zero byte: this is no text, or one in utf-16 (encoding)")


class _Recoded:
    """A binary file in UTF-8 of one in another encoding."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        try:
            self._text = io.TextIOWrapper(file, encoding=encoding, newline="")
        except LookupError as error:
            text = f"there is no encoding {shown(encoding)}. Common ones are utf-8, cp1252, latin-1"
            raise TableError(text) from error
        self._encoding = encoding

    def read(self, size: int) -> bytes:
        """Return about so many bytes; fewer at the end alone."""
        try:
            return self._text.read(size).encode()
        except UnicodeError as error:
            raise TableError(f"it is not in {self._encoding}: {error}. Say which encoding it has (encoding)") from error


def separator_of(content: bytes) -> str:
    """Return what is between the cells of a text: what is outside of quotes as often in each of the first lines."""
    lines = [line for line in content.split(b"\n", LINES + 1)[:LINES] if line.strip()]
    bare = [b"".join(line.split(b'"')[::2]).decode("latin-1") for line in lines]
    for separator in SEPARATORS:
        if bare and bare[0].count(separator) and len({line.count(separator) for line in bare}) == 1:
            return separator
    return max(SEPARATORS[::-1], key=bare[0].count) if bare else ","


def _start_of_line(content: bytes, number: int) -> int:
    """Return where the line of this number begins, from 0."""
    return sum(map(len, islice(io.BytesIO(content), number)))


def _named(separator: str) -> str:
    return NAMES_OF_SEPARATORS.get(separator, shown(separator))
