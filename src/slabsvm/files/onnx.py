"""A fitted model as an ONNX graph: what skl2onnx has to know of this package.

skl2onnx reads pipelines and converts the steps of other libraries. Here are the formulas of detectors, on `_Tensor`s:
+, @, < and the functions add the node that computes them, once for the same inputs. Whatever type the rows have,
detectors compute in double precision. No tensor has more numbers than rows times samples, or rows times features, but
for the differences of rows from their nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.far import BEYOND, least_mass, needs_mass
from slabsvm.conformal.p_values import LARGEST_SHARE, WHOLE, Ranking, unit_of, usual_size
from slabsvm.detectors.answers import final_detector, unwrapped
from slabsvm.detectors.kernel_density import KernelDensityDetector
from slabsvm.detectors.kernel_pca import KernelPCADetector
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.detectors.svdd import SVDD
from slabsvm.ensemble.auto import AutoDetector
from slabsvm.ensemble.known import OutlierClassifier
from slabsvm.ensemble.nearest import FARTHEST, Nearest
from slabsvm.ensemble.neighbours import NeighboursDetector
from slabsvm.ensemble.ranks import LARGEST, TIE, NormalScores, Surprise
from slabsvm.ensemble.readings import AROUND, FEW, LEAST_SURPRISE, NEAREST, WEIGHTS, View
from slabsvm.fitted.model import ROUNDING_UNITS
from slabsvm.fitted.planes import LOWEST, OUT_OF_REACH, TwoSided
from slabsvm.kernels import rbf
from slabsvm.kernels.additive import Chi2, Hellinger, Intersection, Linear
from slabsvm.kernels.base import FromFunction, Kernel, WeightVector
from slabsvm.kernels.expansion import Expansion
from slabsvm.runtime.arrays import FloatArray, IntArray, dense
from slabsvm.runtime.caller import load
from slabsvm.tables.encoder import TableEncoder

# Reductions take their axes as inputs from this version of ONNX's operators on.
OLDEST_OPSET = 18
# Rows with larger numbers than the largest are refused.
MOST = float(np.finfo(np.float64).max)
# What a Scan adds to sums over the features so far: a term of x_j, (n, 1), and z_j, (1, m). No other value has the name
# of one in it.
SUM = """sum (double[n, m] _sum, double[n, 1] _x, double[1, m] _z) => (double[n, m] _next)
{{ {term} _next = Add(_sum, _term) }}"""
SQUARE = "_apart = Sub(_x, _z) _term = Mul(_apart, _apart)"
LEAST = "_term = Min(_x, _z)"
HARMONIC = "_both = Add(_x, _z) _share = Div(_z, _both) _term = Mul(_x, _share)"


def to_onnx(model: Any, *, dtype: npt.DTypeLike = np.float32, target_opset: int | None = None) -> Any:
    """Return a fitted model as an ONNX graph, which runs without Python: `.SerializeToString()` is the file's bytes.

    Its input is X, (n, n_features), of dtype. Its outputs are (n,): label (int64, +1 for rows that are accepted and -1
    for the others), and of dtype scores (decision_function), score_samples, and of a `ConformalDetector` p_values. A
    row that the model would refuse scores NaN and is labelled -1.

    Parameters
    ----------
    model : fitted detector of this package, or a pipeline that ends in one, or a search for either
        With a named kernel. skl2onnx converts the other steps of a pipeline.
    dtype : float32 or float64, default=float32
        The type of the input and the scores, and the one in which the other steps of a pipeline compute. Detectors
        compute in float64.
    target_opset : int or None, default=None
        The version of ONNX's operators, from 18 to the newest that skl2onnx is tested with; None is 18.

    Returns
    -------
    onnx.ModelProto
        It holds the model's support vectors, or for linear and Hellinger kernels a weight vector.

    Raises
    ------
    slabsvm.ExtraMissingError
        Without onnx or skl2onnx; the text says what to install.
    TypeError
        For models that have no form in ONNX, such as those of tables or with precomputed kernels; the text says why.
    ValueError
        For another dtype or opset.
    """
    dtype, opset = np.dtype(dtype), OLDEST_OPSET if target_opset is None else target_opset
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}.")
    load("A file of ONNX", "onnx", "slabsvm[onnx]")
    register_with_skl2onnx()
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    newest = skl2onnx.get_latest_tested_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise ValueError(f"target_opset must be from {OLDEST_OPSET} to {newest}, got {opset}.")
    check_is_fitted(model)
    steps, detector = unwrapped(model)
    width = (steps[0][1] if steps else detector).n_features_in_
    given = [("X", (FloatTensorType if dtype == np.float32 else DoubleTensorType)([None, width]))]
    # In its place skl2onnx subtracts and divides, as scikit-learn does.
    unwanted, name = {"Scaler"}, type(model).__name__
    return skl2onnx.to_onnx(_Whole(model), name=name, initial_types=given, target_opset=opset, black_op=unwanted)


def register_with_skl2onnx() -> None:
    """Teach skl2onnx this package's detectors and `NormalScores`, so that `skl2onnx.to_onnx` converts pipelines.

    Outputs are those of `slabsvm.files.to_onnx`, which besides looks for infinite numbers before the first step: some
    steps make finite ones of them. It may be called any number of times.

    Raises
    ------
    slabsvm.ExtraMissingError
        Without skl2onnx; the text says what to install.
    """
    load("A model in ONNX", "skl2onnx", "slabsvm[onnx]")
    from skl2onnx import update_registered_converter

    for model in (*(kind for kind in _score.registry if kind is not object), ConformalDetector, _Whole):
        update_registered_converter(model, f"Slabsvm{model.__name__}", _shapes, _convert, parser=_parse)
    update_registered_converter(NormalScores, "SlabsvmNormalScores", _shapes, _convert)


@dataclass(frozen=True)
class _Whole:
    """A model whose rows are looked at before its first step sees them."""

    model: Any


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Return the outputs that skl2onnx is to expect of a detector."""
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    del custom_parsers
    operator = scope.declare_local_operator(f"Slabsvm{type(model).__name__}", model)
    operator.inputs = inputs
    is_calibrated = isinstance(final_detector(getattr(model, "model", model)), ConformalDetector)
    for name in ("label", "scores", "score_samples", "p_values")[: 4 if is_calibrated else 3]:
        kind = Int64TensorType() if name == "label" else guess_tensor_type(inputs[0].type)
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _shapes(operator: Any) -> None:
    """State the outputs' shapes: a vector each, but for a transformer."""
    shape = operator.inputs[0].type.shape
    for output in operator.outputs:
        output.type.shape = shape if isinstance(operator.raw_operator, NormalScores) else shape[:1]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add an operator's nodes to those of the pipeline, and of a whole model the operators of its steps."""
    given, raw = _Rows(_Graph(scope, container), operator.inputs[0]), operator.raw_operator
    if isinstance(raw, NormalScores):
        return _normal_scores(raw, given.tensor).written_to(operator.outputs[0])
    steps, detector = unwrapped(getattr(raw, "model", raw))
    rows = given.after(steps)
    scores = _scored(detector, rows)
    if steps:
        imputes = any(type(step).__module__.startswith("sklearn.impute") for _, step in steps)
        scores = given.refused(scores, missing=imputes)
    decision = scores - float(detector.offset_)
    outputs = [_where(decision >= 0.0, np.array(1), np.array(-1)), decision, scores]
    if isinstance(detector, ConformalDetector):
        p_value = _minimum((_places(detector, rows)[0] + 1.0) * detector.smallest_p_value_, 1.0)
        outputs.append(_where(_is_nan(scores), np.nan, p_value))
    for output, value in zip(operator.outputs, outputs, strict=True):
        value.written_to(output)


