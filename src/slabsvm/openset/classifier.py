"""Open-set recognition: one detector for each known class, and "none of them" as an answer.

Scores of different models have different units, and are compared as conformal p-values, class by class (Mondrian: Vovk,
Gammerman, Shafer 2005). `slabsvm.openset.rules` says how the models decide, alone or with a classifier. What may be the
label of a class, or of rows of none, is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import assert_all_finite, check_consistent_length, check_is_fitted, column_or_1d

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.detectors.answers import Wrapping, refuse_classifier
from slabsvm.detectors.base import parameters
from slabsvm.fitted.training import checked_weights, fit_with, routed
from slabsvm.fitted.warnings import FitWarning
from slabsvm.openset.rules import ClassifierRule, DetectorRule, best_classes, listed, warnings_of_classes
from slabsvm.runtime.arrays import FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import parallel
from slabsvm.runtime.caller import Warned, gathered, warn
from slabsvm.runtime.estimators import (
    HasMethods,
    Interval,
    _check_method_params,
    _fit_context,
    _num_samples,
    _safe_indexing,
    atomic,
    seed_of,
)


@parameters
class OpenSetClassifier(ClassifierMixin, Wrapping):
    """A classifier that predicts one of the learned classes, or says that a sample belongs to none of them.

    One clone of the estimator learns each class from that class's samples alone. A sample gets the class whose model
    finds it most normal, and is unknown if all models reject it. With `classifier`, a sample gets the class of which
    the classifier and the class's model together are surest, and is unknown if they are less sure than of known
    samples.

    Parameters
    ----------
    estimator : detector, default=None
        A detector, or a pipeline that ends in one; its kernel must not be precomputed. None is `OneClassSlabSVM()`.
    classifier : classifier, default=None
        It chooses between classes, for example `SVC()`: a classifier or pipeline with decision_function or
        predict_proba, which learns the samples that the models learn. None leaves the choice to the models.
    unknown_label : str, int or "auto", default="auto"
        The answer of `predict` for a sample of no known class. "auto" is "unknown" beside words; beside numbers -1, or
        one less than the least class if that is negative. Classes True and False are answered as 1 and 0.
    alpha : float in (0, 1), default=0.05
        The share of new samples of a known class that its model may reject. Half of each class's samples calibrate its
        model, and each class needs 1/alpha - 1 of these. The model of a class with only n rejects samples below all of
        them, a share of up to 1/(n + 1); if no class has enough, nothing is rejected. With a classifier, alpha is the
        share of all new samples of known classes that may be unknown, and takes somewhat more than 1/alpha calibration
        samples in all.
    n_jobs : int or None, default=None
        Models fitted or evaluated at once. None is 1 unless in a `joblib.parallel_config` context; -1 is all.
    random_state : int, RandomState or None, default=0
        The seed that draws held-out rows, the same in each class.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The known classes, in order.
    models_ : list of ConformalDetector
        One for each of `classes_`.
    classifier_ : fitted classifier
        Only with a classifier.
    unknown_label_ : str or int
    n_features_in_, feature_names_in_ : int, (n_features,) array of str
        The names only when X has names that are all strings.

    Notes
    -----
    P(no model accepts x) <= P(its own model rejects x) <= alpha for a new sample of a class with 1/alpha - 1
    calibration samples or more; of a class with only n it is up to 1/(n + 1). alpha does not bound how often a sample
    is misclassified because another class's model finds it more normal, nor how often an unknown sample is accepted.
    With a classifier, P(x is unknown) <= alpha for a new sample of the known classes in the shares of training: on
    average over classes, not for each.

    scikit-learn expects predict = argmax of decision_function. This holds wherever the answer is a class. With two
    classes decision_function is the difference of the two models' decisions; `decisions` has a column for each.

    References
    ----------
    .. [1] V. Fragoso, W. Scheirer, J. Hespanha, M. Turk, "One-class slab support vector machine", ICPR 2016.
    .. [2] V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005.
    .. [3] W. Scheirer et al., "Toward open set recognition", TPAMI 35, 2013.
    .. [4] W. Scheirer, L. Jain, T. Boult, "Probability models for open set recognition", TPAMI 36, 2014: a one-class
       model that decides with a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import OpenSetClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 100, axis=0)
    >>> classifier = OpenSetClassifier().fit(X, np.repeat(["left", "right"], 100))
    >>> classifier.predict([[0.2, 0.1], [9.1, 0.3], [4.5, 20.0]])
    array(['left', 'right', 'unknown'], dtype='<U7')
    """

    estimator: Any = field(default=None, kw_only=False)
    classifier: Any = None
    unknown_label: Any = "auto"
    alpha: float = 0.05
    n_jobs: int | None = None
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit"), None],
        "classifier": [HasMethods("fit"), None],
        "unknown_label": [str, Real],
        "alpha": [Interval(Real, 0.0, 1.0, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    # The estimator validates its own parameters.
    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Learn each class from its own samples, and all classes together with the classifier, if there is one.

        Raises ValueError for parameters, labels, shapes or values that make no sense. The text names the class and says
        what to do. With a classifier, also for a single class, and if no class has 3 samples.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            What the estimator takes.
        y : array-like of shape (n_samples,)
            The class of each sample: words or whole numbers. Without it fit raises.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative counts, in learning and in calibration (`ConformalDetector.fit`); a sample of weight 0 is left
            out. A classifier must take weights too.
        **fit_params : other parameters of the estimator's fit; those with an entry for each row are split as the rows

        Warns
        -----
        slabsvm.FitWarning
            If classes have too few samples for alpha, if their models accept rows infinitely far away, or if they
            cannot separate more than alpha of their own samples from such rows.
        """
        refuse_classifier(self._detector, self, "Give it as OpenSetClassifier(classifier=...).")
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None. Give the "
                "class of each row: fit(X, y). For a single class use ConformalDetector."
            )
        X = self._table(X, reset=True)
        y = checked_labels(y, X)
        X, y, fit_params = _without_weightless(X, y, fit_params)
        self.classes_, place = np.unique(y, return_inverse=True)
        self.unknown_label_ = unknown_label_for(self.classes_, self.unknown_label)
        self.seed_ = seed_of(self.random_state)
        rows = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
        calls = []
        for label, own in zip(self.classes_.tolist(), rows, strict=True):
            given = _check_method_params(X, fit_params, indices=own)
            calls.append(delayed(_fitted_to_class)(self._unfitted(), _safe_indexing(X, own), label, given))
        learned = parallel(calls, self.n_jobs)
        self.models_ = [model for model, _ in learned]
        self.__dict__.pop("classifier_", None)
        self.rule_ = DetectorRule(self.models_, self.classes_)
        if self.classifier is not None:
            self.rule_ = self._with_classifier(self.rule_, X, rows, fit_params.get("sample_weight"))
            self.classifier_ = self.rule_.classifier
        for text in filter(None, self.rule_.warnings_at(self.alpha)):
            warn(text, FitWarning)
        for text, category in warnings_of_classes([warned for _, warned in learned], self.classes_):
            warn(text, category)
        return self

    def decisions(self, X: Any) -> FloatArray:
        """Return each class's decision for each row, shape (n_samples, n_classes): >= 0 if its model accepts the row.

        This is the graded p-value, of those of `p_values`, less the largest rejected one: comparable between classes.
        """
        X = self._checked_rows(X)
        return self.rule_.answers(X, self.n_jobs)[1] - self.rule_.levels(self.alpha)

    def decision_function(self, X: Any) -> FloatArray:
        """Return `decisions`, or with two classes the second column less the first, shape (n_samples,)."""
        table = self.decisions(X)
        return table[:, 1] - table[:, 0] if table.shape[1] == 2 else table

    def p_values(self, X: Any) -> FloatArray:
        """Return each class's conformal p-value of each row, shape (n_samples, n_classes): no probabilities of classes.

        With a classifier, the p-value is the share of held-out samples, of all classes, whose confidence in their best
        class is no larger than this row's confidence in the class.
        """
        X = self._checked_rows(X)
        return self.rule_.answers(X, self.n_jobs)[0]

    def predict(self, X: Any, alpha: float | None = None) -> npt.NDArray[Any]:
        """Return the class of each row, or `unknown_label_`, shape (n_samples,).

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        alpha : float in (0, 1), default=None
            The share of a known class that may be rejected, to use instead of this classifier's own. It needs no refit.
            Warns with a slabsvm.FitWarning of classes that have too few samples for it.
        """
        X = self._checked_rows(X)
        if alpha is not None and (few := self.rule_.too_few(alpha)):
            warn(few, FitWarning)
        levels = self.rule_.levels(self.alpha if alpha is None else alpha)
        labels = joined(self.classes_, self.unknown_label_)
        chosen = np.empty(_num_samples(X), dtype=np.intp)
        # 2^23 decisions are held at once, 64 MB.
        for rows in pieces(len(chosen), len(self.classes_), 2**23):
            chosen[rows] = best_classes(self.rule_.answers(_safe_indexing(X, rows), self.n_jobs)[1] - levels)
        return labels[chosen]

    def _explanation(self, X: Any) -> Any:
        raise ValueError("Explain the model of class k, which says what each feature adds: models_[k].explain(X).")

    def _unfitted(self) -> ConformalDetector:
        """Return the unfitted model of a class."""
        detector = clone(self._detector)
        if get_tags(detector).input_tags.pairwise:
            raise ValueError(
                "A precomputed kernel matrix cannot be divided among classes here; pass the kernel as a function."
            )
        return ConformalDetector(detector, alpha=self.alpha, random_state=self.seed_)

    def _with_classifier(self, alone: DetectorRule, X: Any, rows: list[IndexArray], weights: Any) -> ClassifierRule:
        """Fit the classifier to the rows that the models have learned; return the rule of both."""
        if len(rows) < 2:
            raise ValueError(
                f"A classifier needs at least two classes, and there is one class, {listed(self.classes_)}, among the "
                "samples whose sample_weight is not 0. Give samples of another class, or leave classifier out."
            )
        # A class too small to hold rows out has learned those that calibrate its model.
        pairs = zip(self.models_, rows, strict=True)
        kept = [own[:0] if isinstance(one.estimator, FrozenEstimator) else own[one.held_out_] for one, own in pairs]
        held = np.concatenate(kept)
        if not len(held):
            raise ValueError(
                "No class has 3 samples, and fewer cannot be learned with one held out. Give more, of any class."
            )
        learned = [np.setdiff1d(own, some) for own, some in zip(rows, kept, strict=True)]
        places = [np.repeat(np.arange(len(rows)), [len(own) for own in some]) for some in (learned, kept)]
        weights, taught = checked_weights(weights, X), np.concatenate(learned)
        given = {} if weights is None else routed(self.classifier, weights[taught])
        classifier = clone(self.classifier).fit(_safe_indexing(X, taught), self.classes_[places[0]], **given)
        counts = None if weights is None else weights[held]
        rows_held = _safe_indexing(X, held)
        return ClassifierRule.calibrated(alone, classifier, rows_held, places[1], weights=counts, n_jobs=self.n_jobs)

    def _checked_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._table(X, reset=False)
        if _num_samples(X) == 0:
            raise ValueError("Found array with 0 sample(s); give at least one row.")
        return X


