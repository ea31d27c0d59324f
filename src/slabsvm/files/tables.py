"""Reading tables of seven formats, a piece at a time or as a whole: CSV, TSV, Parquet, NPY, NPZ, svmlight and XLSX.

pandas reads texts, pyarrow Parquet, and openpyxl workbooks: the optional extras `slabsvm[tables]`, `slabsvm[parquet]`
and `slabsvm[xlsx]`. They are imported when a file of such a format is read.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from slabsvm.data.files import named_errors
from slabsvm.files.arrays import mapped, unpacked
from slabsvm.files.records import AS_CSV, Block, Records
from slabsvm.runtime.caller import load
from slabsvm.tables.columns import LAST_EXACT, TableError, distinct_names, is_text, shown
from slabsvm.tables.texts import FIRST, POINTS, THOUSANDS, in_groups, is_placeholder, number_of, writing_of

STANDARD = Path("-")
SUFFIXES = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "npy": (".npy",),
    "npz": (".npz",),
    "svmlight": (".svmlight", ".svm", ".libsvm"),
    "xlsx": (".xlsx", ".xlsm"),
}
WORKBOOKS = (".xlsb", ".xls", ".ods", ".numbers")
TEXTS = ("csv", "tsv")
# Formats that may be compressed by gzip, or come from the standard input.
STREAMS = (*TEXTS, "svmlight")
# So many cells of a table of numbers are in a piece.
PIECE_CELLS = 2**19
# Either is a decimal point, as where nobody says which one is: each column has its own.
EITHER = ",."
# Cells of a text that are gaps: those that pandas takes for gaps unless it is told otherwise.
GAPS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)
# A dense row of more columns is no table of a person's.
MOST_COLUMNS = 100_000


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a table is read."""

    format: str | None = None  # one of SUFFIXES; None goes by the file's name
    separator: str | None = None  # between a text's cells; None is found by its first lines, and of TSV a tab
    # The decimal point of a text's numbers. By ",." each column has its own: numbers with commas remain texts
    decimal: str = EITHER
    encoding: str = "utf-8"
    header: bool = True  # whether the first line of a text has the columns' names
    array: str | None = None  # which array of an NPZ file
    texts: Collection[str] = ()  # columns whose cells are texts, whatever they look like
    # Columns of texts that name rows: "NA" is a name, and only an empty cell is none
    ids: Collection[str] = ()
    n_columns: int | None = None  # how many columns an svmlight file has, which states only those that are not 0

    def named(self, path: Path) -> str:
        """Return the format of a file."""
        if self.format is not None:
            return self.format
        if path == STANDARD:
            return "csv"
        suffixes = path.suffixes[:-1] if path.suffix.lower() == ".gz" else path.suffixes
        suffix = suffixes[-1].lower() if suffixes else ""
        for name, known in SUFFIXES.items():
            if suffix in known:
                return name
        if suffix in WORKBOOKS:
            raise TableError(f"it is a spreadsheet's workbook ({suffix}), which is not read. {AS_CSV}")
        if path.is_dir():
            raise TableError("it is a folder. Name a file in it")
        raise TableError(f"its name does not say which format it has. Say so (format): {', '.join(SUFFIXES)}")


def pieces(path: Path, how: Reading) -> Iterator[Any]:
    """Give a table in pieces of a few megabytes, each a pandas DataFrame or an array; "-" is the standard input.

    Raises TableError: the file is not such a table; slabsvm.ExtraMissingError: what reads the format is not installed;
    OSError.
    """
    name = how.named(path)
    if path == STANDARD and name not in STREAMS:
        raise TableError(f"{name} cannot come from the standard input, where nobody can go back: give a file")
    yield from READERS[name](path, how)


def whole(path: Path, how: Reading) -> Any:
    """Return a table as a whole, a pandas DataFrame or an array, each column's type found by all rows; raises as
    `pieces`.
    """
    if how.named(path) in TEXTS:
        with _records(path, how) as records:
            table = _frame(records, list(records), how)
    else:
        parts = list(pieces(path, how))
        if not parts:
            raise TableError("it has no rows")
        arrays = isinstance(parts[0], np.ndarray)
        table = np.concatenate(parts) if arrays else _pandas().concat(parts, ignore_index=True)
    if len(table) == 0:
        raise TableError("it has a header and no rows. Give a table with rows")
    return table


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
    common: dict[str, Any] = {"sep": records.separator, "header": None, "names": columns, "low_memory": False}
    # A table of one column has gaps that look like empty lines.
    common["skip_blank_lines"] = len(columns) > 1
    gaps: dict[str, Any] = {}
    if any(name in how.ids for name in columns):
        gaps = {"keep_default_na": False, "na_values": {name: GAPS for name in columns if name not in how.ids}}
    texts = {name: str for name in columns if name in how.texts or name in how.ids}
    common |= {"dtype": texts, "decimal": "." if how.decimal == EITHER else how.decimal, "encoding": "utf-8", **gaps}
    try:
        frame = pandas.read_csv(io.BytesIO(content), **common)
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

    def written(names: list[str]) -> Any:
        return pandas.read_csv(io.BytesIO(content), **common | {"dtype": str})[names]

    if how.decimal == EITHER:
        _keep_thousands(frame, written, records.separator)
    # Whole numbers beside gaps are floats of 16 digits, and may have more.
    for name, cells in frame.items():
        if cells.dtype.kind == "f" and (cells.abs() > LAST_EXACT).any():
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
    if (writing := THOUSANDS.get(how.decimal)) is not None:
        for name, cells in frame.items():
            if _is_text(cells) and name not in how.texts and name not in how.ids:
                texts = cells.dropna().unique()
                numbers = {text: np.nan if is_placeholder(text) else number_of(text, writing) for text in texts}
                frame[name] = cells if None in numbers.values() else cells.map(numbers).astype(float)
    return frame


