"""How estimators are kept: by a name of a closed list, their parameters, and what their fit found.

A file names a class, and this package says which class that is: no file can lead to any other. A class is kept by an
`Entry`, which states the parts of its fitted state in documented terms, each by a kind or an annotation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from slabsvm.files.models.kinds import (
    KINDS_OF_NOTES,
    NOT_FINITE,
    At,
    Parts,
    broken,
    exactly,
    kind_of,
    maker,
    many,
    maybe,
    plain,
    shown,
)
from slabsvm.runtime import fields
from slabsvm.runtime.sklearn_private import validate_parameters

# A file may not ask for more threads or processes.
MOST_JOBS = 1024
# scikit-learn's word for a parameter that was not given, because it is to go.
NOT_GIVEN = "deprecated"
# Numbers of NumPy that are kept as such, since arithmetic with float32 arrays tells them from Python's.
SCALARS: dict[str, Any] = {"float64": np.float64, "float32": np.float32, "int64": np.int64, "int32": np.int32}
# Types that are parameters, such as OneHotEncoder's dtype.
TYPES: dict[str, Any] = {**SCALARS, "int16": np.int16, "int8": np.int8, "uint8": np.uint8, "bool_": np.bool_}
TYPES["object"] = object
NO_FUNCTION = "A file can hold no code, so that a function is not kept"
# The dtypes of labels, and the types of their values in the file.
LABELS: dict[str, Any] = {"object": object, "str": str, "bool": bool, "float32": (int, float), "float64": (int, float)}
LABELS |= {f"{kind}{bits}": int for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
# The parts that each fitted state begins with.
FEATURES: dict[str, Any] = {
    "n_features_in": Annotated[int | None, fields.Number(size="d")],
    "feature_names_in": maybe(many(str, size="d", made=partial(np.array, dtype=object))),
}
# What set_output has asked a transformer for.
OUTPUT = kind_of(Annotated[str | None, fields.Choice(("default", "pandas", "polars"))])


def demand(holds: object, text: str) -> None:
    """Raise ValueError, which says that parts do not belong together, unless something holds."""
    if not holds:
        raise ValueError(text)


@dataclass
class Entry:
    """How a class is kept: by the parts of its fitted state, besides its features, each of a note or annotation."""

    fitted: Mapping[str, Any]
    # Of parts that are not the attribute of their name with "_" behind it: their attribute, or a function of the model.
    where: Mapping[str, str | Callable[[Any], Any]] = field(default_factory=dict)
    # It takes all attributes, parts among them, sets what is no part, and removes what is no attribute.
    give: Callable[[dict[str, Any]], object] = len
    later: Sequence[str] = ()  # the parts that files of earlier versions lack, and models that were read from them
    left_out: Sequence[str] = ()  # parameters that are not kept, and are None in a file
    features: bool = True  # whether a fitted model knows its number of features

    def __post_init__(self) -> None:
        self.state = Parts(dict, {**FEATURES, **self.fitted}, self._part, self.later)

    def _part(self, model: Any, name: str) -> Any:
        where = self.where.get(name, f"{name}_")
        # A pipeline has no features of its own, but those of its first step.
        return where(model) if callable(where) else vars(model).get(where)

    def refit(self, model: Any, parts: Mapping[str, Any]) -> None:
        """Set what a fit sets; ValueError says that parts do not belong together."""
        demand(not self.features or parts["n_features_in"] is not None, "it must have a number of features")
        for name, value in parts.items():
            if value is not None or name not in FEATURES:
                where = self.where.get(name)
                vars(model)[where if isinstance(where, str) else f"{name}_"] = value
        self.give(vars(model))


# Every class that a file may hold, by its public name: its module and its own, joined by a point.
CLASSES: dict[str, Entry] = {}


def scalar(found: Any, at: At) -> Any:
    """Move None, true or false, a text or a number; NumPy's numbers stay such."""
    text = f"is {shown(found)}, and must be None, a text or a number"
    if not at.reads:
        found = found.item() if isinstance(found, np.str_ | np.bool_) else found
        if isinstance(found, np.generic):
            name = found.dtype.name
            no_number = f"is a number of NumPy's type {name}, which is not kept"
            return {name: scalar(found.item(), at)} if name in SCALARS else at.refuse(no_number)
        if found is not None and not isinstance(found, bool | str | int | float):
            at.refuse(text)
        return {"float": str(found)} if isinstance(found, float) and not math.isfinite(found) else found
    if not isinstance(found, dict | list):
        return found
    name, inner = only(found)
    if name == "float" and isinstance(inner, str) and inner in NOT_FINITE:
        return NOT_FINITE[inner]
    value = scalar(inner, at) if name in SCALARS else None
    if not isinstance(value, int | float):
        at.refuse(text)
    try:
        return SCALARS[name](value)
    except (OverflowError, ValueError) as error:
        at.refuse(f"is no number of type {name}: {error}")


