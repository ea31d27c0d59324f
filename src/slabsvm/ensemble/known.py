"""A few known outliers: a classifier separates them from the positives, as one term of `AutoDetector`'s score.

The classifier learns all known outliers, and in each of ten or twenty folds all positives but the fold's: what it says
of the fold's is their left-out score, since each meets the same outliers as new positives will. So positives alone
decide what is usual, and the recall of new ones is kept. The classifier takes the features alone. What neighbours say
of a training row without itself is not quite what they say of a new row, and trees see that: with ten outliers at +.7
in three features they accepted .615 of new positives for .9. docs/results/known-outliers.md has the measurements.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from slabsvm.data.checks import canonical
from slabsvm.data.distinct import distinct_rows, groups_of
from slabsvm.detectors.base import Detector, checked_rows, parameters
from slabsvm.fitted.explanation import Explanation, of_distances
from slabsvm.fitted.training import FOLDS, Training
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray, IntArray, dense, pieces, stacked
from slabsvm.runtime.estimators import HasMethods


@dataclass(frozen=True)
class Trees:
    """Trees of decisions, by arrays: how likely a row is a positive, as the mean over trees of what its leaves say."""

    # Which feature decides at a node, and up to which threshold rows, in float32 as scikit-learn takes them, go left
    features: IntArray  # (n_nodes,)
    thresholds: FloatArray  # (n_nodes,)
    # The next nodes, which have larger numbers; a leaf is its own next node
    left: IntArray  # (n_nodes,)
    right: IntArray  # (n_nodes,)
    values: FloatArray  # (n_nodes,): the share of positives, which counts in a leaf
    roots: IntArray  # (n_trees,)

    @classmethod
    def of(cls, trees: Iterable[Any]) -> Trees:
        """Return what fitted trees of scikit-learn have learned together, of two classes."""
        trees = [one.tree_ for one in trees]
        firsts = np.cumsum([0, *(tree.node_count for tree in trees)])
        numbers = np.arange(firsts[-1])

        def joined(name: str) -> Any:
            return np.concatenate([getattr(tree, name) for tree in trees])

        leaf, first = joined("children_left") < 0, np.repeat(firsts[:-1], np.diff(firsts))
        # Of each class how much of it is in a node, or the mean of 0 and 1.
        values = joined("value")[:, 0, :]
        shares = values[:, 1] / values.sum(axis=1) if values.shape[1] == 2 else values[:, 0]
        return cls(
            roots=firsts[:-1].astype(np.int64),
            features=np.where(leaf, 0, joined("feature")).astype(np.int64),
            thresholds=np.where(leaf, 0.0, joined("threshold")),
            left=np.where(leaf, numbers, joined("children_left") + first).astype(np.int64),
            right=np.where(leaf, numbers, joined("children_right") + first).astype(np.int64),
            values=np.ascontiguousarray(shares),
        )

    @property
    def used(self) -> IndexArray:
        """The features that decide anywhere."""
        return np.unique(self.features[self.left > np.arange(len(self.left))])

    def __call__(self, X: Any) -> FloatArray:
        """Return the mean share of positives in the leaves of each row, (n,)."""
        found, n_trees = np.empty(X.shape[0]), len(self.roots)
        # At most 2^18 pairs of a row and a tree are scored at once.
        for rows in pieces(X.shape[0], max(n_trees, X.shape[1]), 2**18):
            some = _single(dense(X[rows]))
            at = np.tile(self.roots, len(some))
            going = np.arange(len(at))
            while len(going):
                node = at[going]
                high = some[going // n_trees, self.features[node]] > self.thresholds[node]
                at[going] = after = np.where(high, self.right[node], self.left[node])
                # What follows has a larger number: a file that says otherwise leads round no circle.
                going = going[after > node]
            found[rows] = self.values[at].reshape(-1, n_trees).mean(axis=1)
        return found


@parameters
class OutlierClassifier(BaseEstimator):
    """A classifier as a detector: a row's score is how sure it is that the row is no outlier."""

    # Any of scikit-learn's with decision_function or predict_proba; None: 100 extra trees
    classifier: Any = None
    random_state: int = 0  # the seed of the default

    # What extra trees or a random forest have learned, which is all that a prediction needs; any other, fitted
    trees_: Trees | None = field(init=False)
    classifier_: Any | None = field(init=False)
    # (n_features,): the median of each feature among the positives, 0 for sparse rows; and by how much a positive's
    # score grows on average where the feature becomes typical
    typical_: FloatArray = field(init=False)  # (d,)
    usual_: FloatArray = field(init=False)  # (d,)
    reference_: float = field(init=False)  # the score of a usual positive

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "classifier": [HasMethods("fit"), None],
        "random_state": [int],
    }

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn positives (y = 1) and outliers (y = -1), of one weight in all where the classifier takes weights."""
        self.learn(X, y, sample_weight)
        good = X[np.asarray(y) == 1]
        self.typical_ = np.zeros(X.shape[1]) if sp.issparse(X) else np.median(good, axis=0).astype(np.float64)
        self.usual_ = self._gained(good[:64]).mean(axis=0)
        self.reference_ = float(np.median(self.score_samples(good)))
        return self

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit but for what explanations need."""
        y, weights = np.asarray(y), np.ones(len(y)) if sample_weight is None else np.array(sample_weight)
        for label in (-1, 1):
            weights[y == label] *= 0.5 * len(y) / weights[y == label].sum()
        rows, self.trees_, self.classifier_ = _single(X), None, None
        self.n_features_in_ = X.shape[1]
        if self.classifier is None:
            self.trees_ = Trees.of(_extra_trees(rows, y, weights, self.random_state))
        else:
            fitted = clone(self.classifier)
            fitted.fit(rows, y, **({"sample_weight": weights} if has_fit_parameter(fitted, "sample_weight") else {}))
            if type(fitted).__module__ == "sklearn.ensemble._forest":
                self.trees_ = Trees.of(fitted.estimators_)
            else:
                self.classifier_ = fitted
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Return how sure the classifier is that each row is no outlier, shape (n_samples,)."""
        check_is_fitted(self)
        return _confidence(self.classifier_, _single(X)) if self.trees_ is None else self.trees_(X)

    def explanation(self, X: Any) -> Explanation:
        """Return what each feature adds to the scores of rows."""
        return of_distances(self._gained(X), self.usual_, self.score_samples(X), reference=self.reference_)

    def _gained(self, X: Any) -> FloatArray:
        """Return by how much each row's score would grow, (n, d), if one of its features were typical."""
        X = dense(X).astype(np.float64)
        found, own = np.zeros(X.shape), self.score_samples(X)
        for feature in range(X.shape[1]) if self.trees_ is None else self.trees_.used:
            values = X[:, feature].copy()
            X[:, feature] = self.typical_[feature]
            found[:, feature] = np.maximum(self.score_samples(X) - own, 0.0)
            X[:, feature] = values
        return found


