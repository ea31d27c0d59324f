"""The transformer that turns a person's table into rows for a detector, and keeps what it needs to do so again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import DataConversionWarning, DataDimensionalityWarning
from sklearn.utils.validation import check_is_fitted

from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.caller import counted, warn
from slabsvm.runtime.estimators import StrOptions, _fit_context, atomic
from slabsvm.tables.cells import Cells, TableError, cells_of, listed, places_of, shown, table_of
from slabsvm.tables.columns import Categories, Column, Encoded, Numbers
from slabsvm.tables.plan import LeftOut, Plan, Rules, Undecided, decided, nothing_left, read_at_once, refused, taken
from slabsvm.tables.times import PARTS

MISSING = ("indicate", "impute", "refuse")
T = TypeVar("T")
# The last coordinate, which is 0 for every row that was learned.
UNSEEN = "never met"


@dataclass(kw_only=True, eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Encoder that turns tables into rows of float64, by the names of their columns.

    Numbers and booleans stay numbers, also texts with decimal commas. Each category becomes a coordinate (one-hot). The
    hour and the weekday of a time become two coordinates each, on a circle. Identifiers, free texts and columns without
    a value are left out. `planned` shows how each column is taken.

    One more coordinate is 0 for every training row. It marks unseen values: a new category, a new value in a constant
    column, or an empty cell in a column that had none. A row with k unseen values has sqrt(n k), with n the number of
    learned rows: one unseen value is sqrt(n) standard deviations away, as the category of one row in n + 1 is. (Linear
    and additive kernels give the coordinate no weight. The folds of `AutoDetector` below 400 rows take a category that
    only left-out rows have for a change of 1, not of sqrt(n).)

    Columns are found by name. Their order does not matter, and extra columns are left out.

    Parameters
    ----------
    columns : sequence of str or None, default=None
        The columns to take; None takes all but those that are named below.
    drop : sequence of str, default=()
        Columns to leave out.
    categories : sequence of str, default=()
        Columns to take as categories, whatever they look like, such as numbers that are codes.
    keep : sequence of str, default=()
        Columns to learn from, although they look like identifiers or free texts.
    times : sequence of {"hour", "weekday", "elapsed"}, default=("hour", "weekday")
        What is learned from times: "hour" if the rows span two days, and "weekday" if they span two weeks. "elapsed"
        counts the days since the first row: every later row then differs from all training rows. () leaves times out.
    gaps : sequence of str, default=()
        Texts that mean empty cells. Among numbers and times "-", "?", "#REF!" and similar texts are empty in any case.
    decimal : {",", "."} or None, default=None
        The decimal mark of numbers that are texts, where it cannot be seen: "." reads "11.073" as 11.073, and "," as
        11073. None goes by the other columns; if they do not tell, points are decimal, with a warning, and commas are
        an error.
    day_first : bool or None, default=None
        Whether 05/01/2024 is in January. None goes by dates such as 13/01/2024, or by points; if none tells, it
        is an error.
    id_column, weight_column : str or None, default=None
        The columns that name and weigh the rows. They are not learned.
    missing : {"indicate", "impute", "refuse"}, default="indicate"
        What to do with empty cells. "impute" fills in the median, or the most frequent category. "indicate" fills in
        the median of numbers, gives a missing text no category, and adds a coordinate for each column with empty cells,
        which is 1 where a cell is empty. An empty time gets the middle of the learned period, and cosines and sines of
        0. "refuse" raises.

    Attributes
    ----------
    columns_ : tuple of Column
        What was learned of each column that is taken.
    left_out_ : tuple of LeftOut
        The columns that are left out by default, and what they are taken for.
    encoding_ : str or None
        The encoding of the file, if the command read one.
    n_rows_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of str
        All columns of the table that was learned.

    Examples
    --------
    >>> import pandas as pd
    >>> from slabsvm import TableEncoder
    >>> table = pd.DataFrame({"width": [1.0, 2.0, 4.0, 5.0], "finish": ["matt", "matt", "gloss", "gloss"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out()
    array(['width', 'finish=gloss', 'finish=matt', 'never met'], dtype=object)
    >>> encoder.transform(pd.DataFrame({"finish": ["gloss", "satin"], "width": [3.0, 4.0]}))
    array([[3., 1., 0., 0.],
           [4., 0., 0., 2.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "columns": [list, tuple, None],
        **{name: [list, tuple] for name in ("drop", "categories", "keep", "times", "gaps")},
        "decimal": [StrOptions({",", "."}), None],
        "day_first": ["boolean", None],
        **{name: [str, None] for name in ("id_column", "weight_column")},
        "missing": [StrOptions(set(MISSING))],
    }

    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()
    keep: Sequence[str] = ()
    times: Sequence[str] = ("hour", "weekday")
    gaps: Sequence[str] = ()
    decimal: str | None = None
    day_first: bool | None = None
    id_column: str | None = None
    weight_column: str | None = None
    missing: str = "indicate"

    @atomic
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what the columns are.

        Parameters
        ----------
        X : pandas or polars DataFrame, or array of shape (n_samples, n_features)
            At least two rows.
        y : ignored

        Raises
        ------
        TableError
            A ValueError that names the columns, and the row if there is one, and says what to do. Its `errors` has one
            error for each column.

        Warns
        -----
        DataDimensionalityWarning
            If columns are left out that nobody has named, such as identifiers and free texts; and if there are many
            categories, with fewer than five rows each.
        DataConversionWarning
            If a point may be a decimal point or stand between thousands.
        """
        found = self.planned(X)
        if found.errors:
            raise refused(found.errors)
        if found.left_out:
            warn(found.not_learned(), DataDimensionalityWarning)
        self.columns_, self.left_out_ = found.columns, found.left_out
        self.n_rows_ = found.n_rows
        self.n_features_in_ = len(found.names)
        self.feature_names_in_ = np.array(found.names, dtype=object)
        return self

    def planned(self, X: Any) -> Plan:
        """Return how `fit` would take each column of a table, with the errors of all columns. Nothing is learned.

        Warns as `fit`; TableError if there are fewer than two rows, no columns, or not those that parameters name.
        """
        X = table_of(X)
        names = places_of(X)
        n_rows = int(X.shape[0])
        if n_rows < 2:
            raise TableError(f"the table has {counted(n_rows, 'sample')}, and nothing can be learned from so few")
        if not names:
            raise TableError(
                f"0 feature(s) (shape={tuple(X.shape)}) while a minimum of 1 is required. Give a table with columns"
            )
        require_columns(names, self._asked())
        if unknown := set(self.times).difference(PARTS):
            raise ValueError(f"times must be among {', '.join(PARTS)}; got {', '.join(map(shown, sorted(unknown)))}")
        aside = self._aside()
        rules = Rules(self.categories, {*self.keep, *(self.columns or ())}, self.times, self.gaps, self.day_first)

        def planned(name: str) -> Column | LeftOut | Undecided:
            column = X[X.columns[names[name]]] if hasattr(X, "columns") else None
            known = None if column is None or self.missing == "refuse" else read_at_once(name, column, rules)
            if known is not None:
                return known
            cells = cells_of(X, names, name)
            if self.missing == "refuse":
                _refuse_gaps(cells)
            return taken(cells, rules)

        asked = [name for name in names if name not in aside and (self.columns is None or name in self.columns)]
        read, errors = _of_each(asked, planned)
        found, more, warned = decided(read, lambda name: self.cells(X, names, name).numbers().present, self.decimal)
        columns = tuple(one for one in found if isinstance(one, Column))
        left_out = tuple(one for one in found if isinstance(one, LeftOut))
        for text in warned:
            warn(text, DataConversionWarning)
        for column in columns:
            if isinstance(column, Categories | Numbers) and (doubt := column.doubt(n_rows)):
                warn(doubt, DataDimensionalityWarning if isinstance(column, Categories) else DataConversionWarning)
        errors += more
        if not errors and not any(map(self._outputs, columns)):
            errors.append(nothing_left(columns, left_out))
        return Plan(n_rows, columns, left_out, tuple(names), tuple(errors), aside)

    def plan(self) -> Plan:
        """Return how each column of the learned table was taken."""
        check_is_fitted(self)
        return Plan(self.n_rows_, self.columns_, self.left_out_, tuple(self.feature_names_in_), (), self._aside())

    def transform(self, X: Any) -> FloatArray:
        """Return the rows of a table, shape (n_samples, n_outputs); see `encoded`."""
        return self.encoded(X).values

    def encoded(self, X: Any) -> Encoded:
        """Return the rows of a table, and which cells are unseen; TableError where learned columns lack, or cells are
        of another kind.
        """
        check_is_fitted(self)
        X = table_of(X)
        names = places_of(X)
        if not hasattr(X, "columns") and len(names) != self.n_features_in_:
            raise TableError(
                f"X has {len(names)} features, but TableEncoder is expecting {self.n_features_in_} features as input"
            )
        by_name = {column.name: column for column in self.columns_}
        aside = self._aside()
        require_columns([name for name in names if name not in aside], dict.fromkeys(by_name))

        def coded(name: str) -> Encoded:
            return self._coded(by_name[name], self.cells(X, names, name))

        found, errors = _of_each(by_name, coded)
        if errors:
            raise TableError.of(errors, f"{counted(len(errors), 'column')} cannot be taken")
        unseen = np.concatenate([one.strange for one in found], axis=1)
        away = np.sqrt(self.n_rows_ * unseen.sum(axis=1, keepdims=True))
        return Encoded(np.concatenate([*(one.values for one in found), away], axis=1), unseen)

    def cells(self, X: Any, places: Mapping[str, int], name: str) -> Cells:
        """Return the cells of a column of a table, with the gaps that parameters name; `places` are `places_of(X)`."""
        return cells_of(X, places, name).without(self.gaps)

    def by_column(self, shares: FloatArray, strange: BoolArray) -> FloatArray:
        """Return the shares of rows' coordinates, (n, n_outputs), added up by column, (n, n_columns).

        That of the last coordinate is divided equally among a row's unseen cells, or all of its cells if it has none.
        """
        ends = np.cumsum(self._widths())
        found = np.stack(
            [shares[:, end - width : end].sum(axis=1) for end, width in zip(ends, self._widths(), strict=True)], axis=1
        )
        bearers = np.where(strange.any(axis=1, keepdims=True), strange, True)
        return np.asarray(found + shares[:, -1:] * bearers / bearers.sum(axis=1, keepdims=True))

    def number_places(self) -> list[tuple[int, int | None] | None]:
        """Return which coordinates are each column's number and, if there is one, its gap; None for other columns."""
        firsts = np.cumsum([0, *self._widths()[:-1]]).tolist()
        return [
            (first, first + 1 if self._indicates(column) else None)
            if isinstance(column, Numbers) and not (column.constant or column.boolean)
            else None
            for column, first in zip(self.columns_, firsts, strict=True)
        ]

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the coordinates; input_features, if given, are `feature_names_in_`."""
        check_is_fitted(self)
        if input_features is not None and list(input_features) != list(self.feature_names_in_):
            raise ValueError("input_features is not equal to feature_names_in_")
        return np.array([*(name for column in self.columns_ for name in self._outputs(column)), UNSEEN], dtype=object)

    def _outputs(self, column: Column) -> list[str]:
        return [*column.outputs(), *([f"{column.name} is missing"] if self._indicates(column) else [])]

    def _indicates(self, column: Column) -> bool:
        return self.missing == "indicate" and column.n_missing > 0

    def _widths(self) -> list[int]:
        """Return how many coordinates each column has."""
        return [len(self._outputs(column)) for column in self.columns_]

    def _asked(self) -> dict[str, str | None]:
        """Return the names that parameters ask for, each with the last parameter that does."""
        lists = {"columns": self.columns or (), "drop": self.drop, "categories": self.categories, "keep": self.keep}
        asked: dict[str, str | None] = {name: parameter for parameter, names in lists.items() for name in names}
        ones = {"id": self.id_column, "weight": self.weight_column}
        return asked | {name: parameter for parameter, name in ones.items() if name is not None}

    def _aside(self) -> dict[str, str]:
        """Return the columns that are set aside, and for what."""
        found: dict[str | None, str] = dict.fromkeys(self.drop, "left out, as asked")
        found |= {self.id_column: "names the rows", self.weight_column: "weighs the rows"}
        return {name: why for name, why in found.items() if name is not None}

    def _coded(self, column: Column, cells: Cells) -> Encoded:
        """Return the coordinates of a column's cells, and which of them are unseen, (n, 1)."""
        cells = column.read(cells)
        if self.missing == "refuse":
            _refuse_gaps(cells)
        found = column.coded(cells, fill=self.missing == "impute")
        values, unseen = found.values, found.strange
        if self._indicates(column):
            values = np.column_stack([values, cells.missing])
        elif self.missing == "indicate":
            unseen = unseen | cells.missing[:, None]
        return Encoded(values, unseen)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "refuse"
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _refuse_gaps(cells: Cells) -> None:
    if cells.missing.any():
        text = "the cell is empty. Fill it in, or let gaps be indicated or imputed (missing)"
        raise cells.error(text, int(cells.missing.argmax()))


