"""How this package's classes are kept: detectors by the fields of their fitted models, others by entries.

A kernel's detectors decide by a function: sums over samples, or the weight vector that an explicit kernel makes of
them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from inspect import get_annotations
from typing import Annotated, Any, get_type_hints

import numpy as np
import scipy.sparse as sp
from sklearn.frozen import FrozenEstimator

import slabsvm
from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import Ranking
from slabsvm.detectors.base import Detector
from slabsvm.detectors.kernel_density import Density
from slabsvm.detectors.kernel_pca import Subspace
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.ensemble.known import OutlierClassifier, Trees
from slabsvm.ensemble.ranks import Surprise
from slabsvm.ensemble.readings import WEIGHTS, View
from slabsvm.files.models import kinds
from slabsvm.files.models.archive import must
from slabsvm.files.models.estimators import Entry, labels, scalar
from slabsvm.files.models.kinds import KINDS, Conditions, Parts, by_class, either, many, maybe, record
from slabsvm.fitted.model import KernelModel, SupportVectorModel
from slabsvm.fitted.planes import SlabPlanes, TwoSided
from slabsvm.kernels import NAMED
from slabsvm.kernels.base import Kernel, WeightVector
from slabsvm.kernels.expansion import Expansion
from slabsvm.monitoring.betting import COUNT, MEMORIES, N_BETS, SEED, Bag, Betting
from slabsvm.monitoring.course import MOST_POINTS, RATES, Course, History, Tally, Test
from slabsvm.monitoring.monitor import HELD_OUT, LEFT_OUT
from slabsvm.openset.rules import ClassifierRule, DetectorRule
from slabsvm.runtime.objects import Array, Choice, FittedEstimator, Number, Places, Rows
from slabsvm.tables.columns import Categories

ANY = Annotated[float, Number(finite=False)]
POSITIVE = Annotated[float, Number(above=0.0)]
FITTED = FittedEstimator(answers="predict")
ROWS = Annotated[int, Number(size="rows")]
LEARNED = maybe(Array("learned", dtype=("u8",)), for_training=True)
REFERENCE = Annotated[str, Choice((HELD_OUT, LEFT_OUT))]
OF_CLASS = FittedEstimator(("slabsvm.ConformalDetector",))

KINDS[Kernel] = by_class(NAMED)
EXPLICIT = by_class({name: kernel for name, kernel in NAMED.items() if kernel.explicit})


def _sums(shape: str) -> dict[str, Any]:
    """Return the kinds of sums over samples, with coefficients of this shape."""
    of_samples = {"kernel": Kernel, "samples": Rows("samples"), "coefficients": Array(shape)}
    of_columns = {"samples": Places("samples", below="d"), "coefficients": Array(shape)}
    return {"samples": Parts(Expansion, of_samples), "columns": Parts(partial(Expansion, None), of_columns)}


def _how(function: Any) -> str:
    if isinstance(function, WeightVector):
        return "weights"
    return "columns" if function.kernel is None else "samples"


# Several sums, of which none can do without the samples; and one, by what the kernel makes of it.
SUMS = either(_sums("samples sums"), _how)
SUM = either({**_sums("samples"), "weights": record(WeightVector, kernel=EXPLICIT)}, _how)


def _of_kernel(model: type[KernelModel], sums: kinds.Kind, **others: Any) -> Parts:
    """Return the kind of a kernel's model: its fields, of which the kernel and the expansion are one: the function."""
    inner = record(model, ("kernel", "expansion", *others), **others)

    def make(function: Any, **found: Any) -> Any:
        return inner.make(kernel=function.kernel, expansion=function, **found)

    def take(value: Any, name: str) -> Any:
        return inner.take(value, "expansion" if name == "function" else name)

    return replace(inner, make=make, take=take, parts={"function": sums, **inner.parts})


KINDS[Subspace] = _of_kernel(Subspace, SUMS)


def _annotated(model: type) -> dict[str, Any]:
    """Return the parts that a class's own annotations say of what a fit sets."""
    hints = get_type_hints(model, include_extras=True)
    return {name[:-1]: hints[name] for name in get_annotations(model) if name.endswith("_")}


