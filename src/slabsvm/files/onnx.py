"""A fitted model as an ONNX graph: what skl2onnx, which converts the steps of others, has to know of this package.

A detector's formula is written on `_Tensor`s, in float64: operators and NumPy's ufuncs add the node that computes them.
No tensor has more numbers than rows times samples, or rows times features, but for differences from near samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal import far, p_values
from slabsvm.conformal.detector import ConformalDetector
from slabsvm.detectors import kernel_density, kernel_pca, one_class_svm, slab, svdd
from slabsvm.detectors.answers import final_detector, unwrapped
from slabsvm.ensemble import auto, known, neighbours, ranks, readings, scales
from slabsvm.fitted import planes
from slabsvm.fitted.model import ROUNDING_UNITS
from slabsvm.kernels import named
from slabsvm.kernels.base import Kernel, WeightVector
from slabsvm.runtime.arrays import FloatArray, dense
from slabsvm.runtime.caller import load
from slabsvm.tables.encoder import TableEncoder

# The largest finite number: rows with larger ones are refused.
FINITE = float(np.finfo(np.float64).max)
# What computes NumPy's ufuncs in ONNX, where it is not named as they are: "bitwise_and" and "bitwise_or" of conditions.
UFUNCS = {
    **{"subtract": "Sub", "multiply": "Mul", "divide": "Div", "matmul": "MatMul", "negative": "Neg", "absolute": "Abs"},
    **{"minimum": "Min", "maximum": "Max", "isnan": "IsNaN", "bitwise_and": "And", "bitwise_or": "Or"},
    **{"less_equal": "LessOrEqual", "greater_equal": "GreaterOrEqual"},
}


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
        The type of input and scores. Detectors, scalers, PCA and SimpleImputer compute in float64, other steps in it.
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
    TypeError, ValueError
        For models and steps that have no form in ONNX, such as those of tables or with precomputed kernels; for another
        dtype or opset. The text says why.
    """
    dtype, oldest = np.dtype(dtype), 18  # reductions take their axes as inputs from then on
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}.")
    load("A file of ONNX", "onnx", "slabsvm[onnx]")
    register_with_skl2onnx()
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    opset, newest = oldest if target_opset is None else target_opset, skl2onnx.get_latest_tested_opset_version()
    if not oldest <= opset <= newest:
        raise ValueError(f"target_opset must be from {oldest} to {newest}, got {opset}.")
    check_is_fitted(model)
    steps, detector = unwrapped(model)
    whole, name = _Whole([*steps, ("detector", detector)]), type(model).__name__
    given = [("X", (FloatTensorType if dtype == np.float32 else DoubleTensorType)([None, whole.n_features_in_]))]
    try:
        return skl2onnx.to_onnx(whole, name=name, initial_types=given, target_opset=opset)
    except (RuntimeError, NotImplementedError) as error:
        raise TypeError(f"skl2onnx cannot convert a step for {dtype}: {str(error).splitlines()[0]}") from error


def register_with_skl2onnx() -> None:
    """Teach skl2onnx this package's detectors and `NormalScores`, so that `skl2onnx.to_onnx` converts pipelines.

    `slabsvm.files.to_onnx` besides has scalers compute in float64, and refuses infinite numbers before the first step.
    Raises slabsvm.ExtraMissingError without skl2onnx; the text says what to install.
    """
    load("A model in ONNX", "skl2onnx", "slabsvm[onnx]")
    from skl2onnx import update_registered_converter

    for model in (*(kind for kind in _score.registry if kind is not object), ConformalDetector, _Whole):
        update_registered_converter(model, f"Slabsvm{model.__name__}", _shapes, _convert, parser=_parse)
    update_registered_converter(ranks.NormalScores, "SlabsvmNormalScores", _shapes, _convert)


class _Whole(Pipeline):
    """A pipeline whose rows are looked at before its first step sees them."""