def _of_each(names: Iterable[str], made: Callable[[str], T]) -> tuple[list[T], list[TableError]]:
    """Return what is made of the columns, and the errors of those of which it cannot be made."""
    found, errors = [], []
    for name in names:
        try:
            found.append(made(name))
        except TableError as error:
            errors.append(error)
    return found, errors


def require_columns(names: Iterable[str], asked: Mapping[str, str | None]) -> None:
    """Refuse a table without columns that are asked for, by a parameter or (None) a model; say which others may be
    meant.
    """
    names = list(names)
    known = set(names)
    if not (absent := [name for name in asked if name not in known]):
        return
    # What is asked for and there is no misspelt name of something else.
    others = [name for name in names if name not in asked]
    by_lower = {other.strip().lower(): other for other in others}
    learned = None in asked.values()
    cure = "Rename or add columns, or learn a model without them" if learned else "Name columns that it has"
    also = f" The table has {listed(others or names, 10)}. {cure}" if len(absent) == 1 else ""
    errors = []
    for name in absent:
        near = get_close_matches(name.strip().lower(), list(by_lower), 1)
        asker = "" if asked[name] is None else f" ({asked[name]})"
        guess = f" Is it {shown(by_lower[near[0]])}?" if near else ""
        errors.append(TableError(f"the table has no column of this name{asker}.{guess}{also}", column=name))
    also = f", and has others: {listed(others, 10)}" if others else ""
    asker = " that the model has learned" if learned else ""
    raise TableError.of(errors, f"the table lacks {len(errors):,} columns{asker}{also}. {cure}")
