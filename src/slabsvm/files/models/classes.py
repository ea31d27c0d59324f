"""How this package's classes are kept: detectors by the fields of their fitted models, others by entries.

A kernel's detectors decide by a function: sums over samples, or what an explicit or an additive kernel makes of them, a
weight vector, or a table for each feature, from which the samples cannot be put together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from slabsvm.ensemble.windowed import Window
from slabsvm.files.models.estimators import Entry, demand, labels, scalar
from slabsvm.files.models.kinds import KINDS, Kind, Parts, by_class, either, many, maybe, one_of, record
from slabsvm.fitted.explanation import Usual
from slabsvm.fitted.model import KernelModel
from slabsvm.fitted.planes import SlabPlanes, TwoSided
from slabsvm.kernels.additive import Chi2, Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.landmarks import Landmarks
from slabsvm.kernels.named import NAMED
from slabsvm.kernels.tables import Chi2Table, IntersectionTable, WeightVector
from slabsvm.monitoring.betting import COUNT, SEED
from slabsvm.monitoring.course import Course
from slabsvm.monitoring.monitor import HELD_OUT, LEFT_OUT
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.classwise import ClassRows, NormalisedMargin
from slabsvm.openset.naming import ByClassifier, folds_of
from slabsvm.runtime.fields import Array, Choice, FittedEstimator, Number, Places, Rows

# Public classes whose import needs an extra.
NEED_EXTRAS = {"detectors.pyod"}
ANY = Annotated[float, Number(finite=False)]
POSITIVE = Annotated[float, Number(above=0.0)]
COUNTS = Array("d", dtype=("i8",))
FITTED = FittedEstimator(answers="predict")
ROWS = Annotated[int, Number(size="rows")]
WINDOWED = ("slabsvm.OneClassSlabSVM", "slabsvm.OneClassSVM", "slabsvm.SVDD")
REFERENCE = Annotated[str, Choice((HELD_OUT, LEFT_OUT))]
OF_CLASS = FittedEstimator(("slabsvm.ConformalDetector", "slabsvm.openset.classwise.NormalisedMargin"))

KINDS[Kernel] = by_class(NAMED)
EXPLICIT = by_class({name: kernel for name, kernel in NAMED.items() if kernel.explicit})
# What a table of chi2 had besides in earlier versions, where polynomials stood for long sums. Files have room for it.
SHIFT = Annotated[int, Number(most=62)]
POLYNOMIALS = {"lows": COUNTS, "n_pieces": COUNTS, "shift": SHIFT, "pieces": Array("pieces width"), "error": float}
NONE = {"shift": 0, "pieces": np.zeros((0, 8)), "error": 0.0}
KINDS[Chi2Table] = replace(
    record(Chi2Table, **POLYNOMIALS),
    make=lambda counts, scales, knots, weights, **_: Chi2Table(counts, scales, knots, weights),
    take=lambda table, part: getattr(table, part, NONE.get(part, np.zeros_like(table.counts))),
)
# Of which kernel a table is.
KERNELS_OF_TABLES: dict[type, type[Kernel]] = {IntersectionTable: Intersection, Chi2Table: Chi2}


def _sums(shape: str) -> dict[str, Any]:
    """Return the kinds of sums over samples, with coefficients of this shape."""
    of_samples = {"kernel": Kernel, "samples": Rows("samples"), "coefficients": Array(shape)}
    of_columns = {"samples": Places("samples", below="d"), "coefficients": Array(shape)}
    return {"samples": Parts(Expansion, of_samples), "columns": Parts(partial(Expansion, None), of_columns)}


def _how(function: Any) -> str:
    names = {Expansion: "samples", WeightVector: "weights", IntersectionTable: "knots", Chi2Table: "pieces"}
    return "columns" if getattr(function, "kernel", function) is None else names[type(function)]


# Several sums, of which none can do without the samples; and one, by what the kernel makes of it.
SUMS = either(_sums("samples sums"), _how)
WEIGHTS = record(WeightVector, ("kernel", "weights"), kernel=EXPLICIT, weights=Array("d"))
SUM = either({**_sums("samples"), "weights": WEIGHTS, "knots": IntersectionTable, "pieces": Chi2Table}, _how)


def _of_kernel(model: type[KernelModel], sums: Kind, **others: Any) -> Parts:
    """Return the kind of a kernel's model: its fields, of which the kernel and the expansion are one: the function."""
    fields = record(model, ("kernel", "expansion", *others), **others)

    def make(function: Any, **found: Any) -> Any:
        table = KERNELS_OF_TABLES.get(type(function))
        return fields.make(kernel=table() if table else function.kernel, expansion=function, **found)

    def take(value, name):
        return value.expansion if name == "function" else fields.take(value, name)

    return replace(fields, make=make, take=take, parts={"function": sums, **fields.parts})