def only(node: Any) -> tuple[Any, Any]:
    """Return the one name of an object, and its value; of anything else no name, and the same."""
    return next(iter(node.items())) if isinstance(node, dict) and len(node) == 1 else ("", node)


@maker
def labels(size: str, found: Any, at: At) -> Any:
    """Move an array of words or numbers, of any type, such as names of classes; it is in the document."""
    if at.reads:
        name, values = exactly(found, ("dtype", "values"), at)
    elif isinstance(found, np.ndarray) and found.ndim == 1 and found.dtype.kind in "OUbiuf":
        name, values = "str" if found.dtype.kind == "U" else found.dtype.name, found.tolist()
    else:
        at.refuse(f"is {shown(found)}, and must be an array of words or numbers")
    if not isinstance(values, list) or not isinstance(name, str) or name not in LABELS:
        at.refuse(f"must have values and a dtype of {', '.join(LABELS)}")
    at.bound(size, len(values))
    values = [scalar(one, at) for one in values]
    if not at.reads:
        return {"dtype": name, "values": values}
    try:
        if all(isinstance(value, LABELS[name]) for value in values):
            return np.array(values, dtype=name)
    except OverflowError as error:
        name = f"{name}: {error}"
    at.refuse(f"holds what is no label of type {name}")


def parameter(found: Any, at: At) -> Any:
    """Move a parameter: a plain value, an estimator, or a list, tuple, mapping or array of labels of these."""
    return _parameter_of(found, at) if at.reads else _node_of(found, at)


def _node_of(value: Any, at: At) -> Any:
    if isinstance(value, list | tuple):
        name = "list" if isinstance(value, list) else "tuple"
        return {name: [parameter(one, at.inside(number)) for number, one in enumerate(value)]}
    if isinstance(value, Mapping):
        items = enumerate(value.items())
        return {"mapping": [[scalar(key, at), parameter(one, at.inside(n))] for n, (key, one) in items]}
    if isinstance(value, np.ndarray):
        return {"labels": labels("labels")(value, at.inside("labels").apart())}
    value = value.type if isinstance(value, np.dtype) else value
    if isinstance(value, type):
        names = [name for name, of in TYPES.items() if of is value]
        return {"type": names[0]} if names else at.refuse(f"is the type {value.__name__}. {NO_FUNCTION}")
    if value is None or isinstance(value, bool | str | int | float | np.generic):
        return scalar(value.item() if isinstance(value, np.number) else value, at)
    if callable(value):
        at.refuse(
            f"is the function {getattr(value, '__name__', type(value).__name__)}. {NO_FUNCTION}: name a kernel, or "
            "fit on its matrix with kernel='precomputed'"
        )
    if isinstance(value, np.random.RandomState | np.random.Generator):
        at.refuse("is a generator of random numbers; give a seed in its place, by set_params, and save again")
    return estimator(None)(value, at)


def _parameter_of(node: Any, at: At) -> Any:
    name, inner = only(node)
    if name == "labels":
        return labels("labels")(inner, at.inside("labels").apart())
    if name == "type":
        return TYPES[plain(str, fields.Choice(tuple(TYPES)))(inner, at)]
    if name in {"list", "tuple"}:
        found = [parameter(one, at.inside(number)) for number, one in enumerate(_entries(inner, at))]
        return found if name == "list" else tuple(found)
    if name == "mapping":
        pairs = [tuple(_entries(pair, at, 2)) for pair in _entries(inner, at)]
        return {scalar(key, at): parameter(one, at.inside(n)) for n, (key, one) in enumerate(pairs)}
    return estimator(None)(node, at) if isinstance(node, dict) and not name else scalar(node, at)


def _entries(node: Any, at: At, count: int | None = None) -> list[Any]:
    """Return a list, of a count of entries if one is given."""
    if not isinstance(node, list) or (count is not None and len(node) != count):
        at.refuse("must be a list" if count is None else f"must be a list of {count}")
    return node


