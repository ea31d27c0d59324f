"""Tables in files: CSV and other texts, Excel workbooks, Parquet, lines of JSON, NumPy's arrays and svmlight."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from slabsvm.data.checks import MOST_WHOLE
from slabsvm.data.files import named_errors
from slabsvm.files.arrays import mapped, unpacked
from slabsvm.files.records import (
    AS_CSV,
    MOST_NAMES,
    N_LINES,
    Block,
    Records,
    lines_of,
    names_of_header,
    place_of_header,
)
from slabsvm.runtime.arrays import BoolArray
from slabsvm.runtime.caller import load
from slabsvm.tables.cells import NUMERIC, TableError, distinct_names, is_text, listed, shown
from slabsvm.tables.letters import LONGEST_TEXT, Letters
from slabsvm.tables.numbers import GROUPED, N_FIRST, PLAIN, is_placeholder, numbers_of, writing_of

STANDARD = Path("-")  # the standard input
SUFFIXES = {
    "csv": (".csv", ".txt"),
    "tsv": (".tsv", ".tab"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "npy": (".npy",),
    "npz": (".npz",),
    "svmlight": (".svmlight", ".svm", ".libsvm"),
    "xlsx": (".xlsx", ".xlsm"),
}
TEXTS = ("csv", "tsv")
# Cells of a table of numbers in a piece.
PIECE_CELLS = 2**19
# Either is a decimal point, as where nobody says which one is: each column has its own.
EITHER = ",."
# Cells of a text that are gaps: those that pandas takes for gaps unless it is told otherwise.
GAPS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)
# What a line of totals is called, in a cell that says nothing else but a colon.
TOTALS = (
    *("total", "totals", "grand total", "grand-total", "grandtotal", "sub total", "sub-total", "subtotal", "subtotals"),
    *("sum", "sums", "summe", "gesamt", "gesamtsumme", "insgesamt", "zwischensumme", "somme", "totaux", "totale"),
    *("suma", "razem", "celkem", "toplam", "итого", "всего", "合計", "总计"),
    *("average", "averages", "mean", "mittelwert", "durchschnitt", "moyenne", "promedio", "media"),
)
# Of two bytes together, whether a total may begin with them: blanks and a colon may stand before it.
BEGINNINGS = np.zeros(2**16, dtype=bool)
for _start in {some.encode()[:2] for word in TOTALS for some in (word, word.upper(), word.title())}:
    BEGINNINGS[int.from_bytes(_start)] = True
for _blank in b" \t:":
    BEGINNINGS[256 * _blank : 256 * _blank + 256] = True


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a table is read."""

    format: str | None = None  # one of SUFFIXES; None goes by the file's name
    separator: str | None = None  # between a text's cells; None is found by its first lines, and of TSV a tab
    # The decimal point of a text's numbers. By ",." each column has its own: numbers with commas remain texts
    decimal: str = EITHER
    encoding: str | None = None  # None is found by the first lines
    kept: str | None = None  # the encoding of the table that was learned, which is likely
    header: bool = True  # whether there is a line with the columns' names
    sheet: str | None = None  # of a workbook; None is the first that holds a table
    array: str | None = None  # which array of an NPZ file
    skip_rows: Collection[int] = ()  # rows to leave out, by their numbers from 1
    texts: Collection[str] = ()  # columns whose cells are texts, whatever they look like
    # Columns of texts that name rows: "NA" is a name, and only an empty cell is none
    ids: Collection[str] = ()
    optional: Collection[str] = ()  # columns that lines of JSON may leave out
    n_columns: int = 0  # the least number of columns of an svmlight file, which states only those that are not 0
    said: list[str] = field(default_factory=list)  # what was left out, or found, as sentences
    found: dict[str, str] = field(default_factory=dict)  # the "encoding"
    rows_of_sheet: list[int] = field(default_factory=list)  # of a workbook: the sheet's number of each row

    def named(self, path: Path) -> str:
        """Return the format of a file."""
        if self.format is not None:
            return self.format
        if path == STANDARD:
            return "csv"
        suffixes = path.suffixes[:-1] if path.suffix.lower() == ".gz" else path.suffixes
        suffix = suffixes[-1].lower() if suffixes else ""
        if len(suffixes) < len(path.suffixes) and suffix in SUFFIXES["xlsx"]:
            raise TableError("it is a compressed workbook. Unpack it first")
        for name, known in SUFFIXES.items():
            if suffix in known:
                return name
        if suffix in (".xlsb", ".xls", ".ods", ".numbers"):
            raise TableError(f"it is a spreadsheet's workbook ({suffix}), which is not read. {AS_CSV}")
        if path.is_dir():
            raise TableError("it is a folder. Name a file in it")
        raise TableError(f"its name does not say which format it has. Say so (format): {', '.join(SUFFIXES)}")

    def number(self, kept: int) -> int:
        """Return the number in the file, from 1, of a row by its place among those that are not skipped."""
        return self.numbers(kept, 1)[0]

    def numbers(self, first: int, n_rows: int) -> list[int]:
        """Return the numbers of some rows that follow each other, from the place of the first."""
        skipped, number = {*self.skip_rows}, first + 1
        for row in sorted(skipped):
            number += row <= number
        return [*islice((one for one in count(number) if one not in skipped), n_rows)]

    def say(self, text: str) -> None:
        """Keep a sentence, once."""
        if text not in self.said:
            self.said.append(text)