@dataclass(frozen=True, eq=False)
class _Graph:
    """Where nodes go: skl2onnx's scope, which gives names, and its container. What is known is not added again."""

    scope: Any
    container: Any
    known: dict[Hashable, Any] = field(default_factory=dict)

    def new(self) -> _Tensor:
        return _Tensor(self, self.scope.get_unique_variable_name("slabsvm"))

    def tensor(self, value: Any) -> _Tensor:
        """Return a tensor as it is, and numbers as a constant: of float64, or of int64 as an array of integers is."""
        from onnx import numpy_helper

        if isinstance(value, _Tensor):
            return value
        array = np.asarray(float(value) if isinstance(value, int) else value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.known:
            self.known[key] = self.new()
            self.container.add_initializer(self.known[key].name, None, None, numpy_helper.from_array(array))
        return cast("_Tensor", self.known[key])

    def nodes(self, operator: str, *values: Any, count: int = 1, **attributes: Any) -> list[_Tensor]:
        """Return the outputs of an operator of tensors or numbers."""
        inputs = [self.tensor(value).name for value in values]
        key = (operator, *inputs, str(attributes))
        if key not in self.known:
            self.known[key] = [self.new() for _ in range(count)]
            name, outputs = self.scope.get_unique_operator_name(operator), [one.name for one in self.known[key]]
            self.container.add_node(operator, inputs, outputs, name=name, **attributes)
        return cast("list[_Tensor]", self.known[key])


def _operator(name: str, *axes: int, **attributes: Any) -> Callable[..., _Tensor]:
    """Return the function of tensors and numbers that an operator computes, along some axes where it takes such."""

    def of(*values: Any, **more: Any) -> _Tensor:
        graph = next(value.graph for value in values if isinstance(value, _Tensor))
        return graph.nodes(name, *values, *([np.array(axes)] if axes else []), **attributes, **more)[0]

    return of


def _both(name: str) -> tuple[Callable[..., _Tensor], Callable[..., _Tensor]]:
    """Return the method of a tensor that is an operator of two, and the one of which the tensor is the second."""
    of = _operator(name)
    return of, lambda second, first: of(first, second)


@dataclass(frozen=True, eq=False)
class _Tensor:
    """A value of a graph, by its name there."""

    graph: _Graph
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
    column = cast("_Tensor", property(_operator("Unsqueeze", -1)))  # (n,) as (n, 1)
    flat = cast("_Tensor", property(_operator("Squeeze", -1)))  # (n, 1) as (n,)

    def of_type(self, dtype: npt.DTypeLike) -> _Tensor:
        from onnx import helper

        return self.graph.nodes("Cast", self, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))[0]

    def written_to(self, variable: Any) -> None:
        """Make this a variable of skl2onnx; what float32 does not hold becomes the nearest number that it does."""
        from skl2onnx.common.data_types import FloatTensorType, guess_proto_type

        largest, value = float(np.finfo(np.float32).max), self
        if isinstance(variable.type, FloatTensorType):
            value = _where(_is_nan(self), self, _clip(self, -largest, largest))
        name, kind = self.graph.scope.get_unique_operator_name("Cast"), guess_proto_type(variable.type)
        self.graph.container.add_node("Cast", [value.name], [variable.full_name], name=name, to=kind)