def _parse(scope: Any, model: Any, inputs: Any, **_: Any) -> Any:
    """Return the outputs that skl2onnx is to expect of a detector."""
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    operator = scope.declare_local_operator(f"Slabsvm{type(model).__name__}", model)
    operator.inputs = inputs
    has_p_values = isinstance(final_detector(model), ConformalDetector)
    for name in ("label", "scores", "score_samples", *(["p_values"] if has_p_values else [])):
        kind = Int64TensorType() if name == "label" else guess_tensor_type(inputs[0].type)
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _shapes(operator: Any) -> None:
    """State the outputs' shapes: a vector each, but for a transformer."""
    shape = operator.inputs[0].type.shape
    for output in operator.outputs:
        output.type.shape = shape if isinstance(operator.raw_operator, ranks.NormalScores) else shape[:1]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add an operator's nodes to those of the pipeline, and of a whole pipeline the operators of its steps."""
    graph, model, given = _Graph(scope, container), operator.raw_operator, operator.inputs[0]
    if isinstance(model, ranks.NormalScores):
        return graph.write(_scaled(model, graph.rows(given)), operator.outputs[0])
    steps, detector = unwrapped(model)
    scores, passed = _scored(detector, graph, graph.after(steps, given))
    scores = _given(graph, given, steps, scores)
    decision = scores - float(detector.offset_)
    outputs = [_where(decision >= 0.0, np.array(1), np.array(-1)), decision, scores]
    if passed is not None:
        outputs.append(
            _where(np.isnan(scores), np.nan, np.minimum((passed + 1.0) / (detector.n_calibration_ + 1.0), 1.0))
        )
    for output, value in zip(operator.outputs, outputs, strict=True):
        graph.write(value, output)


@dataclass(frozen=True)
class _Graph:
    """Where nodes go: skl2onnx's scope, which gives names, and its container. What is known is not added again."""

    scope: Any
    container: Any
    known: dict[Any, Any] = field(default_factory=dict)

    def tensor(self, value: Any) -> Any:
        """Return a tensor as it is, and numbers as a constant: an array of integers of int64, all others of float64."""
        from onnx import numpy_helper

        if isinstance(value, _Tensor):
            return value
        array = np.asarray(value, np.int64 if isinstance(value, np.ndarray) and value.dtype.kind == "i" else np.float64)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.known:
            self.known[key] = _Tensor(self, self.scope.get_unique_variable_name("slabsvm"))
            self.container.add_initializer(self.known[key].name, None, None, numpy_helper.from_array(array))
        return self.known[key]

    def nodes(self, operator: str, *values: Any, count: int = 1, **attributes: Any) -> Any:
        """Return the outputs of an operator of tensors or numbers."""
        inputs = [self.tensor(value).name for value in values]
        key = (operator, *inputs, str(attributes))
        if key not in self.known:
            made = [_Tensor(self, self.scope.get_unique_variable_name("slabsvm")) for _ in range(count)]
            name, self.known[key] = self.scope.get_unique_operator_name(operator), made
            self.container.add_node(operator, inputs, [one.name for one in made], name=name, **attributes)
        return self.known[key]

    def rows(self, variable: Any) -> Any:
        return _double(_Tensor(self, variable.full_name))

    def write(self, value: Any, variable: Any) -> None:
        """Make a tensor a variable of skl2onnx; what float32 does not hold becomes the nearest number that it does."""
        from skl2onnx.common.data_types import FloatTensorType, guess_proto_type

        if isinstance(variable.type, FloatTensorType):
            largest = float(np.finfo(np.float32).max)
            value = _where(np.isnan(value), value, np.maximum(np.minimum(value, largest), -largest))
        name, kind = self.scope.get_unique_operator_name("Cast"), guess_proto_type(variable.type)
        self.container.add_node("Cast", [value.name], [variable.full_name], name=name, to=kind)

    def fed(self, value: Any, kind: Any) -> Any:
        """Return a new variable of skl2onnx that is a tensor."""
        made = self.scope.declare_local_variable("rows", kind)
        made.init_status(is_fed=True)
        self.write(value, made)
        return made

    def after(self, steps: Sequence[tuple[str, Any]], given: Any) -> Any:
        """Return what steps make of a variable, one after the other: skl2onnx converts them in its type, or float64."""
        from skl2onnx import get_model_alias
        from skl2onnx.common.data_types import DoubleTensorType, guess_tensor_type

        if not steps:
            return given
        if any(isinstance(step, TableEncoder) for _, step in steps):
            raise TypeError(
                "A TableEncoder has no form in ONNX. Use to_onnx(model[1:]); give it model[:1].transform(table)."
            )
        # skl2onnx converts these in float64, too: what they round to in float32 would part rows that repeat.
        exact = ("StandardScaler", "RobustScaler", "MinMaxScaler", "MaxAbsScaler", "PCA", "SimpleImputer")
        if all(type(step).__name__ in (*exact, "NormalScores") for _, step in steps):
            given = self.fed(self.rows(given), DoubleTensorType(given.type.shape))
        if isinstance(first := steps[0][1], SimpleImputer):  # skl2onnx's node is in no runtime in float64
            filling = np.asarray(first.statistics_, dtype=np.float64)
            if first.add_indicator or np.isnan(filling).any():
                raise TypeError("A SimpleImputer that adds features, or leaves some out, has no form in ONNX here.")
            rows, sought = self.rows(given), float(first.missing_values)
            filled = _where(np.isnan(rows) if np.isnan(sought) else rows == sought, filling, rows)
            return self.after(steps[1:], self.fed(filled, type(given.type)(given.type.shape)))
        operator = self.scope.declare_local_operator(get_model_alias(Pipeline), Pipeline(list(steps)))
        made = self.scope.declare_local_variable("rows", guess_tensor_type(given.type))
        operator.inputs, operator.outputs = [given], [made]
        return made