def pieces(path: Path, how: Reading) -> Iterator[Any]:
    """Give a table in pieces of a few megabytes, each a pandas DataFrame; "-" is the standard input.

    Raises TableError: the file is not such a table; slabsvm.ExtraMissingError: what reads the format is not installed;
    OSError.
    """
    first = 0
    for piece in _parts(path, how):
        kept = _kept(piece, first, how)
        for place, cells in totals_of(kept).items() if not how.skip_rows else ():
            row = first + place + 1
            how.say(f"Row {row:,} looks like a total: {cells}. Leave it out with --skip-rows {row}.")
        first += len(piece)
        if len(kept):
            yield kept


def whole(path: Path, how: Reading) -> Any:
    """Return a table as a whole, a pandas DataFrame, each column's type found by all rows; raises as `pieces`, and
    TableError where the last row is a total.
    """
    if how.named(path) in TEXTS:
        with _records(path, how) as records:
            table = _frame(records, list(records), how)
    else:
        parts = list(_parts(path, how))
        if not parts:
            raise TableError("it has no rows")
        table = parts[0] if len(parts) == 1 else _pandas().concat(parts, ignore_index=True)
    table = _kept(table, 0, how)
    if len(table) == 0:
        raise TableError("it has a header and no rows. Give a table with rows")
    if totals := totals_of(table):
        numbers = ",".join(str(place + 1) for place in totals)
        first, cells = next(iter(totals.items()))
        more = f" (and {len(totals) - 1:,} more)" if len(totals) > 1 else ""
        what = f"row {first + 1:,} looks like a total: {cells}{more}. Leave it out (skip-rows)"
        raise TableError(what, remedy=("skip-rows", numbers))
    return table


def located(error: TableError, path: Path, how: Reading) -> TableError:
    """Return an error of what was read of a file, whose rows have their numbers there, and their lines."""

    def place(row: int) -> tuple[int, str]:
        number, line = how.number(row), None
        if how.rows_of_sheet:
            return number - 1, f"row {how.rows_of_sheet[number - 1]:,} of the sheet"
        if path != STANDARD and how.named(path) in TEXTS:
            with _records(path, how) as records:
                line = records.line_of(number)
        return number - 1, "" if line is None else f"line {line:,}"

    return error.placed(place)


def _parts(path: Path, how: Reading) -> Iterator[Any]:
    name = how.named(path)
    if path == STANDARD and name not in (*TEXTS, "jsonl", "svmlight"):
        raise TableError(f"{name} cannot come from the standard input, where nobody can go back: give a file")
    yield from READERS[name](path, how)


def totals_of(table: Any) -> dict[int, str]:
    """Return rows that are totals, by their places, with their first cells: a cell of them says nothing else."""
    found = np.zeros(len(table), dtype=bool)
    # Of very wide tables, which hold numbers, a column is slow to take.
    for place in [place for place, kind in enumerate(table.dtypes) if getattr(kind, "kind", "O") not in NUMERIC]:
        cells = table.iloc[:, place]
        if _is_text(cells) and (some := _may_be_totals(cells)).any():
            found[some] |= cells[some].str.strip(" \t:").str.lower().isin(TOTALS).to_numpy(dtype=bool)
    # Where more than a row in twenty says so it is a name among others.
    places = np.flatnonzero(found).tolist() if found.sum() <= max(1.0, 0.05 * len(table)) else []
    return {place: ", ".join(map(str, table.iloc[place].dropna().tolist()[:4])) for place in places}