@maker
def estimator(note: fields.FittedEstimator | None, found: Any, at: At) -> Any:
    """Move an estimator of one of the kept classes; where a note says so a fitted one, of some of them."""
    if at.reads:
        return _model_of(note, found, at)
    name, inner = _name_of(found, at), at.estimator()
    entry, fitted = CLASSES[name], any(one.endswith("_") and not one.startswith("__") for one in vars(found))
    _refuse_strange(name, found, inner)
    given = found.get_params(deep=False) if hasattr(found, "get_params") else vars(found)
    parameters = {
        one: parameter(None if one in entry.left_out else value, inner.inside(f"parameters.{one}"))
        for one, value in given.items()
        if not (isinstance(value, str) and value == NOT_GIVEN)
    }
    output = OUTPUT(getattr(found, "_sklearn_output_config", {}).get("transform"), inner.inside("output"))
    state = entry.state(found, inner.inside("fitted")) if fitted else None
    return {"class": name, "parameters": parameters, "output": output, "fitted": state}


def _model_of(note: fields.FittedEstimator | None, node: Any, at: At) -> Any:
    """Return the estimator of its JSON."""
    name, parameters, output, state = exactly(node, ("class", "parameters", "output", "fitted"), at)
    entry = CLASSES.get(name) if isinstance(name, str) else None
    if entry is None or (note and note.names and name not in note.names):
        at.refuse(f"is of the class {shown(name)}, which {'may not be there' if entry else 'is not known here'}")
    inner = at.estimator()
    if not isinstance(parameters, dict):
        inner.refuse("must have parameters")
    values = {one: parameter(value, inner.inside(f"parameters.{one}")) for one, value in parameters.items()}
    if any(values.get(one) is not None for one in entry.left_out):
        inner.refuse(f"has one of the parameters {', '.join(entry.left_out)}, of which no file holds any")
    try:
        model = class_of(name)(**values)
    except (TypeError, ValueError) as error:
        inner.refuse(f"has parameters that {name} does not take: {error}")
    if (kind := OUTPUT(output, inner.inside("output"))) is not None:
        if not hasattr(model, "set_output"):
            at.refuse("has an output, and transforms nothing")
        model.set_output(transform=kind)
    if state is not None:
        parts = entry.state(state, inner.inside("fitted"))
        try:
            entry.refit(model, parts)
        except ValueError as error:
            inner.refuse(f"cannot be: {error}")
    _refuse_strange(name, model, inner)
    if note is not None:
        _refuse_unlike(model, note, at)
    return model


# A note asks for an estimator.
KINDS_OF_NOTES[fields.FittedEstimator] = estimator


def _refuse_strange(name: str, model: Any, at: At) -> None:
    """Refuse a model, to write or just read, that no fit accepts or that is wrong as a whole."""
    n_jobs = getattr(model, "n_jobs", None)
    if isinstance(n_jobs, int) and abs(n_jobs) > MOST_JOBS:
        at.refuse(f"asks for {n_jobs:,} jobs at once, and may ask for {MOST_JOBS:,}")
    try:
        if hasattr(model, "_parameter_constraints"):
            validate_parameters(model)
    except (TypeError, ValueError) as error:
        at.refuse(f"has parameters that {name} does not take: {error}")
    if text := broken(model):
        at.refuse(text)


def _refuse_unlike(model: Any, note: fields.FittedEstimator, at: At) -> None:
    """Refuse a model that is not fitted, lacks the method, or is fitted to another number of features than asked."""
    if note.answers and not hasattr(model, note.answers):
        at.refuse(f"is of the class {type(model).__name__}, which has no {note.answers}")
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError) as error:
        at.refuse(f"must be a fitted model: {error}")
    features = getattr(model, "n_features_in_", None)
    expected = at.sizes.get(note.features, features)
    if features is not None and features != expected:
        at.refuse(f"takes {features:,} features, where {expected:,} are expected")


@cache
def class_of(name: str) -> Any:
    """Return the class of a public name, which is one of the list's."""
    module, _, own = name.rpartition(".")
    return getattr(import_module(module), own)


def _name_of(model: Any, at: At) -> str:
    """Return the public name of a model's class, or refuse it."""
    own = type(model).__name__
    if name := next((one for one in CLASSES if one.endswith(f".{own}") and class_of(one) is type(model)), ""):
        return name
    remedy = "put one of those that docs/reference/model-files.md lists in its place"
    if hasattr(model, "best_estimator_") or hasattr(model, "param_grid"):
        remedy = "save its best_estimator_"
    elif type(model).__module__ == "slabsvm.detectors.pyod":
        # Importing the class would import PyOD.
        remedy = "save its estimator_, of which a PyODDetector's scores are minus the decisions"
    at.refuse(f"is of the class {type(model).__module__}.{type(model).__qualname__}, which is not kept: {remedy}")
