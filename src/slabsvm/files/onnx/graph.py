"""An ONNX graph written as arithmetic on tensors, in the operators of the standard domain alone.

A `Tensor` is the name of a value; +, @, < and the functions below append the node that computes it, so that a formula
reads as it does in NumPy. What was already computed from the same tensors is not computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

# Axes are inputs of all reductions from this opset on.
OLDEST_OPSET = 18
# The newest opset that the tests run.
NEWEST_OPSET = 25
# float32 rounds sums by no more than this share of the scores' unit, or is not used.
ROUNDED_BY = 5e-6
# Arrays of no more bytes are looked up by their bytes, larger ones by a hash of them.
KEY_BYTES = 64


class ImpreciseError(ValueError):
    """Numbers that float32 does not hold, or whose rounding would be seen in the scores."""


class Graph:
    """Nodes in an order in which they can be computed, and the constants that they take.

    All numbers but indices are of the dtype, float32 or float64, and names begin with the prefix. A loop has an outer
    graph, of which it sees the values, and which holds the constants.
    """

    def __init__(self, dtype: npt.DTypeLike, prefix: str = "", outer: Graph | None = None) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.outer = outer
        self.nodes: list[Any] = []
        self.constants: list[Any] = [] if outer is None else outer.constants
        self._known: dict[Hashable, Tensor] = {}
        self.root: Graph = self if outer is None else outer.root
        self.alive: list[object] = []
        self.names: Iterator[str] = map(f"{prefix}v{{}}".format, count(1)) if outer is None else outer.names

    def name(self) -> str:
        """Return a name that no value has."""
        return next(self.names)

    def constant(self, values: Any) -> Tensor:
        """Return numbers as a tensor: floats in the graph's type, others in theirs.

        Raises ImpreciseError for finite numbers that the graph's type does not hold.
        """
        from onnx import numpy_helper

        array = np.asarray(values)
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                array, wide = array.astype(self.dtype), array
            if np.isinf(array[np.isfinite(wide)]).any():
                raise ImpreciseError(f"{self.dtype} does not hold {np.abs(wide[np.isfinite(wide)]).max():.3g}")
        content = array.tobytes()
        key = (array.dtype.str, array.shape, content if len(content) <= KEY_BYTES else hashlib.sha256(content).digest())

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
        from onnx import helper

        deepest = max((value.graph for value in values if isinstance(value, Tensor)), key=_depth, default=self)
        if _depth(deepest) > _depth(self):
            return deepest.node(operator, *values, **attributes)
        inputs = [self.tensor(value).name for value in values]

        def make() -> Tensor:
            made = Tensor(self, self.name())
            self.nodes.append(helper.make_node(operator, inputs, [made.name], name=f"n_{made.name}", **attributes))
            return made

        return self.once((operator, *inputs, *sorted(attributes.items())), make)

    def once(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Return a value that is made when its key is first asked for."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def key_of(self, thing: object) -> int:
        """Return a number that nothing else has while the graph is written, since the graph keeps the thing alive."""
        self.root.alive.append(thing)
        return id(thing)

    def texts(self, values: Any) -> Tensor:
        """Return texts as a tensor."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.array(values, dtype=object), self.name()))
        return Tensor(self.root, self.constants[-1].name)

    def number(self, condition: Tensor) -> Tensor:
        """Return 1 where a condition holds, and 0 elsewhere."""
        return self.node("Cast", condition, to=self.element_type)

    def of_type(self, values: Tensor, dtype: npt.DTypeLike) -> Tensor:
        """Return numbers of some type in the graph's."""
        return values if self.dtype == dtype else self.node("Cast", values, to=self.element_type)

    @property
    def single(self) -> bool:
        """Whether numbers are float32."""
        return self.dtype == np.float32

    def needs(self, size: float, unit: float) -> None:
        """Raise ImpreciseError where sums of this size are rounded by too much, in the unit of scores."""
        if self.single and not float(np.finfo(self.dtype).eps) * size <= ROUNDED_BY * unit:
            raise ImpreciseError(f"sums of size {size:.3g} are rounded by too much for scores in units of {unit:.3g}")

    @property
    def element_type(self) -> int:
        """The number that ONNX has for dtype."""
        from onnx import helper

        return int(helper.np_dtype_to_tensor_dtype(self.dtype))