# Of each entry, or of each two; _log is -inf of 0. _where is the second where the first holds, else the third.
_exp, _log, _sqrt, _absolute, _is_nan = map(_operator, ("Exp", "Log", "Sqrt", "Abs", "IsNaN"))
_ceil, _minimum, _maximum, _equal, _where = map(_operator, ("Ceil", "Min", "Max", "Equal", "Where"))
# Of each row of (n, d), shape (n,).
_row_sums, _row_squares = _operator("ReduceSum", 1, keepdims=0), _operator("ReduceSumSquare", 1, keepdims=0)
_row_maxima, _row_minima = _operator("ReduceMax", 1, keepdims=0), _operator("ReduceMin", 1, keepdims=0)
# The entries of a table at some places, (..., d); and of each row of (n, d) at its own places, (n, q).
_take, _take_own = _operator("Gather", axis=0), _operator("GatherElements", axis=1)
_expand, _joined, _transposed = _operator("Expand"), _operator("Concat", axis=0), _operator("Transpose", perm=(1, 0))


def _clip(x: _Tensor, low: float, high: float) -> _Tensor:
    return _maximum(_minimum(x, high), low)


def _for_each(rows: _Tensor, values: npt.NDArray[Any]) -> _Tensor:
    """Return some values, (q,), for each of the rows, (n, q)."""
    shape = _joined(*rows.graph.nodes("Shape", rows, end=1), np.array([len(values)]))
    return _expand(values[None], shape)


