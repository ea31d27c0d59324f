"""How what is made of detectors is kept: calibrated, trimmed, windowed, with "unknown" as an answer, pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import Ranking, Segment
from slabsvm.detectors.windowed import Window, WindowedDetector
from slabsvm.files.models.archive import At
from slabsvm.files.models.arrays import FLOATS, Array, Labels, Places, Rows
from slabsvm.files.models.estimators import Entry, Estimator, Values
from slabsvm.files.models.kinds import ForTraining, Kind, Later, Many, Maybe, Number, Record, Scalar, Whole
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.classwise import NormalisedMargin
from slabsvm.openset.joint import ByClassifier, Detectors, Fold
from slabsvm.openset.rows import ClassRows

NUMBERS = (*FLOATS, "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1")
FITTED = Estimator(fitted=True, answers="predict")


def _segment(values: Any, weights: Any) -> Segment:
    if (np.diff(values) < 0).any() or (weights < 0).any():
        raise ValueError("its values must be in order, and its weights not negative")
    return Segment(values, weights)


SEGMENT = Record(_segment, {"values": Array("held out", holds="numbers"), "weights": Array("held out")}, apart=True)
RANKING = Record(Ranking, {"far": SEGMENT, "near": SEGMENT})

CONFORMAL: dict[str, Kind] = {
    "estimators": Maybe(Many(Estimator(fitted=True, features="", answers="predict"), names="members", least=1)),
    "calibration_scores": Many(Array("scores", holds="numbers")),
    "rankings": Many(RANKING, names="members", least=1),
    "columns": Many(Maybe(Places("columns", below="d")), names="members"),
    "held_out": ForTraining(Many(Array("held out", dtype=("i8",)), names="members")),
    "n_calibration": Whole(),
    "out_of_reach": Number(),
    "offset": Number(),
    "far_p_value": Number(finite=False),
    "repeats": Later(Number()),
}
_PRIVATE = {"rankings", "columns", "held_out", "repeats"}


def _conformal_part(model: ConformalDetector, part: str) -> Any:
    # A detector that came fitted is kept once, as the parameter that it is.
    if part == "estimators" and model.estimators_[0] is model.estimator:
        return None
    return getattr(model, f"_{part}" if part in _PRIVATE else f"{part}_", None)


def _give_conformal(model: ConformalDetector, parts: Values) -> None:
    if parts["estimators"] is None:
        parts["estimators"] = [model.estimator]
    model.__dict__.update({f"_{name}" if name in _PRIVATE else f"{name}_": value for name, value in parts.items()})


def _doubt_conformal(model: ConformalDetector) -> str:
    if "estimators_" not in vars(model):
        return ""
    if len(model.estimators_) != len(model._rankings):
        return "has no calibration for each of its detectors"
    for detector, columns in zip(model.estimators_, model._columns, strict=True):
        if not hasattr(detector, "predict"):
            return "has a detector that cannot predict"
        features = model.n_features_in_ if columns is None else len(columns)
        if getattr(detector, "n_features_in_", features) != features:
            return f"has a detector of {detector.n_features_in_:,} features, where {features:,} are expected"
    return ""


class Table(Kind):
    """Training rows of any number type; a frame is refused."""

    def write(self, value: Any, at: At) -> Any:
        """Return where the rows are."""
        if not sp.issparse(value) and not isinstance(value, np.ndarray):
            at.refuse(
                f"are training rows in a {type(value).__name__}, which is not kept. Use save(model, path, "
                "training=False), which leaves them out, or fit on arrays"
            )
        return _TABLE.write(value, at)

    def read(self, node: Any, at: At) -> Any:
        """Return the rows."""
        return _TABLE.read(node, at)


_TABLE = Rows("rows", "d", dtype=NUMBERS)

ROWS = Record(
    ClassRows,
    {
        "X": Table(),
        "weights": Maybe(Array("rows")),
        "held_out": Many(Places("held out", below="rows")),
    },
)


def _joint_part(naming: ByClassifier, part: str) -> Any:
    return [fold.classifier for fold in naming.folds] if part == "classifiers" else getattr(naming, part)


OPEN_SET: dict[str, Kind] = {
    "classes": Labels("classes"),
    "unknown_label": Scalar(),
    "seed": Whole(most=2**32),
    "models": Many(
        Estimator("slabsvm.ConformalDetector", "slabsvm.openset.classwise.NormalisedMargin", fitted=True),
        names="classes",
        least=1,
    ),
    "joint": Maybe(
        Record(
            dict,
            {
                "classifiers": Many(FITTED, names="folds", least=1),
                "confidence": RANKING,
                "held_out": Many(RANKING, names="folds"),
            },
            take=_joint_part,
        )
    ),
    "rows": ForTraining(Many(ROWS)),
}


def _open_set_part(model: OpenSetClassifier, part: str) -> Any:
    if part == "joint":
        return model._naming if isinstance(model._naming, ByClassifier) else None
    return getattr(model, f"_{part}" if part in {"seed", "rows"} else f"{part}_")


def _give_open_set(model: OpenSetClassifier, parts: Values) -> None:
    classes, models, joint = parts["classes"], parts["models"], parts["joint"]
    model._rows = parts["rows"] or []
    model.classes_, model.models_ = classes, models
    model.unknown_label_, model._seed = parts["unknown_label"], parts["seed"]
    if (joint is None) != (model.classifier is None):
        raise ValueError("it has a classifier without what this has learned, or the other way round")
    kept = NormalisedMargin if model.calibration == "margin" and joint is None else ConformalDetector
    if not all(type(one) is kept for one in models):
        raise ValueError(f"its models are not all {kept.__name__}, as calibration={model.calibration!r} makes them")
    if joint is None:
        model._naming = model._naming_type(models, classes)
        return
    model.classifiers_ = joint["classifiers"]
    if not all(hasattr(one, "classes_") for one in model.classifiers_):
        raise ValueError("its classifier has learned no classes")
    detectors = [Detectors.of(one) for one in models]
    folds = [Fold(place, one, detectors, classes) for place, one in enumerate(model.classifiers_)]
    model._naming = ByClassifier(models, classes, model._rows, folds, joint["confidence"], joint["held_out"])


MARGIN: dict[str, Kind] = {"estimator": FITTED, "depth": Number(above=0.0), "far_margin": Number(finite=False)}


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


TRIMMED: dict[str, Kind] = {
    "estimator": FITTED,
    "offset": Number(),
    "n_rounds": Whole(1),
    "decisions": ForTraining(Array("rows", holds="numbers")),
    "trimmed": ForTraining(Places("trimmed", below="rows")),
}


def _window(**parts: Any) -> Window:
    if (parts["weights"] < 0).any() or (np.diff(parts["numbers"], prepend=-1) <= 0).any():
        raise ValueError("its weights must not be negative, and its numbers in order, from 0 on")
    return Window(**parts)


WINDOWED: dict[str, Kind] = {
    "estimator": Estimator("slabsvm.OneClassSlabSVM", "slabsvm.OneClassSVM", "slabsvm.SVDD", fitted=True),
    "n_seen": Whole(),
    "window": ForTraining(
        Record(
            _window,
            {"X": Rows("rows", "d"), "weights": Array("rows"), "numbers": Array("rows", dtype=("i8",))},
        )
    ),
}


def _give_windowed(model: WindowedDetector, parts: Values) -> None:
    estimator, window, n_seen = parts["estimator"], parts["window"], parts["n_seen"]
    if window is not None and (len(window) != estimator.n_samples_fit_ or window.numbers.max(initial=0) >= n_seen):
        raise ValueError("its rows are not those that its estimator has learned, of all that it has seen")
    model.estimator_, model.offset_, model.n_seen_ = estimator, estimator.offset_, n_seen
    # The next update starts from nothing.
    model._window, model._start = window, None


CALIBRATED = (
    Entry("slabsvm.ConformalDetector", CONFORMAL, take=_conformal_part, give=_give_conformal, doubt=_doubt_conformal),
    Entry("slabsvm.TrimmedDetector", TRIMMED),
    Entry(
        "slabsvm.WindowedDetector",
        WINDOWED,
        take=lambda model, part: getattr(model, "_window" if part == "window" else f"{part}_"),
        give=_give_windowed,
    ),
    Entry("slabsvm.OpenSetClassifier", OPEN_SET, take=_open_set_part, give=_give_open_set),
    Entry("slabsvm.openset.classwise.NormalisedMargin", MARGIN, features=False),
    Entry("slabsvm.DistinctKFold", {}),
    Entry("sklearn.model_selection.KFold", {}),
    # A pipeline's cache is a folder of pickles.
    Entry("sklearn.pipeline.Pipeline", {}, doubt=_doubt_pipeline, left_out=("memory",)),
)
