"""What a graph reads: a matrix of rows, or the columns of a table by their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any

import numpy as np

from slabsvm.files.onnx.graph import OLDEST_OPSET, Graph, Tensor, row_maxima, sqrt, where
from slabsvm.tables.columns import Categories, Column, Numbers
from slabsvm.tables.encoder import TableEncoder

# From this opset on, texts can be compared.
TEXTS_OPSET = 19


@dataclass(frozen=True)
class Inputs(ABC):
    """What a graph reads."""

    dtype: np.dtype[Any]  # float32 or float64: The type of numbers

    @property
    def least_opset(self) -> int:
        """The least opset in which the inputs can be read."""
        return OLDEST_OPSET

    @abstractmethod
    def named(self) -> list[tuple[str, int, int]]:
        """Return each input's name, ONNX's number for its type, and its width."""

    @abstractmethod
    def rows(self, graph: Graph) -> Tensor:
        """Return the rows that a detector takes, (n, d), in the graph's type."""


@dataclass(frozen=True)
class Matrix(Inputs):
    """One input, of numbers."""

    name: str
    width: int

    def named(self) -> list[tuple[str, int, int]]:
        """Return the one input."""
        return [(self.name, Graph(self.dtype).element_type, self.width)]

    def rows(self, graph: Graph) -> Tensor:
        """Return the input."""
        return graph.of_type(Tensor(graph, self.name), self.dtype)


@dataclass(frozen=True)
class Table(Inputs):
    """An input for each column that an encoder has learned, (n, 1): numbers, of which NaN is missing, or texts, of
    which "" is.
    """

    encoder: TableEncoder
    outputs: Sequence[str]  # names that no input may have: an underscore is added to a column's

    @property
    def least_opset(self) -> int:
        """The least opset in which the inputs can be read."""
        has_texts = any(isinstance(column, Categories) for column in self.encoder.columns_)
        return TEXTS_OPSET if has_texts else super().least_opset

    def named(self) -> list[tuple[str, int, int]]:
        """Return the columns."""
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
            values, is_strange, gap = self._coded(column, graph)
            parts += values
            strange += is_strange
            if self.encoder.missing != "indicate" or gap is None:
                continue
            (parts if column.n_missing else strange).append(graph.number(gap))
        total = strange[0] if strange else parts[0] * 0.0
        for some in strange[1:]:
            total = total + some
        return graph.node("Concat", *parts, sqrt(total * float(self.encoder.n_rows_)), axis=1)

    def _name(self, column: Column) -> str:
        return f"{column.name}_" if column.name in self.outputs else column.name

    @singledispatchmethod
    def _coded(self, column: Column, graph: Graph) -> tuple[list[Tensor], list[Tensor], Tensor | None]:
        """Return a column's coordinates, what is 1 for cells like none that was learned, and where there are gaps."""
        del graph
        raise TypeError(f"{type(column).__name__} has no form in ONNX here.")

    @_coded.register
    def _(self, column: Numbers, graph: Graph) -> tuple[list[Tensor], list[Tensor], Tensor | None]:
        cells = graph.of_type(Tensor(graph, self._name(column)), self.dtype)
        gap = graph.node("IsNaN", cells)
        if self.encoder.missing != "refuse":
            cells = where(gap, column.median, cells)
        if column.boolean:
            is_boolean = graph.node("Equal", cells, 0.0) | graph.node("Equal", cells, 1.0)
            cells = where(is_boolean, cells, np.nan)
        if not column.constant:
            return [cells], [], gap
        # What is no number stays none.
        return [], [graph.number(~graph.node("Equal", cells, column.median)) + (cells - cells)], gap

    @_coded.register
    def _(self, column: Categories, graph: Graph) -> tuple[list[Tensor], list[Tensor], Tensor | None]:
        cells = Tensor(graph, self._name(column))
        levels = graph.texts([list(column.levels)])
        values = graph.number(graph.node("Equal", cells, levels))
        gap = None if "" in column.levels else graph.node("Equal", cells, graph.texts([[""]]))
        strange = 1.0 - row_maxima(values).column
        if gap is not None:
            usual = np.eye(len(column.levels))[column.usual]
            filled = {"impute": usual, "indicate": np.zeros(len(usual)), "refuse": np.full(len(usual), np.nan)}
            values = where(gap, filled[self.encoder.missing], values)
            strange = where(gap, np.nan if self.encoder.missing == "refuse" else 0.0, strange)
        return [values] if len(column.levels) > 1 else [], [strange], gap
