"""A monitor comes back from a file as it was, and goes on bit for bit; what no stream would have made is refused."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from damage import edited, read
from slabsvm import ConformalDetector, DriftMonitor, OneClassSlabSVM, OpenSetClassifier
from slabsvm.files import ModelFileError, load, save

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::UserWarning")]

RNG = np.random.default_rng(0)
X, REFERENCE, STREAM = RNG.normal(size=(3, 120, 2))
LABELS = np.arange(120) % 2
CENTRES = np.where(LABELS[:, None], 8.0, 0.0)


def monitors():
    """Return monitors of each kind, with rows of their streams."""
    calibrated = ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM())).fit(
        np.concatenate([X, REFERENCE])
    )
    classifier = OpenSetClassifier().fit(X + CENTRES, LABELS)
    return (
        (DriftMonitor(calibrated, max_scores=150, window=20).fit(), STREAM),
        (DriftMonitor(OneClassSlabSVM().fit(X), run_length=50, random_state=3).fit(), STREAM * 2),
        (DriftMonitor(classifier, alpha=np.float64(0.1)).fit(REFERENCE + CENTRES), STREAM + CENTRES),
    )


@pytest.mark.parametrize(("monitor", "stream"), monitors(), ids=["calibrated", "run length", "classes"])
@pytest.mark.parametrize("rows", [0, 70])
def test_a_stream_goes_on_bit_for_bit(monitor, stream, rows, tmp_path):
    monitor = deepcopy(monitor)
    if rows:
        monitor.update(stream[:rows], np.arange(rows) % 3 - 1)
    save(monitor, tmp_path / "m.slab")
    loaded = load(tmp_path / "m.slab")
    assert loaded.summary() == monitor.summary()
    found, expected = loaded.update(stream[rows:]), monitor.update(stream[rows:])
    for name in ("row", "p_value", "log_evidence", "alarms", "accepted"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    # Equal monitors make equal bytes: all that they know is equal.
    save(monitor, tmp_path / "there")
    save(loaded, tmp_path / "here")
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


def test_a_monitor_that_has_not_begun_comes_back(tmp_path):
    save(DriftMonitor(OneClassSlabSVM().fit(X), alpha=0.2), tmp_path / "m.slab")
    loaded = load(tmp_path / "m.slab")
    assert loaded.alpha == 0.2
    assert loaded.fit(REFERENCE).n_rows_ == 0


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    path = tmp_path_factory.mktemp("monitor") / "m.slab"
    monitor = DriftMonitor(OneClassSlabSVM().fit(X)).fit(REFERENCE)
    monitor.update(STREAM)
    save(monitor, path)
    return read(path.read_bytes())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda course: course.update(n_rows=-1), "n_rows is -1"),
        (lambda course: course.update(tests=[]), "must have at least 1"),
        (lambda course: course.update(tests=course["tests"] * 2), "names"),
        (lambda course: course["tallies"].pop(), "three tallies"),
        (lambda course: course["tallies"][0].update(yes=200), "counts more than there is"),
        (lambda course: course["history"].update(stride=0), "stride is 0"),
        (lambda course: course["tests"][0]["bag"].update(most=5), "must be one at least and no more"),
        (lambda course: course["tests"][0]["bag"].update(seed=2**40), "seed is"),
        (lambda course: course["tests"][0]["wealth"].update(log_value="much"), "must be a number"),
        (lambda course: course.update(log_level="nan"), "must be a finite number"),
    ],
    ids=range(10),
)
def test_what_no_stream_would_have_made_is_refused(members, change, words, tmp_path):
    (tmp_path / "m").write_bytes(edited(members, lambda document: change(document["model"]["fitted"]["course"])))
    with pytest.raises(ModelFileError, match=words):
        load(tmp_path / "m")


def test_scores_that_are_infinite_alike_come_back(tmp_path):
    monitor = DriftMonitor(OneClassSlabSVM().fit(X)).fit(REFERENCE)
    (test,) = monitor.course_.tests
    scores = np.concatenate([[-np.inf, -np.inf], test.bag.scores])
    monitor.course_ = replace(monitor.course_, tests=(replace(test, bag=replace(test.bag, scores=scores)),))
    save(monitor, tmp_path / "m.slab")
    np.testing.assert_array_equal(load(tmp_path / "m.slab").course_.tests[0].bag.scores, scores)