def _by_feature(term: str, rows: _Tensor, samples: FloatArray) -> _Tensor:
    """Return the sum over features of a term of rows, (n, d), and samples, (m, d), of shape (n, m)."""
    from onnx import parser

    tables = _transposed(rows).column, np.ascontiguousarray(samples.T[:, None])
    body, start = parser.parse_graph(SUM.format(term=term)), _for_each(rows, np.zeros(len(samples)))
    return rows.graph.nodes("Scan", start, *tables, body=body, num_scan_inputs=2)[0]


def _searched(t: _Tensor, starts: IntArray, counts: IntArray, edges: FloatArray) -> _Tensor:
    """Return how many of its feature's edges each entry of t, (n, d), has reached, shape (n, d) of int64.

    Feature j's edges, ascending, are counts[j] entries of edges from starts[j] on, and a NaN.
    """
    place = t.graph.tensor(np.zeros(1, dtype=np.int64))
    for bit in reversed(range(int(counts.max()).bit_length())):
        candidate = place + np.array([1 << bit])
        last = _minimum(candidate, counts + 1) + (starts - 1)
        place = _where(_take(edges, last) <= t, candidate, place)
    return place


def _reached(t: _Tensor, values: FloatArray) -> _Tensor:
    """Return how many of some values, ascending, each entry of t, (n,), has reached, shape (n,) of int64."""
    counts = np.array([len(values)])
    return _searched(t.column, 0 * counts, counts, np.append(values, np.nan)).flat


@dataclass(frozen=True)
class _Rows:
    """Rows as skl2onnx has them, (n, d): a variable, of some type."""

    graph: _Graph
    variable: Any

    @property
    def tensor(self) -> _Tensor:
        """The rows in double precision."""
        return _Tensor(self.graph, self.variable.full_name).of_type(np.float64)

    def after(self, steps: Sequence[tuple[str, Any]]) -> _Rows:
        """Return what steps, one after the other, make of the rows: skl2onnx converts them in the rows' type."""
        from skl2onnx import get_model_alias
        from skl2onnx.common.data_types import DoubleTensorType, guess_tensor_type

        for name, step in steps:
            if isinstance(step, TableEncoder):
                raise TypeError(
                    f"The step {name!r} is a TableEncoder, which has no form in ONNX: a graph takes numbers. Convert "
                    "the steps behind it, to_onnx(model[1:]), and give the graph model[:1].transform(table)."
                )
        scope, kind = self.graph.scope, self.variable.type
        key = (self.variable.full_name, *(id(step) for _, step in steps))
        if not steps or key in self.graph.known:
            return self.graph.known.get(key, self)
        made = self.graph.known[key] = _Rows(self.graph, scope.declare_local_variable("rows", guess_tensor_type(kind)))
        if isinstance(first := steps[0][1], SimpleImputer) and isinstance(kind, DoubleTensorType):
            # skl2onnx's node for it is in no runtime in float64.
            sought, rows = float(first.missing_values), self.tensor
            is_missing = _is_nan(rows) if np.isnan(sought) else _equal(rows, sought)
            _where(is_missing, first.statistics_.astype(np.float64), rows).written_to(made.variable)
            made.variable.type.shape = kind.shape
            made.variable.init_status(is_fed=True)
            return made.after(steps[1:])
        operator = scope.declare_local_operator(get_model_alias(Pipeline), Pipeline(list(steps)))
        operator.inputs, operator.outputs = [self.variable], [made.variable]
        return made

    def refused(self, values: _Tensor, *, non_negative: bool = False, missing: bool = False) -> _Tensor:
        """Return values, (n,), but NaN for rows with infinity or NaN (unless missing), or negative numbers where none
        are taken.
        """
        rows = self.tensor
        inside = _absolute(rows) <= MOST
        inside = inside & (rows >= 0.0) if non_negative else inside
        inside = inside | _is_nan(rows) if missing else inside
        return _where(_row_minima(inside.of_type(np.float64)) > 0.5, values, np.nan)