def _may_be_totals(cells: Any) -> BoolArray:
    """Return which texts begin as a total does, as far as that is known at once."""
    known = Letters.of_column(cells)
    if known is None:
        return np.ones(len(cells), dtype=bool)
    letters, missing = known
    two = letters.content[letters.starts].astype(np.intp) * 256 + letters.content[letters.starts + 1]
    found = np.zeros(len(cells), dtype=bool)
    found[~missing] = BEGINNINGS[two] & (letters.sizes < LONGEST_TEXT)
    return found


def _kept(piece: Any, first: int, how: Reading) -> Any:
    """Return a piece, of which `first` rows are before, without the rows to skip."""
    places = [row - 1 - first for row in how.skip_rows if first < row <= first + len(piece)]
    if not places:
        return piece
    return piece.drop(index=piece.index[places]).reset_index(drop=True)


def _texts(path: Path, how: Reading) -> Iterator[Any]:
    with _records(path, how) as records:
        for block in records:
            frame = _frame(records, [block], how)
            # A block may hold nothing but empty lines.
            if len(frame):
                yield _with_numbers(frame, how)


def _frame(records: Records, blocks: Sequence[Block], how: Reading) -> Any:
    """Return a table of blocks, whose records are counted before it is believed."""
    pandas, columns = _pandas(), records.names
    content = b"".join([block.content for block in blocks])
    common: dict[str, Any] = {"sep": records.separator, "header": None, "names": columns}
    # A table of one column has gaps that look like empty lines.
    common["skip_blank_lines"] = len(columns) > 1
    gaps: dict[str, Any] = {}
    if any(name in how.ids for name in columns):
        gaps = {"keep_default_na": False, "na_values": {name: GAPS for name in columns if name not in how.ids}}
    texts = {name: str for name in columns if name in how.texts or name in how.ids}
    common |= {"dtype": texts, "decimal": "." if how.decimal == EITHER else how.decimal, "encoding": "utf-8", **gaps}
    try:
        with warnings.catch_warnings():
            # A column that holds numbers in one part and texts in another is read again as a whole.
            warnings.simplefilter("ignore", pandas.errors.DtypeWarning)
            frame = pandas.read_csv(io.BytesIO(content), **common)
            if any(cells.dtype == object and not _is_text(cells) for _, cells in frame.items()):
                frame = pandas.read_csv(io.BytesIO(content), **common, low_memory=False)
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, ValueError) as error:
        records.examine(blocks)
        if isinstance(error, pandas.errors.EmptyDataError):
            return pandas.DataFrame({name: np.empty(0) for name in columns})
        raise TableError(f"it cannot be read: {error}") from error
    if not isinstance(frame.index, pandas.RangeIndex):
        # pandas took the first cells of a record that is too long for the names of rows.
        records.examine(blocks)
        raise TableError("its rows are longer than its header")
    records.check(blocks, len(frame))

    def written(names: list[str], most: int | None = None) -> Any:
        options = common | {"dtype": str, "usecols": names, "nrows": most}
        return pandas.read_csv(io.BytesIO(content), **options)[names]

    if how.decimal == EITHER:
        _keep_thousands(frame, written, records.separator)
    _keep_zeros(frame, written, content, records.separator)
    # Whole numbers beside gaps are floats of 16 digits, and may have more; those from 2^63 on are texts.
    for name, cells in frame.items():
        is_free = _is_text(cells) and name not in (*how.texts, *how.ids)
        first = next(filter(None, cells.dropna()), "") if is_free else ""
        is_long = cells.dtype.kind == "f" and (cells.abs() >= MOST_WHOLE).any()
        if is_long or re.fullmatch(r"[+-]?[1-9]\d{17,299}", first):
            texts = written([name])[name]
            if texts.dropna().str.fullmatch(r"\s*[+-]?\d{1,300}\s*").all():
                digits = [int(text) if isinstance(text, str) else None for text in texts]
                frame[name] = pandas.Series(digits, index=frame.index, dtype=object)
    return frame


def _is_text(column: Any) -> bool:
    """Return whether a column holds nothing but texts and gaps; before pandas 3 these are objects."""
    return is_text(column) or (column.dtype == object and _pandas().api.types.infer_dtype(column) == "string")


def _with_numbers(frame: Any, how: Reading) -> Any:
    """Return a table in which texts with marks between thousands are numbers, where the decimal mark is known."""
    if (form := GROUPED.get(how.decimal)) is not None:
        for name, cells in frame.items():
            if _is_text(cells) and name not in how.texts and name not in how.ids:
                texts = [text for text in cells.dropna().unique().tolist() if not is_placeholder(text)]
                numbers = numbers_of(texts, form)
                if not np.isnan(numbers).any():
                    frame[name] = cells.map(dict(zip(texts, numbers.tolist(), strict=True))).astype(float)
    return frame