def _without_weightless(
    X: Any, y: npt.NDArray[Any], fit_params: dict[str, Any]
) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
    """Return the samples that have a weight, their labels, and their share of the parameters of fit."""
    weight = checked_weights(fit_params.get("sample_weight"), X)
    if weight is None:
        return X, y, fit_params
    kept = np.flatnonzero(weight)
    given = _check_method_params(X, {**fit_params, "sample_weight": weight}, indices=kept)
    return _safe_indexing(X, kept), y[kept], given


def _fitted_to_class(
    model: ConformalDetector, X: Any, label: Any, parameters: Mapping[str, Any]
) -> tuple[ConformalDetector, list[Warned]]:
    """Fit the model of one class in a joblib worker; also return the warnings of the fit.

    A class of one or two samples has none to hold out: they are learned, and calibrate too, as no p-value is below 1/3.
    """
    count = _num_samples(X)
    try:
        with gathered() as warned:
            # A class of fewer than 3 samples has none to hold out.
            if count < 3:
                rows = np.arange(2) % count
                X, parameters = _safe_indexing(X, rows), _check_method_params(X, parameters, indices=rows)
                model.set_params(estimator=FrozenEstimator(fit_with(model.estimator, X, parameters)))
            # Of calibrations, the classifier warns once for all classes.
            given = {name: value for name, value in parameters.items() if name != "groups"}
            model.learn(X, parameters.get("groups"), given, of_class=True)
            return model, warned
    except ValueError as error:
        raise ValueError(f"Class {label!r}, of n_samples = {count}, cannot be learned: {error}") from error