KINDS[Subspace] = _of_kernel(Subspace, SUMS)


def _boundary_of(detector: type[SupportVectorDetector]) -> Parts:
    """Return how a detector's boundary is kept: by the attributes that its class says of a fit, and by its offset."""
    known = get_type_hints(detector, include_extras=True)
    own = {name[:-1]: known[name] for name in get_annotations(detector) if name.endswith("_")}
    if own.pop("planes", None) is not None:
        own["two_sided"] = TwoSided | None
    return Parts(_as_attributes, own | {"offset": float}, _of_attributes)


def _of_attributes(found: dict[str, Any], name: str) -> Any:
    return found["planes_"].two_sided if name == "two_sided" else found[f"{name}_"]


def _as_attributes(**found: Any) -> dict[str, Any]:
    """Return a fit's attributes by their names; planes and their score are one."""
    attributes = {f"{name}_": value for name, value in found.items() if name != "two_sided"}
    if "two_sided" not in found:
        return attributes
    planes = SlabPlanes(found["rho_lower"], found["rho_upper"], found["two_sided"])
    demand(planes.offset == found["offset"], "its offset is not that of its planes")
    return attributes | {"planes_": planes}


def _averaged(scaler: Any, members: list[Any], **parts: Any) -> CombinedModel:
    """Return the mean of slabs' decisions that AutoSlabSVM was in version 0.1."""
    alike = [Member(member, 0, None, 1.0 / len(members), None) for member in members]
    return CombinedModel(combination=Combination([scaler], alike), recall_error=None, one_point=False, **parts)


# Files of schema 1 have a scaler in the place of views. None such is written.
_EARLIER = record(
    CombinedModel,
    ("combination", "recall_error", "one_point"),
    scaler=maybe(FittedEstimator(("sklearn.preprocessing.StandardScaler",))),
    members=many(FittedEstimator(("slabsvm.OneClassSlabSVM",)), least=1),
)
KINDS[CombinedModel] = one_of(
    record(CombinedModel),
    replace(_EARLIER, make=_averaged),
    lambda one: not isinstance(one, dict) or "scaler" not in one,
)


def detectors() -> Iterator[tuple[str, Entry]]:
    """Give how each public `Detector` is kept, by its name: by the fields of its model."""
    for name, home in slabsvm.HOMES.items():
        detector = None if home in NEED_EXTRAS else getattr(slabsvm, name)
        if not isinstance(detector, type) or not issubclass(detector, Detector):
            continue
        model = get_type_hints(detector, include_extras=True)["model_"]
        further: dict[str, Any] = {}
        if issubclass(detector, SupportVectorDetector):
            model = _of_kernel(model, SUM, boundary=_boundary_of(detector))
            further = {"expected_recall": float}
        learned = maybe(Array("learned", dtype=("u8",)), for_training=True)
        yield (
            f"slabsvm.{name}",
            Entry(
                {"n_samples_fit": ROWS, "warning": str, "fit": model, "learned": learned, **further},
                where={"fit": "model_"},
                # What is seen of the fit.
                give=lambda found: found.update({**found["model_"].attributes(), **found}),
                later=("learned",),
                left_out=("progress",) if hasattr(detector, "progress") else (),
            ),
        )


def _of_naming(naming: ByClassifier, part: str) -> Any:
    return [fold.classifier for fold in naming.folds] if part == "classifiers" else getattr(naming, part)


# What a classifier and the detectors of its classes name by.
FOLDS = {"classifiers": many(FITTED, size="folds", least=1), "confidence": Ranking}
JOINT = Parts(dict, FOLDS | {"held_out": many(Ranking, size="folds")}, _of_naming)