def _keep_thousands(frame: Any, written: Callable[..., Any], separator: str) -> None:
    """Make texts of numbers whose points may stand between thousands, if the file seems to have decimal commas."""
    numbers = [name for name, cells in frame.items() if cells.dtype.kind == "f"]
    firsts = (cells.iloc[:N_FIRST].dropna().tolist() for _, cells in frame.items() if _is_text(cells))
    forms = (writing_of(some, np.ones(len(some), dtype=np.intp)) for some in firsts)
    if not numbers or not (separator == ";" or any(form is not None and form.form[-2] == "," for form in forms)):
        return
    # Where points of the first rows are decimal, all are; where these have none, the others tell.
    for most in (N_FIRST, None):
        if numbers:
            found = written(numbers, most)
            numbers = [name for name in numbers if _has_two_readings(found[name], unmarked=most is not None)]
    for name in numbers:
        frame[name] = found[name]


def _has_two_readings(texts: Any, *, unmarked: bool) -> bool:
    """Return whether points may stand between thousands, or, if that is asked for too, there are none."""
    counts = texts.value_counts()
    form = writing_of(counts.index.tolist(), counts.to_numpy())
    if form is None:
        return unmarked
    return bool(form.other) or form.form != PLAIN or (unmarked and not texts.str.contains(".", regex=False).any())


def _may_have_leading_zero(content: bytes, separator: str) -> bool:
    """Return whether a text may have a cell of digits that begins with a zero."""
    is_between = np.isin(np.arange(256), [ord(separator), *b' \t;|,\r\n"'])
    letters = np.frombuffer(b"\n" + content + b"\n\n", dtype=np.uint8)
    is_digit = letters - np.uint8(ord("0")) < 10
    zeros = np.flatnonzero((letters[1:-2] == ord("0")) & is_digit[2:-1]) + 1
    zeros = zeros[is_between[letters[zeros - 1]] & (is_digit[zeros + 2] | is_between[letters[zeros + 2]])]
    return len(zeros) > 0


def _keep_zeros(frame: Any, written: Callable[..., Any], content: bytes, separator: str) -> None:
    """Make texts of whole numbers of which one has a leading zero, as a postal code has."""
    numbers = [name for name, cells in frame.items() if cells.dtype.kind in "if"]
    if not numbers or not _may_have_leading_zero(content, separator):
        return
    found = written(numbers)
    for name in numbers:
        texts = found[name].dropna().str.strip()
        if texts.str.fullmatch(r"0\d+").any() and texts.str.fullmatch(r"\d+").all():
            frame[name] = found[name].str.strip()


@contextmanager
def _records(path: Path, how: Reading) -> Iterator[Records]:
    separator = how.separator or ("\t" if how.named(path) == "tsv" else None)
    if separator is not None and (len(separator) != 1 or not separator.isascii()):
        raise TableError(f"the separator is one character, not {shown(separator)}")
    if how.decimal != EITHER and (len(how.decimal) != 1 or not how.decimal.isascii()):
        raise TableError(
            f"the decimal point is one character, or ,. where some columns have points and others commas, not "
            f"{shown(how.decimal)} (decimal)"
        )
    with _opened(path) as file:
        records = Records(
            file, separator=separator, encoding=how.encoding, header=how.header, say=how.say, kept=how.kept
        )
        how.found["encoding"] = records.encoding
        yield records


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    opener: Any = gzip.GzipFile if path.suffix.lower() == ".gz" else Path.open
    opened = nullcontext(sys.stdin.buffer) if path == STANDARD else opener(path, "rb")
    # A disk that fails while a piece is read names no file, and a result is being written to another.
    with opened as file, named_errors(path):
        try:
            yield file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TableError(f"its compression is damaged, or it was cut short: {error}") from error


