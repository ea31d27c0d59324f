"""Scores of a table's rows by a saved model, why rows are rejected, and the lines that the command writes of them."""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from gzip import GzipFile
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from slabsvm.command.model import RowNames, expected_recall
from slabsvm.command.terminal import printable, read_no_more, warn
from slabsvm.detectors.answers import refuse_mixers
from slabsvm.tables.cells import TableError, places_of
from slabsvm.tables.columns import Column, Encoded, Numbers
from slabsvm.tables.encoder import TableEncoder
from slabsvm.tables.numbers import PLAIN, numbers_of

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
    from slabsvm.tables.cells import Cells

# Columns with a smaller part of the blame are not named, in a row or in all.
LEAST_BLAME = 0.01
# How a cell without a value is shown.
EMPTY_CELL = "(empty)"


# What is written of a row, behind its name.
WRITTEN = ("decision", "accepted", "score", "p_value", "reasons")


@dataclass(frozen=True)
class Reason:
    """A cell that speaks against its row."""

    column: str
    cell: str
    nearest_rows: float  # the median of the column over the learned rows nearest in the others; NaN if not known
    part: float  # its part in what speaks against the row
    how: str  # what is wrong with it, by `_wrong_with`
    form: str = PLAIN  # how numbers of the column are written, one of `numbers.FORMS`
    unit: str = ""  # what stands beside them
    percent: bool = False

    def phrase(self) -> str:
        """Return COLUMN=CELL, nearest rows NUMBER (PART)."""
        return f"{self.column}={self.cell}{self.against()} ({self.part:.0%})"

    def against(self) -> str:
        """Return what the nearest rows have, as the end of a sentence; "" where it is what was found."""
        found, nearest = numbers_of([self.cell], self.form, self.unit)[0], _short(self.nearest_rows)
        if np.isnan(self.nearest_rows) or _short(found) == nearest:
            return ""
        nearest = f"{_short(100 * self.nearest_rows)}%" if self.percent else nearest
        return f", nearest rows {nearest.replace('.', self.form[-2])}"


@dataclass(frozen=True)
class Outlier:
    """A rejected row."""

    row: int  # from 1
    name: str
    decision: float
    p_value: float | None
    reasons: list[Reason]


@dataclass(frozen=True)
class Driver:
    """A column that speaks against rejected rows."""

    column: Column
    part: float  # its part in what speaks against all of them
    ways: Counter[str]  # how many rows it rejects before all other columns, and how
    example: str  # the worst cell with its row; "" where the column is the first of no row
    way: str  # what is wrong with it

    def phrase(self) -> str:
        """Return the column, its part and its example."""
        name, example = printable([self.column.name, self.example])
        if example.startswith(EMPTY_CELL):
            example = f" (empty{example.removeprefix(EMPTY_CELL)})"
        elif example:
            example = f" ({self.way}: {example})"
        return f"{name} {self.part:.0%}{example}"


