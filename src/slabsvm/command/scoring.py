"""Scores of a table's rows by a saved model, and the lines that the command writes of them."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from gzip import GzipFile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from slabsvm.command.fit import expected_recall
from slabsvm.command.names import RowNames
from slabsvm.command.reasons import LEAST, Outlier, Reason, ReasonCounts
from slabsvm.command.terminal import read_no_more, warn
from slabsvm.detectors.answers import refuse_mixers
from slabsvm.tables.cells import TableError, places_of
from slabsvm.tables.columns import Encoded
from slabsvm.tables.encoder import TableEncoder

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray

# A row that nobody named has its number.
NUMBERED = "row"


class LineWriter:
    """It writes lines of separated values below the names of the columns, each in its form: "%s" for texts."""

    def __init__(self, file: Any, separator: str, head: Sequence[str], forms: Sequence[str]) -> None:
        self._file = file
        self._special = re.compile(f'["{separator}\n\r]')
        # csv.writer puts no quotes around a carriage return where lines end in a line feed, and takes longer.
        self._line = separator.join(forms) + "\n"
        file.write(separator.join(self.quoted(head)) + "\n")

    def write(self, *columns: Iterable[Any]) -> None:
        """Write a line for each row."""
        self._file.write("".join(map(self._line.__mod__, zip(*columns, strict=True))))

    def quoted(self, texts: Sequence[Any]) -> Sequence[Any]:
        """Return texts, or numbers as texts, in quotes where they hold what has a meaning between cells."""
        doubled = (str(text).replace('"', '""') for text in texts)
        return [f'"{text}"' if self._special.search(text) else text for text in doubled]


# A function of rows and their scores.
PValues = Callable[["FloatArray", "FloatArray"], "FloatArray"]
WRITTEN = ("decision", "accepted", "score", "p_value", "reasons")
DIGITS = "%.6g"
# The row's name, and what is written of it; there may be no p-value.
FORMS = ("%s", DIGITS, "%s", DIGITS, "%s", "%s")
# So many columns that speak against rows are named to a program.
MOST_DRIVERS = 10
# So many rejected rows of a piece tell it where none has reasons.
ROWS_OF_A_PIECE = 50
TINY = 1e-300
MOST = np.finfo(np.float64).max


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


@dataclass(frozen=True)
class Scorer:
    """A model that answers tables."""

    encoder: TableEncoder
    between: list[tuple[str, Any]]  # with their names
    detector: Any  # fitted detector
    p_values: PValues | None  # function of rows and their scores that gives p-values, or None
    alpha: float | None  # reject p-values of at most this; None is the model's own threshold

    @classmethod
    def of(cls, model: Pipeline, alpha: float | None) -> Scorer:
        """Return the scorer of a pipeline that begins with an encoder of tables."""
        detector = model[-1]
        p_values = _p_values_of(detector)
        if alpha is not None and p_values is None:
            raise click.ClickException(
                f"{type(detector).__name__} has no p-values for --alpha: it keeps no scores of its rows. Leave --alpha "
                "out, or fit with --detector calibrated."
            )
        least = getattr(detector, "smallest_p_value_", 1.0 / (1.0 + model[0].n_rows_))
        if alpha is not None and alpha < least:
            none = f"--alpha {alpha:g} rejects no row, since no p-value of this model is below {least:.2g}. "
            warn([none + "Give at least that, or learn more rows."])
        return cls(model[0], model.steps[1:-1], detector, p_values, alpha)

    def answers(self, table: Any) -> Answers:
        """Return what the model says of a table's rows."""
        encoded = self.encoder.encoded(table)
        rows = encoded.values
        for _, step in self.between:
            # A cell may overflow on the scale of those that were learned: it is as far away as a number can be.
            rows = np.clip(step.transform(rows), -MOST, MOST)
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
        return np.asarray(against / np.minimum(against.sum(axis=1, keepdims=True), -TINY))

    def nearest(self, answers: Answers, rows: IndexArray, blame: FloatArray) -> FloatArray:
        """Return the median of each column to blame over the learned rows nearest in the others, (n, n_columns), or
        NaN.
        """
        from slabsvm import AutoDetector

        found = np.full(blame.shape, np.nan)
        if isinstance(self.detector, AutoDetector) and not self.between:
            combination = self.detector.model_.combination
            for column, places in enumerate(self.encoder.number_places()):
                some = np.flatnonzero(blame[:, column] >= LEAST)
                if places is not None and len(some):
                    found[some, column] = combination.nearest_median(answers.rows[rows[some]], *places)
        return found

    def expected_rejected(self) -> float | None:
        """Return the share of new good rows that is expected to be rejected; None where nobody says."""
        if self.alpha is not None:
            return self.alpha
        share = expected_recall(self.detector)
        return None if share is None else round(1.0 - share, 12)


