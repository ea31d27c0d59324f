"""Open-set recognition: one detector for each known class, and "none of them" as an answer.

Each class has a model of its own, learned from its samples alone, so that a class is added or removed without touching
the others. Scores of different models have different units. They are compared as conformal p-values, class by class
(Mondrian: Vovk, Gammerman, Shafer 2005), which also guarantee an error rate: the model of its own class rejects a
sample with probability at most alpha. The answer is "unknown" only where every model rejects the sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state, gen_batches, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.doubts import CalibrationWarning, found_no_direction
from slabsvm.conformal.p_values import WHOLE
from slabsvm.conformal.wrapping import Wrapping
from slabsvm.detectors.base import parameters
from slabsvm.detectors.weighting import checked_weights
from slabsvm.openset.classwise import NormalisedMargin, call_method, fitted_to_class
from slabsvm.openset.doubts import far_accepted, of_fits, out_of_reach, too_few, without_direction
from slabsvm.openset.labels import checked_labels, joined, listed, new_class, unknown_label_for
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.atomic import atomic
from slabsvm.runtime.caller import Warned, warn
from slabsvm.runtime.sklearn_private import (
    HasMethods,
    Interval,
    StrOptions,
    _check_method_params,
    _fit_context,
    _num_samples,
    _safe_indexing,
)

# Decisions held at once while predicting: 64 MB.
DECISIONS_AT_ONCE = 2**23


@parameters
class OpenSetClassifier(ClassifierMixin, Wrapping):
    """A classifier that names one of the learned classes, or says that a sample is of none of them.

    One clone of the estimator learns each class from that class's samples alone. A sample gets the class whose model
    finds it most normal, or is unknown where all models reject it.

    Parameters
    ----------
    estimator : detector, default=None
        It learns from positives alone. It may be a pipeline, and must not have a precomputed kernel. None is
        `OneClassSlabSVM()`.
    unknown_label : str, int or "auto", default="auto"
        The answer of `predict` for a sample of no known class; it must not be a class. "auto" is "unknown" where
        classes are words. Where they are numbers, it is -1, or one less than the least class if that is negative. True
        and False are answered as 1 and 0, beside which -1 can stand.
    calibration : {"conformal", "margin"}, default="conformal"
        How models are compared. "conformal": by p-values, with an error rate (`ConformalDetector`). "margin": by
        decision_function over its largest value in training; each model keeps its own threshold, whatever alpha is.
    alpha : float in (0, 1), default=0.05
        The share of new samples of a known class that its model may reject. Each class needs 1/alpha - 1 calibration
        samples. The model of a class that has only n rejects samples below all of them, a share of up to 1/(n + 1).
        Where no class has enough, nothing is rejected.
    method : {"split", "cross", "leave-one-out"}, default="split"
        Where calibration scores come from; see `ConformalDetector`. "split" keeps the guarantee for any data, and
        learns from half of them.
    two_sided : bool, default=False
        Whether a score that is too high is rejected too; see `ConformalDetector`.
    class_estimators : mapping, default=None
        From a class to its own estimator, or to parameters that its clone of `estimator` gets.
    n_jobs : int or None, default=None
        The number of models fitted, or evaluated, at once; None is 1 unless in a `joblib.parallel_config` context,
        which also chooses the backend; -1 is all.
    random_state : int, RandomState or None, default=0
        The seed with which held-out rows are drawn, the same in each class, so that a model depends on its class alone.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The known classes, in order.
    models_ : list of fitted detectors
        One for each of classes_.
    unknown_label_ : str or int
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only when X has feature names that are all strings.

    Notes
    -----
    The guarantee is about rejection: P(no model accepts x) <= P(its own model rejects x) <= alpha. No alpha bounds how
    often a sample is misclassified, because another class's model finds it more normal. No alpha bounds how often an
    unknown sample is accepted, since nothing is known of it.

    scikit-learn expects predict = argmax of decision_function, which holds wherever the answer is a class. With two
    classes decision_function is the difference of the two models' decisions; `decisions` always has a column for each
    class.

    References
    ----------
    .. [1] V. Fragoso, W. Scheirer, J. Hespanha, M. Turk, "One-class slab support vector machine", ICPR 2016.
    .. [2] V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005.
    .. [3] W. Scheirer et al., "Toward open set recognition", TPAMI 35, 2013.

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
    unknown_label: Any = "auto"
    calibration: str = "conformal"
    alpha: float = 0.05
    method: str = "split"
    two_sided: bool = False
    class_estimators: Mapping[Any, Any] | None = None
    n_jobs: int | None = None
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit"), None],
        "unknown_label": [str, Real],
        "calibration": [StrOptions({"conformal", "margin"})],
        "alpha": [Interval(Real, 0.0, 1.0, closed="neither")],
        "method": [StrOptions({"split", "cross", "leave-one-out"})],
        "two_sided": ["boolean"],
        "class_estimators": [Mapping, None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    # The estimator validates its own parameters.
    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Learn each class from its own samples.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            What the estimator takes.
        y : array-like of shape (n_samples,)
            The class of each sample: words or whole numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative. A sample of weight 2 counts as two, in learning and in calibration (`ConformalDetector.fit`).
            A sample of weight 0 is left out.
        **fit_params : other parameters of the estimator's fit; those with an entry for each row are split as the rows

        Raises
        ------
        ValueError
            For parameters, labels, shapes or values that make no sense; the text names the class, and says what to do.

        Warns
        -----
        slabsvm.CalibrationWarning
            Where classes have too few samples for alpha, where their models accept rows infinitely far away, and where
            they cannot tell more than alpha of their own samples from such rows.
        """
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None. For a "
                "single class use ConformalDetector."
            )
        X = self._table(X, reset=True)
        y = checked_labels(y, X)
        X, y, fit_params = _without_weightless(X, y, fit_params)
        classes, group = np.unique(y, return_inverse=True)
        self.unknown_label_ = unknown_label_for(classes, self.unknown_label)
        self._refuse_other_estimators(classes)
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        rows = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
        learned = Parallel(n_jobs=self.n_jobs)(
            delayed(fitted_to_class)(
                self._model_of(label), _safe_indexing(X, own), label, _check_method_params(X, fit_params, indices=own)
            )
            for label, own in zip(classes.tolist(), rows, strict=True)
        )
        self.models_: list[Any] = [model for model, _ in learned]
        self.classes_ = classes
        self._warn(self.models_, classes, [warned for _, warned in learned])
        return self

    @atomic
    def partial_add(self, X: Any, label: Any, **fit_params: Any) -> Self:
        """Learn one more class from its samples, and leave the other models as they are.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Samples of the class alone.
        label : str or int
            The class, which must be neither in classes_ nor the unknown label.
        **fit_params : sample_weight and others, as for `fit`

        Raises
        ------
        ValueError
            For a class that is known already, a label of another type than the classes', or as `fit`.
        """
        check_is_fitted(self)
        if isinstance(self.models_[0], NormalisedMargin) != (self.calibration == "margin"):
            raise ValueError("calibration was changed since fit; p-values and margins do not compare. Fit anew.")
        label = new_class(label, self.classes_, self.unknown_label_)
        X = self._table(X, reset=False)
        X, _, fit_params = _without_weightless(X, np.zeros(_num_samples(X)), fit_params)
        model, warned = fitted_to_class(self._model_of(label), X, label, fit_params)
        place = int(np.searchsorted(self.classes_, label))
        self._warn([model], np.array([label]), [warned])
        self.classes_ = joined(self.classes_[:place], label, *self.classes_[place:].tolist())
        self.models_ = [*self.models_[:place], model, *self.models_[place:]]
        return self

    @atomic
    def remove(self, label: Any) -> Self:
        """Forget a class, and leave the other models as they are.

        Raises
        ------
        ValueError
            For a class that is not known, or the only one.
        """
        check_is_fitted(self)
        kept = self.classes_ != label
        if np.all(kept):
            raise ValueError(f"The class {label!r} is not known; the known ones are {listed(self.classes_)}.")
        if not np.any(kept):
            raise ValueError(f"{label!r} is the only known class; nothing would be left. Fit anew instead.")
        self.classes_ = self.classes_[kept]
        self.models_ = [model for model, stays in zip(self.models_, kept, strict=True) if stays]
        return self

    def decisions(self, X: Any, alpha: float | None = None) -> FloatArray:
        """Return how far each class's model accepts each row, shape (n_samples, n_classes): >= 0 where it does.

        With calibration="conformal" this is the graded p-value less the largest that is rejected, with "margin" the
        normalised margin. Both are comparable between classes.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        alpha : float in (0, 1), default=None
            As for `predict`.
        """
        X = self._checked_rows(X)
        return self._decisions(X, self._levels(alpha))

    def decision_function(self, X: Any) -> FloatArray:
        """Return `decisions`, or with two classes the second's less the first's, of shape (n_samples,)."""
        table = self.decisions(X)
        return table[:, 1] - table[:, 0] if table.shape[1] == 2 else table

    def p_values(self, X: Any) -> FloatArray:
        """Return each class's conformal p-value of each row, shape (n_samples, n_classes).

        Rows do not sum to 1: these are no probabilities of classes. A sample may be novel to all, or normal to two.

        Raises
        ------
        ValueError
            With calibration="margin", which has none.
        """
        check_is_fitted(self)
        if self.calibration != "conformal":
            raise ValueError("There are no p-values with calibration='margin'; use calibration='conformal'.")
        return self._columns(self._checked_rows(X), "p_values")

    def predict(self, X: Any, alpha: float | None = None) -> npt.NDArray[Any]:
        """Return the class of each row, or unknown_label_, shape (n_samples,).

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        alpha : float in (0, 1), default=None
            The share of a known class that may be rejected, in place of the classifier's own; it needs no refit.

        Raises
        ------
        ValueError
            For an alpha with calibration="margin", where thresholds are the models' own.

        Warns
        -----
        slabsvm.CalibrationWarning
            Where classes have too few samples for the given alpha.
        """
        return self._names(self._checked_rows(X), self._levels(alpha))

    def _names(self, X: Any, levels: FloatArray | None, *, at_once: int = DECISIONS_AT_ONCE) -> npt.NDArray[Any]:
        """Return the class of each checked row, or unknown_label_; no more than at_once decisions are held."""
        names = joined(self.classes_, self.unknown_label_)
        chosen = np.empty(_num_samples(X), dtype=np.intp)
        for rows in gen_batches(len(chosen), max(1, at_once // len(self.classes_))):
            table = self._decisions(_safe_indexing(X, rows), levels)
            best = table.argmax(axis=1)
            chosen[rows] = np.where(table[np.arange(len(table)), best] >= 0, best, len(self.classes_))
        return names[chosen]

    def _decisions(self, X: Any, levels: FloatArray | None) -> FloatArray:
        """Return the table of `decisions` of checked rows, for the classes' levels; None for margins."""
        return self._columns(X, "decision_function") if levels is None else self._columns(X, "score_samples") - levels

    def _levels(self, alpha: float | None) -> FloatArray | None:
        """Return the least graded p-value that each class accepts, shape (n_classes,); None where margins decide."""
        if isinstance(self.models_[0], NormalisedMargin):
            if alpha is not None:
                raise ValueError(
                    "calibration='margin' has no alpha: each model keeps its own threshold. Use "
                    "calibration='conformal', or another nu of the estimator."
                )
            return None
        if alpha is not None and (few := too_few(self.models_, self.classes_, alpha)):
            warn(few, CalibrationWarning)
        return _levels_of(self.models_, self.alpha if alpha is None else alpha)

    def _columns(self, X: Any, method: str) -> FloatArray:
        """Return the values of each model's method of this name, shape (n_samples, n_classes)."""
        columns = Parallel(n_jobs=self.n_jobs)(delayed(call_method)(model, method, X) for model in self.models_)
        return np.stack(columns, axis=1)

    def _model_of(self, label: Any) -> Any:
        """Return the unfitted model of a class."""
        own = {} if self.class_estimators is None else self.class_estimators.get(label, {})
        detector = clone(self._detector).set_params(**own) if isinstance(own, Mapping) else clone(own)
        if get_tags(detector).input_tags.pairwise:
            raise ValueError(
                "A precomputed kernel matrix cannot be divided among classes here; pass the kernel as a function."
            )
        if self.calibration == "margin":
            return NormalisedMargin(detector)
        return ConformalDetector(
            detector, alpha=self.alpha, method=self.method, two_sided=self.two_sided, random_state=self._seed
        )

    def _refuse_other_estimators(self, classes: npt.NDArray[Any]) -> None:
        others = [label for label in (self.class_estimators or {}) if label not in classes]
        if others:
            raise ValueError(
                f"class_estimators names {others}, of which y holds no sample; the classes are {listed(classes)}."
            )

    def _warn(self, models: list[Any], classes: npt.NDArray[Any], warned: list[list[Warned]]) -> None:
        """Warn of what classes' models accept, and give what their fits warned."""
        if self.calibration == "margin":
            doubts = [far_accepted([model.far_margin_ >= 0 for model in models], classes)]
        else:
            undirected = [found_no_direction(model.estimators_) for model in models]
            far = [
                model.far_p_value_ > max(model.offset_, model.smallest_p_value_) * (1 + WHOLE)
                and len(texts) < len(model.estimators_)
                for model, texts in zip(models, undirected, strict=True)
            ]
            beyond = [model.out_of_reach_ > self.alpha for model in models]
            doubts = [
                too_few(models, classes, self.alpha),
                without_direction(undirected, classes),
                far_accepted(far, classes),
                out_of_reach(beyond, classes, self.alpha),
            ]
        for doubt in doubts:
            if doubt:
                warn(doubt, CalibrationWarning)
        for text, category in of_fits(warned, classes):
            warn(text, category)

    def _checked_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._table(X, reset=False)
        if _num_samples(X) == 0:
            raise ValueError("Found array with 0 sample(s); give at least one row.")
        return X


def _levels_of(models: list[ConformalDetector], alpha: float) -> FloatArray:
    """Return the largest p-value that each class's model rejects at a rate alpha, shape (n_classes,).

    A class with too few samples would accept everything, so that nothing would be unknown beside classes with enough:
    it gets its strictest level instead. Where all classes have too few, no level reaches alpha, and nothing is
    rejected.
    """
    levels = np.array([model.level(alpha) for model in models])
    strictest = np.array([model.smallest_p_value_ for model in models])
    return np.where(levels > 0, levels, strictest) if levels.any() else levels


def _without_weightless(
    X: Any, y: npt.NDArray[Any], fit_params: dict[str, Any]
) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
    """Return the samples that have a weight, their labels, and their share of the parameters of fit."""
    weight = checked_weights(fit_params.get("sample_weight"), X)
    if weight is None:
        return X, y, fit_params
    kept = np.flatnonzero(weight)
    return (
        _safe_indexing(X, kept),
        y[kept],
        _check_method_params(X, {**fit_params, "sample_weight": weight}, indices=kept),
    )
