"""Rows are added and forgotten, and the model is always that of the rows that are kept."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems
from slabsvm import (
    SVDD,
    ConformalDetector,
    DriftMonitor,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    WindowedDetector,
)
from slabsvm.files import load, save

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::UserWarning")]

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(120, 3))
NEW = RNG.normal(size=(30, 3)) * RNG.choice([1.0, 9.0], size=(30, 1))
MODELS = {
    "slab": OneClassSlabSVM(),
    "slab, wide": OneClassSlabSVM(gamma="scale"),
    "one plane": OneClassSVM(gamma="scale", nu=0.2),
    "ball": SVDD(gamma="scale", C=0.2),
    "linear": OneClassSVM(kernel="linear"),
    "training planes": OneClassSlabSVM(gamma=0.3, offsets="training", nu_upper=0.2),
}
by_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


# Two of the checks ask that a row is rejected that was learned (see test_contract.py).
@parametrize_with_checks(
    [WindowedDetector(OneClassSlabSVM(gamma="scale", ranking="centre"), n_rows=1000)],
    expected_failed_checks=problems.answering_without_each_row,
)
def test_it_is_an_outlier_detector_to_the_letter(estimator, check):
    check(estimator)


def full_fit(window, weights=None):
    """Return the estimator fitted to the rows that are kept, from nothing, at the gamma of the window."""
    model = clone(window.estimator)
    if hasattr(window.estimator_, "gamma_"):
        model.set_params(gamma=window.estimator_.gamma_)
    return model.fit(window.rows_, sample_weight=weights)


class Sequence:
    """Random additions and removals, with a plain account of what is kept."""

    def __init__(self, model, seed):
        self.rng = np.random.default_rng(seed)
        self.n_rows = int(self.rng.integers(20, 60)) if seed % 2 else None
        self.window = WindowedDetector(model, n_rows=self.n_rows)
        self.kept = {}
        self.n_seen = 0

    def add(self, count):
        # Values of few digits repeat, as rows do.
        rows = self.rng.normal(size=(count, 2)).round(int(self.rng.integers(0, 2)) if self.rng.random() < 0.3 else 9)
        weights = self.rng.choice([0.0, 0.5, 1.0, 3.0], size=count)
        weights[0] = 1.0
        self.window.partial_fit(rows, sample_weight=weights)
        for row, weight in zip(rows, weights, strict=True):
            self.kept[self.n_seen] = (row, weight)
            self.n_seen += 1
        for number in list(self.kept)[: max(0, len(self.kept) - (self.n_rows or self.n_seen))]:
            del self.kept[number]

    def forget(self, count):
        # The last row that was added stays, so that weight is left.
        numbers = self.rng.choice(list(self.kept)[:-10], size=count, replace=False)
        self.window.forget(numbers)
        for number in numbers:
            del self.kept[int(number)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slab", "slab, wide", "one plane", "ball"])
def test_random_sequences_end_at_the_full_fits_objective(name):
    for seed in range(12):
        model = clone(MODELS[name]).set_params(tol=1e-5)
        sequence = Sequence(model, seed)
        sequence.add(40)
        for _ in range(4):
            if sequence.rng.random() < 0.6:
                sequence.add(int(sequence.rng.integers(1, 12)))
            elif len(sequence.kept) > 20:
                sequence.forget(int(sequence.rng.integers(1, len(sequence.kept) - 12)))
        window = sequence.window
        assert window.numbers_.tolist() == list(sequence.kept)
        assert window.n_seen_ == sequence.n_seen
        rows, weights = map(np.array, zip(*sequence.kept.values(), strict=True))
        np.testing.assert_array_equal(window.rows_, rows)
        full, found = full_fit(window, weights), window.estimator_
        assert found.status_ in ("converged", "degenerate")
        # Each is within its gap of the optimum, from above, whatever the order of arrival was.
        difference = abs(found.dual_objective_ - full.dual_objective_)
        rounding = 1e-12 * max(abs(full.dual_objective_), 1e-3)
        assert difference <= max(found.duality_gap_, full.duality_gap_) + rounding
        assert found.relative_gap_ <= model.tol


@by_model
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_refit_is_the_full_fit_bit_for_bit_in_any_order(model, sparse):
    rows = sp.csr_array(ROWS * (np.abs(ROWS) > 0.3)) if sparse else ROWS
    forwards = WindowedDetector(model).fit(rows[:60]).partial_fit(rows[60:]).forget([3, 7]).refit()
    kept = np.delete(np.arange(120), [3, 7])
    backwards = WindowedDetector(model).partial_fit(rows[kept[::-1][:50]]).partial_fit(rows[kept[::-1][50:]]).refit()
    full = clone(model).fit(rows[kept])
    for window in (forwards, backwards):
        assert window.decision_function(NEW).tobytes() == full.decision_function(NEW).tobytes()
        assert window.estimator_.dual_objective_ == full.dual_objective_
    assert vars(forwards.estimator_).keys() == vars(full).keys()
    np.testing.assert_array_equal(forwards.estimator_.support_, full.support_)
    np.testing.assert_array_equal(forwards.estimator_.dual_coef_, full.dual_coef_)


def test_gamma_stays_what_it_was_until_a_refit():
    model = OneClassSlabSVM(gamma="scale")
    window = WindowedDetector(model).fit(ROWS)
    found = window.estimator_.gamma_
    window.partial_fit(9.0 * NEW)
    assert window.estimator_.gamma == window.estimator_.gamma_ == found
    assert window.refit().estimator_.gamma_ == clone(model).fit(np.concatenate([ROWS, 9.0 * NEW])).gamma_ != found
    assert model.gamma == "scale"
    # A gamma that was asked for is taken.
    assert window.set_params(estimator__gamma=0.25).partial_fit(NEW).estimator_.gamma_ == 0.25


def test_an_update_goes_on_from_the_last_solution():
    window = WindowedDetector(OneClassSlabSVM(gamma=0.1)).fit(np.repeat(ROWS, 2, axis=0))
    assert window.estimator_.n_iter_ > 0
    window.forget(window.numbers_[::2])
    # Every row half as often, and a sum of weights that is half: the same program.
    assert window.estimator_.n_iter_ == 0


def test_the_oldest_rows_leave_a_window_that_is_full():
    window = WindowedDetector(OneClassSVM(), n_rows=50).fit(ROWS)
    np.testing.assert_array_equal(window.numbers_, np.arange(70, 120))
    np.testing.assert_array_equal(window.rows_, ROWS[70:])
    window.forget(100).partial_fit(NEW[:1])
    np.testing.assert_array_equal(window.numbers_, [*range(70, 100), *range(101, 121)])
    window.partial_fit(np.concatenate([NEW, NEW, NEW]))
    np.testing.assert_array_equal(window.numbers_, np.arange(161, 211))
    assert window.n_seen_ == 211
    assert "50 of 211 rows kept" in window.summary()


def test_dense_and_sparse_rows_meet_in_one_table():
    window = WindowedDetector(OneClassSVM(gamma="scale")).fit(ROWS).partial_fit(sp.csr_matrix(NEW))
    full = OneClassSVM(gamma="scale").fit(sp.csr_array(np.concatenate([ROWS, NEW])))
    assert window.refit().decision_function(NEW).tobytes() == full.decision_function(NEW).tobytes()


def state(window):
    return window.numbers_.tolist(), window.n_seen_, window.decision_function(NEW).tobytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda window: window.partial_fit(NEW[:, :2]), "2 features, but WindowedDetector is expecting 3"),
        (lambda window: window.partial_fit([[np.nan, 0.0, 0.0]]), "contains NaN"),
        (lambda window: window.partial_fit(NEW[0]), "Expected 2D array"),
        (lambda window: window.partial_fit(NEW, sample_weight=-np.ones(30)), "sample_weight"),
        (lambda window: window.partial_fit(NEW, sample_weight=np.ones(29)), "sample_weight"),
        (lambda window: window.forget([5, 120]), "no row with the number 120.*never added, or is already forgotten"),
        (lambda window: window.forget(-1), "no row with the number -1"),
        (lambda window: window.forget(np.arange(120)), "0 of 120 rows would be left, and a model needs at least 2"),
        (lambda window: window.forget(np.arange(119)), "1 of 120 rows would be left"),
        (lambda window: window.forget(np.ones(120, dtype=bool)), r"type bool.*numbers_\[mask\]"),
        (lambda window: window.forget([1.0]), "a list of whole numbers"),
        (lambda window: window.set_params(estimator__nu=2.0).partial_fit(NEW), "The 'nu' parameter of OneClassSVM"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(change, words):
    window = WindowedDetector(OneClassSVM(gamma="scale")).fit(ROWS)
    before = state(window)
    with pytest.raises(ValueError, match=words):
        change(window)
    assert state(window) == before


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (WindowedDetector(OneClassSVM(kernel="precomputed")), "kernel='precomputed' has none"),
        (WindowedDetector(KernelPCADetector()), "'estimator' parameter of WindowedDetector must be"),
        (WindowedDetector(n_rows=1), r"int in the range \[2, inf\)"),
    ],
    ids=["precomputed", "another model", "one row"],
)
def test_what_has_no_window_is_refused(window, words):
    with pytest.raises(ValueError, match=words):
        window.partial_fit(ROWS @ ROWS.T)


def test_nothing_is_asked_of_a_model_that_is_not_fitted():
    for ask in ("forget", "predict", "score_samples", "explain"):
        with pytest.raises(NotFittedError):
            getattr(WindowedDetector(), ask)([[0.0, 0.0, 0.0]])
    for ask in (lambda window: window.refit(), lambda window: window.numbers_, lambda window: window.summary()):
        with pytest.raises(NotFittedError):
            ask(WindowedDetector())


def test_nothing_new_to_forget_leaves_the_model():
    window = WindowedDetector(OneClassSVM(gamma="scale")).fit(ROWS)
    before = state(window)
    assert state(window.forget([])) == before


def test_a_copy_in_a_pickle_goes_on_bit_for_bit():
    window = WindowedDetector(OneClassSlabSVM(gamma="scale"), n_rows=100).fit(ROWS)
    copied = pickle.loads(pickle.dumps(window))
    assert state(copied.partial_fit(NEW)) == state(window.partial_fit(NEW))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_model_file_goes_on_from_its_rows(tmp_path, sparse):
    rows = sp.csr_array(ROWS) if sparse else ROWS
    window = WindowedDetector(OneClassSlabSVM(gamma="scale"), n_rows=100).fit(rows).forget([30])
    save(window, tmp_path / "m.slab")
    loaded = load(tmp_path / "m.slab")
    assert state(loaded) == state(window)
    assert loaded.explain(NEW).tobytes() == window.explain(NEW).tobytes()
    save(loaded, tmp_path / "again.slab")
    assert (tmp_path / "m.slab").read_bytes() == (tmp_path / "again.slab").read_bytes()
    loaded.partial_fit(NEW)
    window.partial_fit(NEW)
    np.testing.assert_array_equal(loaded.numbers_, window.numbers_)
    assert loaded.estimator_.gamma_ == window.estimator_.gamma_
    assert loaded.refit().decision_function(NEW).tobytes() == window.refit().decision_function(NEW).tobytes()


def test_a_file_without_training_rows_predicts_and_says_what_it_cannot(tmp_path):
    window = WindowedDetector(OneClassSlabSVM(gamma="scale")).fit(ROWS)
    save(window, tmp_path / "m.slab", training=False)
    loaded = load(tmp_path / "m.slab")
    assert loaded.decision_function(NEW).tobytes() == window.decision_function(NEW).tobytes()
    assert "120 of 120 rows" in loaded.summary()
    for change in (lambda: loaded.partial_fit(NEW), lambda: loaded.forget([0]), loaded.refit):
        with pytest.raises(ValueError, match="saved with training=False, without its rows"):
            change()
    assert loaded.fit(NEW).n_seen_ == 30


def test_it_is_calibrated_and_monitored_as_any_other():
    window = WindowedDetector(OneClassSlabSVM(gamma="scale")).fit(ROWS)
    recent = RNG.normal(0.3, size=(99, 3))
    calibrated = ConformalDetector(FrozenEstimator(window), alpha=0.1).fit(recent)
    assert (calibrated.predict(recent) == -1).mean() == pytest.approx(0.1, abs=0.011)
    assert DriftMonitor(calibrated).fit().n_reference_ == 99
    assert window.n_seen_ == 120
