"""A model's whole graph, in the type of its rows or, where that is too coarse, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.files.onnx.answers import answer
from slabsvm.files.onnx.graph import Graph, ImpreciseError, Tensor, maximum, minimum, where


def computed(model: Any, dtype: np.dtype[Any], rows: str, prefix: str = "") -> tuple[Graph, dict[str, Tensor]]:
    """Return a fitted model's graph and its outputs by their names, numbers among them of dtype.

    Parameters
    ----------
    model : fitted detector
    dtype : float32 or float64
    rows : str
        The name of the input, (n, n_features) of dtype.
    prefix : str
        Begins the names of the graph's values.
    """
    graph = Graph(dtype, prefix)
    try:
        return graph, answer(model, Tensor(graph, rows)).outputs()
    except ImpreciseError:
        graph = Graph(np.float64, prefix)
    wide = graph.node("Cast", Tensor(graph, rows), to=graph.element_type)
    found = answer(model, wide).outputs()
    return graph, {name: value if name == "label" else _narrowed(value, dtype) for name, value in found.items()}


def _narrowed(values: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return numbers in a type, which are at most its largest one."""
    largest = float(np.finfo(dtype).max)
    bounded = where(values.graph.node("IsNaN", values), values, maximum(minimum(values, largest), -largest))
    return values.graph.node("Cast", bounded, to=Graph(dtype).element_type)