@dataclass(frozen=True, eq=False)
class _Tensor(np.lib.mixins.NDArrayOperatorsMixin):
    """A value of a graph, by its name there."""

    graph: _Graph
    name: str

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *values: Any) -> Any:
        return self.graph.nodes(UFUNCS.get(ufunc.__name__, ufunc.__name__.capitalize()), *values)[0]


def _operator(name: str, *axes: int, **attributes: Any) -> Callable[..., Any]:
    """Return the function of tensors and numbers that an operator computes, along some axes where it takes such."""

    def of(*values: Any) -> Any:
        graph = next(value.graph for value in values if isinstance(value, _Tensor))
        return graph.nodes(name, *values, *([np.array(axes)] if axes else []), **attributes)[0]

    return of


# _where is the second where the first holds, else the third; _column (n,) as (n, 1), and _flat (n, 1) as (n,).
_where, _column, _flat = _operator("Where"), _operator("Unsqueeze", -1), _operator("Squeeze", -1)
_single, _double = _operator("Cast", to=1), _operator("Cast", to=11)  # ONNX's numbers for float32 and float64
_row_sums, _row_squares = _operator("ReduceSum", 1, keepdims=0), _operator("ReduceSumSquare", 1, keepdims=0)
_row_maxima, _row_minima = _operator("ReduceMax", 1, keepdims=0), _operator("ReduceMin", 1, keepdims=0)
_take, _take_own = _operator("Gather", axis=0), _operator("GatherElements", axis=1)  # of a table; of each row


def _by_feature(term: str, rows: _Tensor, samples: FloatArray) -> Any:
    """Return the sum over features of a term of rows, (n, d), and samples, (m, d), of shape (n, m)."""
    from onnx import parser

    # A Scan adds to sums over the features so far a term of x_j, (n, 1), and z_j, (1, m).
    body = (
        "sum (double[n, m] _sum, double[n, 1] _x, double[1, m] _z) => (double[n, m] _next)\n"
        f"{{ {term} _next = Add(_sum, _term) }}"
    )
    x, z = _column(_operator("Transpose", perm=(1, 0))(rows)), np.ascontiguousarray(samples.T[:, None])
    scan = _operator("Scan", body=parser.parse_graph(body), num_scan_inputs=2)
    return scan(_column(_row_minima(rows)) * np.zeros(len(samples)), x, z)


