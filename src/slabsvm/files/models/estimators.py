"""How estimators are kept: by a name of a closed list, their parameters, and what their fit found.

A file names a class, and this package says which class that is: no file can lead to any other. A class is kept by an
`Entry`, which states the parts of its fitted state in documented terms, each by an annotation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any, get_args

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from slabsvm.files.models.archive import At, exactly, shown
from slabsvm.files.models.conditions import broken
from slabsvm.files.models.kinds import KINDS_OF_NOTES, NOT_FINITE, Kind, Parts, Plain, kind_of
from slabsvm.runtime import fields
from slabsvm.runtime.objects import cached_property
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
LABELS: dict[str, tuple[Any, Any]] = {
    "object": (object, object),
    "str": (str, str),
    "bool": (bool, bool),
    **{f"{kind}{bits}": (f"{kind}{bits}", int) for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (f"float{bits}", (int, float)) for bits in (32, 64)},
}
FEATURE_NAMES = "feature_names_in"
# The parts that each fitted state begins with.
FEATURES: dict[str, Any] = {
    "n_features_in": Annotated[int | None, fields.Number(size="d")],
    FEATURE_NAMES: Annotated[list[str] | None, fields.Many(size="d")],
}
# What set_output has asked a transformer for.
OUTPUT = kind_of(Annotated[str | None, fields.Choice(("default", "pandas", "polars"))])

Values = dict[str, Any]


@dataclass
class Entry:
    """How a class is kept; annotations are read when an entry is made, and never when a file is."""

    name: str  # the class's public name: its module and its own, joined by a point
    fitted: Mapping[str, Any]  # the annotations of the parts of its fitted state, besides the features
    # Of parts that are not the attribute of their name with "_" behind it: their attribute, or a function of the model.
    where: Mapping[str, str | Callable[[Any], Any]] = field(default_factory=dict)
    # It takes an unfitted model and all parts by their names, sets what is no part, and removes what is no attribute.
    give: Callable[[Any, Values], object] | None = None
    left_out: tuple[str, ...] = ()  # parameters that are not kept, and are None in a file
    features: bool = True  # whether a fitted model knows its number of features

    def __post_init__(self) -> None:
        kinds = {name: kind_of(hint) for name, hint in {**FEATURES, **self.fitted}.items()}
        # The parts that files of earlier versions lack, and models that were read from them.
        later = [name for name, hint in self.fitted.items() if fields.LATER in get_args(hint)]
        self.state = Parts(dict, self._part, kinds, later)

    def _part(self, model: Any, name: str) -> Any:
        """Return a part of a fitted model; None for one that it lacks as it may."""
        if name in FEATURES:
            # A pipeline has the features of its first step, which knows them itself.
            found = vars(model).get(f"{name}_")
            return list(found) if name == FEATURE_NAMES and found is not None else found
        where = self.where.get(name, f"{name}_")
        if callable(where):
            return where(model)
        return vars(model).get(where) if name in self.state.later else getattr(model, where)

    def refit(self, model: Any, parts: Values) -> None:
        """Set what a fit sets; ValueError says that parts do not belong together."""
        if (names := parts.pop(FEATURE_NAMES)) is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        if (n_features := parts.pop("n_features_in")) is not None:
            model.n_features_in_ = n_features
        elif self.features:
            raise ValueError("it must have a number of features")
        if self.give is not None:
            self.give(model, parts)
        for name, value in parts.items():
            where = self.where.get(name)
            vars(model)[where if isinstance(where, str) else f"{name}_"] = value

    @cached_property
    def model(self) -> type[Any]:
        """The class."""
        module, _, name = self.name.rpartition(".")
        found: type[Any] = getattr(import_module(module), name)
        return found


class Scalar(Kind):
    """None, true or false, a text or a number; NumPy's numbers stay such."""

    def write(self, value: Any, at: At) -> Any:
        if isinstance(value, np.str_ | np.bool_):
            value = value.item()
        if isinstance(value, np.generic):
            name = value.dtype.name
            if name not in SCALARS:
                at.refuse(f"is a number of NumPy's type {name}, which is not kept")
            return {name: self.write(value.item(), at)}
        if value is not None and not isinstance(value, bool | str | int | float):
            at.refuse(f"is {shown(value)}, and must be None, a text or a number")
        return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value

    def read(self, node: Any, at: At) -> Any:
        if not isinstance(node, dict | list):
            return node
        name, inner = next(iter(node.items())) if isinstance(node, dict) and len(node) == 1 else ("", None)
        if name == "float" and isinstance(inner, str) and inner in NOT_FINITE:
            return NOT_FINITE[inner]
        value = self.read(inner, at) if name in SCALARS else None
        if not isinstance(value, int | float):
            at.refuse(f"is {shown(node)}, and must be None, a text or a number")
        try:
            return SCALARS[name](value)
        except (OverflowError, ValueError) as error:
            at.refuse(f"is no number of type {name}: {error}")