def _parquet(path: Path, _: Reading) -> Iterator[Any]:
    _pandas()
    load("A table of Parquet", "pyarrow", "slabsvm[parquet]")
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            table = parquet.ParquetFile(file)
            names = distinct_names(table.schema_arrow.names)
            height = max(1, PIECE_CELLS // max(1, len(names)))
            for batch in table.iter_batches(batch_size=height):
                # Nobody else looks whether texts are in UTF-8.
                batch.validate(full=True)
                yield _of_batch(batch)
        except UnicodeDecodeError as error:
            raise TableError("it is damaged: a name of a column, or of a type, is not in UTF-8") from error
        except pyarrow.ArrowInvalid as error:
            raise TableError(f"it is no Parquet file, or was cut short: {_first_line(error)}") from error
        except (OSError, pyarrow.ArrowException) as error:
            raise TableError(f"it is damaged, or was cut short: {_first_line(error)}") from error


def _of_batch(batch: Any) -> Any:
    """Return a frame, with the types and the index that pandas has noted in the file."""
    try:
        # Otherwise pandas makes floats of integers with gaps, which long ones do not survive.
        return batch.to_pandas(integer_object_nulls=True)
    except MemoryError:
        raise
    # The notes are JSON that names types, of which pandas believes every word.
    except Exception as error:
        raise TableError(
            f"what pandas noted in it cannot be read: {type(error).__name__}: {_first_line(error)}. Write it anew"
        ) from error


def _json_lines(path: Path, how: Reading) -> Iterator[Any]:
    rows: list[dict[str, Any]] = []
    height, names, missing = PIECE_CELLS // N_LINES, dict.fromkeys(how.optional), dict.fromkeys(how.optional)
    with _opened(path) as file:
        for number, line in enumerate(lines_of(file, how.encoding, how.kept), 1):
            try:
                row = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError) as error:
                raise TableError(f"line {number:,} is no JSON: {_first_line(error)}. Mend it") from error
            if row is None:
                continue
            if not isinstance(row, dict):
                raise TableError(f'line {number:,} is no object of JSON, such as {{"a": 1}}. Mend it')
            # An escape may be half of a letter.
            if b"\\u" in line and re.search("[\ud800-\udfff]", "".join(map(str, (*row, *row.values())))):
                raise TableError(f"line {number:,} holds half of a letter, as where a text was cut. Mend it")
            rows.append(row)
            names |= dict.fromkeys(row)
            if missing:
                missing = {name: None for name in missing if name not in row}
            if len(rows) == height:
                yield _of_objects(rows, names, how)
                rows = []
    if rows:
        yield _of_objects(rows, names, how)
    if missing and names:
        which = listed(list(missing), 5)
        how.say(f"No line has the key {which}, so all its cells are empty. Look whether it has another name.")


def _of_objects(rows: list[dict[str, Any]], names: Collection[str], how: Reading) -> Any:
    """Return a table of objects of JSON, some of which lack columns."""
    table = _pandas().DataFrame.from_records(rows).reindex(columns=list(names))
    for name, cells in table.items():
        # Whole numbers beside gaps have become floats, which long ones do not survive.
        if cells.dtype.kind == "f" and (cells.abs() >= MOST_WHOLE).any():
            table[name] = _pandas().Series([row.get(name) for row in rows], dtype=object)
    return _with_gaps(table, how)


def _with_gaps(table: Any, how: Reading) -> Any:
    """Return a table in which texts that mean gaps, as in CSV, are gaps, but for names of rows."""
    for name, cells in table.items():
        if cells.dtype.kind == "O" or _is_text(cells):
            is_gap = cells.isin([""] if name in how.ids else GAPS)
            table[name] = cells.mask(is_gap, None)
    return table


def _xlsx(path: Path, how: Reading) -> Iterator[Any]:
    pandas = _pandas()
    load("A workbook of a spreadsheet", "openpyxl", "slabsvm[xlsx]")
    with path.open("rb") as file:
        try:
            sheets = pandas.read_excel(
                file, engine="openpyxl", header=None, sheet_name=None, dtype=object, keep_default_na=False
            )
        except MemoryError:
            raise
        # A workbook is an archive of XML, of which openpyxl believes every word.
        except Exception as error:
            raise TableError(f"it is no workbook (.xlsx), or damaged: {_first_line(error)}. {AS_CSV}") from error
    sheets = {name: sheet.mask(sheet == "", np.nan) for name, sheet in sheets.items()}
    name = _sheet_of(sheets, how)
    # A formatted sheet has more rows and columns than it has cells.
    cells = sheets[name].dropna(how="all").dropna(axis=1, how="all")
    if cells.empty:
        raise TableError("it has no rows")
    place, names = 0, [f"x{number}" for number in range(cells.shape[1])]
    if how.header:
        texts = [[str(cell).strip() for cell in row] for row in cells.head(N_LINES).fillna("").values.tolist()]
        place = place_of_header(texts)
        for row in texts[:place]:
            how.say(f"The line above the header, {shown(' '.join(filter(None, row)))}, is left out.")
        names = names_of_header(texts[place], how.say)
        place += 1
    table = cells.iloc[place:].set_axis(names, axis=1)
    if how.header:
        same = sum((table[name] == name).astype(int) for name in names)
        for row in table.index[same > MOST_NAMES * len(names)].tolist():
            how.say(f"Row {row + 1:,} of the sheet repeats the header, and is left out.")
            table = table.drop(index=row)
    how.rows_of_sheet[:] = (table.index + 1).tolist()
    table = table.reset_index(drop=True)
    for column in set(how.ids) & set(names):
        table[column] = table[column].map(_as_text, na_action="ignore")
    yield _with_gaps(table, how).infer_objects()


