"""What scikit-learn's tests ask of its `OneClassSVM`, asked of this package's models in its own words.

Theirs (sklearn/svm/tests of 1.9, test_svm.py and test_sparse.py), and where each is held, here or in another file:

test_oneclass: test_six_points_have_the_multipliers_the_offset_and_the_labels_that_scikit_learn_finds
test_oneclass_decision_function: test_new_rows_of_two_clouds_are_accepted_and_others_rejected
test_oneclass_score_samples: laws/test_answers.py
test_libsvm_parameters: test_two_points_have_the_solution_that_is_found_by_hand
test_precomputed, test_svc_clone_with_callable_kernel: detectors/test_contract.py
test_gamma_scale: test_gamma_scale_is_what_scikit_learn_says
test_n_support, test_n_iter_libsvm: test_fitted_arrays_do_not_steer_predictions
test_weight, test_sample_weights: test_heavier_rows_pull_the_model_to_their_side
test_negative_sample_weights_mask_all_samples, test_svm_equivalence_sample_weight_C, test_error, test_svr_errors,
test_svc_bad_kernel, test_svc_nonfinite_params, test_sparse_precomputed, test_libsvm_convergence_warnings, test_timeout,
test_unfitted, test_sparse_svc_clone_with_callable_kernel, test_custom_kernel_not_array_input
    detectors/test_bad_input.py, detectors/test_refused.py
test_consistent_decision_function (both files): concurrency/test_same_bytes.py
test_bad_input, test_sparse_oneclasssvm, test_unsorted_indices, test_sparse_realdata: laws/test_forms.py
test_immutable_coef_property, test_tweak_params, test_svc_raises_error_internal_representation
    Theirs predict from attributes that a user may change, and have no coef_ that does so. Models here predict from what
    fit kept, and have no coef_: test_fitted_arrays_do_not_steer_predictions.
test_sparse_fit_support_vectors_empty: Does not apply: multipliers sum to 1, so that there are support vectors.
all others: Do not apply: of classifiers, regressors, LinearSVC, probabilities, several classes.
"""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone

from slabsvm import OneClassSlabSVM, OneClassSVM

# Six rows are few: that most of them are support vectors is said, and is not the question here.
pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")]

TIGHT = 1e-12
SIX = np.array([[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1]], dtype=float)
THREE = np.array([[-1, -1], [2, 2], [3, 2]], dtype=float)
# scikit-learn's model: its threshold, its gamma, its nu.
THEIRS = {"nu": 0.5, "gamma": "scale", "calibration": "training"}
MODELS = {"one plane": OneClassSVM(gamma=1.0), "two planes": OneClassSlabSVM(gamma=1.0, nu_lower=0.3, nu_upper=0.2)}
both_models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def test_six_points_have_the_multipliers_the_offset_and_the_labels_that_scikit_learn_finds():
    model = OneClassSVM(**THEIRS, tol=TIGHT).fit(SIX)
    labels = model.predict(THREE)
    assert labels.tolist() == [1, -1, -1]
    assert labels.dtype == np.intp
    unit = 0.5 * len(SIX)
    # By symmetry four points share the mass, each below its upper bound of one.
    np.testing.assert_allclose(unit * model.dual_coef_, [[0.75] * 4], rtol=1e-6)
    assert unit * model.offset_ == pytest.approx(1.218, abs=5e-4)
    theirs = sklearn.svm.OneClassSVM(tol=TIGHT).fit(SIX)
    np.testing.assert_array_equal(model.support_, theirs.support_)
    np.testing.assert_allclose(unit * model.decision_function(THREE), theirs.decision_function(THREE), atol=1e-6)
    assert not hasattr(model, "coef_")


def test_two_points_have_the_solution_that_is_found_by_hand():
    """Minimise |a x + (1 - a) z|^2 / 2 over 0 <= a <= 1: here a (x - z) + z stands at right angles to x - z."""
    x, z = np.array([2.0, 0.0]), np.array([0.0, 1.0])
    a = z @ (z - x) / ((x - z) @ (x - z))
    w = a * x + (1 - a) * z
    model = OneClassSVM(kernel="linear", nu=0.5, calibration="training", tol=TIGHT).fit([x, z])
    np.testing.assert_allclose(model.dual_coef_, [[a, 1 - a]], rtol=1e-6)
    np.testing.assert_allclose(model.project([x, z, [1.0, 1.0]]), [w @ w, w @ w, w.sum()], rtol=1e-6)
    assert model.dual_objective_ == pytest.approx(0.5 * w @ w, rel=1e-9)


@pytest.mark.parametrize("calibration", ["auto", "training"])
@pytest.mark.parametrize("nus", [{}, {"nu_upper": 0.01}], ids=["one plane", "two planes"])
def test_new_rows_of_two_clouds_are_accepted_and_others_rejected(nus, calibration):
    rng = np.random.default_rng(2)

    def clouds(n):
        return np.concatenate([0.3 * rng.normal(size=(n, 2)) + centre for centre in (2, -2)])

    learned, new, strangers = clouds(100), clouds(100), rng.uniform(-4, 4, size=(200, 2))
    strangers = strangers[np.abs(np.abs(strangers).max(axis=1) - 2) > 1.5]
    model = OneClassSlabSVM(nu_lower=0.1, **nus) if nus else OneClassSVM(nu=0.1)
    model.set_params(gamma=0.1, calibration=calibration).fit(learned)
    # Their test asks for more than .9 of forty rows where nu is .1, which their data grant; nu does for each draw.
    nominal = 1 - 0.1 - sum(nus.values())
    assert (model.predict(new) == 1).mean() > nominal - 3 * np.sqrt(nominal * (1 - nominal) / len(new))
    assert (model.predict(strangers) == -1).mean() > 0.9
    for rows in (new, strangers):
        np.testing.assert_array_equal(model.decision_function(rows) >= 0, model.predict(rows) == 1)


@pytest.mark.parametrize("model", [OneClassSVM, OneClassSlabSVM])
def test_gamma_scale_is_what_scikit_learn_says(model):
    assert model(gamma="scale").fit([[0.0], [1.0]]).gamma_ == 4.0
    assert model(gamma="auto").fit(SIX).gamma_ == 0.5


@both_models
@pytest.mark.parametrize("layout", [np.asarray, sp.lil_matrix], ids=["dense", "sparse"])
def test_heavier_rows_pull_the_model_to_their_side(model, layout):
    """Two clouds mirror each other; where one weighs a hundred times as much, the other is rejected for it."""
    equal = clone(model).fit(layout(SIX))
    heavier = clone(model).fit(layout(SIX), sample_weight=[1] * 3 + [100] * 3)
    decisions = equal.decision_function(SIX)
    np.testing.assert_allclose(decisions, equal.decision_function(-SIX), atol=1e-12)
    np.testing.assert_array_equal(heavier.predict(SIX[:3]), -1)
    assert heavier.predict(SIX[3:]).max() == 1


@both_models
def test_fitted_arrays_do_not_steer_predictions(model):
    model = clone(model).fit(SIX)
    assert len(model.support_) == len(model.support_vectors_) == np.count_nonzero(model.dual_coef_)
    assert type(model.n_iter_) is int
    before = model.decision_function(THREE)
    model.dual_coef_ = 0.0 * model.dual_coef_
    model.support_ = model.support_ + 1_000_000
    np.testing.assert_array_equal(model.decision_function(THREE), before)
