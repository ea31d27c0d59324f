"""How what stands around detectors is kept: what calibrates, trims or classifies by them, steps before them, monitors.

scikit-learn's steps are kept by their public attributes; what they predict by besides follows from these, but for what
a table below names. A class with plain attributes takes one entry here.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import Ranking, Segment
from slabsvm.ensemble.windowed import Window, WindowedDetector
from slabsvm.files.models.archive import At
from slabsvm.files.models.estimators import Entry, Estimator, Labels, Scalar, Values
from slabsvm.files.models.kinds import Kind, Made, ascending, doubt, kind_of
from slabsvm.monitoring.betting import COUNT, MEMORIES, SEED, Bag, Betting
from slabsvm.monitoring.course import MOST_POINTS, RATES, Course, History, Tally, Test
from slabsvm.monitoring.scoring import HELD_OUT, LEFT_OUT
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.classwise import ClassRows, NormalisedMargin
from slabsvm.openset.joint import ByClassifier, folds_of
from slabsvm.runtime.fields import (
    FLOATS,
    FOR_TRAINING,
    INTEGERS,
    LATER,
    Array,
    Choice,
    FittedEstimator,
    Many,
    Number,
    Places,
)
from slabsvm.tables.columns import Categories, Numbers
from slabsvm.tables.plan import LeftOut
from slabsvm.tables.times import Times

FITTED = Annotated[Any, FittedEstimator(answers="predict")]
ANY = Annotated[float, Number(finite=False)]
MEMBERS = Many(size="members", least=1)


@doubt.register
def _(segment: Segment) -> str:
    in_order = ascending(segment.values) and (segment.weights >= 0).all()
    return "" if in_order else "its values must be in order, and its weights not negative"


CONFORMAL: dict[str, Any] = {
    "estimators": Annotated[list[Annotated[Any, FittedEstimator(features="", answers="predict")]] | None, MEMBERS],
    "calibration_scores": list[Annotated[Any, Array("scores", holds="numbers")]],
    "rankings": Annotated[list[Ranking], MEMBERS],
    "columns": Annotated[list[Annotated[Any, Places("columns", below="d")] | None], Many(size="members")],
    "held_out": Annotated[
        list[Annotated[Any, Array("held_out", dtype=("i8",))]] | None, Many(size="members"), FOR_TRAINING
    ],
    "n_calibration": int,
    "out_of_reach": float,
    "offset": float,
    "far_p_value": ANY,
    "repeats": Annotated[float | None, LATER],
}


def _give_conformal(model: ConformalDetector, parts: Values) -> None:
    if parts["estimators"] is None:
        parts["estimators"] = [model.estimator]
    model.estimators_ = parts.pop("estimators")


def _doubt_conformal(model: ConformalDetector) -> str:
    if "estimators_" not in vars(model):
        return ""
    if len(model.estimators_) != len(model.rankings_):
        return "has no calibration for each of its detectors"
    for detector, columns in zip(model.estimators_, model.columns_, strict=True):
        if not hasattr(detector, "predict"):
            return "has a detector that cannot predict"
        features = model.n_features_in_ if columns is None else len(columns)
        if getattr(detector, "n_features_in_", features) != features:
            return f"has a detector of {detector.n_features_in_:,} features, where {features:,} are expected"
    return ""


def _of_naming(naming: ByClassifier, part: str) -> Any:
    return [fold.classifier for fold in naming.folds] if part == "classifiers" else getattr(naming, part)


JOINT = Made(
    *(dict, _of_naming),
    classifiers=Annotated[list[FITTED], Many(size="folds", least=1)],
    confidence=Ranking,
    held_out=Annotated[list[Ranking], Many(size="folds")],
)
OF_CLASS = FittedEstimator(("slabsvm.ConformalDetector", "slabsvm.openset.classwise.NormalisedMargin"))
OPEN_SET: dict[str, Any] = {
    "classes": Annotated[Any, Labels("classes")],
    "unknown_label": Annotated[Any, Scalar()],
    "seed": Annotated[int, SEED],
    "models": Annotated[list[Annotated[Any, OF_CLASS]], Many(size="classes", least=1)],
    "joint": Annotated[ByClassifier | None, JOINT],
    "rows": Annotated[list[ClassRows] | None, FOR_TRAINING],
}


def _give_open_set(model: OpenSetClassifier, parts: Values) -> None:
    classes, models, joint = parts["classes"], parts["models"], parts.pop("joint")
    parts["rows"] = parts["rows"] or []
    if (joint is None) != (model.classifier is None):
        raise ValueError("it has a classifier without what this has learned, or the other way round")
    kept = NormalisedMargin if model.calibration == "margin" and joint is None else ConformalDetector
    if not all(type(one) is kept for one in models):
        raise ValueError(f"its models are not all {kept.__name__}, as calibration={model.calibration!r} makes them")
    if joint is None:
        model.naming_ = model.naming_type(models, classes)
        return
    model.classifiers_ = joint["classifiers"]
    if not all(hasattr(one, "classes_") for one in model.classifiers_):
        raise ValueError("its classifier has learned no classes")
    folds = folds_of(model.classifiers_, models, classes)
    model.naming_ = ByClassifier(models, classes, parts["rows"], folds, joint["confidence"], joint["held_out"])


def _doubt_pipeline(model: Any) -> str:
    """Return what is wrong with a pipeline's steps, which nothing validates before a fit."""
    steps = model.steps
    if not isinstance(steps, list) or not steps or not all(isinstance(s, tuple) and len(s) == 2 for s in steps):
        return "must have steps: pairs of a name and an estimator"
    for name, step in steps:
        last = step is steps[-1][1]
        if not isinstance(name, str) or not (step is None or step == "passthrough" or hasattr(step, "get_params")):
            return "must have steps: pairs of a name and an estimator"
        if not last and hasattr(step, "get_params") and not hasattr(step, "transform"):
            return f"has a step, {name}, that transforms nothing before others"
    return "" if len({name for name, _ in steps}) == len(steps) else "has two steps of one name"