def _boundary_of(detector: type[SupportVectorDetector]) -> Parts:
    """Return how a detector's boundary is kept: by the attributes that its class says of a fit, and by its offset."""
    own = _annotated(detector) | {"offset": float}
    if "planes" not in own:
        return Parts(lambda **found: {f"{name}_": found[name] for name in own}, own, lambda b, name: b[f"{name}_"])
    own = {"rho_lower": own["rho_lower"], "rho_upper": own["rho_upper"], "two_sided": TwoSided | None, "offset": float}
    return Parts(_as_planes, own, lambda found, name: getattr(found["planes_"], name.removeprefix("rho_")))


def _as_planes(rho_lower: float, rho_upper: float, two_sided: TwoSided | None, offset: float) -> dict[str, Any]:
    """Return a slab's attributes by their names."""
    planes = SlabPlanes(rho_lower, rho_upper, two_sided)
    must(planes.offset == offset, "its offset is not that of its planes")
    return planes.attributes


def _entry_of(detector: type[Detector]) -> Entry:
    """Return how a public `Detector` is kept: by the fields of its model."""
    model, recall = get_type_hints(detector, include_extras=True)["model_"], {}
    if issubclass(detector, SupportVectorDetector):
        model, recall = _of_kernel(model, SUM, boundary=_boundary_of(detector)), {"expected_recall": float}
    return Entry(
        {"n_samples_fit": ROWS, "warning": str, "fit": model, "learned": LEARNED, **recall},
        where={"fit": "model_"},
        # What is seen of the fit.
        give=lambda found: found.update({**found["model_"].attributes(), **found}),
        left_out=("progress",) if hasattr(detector, "progress") else (),
    )


# What a classifier adds to the detectors of its classes.
JOINT = Parts(dict, {"classifier": FITTED, "confidence": Ranking, "held_out": Ranking})


def _give_open_set(found: dict[str, Any]) -> None:
    joint = found.pop("joint_")
    both = (joint is None) == (found["classifier"] is None)
    must(both, "it has a classifier without what this has learned, or the other way round")
    if joint is None:
        found["rule_"] = DetectorRule(found["models_"], found["classes_"])
        return
    must(hasattr(joint["classifier"], "classes_"), "its classifier has learned no classes")
    found["classifier_"] = joint["classifier"]
    found["rule_"] = ClassifierRule(found["models_"], found["classes_"], **joint)


def _give_calibrated(found: dict[str, Any]) -> None:
    frozen = isinstance(found["estimator"], FrozenEstimator)
    must(frozen == (found["estimator_"] is None), "it has a detector beside the one that came fitted, or none")
    if frozen:
        found["estimator_"] = found["estimator"].estimator


PUBLIC = {f"slabsvm.{name}": getattr(slabsvm, name) for name in slabsvm.HOMES}
OWN = {name: _entry_of(one) for name, one in PUBLIC.items() if isinstance(one, type) and issubclass(one, Detector)} | {
    "slabsvm.ensemble.known.OutlierClassifier": Entry(
        # What it was made by is not needed, and may be of any class.
        _annotated(OutlierClassifier),
        left_out=("classifier",),
    ),
    "slabsvm.ConformalDetector": Entry(
        {
            "estimator": maybe(FittedEstimator(features="", answers="predict")),
            "ranking": Ranking,
            "columns": maybe(Places("columns", below="d")),
            "held_out": maybe(Array("rows", dtype=("i8",)), for_training=True),
        }
        | {"n_calibration": int, "out_of_reach": float, "offset": float, "far_p_value": ANY, "repeats": float},
        # A detector that came fitted is kept once, in the parameter that freezes it.
        where={"estimator": lambda model: None if isinstance(model.estimator, FrozenEstimator) else model.estimator_},
        give=_give_calibrated,
    ),
    "slabsvm.TrimmedDetector": Entry(
        {"estimator": FITTED, "offset": float, "n_rounds": Annotated[int, Number(least=1)]}
        | {"decisions": maybe(Array("rows", holds="numbers"), for_training=True)}
        | {"trimmed": maybe(Places("trimmed", below="rows"), for_training=True)}
    ),
    "slabsvm.OpenSetClassifier": Entry(
        {"classes": labels("classes"), "unknown_label": scalar, "seed": Annotated[int, SEED]}
        | {"models": many(OF_CLASS, size="classes", least=1), "joint": maybe(JOINT)},
        where={"joint": lambda model: model.rule_ if isinstance(model.rule_, ClassifierRule) else None},
        give=_give_open_set,
    ),
    "slabsvm.DriftMonitor": Entry(
        {"reference": REFERENCE, "n_reference": Annotated[int, COUNT], "unit": POSITIVE, "course": Course},
        features=False,
    ),
}