def share_of(n_known: int) -> float:
    """Return the classifier's share of the sum, of a number of distinct known outliers: a third of one, .6 of many.

    With more of it unlabelled kinds of outliers would be lost.
    """
    return 3 * n_known / (5 * n_known + 4)


def left_out(
    detector: OutlierClassifier,
    rows: Any,
    outliers: Any,
    weights: FloatArray,
    *,
    units: IndexArray,
    stays: FloatArray,
    keys: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]],
    done: Callable[[], object],
) -> FloatArray:
    """Fit a classifier to positives of positive weight and outliers; return each row's score, (n,), without its unit.

    units, (n,), numbers what is in one fold: a distinct row, or a group. stays, (n,), is the share of a row that stays
    where one of its copies leaves. keys, of rows and of outliers, say which are equal: where the last copy of a row
    leaves, an outlier that equals it is not learned, since new positives seldom equal one. done is called after each
    fold. What the classifier warns of in folds it says of all rows, too.
    """

    def learned(fit: Callable[..., OutlierClassifier], kept: FloatArray, known: BoolArray) -> OutlierClassifier:
        some, n = np.flatnonzero(kept * weights), int(known.sum())
        X = stacked([rows[some], outliers[known]])
        return fit(X, np.repeat([1, -1], [len(some), n]), np.append((weights * kept)[some], np.ones(n)))

    scores, every = np.empty(rows.shape[0]), np.ones(outliers.shape[0], dtype=bool)
    fold = np.unique(units, return_inverse=True)[1] % n_folds(units)
    for number in range(n_folds(units)):
        out = fold == number
        if out.any():
            kept = np.where(out, stays, 1.0)
            known = ~np.isin(keys[1], keys[0][kept == 0])
            with warnings.catch_warnings(action="ignore"):
                model = learned(clone(detector).learn, kept, known if known.any() else every)
            scores[out] = model.score_samples(rows[out])
        done()
    learned(detector.fit, np.ones(len(scores)), every)
    detector.reference_ = float(np.median(scores))
    done()
    return scores