@doubt.register
def _(window: Window) -> str:
    if (window.weights < 0).any() or (np.diff(window.numbers, prepend=-1) <= 0).any():
        return "its weights must not be negative, and its numbers in order, from 0 on"
    return ""


def _give_windowed(model: WindowedDetector, parts: Values) -> None:
    del model
    estimator, window, n_seen = parts["estimator"], parts["window"], parts["n_seen"]
    if window is not None and (len(window) != estimator.n_samples_fit_ or window.numbers.max(initial=0) >= n_seen):
        raise ValueError("its rows are not those that its estimator has learned, of all that it has seen")
    # The next update starts from nothing.
    parts.update(offset=estimator.offset_, start=None)


WRAPPERS = (
    Entry(
        "slabsvm.ConformalDetector",
        CONFORMAL,
        # A detector that came fitted is kept once, as the parameter that it is.
        where={"estimators": lambda model: None if model.estimators_[0] is model.estimator else model.estimators_},
        give=_give_conformal,
        doubt=_doubt_conformal,
    ),
    Entry(
        "slabsvm.TrimmedDetector",
        {
            "estimator": FITTED,
            "offset": float,
            "n_rounds": Annotated[int, Number(least=1)],
            "decisions": Annotated[Any | None, Array("rows", holds="numbers"), FOR_TRAINING],
            "trimmed": Annotated[Any | None, Places("trimmed", below="rows"), FOR_TRAINING],
        },
    ),
    Entry(
        "slabsvm.WindowedDetector",
        {
            "estimator": Annotated[
                Any, FittedEstimator(("slabsvm.OneClassSlabSVM", "slabsvm.OneClassSVM", "slabsvm.SVDD"))
            ],
            "n_seen": int,
            "window": Annotated[Window | None, FOR_TRAINING],
        },
        where={"window": "_window", "start": "_start"},
        give=_give_windowed,
    ),
    Entry(
        "slabsvm.OpenSetClassifier",
        OPEN_SET,
        where={"joint": lambda model: model.naming_ if isinstance(model.naming_, ByClassifier) else None},
        give=_give_open_set,
    ),
    Entry(
        "slabsvm.openset.classwise.NormalisedMargin",
        {"estimator": FITTED, "depth": Annotated[float, Number(above=0.0)], "far_margin": ANY},
        features=False,
    ),
    Entry("slabsvm.DistinctKFold", {}),
    Entry("sklearn.model_selection.KFold", {}),
    # A pipeline's cache is a folder of pickles.
    Entry("sklearn.pipeline.Pipeline", {}, doubt=_doubt_pipeline, left_out=("memory",)),
    Entry(
        "slabsvm.DriftMonitor",
        {
            "reference": Annotated[str, Choice((HELD_OUT, LEFT_OUT))],
            "n_reference": Annotated[int, COUNT],
            "unit": Annotated[float, Number(above=0.0)],
            "course": Course,
        },
        features=False,
    ),
)


