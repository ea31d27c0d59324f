"""Texts of separated values, cut into blocks of whole records: what is wrong with one is said with its line.

pandas fills short records with gaps, takes the first cells of long ones for an index, and reads on to the end of a file
for the quote that ends a cell. So each block is counted before it is believed, and has a bounded size.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, BinaryIO

from slabsvm.runtime.caller import counted
from slabsvm.tables.cells import TableError, listed, shown
from slabsvm.tables.numbers import as_number

BLOCK_BYTES = 2**22
# A record of more bytes is refused: a cell without end must not fill the memory.
MOST_BYTES = 2**25
# A comma may be in numbers and names, too: it is the separator where no other is in each line.
SEPARATORS = ("\t", ";", "|", ",")
# Lines that tell the separator, and where the header is.
N_LINES = 20
# A line in which more than this share of the cells are the columns' names repeats the header.
MOST_NAMES = 0.5
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# Encodings of texts that are no UTF-8 and have no mark: where letters stand beside those of ASCII, by the letters of
# German, French, Spanish, Portuguese, Italian, Danish and Norwegian, Swedish; Polish, Czech and Slovak, Hungarian,
# Croatian and Slovenian, Romanian; Turkish; Icelandic. Of two that have as many of a text's letters the first is meant.
LANGUAGES = {
    "äöüß àâæçéèêëîïôœùûüÿ áéíñóúü¿¡ªº áâãàçéêíóôõúü àèéìíîòóùú æøåéö åäöéü": ("cp1252", "cp850", "mac_roman"),
    "ąćęłńóśźż áčďéěíňóřšťúůýžäľĺŕô áéíóöőúüű čćđšž ăâîşţ": ("cp1250",),
    "çğıöşüâîû": ("cp1254",),
    "áðéíóúýþæö": ("cp1252",),
}
# Quotes, dashes and signs of Windows, which stand beside the letters of all.
MARKS = b"\x80\x82\x84\x85\x91\x92\x93\x94\x96\x97\xa7\xab\xb0\xb5\xbb".decode("cp1252")
# Where whole words are of other letters, the likely ones first.
OTHER_SCRIPTS = ("cp1251", "koi8_r", "cp1253", "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr")
AS_CSV = "Save its sheet as CSV in UTF-8, and give that"
STRAY_QUOTE = "line {line:,}: a quote is not closed, or stands inside of a cell"
_LIMIT = Lock()
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

    The header has the columns' `names`; without one they are x0, x1, ... A separator or an encoding that is None is
    found by the first lines; of likely encodings the `kept` one is taken. Lines above the header and lines that repeat
    it are left out, and `say` hears of them.
    Raises TableError: the text is empty, in another encoding, with another separator, or a record is not what it should
    be.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        separator: str | None,
        encoding: str | None,
        header: bool,
        say: Callable[[str], object],
        kept: str | None = None,
    ) -> None:
        self._asked, self._say = separator, say
        self.separator = separator or ","
        self._file = _Decoded(file, encoding, kept)
        self.encoding = self._file.encoding
        if encoding is None and self.encoding not in ("utf-8", *BOMS.values(), kept):
            say(f"It is no UTF-8, and is read as {self.encoding}. If letters are wrong, give its --encoding.")
        self._line, self._rest = 1, b""
        self._beginnings: tuple[bytes, ...] = ()
        first = self._next()
        if first is None:
            raise TableError("it is empty: there is not even a header. Give a table with a header and rows")
        cells, ends = self._first_records(first)
        place = place_of_header(cells) if header else 0
        width = width_of(cells[place:])
        # A separator may end each line but that of the names.
        open_ended = len(cells[place]) == width - 1 and not any(
            row[-1] for row in cells[place + 1 :] if len(row) == width
        )
        self._first: Block | None = first
        if not header:
            self.names = [f"x{place}" for place in range(width)]
            return
        self._tell_above(cells[:place])
        self.names = names_of_header([*cells[place], *[""] * open_ended], say)
        self._refuse_names(cells[place])
        start = 0 if place == 0 else ends[place - 1]
        name = first.content[start : ends[place]].strip(b"\r\n").partition(self.separator.encode())[0].strip(b'"')
        mark = self.separator.encode() if len(self.names) > 1 else b""
        # As it may be written where the header is repeated.
        self._beginnings = tuple(some + mark for some in (name, b'"' + name + b'"') if name)
        rest = first.content[ends[place] :]
        self._first = Block(rest, 1 + first.content.count(b"\n", 0, ends[place])) if rest else None

    def __iter__(self) -> Iterator[Block]:
        """Give the blocks, without the header."""
        if self._first is not None:
            yield from self._without_header(self._first)
        while (block := self._next()) is not None:
            yield from self._without_header(block)

    def check(self, blocks: Sequence[Block], n_rows: int) -> None:
        """Refuse blocks, from which this many rows were read, that have records which are too short or too long."""
        separators = sum(block.content.count(self.separator.encode()) for block in blocks)
        if separators == n_rows * (len(self.names) - 1) and not any(b'"' in block.content for block in blocks):
            # pandas has refused long records, so that none is short.
            return
        n_records = self.examine(blocks, strict=False)
        if n_records != n_rows:
            raise TableError(f"it has {counted(n_records, 'record')}, of which {counted(n_rows, 'row')} could be read")

    def line_of(self, row: int) -> int | None:
        """Return the line on which a row, by its number from 1, ends."""
        for block in self:
            reader = self._reader(block.content, strict=False)
            for cells in reader:
                row -= self._is_row(cells)
                if row == 0:
                    return int(block.line + reader.line_num - 1)
        return None

    @_long_cells()
    def examine(self, blocks: Sequence[Block], *, strict: bool = True) -> int:
        """Refuse the first record that has not one cell for each name, or a stray quote (strict); count the records."""
        n_records = 0
        for block in blocks:
            reader = self._reader(block.content, strict=strict)
            try:
                for cells in reader:
                    n_records += self._is_row(cells)
                    if self._is_row(cells) and cells and len(cells) != len(self.names):
                        raise TableError(
                            f"line {block.line + reader.line_num - 1:,} has {counted(len(cells), 'cell')}, where the "
                            f"header has {len(self.names):,}. Mend the line; a cell that holds the separator, "
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
        if b"\x00" in block.content:
            line = block.line + block.content.count(b"\n", 0, block.content.index(b"\x00"))
            raise TableError(f"line {line:,} holds a zero byte: this is no text, or one in utf-16 (encoding)")
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
    def _first_records(self, first: Block) -> tuple[list[list[str]], list[int]]:
        """Return the cells of the first records, empty lines left out, and where each record ends."""
        if b"\r" in first.content[:MOST_BYTES] and b"\n" not in first.content:
            raise TableError("its lines end with a carriage return alone, as long ago. End them with a line feed")
        reader, found, ends = self._reader(first.content), [], []
        try:
            for cells in reader:
                if cells:
                    found.append([cell.encode("latin-1").decode().strip() for cell in cells])
                    ends.append(reader.line_num)
                if len(found) == N_LINES:
                    break
        except csv.Error as error:
            if not found:
                raise TableError(STRAY_QUOTE.format(line=reader.line_num)) from error
        if not found:
            raise TableError("it holds nothing but empty lines")
        return found, [_start_of_line(first.content, number) for number in ends]

    def _tell_above(self, above: Sequence[Sequence[str]]) -> None:
        if above:
            first = " ".join(filter(None, above[0]))
            lines = "The line" if len(above) == 1 else f"The {len(above)} lines"
            self._say(f"{lines} above the header, {shown(first)}, {'is' if len(above) == 1 else 'are'} left out.")

    def _refuse_names(self, names: list[str]) -> None:
        """Refuse names that cannot be names, or not of this separator."""
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

    def _is_row(self, cells: Sequence[str]) -> bool:
        """Return whether a line is one, and not empty; in a table of one column an empty one is a gap."""
        return len(self.names) == 1 or len(cells) > 1 or bool(cells and cells[0].strip())

    def _without_header(self, block: Block) -> Iterator[Block]:
        """Give a block without lines that repeat the header, as blocks of the lines between them."""
        if not any(beginning in block.content for beginning in self._beginnings):
            yield block
            return
        lines, start = block.content.split(b"\n"), 0
        for place in [place for place, one in enumerate(lines) if one.startswith(self._beginnings)]:
            cells = next(iter(self._reader(lines[place], strict=False)))
            same = sum(
                cell.strip() == name.encode().decode("latin-1") for cell, name in zip(cells, self.names, strict=False)
            )
            if same > MOST_NAMES * len(self.names):
                self._say(f"Line {block.line + place:,} repeats the header, and is left out.")
                if place > start:
                    yield Block(b"".join(line + b"\n" for line in lines[start:place]), block.line + start)
                start = place + 1
        if rest := b"\n".join(lines[start:]):
            yield Block(rest, block.line + start)


class _Decoded:
    """A binary file in UTF-8 of one in another encoding, which is found by the first bytes where it is not said."""

    def __init__(self, file: BinaryIO, encoding: str | None, kept: str | None) -> None:
        self._file, self._line, self._first, self._ended = file, 1, file.read(BLOCK_BYTES), False
        if other := next((text for start, text in OTHERS.items() if self._first.startswith(start)), None):
            raise TableError(other)
        self._asked = encoding
        marked = next((name for mark, name in BOMS.items() if self._first.startswith(mark)), None)
        self.encoding = marked or encoding or encoding_of(self._first, kept)
        try:
            "a".encode(self.encoding)  # which refuses what is of no text
            self._decoder = codecs.getincrementaldecoder(self.encoding)()
        except LookupError as error:
            text = f"there is no encoding {shown(encoding)}. Common ones are utf-8, cp1252, latin-1"
            raise TableError(text) from error

    def read(self, size: int) -> bytes:
        """Return about this many bytes; fewer at the end alone."""
        if self._ended:
            return b""
        content, self._first = self._first or self._file.read(size), b""
        self._ended = not content
        try:
            # Files that were put one behind the other have byte order marks inside, which mean nothing there.
            text = self._decoder.decode(content, not content).replace("\ufeff", "")
        except UnicodeError as error:
            start = min(getattr(error, "start", 0), len(content))
            line, hint = self._line + content.count(b"\n", 0, start), encoding_of(content)
            known = "" if hint == self.encoding else f", for example {hint}"
            byte = f", where byte {content[start]:#04x} means nothing" if start < len(content) else ""
            raise TableError(
                f"line {line:,} is not in {self.encoding}{byte}. Mend the line, or say which encoding it is in{known} "
                "(encoding)",
                remedy=("encoding", hint) if known else None,
            ) from error
        self._line += content.count(b"\n")
        return text.encode() if text or not content else self.read(size)


def lines_of(file: BinaryIO, encoding: str | None, kept: str | None) -> Iterator[bytes]:
    """Give the lines of a text in UTF-8, of one in another encoding; TableError as `Records`."""
    decoded, rest = _Decoded(file, encoding, kept), b""
    while content := decoded.read(BLOCK_BYTES):
        *lines, rest = (rest + content).split(b"\n")
        yield from lines
    yield rest


def encoding_of(content: bytes, kept: str | None = None) -> str:
    """Return the encoding of a text by its first bytes: UTF-8 where it is that, and otherwise the one that was kept of
    another table, or the likeliest.
    """
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError as error:
        # Below letters in UTF-8 a line may be damaged.
        if not content[: error.start].isascii():
            return "utf-8"
        return kept if kept is not None and not kept.startswith("utf") else _likely(content)
    return "utf-8"


def _likely(content: bytes) -> str:
    text = b"\n".join([line for line in content.split(b"\n") if not line.isascii()][: 50 * N_LINES])
    beside = re.findall(rb"(?<=[A-Za-z])[\x80-\xff]|[\x80-\xff](?=[A-Za-z])", text)
    if len(beside) >= len(re.findall(rb"[\x80-\xff]{2,}", text)):
        letters = Counter(beside)

        def explained(encoding: str, known: str) -> int:
            decoded = ((letter.decode(encoding, "ignore").lower(), count) for letter, count in letters.items())
            known += MARKS if encoding.startswith("cp125") else ""
            return sum(count for letter, count in decoded if letter in {*known})

        pairs = ((one, known) for all_, encodings in LANGUAGES.items() for one in encodings for known in all_.split())
        return max(pairs, key=lambda pair: explained(*pair))[0]
    from charset_normalizer import from_bytes

    best = from_bytes(text, cp_isolation=list(OTHER_SCRIPTS), preemptive_behaviour=False).best()
    # Of several that read the text alike the likeliest.
    alike = () if best is None else {best.encoding, *best.could_be_from_charset}
    return next((one for one in OTHER_SCRIPTS if one in alike), OTHER_SCRIPTS[0])


def place_of_header(cells: Sequence[Sequence[str]]) -> int:
    """Return which record is the header: the first that is as wide as most are, and most of which is there."""
    width = width_of(cells)
    for place, names in enumerate(cells):
        if len(names) >= width - 1 and sum(map(bool, names)) > width / 2:
            return place
    return 0


def width_of(cells: Sequence[Sequence[str]]) -> int:
    """Return how many cells most records have."""
    return Counter(map(len, cells[1:] or cells)).most_common(1)[0][0]


def names_of_header(names: Sequence[str], say: Callable[[str], object]) -> list[str]:
    """Return a name for each column: "column 3" for the third if it has none, and "width (2)" where "width" comes
    again.
    """
    if sum(map(bool, names)) <= len(names) / 2:
        named = listed([name for name in names if name], 5)
        raise TableError(f"the header, {named}, names few of {len(names):,} columns. Name all of them")
    found: list[str] = []
    for place, name in enumerate(names, 1):
        unique, again = name or f"column {place}", 2
        while unique in found:
            unique, again = f"{name} ({again})", again + 1
        if name and unique != name:
            say(f"There are two columns of the name {shown(name)}: column {place} is called {shown(unique)}.")
        found.append(unique)
    return found


def separator_of(content: bytes) -> str:
    """Return what is between the cells of a text: what is outside of quotes as often in most of the first lines."""
    lines = [line for line in content.split(b"\n", N_LINES + 1)[:N_LINES] if line.strip()]
    bare = [b"".join(line.split(b'"')[::2]).decode("latin-1") for line in lines]
    often = {one: Counter(line.count(one) for line in bare if one in line).most_common(1) for one in SEPARATORS}
    return max(SEPARATORS[::-1], key=lambda one: (often[one][0][1], one != ",") if often[one] else (0, False))


def _start_of_line(content: bytes, number: int) -> int:
    """Return where the line of this number begins, from 0."""
    return sum(map(len, islice(io.BytesIO(content), number)))


def _named(separator: str) -> str:
    return {"\t": "tab", " ": "space"}.get(separator, shown(separator))
