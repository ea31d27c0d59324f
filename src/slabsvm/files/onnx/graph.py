"""An ONNX graph written as arithmetic on tensors, in the operators of the standard domain alone.

A `Tensor` is the name of a value; +, @, < and the functions below append the node that computes it, so that a formula
reads as it does in NumPy. What was already computed from the same tensors is not computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import add
from typing import Any, cast

import numpy as np
import numpy.typing as npt

# Axes are inputs of all reductions from this opset on.
OLDEST_OPSET = 18
# The newest opset that the tests run.
NEWEST_OPSET = 25
# float32 rounds sums by no more than this share of the scores' unit, or is not used.
ROUNDED_BY = 5e-6


class ImpreciseError(ValueError):
    """Numbers that float32 does not hold, or whose rounding would be seen in the scores."""


class Graph:
    """Nodes in an order in which they can be computed, and the constants that they take.

    All numbers but indices are of the dtype, float32 or float64, and names begin with the prefix. A loop has an outer
    graph, of which it sees the values, and which holds the constants.
    """

    def __init__(self, dtype: npt.DTypeLike, prefix: str = "", outer: Graph | None = None) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.single = self.dtype == np.float32
        self.depth: int = 0 if outer is None else outer.depth + 1  # how many graphs it lies in
        self.nodes: list[Any] = []
        self.constants: list[Any] = [] if outer is None else outer.constants
        self._known: dict[Hashable, Tensor] = {}
        self.root: Graph = self if outer is None else outer.root
        self.names: Iterator[str] = map(f"{prefix}v{{}}".format, count(1)) if outer is None else outer.names

    def name(self) -> str:
        """Return a name that no value has."""
        return next(self.names)

    def constant(self, values: Any) -> Tensor:
        """Return numbers as a tensor, floats in the graph's type; ImpreciseError for what it does not hold."""
        from onnx import numpy_helper

        array = np.asarray(values)
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                array, wide = array.astype(self.dtype), array
            if np.isinf(array[np.isfinite(wide)]).any():
                raise ImpreciseError(f"{self.dtype} does not hold {np.abs(wide[np.isfinite(wide)]).max():.3g}")
        key = (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest())

        def make() -> Tensor:
            self.constants.append(numpy_helper.from_array(array, self.name()))
            return Tensor(self.root, self.constants[-1].name)

        return self.root.once(key, make)

    def tensor(self, value: Any) -> Tensor:
        """Return a tensor as it is, and numbers as a constant."""
        if isinstance(value, Tensor):
            return value
        return self.constant(float(value) if isinstance(value, int) else value)

    def node(self, operator: str, *values: Any, **attributes: Any) -> Tensor:
        """Return what an operator makes of tensors or numbers."""
        for value in values:
            if isinstance(value, Tensor) and value.graph.depth > self.depth:
                return value.graph.node(operator, *values, **attributes)
        inputs = [self.tensor(value).name for value in values]
        key = (operator, *inputs, *sorted(attributes.items()))
        return self.once(key, lambda: self.add(operator, inputs, **attributes)[0])

    def add(self, operator: str, inputs: list[str], count: int = 1, **attributes: Any) -> list[Tensor]:
        """Append a node that takes values by their names, and return its outputs."""
        from onnx import helper

        made = [Tensor(self, self.name()) for _ in range(count)]
        outputs = [one.name for one in made]
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=f"n_{outputs[0]}", **attributes))
        return made

    def once(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Return a value that is made when its key is first asked for."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def texts(self, values: Any) -> Tensor:
        """Return texts as a tensor."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.array(values, dtype=object), self.name()))
        return Tensor(self.root, self.constants[-1].name)

    def cast(self, values: Tensor, dtype: npt.DTypeLike = np.bool_) -> Tensor:
        """Return numbers of some type in the graph's; 1 where a condition holds, and 0 elsewhere."""
        return values if self.dtype == dtype else self.node("Cast", values, to=self.element_type)

    def needs_doubles(self, why: str) -> None:
        """Raise ImpreciseError where numbers are float32."""
        if self.single:
            raise ImpreciseError(why)

    def needs(self, size: float, unit: float) -> None:
        """Raise ImpreciseError where sums of this size are rounded by too much, in the unit of scores."""
        if self.single and not float(np.finfo(self.dtype).eps) * size <= ROUNDED_BY * unit:
            raise ImpreciseError(f"sums of size {size:.3g} are rounded by too much for scores in units of {unit:.3g}")

    @property
    def element_type(self) -> int:
        """The number that ONNX has for dtype."""
        from onnx import helper

        return int(helper.np_dtype_to_tensor_dtype(self.dtype))


def _operator(name: str, *axes: int, **attributes: Any) -> Callable[..., Tensor]:
    """Return the function of tensors and numbers that an operator computes, along some axes where it takes such."""

    def of(*values: Any) -> Tensor:
        graph = next(value.graph for value in values if isinstance(value, Tensor))
        return graph.node(name, *values, *([np.array(axes)] if axes else []), **attributes)

    return of


def _both(name: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Return the method of a tensor that is an operator of two, and the one of which the tensor is the second."""
    of = _operator(name)
    return of, lambda second, first: of(first, second)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of a graph, by its name there."""

    graph: Graph
    name: str

    __add__, __radd__ = _both("Add")
    __sub__, __rsub__ = _both("Sub")
    __mul__, __rmul__ = _both("Mul")
    __truediv__, __rtruediv__ = _both("Div")
    __matmul__ = _operator("MatMul")
    __lt__, __le__ = _operator("Less"), _operator("LessOrEqual")
    __gt__, __ge__ = _operator("Greater"), _operator("GreaterOrEqual")
    __and__, __or__ = _operator("And"), _operator("Or")
    __neg__, __invert__ = _operator("Neg"), _operator("Not")
    column = cast("Tensor", property(_operator("Unsqueeze", -1)))  # (n,) as (n, 1)
    flat = cast("Tensor", property(_operator("Squeeze", -1)))  # (n, 1) as (n,)


# Of each entry, or of each two. log is -inf of 0.
exp, log, sqrt, absolute, is_nan = map(_operator, ("Exp", "Log", "Sqrt", "Abs", "IsNaN"))
minimum, maximum, equal = map(_operator, ("Min", "Max", "Equal"))
# The second where the first holds, and the third elsewhere.
where = _operator("Where")
# Of each row of (n, d), shape (n,).
row_sums = _operator("ReduceSum", 1, keepdims=0)
row_squares = _operator("ReduceSumSquare", 1, keepdims=0)
row_maxima = _operator("ReduceMax", 1, keepdims=0)
row_minima = _operator("ReduceMin", 1, keepdims=0)


def clip(x: Tensor, low: float, high: float) -> Tensor:
    """Return the number between two bounds that is nearest to each."""
    return maximum(minimum(x, high), low)


def total(values: Sequence[Tensor]) -> Tensor:
    """Return the sum of several tensors."""
    return reduce(add, values)


def take(table: Any, places: Any, *, axis: int = 0) -> Tensor:
    """Return the entries of a table at some places along an axis."""
    return _operator("Gather", axis=axis)(table, places)


def smallest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the smallest numbers of each row of (n, m) in ascending order, and their places, (n, count) each."""
    values, places = x.graph.add("TopK", [x.name, x.graph.tensor(np.array([count])).name], 2, axis=1, largest=0)
    return values, places


def zeros(rows: Tensor, width: int) -> Tensor:
    """Return zeros of the shape (n, width), for rows of the shape (n, d)."""
    graph = rows.graph
    shape = graph.node("Concat", graph.node("Shape", rows, start=0, end=1), np.array([width]), axis=0)
    return graph.node("Expand", 0.0, shape)


def loop(step: Callable[..., Tensor], state: Tensor, *tables: Any) -> Tensor:
    """Return the state after step(state, entry of each table) for each entry along the first axis of all tables."""
    from onnx import helper

    graph = state.graph
    body = Graph(graph.dtype, outer=graph)
    inputs = [Tensor(body, body.name()) for _ in range(1 + len(tables))]
    end = step(*inputs)

    def typed(tensor: Tensor) -> Any:
        return helper.make_tensor_value_info(tensor.name, graph.element_type, None)

    inner = helper.make_graph(body.nodes, f"b_{end.name}", [typed(tensor) for tensor in inputs], [typed(end)])
    names = [state.name, *(graph.tensor(table).name for table in tables)]
    return graph.add("Scan", names, body=inner, num_scan_inputs=len(tables))[0]


def searched(t: Tensor, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], edges: Any) -> Tensor:
    """Return how many of its feature's edges each entry of t, (n, d), has reached, shape (n, d) of int64.

    Feature j's edges, ascending, are counts[j] entries of edges from starts[j] on, and a NaN.
    """
    place = t.graph.constant(np.zeros(1, dtype=np.int64))
    for bit in reversed(range(int(counts.max()).bit_length())):
        candidate = place + np.array([1 << bit])
        last = minimum(candidate, counts + 1) + (starts - 1)
        place = where(take(edges, last) <= t, candidate, place)
    return place


def less(x: Tensor, values: Any) -> Tensor:
    """Return x - values, where x is exact in the graph's type and values are float64."""
    # As a sum of two that the type holds: the nearest to each, and the rest.
    wide = np.asarray(values, dtype=np.float64)
    high = wide.astype(x.graph.dtype).astype(np.float64)
    low, difference = wide - high, x - high
    return difference - low if low.any() else difference


@dataclass(frozen=True)
class Outputs:
    """How a detector answers rows: tensors of shape (n,)."""

    # NaN for rows that the detector refuses.
    score: Tensor
    decision: Tensor
    log_mass: Tensor | None = None  # the log kernel mass, where it orders the rows that are out of reach
    least: float = -np.inf  # the log mass from which on rows are within reach
    p_values: Tensor | None = None  # of a calibrated detector

    def outputs(self) -> dict[str, Tensor]:
        """Return what a graph gives for each row, by the names of its outputs."""
        label = where(self.decision >= 0.0, np.array(1), np.array(-1))
        found = {"label": label, "scores": self.decision, "score_samples": self.score}
        return found if self.p_values is None else {**found, "p_values": self.p_values}
