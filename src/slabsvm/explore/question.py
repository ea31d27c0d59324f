"""What the page may ask: points, the parameters of a slab, and where its score is wanted; all checked.

A question is a JSON object:

    points       [[x, y], ...], the rows to learn
    strangers    [[x, y], ...], rows to judge
    parameters   an object: kernel, gamma, nu_lower, nu_upper, epsilon, offsets
    grid         {"x": [from, to, count], "y": [from, to, count]}, the nodes to judge
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.counting import counted

# The size of the largest question; one of the most points takes an eighth of it.
MOST_BYTES = 2**18
# As many as a rule for gamma asks, and as the page's own solver fits while a point is dragged.
MOST_POINTS = 500
LEAST_POINTS = 2
MOST_STRANGERS = 20
MOST_NODES = 256
LEAST_NODES = 2
# Products of coordinates stay numbers.
LARGEST = 1e100
KERNELS = ("rbf", "linear", "intersection", "hellinger", "chi2")
OFFSETS = ("leave-one-out", "training")
GAMMAS = ("neighbours", "scale")
NUMBERS = ("nu_lower", "nu_upper", "epsilon")
PARTS = ("points", "strangers", "parameters", "grid")
PARAMETERS = ("kernel", "gamma", *NUMBERS, "offsets")


class QuestionError(ValueError):
    """A question that has no answer; the text says what is wrong and what to do."""


@dataclass(frozen=True)
class Question:
    """A slab to fit, and where to evaluate it.

    Attributes
    ----------
    points : (n, 2) array of float64
    strangers : (k, 2) array of float64
    parameters : dict
        Of OneClassSlabSVM; whether their values go together is for it to say.
    across, up : (nx,), (ny,) arrays of float64
        The coordinates of the grid's columns and rows, in ascending order.
    """

    points: FloatArray
    strangers: FloatArray
    parameters: dict[str, Any]
    across: FloatArray
    up: FloatArray


def asked(body: bytes) -> Question:
    """Return the question of a request's body; raise QuestionError where it is none."""
    try:
        question = json.loads(body, parse_constant=_refused_constant)
    except (ValueError, RecursionError) as error:
        text = str(error) if isinstance(error, QuestionError) else "The question is not JSON in UTF-8."
        raise QuestionError(text) from error
    parts = _object(question, "The question", PARTS)
    points = _rows(parts["points"], "points", MOST_POINTS)
    if len(points) < LEAST_POINTS:
        raise QuestionError(
            f"A slab is learned from {LEAST_POINTS} points or more, and there are {len(points)}. Add some."
        )
    grid = _object(parts["grid"], "grid", ("x", "y"))
    return Question(
        points=points,
        strangers=_rows(parts["strangers"], "strangers", MOST_STRANGERS),
        parameters=_parameters(parts["parameters"]),
        across=_nodes(grid["x"], "grid.x"),
        up=_nodes(grid["y"], "grid.y"),
    )


def _refused_constant(name: str) -> NoReturn:
    raise QuestionError(f"The question holds {name}. All numbers must be finite.")


def _object(value: Any, name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise QuestionError(f"{name} must be an object with these keys and no others: {', '.join(keys)}.")
    return value


def _is_number(value: Any) -> bool:
    # A comparison, since a whole number may be too large for a float; nan compares with nothing.
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST


def _rows(value: Any, name: str, most: int) -> FloatArray:
    if not isinstance(value, list):
        raise QuestionError(f"{name} must be a list of pairs of numbers.")
    if len(value) > most:
        raise QuestionError(
            f"There are {counted(len(value), name[:-1])}, and at most {most:,} are taken. Leave some out."
        )
    for place, row in enumerate(value):
        if not (isinstance(row, list) and len(row) == 2 and all(map(_is_number, row))):
            raise QuestionError(f"{name}[{place}] must be a pair of finite numbers, of a size of at most {LARGEST:g}.")
    return np.array(value, dtype=np.float64).reshape(len(value), 2)


def _parameters(value: Any) -> dict[str, Any]:
    found = dict(_object(value, "parameters", PARAMETERS))
    for name, known in (("kernel", KERNELS), ("offsets", OFFSETS)):
        if found[name] not in known:
            raise QuestionError(f"{name} must be one of {', '.join(known)}.")
    for name in NUMBERS:
        if not _is_number(found[name]):
            raise QuestionError(f"{name} must be a finite number.")
        found[name] = float(found[name])
    if found["gamma"] not in GAMMAS:
        if not _is_number(found["gamma"]) or not found["gamma"] > 0:
            raise QuestionError(f"gamma must be a finite number above 0, or one of {', '.join(GAMMAS)}.")
        found["gamma"] = float(found["gamma"])
    return found


def _nodes(value: Any, name: str) -> FloatArray:
    if isinstance(value, list) and len(value) == 3 and all(map(_is_number, value)):
        first, last, count = value
        if first < last and isinstance(count, int) and LEAST_NODES <= count <= MOST_NODES:
            # Whole numbers may be longer than NumPy's.
            return np.linspace(float(first), float(last), count)
    raise QuestionError(
        f"{name} must be [from, to, count]: two finite numbers in ascending order, and a whole number from "
        f"{LEAST_NODES} to {MOST_NODES}."
    )
