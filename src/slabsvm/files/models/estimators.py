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

from slabsvm.files.models import kinds
from slabsvm.files.models.archive import must
from slabsvm.files.models.kinds import NOT_FINITE, At, Kind, Parts, exactly, maker, many, maybe, only, shown
from slabsvm.runtime import objects as fields
from slabsvm.runtime.sklearn_private import validate_parameters

# A file may not ask for more threads or processes.
MOST_JOBS = 1024
# scikit-learn's word for a parameter that was not given, because it is to go.
NOT_GIVEN = "deprecated"
# Numbers of NumPy that are kept as such, since arithmetic with float32 arrays tells them from Python's.
SCALARS: dict[str, Any] = {name: getattr(np, name) for name in ("float64", "float32", "int64", "int32")}
# Types that are parameters, such as OneHotEncoder's dtype.
TYPES = {**SCALARS, **{name: getattr(np, name) for name in ("int16", "int8", "uint8", "bool_")}, "object": object}
NO_FUNCTION = "A file can hold no code, so that a function is not kept"
# The dtypes of labels, and the types of their values in the file.
NUMBERS = (int, float)
LABELS: dict[str, tuple[type, ...]] = {"object": (type(None), bool, str, int, float, *SCALARS.values())}
LABELS |= {"str": (str,), "bool": (bool,), "float32": NUMBERS, "float64": NUMBERS}
LABELS |= {f"{kind}{bits}": (int,) for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
# Each word of an array takes what the longest does: in all so many times what the words do, or so many bytes, at most.
TIMES_ITS_WORDS, WORDS_BYTES = 400, 2**26
# The parts that each fitted state begins with.
FEATURES: dict[str, Any] = {
    "n_features_in": Annotated[int | None, fields.Number(size="d")],
    "feature_names_in": maybe(many(str, size="d", made=partial(np.array, dtype=object))),
}
# What set_output has asked a transformer for.
OUTPUT = kinds.kind_of(Annotated[str | None, fields.Choice(("default", "pandas", "polars"))])


@dataclass
class Entry:
    """How a class is kept: by the parts of its fitted state, besides its features, each of a note or annotation."""

    fitted: Mapping[str, Any]
    # Of parts that are not the attribute of their name with "_" behind it: their attribute, or a function of the model.
    where: Mapping[str, str | Callable[[Any], Any]] = field(default_factory=dict)
    # It takes all attributes, parts among them, sets what is no part, and removes what is no attribute.
    give: Callable[[dict[str, Any]], object] | None = None
    left_out: Sequence[str] = ()  # parameters that are not kept, and are None in a file
    features: bool = True  # whether a fitted model knows its number of features

    def __post_init__(self) -> None:
        self.state = Parts(dict, {**FEATURES, **self.fitted}, self._part)

    def _part(self, model: Any, name: str) -> Any:
        where = self.where.get(name, f"{name}_")
        # A pipeline has no features of its own, but those of its first step.
        return where(model) if callable(where) else vars(model).get(where)

    def refit(self, model: Any, **parts: Any) -> None:
        """Set what a fit sets; ValueError says that parts do not belong together."""
        must(not self.features or parts["n_features_in"] is not None, "it must have a number of features")
        for name, value in parts.items():
            if value is not None or name not in FEATURES:
                where = self.where.get(name)
                vars(model)[where if isinstance(where, str) else f"{name}_"] = value
        if self.give is not None:
            self.give(vars(model))


# Every class that a file may hold, by its public name: its module and its own, joined by a point.
CLASSES: dict[str, Entry] = {}


def scalar(found: Any, at: At) -> Any:
    """Move None, true or false, a text or a number; NumPy's numbers stay such."""
    text = f"is {shown(found)}, and must be None, a text or a number"
    if not at.reads:
        found = found.item() if isinstance(found, np.str_ | np.bool_) else found
        if isinstance(found, np.generic):
            at.must((name := found.dtype.name) in SCALARS, f"is a number of NumPy's type {name}, which is not kept")
            return {name: scalar(found.item(), at)}
        at.must(found is None or isinstance(found, bool | str | int | float), text)
        return {"float": str(found)} if isinstance(found, float) and not math.isfinite(found) else found
    if not isinstance(found, dict | list):
        return found
    name, inner = only(found)
    if name == "float" and isinstance(inner, str) and inner in NOT_FINITE:
        return NOT_FINITE[inner]
    value = scalar(inner, at) if name in SCALARS else None
    at.must(type(value) in LABELS.get(name, ()), text)
    try:
        return SCALARS[name](value)
    except OverflowError as error:
        at.refuse(f"is no number of type {name}: {error}")


@maker(0)
def labels(size: str, found: Any, at: At) -> Any:
    """Move an array of words or numbers, of any type, such as names of classes; it is in the document."""
    if at.reads:
        name, values = exactly(found, ("dtype", "values"), at)
    else:
        right = isinstance(found, np.ndarray) and found.ndim == 1 and found.dtype.kind in "OUbiuf"
        at.must(right, f"is {shown(found)}, and must be an array of words or numbers")
        name, values = "str" if found.dtype.kind == "U" else found.dtype.name, found.tolist()
    known = isinstance(values, list) and isinstance(name, str) and name in LABELS
    at.must(known, f"must have values and a dtype of {', '.join(LABELS)}")
    at.bound([size], [len(values)])
    values = [scalar(one, at) for one in values]
    if not at.reads:
        return {"dtype": name, "values": values}
    at.must(all(type(value) in LABELS[name] for value in values), f"holds what is no label of type {name}")
    sizes = [4 * max(len(word), 1) for word in values] if name == "str" else []
    room = max(WORDS_BYTES, TIMES_ITS_WORDS * sum(sizes))
    at.must(len(sizes) * max(sizes, default=0) <= room, "has a word that is too long for an array of words")
    try:
        return np.array(values, dtype=name)
    except OverflowError as error:
        at.refuse(f"holds what is no label of type {name}: {error}")


def parameter(found: Any, at: At) -> Any:
    """Move a parameter: a plain value, an estimator, or what holds such: each with a name in the file."""
    if at.reads:
        name, inner = only(found)
        if name in HOLDING:
            return HOLDING[name][1](inner, at)
        return estimator(None)(found, at) if isinstance(found, dict) and not name else scalar(found, at)
    if name := next((name for name, (of, _) in HOLDING.items() if isinstance(found, of)), ""):
        return {name: HOLDING[name][1](found, at)}
    if found is None or isinstance(found, bool | str | int | float | np.generic):
        return scalar(found.item() if isinstance(found, np.number) else found, at)
    remedy = f"{NO_FUNCTION}: name a kernel, or fit on its matrix with kernel='precomputed'"
    at.must(not callable(found), f"is the function {getattr(found, '__name__', type(found).__name__)}. {remedy}")
    seeded = not isinstance(found, np.random.RandomState | np.random.Generator)
    at.must(seeded, "is a generator of random numbers; give a seed in its place, by set_params, and save again")
    return estimator(None)(found, at)


def _mapping(found: Any, at: At) -> Any:
    if at.reads:
        known = isinstance(found, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in found)
        at.must(known, "must be a list of pairs")
    pairs = enumerate(found if at.reads else found.items())
    moved = [[scalar(key, at), parameter(one, at.inside(number))] for number, (key, one) in pairs]
    return dict(moved) if at.reads else moved


def _type(found: Any, at: At) -> Any:
    if at.reads:
        return TYPES[kinds.plain(str, fields.Choice(tuple(TYPES)))(found, at)]
    found = found.type if isinstance(found, np.dtype) else found
    name = next((name for name, of in TYPES.items() if of is found), "")
    return name or at.refuse(f"is the type {found.__name__}. {NO_FUNCTION}")


# Parameters that hold others, labels or a type, by their names in a file.
HOLDING: dict[str, tuple[Any, Kind]] = {
    "list": (list, many(parameter)),
    "tuple": (tuple, many(parameter, made=tuple)),
    "mapping": (Mapping, _mapping),
    "labels": (np.ndarray, labels("")),
    "type": ((type, np.dtype), _type),
}


@maker(0)
def estimator(note: fields.FittedEstimator | None, found: Any, at: At) -> Any:
    """Move an estimator of one of the kept classes; where a note says so a fitted one, of some of them."""
    if at.reads:
        name, given, output, state = exactly(found, ("class", "parameters", "output", "fitted"), at)
        known = isinstance(name, str) and name in CLASSES
        if not known or (note and note.names and name not in note.names):
            at.refuse(f"is of the class {shown(name)}, which {'may not be there' if known else 'is not known here'}")
        at.must(isinstance(given, dict), "must have parameters")
    else:
        name = _name_of(found, at)
        state = found if any(one.endswith("_") and not one.startswith("__") for one in vars(found)) else None
        given = found.get_params(deep=False) if hasattr(found, "get_params") else vars(found)
        output = getattr(found, "_sklearn_output_config", {}).get("transform")
        _refuse_strange(name, found, at)
    entry, inner = CLASSES[name], at.estimator()
    parameters = {
        one: (_left_out if one in entry.left_out else parameter)(value, inner.inside(f"parameters.{one}"))
        for one, value in given.items()
        if not (isinstance(value, str) and value == NOT_GIVEN)
    }
    output = OUTPUT(output, inner.inside("output"))
    if not at.reads:
        state = None if state is None else entry.state(state, inner.inside("fitted"))
        return {"class": name, "parameters": parameters, "output": output, "fitted": state}
    try:
        model = class_of(name)(**parameters)
    except (TypeError, ValueError) as error:
        at.refuse(f"has parameters that {name} does not take: {error}")
    if output is not None:
        at.must(hasattr(model, "set_output"), "has an output, and transforms nothing")
        model.set_output(transform=output)
    if state is not None:
        entry.state(state, inner.inside("fitted"), partial(entry.refit, model))
    _refuse_strange(name, model, at)
    if note is not None:
        _refuse_unlike(model, note, at)
    return model


def _left_out(found: Any, at: At) -> None:
    at.must(not at.reads or found is None, "is a parameter that no file holds")


# A note asks for an estimator.
kinds.KINDS_OF_NOTES[fields.FittedEstimator] = estimator


def _refuse_strange(name: str, model: Any, at: At) -> None:
    """Refuse a model, to write or just read, that no fit accepts or that is wrong as a whole."""
    n_jobs = n_jobs if isinstance(n_jobs := getattr(model, "n_jobs", None), int) else 1
    at.must(abs(n_jobs) <= MOST_JOBS, f"asks for {n_jobs:,} jobs at once, and may ask for {MOST_JOBS:,}")
    try:
        if hasattr(model, "_parameter_constraints"):
            validate_parameters(model)
    except (TypeError, ValueError) as error:
        at.refuse(f"has parameters that {name} does not take: {error}")
    text = kinds.broken(model)
    at.must(not text, text)


def _refuse_unlike(model: Any, note: fields.FittedEstimator, at: At) -> None:
    """Refuse a model that is not fitted, lacks the method, or is fitted to another number of features than asked."""
    answers = not note.answers or hasattr(model, note.answers)
    at.must(answers, f"is of the class {type(model).__name__}, which has no {note.answers}")
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError) as error:
        at.refuse(f"must be a fitted model: {error}")
    if (features := getattr(model, "n_features_in_", None)) is not None:
        at.inside("n_features_in").bound([note.features], [features])


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
    at.refuse(
        f"is of the class {type(model).__module__}.{type(model).__qualname__}, which is not kept: put one of those "
        "that docs/reference/model-files.md lists in its place, of a search its best_estimator_"
    )