@doubt.register
def _(bag: Bag) -> str:
    few = bag.most is None or len(bag.scores) <= bag.most
    in_order = len(bag.scores) and ascending(bag.scores)
    return "" if few and in_order else "its scores must be in order, one at least and no more than it holds"


@doubt.register
def _(betting: Betting) -> str:
    edges = betting.edges
    rising = len(edges) >= 2 and edges[0] == 0 and edges[-1] == 1 and (np.diff(edges) > 0).all()
    return "" if rising else "its edges must go from 0 to 1"


@doubt.register
def _(test: Test) -> str:
    wealth, betting = test.wealth, test.betting
    if (wealth.counts < 0).any():
        return "its counts must not be negative"
    alike = wealth.log_wealth.shape == (betting.n_bets,) and wealth.counts.shape == (
        len(MEMORIES),
        len(betting.edges) - 1,
    )
    return "" if alike else "its wealth is not that of its bets"


@doubt.register
def _(tally: Tally) -> str:
    too_many = tally.yes > tally.rows or tally.new_yes > tally.new_rows or tally.new_rows >= tally.width
    return "it counts more than there is" if too_many else ""


@doubt.register
def _(history: History) -> str:
    return "" if len(history.points) < MOST_POINTS else f"it must have fewer than {MOST_POINTS:,} points"


@doubt.register
def _(course: Course) -> str:
    tests = course.tests
    if len(tests) > 2 or len(course.tallies) != len(RATES) or len({test.betting.proper for test in tests}) > 1:
        return "it must have one or two tests of one promise, and three tallies"
    alike = course.history.points.shape[1] == 1 + len(tests) + 3 * len(RATES)
    return "" if alike else "its history is not that of its tests"


class ByFeature(Kind):
    """An array of a value for each feature, or what stands in its place."""

    def __init__(self, array: Any, other: Kind) -> None:
        # array is an annotation, and other the kind of what is not such an array.
        self.array, self.other = kind_of(array), other

    def write(self, value: Any, at: At) -> Any:
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in "fi"
        return (self.array if is_array else self.other).write(value, at)

    def read(self, node: Any, at: At) -> Any:
        return (self.array if isinstance(node, dict) and "npy" in node else self.other).read(node, at)


def _floats(shape: str, dtype: tuple[str, ...] = FLOATS, *, holds: str = "finite") -> Any:
    return Annotated[Any, Array(shape, dtype=dtype, holds=holds)]


# A feature of which all values are missing has no mean.
PER_FEATURE = _floats("d", holds="any") | None
COUNTED = Annotated[Any, ByFeature(_floats("d", ("f8", *INTEGERS)), Scalar())]
SCALAR = Annotated[Any, Scalar()]
DTYPE = Annotated[str, Choice(("float64", "float32", "int64", "int32", "object"))]


def _dtypes(model: Any) -> list[str]:
    """Return the types of numbers that an imputer was fitted to and fills in, which no public attribute says."""
    found = vars(model)
    return [found["_fit_dtype"].name, found.get("_fill_dtype", found["_fit_dtype"]).name]


def _give_imputer(model: Any, parts: Values) -> None:
    fitted, filled = parts.pop("dtypes")
    vars(model).update(_fit_dtype=np.dtype(fitted), _fill_dtype=np.dtype(filled))


GROUPED = "groups infrequent categories, which is not kept"


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


PAIRS = Annotated[Any, Array("pairs")]
VECTORS: dict[str, Any] = {
    "classes": Annotated[Any, Labels("classes")],
    "class_weight": _floats("classes", ("f8",)),
    "support": _floats("n_SV", ("i4",)),
    "support_vectors": _floats("n_SV d", ("f8",)),
    "n_support": _floats("classes", ("i4",)),
    "dual_coef": _floats("others n_SV", ("f8",)),
    "intercept": PAIRS,
    "gamma": float,
    "probabilities": list[PAIRS] | None,
    "shape_fit": tuple[int, ...],
    "n_iter": _floats("pairs", INTEGERS),
}


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