def _scored(detector: Any, rows: _Rows) -> _Tensor:
    """Return the score_samples of a fitted detector, (n,): NaN for rows that it refuses."""
    if isinstance(detector, ConformalDetector):
        passed, share = _places(detector, rows)
        return (passed + share) * detector.smallest_p_value_
    found, kernel = _score(detector, rows.tensor), getattr(detector.model_, "kernel", None)
    return rows.refused(found, non_negative=kernel is not None and kernel.non_negative)


def _places(detector: ConformalDetector, given: _Rows) -> tuple[_Tensor, _Tensor]:
    """Return where rows stand among held-out positives, (n,) each: the weight that they have passed, and their share of
    the way to the next, which is NaN where the score is.
    """
    steps, inner = unwrapped(detector.estimator_)
    rows = given.after(steps)
    new = _scored(inner, rows) - float(inner.offset_)
    if needs_mass(inner):
        mass = _log_mass(inner.model_.expansion, rows.tensor)
        new = _where(mass <= float(np.log(least_mass(inner))), mass + BEYOND, new)
    ranking: Ranking = detector.ranking_
    values, counts, unit = ranking.values, np.array([len(ranking.values)]), unit_of(ranking.values)
    size = _where(_absolute(new) <= MOST, _absolute(new), 0.0)
    new = new + _maximum(size, usual_size(values)) * (ROUNDING_UNITS * float(np.finfo(np.float64).eps))
    place = _reached(new, values)
    below = _take(values, _maximum(place - np.array(1), np.array(0)))
    above = _take(values, _minimum(place, counts - 1))
    beyond = 1.0 - 1.0 / ((new - below) / unit + 1.0)
    share = _where(_equal(place, counts), beyond, (new - below) / (above - below))
    share = _where(_equal(place, 0 * counts), 1.0 / ((above - new) / unit + 1.0), share)
    share = _clip(_where(_is_nan(share), 0.0, share), 0.0, LARGEST_SHARE)
    # The weight is rounded up.
    passed = _ceil(_take(np.concatenate([[0.0], np.cumsum(ranking.weights)]), place) * (1.0 - WHOLE))
    return passed, _where(_is_nan(new), np.nan, share)


@singledispatch
def _score(detector: Any, rows: _Tensor) -> _Tensor:
    """Return the score_samples of a fitted detector for rows that it takes, (n,)."""
    del rows
    raise _refusal(detector)


@_score.register
def _(detector: AutoDetector, rows: _Tensor) -> _Tensor:
    combination = detector.model_.combination
    views = [_viewed(view.scaling, rows) for view in combination.views]
    parts = [_of_view(view, of) for view, of in zip(combination.views, views, strict=True)]
    found, known = sum(parts[1:], parts[0]) * (-1.0 / len(parts)), combination.known
    if known is None:
        return found
    unsure = _maximum(_surprise(known.surprise, -_of_trees(known.classifier, views[-1])), LEAST_SURPRISE)
    return found * (1.0 - known.share) - unsure * known.share


def _viewed(scaling: Any, rows: _Tensor) -> _Tensor:
    """Return rows as `slabsvm.ensemble.scales.viewed` does: what overflows becomes the largest number."""
    if scaling is None:
        return rows
    by_ranks = isinstance(scaling, NormalScores)
    return _clip(_normal_scores(scaling, rows) if by_ranks else (rows - scaling.mean_) / scaling.scale_, -MOST, MOST)


