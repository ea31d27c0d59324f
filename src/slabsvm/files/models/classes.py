"""How this package's classes are kept: detectors by the fields of their fitted models, others by entries.

A kernel's detectors decide by a function: sums over samples, or what an explicit or an additive kernel makes of them, a
weight vector, or a table for each feature, from which the samples cannot be put together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from inspect import get_annotations
from typing import Annotated, Any, get_type_hints

import numpy as np

import slabsvm
from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import Ranking
from slabsvm.detectors.base import Detector
from slabsvm.detectors.kernel_pca import Subspace
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.ensemble.combination import Combination, CombinedModel, Member
from slabsvm.ensemble.known import Trees
from slabsvm.ensemble.windowed import Window, WindowedDetector
from slabsvm.files.models.conditions import broken
from slabsvm.files.models.estimators import Entry, Labels, Scalar, Values
from slabsvm.files.models.kinds import KINDS, Either, Kind, OneOf, Parts, made, record
from slabsvm.fitted.explanation import Usual
from slabsvm.fitted.model import KernelModel
from slabsvm.fitted.planes import SlabPlanes, TwoSided
from slabsvm.kernels import NAMED
from slabsvm.kernels.additive import Chi2, Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.features import Landmarks
from slabsvm.kernels.tables import Chi2Table, IntersectionTable, WeightVector
from slabsvm.monitoring.betting import COUNT, SEED
from slabsvm.monitoring.course import Course
from slabsvm.monitoring.monitor import HELD_OUT, LEFT_OUT
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.classwise import ClassRows, NormalisedMargin
from slabsvm.openset.naming import ByClassifier, folds_of
from slabsvm.runtime.arrays import FloatArray, IntArray
from slabsvm.runtime.fields import FOR_TRAINING, LATER, Array, Choice, FittedEstimator, Many, Number, Places, Rows

# Public classes whose import needs an extra.
NEED_EXTRAS = {"detectors.pyod"}
ANY = Annotated[float, Number(finite=False)]
FLOATS, COUNTS = Annotated[FloatArray, Array("d")], Annotated[IntArray, Array("d", dtype=("i8",))]

_KERNELS = {name: record(kernel) for name, kernel in NAMED.items()}


def _name_of(kernel: Kernel) -> str:
    names = [name for name, known in NAMED.items() if known is type(kernel)]
    return names[0] if names else f"a kernel of the class {type(kernel).__name__}"


KINDS[Kernel] = Either(_KERNELS, _name_of)
EXPLICIT = Either({name: kind for name, kind in _KERNELS.items() if NAMED[name].explicit}, _name_of)


def _of_chi2(table: Chi2Table, part: str) -> Any:
    """Return a part of a table; files have room for polynomials, which stood for long sums in earlier versions."""
    none = np.zeros_like(table.counts)
    polynomials = {"lows": none, "n_pieces": none, "shift": 0, "pieces": np.zeros((0, 8)), "error": 0.0}
    return polynomials[part] if part in polynomials else getattr(table, part)


def _chi2(counts: IntArray, scales: FloatArray, knots: FloatArray, weights: FloatArray, **_: Any) -> Chi2Table:
    return Chi2Table(counts, scales, knots, weights)


def _sums(shape: str) -> dict[str, Kind]:
    """Return the kinds of sums over samples, with coefficients of this shape."""
    coefficients = Annotated[FloatArray, Array(shape)]
    columns = Annotated[IntArray, Places("samples", below="d")]
    return {
        "samples": made(Expansion, kernel=Kernel, samples=Annotated[Any, Rows("samples")], coefficients=coefficients),
        "columns": made(partial(Expansion, None), samples=columns, coefficients=coefficients),
    }


def _how(function: Any) -> str:
    if isinstance(function, Expansion):
        return "columns" if function.kernel is None else "samples"
    how: dict[type, str] = {WeightVector: "weights", IntersectionTable: "knots", Chi2Table: "pieces"}
    return how[type(function)]


# Several sums, of which none can do without the samples.
SUMS = Either(_sums("samples sums"), _how)
# What a table of chi2 had besides, in earlier versions.
POLYNOMIALS = made(
    dict,
    lows=COUNTS,
    n_pieces=COUNTS,
    shift=Annotated[int, Number(most=62)],
    pieces=Annotated[FloatArray, Array("pieces width")],
    error=float,
)
# One sum, by what the kernel makes of it.
SUM = Either(
    {
        **_sums("samples"),
        "weights": made(WeightVector, kernel=Annotated[Kernel, EXPLICIT], weights=FLOATS),
        "knots": record(IntersectionTable),
        "pieces": Parts(_chi2, _of_chi2, {**record(Chi2Table).parts, **POLYNOMIALS.parts}),
    },
    _how,
)
# Of which kernel a table is.
KERNELS_OF_TABLES: dict[type, type[Kernel]] = {IntersectionTable: Intersection, Chi2Table: Chi2}


def _of_kernel(model: type[KernelModel], sums: Kind, **others: Kind) -> Parts:
    """Return the kind of a kernel's model: its fields, of which the kernel and the expansion are one: the function."""
    fields = record(model, without=("kernel", "expansion", *others), **others)

    def take(value: Any, name: str) -> Any:
        return value.expansion if name == "function" else fields.take(value, name)

    def make(function: Any, **found: Any) -> Any:
        table = KERNELS_OF_TABLES.get(type(function))
        return fields.make(kernel=table() if table else function.kernel, expansion=function, **found)

    return Parts(make, take, {"function": sums, **fields.parts}, fields.later)


