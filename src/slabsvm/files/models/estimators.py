"""How estimators are kept: by a name of a closed list, their parameters, and what their fit found.

A file names a class, and this package says which class that is: no file can lead to any other. A class is kept by an
`Entry`, which states the parts of its fitted state in documented terms, each of a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from slabsvm.files.models.archive import At, exactly, shown
from slabsvm.files.models.kinds import Kind, Labels, Later, Maybe, Names, Scalar, Text, Whole
from slabsvm.runtime.objects import cached_property

# An estimator is inside of no more others.
DEEPEST = 16
TOO_DEEP = f"is inside of more than {DEEPEST - 1} other estimators"
# A file may not ask for more threads or processes.
MOST_JOBS = 1024
# scikit-learn's word for a parameter that was not given, because it is to go.
NOT_GIVEN = "deprecated"
# Types that are parameters, such as OneHotEncoder's dtype.
TYPES: dict[str, Any] = {
    name: getattr(np, name) for name in ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool_")
}
TYPES["object"] = object
NO_FUNCTION = "A file can hold no code, so that a function is not kept"

Values = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """How a class is kept."""

    name: str  # the class's public name: its module and its own, joined by a point
    fitted: Mapping[str, Kind]  # the parts of its fitted state, besides the number and names of features
    # Of parts that are not the attribute of their name with "_" behind it: their attribute, or a function of the model.
    where: Mapping[str, str | Callable[[Any], Any]] = field(default_factory=dict)
    # It takes an unfitted model and all parts by their names, sets what is no part, and removes what is no attribute.
    give: Callable[[Any, Values], object] | None = None
    doubt: Callable[[Any], str] | None = None  # what is wrong with a model that was read as a whole, or nothing
    left_out: tuple[str, ...] = ()  # parameters that are not kept, and are None in a file
    features: bool = True  # whether a fitted model knows its number of features

    def part(self, model: Any, name: str) -> Any:
        """Return a part of a fitted model; None for one that files of earlier versions lack and the model does."""
        where = self.where.get(name, f"{name}_")
        if callable(where):
            return where(model)
        return getattr(model, where, None) if isinstance(self.fitted[name], Later) else getattr(model, where)

    def set_parts(self, model: Any, parts: Values) -> None:
        """Set what a fit sets."""
        if self.give is not None:
            self.give(model, parts)
        for name, value in parts.items():
            where = self.where.get(name, f"{name}_")
            assert isinstance(where, str), f"{name} is no attribute: give is to remove it"
            vars(model)[where] = value

    @cached_property
    def model(self) -> type[Any]:
        """The class."""
        module, _, name = self.name.rpartition(".")
        found: type[Any] = getattr(import_module(module), name)
        return found


class Parameter(Kind):
    """A parameter: a plain value, an estimator, or a list, tuple, mapping or array of labels of these."""

    def write(self, value: Any, at: At) -> Any:
        """Return its JSON."""
        if isinstance(value, list | tuple):
            name = "list" if isinstance(value, list) else "tuple"
            return {name: [self.write(one, at.inside(number)) for number, one in enumerate(value)]}
        if isinstance(value, Mapping):
            items = enumerate(value.items())
            return {"mapping": [[Scalar().write(key, at), self.write(one, at.inside(n))] for n, (key, one) in items]}
        if isinstance(value, np.ndarray):
            return {"labels": Labels("labels").write(value, at.apart("labels"))}
        if isinstance(value, np.dtype):
            value = value.type
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
        """Return the value."""
        if isinstance(node, dict) and len(node) != 1:
            return Estimator().read(node, at)
        name, inner = next(iter(node.items())) if isinstance(node, dict) else ("", node)
        if name == "labels":
            return Labels("labels").read(inner, at.apart("labels"))
        if name == "type":
            return TYPES[Text(*TYPES).read(inner, at)]
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
    """An estimator of one of the kept classes that are named, or of any; where it must be fitted, to so many features.

    `features` is the name of the size that is their number, and `answers` a method that the estimator must have.
    """

    def __init__(self, *names: str, fitted: bool = False, features: str = "d", answers: str = "") -> None:
        self.names, self.fitted, self.features, self.answers = names, fitted, features, answers

    def write(self, value: Any, at: At) -> Any:
        """Return its class, parameters and fitted state."""
        entry = _entry_of(value, at)
        inner = at.estimator()
        self._refuse_strange(entry, value, inner)
        given = value.get_params(deep=False) if hasattr(value, "get_params") else vars(value)
        parameters = {
            name: Parameter().write(None if name in entry.left_out else one, inner.inside(f"parameters.{name}"))
            for name, one in given.items()
            if not (isinstance(one, str) and one == NOT_GIVEN)
        }
        output = _OUTPUT.write(getattr(value, "_sklearn_output_config", {}).get("transform"), inner.inside("output"))
        state = self._state(entry, value, inner)
        return {"class": entry.name, "parameters": parameters, "output": output, "fitted": state}

    def _state(self, entry: Entry, value: Any, at: At) -> Any:
        own = vars(value)
        if not any(name.endswith("_") and not name.startswith("__") for name in own):
            return None
        inner = at.inside("fitted")
        parts = {
            "n_features_in": _FEATURES.write(own.get("n_features_in_"), inner.inside("n_features_in")),
            "feature_names_in": _NAMES.write(own.get("feature_names_in_"), inner.inside("feature_names_in")),
        }
        for name, kind in entry.fitted.items():
            parts[name] = kind.write(entry.part(value, name), inner.inside(name))
        return parts

    def read(self, node: Any, at: At) -> Any:
        """Return the estimator."""
        name, parameters, output, state = exactly(node, ("class", "parameters", "output", "fitted"), at)
        entry = at.classes.get(name) if isinstance(name, str) else None
        if entry is None or (self.names and name not in self.names):
            at.refuse(f"is of the class {shown(name)}, which {'may not be there' if entry else 'is not known here'}")
        inner = at.estimator()
        if inner.depth > DEEPEST:
            at.refuse(TOO_DEEP)
        model = self._unfitted(entry, parameters, inner)
        if (kind := _OUTPUT.read(output, inner.inside("output"))) is not None:
            if not hasattr(model, "set_output"):
                at.refuse("has an output, and transforms nothing")
            model.set_output(transform=kind)
        if state is not None:
            self._refit(entry, model, state, inner)
        self._refuse_strange(entry, model, inner)
        if self.answers and not hasattr(model, self.answers):
            at.refuse(f"is of the class {name}, which has no {self.answers}")
        if self.fitted:
            self._refuse_unfit(model, at)
        return model

    def _refuse_unfit(self, model: Any, at: At) -> None:
        """Refuse a model that is not fitted, or to another number of features than it should be."""
        try:
            check_is_fitted(model)
        except (NotFittedError, TypeError) as error:
            at.refuse(f"must be a fitted model: {error}")
        features = getattr(model, "n_features_in_", None)
        expected = at.sizes.get(self.features, features)
        if features is not None and features != expected:
            at.refuse(f"takes {features:,} features, where {expected:,} are expected")

    def _unfitted(self, entry: Entry, parameters: Any, at: At) -> Any:
        """Return a model of these parameters, which it validates as before a fit."""
        if not isinstance(parameters, dict):
            at.refuse("must have parameters")
        values = {name: Parameter().read(one, at.inside(f"parameters.{name}")) for name, one in parameters.items()}
        if any(values.get(name) is not None for name in entry.left_out):
            at.refuse(f"has one of the parameters {', '.join(entry.left_out)}, of which no file holds any")
        try:
            return entry.model(**values)
        except (TypeError, ValueError) as error:
            at.refuse(f"has parameters that {entry.name} does not take: {error}")

    def _refuse_strange(self, entry: Entry, model: Any, at: At) -> None:
        """Refuse a model, to write or just read, that no fit accepts or that is wrong as a whole."""
        if at.depth > DEEPEST:
            at.refuse(TOO_DEEP)
        n_jobs = getattr(model, "n_jobs", None)
        if isinstance(n_jobs, int) and abs(n_jobs) > MOST_JOBS:
            at.refuse(f"asks for {n_jobs:,} jobs at once, and may ask for {MOST_JOBS:,}")
        try:
            if hasattr(model, "_parameter_constraints"):
                model._validate_params()
        except (TypeError, ValueError) as error:
            at.refuse(f"has parameters that {entry.name} does not take: {error}")
        if entry.doubt is not None and (text := entry.doubt(model)):
            at.refuse(text)

    def _refit(self, entry: Entry, model: Any, state: Any, at: At) -> None:
        """Set what a fit has found."""
        inner = at.inside("fitted")
        kinds: dict[str, Kind] = {"n_features_in": _FEATURES, "feature_names_in": _NAMES, **entry.fitted}
        if isinstance(state, dict):
            state = {name: None for name, kind in kinds.items() if isinstance(kind, Later)} | state
        nodes = exactly(state, tuple(kinds), inner)
        parts = {
            name: kind.read(one, inner.inside(name)) for (name, kind), one in zip(kinds.items(), nodes, strict=True)
        }
        if entry.features and parts["n_features_in"] is None:
            inner.refuse("must have a number of features")
        for name in ("n_features_in", "feature_names_in"):
            if (value := parts.pop(name)) is not None:
                setattr(model, f"{name}_", value)
        try:
            entry.set_parts(model, parts)
        except ValueError as error:
            at.refuse(f"cannot be: {error}")


_FEATURES = Maybe(Whole(names="d"))
_NAMES = Maybe(Names())
# What set_output has asked a transformer for.
_OUTPUT = Maybe(Text("default", "pandas", "polars"))


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