def _normal_scores(step: NormalScores, rows: _Tensor) -> _Tensor:
    counts = np.array([len(values) for values in step.values_])
    starts = np.concatenate([[0], np.cumsum(counts + 1)[:-1]])
    # How many values each row has reached: it equals the last of these, or lies in the gap behind it.
    edges = np.concatenate([np.append(values, np.nan) for values in step.values_])
    place = _searched(rows, starts, counts, edges) + starts
    last = np.concatenate([np.append(values[:1], values) for values in step.values_])
    scores = np.concatenate([np.append(scores[:1], scores) for scores in step.scores_])
    found = _where(_equal(_take(last, place), rows), _take(scores, place), _take(np.concatenate(step.gaps_), place))
    low, high = (np.array([values[end] for values in step.values_]) for end in (0, -1))
    return found + (rows - _minimum(_maximum(rows, low), high)) / step.scale_


def _of_view(view: View, rows: _Tensor) -> _Tensor:
    """Return the mean surprise of a view's readings, (n,)."""
    mean = _mean_of_nearest(view.nearest, rows, NEAREST)
    readings = mean(1), mean(NEAREST), (mean(FEW) + view.least) / (mean(AROUND, view.local) + view.least)
    said = [_surprise(one, reading) for one, reading in zip(view.surprises, readings, strict=True)]
    return (said[0] * WEIGHTS[0] + said[1] * WEIGHTS[1] + said[2] * WEIGHTS[2]) / WEIGHTS.sum()


def _surprise(found: Surprise, readings: _Tensor) -> _Tensor:
    """Return what a `Surprise` gives readings, (n,)."""
    above = _reached(_absolute(readings) * TIE - readings, -found.readings[::-1])
    excess = _minimum(_maximum(readings - found.readings[-1], 0.0) / found.unit, LARGEST)
    return _log(1.0 + excess) - _take(np.log((1.0 + found.rows) / (1.0 + found.rows[-1])), above)


def _mean_of_nearest(nearest: Nearest, rows: _Tensor, most: int) -> Callable[..., _Tensor]:
    """Return the function of k, at most so many, that is the mean over rows' k nearest, (n,), of distances, or of
    values of samples, (m,).
    """
    graph, samples = rows.graph, dense(nearest.samples)
    kernel, count = rbf.RBF.at(1.0, samples, np.ones(len(samples))), np.array([min(most, len(samples))])
    near = graph.nodes("TopK", -_exponents(kernel, samples, rows), count, count=2, axis=1, largest=0)[1]
    # From differences, which have all their digits.
    apart = _operator("Unsqueeze", 1)(rows) - _take(samples, near)
    squares, order = graph.nodes(
        "TopK", _operator("ReduceSumSquare", 2, keepdims=0)(apart), count, count=2, axis=1, largest=0
    )
    near, distances = _take_own(near, order), _minimum(_sqrt(squares), FARTHEST)
    copies = _take(nearest.counts, near)
    passed = _operator("CumSum")(copies, np.array(1))

    def mean(k: int, values: FloatArray | None = None) -> _Tensor:
        taken = _minimum(passed, float(k)) - _minimum(passed - copies, float(k))
        return _row_sums((distances if values is None else _take(values, near)) * taken) / _row_sums(taken)

    return mean


@_score.register
def _(detector: NeighboursDetector, rows: _Tensor) -> _Tensor:
    fit = detector.model_
    return -_mean_of_nearest(fit.nearest, rows, fit.n_neighbours)(fit.n_neighbours)


def _of_trees(detector: OutlierClassifier, rows: _Tensor) -> _Tensor:
    """Return the mean share of positives in the leaves of rows, (n,)."""
    trees = detector.trees_
    if trees is None:
        raise _refusal(detector)
    rows, places, deepest = rows.of_type(np.float32).of_type(np.float64), _for_each(rows, trees.roots), trees.roots
    # At a leaf a row stays.
    while len(deepest := deepest[trees.left[deepest] > deepest]):
        is_right = _take_own(rows, _take(trees.features, places)) > _take(trees.thresholds, places)
        places = _where(is_right, _take(trees.right, places), _take(trees.left, places))
        deepest = np.concatenate([trees.left[deepest], trees.right[deepest]])
    return _row_sums(_take(trees.values, places)) / float(len(trees.roots))


