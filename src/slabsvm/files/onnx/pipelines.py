"""Pipelines whose other steps are converted by skl2onnx, of which this package's detectors become a part."""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.detectors.kernel_density import KernelDensityDetector
from slabsvm.detectors.kernel_pca import KernelPCADetector
from slabsvm.detectors.linear_slab import LinearOneClassSlabSVM
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.detectors.svdd import SVDD
from slabsvm.ensemble.auto import AutoSlabSVM
from slabsvm.ensemble.dependence import DependenceDetector
from slabsvm.ensemble.neighbours import NeighboursDetector
from slabsvm.files.onnx.answers import computed
from slabsvm.files.onnx.inputs import Matrix
from slabsvm.files.onnx.steps import width
from slabsvm.runtime.extras import load
from slabsvm.selection.search import LabelFreeSearchCV

CONVERTED = (
    AutoSlabSVM,
    ConformalDetector,
    DependenceDetector,
    KernelDensityDetector,
    KernelPCADetector,
    LabelFreeSearchCV,
    LinearOneClassSlabSVM,
    NeighboursDetector,
    OneClassSVM,
    OneClassSlabSVM,
    SVDD,
)


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

    for model in CONVERTED:
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
    names = ["label", "scores", "score_samples"] + ["p_values"] * _is_calibrated(model)
    for name in names:
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


def _is_calibrated(model: Any) -> bool:
    return isinstance(getattr(model, "best_estimator_", model), ConformalDetector)
