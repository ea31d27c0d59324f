"""What stands before a detector, as ONNX: the columns of a table, scikit-learn's scalers, the steps of pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from slabsvm.ensemble.ranks import NormalScores
from slabsvm.files.onnx import graph as op
from slabsvm.files.onnx.graph import OLDEST_OPSET, Graph, Tensor
from slabsvm.tables.columns import Categories, Column, Numbers
from slabsvm.tables.encoder import TableEncoder

# From this opset on, texts can be compared.
TEXTS_OPSET = 19


@dataclass(frozen=True)
class Matrix:
    """One input, of numbers."""

    dtype: np.dtype[Any]  # float32 or float64: the type of numbers
    name: str
    width: int
    least_opset = OLDEST_OPSET

    def named(self) -> list[tuple[str, int, int]]:
        """Return the input's name, ONNX's number for its type, and its width."""
        return [(self.name, Graph(self.dtype).element_type, self.width)]

    def rows(self, graph: Graph) -> Tensor:
        """Return the rows that a detector takes, (n, d), in the graph's type."""
        return graph.cast(Tensor(graph, self.name), self.dtype)


@dataclass(frozen=True)
class Table:
    """An input for each column of an encoder, (n, 1): numbers, of which NaN is missing, or texts, of which "" is."""

    dtype: np.dtype[Any]
    encoder: TableEncoder
    outputs: Sequence[str]  # names that no input may have: an underscore is added to a column's

    def __post_init__(self) -> None:
        for column in self.encoder.columns_:
            if not isinstance(column, Numbers | Categories):
                raise TypeError(
                    f"Column {column.name!r} holds times, which have no form in ONNX. Learn without it, or from its "
                    "hour and weekday as numbers."
                )

    @property
    def least_opset(self) -> int:
        """The least opset in which the inputs can be read."""
        has_texts = any(isinstance(column, Categories) for column in self.encoder.columns_)
        return TEXTS_OPSET if has_texts else OLDEST_OPSET

    def named(self) -> list[tuple[str, int, int]]:
        """Return the same of each column."""
        from onnx import TensorProto

        number = Graph(self.dtype).element_type
        return [
            (self._name(column), int(TensorProto.STRING) if isinstance(column, Categories) else number, 1)
            for column in self.encoder.columns_
        ]

    def rows(self, graph: Graph) -> Tensor:
        """Return the encoded rows; NaN stands where the encoder refuses a cell."""
        parts: list[Tensor] = []
        strange: list[Tensor] = []
        for column in self.encoder.columns_:
            values, is_strange, gap = (
                self._numbers(column, graph) if isinstance(column, Numbers) else self._categories(column, graph)
            )
            parts += values
            strange += is_strange
            if self.encoder.missing != "indicate" or gap is None:
                continue
            (parts if column.n_missing else strange).append(graph.cast(gap))
        total = op.total(strange) if strange else parts[0] * 0.0
        return graph.node("Concat", *parts, op.sqrt(total * float(self.encoder.n_rows_)), axis=1)

    def _name(self, column: Column) -> str:
        return f"{column.name}_" if column.name in self.outputs else column.name

    def _numbers(self, column: Numbers, graph: Graph) -> tuple[list[Tensor], list[Tensor], Tensor | None]:
        """Return a column's coordinates, what is 1 for cells like none that was learned, and where there are gaps."""
        cells = graph.cast(Tensor(graph, self._name(column)), self.dtype)
        gap = op.is_nan(cells)
        if self.encoder.missing != "refuse":
            cells = op.where(gap, column.median, cells)
        if column.boolean:
            is_boolean = op.equal(cells, 0.0) | op.equal(cells, 1.0)
            cells = op.where(is_boolean, cells, np.nan)
        if not column.constant:
            return [cells], [], gap
        # What is no number stays none.
        return [], [graph.cast(~op.equal(cells, column.median)) + (cells - cells)], gap

    def _categories(self, column: Any, graph: Graph) -> tuple[list[Tensor], list[Tensor], Tensor | None]:
        cells = Tensor(graph, self._name(column))
        levels = graph.texts([list(column.levels)])
        values = graph.cast(op.equal(cells, levels))
        gap = None if "" in column.levels else op.equal(cells, graph.texts([[""]]))
        strange = 1.0 - op.row_maxima(values).column
        if gap is not None:
            usual = np.eye(len(column.levels))[column.usual]
            filled = {"impute": usual, "indicate": np.zeros(len(usual)), "refuse": np.full(len(usual), np.nan)}
            values = op.where(gap, filled[self.encoder.missing], values)
            strange = op.where(gap, np.nan if self.encoder.missing == "refuse" else 0.0, strange)
        return [values] if len(column.levels) > 1 else [], [strange], gap


# What a graph reads.
Inputs = Matrix | Table


@singledispatch
def transformed(step: Any, _: Tensor) -> Tensor:
    """Return what a fitted step makes of rows, (n, d)."""
    raise TypeError(f"{type(step).__name__} has no form in ONNX here.")