def _reached(t: Any, columns: Sequence[FloatArray]) -> Any:
    """Return the gap between its column's ascending numbers where each of t, (n, d), is: the one of all gaps."""
    counts, place = np.array([len(values) for values in columns]), t.graph.tensor(np.zeros(1, dtype=np.int64))
    starts, edges = np.cumsum(counts + 1) - (counts + 1), np.concatenate([np.append(one, np.nan) for one in columns])
    for bit in reversed(range(int(counts.max()).bit_length())):
        candidate = place + np.array([1 << bit])
        last = np.minimum(candidate, counts + 1) + (starts - 1)
        place = _where(_take(edges, last) <= t, candidate, place)
    return place + starts


def _refused(rows: Any, values: Any, *, non_negative: bool = False, missing: bool = False) -> Any:
    """Return values, (n,), but NaN for rows with infinity, NaN unless missing, or negative numbers if non_negative."""
    inside = (rows >= (0.0 if non_negative else -FINITE)) & (rows <= FINITE)
    inside = inside | np.isnan(rows) if missing else inside
    return _where(_row_minima(_double(inside)) > 0.5, values, np.nan)


def _given(graph: _Graph, given: Any, steps: Sequence[tuple[str, Any]], values: Any) -> Any:
    """Return values, (n,), but NaN for rows that are refused before the first step sees them, if there is one."""
    imputes = any(type(step).__module__.startswith("sklearn.impute") for _, step in steps)
    return _refused(graph.rows(given), values, missing=imputes) if steps else values


def _scored(detector: Any, graph: _Graph, given: Any) -> tuple[Any, Any]:
    """Return score_samples of a variable, (n,), NaN for rows that are refused, and the first of `_places`, or None."""
    if isinstance(detector, ConformalDetector):
        passed, share = _places(detector, graph, given)
        return (passed + share) / (detector.n_calibration_ + 1.0), passed
    found, kernel = _score(detector, graph.rows(given)), getattr(detector.model_, "kernel", None)
    return _refused(graph.rows(given), found, non_negative=kernel is not None and kernel.non_negative), None


def _places(detector: ConformalDetector, graph: _Graph, given: Any) -> tuple[Any, Any]:
    """Return how much, rounded up, of held-out positives rows have passed, (n,), and their share of the next step."""
    steps, inner = unwrapped(detector.estimator_)
    taken = graph.after(steps, given)
    new = _scored(inner, graph, taken)[0] - float(inner.offset_)
    if far.needs_mass(inner):
        mass = _refused(graph.rows(taken), _log_mass(inner.model_.expansion, graph.rows(taken)))
        new = _where(mass <= np.log(far.least_mass(inner)), mass + far.BEYOND, new)
    new, values, weights = _given(graph, given, steps, new), detector.ranking_.values, detector.ranking_.weights
    count, unit = np.array([len(values)]), p_values.unit_of(values)
    size = _where(np.abs(new) <= FINITE, np.abs(new), 0.0)
    new = new + np.maximum(size, p_values.usual_size(values)) * (ROUNDING_UNITS * np.finfo(np.float64).eps)
    place = _flat(_reached(_column(new), [values]))
    below = new - _take(values, np.maximum(place - np.array(1), np.array(0)))
    above = _take(values, np.minimum(place, count - 1)) - new
    share = _where(place == count, 1.0 - 1.0 / (below / unit + 1.0), below / (below + above))
    share = _where(place == 0 * count, 1.0 / (above / unit + 1.0), share)
    share = np.maximum(np.minimum(_where(np.isnan(share), 0.0, share), p_values.LARGEST_SHARE), 0.0)
    passed = np.ceil(_take(np.concatenate([[0.0], np.cumsum(weights)]), place) * (1.0 - p_values.WHOLE))
    return passed, _where(np.isnan(new), np.nan, share)