class Labels(Kind):
    """An array of words or numbers, of any type, such as names of classes; it is in the document."""

    def __init__(self, size: str) -> None:
        self.size = size

    def write(self, value: Any, at: At) -> Any:
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "OUbiuf":
            at.refuse(f"is {shown(value)}, and must be an array of words or numbers")
        at.bound(self.size, len(value))
        name = "str" if value.dtype.kind == "U" else value.dtype.name
        return {"dtype": name, "values": [Scalar().write(one, at) for one in value.tolist()]}

    def read(self, node: Any, at: At) -> npt.NDArray[Any]:
        name, nodes = exactly(node, ("dtype", "values"), at)
        if not isinstance(nodes, list) or not isinstance(name, str) or name not in LABELS:
            at.refuse(f"must have values and a dtype of {', '.join(LABELS)}")
        at.bound(self.size, len(nodes))
        values = [Scalar().read(one, at) for one in nodes]
        dtype, types = LABELS[name]
        if not all(isinstance(value, types) for value in values):
            at.refuse(f"holds what is no label of type {name}")
        try:
            return np.array(values, dtype=dtype) if values else np.empty(0, dtype=dtype)
        except OverflowError as error:
            at.refuse(f"holds what is no label of type {name}: {error}")


class Parameter(Kind):
    """A parameter: a plain value, an estimator, or a list, tuple, mapping or array of labels of these."""

    def write(self, value: Any, at: At) -> Any:
        if isinstance(value, list | tuple):
            name = "list" if isinstance(value, list) else "tuple"
            return {name: [self.write(one, at.inside(number)) for number, one in enumerate(value)]}
        if isinstance(value, Mapping):
            items = enumerate(value.items())
            return {"mapping": [[Scalar().write(key, at), self.write(one, at.inside(n))] for n, (key, one) in items]}
        if isinstance(value, np.ndarray):
            return {"labels": Labels("labels").write(value, at.apart("labels"))}
        value = value.type if isinstance(value, np.dtype) else value
        if isinstance(value, type):
            names = [name for name, of in TYPES.items() if of is value]
            return {"type": names[0]} if names else at.refuse(f"is the type {value.__name__}. {NO_FUNCTION}")
        if value is None or isinstance(value, bool | str | int | float | np.generic):
            return Scalar().write(value.item() if isinstance(value, np.number) else value, at)
        if callable(value):
            at.refuse(
                f"is the function {getattr(value, '__name__', type(value).__name__)}. {NO_FUNCTION}: name a kernel, or "
                "fit on its matrix with kernel='precomputed'"
            )
        if isinstance(value, np.random.RandomState | np.random.Generator):
            at.refuse("is a generator of random numbers; give a seed in its place, by set_params, and save again")
        return Estimator().write(value, at)

    def read(self, node: Any, at: At) -> Any:
        if isinstance(node, dict) and len(node) != 1:
            return Estimator().read(node, at)
        name, inner = next(iter(node.items())) if isinstance(node, dict) else ("", node)
        if name == "labels":
            return Labels("labels").read(inner, at.apart("labels"))
        if name == "type":
            return TYPES[Plain(str, fields.Choice(tuple(TYPES))).read(inner, at)]
        if name in {"list", "tuple"}:
            found = [self.read(one, at.inside(number)) for number, one in enumerate(_entries(inner, at))]
            return found if name == "list" else tuple(found)
        if name == "mapping":
            pairs = [tuple(_entries(pair, at, 2)) for pair in _entries(inner, at)]
            return {Scalar().read(key, at): self.read(one, at.inside(n)) for n, (key, one) in enumerate(pairs)}
        return Scalar().read(node, at)