@doubt.register
def _(column: Categories) -> str:
    ordered = list(column.levels) == sorted(set(column.levels)) and column.usual < len(column.levels)
    return "" if ordered else "its levels are not in order, or the usual one is none of them"


class Step(Kind):
    """A step beside others: "drop", "passthrough", or an estimator."""

    word = kind_of(Annotated[str, Choice(("drop", "passthrough"))])

    def write(self, value: Any, at: At) -> Any:
        return (self.word if isinstance(value, str) else Estimator()).write(value, at)

    def read(self, node: Any, at: At) -> Any:
        return (self.word if isinstance(node, str) else Estimator()).read(node, at)


BESIDE = Made(dict, dict.__getitem__, name=str, step=Annotated[Any, Step()], places=list[int], width=int)


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


def _doubt_table(model: Any) -> str:
    if not hasattr(model, "columns_"):
        return ""
    names = [column.name for column in model.columns_]
    known = set(getattr(model, "feature_names_in_", ()))
    return "" if len(set(names)) == len(names) and set(names) <= known else "has columns that its table has not"


MAP = {"sample_interval": Annotated[float, Number(above=0.0)], "error": float}
SCALED = dict.fromkeys(("scale", "min", "data_min", "data_max", "data_range"), PER_FEATURE)
ASCENDING = Annotated[list[Annotated[Any, Array("values")]], Many(size="d")]
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
        doubt=_doubt_table,
    ),
    Entry(
        "sklearn.preprocessing.StandardScaler",
        {"mean": PER_FEATURE, "var": PER_FEATURE, "scale": PER_FEATURE, "n_samples_seen": COUNTED},
    ),
    Entry("sklearn.preprocessing.MinMaxScaler", {**SCALED, "n_samples_seen": COUNTED}),
    Entry(
        "sklearn.preprocessing.MaxAbsScaler",
        {"max_abs": PER_FEATURE, "scale": PER_FEATURE, "n_samples_seen": COUNTED},
    ),
    Entry("sklearn.preprocessing.RobustScaler", {"center": PER_FEATURE, "scale": PER_FEATURE}),
    Entry("sklearn.preprocessing.Normalizer", {}),
    Entry("sklearn.preprocessing.FunctionTransformer", {}),
    Entry(
        "sklearn.compose.ColumnTransformer",
        {"steps": list[Annotated[Any, BESIDE]], "sparse": bool},
        where={"steps": _beside, "sparse": "sparse_output_"},
        give=_give_steps,
    ),
    Entry(
        "sklearn.preprocessing.QuantileTransformer",
        {
            "n_quantiles": Annotated[int, Number(size="quantiles")],
            "references": _floats("quantiles", ("f8",)),
            "quantiles": _floats("quantiles d", holds="any"),
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
        doubt=lambda model: GROUPED if getattr(model, "infrequent_categories_", None) is not None else "",
    ),
    Entry(
        "sklearn.impute.SimpleImputer",
        {
            "statistics": Annotated[Any, ByFeature(_floats("d", holds="any"), Labels("d"))],
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
            "components": _floats("components d"),
            "mean": _floats("d"),
            "explained_variance": _floats("components"),
            "explained_variance_ratio": _floats("components"),
            "singular_values": _floats("components"),
            "noise_variance": SCALAR,
            "n_samples": int,
        },
    ),
    Entry(
        "slabsvm.NormalScores",
        {"values": ASCENDING, "scores": ASCENDING, "scale": _floats("d", ("f8",))},
        doubt=_doubt_normal_scores,
    ),
    Entry("slabsvm.features.HellingerMap", {}),
    Entry("slabsvm.features.IntersectionMap", MAP),
    Entry("slabsvm.features.Chi2Map", MAP),
    Entry(
        "sklearn.linear_model.LogisticRegression",
        {
            "classes": Annotated[Any, Labels("classes")],
            "coef": _floats("rows d"),
            "intercept": _floats("rows"),
            "n_iter": _floats("fits", INTEGERS),
        },
        doubt=_doubt_regression,
    ),
    Entry(
        "sklearn.svm.SVC",
        VECTORS,
        where={"n_support": "_n_support", "gamma": "_gamma", "probabilities": _pair_of},
        give=_give_vectors,
        doubt=lambda model: "has kernel='precomputed', which is not kept" if model.kernel == "precomputed" else "",
    ),
)