@singledispatch
def _score(detector: Any, _: Any) -> Any:
    """Return the score_samples of a detector for rows that it takes, (n,)."""
    raise TypeError(f"{type(detector).__name__} has no form in ONNX here; docs/how-to/onnx.md says what has.")


@_score.register
def _(detector: auto.AutoDetector, rows: _Tensor) -> Any:
    combination, scalings = detector.model_.combination, [one.scaling for one in detector.model_.combination.views]
    views = [rows if one is None else np.maximum(np.minimum(_scaled(one, rows), FINITE), -FINITE) for one in scalings]
    parts = [_of_view(view, of) for view, of in zip(combination.views, views, strict=True)]
    found, part = sum(parts[1:], parts[0]) * (-1.0 / len(parts)), combination.known
    if part is None:
        return found
    unsure = np.maximum(_surprise(part.surprise, -_of_trees(part.classifier, views[-1])), readings.LEAST_SURPRISE)
    return found * (1.0 - part.share) - unsure * part.share


def _scaled(scaling: Any, rows: Any) -> Any:
    """Return what a view's scaling makes of rows, a StandardScaler or normal scores."""
    if not isinstance(scaling, ranks.NormalScores):
        return (rows - scaling.mean_) / scaling.scale_
    place, values = _reached(rows, scaling.values_), scaling.values_  # on the last value reached, or in the gap behind
    last, scores = (np.concatenate([np.append(one[:1], one) for one in of]) for of in (values, scaling.scores_))
    found = _where(_take(last, place) == rows, _take(scores, place), _take(np.concatenate(scaling.gaps_), place))
    low, high = np.array([one[0] for one in values]), np.array([one[-1] for one in values])
    return found + (rows - np.minimum(np.maximum(rows, low), high)) / scaling.scale_


def _of_view(view: readings.View, rows: _Tensor) -> Any:
    """Return the mean surprise of a view's readings, (n,)."""
    mean = _mean_of_nearest(view.nearest, rows, readings.NEAREST)
    ratio = (mean(readings.FEW) + view.least) / (mean(readings.AROUND, view.local) + view.least)
    surprises = map(_surprise, view.surprises, (mean(1), mean(readings.NEAREST), ratio))
    weighted = (one * weight for one, weight in zip(surprises, readings.WEIGHTS, strict=True))
    return sum(weighted) / readings.WEIGHTS.sum()


def _surprise(found: ranks.Surprise, reading: Any) -> Any:
    """Return what a `Surprise` gives readings, (n,)."""
    above = _flat(_reached(_column(np.abs(reading) * ranks.TIE - reading), [-found.readings[::-1]]))
    excess = np.minimum(np.maximum(reading - found.readings[-1], 0.0) / found.unit, ranks.LARGEST_EXCESS)
    return np.log(1.0 + excess) - _take(np.log((1.0 + found.rows) / (1.0 + found.rows[-1])), above)


def _mean_of_nearest(of: neighbours.Nearest, rows: _Tensor, most: int) -> Callable[..., Any]:
    """Return what gives the mean over rows' k nearest, (n,), k <= most, of distances or of values of samples, (m,)."""
    graph, samples = rows.graph, dense(of.samples)
    # Of no rows TopK ends the process in onnxruntime before 1.31: a sample is one more row.
    rows = _operator("Concat", axis=0)(rows, samples[:1].astype(np.float64))
    kernel, count = named.RBF.at(1.0, samples, np.ones(len(samples))), np.array([min(most, len(samples))])
    _, near = graph.nodes("TopK", -_exponents(kernel, samples, rows), count, count=2, axis=1, largest=0)
    apart = _operator("ReduceSumSquare", 2, keepdims=0)(_operator("Unsqueeze", 1)(rows) - _take(samples, near))
    squares, order = graph.nodes("TopK", apart, count, count=2, axis=1, largest=0)
    own, distances = _take_own(near, order), np.minimum(np.sqrt(squares), scales.FARTHEST)
    copies, passed = _take(of.counts, own), _operator("CumSum")(_take(of.counts, own), np.array(1))

    def mean(k: int, values: FloatArray | None = None) -> Any:
        taken = np.minimum(passed, float(k)) - np.minimum(passed - copies, float(k))
        found = _row_sums((distances if values is None else _take(values, own)) * taken) / _row_sums(taken)
        return _operator("Slice")(found, np.array([0]), np.array([-1]))

    return mean