def _exponents(kernel: rbf.RBF, samples: FloatArray, rows: _Tensor) -> _Tensor:
    """Return -gamma |x - z|^2 of rows (n, d) and samples (m, d), shape (n, m); -inf for rows too far out."""
    if kernel.differences:
        # A power of two, which rounds nothing, brings squares near 1.
        unit = float(np.ldexp(1.0, int(np.frexp(np.sqrt(kernel.gamma))[1])))
        return _by_feature(SQUARE, rows * unit, samples * unit) * (-kernel.gamma / unit / unit)
    centre, root = 0.0 if kernel.centre is None else kernel.centre, 2.0 * np.sqrt(0.5 * kernel.gamma)
    others, scaled = (samples - centre) * root, (rows - centre) * root
    squares = -0.5 * _row_squares(scaled)
    far = ~(squares >= -rbf.FARTHEST * MOST)
    products = _where(far.column, 0.0, scaled) @ others.T - 0.5 * np.square(others).sum(axis=1)
    return _minimum(products + _where(far, -np.inf, squares).column, 0.0)


def _relative(expansion: Expansion, rows: _Tensor) -> tuple[_Tensor, _Tensor]:
    """Return the largest exponent of an RBF kernel in each row, (n,), and kernel values, (n, m), over its exponential,
    so that none underflows.
    """
    assert isinstance(expansion.kernel, rbf.RBF)
    found = _exponents(expansion.kernel, dense(expansion.samples), rows)
    # Where all are -inf, their differences from it would be NaN.
    top = _maximum(_row_maxima(found), -MOST)
    return top, _exp(found - top.column)


def _sums(expansion: Expansion, rows: _Tensor, coefficients: FloatArray) -> _Tensor:
    """Return sum_i c_i k(x_i, x) over an expansion's samples for coefficients (m, q), shape (n, q)."""
    kernel = expansion.kernel
    if isinstance(kernel, rbf.RBF):
        top, values = _relative(expansion, rows)
        return _exp(top).column * (values @ coefficients)
    if isinstance(kernel, Linear | Hellinger):
        return _image(kernel, rows) @ np.asarray(kernel.prepare(expansion.samples).T @ coefficients)
    if isinstance(kernel, Intersection):
        return _by_feature(LEAST, rows, dense(expansion.samples)) @ coefficients
    if isinstance(kernel, Chi2):
        # Of two zeros 0.
        samples = np.maximum(dense(expansion.samples), np.finfo(np.float64).tiny)
        return _by_feature(HARMONIC, rows, samples) @ (2.0 * coefficients)
    raise _refusal(kernel)


def _log_mass(expansion: Expansion, rows: _Tensor) -> _Tensor:
    """Return log sum_i |c_i| k(x_i, x) of an RBF kernel, (n,), of the last of several sums."""
    top, values = _relative(expansion, rows)
    return top + _log(values @ np.abs(expansion.coefficients.reshape(len(expansion.coefficients), -1)[:, -1:])).flat


def _image(kernel: Kernel, rows: _Tensor) -> _Tensor:
    """Return the rows' images in the feature space of a linear or Hellinger kernel, shape (n, d)."""
    if isinstance(kernel, Linear):
        return rows if kernel.centre is None else rows - kernel.centre
    return _sqrt(rows)


def _squared_lengths(kernel: Kernel | None, rows: _Tensor) -> _Tensor:
    """Return k(x, x) of each row, shape (n,), or (1,) where it is the same for all."""
    if isinstance(kernel, rbf.RBF):
        return rows.graph.tensor(np.ones(1))
    return _row_squares(_image(kernel, rows)) if isinstance(kernel, Linear) else _row_sums(rows)


