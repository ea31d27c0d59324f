"""How steps before detectors are kept: the encoder of tables, the maps, and scikit-learn's.

scikit-learn's steps are kept by their public attributes; what they predict by besides follows from these, but for what
`where` takes and `give` sets. A class with plain attributes takes one entry here.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from slabsvm.files.models.conditions import GROUPED
from slabsvm.files.models.estimators import Entry, Estimator, Labels, Scalar, Values
from slabsvm.files.models.kinds import Kind, OneOf, is_array, kind_of, made
from slabsvm.runtime.fields import FLOATS, INTEGERS, LATER, Array, Choice, FittedEstimator, Many, Number, Places
from slabsvm.tables.columns import Categories, Numbers
from slabsvm.tables.plan import LeftOut
from slabsvm.tables.times import Times


def _array(shape: str, dtype: tuple[str, ...] = FLOATS, *, holds: str = "finite") -> Any:
    return Annotated[Any, Array(shape, dtype=dtype, holds=holds)]


def _array_or(array: Any, other: Kind) -> Any:
    """Return the annotation of a number for each feature, or of what stands in its place."""
    return Annotated[Any, OneOf(kind_of(array), other, lambda one: is_array(one) and not _of_objects(one))]


def _of_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "fi"


# A feature of which all values are missing has no mean.
PER_FEATURE = _array("d", holds="any") | None
COUNTED = _array_or(_array("d", ("f8", *INTEGERS)), Scalar())
LABELS = Annotated[Any, Labels("classes")]
PAIRS = Annotated[Any, Array("pairs")]
DTYPE = Annotated[str, Choice(("float64", "float32", "int64", "int32", "object"))]
_WORD = kind_of(Annotated[str, Choice(("drop", "passthrough"))])
# A step beside others: "drop", "passthrough", or an estimator.
STEP = Annotated[Any, OneOf(_WORD, Estimator(), lambda step: isinstance(step, str))]
BESIDE = Annotated[Any, made(dict, dict.__getitem__, name=str, step=STEP, places=list[int], width=int)]
MAP = {"sample_interval": Annotated[float, Number(above=0.0)], "error": float}
ASCENDING = Annotated[list[Annotated[Any, Array("values")]], Many(size="d")]


def _dtypes(model: Any) -> list[str]:
    """Return the types of numbers that an imputer was fitted to and fills in, which no public attribute says."""
    found = vars(model)
    return [found["_fit_dtype"].name, found.get("_fill_dtype", found["_fit_dtype"]).name]


def _give_imputer(model: Any, parts: Values) -> None:
    fitted, filled = parts.pop("dtypes")
    vars(model).update(_fit_dtype=np.dtype(fitted), _fill_dtype=np.dtype(filled))


def _give_encoder(model: Any, parts: Values) -> None:
    dropped = parts.pop("drop_idx")
    if parts.pop("grouped") is not None:
        raise ValueError(f"it {GROUPED}")
    sizes = [len(categories) for categories in parts["categories"]]
    if dropped is not None:
        if any(place is not None and place >= size for place, size in zip(dropped, sizes, strict=True)):
            raise ValueError("a category that is dropped is not there")
        sizes = [size - (place is not None) for place, size in zip(dropped, sizes, strict=True)]
        dropped = np.array(dropped, dtype=object)
    private = {"_infrequent_enabled": False, "_drop_idx_after_grouping": dropped, "_n_features_outs": sizes}
    vars(model).update(private, drop_idx_=dropped)


def _pair_of(model: Any) -> Any:
    """Return what a classifier's probabilities are made of, where it has any: the public names are on their way out."""
    pair = [vars(model)["_probA"], vars(model)["_probB"]]
    return pair if len(pair[0]) else None


def _give_vectors(model: Any, parts: Values) -> None:
    k = len(parts["classes"])
    if k < 2 or len(parts["dual_coef"]) != k - 1 or len(parts["intercept"]) != k * (k - 1) // 2:
        raise ValueError("its coefficients are not those of pairs of classes")
    n_support, pair = parts["n_support"], parts.pop("probabilities")
    if (n_support < 0).any() or n_support.sum() != len(parts["support_vectors"]) or len(parts["shape_fit"]) != 2:
        raise ValueError("the counts of support vectors do not add up to these")
    if pair is not None and len(pair) != 2:
        raise ValueError("it must have two numbers of each pair of classes for probabilities")
    first, second = pair or (np.empty(0), np.empty(0))
    # Of two classes the public ones have the other sign.
    sign = -1.0 if k == 2 else 1.0
    private = {"_dual_coef_": sign * parts["dual_coef"], "_intercept_": sign * parts["intercept"]}
    private |= {"_probA": first, "_probB": second, "_effective_probability": pair is not None}
    vars(model).update(private, _num_iter=parts["n_iter"], _sparse=False, fit_status_=0)


def _beside(model: Any) -> list[dict[str, Any]]:
    """Return the fitted steps of a ColumnTransformer, the places of the columns that they take, and their widths."""
    found, places = [], vars(model)["_transformer_to_input_indices"]
    for name, step, _ in model.transformers_:
        there = model.output_indices_.get(name, slice(0, 0))
        width = int(there.stop - there.start)
        found.append({"name": name, "step": step, "places": [int(place) for place in places[name]], "width": width})
    return found


