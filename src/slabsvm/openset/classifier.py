"""Open-set recognition: one detector for each known class, and "none of them" as an answer.

Each class's model is learned from its samples alone, so that a class is added or removed without touching the others.
Scores of different models have different units. They are compared as conformal p-values, class by class (Mondrian:
Vovk, Gammerman, Shafer 2005). `slabsvm.openset.naming` says how a classifier beside the detectors decides with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.detector import CalibrationWarning, ConformalDetector, Wrapping
from slabsvm.detectors.answers import refuse_classifier
from slabsvm.detectors.base import parameters
from slabsvm.fitted.training import checked_weights
from slabsvm.openset.classwise import (
    ClassRows,
    NormalisedMargin,
    checked_labels,
    fitted_to_class,
    joined,
    listed,
    new_class,
    unknown_label_for,
    without_weightless,
)
from slabsvm.openset.naming import ByClassifier, ByMargins, Naming, names, of_fits
from slabsvm.runtime.arrays import FloatArray, pieces
from slabsvm.runtime.blas import parallel
from slabsvm.runtime.caller import Warned, warn
from slabsvm.runtime.objects import atomic, seed_of
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
    """A classifier that predicts one of the learned classes, or says that a sample belongs to none of them.

    One clone of the estimator learns each class from that class's samples alone. A sample gets the class whose model
    finds it most normal, and is unknown if all models reject it. With `classifier`, a sample gets the class of which
    the classifier and the class's model together are surest, and is unknown if they are less sure than of known
    samples.

    Parameters
    ----------
    estimator : detector, default=None
        A detector that learns from positives alone, or a pipeline that ends in one; its kernel must not be precomputed.
        None is `OneClassSlabSVM()`.
    classifier : classifier, default=None
        It chooses between classes, for example `SVC()`: any classifier of scikit-learn's kind, or a pipeline, with
        decision_function or predict_proba. It learns the models' samples, all classes at once. None leaves the choice
        to the models.
    unknown_label : str, int or "auto", default="auto"
        The answer of `predict` for a sample of no known class; it must not be a class. "auto" is "unknown" beside
        words; beside numbers -1, or one less than the least class if that is negative. Classes True and False are
        answered as 1 and 0, so that -1 is possible.
    calibration : {"conformal", "margin"}, default="conformal"
        How models are compared. "conformal" uses p-values, with an error rate (`ConformalDetector`). "margin" uses
        decision_function divided by its largest value in training; each model keeps its own threshold, whatever alpha
        is. With a classifier only "conformal" is possible.
    alpha : float in (0, 1), default=0.05
        The share of new samples of a known class that its model may reject. Each class needs 1/alpha - 1 calibration
        samples. The model of a class with only n rejects samples below all of these, a share of up to 1/(n + 1); if no
        class has enough, nothing is rejected. With a classifier, alpha is the share of all new samples of known classes
        that may be unknown, and takes somewhat more than 1/alpha calibration samples in all.
    method : {"split", "cross", "leave-one-out"}, default="split"
        Where calibration scores come from; see `ConformalDetector`. A classifier has no leave-one-out scores.
    two_sided : bool, default=False
        Whether to reject scores that are too high, too; see `ConformalDetector`.
    class_estimators : mapping, default=None
        It maps a class to its own estimator, or to parameters for its clone of `estimator`.
    n_jobs : int or None, default=None
        The number of models fitted or evaluated at once. None is 1 unless in a `joblib.parallel_config` context; -1 is
        all.
    random_state : int, RandomState or None, default=0
        The seed that draws held-out rows. It is the same in each class, so a model depends on its class alone.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The known classes, in order.
    models_ : list of fitted detectors
        One for each of `classes_`.
    classifiers_ : list of fitted classifiers
        One, or with method="cross" one for each fold. Only with a classifier.
    unknown_label_ : str or int
    n_features_in_, feature_names_in_ : int, (n_features,) array of str
        The names only when X has names that are all strings.

    Notes
    -----
    P(no model accepts x) <= P(its own model rejects x) <= alpha for a new sample of a known class. alpha does not bound
    how often a sample is misclassified because another class's model finds it more normal, nor how often an unknown
    sample is accepted. With a classifier, P(x is unknown) <= alpha for a new sample of the known classes in the shares
    of training: on average over classes, not for each.

    scikit-learn expects predict = argmax of decision_function. This holds wherever the answer is a class. With two
    classes decision_function is the difference of the two models' decisions; `decisions` has a column for each.

    A classifier is fitted again when a class comes or goes, so the training rows are kept, and are part of a pickle.

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
    calibration: str = "conformal"
    alpha: float = 0.05
    method: str = "split"
    two_sided: bool = False
    class_estimators: Mapping[Any, Any] | None = None
    n_jobs: int | None = None
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit"), None],
        "classifier": [HasMethods("fit"), None],
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
        slabsvm.CalibrationWarning
            If classes have too few samples for alpha, if their models accept rows infinitely far away, or if they
            cannot separate more than alpha of their own samples from such rows.
        """
        refuse_classifier(self._detector, self, "Give it as OpenSetClassifier(classifier=...).")
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None. Give the "
                "class of each row: fit(X, y). For a single class use ConformalDetector."
            )
        if self.classifier is not None and (self.calibration == "margin" or self.method == "leave-one-out"):
            raise ValueError(
                "A classifier has neither margins nor leave-one-out answers. Use calibration='conformal', and "
                "method='split' or 'cross', or leave classifier out."
            )
        X = self._table(X, reset=True)
        y = checked_labels(y, X)
        X, y, fit_params = without_weightless(X, y, fit_params)
        classes, group = np.unique(y, return_inverse=True)
        self.unknown_label_ = unknown_label_for(classes, self.unknown_label)
        if others := [label for label in (self.class_estimators or {}) if label not in classes]:
            raise ValueError(
                f"class_estimators names {others}, but y holds no sample of them; the classes are {listed(classes)}."
            )
        self.seed_ = seed_of(self.random_state)
        rows = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
        given = [(_safe_indexing(X, own), _check_method_params(X, fit_params, indices=own)) for own in rows]
        calls = (
            delayed(fitted_to_class)(self._model_of(label), own, label, parameters)
            for label, (own, parameters) in zip(classes.tolist(), given, strict=True)
        )
        learned = parallel(calls, self.n_jobs)
        models: list[Any] = [model for model, _ in learned]
        self._name_by(models, classes, self._kept(models, given))
        self._warn(self.naming_, [warned for _, warned in learned])
        return self

    @atomic
    def partial_add(self, X: Any, label: Any, **fit_params: Any) -> Self:
        """Learn one more class from its samples, and leave the other models as they are.

        A classifier is fitted and calibrated again with all classes, from the kept rows of the others. Raises
        ValueError for a class that is known already, a label of another type than the classes', or as `fit`.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Samples of the class alone.
        label : str or int
            The class, which must be neither in `classes_` nor the unknown label.
        **fit_params : sample_weight and others, as for `fit`
        """
        check_is_fitted(self)
        self._refuse_change_since_fit()
        label = new_class(label, self.classes_, self.unknown_label_)
        X = self._table(X, reset=False)
        X, _, fit_params = without_weightless(X, np.zeros(_num_samples(X)), fit_params)
        model, warned = fitted_to_class(self._model_of(label), X, label, fit_params)
        place = int(np.searchsorted(self.classes_, label))
        models = [*self.models_[:place], model, *self.models_[place:]]
        classes = joined(self.classes_[:place], label, *self.classes_[place:].tolist())
        rows = self.rows_[:place] + self._kept([model], [(X, fit_params)]) + self.rows_[place:]
        self._name_by(models, classes, rows)
        if self.classifier is None:
            self._warn(self.naming_type([model], classes[[place]]), [warned])
        else:
            self._warn(self.naming_, [warned if one is model else [] for one in models])
        return self

    @atomic
    def remove(self, label: Any) -> Self:
        """Forget a class, and leave the other models as they are. A classifier is fitted again without it.

        Raises ValueError for a class that is not known, or the only one; with a classifier, for one of the last two.
        """
        check_is_fitted(self)
        self._refuse_change_since_fit()
        kept = self.classes_ != label
        if np.all(kept):
            raise ValueError(f"The class {label!r} is not known; the known ones are {listed(self.classes_)}.")
        if not np.any(kept):
            raise ValueError(f"{label!r} is the only known class; nothing would be left. Fit again instead.")
        models = [model for model, stays in zip(self.models_, kept, strict=True) if stays]
        rows = [rows for rows, stays in zip(self.rows_, kept, strict=False) if stays]
        self._name_by(models, self.classes_[kept], rows)
        return self

    def decisions(self, X: Any, alpha: float | None = None) -> FloatArray:
        """Return each class's decision for each row, shape (n_samples, n_classes): >= 0 if its model accepts the row.

        This is the graded p-value less the largest rejected one (of `predict`'s alpha), or with calibration="margin"
        the normalised margin. Both are comparable between classes. With a classifier the p-values are those of
        `p_values`.
        """
        X = self._checked_rows(X)
        return self.naming_.scores(X, self.n_jobs) - self._levels(alpha)

    def decision_function(self, X: Any) -> FloatArray:
        """Return `decisions`, or with two classes the second column less the first, shape (n_samples,)."""
        table = self.decisions(X)
        return table[:, 1] - table[:, 0] if table.shape[1] == 2 else table

    def p_values(self, X: Any) -> FloatArray:
        """Return each class's conformal p-value of each row, shape (n_samples, n_classes).

        p-values are not probabilities of classes: rows do not sum to 1, and a sample may be normal for two classes.
        With a classifier, the p-value is the share of held-out samples, of all classes, whose confidence in their best
        class is no larger than this row's confidence in the class. Raises ValueError with calibration="margin".
        """
        X = self._checked_rows(X)
        return self.naming_.p_values(X, self.n_jobs)

    def predict(self, X: Any, alpha: float | None = None) -> npt.NDArray[Any]:
        """Return the class of each row, or `unknown_label_`, shape (n_samples,).

        Raises ValueError for an alpha with calibration="margin", where each model has its own threshold.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        alpha : float in (0, 1), default=None
            The share of a known class that may be rejected, to use instead of this classifier's own. It needs no refit.
            Warns with a slabsvm.CalibrationWarning of classes that have too few samples for it.
        """
        return self._names(self._checked_rows(X), self._levels(alpha))

    def _shares(self, X: Any) -> FloatArray:
        return self.naming_.shares(X, self._levels(None), self.n_jobs)

    def _names(self, X: Any, levels: FloatArray, *, at_once: int = DECISIONS_AT_ONCE) -> npt.NDArray[Any]:
        """Return the class of each checked row, or unknown_label_; no more than at_once decisions are held."""
        labels = joined(self.classes_, self.unknown_label_)
        chosen = np.empty(_num_samples(X), dtype=np.intp)
        for rows in pieces(len(chosen), len(self.classes_), at_once):
            chosen[rows] = names(self.naming_.scores(_safe_indexing(X, rows), self.n_jobs) - levels)
        return labels[chosen]

    def _levels(self, alpha: float | None) -> FloatArray:
        """Return the least score with which each class's name stands, shape (n_classes,)."""
        if isinstance(self.naming_, ByMargins) and alpha is not None:
            raise ValueError(
                "calibration='margin' has no alpha: each model keeps its own threshold. Use "
                "calibration='conformal', or another nu of the estimator."
            )
        if alpha is not None and (few := self.naming_.too_few(alpha)):
            warn(few, CalibrationWarning)
        return self.naming_.levels(self.alpha if alpha is None else alpha)

    @property
    def naming_type(self) -> type[Naming]:
        """The rule that chooses classes, by the parameters."""
        if self.classifier is not None:
            return ByClassifier
        return ByMargins if self.calibration == "margin" else Naming

    def _name_by(self, models: list[Any], classes: npt.NDArray[Any], rows: list[ClassRows]) -> None:
        """Set the classes and what names them: their models, or a classifier that learns these rows."""
        self.classes_, self.models_, self.rows_ = classes, models, rows
        self.__dict__.pop("classifiers_", None)
        if self.classifier is None:
            self.naming_: Naming = self.naming_type(models, classes)
        else:
            self.naming_ = ByClassifier.learned(self.classifier, models, classes, rows, self.n_jobs)
            self.classifiers_: list[Any] = list(self.naming_.classifiers)

    def _kept(self, models: list[Any], given: list[tuple[Any, Mapping[str, Any]]]) -> list[ClassRows]:
        """Return the rows, which models were given, that a classifier learns anew when classes come or go; or none."""
        if self.classifier is None:
            return []
        return [
            ClassRows(
                X,
                checked_weights(parameters.get("sample_weight"), X),
                # A class too small to hold rows out has learned those that calibrate its model.
                [] if model.method == "prefit" else model.held_out_,
            )
            for model, (X, parameters) in zip(models, given, strict=True)
        ]

    def _model_of(self, label: Any) -> Any:
        """Return the unfitted model of a class."""
        own = (self.class_estimators or {}).get(label, {})
        detector = clone(self._detector).set_params(**own) if isinstance(own, Mapping) else clone(own)
        if get_tags(detector).input_tags.pairwise:
            raise ValueError(
                "A precomputed kernel matrix cannot be divided among classes here; pass the kernel as a function."
            )
        if self.calibration == "margin":
            return NormalisedMargin(detector)
        return ConformalDetector(
            detector, alpha=self.alpha, method=self.method, two_sided=self.two_sided, random_state=self.seed_
        )

    def _refuse_change_since_fit(self) -> None:
        if type(self.naming_) is not self.naming_type:
            raise ValueError(
                "classifier or calibration was changed since fit, so scores would not be comparable. Fit again."
            )

    def _warn(self, naming: Naming, warned: list[list[Warned]]) -> None:
        """Warn of what names, and give what fits of its classes' models warned."""
        for text in filter(None, naming.warnings_at(self.alpha)):
            warn(text, CalibrationWarning)
        for text, category in of_fits(warned, naming.classes):
            warn(text, category)

    def _checked_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._table(X, reset=False)
        if _num_samples(X) == 0:
            raise ValueError("Found array with 0 sample(s); give at least one row.")
        return X