def _along(expansion: Expansion | WeightVector, rows: _Tensor) -> _Tensor:
    """Return the position of rows along w, (n,)."""
    if isinstance(expansion, WeightVector):
        return (_image(expansion.kernel, rows) @ expansion.weights[:, None]).flat
    return _sums(expansion, rows, expansion.coefficients[:, None]).flat


@_score.register
def _(detector: OneClassSVM, rows: _Tensor) -> _Tensor:
    return _along(detector.model_.expansion, rows)


@_score.register
def _(detector: OneClassSlabSVM, rows: _Tensor) -> _Tensor:
    planes, expansion = detector.planes_, detector.model_.expansion
    position = _along(expansion, rows)
    if np.isinf(planes.upper):
        return position
    if planes.two_sided is None:
        return -_absolute(position - 0.5 * (planes.lower + planes.upper))
    return _two_sided(planes.two_sided, position, _log_mass(expansion, rows) if planes.scores_by_mass else None)


def _two_sided(score: TwoSided, position: _Tensor, log_mass: _Tensor | None) -> _Tensor:
    """Return what a `TwoSided` gives positions along w, (n,)."""
    position = position * score.side
    rising = (position - score.inner) / score.unit
    falling = (score.outer - position) / max(score.outer - score.peak, score.least_unit)
    excess, between = _maximum(position - score.outer, 0.0), _minimum(rising, falling)
    if log_mass is None:
        return _maximum(_where(position > score.outer, -excess / score.unit, between), LOWEST)
    least = OUT_OF_REACH * score.inner
    further = (position - least) / score.inner + _minimum(log_mass - np.log(least), 0.0)
    logs = _log(_maximum(position, least) / score.inner) + _where(position < least, further, 0.0)
    below = _maximum(logs * (score.inner / score.unit), LOWEST)
    beyond = excess * -score.depth / (excess + (score.outer - score.inner))
    return _where(position > score.outer, beyond, _where(position < score.inner, below, between))


@_score.register
def _(detector: SVDD, rows: _Tensor) -> _Tensor:
    position, lengths = _along(detector.model_.expansion, rows), _squared_lengths(detector.model_.kernel, rows)
    # What is so long that its square overflows is infinitely far, whatever the product is.
    return _where(lengths <= MOST, 2.0 * position - lengths - detector.model_.squared_norm, -np.inf)


@_score.register
def _(detector: KernelPCADetector, rows: _Tensor) -> _Tensor:
    fit, expansion, shares = detector.model_, detector.model_.expansion, detector.model_.expansion.coefficients[:, -1:]
    # Of the centred images: the mean is taken off the coefficients, once, in place of the projections.
    leading = expansion.coefficients[:, :-1] - shares * fit.sums
    projections = _sums(expansion, rows, leading) - (fit.shift - fit.squared_mean * fit.sums)
    lengths = _squared_lengths(fit.kernel, rows) - 2.0 * _sums(expansion, rows, shares).flat + fit.squared_mean
    errors = _maximum(lengths - _row_squares(projections), 0.0)
    # What is left of squares that overflow is infinitely far.
    return -_where(_is_nan(errors), np.inf, errors)


@_score.register
def _(detector: KernelDensityDetector, rows: _Tensor) -> _Tensor:
    density = detector.model_.density
    return _log_mass(density.expansion, rows) - density.log_height


def _refusal(what: Any) -> TypeError:
    """Return the error for a model that has no form in ONNX."""
    if what is None:
        return TypeError(
            "A model with kernel='precomputed' has no form in ONNX: its input would be kernel values with the training "
            "rows, which are computed outside it. Fit it with the name of a kernel."
        )
    if isinstance(what, FromFunction):
        return TypeError(
            "A model whose kernel is a Python function has no form in ONNX, which cannot call it. Fit it with the name "
            "of a kernel: 'rbf', 'linear', 'intersection', 'hellinger' or 'chi2'."
        )
    return TypeError(f"{type(what).__name__} has no form in ONNX here; see docs/how-to/onnx.md for what is converted.")