def _as_text(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _sheet_of(sheets: dict[str, Any], how: Reading) -> str:
    """Return the sheet that was asked for, or the first that holds a table."""
    if how.sheet is not None:
        if how.sheet not in sheets:
            raise TableError(f"it has no sheet {shown(how.sheet)}, but {listed(list(sheets), 5)}")
        return how.sheet
    sizes = {name: sheet.dropna(how="all").shape for name, sheet in sheets.items()}
    tables = [name for name, (n_rows, n_columns) in sizes.items() if n_rows > N_LINES and n_columns > 1]
    found = tables[0] if tables else max(sizes, key=lambda name: sizes[name][0])
    if len(sheets) > 1:
        others = [name for name in sheets if name != found]
        how.say(f"The sheet {shown(found)} is read. Others, as {listed(others, 3)}, are read with --sheet.")
    return found


def _svmlight(path: Path, how: Reading) -> Iterator[Any]:
    from sklearn.datasets import load_svmlight_file

    with _opened(path) as file:
        content = file.read()
    try:
        X, _labels = load_svmlight_file(io.BytesIO(content), zero_based=False)
    except (ValueError, OverflowError, IndexError):
        # With labels of any form, and indices in any order.
        try:
            if b":" not in content:
                raise ValueError("no line has a feature, as 3:1.5")
            X, _labels = load_svmlight_file(io.BytesIO(_plain_svmlight(content)), zero_based=False)
        except (ValueError, OverflowError, IndexError) as error:
            raise TableError(f"it is no svmlight file, whose features count from 1: {_first_line(error)}") from error
    if X.shape[1] > 100_000:  # dense, a piece of some rows would not fit into memory
        raise TableError(f"it has {X.shape[1]:,} columns, and 100,000 are read. Learn sparse rows from Python")
    X.resize((X.shape[0], max(X.shape[1], how.n_columns)))
    yield from _of_array(X, lambda rows: rows.toarray())


def _plain_svmlight(content: bytes) -> bytes:
    """Return lines of svmlight with 0 for each label, and features in increasing order."""
    lines = []
    for line in content.split(b"\n"):
        words = line.partition(b"#")[0].split()
        pairs = [word.partition(b":") for word in words[1:] if not word.startswith(b"qid:")]
        if words:
            ordered = sorted(pairs, key=lambda pair: int(pair[0]))
            lines.append(b" ".join([b"0", *map(b"".join, ordered)]))
    return b"\n".join(lines)


def _of_array(array: Any, dense: Callable[[Any], Any] = np.asarray) -> Iterator[Any]:
    """Give an array in pieces, tables with the columns x0, x1, ..."""
    shape = array.shape
    if len(shape) != 2:
        raise TableError(f"it holds an array of {array.dtype} with the shape {shape}: a table has rows and columns")
    if shape[1] == 0:
        raise TableError("it has no columns")
    # Names of 100,000 columns take longer than a row.
    height, names = max(1, PIECE_CELLS // shape[1]), _pandas().Index([f"x{place}" for place in range(shape[1])])
    for first in range(0, shape[0], height):
        yield _pandas().DataFrame(dense(array[first : first + height]), columns=names)


READERS: dict[str, Callable[[Path, Reading], Iterator[Any]]] = {
    "csv": _texts,
    "tsv": _texts,
    "jsonl": _json_lines,
    "parquet": _parquet,
    "npy": lambda path, _: _of_array(mapped(path)),
    "npz": lambda path, how: _of_array(unpacked(path, how.array)),
    "svmlight": _svmlight,
    "xlsx": _xlsx,
}


def _pandas() -> Any:
    load("A table of this format", "pandas", "slabsvm[tables]")
    import pandas

    return pandas


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
