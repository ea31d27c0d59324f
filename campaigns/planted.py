"""Faults to plant into the library, one for each law of `tests/laws/`: small, and of the kind that the law is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

import slabsvm.data.passes
import slabsvm.files
from slabsvm import core
from slabsvm.conformal.p_values import Ranking
from slabsvm.data import distinct
from slabsvm.detectors import base, kernelized, one_class_svm
from slabsvm.detectors.base import Detector
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.fitted.threshold import Calibration
from slabsvm.kernels.named import Linear
from slabsvm.svm.gram import Gram
from slabsvm.svm.program import DualProblem, Point, one_class

Fault = Callable[[], AbstractContextManager[Any]]
# By the names of the functions that state the laws.
FAULTS: dict[str, Fault] = {}


def planted(what: str, make: Callable[[], Any], *laws: str) -> None:
    """Plant what a function returns, a patch, for these laws."""

    @contextmanager
    def fault() -> Iterator[None]:
        with make():
            yield

    fault.__doc__ = what
    FAULTS.update(dict.fromkeys((f"test_{law}" for law in laws), fault))


def after(owner: Any, name: str, change: Callable[..., Any]) -> Any:
    """Return the patch by which a function's result is changed, given the result and the arguments."""
    original = getattr(owner, name)
    return patch.object(owner, name, lambda *given, **named: change(original(*given, **named), *given))


def gaps_too_small() -> Any:
    original, fit = Point.gap.func, core.fit

    @contextmanager
    def both() -> Iterator[None]:
        rough = patch.object(core, "fit", lambda *given, **named: fit(*given, **{**named, "optimum": False}))
        with rough, patch.object(Point, "gap", property(lambda point: 0.5 * original(point))):
            yield

    return both()


def not_to_the_end() -> Any:
    original = core.fit

    def lagging(*given: Any, groups: Any = None, **named: Any) -> Any:
        found = original(*given, groups=groups, **named)
        scores, without = found[1], found[5]
        if without.size:
            without += 1e-3 * ((scores if groups is None else scores[groups[1]]) - without)
        return found

    return patch.object(core, "fit", lagging)


def as_it_lies(model: Any, X: Any, checked: Any = base.validate_data, **named: Any) -> Any:
    return checked(model, np.ravel(np.asarray(X), order="K").reshape(np.shape(X)), **named)


def offset_of_a_file() -> Any:
    def moved(model: Any, *_: Any) -> Any:
        model.offset_ = float(np.nextafter(model.offset_, np.inf))
        return model

    return after(slabsvm.files, "load", moved)


