"""A fitted model as a file that ONNX runtimes read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from slabsvm.files.onnx.answers import computed
from slabsvm.files.onnx.graph import NEWEST_OPSET, OLDEST_OPSET
from slabsvm.files.onnx.inputs import Inputs, Matrix, Table
from slabsvm.files.onnx.pipelines import converted
from slabsvm.files.onnx.steps import known, width
from slabsvm.runtime.extras import load
from slabsvm.tables.encoder import TableEncoder

INPUT = "X"
# Columns of tables are inputs by their own names.
OUTPUTS = ("label", "scores", "score_samples", "p_values")
PREFIX = "slabsvm:"


def to_onnx(model: Any, *, dtype: npt.DTypeLike = np.float32, target_opset: int = OLDEST_OPSET) -> Any:
    """Return a fitted model as an ONNX graph, which runs without Python: `.SerializeToString()` is the file's bytes.

    Its input is X, (n, n_features), of dtype; of a pipeline that begins with a `TableEncoder` the columns by their
    names, each (n, 1): numbers, of which NaN is missing, or texts, of which "" is. Its outputs are vectors, one entry
    for each row: label (int64, +1 for rows that are accepted and -1 for the others), scores (decision_function),
    score_samples, and of a `ConformalDetector` p_values. A row that the model would refuse, for NaN, infinity or a
    negative number where a kernel takes none, scores NaN and is labelled -1.

    Parameters
    ----------
    model : fitted detector of this package, search with refit=True, or pipeline that ends in one
        With a named kernel. Steps of a pipeline that are not scikit-learn's scalers are converted by skl2onnx.
    dtype : float32 or float64, default=float32
        The type of the input and the scores. All is computed in it, but where the rounding of float32 would be seen in
        the scores, in float64.
    target_opset : int, default=18
        The version of ONNX's operators: 18 to 25, and at least 19 where columns of a table are texts.

    Returns
    -------
    onnx.ModelProto
        It holds the model's support vectors, or for additive kernels the sorted values of each feature.

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
    if not OLDEST_OPSET <= target_opset <= NEWEST_OPSET:
        raise ValueError(f"target_opset must be from {OLDEST_OPSET} to {NEWEST_OPSET}, got {target_opset}.")
    load("A file of ONNX", "onnx", "slabsvm[onnx]")
    from onnx import TensorProto, checker, helper

    check_is_fitted(model)
    inputs: Inputs
    if isinstance(model, Pipeline) and isinstance(model[0], TableEncoder) and len(model) > 1:
        inputs, model = Table(dtype, model[0], OUTPUTS), model[1:]
    elif isinstance(model, Pipeline) and not all(known(step) for _, step in model.steps[:-1]):
        return converted(model, dtype, target_opset, INPUT)
    else:
        inputs = Matrix(dtype, INPUT, width(model))
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