def drawn_of_units(units: IndexArray, most: int, generator: np.random.Generator) -> BoolArray:
    """Return a mask of at most `most` rows at random, (n,), of which no more than half are of one unit."""
    if len(units) <= most:
        return np.ones(len(units), dtype=bool)
    place = generator.permutation(len(units))
    order = np.lexsort((place, units))
    within = np.empty(len(units), dtype=np.intp)
    within[order] = np.arange(len(units)) - np.searchsorted(units[order], units[order])
    some = np.flatnonzero(within < most // 2)
    drawn = np.zeros(len(units), dtype=bool)
    drawn[some[np.argsort(place[some])[:most]]] = True
    return drawn


def n_folds(units: IndexArray) -> int:
    """Return in how many parts positives are left out: up to 200 in twice as many."""
    return 2 * FOLDS if len(units) <= 200 else FOLDS


def labelled(estimator: Detector, rows: Any, name: str) -> Any:
    """Return rows that someone has labelled as distinct rows, validated: float64, (k, d) dense or CSR."""
    if hasattr(rows, "columns") and not hasattr(estimator, "feature_names_in_"):
        raise ValueError(
            f"{name} has named columns, and X has none. In a pipeline only X passes through the earlier steps. Give "
            f"{name} as these return it, pipeline[:-1].transform({name}), or build the pipeline with "
            f'transform_input=["{name}"] (docs/how-to/known-outliers.md).'
        )
    try:
        found = checked_rows(estimator, rows, reset=False, least=1)
    except ValueError as error:
        text = str(error).removeprefix("Input ").removeprefix("X ")
        raise ValueError(f"{name} {text}" if text != str(error) else f"{name}: {error}") from error
    return found[distinct_rows(found, np.ones(found.shape[0])).representatives]


def joined(training: Training, positives: Any) -> Training:
    """Return what there is to learn with further positives, by which nothing is judged; each is a group of its own.

    Those that equal rows of X are learned already: copies would say that new rows repeat.
    """
    known = distinct_rows(positives, np.ones(positives.shape[0]))
    positives = positives[~np.isin(known.keys[known.inverse], training.distinct.keys)]
    if not positives.shape[0]:
        return training
    n, count = positives.shape[0], training.groups.count if training.groups is not None else 0
    X = stacked([training.X, positives.astype(training.X.dtype)])
    X = canonical(X) if sp.issparse(X) else X
    each, kept = training.rows_each, training.weights > 0
    # Where weights are counts each is one row. Of others it has one that there is: whole multiples stay such.
    units = training.weights[kept] if each is None else training.weights[kept] / each[kept]
    weights = np.append(training.weights, np.full(n, np.percentile(units, 50, method="lower")))
    distinct = distinct_rows(X, weights)
    names = None if training.names is None else np.append(training.names, count + np.arange(n))
    groups = None if names is None else groups_of(names, distinct, weights)
    each = None if each is None else np.append(each, np.ones(n))
    return replace(
        training, X=X, weights=weights, distinct=distinct, groups=groups, calibration_rows=training, rows_each=each
    )


def _extra_trees(rows: Any, y: Any, weights: FloatArray, seed: int) -> list[Any]:
    """Return fitted trees, of (n, d) float32, as ExtraTreesClassifier makes them, in half of its time: squared errors
    of 0 and 1 are half of Gini's impurity.
    """
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    if sp.issparse(rows):
        columns = sp.csc_array(rows)
        # Trees take indices of 32 bits alone, and SciPy before 1.15 makes others.
        places = (columns.indices.astype(np.int32), columns.indptr.astype(np.int32))
        rows = sp.csc_array((columns.data, *places), shape=columns.shape)
    else:
        rows = np.ascontiguousarray(rows)
    is_positive = (y == 1).astype(np.float64)[:, None]
    with config_context(skip_parameter_validation=True, assume_finite=True):
        return [
            ExtraTreeRegressor(min_samples_leaf=2, max_features=0.5, random_state=int(one)).fit(
                rows, is_positive, sample_weight=weights, check_input=False
            )
            for one in np.random.default_rng(seed).integers(2**31 - 1, size=100)
        ]


def _confidence(classifier: Any, X: Any) -> FloatArray:
    """Return how sure a fitted classifier of -1 and 1 is of 1, (n,)."""
    if hasattr(classifier, "decision_function"):
        return np.asarray(classifier.decision_function(X), dtype=np.float64)
    if hasattr(classifier, "predict_proba"):
        return np.asarray(classifier.predict_proba(X)[:, 1], dtype=np.float64)
    raise ValueError(
        f"{type(classifier).__name__} has neither decision_function nor predict_proba, so it cannot say how sure it "
        "is. Give another classifier, such as ExtraTreesClassifier()."
    )


def _single(X: Any) -> Any:
    """Return rows, (n, d) dense or sparse, as scikit-learn's trees take them: float32, and dense ones finite."""
    largest = float(np.finfo(np.float32).max)
    return (X if sp.issparse(X) else np.clip(X, -largest, largest)).astype(np.float32)