def _of_models(value: Any) -> Conditions:
    match value:
        case SupportVectorModel(kernel=kernel, expansion=sums, boundary=boundary):
            by_mass = getattr(boundary.get("planes_"), "scores_by_mass", False)
            local = isinstance(sums, Expansion) and getattr(kernel, "local", False)
            yield local or not by_mass, "its score is that of a local kernel, and its kernel is another"
            known = not isinstance(sums, Expansion) or value.support.samples.max(initial=0) < len(sums.coefficients)
            yield known, "a support vector is not among its samples"
        case Subspace(kernel=kernel, expansion=sums):
            as_many = len(value.sums) + 1 == sums.coefficients.shape[1]
            yield as_many, "it has as many sums as components and one more, of the mean"
            yield kernel is not None or value.length is not None, "the length of new samples is unknown"
        case Ranking(values=values):
            yield len(values) > 0, "it has no row that was held out"
        case View(surprises=surprises):
            yield len(surprises) == len(WEIGHTS), "it has another number of readings"


def _of_parts(value: Any) -> Conditions:
    match value:
        case Expansion(kernel=k, samples=rows) | Density(kernel=k, samples=rows):
            of_dense = getattr(k, "centre", None) is not None or getattr(k, "differences", False)
            dense = not (of_dense and sp.issparse(rows))
            yield dense, "a kernel that has a centre, or sums differences, takes dense samples"
            positive = not getattr(k, "non_negative", False) or rows.shape[0] == 0 or rows.min() >= 0
            yield positive, "a kernel of features that are not negative has samples that are"
        case Surprise(rows=rows, readings=readings):
            yield len(rows) == len(readings) + 1 > 1, "its numbers of rows are not one more than its readings"
        case Trees(left=left, right=right):
            # Another way might have no end.
            numbers = np.arange(len(left))
            on = ((left > numbers) & (right > numbers)) | ((left == numbers) & (right == numbers))
            yield on.all(), "a node leads to one before it"
        case Categories(levels=levels):
            in_order = list(levels) == sorted(set(levels)) and value.usual < len(levels)
            yield in_order, "its levels are not in order, or the usual one is none of them"
        case Bag(scores=scores, most=most):
            yield 0 < len(scores) <= (most or len(scores)), "its scores must be one at least and no more than it holds"
        case Betting(edges=edges):
            yield len(edges) >= 2 and edges[0] == 0 and edges[-1] == 1, "its edges must go from 0 to 1"
        case Test(wealth=wealth, betting=betting):
            shapes = (N_BETS,), (len(MEMORIES), len(betting.edges) - 1)
            yield (wealth.log_wealth.shape, wealth.counts.shape) == shapes, "its wealth is not that of its bets"
        case Tally():
            within = value.yes <= value.rows and value.new_yes <= value.new_rows < value.width
            yield within, "it counts more than there is"
        case History(points=points):
            yield len(points) < MOST_POINTS, f"it must have fewer than {MOST_POINTS:,} points"
        case Course(tests=tests, tallies=tallies):
            alike = len(tests) <= 2 and len({test.betting.proper for test in tests}) == 1 and len(tallies) == len(RATES)
            yield alike, "it must have one or two tests of one promise, and three tallies"
            wide = value.history.points.shape[1] == 1 + len(tests) + 3 * len(RATES)
            yield wide, "its history is not that of its tests"


def _of_fitted(model: Any) -> Conditions:
    match model:
        case OutlierClassifier(trees_=trees, classifier_=classifier):
            yield (trees is None) != (classifier is None), "has trees and a classifier, or neither"
        case ConformalDetector(estimator_=one, columns_=columns):
            yield hasattr(one, "predict"), "has a detector that cannot predict"
            width = model.n_features_in_ if columns is None else len(columns)
            found = getattr(one, "n_features_in_", width)
            yield found == width, f"has a detector of {found:,} features, where {width:,} are expected"


kinds.CONDITIONS.extend((_of_models, _of_parts, _of_fitted))