def _keep_thousands(frame: Any, written: Callable[..., Any], separator: str) -> None:
    """Make texts of numbers whose points may stand between thousands, if the file seems to have decimal commas."""
    numbers = [name for name, cells in frame.items() if cells.dtype.kind == "f"]
    firsts = (cells.iloc[:FIRST].dropna().tolist() for _, cells in frame.items() if _is_text(cells))
    commas = (writing_of(some, np.ones(len(some), dtype=np.intp)) in (",", "1,5%", POINTS) for some in firsts)
    if numbers and (separator == ";" or any(commas)):
        found = written(numbers)
        for name in numbers:
            if in_groups(found[name].dropna(), "."):
                frame[name] = found[name]


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
        encoding = how.encoding.lower().replace("utf8", "utf-8")
        yield Records(file, separator=separator, encoding=encoding, header=how.header)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    opened: AbstractContextManager[BinaryIO]
    if path == STANDARD:
        opened = nullcontext(sys.stdin.buffer)
    else:
        compressed = path.suffix.lower() == ".gz"
        opened = cast(BinaryIO, gzip.GzipFile(path)) if compressed else path.open("rb")
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


def _xlsx(path: Path, how: Reading) -> Iterator[Any]:
    pandas = _pandas()
    load("A workbook of a spreadsheet", "openpyxl", "slabsvm[xlsx]")
    given = dict.fromkeys([*how.texts, *how.ids], str)
    with path.open("rb") as file:
        try:
            table = pandas.read_excel(file, engine="openpyxl", header=0 if how.header else None, dtype=given)
        except MemoryError:
            raise
        # A workbook is an archive of XML, of which openpyxl believes every word.
        except Exception as error:
            raise TableError(f"it is no workbook (.xlsx), or damaged: {_first_line(error)}. {AS_CSV}") from error
    table.columns = [f"x{place}" for place in range(table.shape[1])] if not how.header else table.columns.map(str)
    # A formatted sheet has more rows and columns than it has cells.
    table = table.dropna(how="all")
    named = [not name.startswith("Unnamed: ") or bool(table[name].notna().any()) for name in table.columns]
    table = table.loc[:, named].reset_index(drop=True)
    if (blank := next((name for name in table.columns if name.startswith("Unnamed: ")), None)) is not None:
        place = int(blank.removeprefix("Unnamed: ")) + 1
        raise TableError(f"the header has no name for column {place} of the first sheet. Give it one")
    yield table


def _svmlight(path: Path, how: Reading) -> Iterator[Any]:
    from sklearn.datasets import load_svmlight_file

    with _opened(path) as file:
        try:
            X, _ = load_svmlight_file(file, zero_based=False)
        except (ValueError, OverflowError, IndexError) as error:
            raise TableError(f"it is no svmlight file, whose features count from 1: {_first_line(error)}") from error
    n_columns = max(X.shape[1], how.n_columns or 0)
    if n_columns > MOST_COLUMNS:
        raise TableError(f"it has {n_columns:,} columns, and {MOST_COLUMNS:,} are read. Learn sparse rows from Python")
    X.resize((X.shape[0], n_columns))
    yield from _of_array(X, lambda rows: rows.toarray())


def _of_array(array: Any, dense: Callable[[Any], Any] = np.asarray) -> Iterator[Any]:
    shape = array.shape
    if len(shape) != 2:
        raise TableError(f"it holds an array of {array.dtype} with the shape {shape}: a table has rows and columns")
    if shape[1] == 0:
        raise TableError("it has no columns")
    height = max(1, PIECE_CELLS // shape[1])
    for first in range(0, shape[0], height):
        yield dense(array[first : first + height])


READERS: dict[str, Callable[[Path, Reading], Iterator[Any]]] = {
    "csv": _texts,
    "tsv": _texts,
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