KINDS[Subspace] = _of_kernel(Subspace, SUMS)


def _boundary_of(detector: type[SupportVectorDetector]) -> Kind:
    """Return how a detector's boundary is kept: by the attributes that its class says of a fit, and by its offset."""
    known = get_type_hints(detector, include_extras=True)
    own = {name[:-1]: known[name] for name in get_annotations(detector) if name.endswith("_")}
    if own.pop("planes", None) is not None:
        own["two_sided"] = TwoSided | None
    return made(_as_attributes, _of_attributes, **own, offset=float)


def _of_attributes(found: dict[str, Any], name: str) -> Any:
    return found["planes_"].two_sided if name == "two_sided" else found[f"{name}_"]


def _as_attributes(**found: Any) -> dict[str, Any]:
    """Return a fit's attributes by their names; planes and their score are one."""
    attributes = {f"{name}_": value for name, value in found.items() if name != "two_sided"}
    if "two_sided" in found:
        planes = SlabPlanes(found["rho_lower"], found["rho_upper"], found["two_sided"])
        if planes.offset != found["offset"]:
            raise ValueError("its offset is not that of its planes")
        attributes["planes_"] = planes
    return attributes


def _averaged(scaler: Any, members: list[Any], **parts: Any) -> CombinedModel:
    """Return the mean of slabs' decisions that AutoSlabSVM was in version 0.1."""
    alike = [Member(member, 0, None, 1.0 / len(members), None) for member in members]
    combination = Combination([scaler], alike)
    if text := broken(combination):
        raise ValueError(text)
    return CombinedModel(combination=combination, recall_error=None, one_point=False, **parts)


_COMBINED = get_type_hints(CombinedModel, include_extras=True)
_EARLIER = {
    "scaler": Annotated[Any, FittedEstimator(("sklearn.preprocessing.StandardScaler",))] | None,
    "members": Annotated[list[Annotated[Any, FittedEstimator(("slabsvm.OneClassSlabSVM",))]], Many(least=1)],
    **{name: _COMBINED[name] for name in _COMBINED if name not in ("combination", "recall_error", "one_point")},
}
# Files of schema 1 have a scaler in the place of views. None such is written.
KINDS[CombinedModel] = OneOf(
    record(CombinedModel),
    made(_averaged, **_EARLIER),
    lambda one: not isinstance(one, dict) or "scaler" not in one,
)


def detectors() -> Iterator[Entry]:
    """Return how each public `Detector` is kept: by the fields of its model."""
    for name, home in slabsvm.HOMES.items():
        found = None if home in NEED_EXTRAS else getattr(slabsvm, name)
        if isinstance(found, type) and issubclass(found, Detector):
            yield _entry_of(f"slabsvm.{name}", found)


def _entry_of(name: str, detector: type[Detector]) -> Entry:
    model = get_type_hints(detector, include_extras=True)["model_"]
    further: dict[str, Any] = {}
    if issubclass(detector, SupportVectorDetector):
        model = Annotated[model, _of_kernel(model, SUM, boundary=_boundary_of(detector))]
        further = {"expected_recall": float}
    return Entry(
        name,
        {
            "n_samples_fit": Annotated[int, Number(size="rows")],
            "warning": str,
            "fit": model,
            "learned": Annotated[Any | None, Array("learned", dtype=("u8",)), FOR_TRAINING, LATER],
            **further,
        },
        where={"fit": "model_"},
        # What is seen of the fit.
        give=lambda model, parts: model.__dict__.update(parts["fit"].attributes()),
        left_out=("progress",) if hasattr(detector, "progress") else (),
    )