@_score.register
def _(detector: neighbours.NeighboursDetector, rows: _Tensor) -> Any:
    return -_mean_of_nearest(detector.model_.nearest, rows, detector.model_.n_neighbours)(detector.model_.n_neighbours)


def _of_trees(detector: known.OutlierClassifier, rows: _Tensor) -> Any:
    """Return the mean share of positives in the leaves of rows, (n,)."""
    if (trees := detector.trees_) is None:
        return _score(detector, rows)
    shape = _operator("Concat", axis=0)(_operator("Shape", end=1)(rows), np.array([len(trees.roots)]))
    single, places, deepest = _double(_single(rows)), _operator("Expand")(trees.roots[None], shape), trees.roots
    while len(deepest := deepest[trees.left[deepest] > deepest]):  # at a leaf a row stays
        is_right = _take_own(single, _take(trees.features, places)) > _take(trees.thresholds, places)
        places = _where(is_right, _take(trees.right, places), _take(trees.left, places))
        deepest = np.concatenate([trees.left[deepest], trees.right[deepest]])
    return _row_sums(_take(trees.values, places)) / float(len(trees.roots))


def _exponents(kernel: named.RBF, samples: FloatArray, rows: _Tensor) -> Any:
    """Return -gamma |x - z|^2 of rows (n, d) and samples (m, d), shape (n, m); -inf for rows too far out."""
    if kernel.differences:
        return _by_feature("_apart = Sub(_x, _z) _term = Mul(_apart, _apart)", rows, samples) * -kernel.gamma
    centre, root = 0.0 if kernel.centre is None else kernel.centre, 2.0 * np.sqrt(0.5 * kernel.gamma)
    others, scaled = (samples - centre) * root, (rows - centre) * root
    squares = -0.5 * _row_squares(scaled)
    is_near = _column(squares >= -named.INFINITELY_FAR * FINITE)
    products = _where(is_near, scaled, 0.0) @ others.T - 0.5 * np.square(others).sum(axis=1)
    return np.minimum(products + _where(is_near, _column(squares), -np.inf), 0.0)


def _relative(expansion: Any, rows: _Tensor) -> tuple[Any, Any]:
    """Return the largest exponent of an RBF kernel for each row, (n,), and exp of what all are less, (n, m)."""
    found = _exponents(expansion.kernel, dense(expansion.samples), rows)
    top = np.maximum(_row_maxima(found), -FINITE)  # where all are -inf, differences from it would be NaN
    return top, np.exp(found - _column(top))


def _log_mass(expansion: Any, rows: _Tensor) -> Any:
    """Return log sum_i |c_i| k(x_i, x) of an RBF kernel, (n,), of the last of several sums."""
    top, values = _relative(expansion, rows)
    return top + _flat(np.log(values @ np.abs(expansion.coefficients.reshape(expansion.samples.shape[0], -1)[:, -1:])))


def _sums(expansion: Any, rows: _Tensor, coefficients: FloatArray) -> Any:
    """Return sum_i c_i k(x_i, x) over an expansion's samples for coefficients (m, q), shape (n, q)."""
    kernel, samples = expansion.kernel, expansion.samples
    if isinstance(kernel, named.RBF):
        top, values = _relative(expansion, rows)
        return np.exp(_column(top)) * (values @ coefficients)
    if isinstance(kernel, named.Linear | named.Hellinger):
        return _image(kernel, rows) @ np.asarray(kernel.prepare(samples).T @ coefficients)
    if isinstance(kernel, named.Intersection):
        return _by_feature("_term = Min(_x, _z)", rows, dense(samples)) @ coefficients
    if isinstance(kernel, named.Chi2):
        term = "_both = Add(_x, _z) _of = Div(_z, _both) _bad = IsNaN(_of) _none = Sub(_x, _x)"  # of two zeros 0
        term += " _share = Where(_bad, _none, _of) _term = Mul(_x, _share)"
        return _by_feature(term, rows, dense(samples).astype(np.float64)) @ (2.0 * coefficients)
    raise TypeError(
        "A precomputed kernel, or a Python function, has no form in ONNX. Fit the model with a kernel's name."
    )