def _entries(node: Any, at: At, count: int | None = None) -> list[Any]:
    """Return a list, of a count of entries if one is given."""
    if not isinstance(node, list) or (count is not None and len(node) != count):
        at.refuse("must be a list" if count is None else f"must be a list of {count}")
    return node


class Estimator(Kind):
    """An estimator of one of the kept classes; where a note says so a fitted one, of some of them."""

    def __init__(self, note: fields.FittedEstimator | None = None) -> None:
        self.note = note

    def write(self, value: Any, at: At) -> Any:
        entry, inner = _entry_of(value, at), at.estimator()
        _refuse_strange(entry, value, inner)
        given = value.get_params(deep=False) if hasattr(value, "get_params") else vars(value)
        parameters = {
            name: Parameter().write(None if name in entry.left_out else one, inner.inside(f"parameters.{name}"))
            for name, one in given.items()
            if not (isinstance(one, str) and one == NOT_GIVEN)
        }
        output = OUTPUT.write(getattr(value, "_sklearn_output_config", {}).get("transform"), inner.inside("output"))
        is_fitted = any(name.endswith("_") and not name.startswith("__") for name in vars(value))
        state = entry.state.write(value, inner.inside("fitted")) if is_fitted else None
        return {"class": entry.name, "parameters": parameters, "output": output, "fitted": state}

    def read(self, node: Any, at: At) -> Any:
        name, parameters, output, state = exactly(node, ("class", "parameters", "output", "fitted"), at)
        entry = at.classes.get(name) if isinstance(name, str) else None
        if entry is None or (self.note and self.note.names and name not in self.note.names):
            at.refuse(f"is of the class {shown(name)}, which {'may not be there' if entry else 'is not known here'}")
        inner = at.estimator()
        if not isinstance(parameters, dict):
            inner.refuse("must have parameters")
        values = {name: Parameter().read(one, inner.inside(f"parameters.{name}")) for name, one in parameters.items()}
        if any(values.get(name) is not None for name in entry.left_out):
            inner.refuse(f"has one of the parameters {', '.join(entry.left_out)}, of which no file holds any")
        try:
            model = entry.model(**values)
        except (TypeError, ValueError) as error:
            inner.refuse(f"has parameters that {entry.name} does not take: {error}")
        if (kind := OUTPUT.read(output, inner.inside("output"))) is not None:
            if not hasattr(model, "set_output"):
                at.refuse("has an output, and transforms nothing")
            model.set_output(transform=kind)
        if state is not None:
            parts = entry.state.read(state, inner.inside("fitted"))
            try:
                entry.refit(model, parts)
            except ValueError as error:
                inner.refuse(f"cannot be: {error}")
        _refuse_strange(entry, model, inner)
        if self.note is not None:
            _refuse_unlike(model, self.note, at)
        return model


# A note asks for an estimator.
KINDS_OF_NOTES[fields.FittedEstimator] = Estimator


def _refuse_strange(entry: Entry, model: Any, at: At) -> None:
    """Refuse a model, to write or just read, that no fit accepts or that is wrong as a whole."""
    n_jobs = getattr(model, "n_jobs", None)
    if isinstance(n_jobs, int) and abs(n_jobs) > MOST_JOBS:
        at.refuse(f"asks for {n_jobs:,} jobs at once, and may ask for {MOST_JOBS:,}")
    try:
        if hasattr(model, "_parameter_constraints"):
            validate_parameters(model)
    except (TypeError, ValueError) as error:
        at.refuse(f"has parameters that {entry.name} does not take: {error}")
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


def _entry_of(model: Any, at: At) -> Entry:
    """Return how the class of a model is kept, or refuse it."""
    entry: Entry
    for name, entry in at.classes.items():
        if name.rpartition(".")[2] == type(model).__name__ and entry.model is type(model):
            return entry
    remedy = "put one of those that docs/reference/model-files.md lists in its place"
    if hasattr(model, "best_estimator_") or hasattr(model, "param_grid"):
        remedy = "save its best_estimator_"
    elif type(model).__module__ == "slabsvm.detectors.pyod":
        # Importing the class would import PyOD.
        remedy = "save its estimator_, of which a PyODDetector's scores are minus the decisions"
    at.refuse(f"is of the class {type(model).__module__}.{type(model).__qualname__}, which is not kept: {remedy}")
