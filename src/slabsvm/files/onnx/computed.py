"""A model's whole graph, in the type of its rows or, where that is too coarse, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.files.onnx.answers import answer
from slabsvm.files.onnx.graph import Graph, ImpreciseError, Tensor, maximum, minimum, where
from slabsvm.files.onnx.inputs import Inputs


def computed(model: Any, inputs: Inputs, prefix: str = "") -> tuple[Graph, dict[str, Tensor]]:
    """Return a fitted model's graph and its outputs by their names, numbers among them of the inputs' type.

    Parameters
    ----------
    model : fitted detector, of the rows that the inputs make
    inputs : Inputs
    prefix : str
        Begins the names of the graph's values.
    """
    dtype = inputs.dtype
    graph = Graph(dtype, prefix)
    try:
        return graph, answer(model, inputs.rows(graph)).outputs()
    except ImpreciseError:
        graph = Graph(np.float64, prefix)
    found = answer(model, inputs.rows(graph)).outputs()
    return graph, {name: value if name == "label" else _narrowed(value, dtype) for name, value in found.items()}


def _narrowed(values: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return numbers in a type, which are at most its largest one."""
    largest = float(np.finfo(dtype).max)
    bounded = where(values.graph.node("IsNaN", values), values, maximum(minimum(values, largest), -largest))
    return values.graph.node("Cast", bounded, to=Graph(dtype).element_type)