def checked_labels(y: Any, X: Any) -> npt.NDArray[Any]:
    """Return the class of each row of X, (n_samples,), or refuse what names no classes."""
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    if len(y) == 0:
        raise ValueError("There are 0 samples; give some of each class.")
    assert_all_finite(y, input_name="y")
    if y.dtype.kind == "O" and not all(isinstance(label, str) for label in y):
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(
            f"Unknown label type: y is an array of objects of the types {', '.join(kinds)}. Give all classes as "
            "words, or all as whole numbers in an array of numbers."
        )
    check_classification_targets(y)
    return np.asarray(y)


def unknown_label_for(classes: npt.NDArray[Any], label: Any) -> Any:
    """Return the unknown label beside these classes, for the parameter of this name; refuse one that is a class."""
    words = classes.dtype.kind in "US" or isinstance(classes[0], str)
    if isinstance(label, str) and label == "auto":
        label = "unknown" if words else min(-1, int(classes[0]) - 1)
    if isinstance(label, str) != words:
        kinds = ("words", "a number") if words else ("numbers", "a word")
        raise ValueError(f"The classes are {kinds[0]} and unknown_label={label!r} is {kinds[1]}; give both alike.")
    if not words:
        is_whole = isinstance(label, Real) and float(label).is_integer()
        if not is_whole:
            raise ValueError(f"unknown_label is {label!r}, but the classes are whole numbers; give a whole number.")
        label = int(label)
    joined(classes, label)
    if label in classes:
        raise ValueError(
            f"The unknown label {label!r} is one of the classes in y. Give another unknown_label, or leave the "
            "samples of unknown classes out of the training data."
        )
    return label


def joined(classes: npt.NDArray[Any], label: Any) -> npt.NDArray[Any]:
    """Return classes and a label in one array, True and False as 1 and 0 beside numbers; ValueError if no type does."""
    values = [*classes.tolist(), label]
    together = np.array(values, dtype=object if classes.dtype == object else None)
    if together.dtype != classes.dtype and (together.dtype == object or together.tolist() != values):
        raise ValueError(
            f"No 64-bit number type holds the classes {listed(classes)} together with {label!r}, and answers need "
            "both. Give another unknown_label, or the classes as words."
        )
    return together
