"""How steps before detectors are kept: the encoder of tables, normal scores, and scikit-learn's.

scikit-learn's steps are kept by their public attributes; what they predict by besides follows from these, but for what
`where` takes and `give` sets. A class with plain attributes takes one entry here.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

from slabsvm.ensemble.ranks import NormalScores
from slabsvm.files.models.archive import must
from slabsvm.files.models.estimators import Entry, estimator, labels, scalar
from slabsvm.files.models.kinds import CONDITIONS, Conditions, Parts, is_array, many, maybe, one_of
from slabsvm.runtime.objects import FLOATS, INTEGERS, Array, Choice, FittedEstimator, Number, Places
from slabsvm.tables.columns import Categories, Numbers
from slabsvm.tables.encoder import TableEncoder
from slabsvm.tables.plan import LeftOut
from slabsvm.tables.times import Times

GROUPED = "groups infrequent categories, which is not kept"


def _is_numbers(value: Any) -> bool:
    return is_array(value) and getattr(value, "dtype", np.dtype(float)).kind in "fi"


def _each(names: str, hint: Any) -> dict[str, Any]:
    """Return parts that are alike."""
    return dict.fromkeys(names.split(), hint)


floats, whole = partial(Array, dtype=FLOATS), partial(Array, dtype=INTEGERS)
# A feature of which all values are missing has no mean.
PER_FEATURE = maybe(floats("d", holds="any"))
RANGES = _each("scale min data_min data_max data_range", PER_FEATURE)
COUNTED = {"n_samples_seen": one_of(Array("d", dtype=("f8", *INTEGERS)), scalar, _is_numbers)}
DTYPE = Annotated[str, Choice(("float64", "float32", "int64", "int32", "object"))]
# A step beside others: "drop", "passthrough", or an estimator.
WORD = Annotated[str, Choice(("drop", "passthrough"))]
STEP = one_of(WORD, estimator(None), lambda step: isinstance(step, str))
BESIDE = Parts(dict, {"name": str, "step": STEP, "places": list[int], "width": int}, dict.__getitem__)
STATISTICS = one_of(floats("d", holds="any"), labels("d"), _is_numbers)
# What a classifier's probabilities are made of, where it has any: the public names are on their way out.
PAIR = ("_probA", "_probB")
IMPUTED = ("_fit_dtype", "_fill_dtype")
INDICATOR = maybe(FittedEstimator(("sklearn.impute.MissingIndicator",)))
DROPPED = maybe(many(maybe(int), size="d"))
COLUMNS = many(Numbers | Categories | Times, made=tuple, least=1)


def _give_encoder(found: dict[str, Any]) -> None:
    dropped, sizes = found["drop_idx_"], [len(categories) for categories in found["categories_"]]
    must(found.pop("grouped_") is None, f"it {GROUPED}")
    if dropped is not None:
        pairs = [*zip(dropped, sizes, strict=True)]
        there = all(place is None or place < size for place, size in pairs)
        must(there, "a category that is dropped is not there")
        sizes = [size - (place is not None) for place, size in pairs]
        dropped = np.array(dropped, dtype=object)
    private = {"_infrequent_enabled": False, "_drop_idx_after_grouping": dropped, "_n_features_outs": sizes}
    found.update(private, drop_idx_=dropped)


def _give_vectors(found: dict[str, Any]) -> None:
    k, pair, n_support = len(found["classes_"]), found.pop("probabilities_"), found["_n_support"]
    n_pairs = k >= 2 and len(found["dual_coef_"]) == k - 1 and len(found["intercept_"]) == k * (k - 1) // 2
    must(n_pairs, "its coefficients are not those of pairs of classes")
    must(n_support.sum() == len(found["support_vectors_"]), "the counts of support vectors do not add up to these")
    must(pair is None or len(pair) == 2, "it must have two numbers of each pair of classes for probabilities")
    # Of two classes the public ones have the other sign.
    sign = -1.0 if k == 2 else 1.0
    found.update(_dual_coef_=sign * found["dual_coef_"], _intercept_=sign * found["intercept_"])
    found.update(zip(PAIR, pair or (np.empty(0), np.empty(0)), strict=True), _effective_probability=pair is not None)
    found.update(_num_iter=found["n_iter_"], _sparse=False, fit_status_=0)


def _beside(model: Any) -> list[dict[str, Any]]:
    """Return the fitted steps of a ColumnTransformer, the places of the columns that they take, and their widths."""
    places = vars(model)["_transformer_to_input_indices"]
    widths = {name: int(there.stop - there.start) for name, there in model.output_indices_.items()}
    named = ((name, step, [int(place) for place in places[name]]) for name, step, _ in model.transformers_)
    return [{"name": name, "step": step, "places": own, "width": widths[name]} for name, step, own in named]


def _give_steps(found: dict[str, Any]) -> None:
    steps, names, own = found.pop("steps_"), found.get("feature_names_in_"), found["transformers"]
    triples = isinstance(own, list) and all(isinstance(one, tuple) and len(one) == 3 for one in own)
    must(triples, "its transformers are not triples of a name, a step and columns")
    places = {one["name"]: one["places"] for one in steps}
    must(len(places) == len(steps), "two of its steps have one name")
    there = all(place < found["n_features_in_"] for some in places.values() for place in some)
    must(there, "a step takes a column that is not there")
    columns = {one: some if names is None else [str(names[at]) for at in some] for one, some in places.items()}
    ends = np.cumsum([0, *(one["width"] for one in steps)]).tolist()
    own = [name for name, _, _ in own]
    rest = [some for name, some in columns.items() if name not in own]
    outputs = {one["name"]: slice(*ends[at : at + 2]) for at, one in enumerate(steps)}
    found.update(
        _columns=[some for name, some in columns.items() if name in own],
        _transformer_to_input_indices=places,
        _remainder=("remainder", found["remainder"], rest[0] if rest else []),
        transformers_=[(one["name"], one["step"], columns[one["name"]]) for one in steps],
        output_indices_=outputs if rest else {**outputs, "remainder": slice(0, 0)},
    )


STEPS = {
    "slabsvm.TableEncoder": Entry(
        {"n_rows": Annotated[int, Number(least=2)], "columns": COLUMNS, "left_out": many(LeftOut, made=tuple)}
    ),
    "slabsvm.NormalScores": Entry(
        {"values": many(floats("values", order="strictly ascending"), size="d")}
        | {"scores": many(floats("values", order="ascending"), size="d"), "scale": Array("d", above=0.0)}
        | {"gaps": many(floats("gaps", order="ascending"), size="d")}
    ),
    # A pipeline's cache is a folder of pickles.
    "sklearn.pipeline.Pipeline": Entry({}, left_out=("memory",)),
    "sklearn.compose.ColumnTransformer": Entry(
        {"steps": many(BESIDE), "sparse": bool}, {"steps": _beside, "sparse": "sparse_output_"}, _give_steps
    ),
    # Its parameter is what is fitted.
    "sklearn.frozen.FrozenEstimator": Entry({}),
    "sklearn.preprocessing.StandardScaler": Entry(_each("mean var scale", PER_FEATURE) | COUNTED),
    "sklearn.preprocessing.MinMaxScaler": Entry(RANGES | COUNTED),
    "sklearn.preprocessing.MaxAbsScaler": Entry(_each("max_abs scale", PER_FEATURE) | COUNTED),
    "sklearn.preprocessing.RobustScaler": Entry(_each("center scale", PER_FEATURE)),
    "sklearn.preprocessing.Normalizer": Entry({}),
    "sklearn.preprocessing.FunctionTransformer": Entry({}),
    "sklearn.preprocessing.QuantileTransformer": Entry(
        {"n_quantiles": Annotated[int, Number(size="quantiles")], "references": Array("quantiles")}
        | {"quantiles": floats("quantiles d", holds="any")}
    ),
    "sklearn.preprocessing.OneHotEncoder": Entry(
        # Categories are not grouped where each has a column of its own: others are refused.
        {"grouped": maybe(str), "categories": many(labels("categories"), size="d"), "drop_idx": DROPPED},
        {"grouped": lambda _: None},
        _give_encoder,
    ),
    "sklearn.impute.SimpleImputer": Entry(
        {"statistics": STATISTICS, "indicator": INDICATOR, "dtypes": many(DTYPE, size="dtypes", least=2)},
        # The types of numbers that it was fitted to and fills in, which no public attribute says.
        {"dtypes": lambda model: [vars(model).get(one, vars(model)["_fit_dtype"]).name for one in IMPUTED]},
        lambda found: found.update(zip(IMPUTED, map(np.dtype, found.pop("dtypes_")), strict=True)),
    ),
    "sklearn.impute.MissingIndicator": Entry(
        {"features": Places("missing", below="d"), "of_mask": bool},
        {"of_mask": "_precomputed"},
        lambda found: found.update(_n_features=found["n_features_in_"]),
    ),
    "sklearn.decomposition.PCA": Entry(
        {"n_components": Annotated[int, Number(size="components")], "components": floats("components d")}
        | {"mean": floats("d")}
        | _each("explained_variance explained_variance_ratio singular_values", floats("components"))
        | {"noise_variance": scalar, "n_samples": int}
    ),
    "sklearn.linear_model.LogisticRegression": Entry(
        {"classes": labels("classes"), "coef": floats("rows d"), "intercept": floats("rows"), "n_iter": whole("fits")}
    ),
    "sklearn.svm.SVC": Entry(
        {"classes": labels("classes"), "class_weight": Array("classes"), "support": Array("n_SV", dtype=("i4",))}
        | {"support_vectors": Array("n_SV d"), "n_support": Array("classes", dtype=("i4",), least=0)}
        | {"dual_coef": Array("others n_SV"), "intercept": Array("pairs"), "gamma": float}
        | {"probabilities": maybe(many(Array("pairs"))), "shape_fit": tuple[int, ...], "n_iter": whole("pairs")},
        {"n_support": "_n_support", "gamma": "_gamma"}
        | {"probabilities": lambda model: [vars(model)[one] for one in PAIR] if len(vars(model)["_probA"]) else None},
        _give_vectors,
    ),
}


def _conditions(model: Any) -> Conditions:
    """Give what must hold of steps, which may not be fitted."""
    match model:
        case Pipeline(steps=steps):
            # Nothing validates a pipeline's steps before a fit.
            pairs = isinstance(steps, list) and steps and all(map(_is_pair, steps))
            yield pairs, "must have steps: pairs of a name and an estimator"
            transform = all(hasattr(step, "transform") or not hasattr(step, "get_params") for _, step in steps[:-1])
            yield transform, "has a step that transforms nothing before others"
            yield len({name for name, _ in steps}) == len(steps), "has two steps of one name"
        case OneHotEncoder():
            yield getattr(model, "infrequent_categories_", None) is None, GROUPED
        case SVC(kernel=kernel, degree=degree):
            yield kernel != "precomputed", "has kernel='precomputed', which is not kept"
            yield degree < 2**31, f"has degree={degree}, which libsvm does not take"
        case LogisticRegression(classes_=classes, coef_=coef):
            as_many = len(classes) >= 2 and len(coef) == (1 if len(classes) == 2 else len(classes))
            yield as_many, "has no weights for each class"
        case NormalScores(values_=values, scores_=scores, gaps_=gaps):
            each = zip(values, scores, gaps, strict=True)
            known = all(len(v) == len(s) == len(g) - 1 > 0 for v, s, g in each)
            yield known, "has not a score for each of its values and gaps"
        case TableEncoder(columns_=columns):
            names = [column.name for column in columns]
            known = len(set(names)) == len(names) and set(names) <= set(getattr(model, "feature_names_in_", ()))
            yield known, "has columns that its table has not"


def _is_pair(step: Any) -> bool:
    known = isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str)
    return known and (step[1] in (None, "passthrough") or hasattr(step[1], "get_params"))


CONDITIONS.append(_conditions)