class ReasonCounts:
    """What speaks against the rejected rows of a table, piece by piece."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.blame = np.zeros(len(columns))  # the sum of their parts
        self.ways: list[Counter[str]] = [Counter() for _ in columns]
        # By column and way the worst cell: how far it is from the median, its part in its row's rejection, its text
        self.examples: dict[tuple[int, str], tuple[float, float, str]] = {}
        self.outliers: list[Outlier] = []  # those with the least decisions

    def add(
        self, cells: list[Cells], unseen: BoolArray, blame: FloatArray, nearest: FloatArray, numbers: IndexArray
    ) -> list[list[Reason]]:
        """Count rejected rows, with a row each of cells, `unseen`, `blame` and `nearest`, (n, n_columns); return their
        reasons.
        """
        self.blame += blame.sum(axis=0)
        found = []
        order = np.argsort(-blame, axis=1, kind="stable")
        # Among numbers a text may stand for an empty cell.
        read = [
            column.read(of) if isinstance(column, Numbers) else of
            for column, of in zip(self.columns, cells, strict=True)
        ]
        writings = [
            (column.form, column.unit, column.percent) if isinstance(column, Numbers) else () for column in self.columns
        ]
        for number, (row, places) in enumerate(zip(numbers.tolist(), order.tolist(), strict=True)):
            reasons = [
                Reason(
                    self.columns[place].name,
                    shown(cells[place], number),
                    float(nearest[number, place]),
                    float(blame[number, place]),
                    _wrong_with(self.columns[place], read[place], number, unseen=bool(unseen[number, place])),
                    *writings[place],
                )
                for place in places
                if blame[number, place] >= LEAST_BLAME
            ]
            found.append(reasons)
            if reasons:
                first, worst = reasons[0], places[0]
                self.ways[worst][first.how] += 1
                column, key, away = self.columns[worst], (worst, first.how), 0.0
                if first.how == "never seen":
                    away = np.inf
                elif isinstance(column, Numbers) and first.how != "empty":
                    away = abs(float(read[worst].values[number]) - column.median)
                if key not in self.examples or (away, first.part) > self.examples[key][:2]:
                    self.examples[key] = away, first.part, f"{first.cell} in row {row:,}{first.against()}"
        return found

    def keep(self, outliers: list[Outlier]) -> None:
        """Keep the twenty rows with the least decisions, as many as a reader of the report looks at."""
        self.outliers = nsmallest(20, [*self.outliers, *outliers], key=lambda one: (one.decision, one.row))

    def drivers(self, most: int) -> list[Driver]:
        """Return the columns that speak against the rows, the heaviest first; equal percentages in table order."""
        total = self.blame.sum()
        if not total > 0:
            return []
        parts = self.blame / total
        found: list[Driver] = []
        for at in np.argsort(-np.round(parts, 2), kind="stable").tolist():
            if parts[at] < LEAST_BLAME or len(found) == most:
                continue
            known = [(*one, way) for (place, way), one in self.examples.items() if place == at]
            # The cell that is furthest away, or of what was never seen; an empty one where most are.
            if self.ways[at] and self.ways[at].most_common(1)[0][0] == "empty":
                known = [one for one in known if one[-1] == "empty"]
            _, _, text, way = max(known, default=(0.0, 0.0, "", ""))
            found.append(Driver(self.columns[at], float(parts[at]), self.ways[at], text, way))
        return found

    def sentence(self) -> str:
        """Return the three columns that drive the rejections; "" where the detector gives no reasons."""
        drivers = "; ".join(one.phrase() for one in self.drivers(3))
        return f"Columns that drive the rejections: {drivers}." if drivers else ""


def _wrong_with(column: Column, cells: Cells, row: int, *, unseen: bool) -> str:
    """Return in a few words what is wrong with a cell, as read."""
    if cells.missing[row]:
        return "empty"
    if unseen:
        return "never seen"
    if isinstance(column, Numbers) and not column.boolean:
        if cells.values[row] > column.high:
            return "too high"
        if cells.values[row] < column.low:
            return "too low"
    return "unlike the other columns"


def _short(number: float) -> str:
    """Return a number with three digits; from 1,000 to a million, where these would have an exponent, as a whole."""
    return f"{number:.0f}" if 1e6 > abs(number) >= 1e3 else f"{number:.3g}"


def shown(cells: Any, row: int) -> str:
    """Return a cell as a reason names it."""
    if cells.missing[row]:
        return EMPTY_CELL
    value = cells.cell(row)
    return f"{value:.6g}" if isinstance(value, float | np.integer) else str(value)


# The columns that speak against a row, and the readings of the detector that find it abnormal.
Reasons = tuple[list[Reason], list[str]]


@dataclass(frozen=True)
class Answers:
    """What a model says of some rows."""

    # (n,) each; None where the model has no p-values
    decision: FloatArray
    score: FloatArray
    p_value: FloatArray | None
    accepted: BoolArray
    encoded: Encoded
    rows: FloatArray  # (n, d): as the detector takes them

    @property
    def listed_p_values(self) -> list[Any]:
        """The p-values, or None for each row."""
        return [None] * len(self.score) if self.p_value is None else self.p_value.tolist()


def separated(texts: Iterable[Any], separator: str) -> list[Any]:
    """Return texts, or numbers, in quotes where they hold what has a meaning between cells.

    csv.writer puts no quotes around a carriage return where lines end in a line feed, and takes longer.
    """
    special = re.compile(f'["{separator}\n\r]')
    doubled = (str(text).replace('"', '""') for text in texts)
    return [f'"{text}"' if special.search(text) else text for text in doubled]


def separated_lines(called: Sequence[Any], answers: Answers, reasons: Sequence[Reasons], separator: str) -> str:
    """Return a line of separated values for each row."""
    in_words = [
        "; ".join(one.phrase() for one in some) + (f"; {', '.join(found)}" if found else "") for some, found in reasons
    ]
    columns = (
        separated(called, separator),
        answers.decision.tolist(),
        np.where(answers.accepted, "true", "false").tolist(),
        answers.score.tolist(),
        ["" if one is None else f"{one:.6g}" for one in answers.listed_p_values],
        separated(in_words, separator),
    )
    line = separator.join(("%s", "%.6g", "%s", "%.6g", "%s", "%s")) + "\n"
    return "".join(map(line.__mod__, zip(*columns, strict=True)))


def json_lines(called: Sequence[Any], answers: Answers, reasons: Sequence[Reasons], name: str) -> str:
    """Return an object of JSON for each row, whose name has this name."""
    lines, head = [], (name, *WRITTEN)
    numbers = (answers.decision.tolist(), answers.accepted.tolist(), answers.score.tolist(), answers.listed_p_values)
    for *row, (some, found) in zip(called, *numbers, reasons, strict=True):
        listed = [
            {**asdict(one), "nearest_rows": None if np.isnan(one.nearest_rows) else one.nearest_rows} for one in some
        ]
        facts = {**dict(zip(head, [*row, listed], strict=True)), "outlier_to": found}
        lines.append(json.dumps(facts, ensure_ascii=False, allow_nan=False) + "\n")
    return "".join(lines)


class Scorer:
    """A pipeline that begins with an encoder of tables, and answers tables."""

    def __init__(self, model: Pipeline, alpha: float | None) -> None:
        self.encoder: TableEncoder = model[0]
        self.between = model.steps[1:-1]  # with their names
        self.detector = model[-1]
        self.p_values = _p_values_of(self.detector)
        self.alpha = alpha  # reject p-values of at most this; None is the model's own threshold
        if alpha is not None and self.p_values is None:
            raise click.ClickException(
                f"{type(self.detector).__name__} has no p-values for --alpha: it keeps no scores of its rows. Leave "
                "--alpha out, or fit with --detector calibrated."
            )
        least = getattr(self.detector, "smallest_p_value_", 1.0 / (1.0 + self.encoder.n_rows_))
        if alpha is not None and alpha < least:
            none = f"--alpha {alpha:g} rejects no row, since no p-value of this model is below {least:.2g}. "
            warn([none + "Give at least that, or learn more rows."])

    def answers(self, table: Any) -> Answers:
        """Return what the model says of a table's rows."""
        encoded = self.encoder.encoded(table)
        rows, largest = encoded.values, np.finfo(np.float64).max
        for _, step in self.between:
            # A cell may overflow on the scale of those that were learned: it is as far away as a number can be.
            rows = np.clip(step.transform(rows), -largest, largest)
        score = self.detector.score_samples(rows)
        decision = score - self.detector.offset_
        p_value = None if self.p_values is None else self.p_values(rows, score)
        accepted = decision >= 0 if self.alpha is None or p_value is None else p_value > self.alpha
        return Answers(decision, score, p_value, accepted, encoded, rows)

    def blame(self, answers: Answers, rows: IndexArray) -> FloatArray:
        """Return the part of each column, (n, n_columns), in what speaks against some rows: of the negative shares.

        Raises ClickException: columns have no shares, as behind a step that mixes them.
        """
        try:
            refuse_mixers(self.between)
            shares = self.detector.explain(answers.rows[rows])
        except ValueError as error:
            raise click.ClickException(f"There are no reasons: {error} --reasons 0 leaves them out.") from error
        against = np.clip(self.encoder.by_column(shares, answers.encoded.strange[rows]), None, 0.0)
        # Where nothing speaks against a row, no column has a part: 0 / -1e-300.
        return np.asarray(against / np.minimum(against.sum(axis=1, keepdims=True), -1e-300))

    def nearest(self, answers: Answers, rows: IndexArray, blame: FloatArray) -> FloatArray:
        """Return the median of each column to blame over the learned rows nearest in the others, (n, n_columns), or
        NaN.
        """
        from slabsvm import AutoDetector

        found = np.full(blame.shape, np.nan)
        if isinstance(self.detector, AutoDetector) and not self.between:
            combination = self.detector.model_.combination
            for column, places in enumerate(self.encoder.number_places()):
                some = np.flatnonzero(blame[:, column] >= LEAST_BLAME)
                if places is not None and len(some):
                    found[some, column] = combination.nearest_median(answers.rows[rows[some]], *places)
        return found

    def expected_rejected(self) -> float | None:
        """Return the share of new good rows that is expected to be rejected; None where the model does not say."""
        if self.alpha is not None:
            return self.alpha
        share = expected_recall(self.detector)
        return None if share is None else round(1.0 - share, 12)  # of .9 it is .1, without the rounding


