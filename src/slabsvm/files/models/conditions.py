"""What must hold of a value as a whole, each part of which is what it should be, and what is said where it does not.

Compiled code and searches by halves believe what they are given: places, orders and counts that belong together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

from slabsvm.conformal.p_values import Segment
from slabsvm.detectors.kernel_density import Density
from slabsvm.detectors.kernel_pca import Subspace
from slabsvm.ensemble.combination import Combination, CombinedModel
from slabsvm.ensemble.dependence import DependenceModel
from slabsvm.ensemble.known import OutlierClassifier, Trees
from slabsvm.ensemble.ranks import NormalScores, Surprise
from slabsvm.ensemble.windowed import Window
from slabsvm.fitted.model import SupportVectorModel
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.features import Landmarks
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.tables import Chi2Table, IntersectionTable
from slabsvm.monitoring.betting import MEMORIES, N_BETS, Bag, Betting
from slabsvm.monitoring.course import MOST_POINTS, RATES, Course, History, Tally, Test
from slabsvm.tables.columns import Categories
from slabsvm.tables.encoder import TableEncoder

Conditions = Iterator[tuple[Any, str]]
GROUPED = "groups infrequent categories, which is not kept"


def broken(value: Any) -> str:
    """Return what is said of the first condition that does not hold of a value; nothing where all hold."""
    conditions = chain(_of_models(value), _of_parts(value), _of_monitors(value), _of_steps(value))
    return next((text for holds, text in conditions if not holds), "")


def ascending(values: npt.NDArray[Any]) -> bool:
    """Return whether none of some numbers is less than the one before it, of which several may be the same infinity."""
    return bool((values[1:] >= values[:-1]).all())


def _add_up(counts: npt.NDArray[Any], values: npt.NDArray[Any]) -> bool:
    """Return whether counts are those of stretches of values; their sum alone might overflow."""
    return bool(counts.min(initial=0) >= 0 and counts.max(initial=0) <= len(values) == counts.sum())


def _of_models(value: Any) -> Conditions:
    match value:
        case SupportVectorModel(kernel=kernel, expansion=sums):
            planes = value.boundary.get("planes_")
            by_mass = isinstance(sums, Expansion) and kernel is not None and kernel.local
            may = by_mass or planes is None or not planes.scores_by_mass
            yield may, "its score is that of a local kernel, and its kernel is another"
            known = not isinstance(sums, Expansion) or value.support.samples.max(initial=0) < len(sums.coefficients)
            yield known, "a support vector is not among its samples"
        case Subspace():
            n_sums = value.expansion.coefficients.shape[1]
            yield len(value.sums) + 1 == n_sums, "it has as many sums as components and one more, of the mean"
            yield value.kernel is not None or value.length is not None, "the length of new samples is unknown"
        case DependenceModel(regressions=regressions):
            yield (regressions.scale > 0).all(), "a feature's deviation is not positive"
            as_many = len(value.surprises) == len(regressions.targets)
            yield as_many, "it has another number of surprises than of targets"
        case CombinedModel(combination=inner):
            # It is written inline, and read with its model.
            yield from _of_models(inner)
        case Combination():
            for number, member in enumerate(value.members):
                yield member.n_surprises in (0, number), "a member takes what another number of members say"
                yield member.view < len(value.views), "a member takes a view that there is not"
                kernel = getattr(getattr(member.detector, "model_", None), "kernel", None)
                yield kernel is None or isinstance(kernel, RBF), "its members have the RBF kernel"
                fits = member.columns is None or len(member.columns) == member.detector.n_features_in_
                yield fits, "a member takes another number of features"


def _of_parts(value: Any) -> Conditions:
    match value:
        case (
            Expansion(kernel=kernel, samples=rows)
            | Density(kernel=kernel, samples=rows)
            | Landmarks(kernel=kernel, rows=rows)
        ):
            of_dense = getattr(kernel, "centre", None) is not None or getattr(kernel, "differences", False)
            text = "a kernel that has a centre, or sums differences, takes dense samples"
            yield not (of_dense and sp.issparse(rows)), text
        case IntersectionTable(counts=counts, values=knots):
            yield _add_up(counts, knots), "the counts of knots do not add up to these"
            first = np.zeros(len(knots), dtype=bool)
            first[(np.cumsum(counts) - counts)[counts > 0]] = True
            in_order = (first[1:] | (np.diff(knots) > 0)).all() and knots.min(initial=1.0) > 0
            yield in_order, "each feature's knots must be positive and in ascending order"
        case Chi2Table(counts=counts, knots=knots):
            from slabsvm.compiled.lookup import TOGETHER

            whole = _add_up(counts, knots) and not (counts % TOGETHER).any()
            yield whole, "the counts of knots do not add up to these"
            yield (knots > 0).all() and (value.scales > 0).all(), "a knot or a scale is not positive"
        case Surprise(shares=shares):
            known = len(shares.rows) == len(shares.scores) + 1 > 1
            in_order = known and ascending(shares.scores) and ascending(shares.rows)
            yield in_order, "its scores and numbers of rows are not in order"
        case Trees(left=left, right=right):
            # Another way might have no end.
            numbers = np.arange(len(left))
            on = ((left > numbers) & (right > numbers)) | ((left == numbers) & (right == numbers))
            yield on.all(), "a node leads to one before it"
        case Segment(values=values, weights=weights):
            text = "its values must be in order, and its weights not negative"
            yield ascending(values) and (weights >= 0).all(), text
        case Window(numbers=numbers, weights=weights):
            text = "its weights must not be negative, and its numbers in order, from 0 on"
            yield (weights >= 0).all() and (np.diff(numbers, prepend=-1) > 0).all(), text
        case Categories(levels=levels):
            in_order = list(levels) == sorted(set(levels)) and value.usual < len(levels)
            yield in_order, "its levels are not in order, or the usual one is none of them"


def _of_monitors(value: Any) -> Conditions:
    match value:
        case Bag(scores=scores):
            text = "its scores must be in order, one at least and no more than it holds"
            yield 0 < len(scores) <= (value.most or len(scores)) and ascending(scores), text
        case Betting(edges=edges):
            from_0_to_1 = len(edges) >= 2 and edges[0] == 0 and edges[-1] == 1 and (np.diff(edges) > 0).all()
            yield from_0_to_1, "its edges must go from 0 to 1"
        case Test(wealth=wealth, betting=betting):
            yield (wealth.counts >= 0).all(), "its counts must not be negative"
            shapes = (N_BETS,), (len(MEMORIES), len(betting.edges) - 1)
            yield (wealth.log_wealth.shape, wealth.counts.shape) == shapes, "its wealth is not that of its bets"
        case Tally():
            within = value.yes <= value.rows and value.new_yes <= value.new_rows < value.width
            yield within, "it counts more than there is"
        case History():
            yield len(value.points) < MOST_POINTS, f"it must have fewer than {MOST_POINTS:,} points"
        case Course(tests=tests):
            alike = len(tests) <= 2 and len({test.betting.proper for test in tests}) == 1
            text = "it must have one or two tests of one promise, and three tallies"
            yield alike and len(value.tallies) == len(RATES), text
            width = 1 + len(tests) + 3 * len(RATES)
            yield value.history.points.shape[1] == width, "its history is not that of its tests"


def _of_steps(model: Any) -> Conditions:
    """Give the conditions of estimators, which may not be fitted."""
    match model:
        case Pipeline():
            # Nothing validates a pipeline's steps before a fit.
            pairs = isinstance(model.steps, list) and model.steps and all(map(_is_pair, model.steps))
            yield pairs, "must have steps: pairs of a name and an estimator"
            transform = (hasattr(step, "transform") or not hasattr(step, "get_params") for _, step in model.steps[:-1])
            yield all(transform), "has a step that transforms nothing before others"
            yield len({name for name, _ in model.steps}) == len(model.steps), "has two steps of one name"
        case OneHotEncoder():
            yield getattr(model, "infrequent_categories_", None) is None, GROUPED
        case SVC():
            yield model.kernel != "precomputed", "has kernel='precomputed', which is not kept"
        case OutlierClassifier(trees_=trees, classifier_=classifier):
            yield (trees is None) != (classifier is None), "has trees and a classifier, or neither"
        case LogisticRegression(classes_=classes, coef_=coef):
            k = len(classes)
            yield k >= 2 and len(coef) == (1 if k == 2 else k), "has no weights for each class"
        case NormalScores(values_=values, scores_=scores):
            both = zip(values, scores, strict=True)
            alike = all(len(v) == len(s) > 0 and (np.diff(v) > 0).all() and ascending(s) for v, s in both)
            yield alike, "has values and scores that do not ascend together"
            yield (model.scale_ > 0).all(), "has a scale that is not positive"
        case TableEncoder(columns_=columns):
            names = [column.name for column in columns]
            known = len(set(names)) == len(names) and set(names) <= set(getattr(model, "feature_names_in_", ()))
            yield known, "has columns that its table has not"


def _is_pair(step: Any) -> bool:
    known = isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str)
    return known and (step[1] in (None, "passthrough") or hasattr(step[1], "get_params"))