planted(
    "Gaps are reported half as large as they are, of solutions that are left as a descent finds them",
    gaps_too_small,
    "a_slabs_gap_is_that_of_its_multipliers_and_within_tol",
    "every_way_to_the_optimum_ends_at_the_same_scores_with_a_true_gap",
    "a_slab_of_any_scale_is_certified_or_refused_in_words",
)
planted(
    "Scores are off by 1e-9 of themselves",
    lambda: after(SupportVectorDetector, "project", lambda scores, *_: scores * (1 + 1e-9)),
    "a_score_is_the_sum_over_support_vectors",
)
planted(
    "Planes are put a hundredth of the scores' range further in",
    lambda: after(
        DualProblem, "offsets", lambda offsets, dual, scores: offsets + 0.01 * dual.signs * float(np.ptp(scores))
    ),
    "nu_bounds_the_rows_outside_and_the_rows_that_hold_a_plane",
)
planted(
    "Thresholds are put a hundredth of the left-out scores' range further in",
    lambda: after(Calibration, "quantile", lambda found, _, scores, *__: found + 0.01 * float(np.ptp(scores))),
    "left_out_planes_are_quantiles_of_left_out_scores",
    "a_rivals_threshold_is_a_quantile_of_left_out_scores",
)
planted(
    "Scores without a sample have moved by a thousandth less than they should have",
    not_to_the_end,
    "what_is_left_out_scores_what_a_refit_gives_it_to_within_the_gaps",
)
planted(
    "Rows that are held out score a millionth more than they do as new rows",
    lambda: after(SupportVectorDetector, "_new_scores", lambda scores, *_: scores * (1 + 1e-6)),
    "rows_that_are_held_out_score_as_new_rows_and_set_the_threshold_and_p_values",
)
planted(
    "Predictions are of a decision that is 1e-3 lower",
    lambda: patch.object(Detector, "predict", lambda self, X: np.where(self.decision_function(X) >= 1e-3, 1, -1)),
    "a_decision_is_the_score_less_the_offset_and_a_prediction_its_sign",
)
planted(
    "A loaded model's offset is off in its last bit",
    offset_of_a_file,
    "a_model_from_a_file_answers_what_the_one_did_that_was_saved",
)
planted(
    "p-values do not count the new sample itself",
    lambda: after(Ranking, "p_values", lambda p, ranking, *_: p - 1.0 / (ranking.count + 1)),
    "a_p_value_counts_the_calibration_scores_that_are_no_larger",
    "of_exchangeable_scores_no_more_have_a_small_p_value_than_it_says",
)
planted(
    "p-values count one calibration score too many",
    lambda: after(Ranking, "p_values", lambda p, ranking, *_: p + 1.0 / (ranking.count + 1)),
    "the_p_values_of_a_calibrated_detector_count_its_calibration_scores",
)
planted(
    "Samples are taken in the order that they come in",
    lambda: patch.object(distinct, "_row_hashes", lambda X, *_: np.arange(X.shape[0], dtype=np.uint64)),
    "the_order_of_rows_changes_no_bit",
)
planted(
    "Weights of equal rows are summed in float32",
    lambda: patch.object(
        distinct, "_exact_sums", lambda weights, firsts: np.add.reduceat(weights.astype(np.float32), firsts) * 1.0
    ),
    "rows_given_twice_at_half_their_weights_teach_the_same_to_the_last_bit",
)
planted(
    "The sum of several weights is off by 1e-15",
    lambda: after(
        distinct,
        "_exact_sums",
        lambda sums, weights, firsts: sums * np.where(np.diff(firsts, append=len(weights)) > 1, 1 + 1e-15, 1.0),
    ),
    "a_weight_of_three_is_three_rows_to_the_last_bit",
)
planted(
    "1e-12 is added to kernel matrices, whatever their scale",
    lambda: after(kernelized, "_symmetric", lambda K, *_: K + 1e-12),
    "a_kernel_matrix_times_a_power_of_four_gives_scores_times_it_to_the_last_bit",
)
planted(
    ".1 is added to the diagonal of kernel matrices, whatever their scale",
    lambda: after(kernelized, "_symmetric", lambda K, *_: K + 0.1 * np.eye(len(K))),
    "a_kernel_matrix_times_a_number_gives_scores_times_it",
)
planted(
    "The linear kernel has .1 added to it",
    lambda: after(Linear, "prepare", lambda rows, *_: rows + 0.1),
    "the_unit_of_features_is_that_of_the_kernel_or_of_the_root_of_gamma",
)
planted(
    "Each further feature counts a hundredth more",
    lambda: after(Detector, "_checked", lambda X, *_: X * (1 + 0.01 * np.arange(X.shape[1]))),
    "the_order_of_features_does_not_matter",
)
planted(
    "Features far from 0 count more",
    lambda: after(Detector, "_checked", lambda X, *_: X * (1 + np.abs(X) / np.abs(X).max(initial=1e-300))),
    "where_the_origin_is_does_not_matter_to_the_rbf_kernel",
)
planted(
    "The one-class SVM's nu is off by 1e-15 of itself",
    lambda: patch.object(one_class_svm, "one_class", lambda weights, nu: one_class(weights, nu * (1 - 1e-15))),
    "without_an_upper_plane_the_slab_is_the_one_class_svm_to_the_last_bit",
)
planted(
    "Tables are read as they lie in memory, whatever their strides",
    partial(patch.object, base, "validate_data", as_it_lies),
    "no_layout_of_a_dense_table_changes_a_bit",
)
planted(
    "Sparse tables are taken with the entries that they have",
    lambda: patch.object(base, "canonical", lambda X: X),
    "no_format_of_a_sparse_table_changes_a_bit",
)
planted(
    "Rows of another type than float64 are off by 1e-15 of themselves",
    lambda: after(
        Detector, "_checked", lambda found, _, X: found if getattr(X, "dtype", 0) == np.float64 else found * (1 + 1e-15)
    ),
    "numbers_of_another_type_are_the_same_numbers",
)
planted(
    "Sparse rows are a hundredth longer",
    lambda: after(Detector, "_checked", lambda found, *_: found * 1.01 if sp.issparse(found) else found),
    "sparse_rows_are_the_dense_ones_as_far_as_their_products_say",
)
planted(
    "Decisions beyond 1e100 are no numbers",
    lambda: after(Detector, "decision_function", lambda found, *_: np.where(np.abs(found) > 1e100, np.nan, found)),
    "every_detector_of_any_scale_decides_in_numbers_or_refuses_in_words",
)
planted(
    "No matrix is looked at",
    lambda: patch.object(Gram, "check", lambda _: None),
    "an_indefinite_matrix_is_refused_or_its_certificate_is_true",
)