def _p_values_of(detector: Any) -> PValues | None:
    """Return how a detector's p-values come of rows and their scores, None where it has none."""
    from slabsvm.detectors.base import Detector

    if isinstance(detector, Detector):
        learned = getattr(detector, "calibration_decisions_", None)
        return None if learned is None else lambda _, score: detector.model_.p_values(learned, score - detector.offset_)
    return (lambda rows, _: np.asarray(detector.p_values(rows))) if hasattr(detector, "p_values") else None


# The columns that speak against a row, and the readings of the detector that find it abnormal.
Reasons = tuple[list[Reason], list[str]]


@dataclass
class Run:
    """Pieces of a table, scored and written one after the other."""

    scorer: Scorer
    reasons: int  # how many columns say why a row is rejected
    names: RowNames
    readers: list[Callable[[Any, Answers], object]] = field(default_factory=list)  # what else reads pieces
    # How many rows were scored and rejected so far
    rows: int = 0
    rejected: int = 0
    beyond: int = 0  # how many are further out than every learned row
    ended: bool = False  # whether these are all rows
    tally: ReasonCounts = field(init=False)

    least_learned: tuple[int, float] | None = field(init=False)  # how many rows were learned, and their least decision

    def __post_init__(self) -> None:
        self.tally = ReasonCounts(self.scorer.encoder.columns_)
        learned = getattr(self.scorer.detector, "calibration_decisions_", None)
        known = np.empty(0) if learned is None else learned[np.isfinite(learned)]
        self.least_learned = (len(known), float(known.min())) if len(known) else None

    @property
    def share(self) -> float:
        """The share of rejected rows."""
        return self.rejected / self.rows if self.rows else 0.0

    def write(self, pieces: Iterable[Any], file: Any, separator: str, progress: Callable[[int], None]) -> None:
        """Score pieces, and write a line for each row; TableError where there are none, or one is not what the model
        takes.
        """
        lines = None
        for piece in pieces:
            if lines is None:
                self.names.look_at(piece)
                if separator:
                    lines = LineWriter(file, separator, [self.names.column or NUMBERED, *WRITTEN], FORMS)
            try:
                answers = self.scorer.answers(piece)
            except TableError as error:
                raise error.below(self.rows) from error
            called = self.names.of(piece, self.rows + 1)
            reasons = self._reasons(piece, answers, called)
            self.rows += len(answers.accepted)
            self.rejected += int(np.count_nonzero(~answers.accepted))
            if self.least_learned is not None:
                self.beyond += int(np.count_nonzero(answers.decision < self.least_learned[1]))
            p_values = answers.p_value
            if lines is None:
                file.writelines(self._json_lines(called, answers, reasons))
            else:
                in_words = [
                    "; ".join(one.said() for one in some) + (f"; {', '.join(said)}" if said else "")
                    for some, said in reasons
                ]
                lines.write(
                    lines.quoted(called),
                    answers.decision.tolist(),
                    np.where(answers.accepted, "true", "false").tolist(),
                    answers.score.tolist(),
                    [""] * len(reasons) if p_values is None else map(DIGITS.__mod__, p_values.tolist()),
                    lines.quoted(in_words),
                )
            for reader in self.readers:
                reader(piece, answers)
            progress(self.rows)
        if self.rows == 0:
            raise TableError("it has a header and no rows. Give a table with rows")
        self.ended = True

    def facts(self) -> dict[str, Any]:
        """Return how many rows were rejected and how many were expected to be, and which columns speak against them."""
        drivers = self.tally.drivers()[:MOST_DRIVERS]
        return {
            "rows": self.rows,
            "accepted": self.rows - self.rejected,
            "rejected": self.rejected,
            "share_rejected": self.share,
            "share_expected": self.scorer.expected_rejected(),
            "beyond_all_learned": None if self.least_learned is None else self.beyond,
            "driven_by": [{"column": one.column.name, "part": one.part, "rows": dict(one.ways)} for one in drivers],
        }

    def _json_lines(self, called: Sequence[Any], answers: Answers, reasons: list[Reasons]) -> Iterator[str]:
        """Give an object of JSON for each row."""
        column = self.names.column or NUMBERED
        numbers = (answers.decision.tolist(), answers.accepted.tolist(), answers.score.tolist())
        for *row, (some, said) in zip(called, *numbers, answers.listed_p_values, reasons, strict=True):
            facts: dict[str, Any] = dict(zip([column, *WRITTEN[:-1]], row, strict=True))
            facts["reasons"] = [
                {**asdict(one), "nearest_rows": None if np.isnan(one.nearest_rows) else one.nearest_rows}
                for one in some
            ]
            facts["outlier_to"] = said
            yield json.dumps(facts, ensure_ascii=False, allow_nan=False) + "\n"

    def _reasons(self, piece: Any, answers: Answers, called: Sequence[Any]) -> list[Reasons]:
        """Return for each rejected row the columns that speak most against it, and the readings that reject it."""
        found: list[Reasons] = [([], [])] * len(answers.accepted)
        rows = np.flatnonzero(~answers.accepted)
        if not self.reasons:
            rows = rows[:: 1 + len(rows) // ROWS_OF_A_PIECE]
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
        reasons = self.tally.add(cells, unseen, blame, nearest, self.rows + rows + 1)
        decisions, p_values, first = answers.decision.tolist(), answers.listed_p_values, self.rows + 1
        outliers = zip(rows.tolist(), reasons, strict=True)
        self.tally.keep(
            [Outlier(first + at, str(called[at]), decisions[at], p_values[at], some) for at, some in outliers]
        )
        if self.reasons:
            # Which readings reject each row.
            try:
                said = self.scorer.detector.outlier_to(answers.rows[rows])
            except AttributeError:  # there are none
                said = [()] * len(rows)
            for row, some, readings in zip(rows, reasons, said, strict=True):
                found[row] = some[: self.reasons], list(readings)
        return found


def separator_of(path: Path) -> str:
    """Return what is between the cells of an output file, by its name; "" for lines of JSON."""
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        return ""
    return "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ","


@contextmanager
def output_file(path: Path) -> Iterator[io.TextIOWrapper]:
    """Give a text file in UTF-8 that is at the path when all is written; "-" and devices are written as they are. Where
    nobody reads these on, as after `| head`, no error is raised.
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


def loaded(path: Path) -> Pipeline:
    """Return the model of a file: an encoder of tables, other steps, and a detector with scores; ClickException for
    others.
    """
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    from slabsvm.detectors.answers import unwrapped
    from slabsvm.files import load
    from slabsvm.tables import TableEncoder

    model = load(path)
    before, detector = unwrapped(model)
    if not before or not isinstance(before[0][1], TableEncoder):
        raise click.ClickException(
            f"{path} holds a {type(model).__name__}, and no model that takes tables. `slabsvm fit` writes such models, "
            "as does slabsvm.files.save of make_pipeline(TableEncoder(), detector)."
        )
    try:
        check_is_fitted(before[0][1])
        check_is_fitted(detector)
    except NotFittedError as error:
        raise click.ClickException(f"{path} holds a model that has learned nothing: save it after its fit.") from error
    if not hasattr(detector, "score_samples"):
        raise click.ClickException(
            f"{path} ends in {type(detector).__name__}, which gives rows no score: load it from Python."
        )
    return Pipeline([*before, ("detector", detector)])
