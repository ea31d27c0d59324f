"""Questions as the page asks them."""

import json
from typing import Any

import numpy as np

PARAMETERS = {
    "kernel": "rbf",
    "gamma": "neighbours",
    "nu_lower": 0.1,
    "nu_upper": 0.01,
    "epsilon": 2 / 3,
    "offsets": "leave-one-out",
}
GRID = {"x": [-4.0, 4.0, 17], "y": [-3.0, 3.0, 13]}


def cloud(count: int = 60, seed: int = 0) -> list[list[float]]:
    """Return points that lie along a line."""
    points = np.random.default_rng(seed).normal(size=(count, 2)) @ np.array([[1.0, 0.6], [0.0, 0.5]])
    return np.round(points, 4).tolist()


def question(**changes: Any) -> dict[str, Any]:
    """Return a question, with parts and parameters changed by their names."""
    whole = {"points": cloud(), "strangers": [[3.0, -2.0]], "parameters": dict(PARAMETERS), "grid": dict(GRID)}
    for name, value in changes.items():
        (whole if name in whole else whole["parameters"])[name] = value
    return whole


def body(**changes: Any) -> bytes:
    """Return the body of a request with that question."""
    return json.dumps(question(**changes)).encode()