def known(step: Any) -> bool:
    """Return whether `transformed` takes a step."""
    return step in (None, "passthrough") or transformed.dispatch(type(step)) is not transformed.dispatch(object)


def after(steps: Sequence[Any], rows: Tensor) -> Tensor:
    """Return what steps, one after the other, make of rows."""
    for step in steps:
        if step not in (None, "passthrough"):
            rows = transformed(step, rows)
    return rows


@transformed.register
def _(step: Pipeline, rows: Tensor) -> Tensor:
    return after([part for _, part in step.steps], rows)


@transformed.register
def _(step: StandardScaler, rows: Tensor) -> Tensor:
    rows = op.less(rows, step.mean_) if step.with_mean else rows
    return rows / step.scale_ if step.with_std else rows


@transformed.register
def _(step: RobustScaler, rows: Tensor) -> Tensor:
    rows = op.less(rows, step.center_) if step.with_centering else rows
    return rows / step.scale_ if step.with_scaling else rows


@transformed.register
def _(step: MinMaxScaler, rows: Tensor) -> Tensor:
    low, high = (float(end) for end in step.feature_range)
    scaled = rows * step.scale_ + step.min_
    if rows.graph.single:
        # From the least value, since scale x + min of large x is a difference of large numbers.
        scaled = op.less(rows, step.data_min_) * step.scale_ + low
    return op.clip(scaled, low, high) if step.clip else scaled


@transformed.register
def _(step: MaxAbsScaler, rows: Tensor) -> Tensor:
    scaled = rows / step.scale_
    return op.clip(scaled, -1.0, 1.0) if getattr(step, "clip", False) else scaled


@transformed.register
def _(step: Normalizer, rows: Tensor) -> Tensor:
    if step.norm == "l2":
        length = op.sqrt(op.row_squares(rows))
    else:
        length = (op.row_sums if step.norm == "l1" else op.row_maxima)(op.absolute(rows))
    return rows / op.where(length > 0.0, length, 1.0).column


@transformed.register
def _(step: PCA, rows: Tensor) -> Tensor:
    rows.graph.needs_doubles("projections are rounded as the rows are")
    components = np.asarray(step.components_, dtype=np.float64)
    if step.whiten:
        # The least deviation is scikit-learn's.
        deviations = np.sqrt(step.explained_variance_)
        components = components / np.maximum(deviations, np.finfo(deviations.dtype).eps)[:, None]
    return (rows - np.asarray(step.mean_, dtype=np.float64)) @ components.T


@transformed.register
def _(step: TruncatedSVD, rows: Tensor) -> Tensor:
    rows.graph.needs_doubles("projections are rounded as the rows are")
    return rows @ np.asarray(step.components_, dtype=np.float64).T


@transformed.register
def _(step: SimpleImputer, rows: Tensor) -> Tensor:
    fills_nan = isinstance(step.missing_values, float) and np.isnan(step.missing_values)
    if step.add_indicator or not fills_nan or np.isnan(step.statistics_).any():
        raise TypeError(
            "A SimpleImputer has no form in ONNX here where it adds indicators, leaves features out, or fills in other "
            "values than NaN."
        )
    return op.where(op.is_nan(rows), np.asarray(step.statistics_, dtype=np.float64), rows)


@transformed.register
def _(step: NormalScores, rows: Tensor) -> Tensor:
    rows.graph.needs_doubles("ranks are told by the least difference")
    counts = np.array([len(values) for values in step.values_])
    starts = np.concatenate([[0], np.cumsum(counts + 1)[:-1]])
    edges = np.concatenate([np.append(values, np.nan) for values in step.values_])
    # How many values each row has reached: it equals the last of these, or lies in the gap behind it.
    reached = op.searched(rows, starts, counts, rows.graph.constant(edges))
    last = np.concatenate([np.append(values[:1], values) for values in step.values_])
    scores = np.concatenate([np.append(scores[:1], scores) for scores in step.scores_])
    gaps = np.concatenate(step.gaps_)
    place = reached + starts
    found = op.where(op.equal(op.take(last, place), rows), op.take(scores, place), op.take(gaps, place))
    low, high = (np.array([values[end] for values in step.values_]) for end in (0, -1))
    beyond: Tensor = (rows - op.minimum(op.maximum(rows, low), high)) / step.scale_
    return found + beyond


def width(model: Any) -> int:
    """Return the number of features that a fitted model takes."""
    while isinstance(model, Pipeline):
        model = next(step for _, step in model.steps if step not in (None, "passthrough"))
    return int(model.n_features_in_)


def view_of(view: Any, rows: Tensor) -> Tensor:
    """Return rows as `slabsvm.ensemble.scales.viewed` does: what overflows becomes the largest number."""
    if view is None:
        return rows
    largest = float(np.finfo(rows.graph.dtype).max)
    return op.clip(transformed(view, rows), -largest, largest)