def _image(kernel: Kernel | None, rows: _Tensor) -> Any:
    """Return vectors as long as rows' images, (n, d), or (1, 1) for RBF; they are the images of explicit kernels."""
    if isinstance(kernel, named.Linear):
        return rows if kernel.centre is None else rows - kernel.centre
    return rows.graph.tensor(np.ones((1, 1))) if isinstance(kernel, named.RBF) else np.sqrt(rows)


@_score.register(one_class_svm.OneClassSVM)
def _along(detector: Any, rows: _Tensor) -> Any:
    """Return the position of rows along w, (n,)."""
    expansion = detector.model_.expansion
    if isinstance(expansion, WeightVector):
        return _flat(_image(expansion.kernel, rows) @ expansion.weights[:, None])
    return _flat(_sums(expansion, rows, expansion.coefficients[:, None]))


@_score.register
def _(detector: slab.OneClassSlabSVM, rows: _Tensor) -> Any:
    position, score, expansion = _along(detector, rows), detector.planes_.two_sided, detector.model_.expansion
    if np.isinf(detector.rho_upper_):
        return position
    if score is None:
        return -np.abs(position - 0.5 * (detector.rho_lower_ + detector.rho_upper_))
    position, least = position * score.side, planes.OUT_OF_REACH * score.inner
    falling = (score.outer - position) / max(score.outer - score.peak, score.least_unit)
    between = np.minimum((position - score.inner) / score.unit, falling)
    excess = np.maximum(position - score.outer, 0.0)
    if not score.local:
        return np.maximum(_where(position > score.outer, -excess / score.unit, between), planes.LOWEST)
    further = (position - least) / score.inner + np.minimum(_log_mass(expansion, rows) - np.log(least), 0.0)
    logs = np.log(np.maximum(position, least) / score.inner) + _where(position < least, further, 0.0)
    below = np.maximum(logs * (score.inner / score.unit), planes.LOWEST)
    beyond = excess * -score.depth / (excess + (score.outer - score.inner))
    return _where(position > score.outer, beyond, _where(position < score.inner, below, between))


@_score.register
def _(detector: svdd.SVDD, rows: _Tensor) -> Any:
    # What is so long that its square overflows is infinitely far, whatever the product is.
    position, lengths = _along(detector, rows), _row_squares(_image(detector.model_.kernel, rows))
    return _where(lengths <= FINITE, 2.0 * position - lengths - detector.model_.squared_norm, -np.inf)


@_score.register
def _(detector: kernel_pca.KernelPCADetector, rows: _Tensor) -> Any:
    fit, expansion = detector.model_, detector.model_.expansion
    leading, shares = expansion.coefficients[:, :-1], expansion.coefficients[:, -1:]
    # Of the centred images: the mean is taken off the coefficients, once, in place of the projections.
    projections = _sums(expansion, rows, leading - shares * fit.sums) - (fit.shift - fit.squared_mean * fit.sums)
    lengths = _row_squares(_image(fit.kernel, rows)) - 2.0 * _flat(_sums(expansion, rows, shares)) + fit.squared_mean
    errors = np.maximum(lengths - _row_squares(projections), 0.0)
    return -_where(np.isnan(errors), np.inf, errors)  # what is left of squares that overflow is infinitely far


@_score.register
def _(detector: kernel_density.KernelDensityDetector, rows: _Tensor) -> Any:
    return _log_mass(detector.model_.density.expansion, rows) - detector.model_.density.log_height