def _p_values_of(detector: Any) -> Callable[[FloatArray, FloatArray], FloatArray] | None:
    """Return the function of rows and their scores that gives a detector's p-values, None where it has none."""
    from slabsvm.detectors.base import Detector

    if isinstance(detector, Detector):
        learned = getattr(detector, "calibration_decisions_", None)
        return None if learned is None else lambda _, score: detector.model_.p_values(learned, score - detector.offset_)
    return (lambda rows, _: np.asarray(detector.p_values(rows))) if hasattr(detector, "p_values") else None


class Run:
    """Pieces of a table, scored and written one after the other."""

    def __init__(self, scorer: Scorer, reasons: int, names: RowNames) -> None:
        self.scorer, self.names = scorer, names
        self.reasons = reasons  # how many columns say why a row is rejected
        self.readers: list[Callable[[Any, Answers], object]] = []  # what else reads pieces
        # How many rows were scored, were rejected, and are further out than every learned row, so far
        self.rows = self.rejected = self.beyond = 0
        self.ended = False  # whether these are all rows
        self.counts = ReasonCounts(scorer.encoder.columns_)
        learned = np.asarray(getattr(scorer.detector, "calibration_decisions_", ()), dtype=np.float64)
        # The learned rows' decisions, each without itself; empty where the detector keeps none
        self.learned: FloatArray = learned[np.isfinite(learned)]

    @property
    def share(self) -> float:
        """The share of rejected rows."""
        return self.rejected / self.rows if self.rows else 0.0

    def write(self, pieces: Iterable[Any], file: Any, separator: str) -> None:
        """Score pieces, and write a line for each row, of JSON where the separator is ""; TableError where there are
        none, or one is not what the model takes.
        """
        least = self.learned.min() if len(self.learned) else -np.inf
        for number, piece in enumerate(pieces):
            if number == 0:
                self.names.look_at(piece)
                name = self.names.column or "row"
                if separator:
                    file.write(separator.join(separated((name, *WRITTEN), separator)) + "\n")
            try:
                answers = self.scorer.answers(piece)
            except TableError as error:
                raise error.below(self.rows) from error
            called = self.names.of(piece, self.rows + 1)
            reasons = self._reasons(piece, answers, called)
            self.rows += len(answers.accepted)
            self.rejected += int(np.count_nonzero(~answers.accepted))
            self.beyond += int(np.count_nonzero(answers.decision < least))
            if separator:
                file.write(separated_lines(called, answers, reasons, separator))
            else:
                file.write(json_lines(called, answers, reasons, name))
            for reader in self.readers:
                reader(piece, answers)
        if self.rows == 0:
            raise TableError("it has a header and no rows. Give a table with rows")
        self.ended = True

    def facts(self) -> dict[str, Any]:
        """Return how many rows were rejected and how many were expected to be, and which columns speak against them."""
        drivers = self.counts.drivers(10)
        return {
            "rows": self.rows,
            "accepted": self.rows - self.rejected,
            "rejected": self.rejected,
            "share_rejected": self.share,
            "share_expected": self.scorer.expected_rejected(),
            "beyond_all_learned": self.beyond if len(self.learned) else None,
            "driven_by": [{"column": one.column.name, "part": one.part, "rows": dict(one.ways)} for one in drivers],
        }

    def beyond_phrase(self) -> str:
        """Return how many rows are further out than every learned row, and how many chance gives; "" if not known."""
        if not len(self.learned):
            return ""
        by_chance = f"{self.rows / (len(self.learned) + 1):.2g}"
        verb = "is" if self.beyond == 1 else "are"
        return f"{self.beyond:,} of them {verb} further out than every learned row, where chance gives {by_chance}"

    def _reasons(self, piece: Any, answers: Answers, called: Sequence[Any]) -> list[Reasons]:
        """Return for each rejected row the columns that speak most against it, and the readings that reject it."""
        found: list[Reasons] = [([], [])] * len(answers.accepted)
        rows = np.flatnonzero(~answers.accepted)
        if not self.reasons:
            # Of a piece 50 rejected rows, or up to 99, tell which columns drive the rejections.
            rows = rows[:: 1 + len(rows) // 50]
        if len(rows) == 0:
            return found
        try:
            blame = self.scorer.blame(answers, rows)
        except click.ClickException:
            if self.reasons:
                raise
            return found
        table, encoder = piece.iloc[rows] if hasattr(piece, "iloc") else piece[rows], self.scorer.encoder
        cells = [encoder.cells(table, places_of(table), column.name) for column in encoder.columns_]
        nearest, unseen = self.scorer.nearest(answers, rows, blame), answers.encoded.strange[rows]
        reasons = self.counts.add(cells, unseen, blame, nearest, self.rows + rows + 1)
        decisions, p_values, first = answers.decision.tolist(), answers.listed_p_values, self.rows + 1
        outliers = zip(rows.tolist(), reasons, strict=True)
        self.counts.keep(
            [Outlier(first + at, str(called[at]), decisions[at], p_values[at], some) for at, some in outliers]
        )
        if self.reasons:
            # A detector of several readings says which of them reject each row.
            outlier_to = getattr(self.scorer.detector, "outlier_to", lambda some: [()] * len(some))
            for row, some, readings in zip(rows, reasons, outlier_to(answers.rows[rows]), strict=True):
                found[row] = some[: self.reasons], list(readings)
        return found


def separator_of(path: Path) -> str:
    """Return what is between the cells of an output file, by its name; "" for lines of JSON."""
    name = path.name.removesuffix(".gz")
    return "" if name.endswith(".jsonl") else "\t" if name.endswith(".tsv") else ","


@contextmanager
def output_file(path: Path) -> Iterator[io.TextIOWrapper]:
    """Give a text file in UTF-8 that is at the path when all is written; "-" and devices are written as they are. Where
    these are closed, as by `| head`, no error is raised.
    """
    from slabsvm.data.files import is_stream, replacing

    if str(path) == "-":
        stream = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
        try:
            yield stream
            stream.flush()
        except BrokenPipeError:
            read_no_more(sys.stdout)
        finally:
            stream.detach()
    elif is_stream(path):
        # A device or a pipe has no place that a file could take.
        with suppress(BrokenPipeError), path.open("w", encoding="utf-8", newline="") as file:
            yield file
    else:
        with replacing(path) as raw, ExitStack() as stack:
            binary: Any = raw
            if path.suffix.lower() == ".gz":
                binary = stack.enter_context(GzipFile(filename="", fileobj=raw, mode="wb", mtime=0))
            file = io.TextIOWrapper(binary, encoding="utf-8", newline="")
            yield file
            file.flush()
            file.detach()