def _give_open_set(found: dict[str, Any]) -> None:
    classes, models, joint, calibration = (found[name] for name in ("classes_", "models_", "joint_", "calibration"))
    rows = found["rows_"] = found["rows_"] or []
    both = (found.pop("joint_") is None) == (found["classifier"] is None)
    demand(both, "it has a classifier without what this has learned, or the other way round")
    kept = NormalisedMargin if calibration == "margin" and joint is None else ConformalDetector
    alike = all(type(one) is kept for one in models)
    demand(alike, f"its models are not all {kept.__name__}, as calibration={calibration!r} makes them")
    if joint is None:
        found["naming_"] = OpenSetClassifier(calibration=calibration).naming_type(models, classes)
        return
    found["classifiers_"] = joint["classifiers"]
    demand(all(hasattr(one, "classes_") for one in joint["classifiers"]), "its classifier has learned no classes")
    folds = folds_of(joint["classifiers"], models, classes)
    found["naming_"] = ByClassifier(models, classes, rows, folds, joint["confidence"], joint["held_out"])


def _give_linear(found: dict[str, Any]) -> None:
    found["planes_"] = SlabPlanes(found["rho_lower_"], found["rho_upper_"], found.pop("two_sided_"))
    if found["map_"] is not None:
        found["gamma_"] = found["map_"].gamma


OWN: dict[str, Entry] = dict(detectors()) | {
    "slabsvm.ensemble.known.OutlierClassifier": Entry(
        {
            "trees": Trees | None,
            "classifier": maybe(FittedEstimator()),
            "typical": Array("d"),
            "usual": Array("d"),
            "reference": float,
            "offset": float,
        },
        # What it was made by is not needed, and may be of any class.
        left_out=("classifier",),
    ),
    "slabsvm.LinearOneClassSlabSVM": Entry(
        {
            "n_samples_fit": ROWS,
            "warning": str,
            "map": Landmarks | None,
            "coef": Array("one images"),
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
    ),
    "slabsvm.ConformalDetector": Entry(
        {
            "estimators": maybe(many(FittedEstimator(features="", answers="predict"), size="members", least=1)),
            "calibration_scores": many(Array("scores", holds="numbers")),
            "rankings": many(Ranking, size="members", least=1),
            "columns": many(maybe(Places("columns", below="d")), size="members"),
            "held_out": maybe(many(Array("held_out", dtype=("i8",)), size="members"), for_training=True),
            "n_calibration": int,
            "out_of_reach": float,
            "offset": float,
            "far_p_value": ANY,
            "repeats": float | None,
        },
        # A detector that came fitted is kept once, as the parameter that it is.
        where={"estimators": lambda model: None if model.estimators_[0] is model.estimator else model.estimators_},
        give=lambda found: found.update(estimators_=found["estimators_"] or [found["estimator"]]),
        later=("repeats",),
    ),
    "slabsvm.TrimmedDetector": Entry(
        {
            "estimator": FITTED,
            "offset": float,
            "n_rounds": Annotated[int, Number(least=1)],
            "decisions": maybe(Array("rows", holds="numbers"), for_training=True),
            "trimmed": maybe(Places("trimmed", below="rows"), for_training=True),
        },
    ),
    "slabsvm.WindowedDetector": Entry(
        {"estimator": FittedEstimator(WINDOWED), "n_seen": int, "window": maybe(Window, for_training=True)},
        where={"window": "_window"},
        # The next update starts from nothing.
        give=lambda found: found.update(offset_=found["estimator_"].offset_, _start=None),
    ),
    "slabsvm.OpenSetClassifier": Entry(
        {
            "classes": labels("classes"),
            "unknown_label": scalar,
            "seed": Annotated[int, SEED],
            "models": many(OF_CLASS, size="classes", least=1),
            "joint": maybe(JOINT),
            "rows": maybe(many(ClassRows), for_training=True),
        },
        where={"joint": lambda model: model.naming_ if isinstance(model.naming_, ByClassifier) else None},
        give=_give_open_set,
    ),
    "slabsvm.openset.classwise.NormalisedMargin": Entry(
        {"estimator": FITTED, "depth": POSITIVE, "far_margin": ANY}, features=False
    ),
    "slabsvm.DistinctKFold": Entry({}),
    "slabsvm.DriftMonitor": Entry(
        {"reference": REFERENCE, "n_reference": Annotated[int, COUNT], "unit": POSITIVE, "course": Course},
        features=False,
    ),
}
