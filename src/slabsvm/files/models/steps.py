"""How the estimators around a detector are kept: scalers, encoders, feature maps, and classifiers beside detectors.

scikit-learn's are kept by their public attributes; what it predicts by besides follows from these. A class with plain
attributes takes one entry here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.files.models.archive import At
from slabsvm.files.models.estimators import Entry, Estimator, Values
from slabsvm.files.models.kinds import (
    FLOATS,
    Array,
    Either,
    Flag,
    Kind,
    Labels,
    Later,
    Many,
    Maybe,
    Number,
    Places,
    Record,
    Scalar,
    Text,
    Whole,
)
from slabsvm.tables.columns import Categories, Numbers
from slabsvm.tables.plan import LeftOut
from slabsvm.tables.texts import WRITINGS
from slabsvm.tables.times import PARTS, Times

INTEGERS = ("i8", "i4")


@dataclass(frozen=True)
class ByFeature(Kind):
    """An array of a value for each feature, or what stands in its place."""

    array: Kind
    other: Kind  # of what is not such an array

    def write(self, value: Any, at: At) -> Any:
        """Return its JSON."""
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in "fi"
        return (self.array if is_array else self.other).write(value, at)

    def read(self, node: Any, at: At) -> Any:
        """Return the value."""
        return (self.array if isinstance(node, dict) and "npy" in node else self.other).read(node, at)


def _floats(*shape: str) -> Array:
    return Array(*shape, dtype=FLOATS)


# A feature of which all values are missing has no mean.
PER_FEATURE = Maybe(Array("d", dtype=FLOATS, holds="any"))
COUNTED = ByFeature(Array("d", dtype=("f8", *INTEGERS)), Scalar())
DTYPE = Text("float64", "float32", "int64", "int32", "object")


def _dtypes(model: Any) -> list[str]:
    return [model._fit_dtype.name, getattr(model, "_fill_dtype", model._fit_dtype).name]


def _give_imputer(model: Any, parts: Values) -> None:
    model._fit_dtype, model._fill_dtype = (np.dtype(name) for name in parts.pop("dtypes"))


def _give_encoder(model: Any, parts: Values) -> None:
    dropped = parts.pop("drop_idx")
    del parts["grouped"]
    sizes = [len(categories) for categories in parts["categories"]]
    if dropped is not None:
        if any(place is not None and place >= size for place, size in zip(dropped, sizes, strict=True)):
            raise ValueError("a category that is dropped is not there")
        sizes = [size - (place is not None) for place, size in zip(dropped, sizes, strict=True)]
        dropped = np.array(dropped, dtype=object)
    private = {"_infrequent_enabled": False, "_drop_idx_after_grouping": dropped, "_n_features_outs": sizes}
    vars(model).update(private, drop_idx_=dropped)


@dataclass(frozen=True)
class Nothing(Kind):
    """None: whatever else is not kept."""

    text: str  # what anything else is

    def write(self, value: Any, at: At) -> Any:
        """Return null."""
        return self.read(value, at)

    def read(self, node: Any, at: At) -> Any:
        """Return None."""
        return None if node is None else at.refuse(f"{self.text}, which is not kept")


VECTORS = {
    "classes": Labels("classes"),
    "class_weight": Array("classes"),
    "support": Array("n_SV", dtype=("i4",)),
    "support_vectors": Array("n_SV", "d"),
    "n_support": Array("classes", dtype=("i4",)),
    "dual_coef": Array("others", "n_SV"),
    "intercept": Array("pairs"),
    "gamma": Number(),
    "probabilities": Maybe(Many(Array("pairs"))),
    "shape_fit": Many(Whole()),
    "n_iter": Array("pairs", dtype=INTEGERS),
}


def _give_vectors(model: Any, parts: Values) -> None:
    k = len(parts["classes"])
    if k < 2 or len(parts["dual_coef"]) != k - 1 or len(parts["intercept"]) != k * (k - 1) // 2:
        raise ValueError("its coefficients are not those of pairs of classes")
    n_support, pair = parts["n_support"], parts.pop("probabilities")
    if (n_support < 0).any() or n_support.sum() != len(parts["support_vectors"]) or len(parts["shape_fit"]) != 2:
        raise ValueError("the counts of support vectors do not add up to these")
    if pair is not None and len(pair) != 2:
        raise ValueError("it must have two numbers of each pair of classes for probabilities")
    parts["shape_fit"] = tuple(parts["shape_fit"])
    first, second = pair or (np.empty(0), np.empty(0))
    # Of two classes the public ones have the other sign.
    sign = -1.0 if k == 2 else 1.0
    private = {"_dual_coef_": sign * parts["dual_coef"], "_intercept_": sign * parts["intercept"]}
    private |= {"_probA": first, "_probB": second, "_effective_probability": pair is not None}
    vars(model).update(private, _num_iter=parts["n_iter"], _sparse=False, fit_status_=0)


def _doubt_regression(model: Any) -> str:
    if "coef_" not in vars(model):
        return ""
    k = len(model.classes_)
    return "" if k > 1 and len(model.coef_) == (1 if k == 2 else k) else "has no weights for each class"


def _doubt_normal_scores(model: Any) -> str:
    if "scale_" not in vars(model):
        return ""
    for values, scores in zip(model.values_, model.scores_, strict=True):
        if len(values) != len(scores) or not len(values) or (np.diff(values) <= 0).any() or (np.diff(scores) < 0).any():
            return "has values and scores that do not ascend together"
    return "" if (model.scale_ > 0).all() else "has a scale that is not positive"


@dataclass(frozen=True)
class Step(Kind):
    """A step beside others: "drop", "passthrough", or an estimator."""

    def write(self, value: Any, at: At) -> Any:
        """Return its JSON."""
        return (WORD if isinstance(value, str) else Estimator(features="")).write(value, at)

    def read(self, node: Any, at: At) -> Any:
        """Return the step."""
        return (WORD if isinstance(node, str) else Estimator(features="")).read(node, at)


WORD = Text("drop", "passthrough")


def _beside(model: Any) -> list[dict[str, Any]]:
    """Return the fitted steps of a ColumnTransformer, the places of the columns that they take, and their widths."""
    found = []
    for name, step, _ in model.transformers_:
        there = model.output_indices_.get(name, slice(0, 0))
        places = [int(place) for place in model._transformer_to_input_indices[name]]
        found.append({"name": name, "step": step, "places": places, "width": int(there.stop - there.start)})
    return found


def _give_steps(model: Any, parts: Values) -> None:
    steps = parts.pop("steps")
    if len({one["name"] for one in steps}) != len(steps):
        raise ValueError("two of its steps have one name")
    if any(place >= model.n_features_in_ for one in steps for place in one["places"]):
        raise ValueError("a step takes a column that is not there")
    names = getattr(model, "feature_names_in_", None)
    columns = [one["places"] if names is None else [str(names[place]) for place in one["places"]] for one in steps]
    fitted = [(one["name"], one["step"], some) for one, some in zip(steps, columns, strict=True)]
    ends = np.cumsum([0, *(one["width"] for one in steps)]).tolist()
    own = {name for name, *_ in model.transformers}
    rest = [some for one, some in zip(steps, columns, strict=True) if one["name"] not in own]
    private = {
        "_columns": [some for one, some in zip(steps, columns, strict=True) if one["name"] in own],
        "_transformer_to_input_indices": {one["name"]: one["places"] for one in steps},
        "_remainder": ("remainder", model.remainder, rest[0] if rest else []),
        "output_indices_": {one["name"]: slice(*ends[at : at + 2]) for at, one in enumerate(steps)}
        | ({} if rest else {"remainder": slice(0, 0)}),
    }
    vars(model).update(private, transformers_=fitted, sparse_output_=parts.pop("sparse"))


BESIDE = {
    "name": Text(),
    "step": Step(),
    "places": Many(Whole()),
    "width": Whole(),
}

MAP = {"sample_interval": Number(above=0.0), "error": Number()}

NUMBERS = {
    "name": Text(),
    "n_missing": Whole(),
    "median": Number(),
    "constant": Flag(),
    "boolean": Flag(),
    "low": Later(Number()),
    "high": Later(Number()),
    "writing": Later(Text(*WRITINGS)),
}
TIMES = {
    "name": Text(),
    "n_missing": Whole(),
    "day_first": Flag(),
    "start": Number(),
    "end": Number(),
    "parts": Many(Text(*PARTS), least=1),
}
LEFT_OUT = {"name": Text(), "n_missing": Whole(), "taken_for": Text(), "examples": Text(), "why": Text()}
CATEGORIES = {
    "name": Text(),
    "n_missing": Whole(),
    "levels": Many(Text(), least=1),
    "usual": Whole(),
    "singles": Whole(),
}


def _categories(**parts: Any) -> Categories:
    levels = tuple(parts.pop("levels"))
    if list(levels) != sorted(set(levels)) or parts["usual"] >= len(levels):
        raise ValueError("its levels are not in order, or the usual one is none of them")
    return Categories(levels=levels, **parts)


def _times(**parts: Any) -> Times:
    return Times(parts=tuple(parts.pop("parts")), **parts)


def _give_table(_: Any, parts: Values) -> None:
    # Of earlier versions columns were not left out unless somebody asked for it.
    parts.update(columns=tuple(parts["columns"]), left_out=tuple(parts["left_out"] or ()))


def _doubt_table(model: Any) -> str:
    if not hasattr(model, "columns_"):
        return ""
    names = [column.name for column in model.columns_]
    known = set(getattr(model, "feature_names_in_", ()))
    return "" if len(set(names)) == len(names) and set(names) <= known else "has columns that its table has not"


STEPS = (
    Entry(
        "slabsvm.TableEncoder",
        {
            "n_rows": Whole(2),
            "columns": Many(
                Either(
                    {
                        "numbers": Record(Numbers, NUMBERS),
                        "categories": Record(_categories, CATEGORIES),
                        "times": Record(_times, TIMES),
                    },
                    which=lambda column: type(column).__name__.lower(),
                ),
                least=1,
            ),
            "left_out": Later(Many(Record(LeftOut, LEFT_OUT))),
        },
        give=_give_table,
        doubt=_doubt_table,
    ),
    Entry(
        "sklearn.preprocessing.StandardScaler",
        {"mean": PER_FEATURE, "var": PER_FEATURE, "scale": PER_FEATURE, "n_samples_seen": COUNTED},
    ),
    Entry(
        "sklearn.preprocessing.MinMaxScaler",
        {
            **dict.fromkeys(("scale", "min", "data_min", "data_max", "data_range"), PER_FEATURE),
            "n_samples_seen": COUNTED,
        },
    ),
    Entry(
        "sklearn.preprocessing.MaxAbsScaler",
        {"max_abs": PER_FEATURE, "scale": PER_FEATURE, "n_samples_seen": COUNTED},
    ),
    Entry("sklearn.preprocessing.RobustScaler", {"center": PER_FEATURE, "scale": PER_FEATURE}),
    Entry("sklearn.preprocessing.Normalizer", {}),
    Entry("sklearn.preprocessing.FunctionTransformer", {}),
    Entry(
        "sklearn.compose.ColumnTransformer",
        {"steps": Many(Record(dict, BESIDE, take=dict.__getitem__)), "sparse": Flag()},
        where={"steps": _beside, "sparse": "sparse_output_"},
        give=_give_steps,
    ),
    Entry(
        "sklearn.preprocessing.QuantileTransformer",
        {
            "n_quantiles": Whole(names="quantiles"),
            "references": Array("quantiles"),
            "quantiles": Array("quantiles", "d", dtype=FLOATS, holds="any"),
        },
    ),
    Entry(
        "sklearn.preprocessing.OneHotEncoder",
        {
            "grouped": Nothing("groups infrequent categories"),
            "categories": Many(Labels("categories"), names="d"),
            "drop_idx": Maybe(Many(Maybe(Whole()), names="d")),
        },
        where={
            # None where each category has a column of its own: others are refused.
            "grouped": lambda model: getattr(model, "infrequent_categories_", None),
            "drop_idx": lambda model: None if model.drop_idx_ is None else model.drop_idx_.tolist(),
        },
        give=_give_encoder,
    ),
    Entry(
        "sklearn.impute.SimpleImputer",
        {
            "statistics": ByFeature(Array("d", dtype=FLOATS, holds="any"), Labels("d")),
            "indicator": Maybe(Estimator("sklearn.impute.MissingIndicator", fitted=True)),
            "dtypes": Many(DTYPE, names="dtypes", least=2),
        },
        where={"dtypes": _dtypes},
        give=_give_imputer,
    ),
    Entry(
        "sklearn.impute.MissingIndicator",
        {"features": Places("missing", below="d"), "of_mask": Flag()},
        where={"of_mask": "_precomputed"},
        give=lambda model, _: vars(model).update(_n_features=model.n_features_in_),
    ),
    Entry(
        "sklearn.decomposition.PCA",
        {
            "n_components": Whole(names="components"),
            "components": _floats("components", "d"),
            "mean": _floats("d"),
            "explained_variance": _floats("components"),
            "explained_variance_ratio": _floats("components"),
            "singular_values": _floats("components"),
            "noise_variance": Scalar(),
            "n_samples": Whole(),
        },
    ),
    Entry(
        "slabsvm.NormalScores",
        {
            "values": Many(Array("values"), names="d"),
            "scores": Many(Array("values"), names="d"),
            "scale": Array("d"),
        },
        doubt=_doubt_normal_scores,
    ),
    Entry("slabsvm.features.HellingerMap", {}),
    Entry("slabsvm.features.IntersectionMap", MAP),
    Entry("slabsvm.features.Chi2Map", MAP),
    Entry(
        "sklearn.linear_model.LogisticRegression",
        {
            "classes": Labels("classes"),
            "coef": _floats("rows", "d"),
            "intercept": _floats("rows"),
            "n_iter": Array("fits", dtype=INTEGERS),
        },
        doubt=_doubt_regression,
    ),
    Entry(
        "sklearn.svm.SVC",
        VECTORS,
        where={
            "n_support": "_n_support",
            "gamma": "_gamma",
            "probabilities": lambda model: [model._probA, model._probB] if len(model._probA) else None,
        },
        give=_give_vectors,
        doubt=lambda model: "has kernel='precomputed', which is not kept" if model.kernel == "precomputed" else "",
    ),
)
