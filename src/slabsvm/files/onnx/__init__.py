"""A fitted model as a file that ONNX runtimes read, by itself or as a part of what skl2onnx converts.

It is formulas in standard operators, of the model's own state: `graph` writes nodes, `steps` say what is read and what
stands before a detector, `sums` kernels, and `answers` detectors and calibration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.files.onnx.answers import answer, computed
from slabsvm.files.onnx.graph import NEWEST_OPSET, OLDEST_OPSET
from slabsvm.files.onnx.steps import Inputs, Matrix, Table, known, width
from slabsvm.runtime.caller import load
from slabsvm.tables.encoder import TableEncoder


def register_with_skl2onnx() -> None:
    """Teach skl2onnx this package's detectors, so that `skl2onnx.to_onnx` converts pipelines that end in one.

    Outputs are those of `slabsvm.files.to_onnx`. It may be called any number of times.

    Raises
    ------
    slabsvm.ExtraMissingError
        Without skl2onnx; the text says what to install.
    """
    load("A pipeline in ONNX", "skl2onnx", "slabsvm[onnx]")
    from skl2onnx import update_registered_converter

    for model in answer.registry:
        if model not in (object, Pipeline):
            update_registered_converter(model, f"Slabsvm{model.__name__}", _shapes, _convert, parser=_parse)


def converted(pipeline: Any, dtype: np.dtype[Any], target_opset: int, name: str) -> Any:
    """Return a pipeline as skl2onnx converts it; its input has a name."""
    register_with_skl2onnx()
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kind = FloatTensorType if dtype == np.float32 else DoubleTensorType
    rows = [(name, kind([None, width(pipeline)]))]
    return convert_sklearn(pipeline, type(pipeline).__name__, rows, target_opset=target_opset)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Return the outputs that skl2onnx is to expect of a detector."""
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    del custom_parsers
    operator = scope.declare_local_operator(f"Slabsvm{type(model).__name__}", model)
    operator.inputs = inputs
    is_calibrated = isinstance(getattr(model, "best_estimator_", model), ConformalDetector)
    for name in OUTPUTS if is_calibrated else OUTPUTS[:-1]:
        kind = Int64TensorType() if name == "label" else guess_tensor_type(inputs[0].type)
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _shapes(operator: Any) -> None:
    """State the outputs' shapes: a vector each."""
    for output in operator.outputs:
        output.type.shape = [operator.inputs[0].get_first_dimension()]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add a detector's nodes to those of the pipeline."""
    from onnx import helper
    from skl2onnx.common.data_types import guess_numpy_type

    dtype = np.dtype(guess_numpy_type(operator.inputs[0].type))
    inputs = Matrix(dtype, operator.inputs[0].full_name, width(operator.raw_operator))
    graph, found = computed(operator.raw_operator, inputs, prefix=scope.get_unique_variable_name("slabsvm"))
    container.initializers.extend(graph.constants)
    for node in graph.nodes:
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        container.add_node(node.op_type, list(node.input), list(node.output), name=node.name, **attributes)
    for output, value in zip(operator.outputs, found.values(), strict=True):
        container.add_node("Identity", [value.name], [output.full_name], name=f"n_{output.full_name}")


INPUT = "X"
# Columns of tables are inputs by their own names.
OUTPUTS = ("label", "scores", "score_samples", "p_values")
PREFIX = "slabsvm:"


def to_onnx(model: Any, *, dtype: npt.DTypeLike = np.float32, target_opset: int | None = None) -> Any:
    """Return a fitted model as an ONNX graph, which runs without Python: `.SerializeToString()` is the file's bytes.

    Its input is X, (n, n_features), of dtype; of a pipeline that begins with a `TableEncoder` the columns by their
    names, each (n, 1): numbers, of which NaN is missing, or texts, of which "" is. Its outputs are (n,): label (int64,
    +1 for rows that are accepted and -1 for the others), scores (decision_function), score_samples, and of a
    `ConformalDetector` p_values. A row that the model would refuse scores NaN and is labelled -1.

    Parameters
    ----------
    model : fitted detector of this package, or pipeline that ends in one
        With a named kernel. Steps of a pipeline that are not scikit-learn's scalers are converted by skl2onnx.
    dtype : float32 or float64, default=float32
        The type of the input and the scores. All is computed in it, but where the rounding of float32 would be seen in
        the scores, in float64.
    target_opset : int or None, default=None
        The version of ONNX's operators, 18 to 25; None is 18, or 19 where columns of a table are texts.

    Returns
    -------
    onnx.ModelProto
        It holds the model's support vectors, or for linear and Hellinger kernels a weight vector.

    Raises
    ------
    slabsvm.ExtraMissingError
        Without onnx, or without skl2onnx where it is needed; the text says what to install.
    TypeError
        For models that have no form in ONNX, such as those with precomputed kernels; the text says why.
    ValueError
        For another dtype or opset.
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}.")
    if target_opset is not None and not OLDEST_OPSET <= target_opset <= NEWEST_OPSET:
        raise ValueError(f"target_opset must be from {OLDEST_OPSET} to {NEWEST_OPSET}, got {target_opset}.")
    load("A file of ONNX", "onnx", "slabsvm[onnx]")
    from onnx import TensorProto, checker, helper

    check_is_fitted(model)
    inputs: Inputs
    if isinstance(model, Pipeline) and isinstance(model[0], TableEncoder) and len(model) > 1:
        inputs, model = Table(dtype, model[0], OUTPUTS), model[1:]
    elif isinstance(model, Pipeline) and not all(known(step) for _, step in model.steps[:-1]):
        return converted(model, dtype, target_opset or OLDEST_OPSET, INPUT)
    else:
        inputs = Matrix(dtype, INPUT, width(model))
    target_opset = target_opset or inputs.least_opset
    if target_opset < inputs.least_opset:
        raise ValueError(
            f"target_opset must be {inputs.least_opset} or more for a table of texts: before, they cannot be compared."
        )
    graph, outputs = computed(model, inputs, PREFIX)
    for name, value in outputs.items():
        graph.nodes.append(helper.make_node("Identity", [value.name], [name]))
    element = int(helper.np_dtype_to_tensor_dtype(dtype))
    kinds = {**dict.fromkeys(outputs, element), "label": TensorProto.INT64}
    opset = helper.make_opsetid("", target_opset)
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            type(model).__name__,
            [helper.make_tensor_value_info(name, kind, ["n", columns]) for name, kind, columns in inputs.named()],
            [helper.make_tensor_value_info(name, kind, ["n"]) for name, kind in kinds.items()],
            graph.constants,
        ),
        opset_imports=[opset],
        ir_version=helper.find_min_ir_version_for([opset]),
        producer_name="slabsvm",
    )
    checker.check_model(made)
    return made
