"""Every private name of scikit-learn that slabsvm uses, in one place: these may change from one version to the next.

pyproject.toml bounds the versions on both sides: ./scripts/matrix tests the oldest and the newest that it allows.
"""

from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_feature_names_in, _check_method_params, _check_sample_weight, _num_samples

__all__ = [
    "HasMethods",
    "Interval",
    "StrOptions",
    "_check_feature_names_in",
    "_check_method_params",
    "_check_sample_weight",
    "_fit_context",
    "_num_samples",
    "_safe_indexing",
    "_safe_split",
    "validate_parameter_constraints",
]
