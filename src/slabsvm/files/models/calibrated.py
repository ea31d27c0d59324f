"""How what is made of detectors is kept: calibrated, trimmed and windowed ones, classifiers, pipelines, monitors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import Ranking, Segment
from slabsvm.ensemble.windowed import Window, WindowedDetector
from slabsvm.files.models.archive import At
from slabsvm.files.models.estimators import Entry, Estimator, Values
from slabsvm.files.models.kinds import (
    FLOATS,
    Array,
    Flag,
    ForTraining,
    Kind,
    Labels,
    Later,
    Many,
    Maybe,
    Number,
    Places,
    Record,
    Rows,
    Scalar,
    Text,
    Whole,
)
from slabsvm.monitoring.betting import MEMORIES, Bag, Betting, Wealth
from slabsvm.monitoring.course import MOST_POINTS, RATES, Course, History, Tally, Test
from slabsvm.monitoring.scoring import HELD_OUT, LEFT_OUT
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.classwise import ClassRows, NormalisedMargin
from slabsvm.openset.joint import ByClassifier, Detectors, Fold

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


class TrainingRows(Kind):
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
        "X": TrainingRows(),
        "weights": Maybe(Array("rows")),
        "held_out": Many(Places("held out", below="rows")),
    },
)


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
            take=lambda naming, part: (
                [fold.classifier for fold in naming.folds] if part == "classifiers" else getattr(naming, part)
            ),
        )
    ),
    "rows": ForTraining(Many(ROWS)),
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
    detectors = [Detectors.of(one) for one in models]
    folds = [Fold(place, one, detectors, classes) for place, one in enumerate(model.classifiers_)]
    model.naming_ = ByClassifier(models, classes, parts["rows"], folds, joint["confidence"], joint["held_out"])


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
    # The next update starts from nothing.
    model.offset_, model._start = estimator.offset_, None


CALIBRATED = (
    Entry(
        "slabsvm.ConformalDetector",
        CONFORMAL,
        # A detector that came fitted is kept once, as the parameter that it is.
        where={"estimators": lambda model: None if model.estimators_[0] is model.estimator else model.estimators_},
        give=_give_conformal,
        doubt=_doubt_conformal,
    ),
    Entry("slabsvm.TrimmedDetector", TRIMMED),
    Entry("slabsvm.WindowedDetector", WINDOWED, where={"window": "_window"}, give=_give_windowed),
    Entry(
        "slabsvm.OpenSetClassifier",
        OPEN_SET,
        where={"joint": lambda model: model.naming_ if isinstance(model.naming_, ByClassifier) else None},
        give=_give_open_set,
    ),
    Entry("slabsvm.openset.classwise.NormalisedMargin", MARGIN, features=False),
    Entry("slabsvm.DistinctKFold", {}),
    Entry("sklearn.model_selection.KFold", {}),
    # A pipeline's cache is a folder of pickles.
    Entry("sklearn.pipeline.Pipeline", {}, doubt=_doubt_pipeline, left_out=("memory",)),
)


# Streams have no more rows than counts of them are exact in float64.
MOST_ROWS = 2**53
COUNT = Whole(most=MOST_ROWS)


def _bag(scores: Any, most: int | None, seed: int, n_ranked: int) -> Bag:
    if not len(scores) or (np.diff(scores) < 0).any() or (most is not None and len(scores) > most):
        raise ValueError("its scores must be in order, one at least and no more than it holds")
    return Bag(scores, most, seed, n_ranked)


def _betting(edges: Any, proper: bool) -> Betting:
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise ValueError("its edges must go from 0 to 1")
    return Betting(edges, proper)


def _wealth(log_value: float, **parts: Any) -> Wealth:
    if (parts["counts"] < 0).any():
        raise ValueError("its counts must not be negative")
    return Wealth(log_value=np.asarray(log_value), **parts)


def _test(bag: Bag, betting: Betting, wealth: Wealth) -> Test:
    if wealth.log_wealth.shape != (betting.n_bets,) or wealth.counts.shape != (len(MEMORIES), len(betting.edges) - 1):
        raise ValueError("its wealth is not that of its bets")
    return Test(bag, betting, wealth)


def _tally(**parts: int) -> Tally:
    found = Tally(**parts)
    if found.yes > found.rows or found.new_yes > found.new_rows or found.new_rows >= found.width:
        raise ValueError("it counts more than there is")
    return found


def _history(stride: int, points: Any) -> History:
    if len(points) >= MOST_POINTS:
        raise ValueError(f"it must have fewer than {MOST_POINTS:,} points")
    return History(stride, points)


def _course(tests: list[Test], tallies: list[Tally], history: History, **parts: Any) -> Course:
    if len(tests) > 2 or len(tallies) != len(RATES) or len({test.betting.proper for test in tests}) > 1:
        raise ValueError("it must have one or two tests of one promise, and three tallies")
    if history.points.shape[1] != 1 + len(tests) + 3 * len(RATES):
        raise ValueError("its history is not that of its tests")
    return Course(tuple(tests), parts.pop("log_level"), tuple(tallies), history, **parts)


TEST = Record(
    _test,
    {
        "bag": Record(
            _bag,
            {
                "scores": Array("scores", holds="numbers"),
                "most": Maybe(Whole(least=1)),
                "seed": Whole(most=2**32),
                "n_ranked": COUNT,
            },
        ),
        "betting": Record(_betting, {"edges": Array("edges"), "proper": Flag()}),
        "wealth": Record(
            _wealth,
            {
                "n_rows": COUNT,
                "log_wealth": Array("bets", holds="numbers"),
                "counts": Array("memories", "bins"),
                "log_value": Number(finite=False),
            },
            take=lambda wealth, part: float(wealth.log_value) if part == "log_value" else getattr(wealth, part),
        ),
    },
)
COUNTS = ("block", "rows", "yes", "new_rows", "new_yes")
MONITOR: dict[str, Kind] = {
    "reference": Text(HELD_OUT, LEFT_OUT),
    "n_reference": COUNT,
    "unit": Number(above=0.0),
    "course": Record(
        _course,
        {
            "tests": Many(TEST, least=1),
            "log_level": Number(),
            "tallies": Many(Record(_tally, {"width": Whole(least=1), **dict.fromkeys(COUNTS, COUNT)})),
            "history": Record(
                _history, {"stride": Whole(least=1), "points": Array("points", "values", holds="numbers")}
            ),
            "n_rows": COUNT,
            "n_alarms": COUNT,
            "alarm_row": COUNT,
        },
    ),
}

MONITORS = (Entry("slabsvm.DriftMonitor", MONITOR, features=False),)