def _give_steps(model: Any, parts: Values) -> None:
    steps = parts.pop("steps")
    if len({one["name"] for one in steps}) != len(steps):
        raise ValueError("two of its steps have one name")
    if any(place >= model.n_features_in_ for one in steps for place in one["places"]):
        raise ValueError("a step takes a column that is not there")
    names = getattr(model, "feature_names_in_", None)
    columns = [one["places"] if names is None else [str(names[place]) for place in one["places"]] for one in steps]
    ends = np.cumsum([0, *(one["width"] for one in steps)]).tolist()
    own = {name for name, *_ in model.transformers}
    rest = [some for one, some in zip(steps, columns, strict=True) if one["name"] not in own]
    outputs = {one["name"]: slice(*ends[at : at + 2]) for at, one in enumerate(steps)}
    private = {
        "_columns": [some for one, some in zip(steps, columns, strict=True) if one["name"] in own],
        "_transformer_to_input_indices": {one["name"]: one["places"] for one in steps},
        "_remainder": ("remainder", model.remainder, rest[0] if rest else []),
    }
    fitted = [(one["name"], one["step"], some) for one, some in zip(steps, columns, strict=True)]
    vars(model).update(private, transformers_=fitted, sparse_output_=parts.pop("sparse"))
    model.output_indices_ = outputs if rest else {**outputs, "remainder": slice(0, 0)}


STEPS = (
    Entry(
        "slabsvm.TableEncoder",
        {
            "n_rows": Annotated[int, Number(least=2)],
            "columns": Annotated[tuple[Numbers | Categories | Times, ...], Many(least=1)],
            "left_out": Annotated[tuple[LeftOut, ...] | None, LATER],
        },
        # Of earlier versions columns were not left out unless somebody asked for it.
        give=lambda _, parts: parts.update(left_out=parts["left_out"] or ()),
    ),
    Entry(
        "slabsvm.NormalScores",
        {"values": ASCENDING, "scores": ASCENDING, "scale": _array("d", ("f8",))},
    ),
    Entry("slabsvm.features.HellingerMap", {}),
    Entry("slabsvm.features.IntersectionMap", MAP),
    Entry("slabsvm.features.Chi2Map", MAP),
    # A pipeline's cache is a folder of pickles.
    Entry("sklearn.pipeline.Pipeline", {}, left_out=("memory",)),
    Entry(
        "sklearn.compose.ColumnTransformer",
        {"steps": list[BESIDE], "sparse": bool},
        where={"steps": _beside, "sparse": "sparse_output_"},
        give=_give_steps,
    ),
    Entry("sklearn.model_selection.KFold", {}),
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
        "sklearn.preprocessing.QuantileTransformer",
        {
            "n_quantiles": Annotated[int, Number(size="quantiles")],
            "references": _array("quantiles", ("f8",)),
            "quantiles": _array("quantiles d", holds="any"),
        },
    ),
    Entry(
        "sklearn.preprocessing.OneHotEncoder",
        {
            # None where each category has a column of its own: others are refused.
            "grouped": str | None,
            "categories": Annotated[list[Annotated[Any, Labels("categories")]], Many(size="d")],
            "drop_idx": Annotated[list[int | None] | None, Many(size="d")],
        },
        where={
            "grouped": lambda _: None,
            "drop_idx": lambda model: None if model.drop_idx_ is None else model.drop_idx_.tolist(),
        },
        give=_give_encoder,
    ),
    Entry(
        "sklearn.impute.SimpleImputer",
        {
            "statistics": _array_or(_array("d", holds="any"), Labels("d")),
            "indicator": Annotated[Any, FittedEstimator(("sklearn.impute.MissingIndicator",))] | None,
            "dtypes": Annotated[list[DTYPE], Many(size="dtypes", least=2)],
        },
        where={"dtypes": _dtypes},
        give=_give_imputer,
    ),
    Entry(
        "sklearn.impute.MissingIndicator",
        {"features": Annotated[Any, Places("missing", below="d")], "of_mask": bool},
        where={"of_mask": "_precomputed"},
        give=lambda model, _: vars(model).update(_n_features=model.n_features_in_),
    ),
    Entry(
        "sklearn.decomposition.PCA",
        {
            "n_components": Annotated[int, Number(size="components")],
            "components": _array("components d"),
            "mean": _array("d"),
            "explained_variance": _array("components"),
            "explained_variance_ratio": _array("components"),
            "singular_values": _array("components"),
            "noise_variance": Annotated[Any, Scalar()],
            "n_samples": int,
        },
    ),
    Entry(
        "sklearn.linear_model.LogisticRegression",
        {
            "classes": LABELS,
            "coef": _array("rows d"),
            "intercept": _array("rows"),
            "n_iter": _array("fits", INTEGERS),
        },
    ),
    Entry(
        "sklearn.svm.SVC",
        {
            "classes": LABELS,
            "class_weight": _array("classes", ("f8",)),
            "support": _array("n_SV", ("i4",)),
            "support_vectors": _array("n_SV d", ("f8",)),
            "n_support": _array("classes", ("i4",)),
            "dual_coef": _array("others n_SV", ("f8",)),
            "intercept": PAIRS,
            "gamma": float,
            "probabilities": list[PAIRS] | None,
            "shape_fit": tuple[int, ...],
            "n_iter": _array("pairs", INTEGERS),
        },
        where={"n_support": "_n_support", "gamma": "_gamma", "probabilities": _pair_of},
        give=_give_vectors,
    ),
)