def _give_linear(model: Any, parts: Values) -> None:
    model.planes_ = SlabPlanes(parts["rho_lower"], parts["rho_upper"], parts.pop("two_sided"))
    if parts["map"] is not None:
        model.gamma_ = parts["map"].gamma
    if model.planes_.scores_by_mass:
        raise ValueError("it has a score of local kernels, which it has none of")
    length = model.n_features_in_ if parts["map"] is None else parts["map"].n_features
    if parts["coef"].shape != (1, length):
        raise ValueError(f"it has no weight for each of {length:,} features")


CLASSIFIER = Entry(
    "slabsvm.ensemble.known.OutlierClassifier",
    {
        "trees": Trees | None,
        "classifier": Annotated[Any, FittedEstimator()] | None,
        "typical": FLOATS,
        "usual": FLOATS,
        "reference": float,
        "offset": float,
    },
    # What it was made by is not needed, and may be of any class.
    left_out=("classifier",),
)
LINEAR = Entry(
    "slabsvm.LinearOneClassSlabSVM",
    {
        "n_samples_fit": Annotated[int, Number(size="rows")],
        "warning": str,
        "map": Landmarks | None,
        "coef": Annotated[FloatArray, Array("one images")],
        "rho_lower": float,
        "rho_upper": ANY,
        "offset": float,
        "two_sided": TwoSided | None,
        "duality_gap": ANY,
        "relative_gap": ANY,
        "dual_objective": float,
        "status": Annotated[str, Choice(("converged", "degenerate", "stalled"))],
        "n_passes": int,
        "usual": Usual | None,
    },
    where={"two_sided": lambda model: model.planes_.two_sided},
    give=_give_linear,
)

FITTED = Annotated[Any, FittedEstimator(answers="predict")]
MEMBERS = Many(size="members", least=1)
WINDOWED = ("slabsvm.OneClassSlabSVM", "slabsvm.OneClassSVM", "slabsvm.SVDD")
OF_CLASS = FittedEstimator(("slabsvm.ConformalDetector", "slabsvm.openset.classwise.NormalisedMargin"))


def _give_conformal(model: ConformalDetector, parts: Values) -> None:
    if parts["estimators"] is None:
        parts["estimators"] = [model.estimator]
    if len(parts["estimators"]) != len(parts["rankings"]):
        raise ValueError("it has no calibration for each of its detectors")
    for detector, columns in zip(parts["estimators"], parts["columns"], strict=True):
        if not hasattr(detector, "predict"):
            raise ValueError("it has a detector that cannot predict")
        features = model.n_features_in_ if columns is None else len(columns)
        if getattr(detector, "n_features_in_", features) != features:
            raise ValueError(
                f"it has a detector of {detector.n_features_in_:,} features, where {features:,} are expected"
            )


def _of_naming(naming: ByClassifier, part: str) -> Any:
    return [fold.classifier for fold in naming.folds] if part == "classifiers" else getattr(naming, part)


JOINT = made(
    dict,
    _of_naming,
    classifiers=Annotated[list[FITTED], Many(size="folds", least=1)],
    confidence=Ranking,
    held_out=Annotated[list[Ranking], Many(size="folds")],
)


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
        {
            "estimators": Annotated[
                list[Annotated[Any, FittedEstimator(features="", answers="predict")]] | None, MEMBERS
            ],
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
        },
        # A detector that came fitted is kept once, as the parameter that it is.
        where={"estimators": lambda model: None if model.estimators_[0] is model.estimator else model.estimators_},
        give=_give_conformal,
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
            "estimator": Annotated[Any, FittedEstimator(WINDOWED)],
            "n_seen": int,
            "window": Annotated[Window | None, FOR_TRAINING],
        },
        where={"window": "_window", "start": "_start"},
        give=_give_windowed,
    ),
    Entry(
        "slabsvm.OpenSetClassifier",
        {
            "classes": Annotated[Any, Labels("classes")],
            "unknown_label": Annotated[Any, Scalar()],
            "seed": Annotated[int, SEED],
            "models": Annotated[list[Annotated[Any, OF_CLASS]], Many(size="classes", least=1)],
            "joint": Annotated[ByClassifier | None, JOINT],
            "rows": Annotated[list[ClassRows] | None, FOR_TRAINING],
        },
        where={"joint": lambda model: model.naming_ if isinstance(model.naming_, ByClassifier) else None},
        give=_give_open_set,
    ),
    Entry(
        "slabsvm.openset.classwise.NormalisedMargin",
        {"estimator": FITTED, "depth": Annotated[float, Number(above=0.0)], "far_margin": ANY},
        features=False,
    ),
    Entry("slabsvm.DistinctKFold", {}),
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