def _binary(operator: str, *, reflected: bool = False) -> Callable[[Tensor, Any], Tensor]:
    """Return the method of a tensor that is an operator of two, of which it is the second where reflected."""
    if reflected:
        return lambda second, first: second.graph.node(operator, first, second)
    return lambda first, second: first.graph.node(operator, first, second)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of a graph, by its name there."""

    graph: Graph
    name: str

    __add__, __radd__ = _binary("Add"), _binary("Add", reflected=True)
    __sub__, __rsub__ = _binary("Sub"), _binary("Sub", reflected=True)
    __mul__, __rmul__ = _binary("Mul"), _binary("Mul", reflected=True)
    __truediv__, __rtruediv__ = _binary("Div"), _binary("Div", reflected=True)
    __matmul__ = _binary("MatMul")
    __lt__, __le__ = _binary("Less"), _binary("LessOrEqual")
    __gt__, __ge__ = _binary("Greater"), _binary("GreaterOrEqual")
    __and__, __or__ = _binary("And"), _binary("Or")

    def __neg__(self) -> Tensor:
        return self.graph.node("Neg", self)

    def __invert__(self) -> Tensor:
        return self.graph.node("Not", self)

    @property
    def column(self) -> Tensor:
        """(n,) as (n, 1)."""
        return self.graph.node("Unsqueeze", self, np.array([-1]))

    @property
    def flat(self) -> Tensor:
        """(n, 1) as (n,)."""
        return self.graph.node("Squeeze", self, np.array([-1]))


def exp(x: Tensor) -> Tensor:
    """Return e^x."""
    return x.graph.node("Exp", x)


def log(x: Tensor) -> Tensor:
    """Return the logarithm: -inf of 0."""
    return x.graph.node("Log", x)


def sqrt(x: Tensor) -> Tensor:
    """Return the root."""
    return x.graph.node("Sqrt", x)


def minimum(x: Tensor, other: Any) -> Tensor:
    """Return the smaller of each two."""
    return x.graph.node("Min", x, other)


def maximum(x: Tensor, other: Any) -> Tensor:
    """Return the larger of each two."""
    return x.graph.node("Max", x, other)


def where(condition: Tensor, yes: Any, no: Any) -> Tensor:
    """Return yes where the condition holds, and no elsewhere."""
    return condition.graph.node("Where", condition, yes, no)


def take(table: Any, places: Any, *, axis: int = 0) -> Tensor:
    """Return the entries of a table at some places along an axis."""
    graph = table.graph if isinstance(table, Tensor) else places.graph
    return graph.node("Gather", table, places, axis=axis)


def row_sums(x: Tensor) -> Tensor:
    """Return the sum of each row of (n, d), shape (n,)."""
    return x.graph.node("ReduceSum", x, np.array([1]), keepdims=0)


def row_squares(x: Tensor) -> Tensor:
    """Return the sum of each row's squares, shape (n,)."""
    return x.graph.node("ReduceSumSquare", x, np.array([1]), keepdims=0)


def row_maxima(x: Tensor) -> Tensor:
    """Return the largest number of each row of (n, d), shape (n,)."""
    return x.graph.node("ReduceMax", x, np.array([1]), keepdims=0)


def smallest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the smallest numbers of each row of (n, m) in ascending order, and their places, (n, count) each."""
    from onnx import helper

    graph = x.graph
    values, places = Tensor(graph, graph.name()), Tensor(graph, graph.name())
    inputs = [x.name, graph.tensor(np.array([count])).name]
    graph.nodes.append(
        helper.make_node("TopK", inputs, [values.name, places.name], name=f"n_{values.name}", axis=1, largest=0)
    )
    return values, places


def zeros(rows: Tensor, width: int) -> Tensor:
    """Return zeros of the shape (n, width), for rows of the shape (n, d)."""
    graph = rows.graph
    shape = graph.node("Concat", graph.node("Shape", rows, start=0, end=1), np.array([width]), axis=0)
    return graph.node("Expand", 0.0, shape)


def loop(step: Callable[..., Tensor], state: Tensor, *tables: Any) -> Tensor:
    """Return the state after a step for each entry along the first axis of all tables.

    step takes the state and an entry of each table, and returns the next state.
    """
    from onnx import helper

    graph = state.graph
    body = Graph(graph.dtype, outer=graph)
    inputs = [Tensor(body, body.name()) for _ in range(1 + len(tables))]
    end = step(*inputs)

    def typed(tensor: Tensor) -> Any:
        return helper.make_tensor_value_info(tensor.name, graph.element_type, None)

    inner = helper.make_graph(body.nodes, f"b_{end.name}", [typed(tensor) for tensor in inputs], [typed(end)])
    made = Tensor(graph, graph.name())
    names = [state.name, *(graph.tensor(table).name for table in tables)]
    graph.nodes.append(helper.make_node("Scan", names, [made.name], body=inner, num_scan_inputs=len(tables)))
    return made


def searched(t: Tensor, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], edges: Any) -> Tensor:
    """Return how many of its feature's edges each entry of t, (n, d), has reached, shape (n, d) of int64.

    Feature j's edges, ascending, are counts[j] entries of edges from starts[j] on. A NaN follows them, which nothing
    reaches.
    """
    place = t.graph.constant(np.zeros(1, dtype=np.int64))
    for bit in reversed(range(int(counts.max()).bit_length())):
        candidate = place + np.array([1 << bit])
        last = minimum(candidate, counts + 1) + (starts - 1)
        place = where(take(edges, last) <= t, candidate, place)
    return place


def split(values: Any, dtype: npt.DTypeLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return numbers as a sum of two that the type holds: the nearest to each, and the rest."""
    wide = np.asarray(values, dtype=np.float64)
    high = wide.astype(dtype).astype(np.float64)
    return high, wide - high


def less(x: Tensor, values: Any) -> Tensor:
    """Return x - values, where x is exact in the graph's type and values are float64."""
    high, low = split(values, x.graph.dtype)
    difference = x - high
    return difference - low if low.any() else difference


def _depth(graph: Graph) -> int:
    """Return how many graphs a graph lies in."""
    return 0 if graph.outer is None else 1 + _depth(graph.outer)


@dataclass(frozen=True)
class Outputs:
    """How a detector answers rows.

    Attributes
    ----------
    score, decision : (n,) Tensor
        NaN for rows that the detector refuses.
    log_mass : (n,) Tensor or None
        The log kernel mass, where it orders the rows that have no more of it than the least: those out of reach.
    least : float
        The logarithm of the least mass.
    p_values : (n,) Tensor or None
        Of a calibrated detector.
    """

    score: Tensor
    decision: Tensor
    log_mass: Tensor | None = None
    least: float = -np.inf
    p_values: Tensor | None = None

    def outputs(self) -> dict[str, Tensor]:
        """Return what a graph gives for each row, by the names of its outputs."""
        label = where(self.decision >= 0.0, np.array(1), np.array(-1))
        found = {"label": label, "scores": self.decision, "score_samples": self.score}
        return found if self.p_values is None else {**found, "p_values": self.p_values}
