"""On a real local cluster, and on Dask arrays: the answers are those of an array, and rows stay where they are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from slabsvm import AutoDetector
from slabsvm.data.passes import DaskBlocks, _scored_block, _visited_block

da = pytest.importorskip("dask.array", reason="needs the extra: pip install 'slabsvm[dask]'")
distributed = pytest.importorskip("distributed", reason="needs the extra: pip install 'slabsvm[dask]'")


@pytest.fixture(name="client", scope="module")
def cluster_of_four_workers():
    how = {"threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    with distributed.LocalCluster(n_workers=4, **how) as cluster, distributed.Client(cluster) as client:
        yield client


def positives(m: int) -> np.ndarray:
    return np.random.default_rng(0).gamma(64.0, 1 / 16, (m, 6))


def quick() -> AutoDetector:
    return AutoDetector(max_rows=50)


@pytest.fixture(scope="module")
def model():
    return quick().fit(positives(300))


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_the_answer_is_the_local_one(weighted, client):
    X = positives(20_000)
    weights = np.random.default_rng(1).exponential(size=20_000) if weighted else None
    blocks = da.from_array(X, chunks=(3000, -1)).persist()
    there, here = quick().fit(blocks, sample_weight=weights), quick().fit(X, sample_weight=weights)
    np.testing.assert_array_equal(there.sample_, here.sample_)
    assert there.offset_ == pytest.approx(here.offset_, rel=1e-9)
    scores = there.score_samples(blocks)
    assert isinstance(scores, da.Array)
    np.testing.assert_allclose(scores.compute(), here.score_samples(X), rtol=1e-9)
    np.testing.assert_array_equal(np.asarray(there.predict(blocks)), there.predict(X))


def test_what_travels_is_the_sample_and_a_number_for_each_row(client, monkeypatch):
    visit, moved = DaskBlocks.visit, []

    def counted(source, visitor):
        results = visit(source, visitor)
        moved.append(sum(array.nbytes for array in results))
        return results

    monkeypatch.setattr(DaskBlocks, "visit", counted)
    for m in (5000, 20_000):
        moved.clear()
        quick().fit(da.from_array(positives(m), chunks=(m // 8, -1)).persist())
        assert moved == [8 * 6 * 50, 8 * m]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_where_a_block_begins_in_memory_does_not_show_in_the_answer(dtype):
    X = positives(5000).astype(dtype)
    moved = np.empty(X.nbytes + 3, dtype=np.uint8)[3:].view(X.dtype).reshape(X.shape)
    moved[:] = X
    assert not moved.flags.aligned
    here, there = (_visited_block(lambda some, _: some.T @ np.ones(len(some)), rows, 0) for rows in (X, moved))
    np.testing.assert_array_equal(here, there)
    here, there = (_scored_block(rows, lambda some: some @ (some.T @ np.ones(len(some)))) for rows in (X, moved))
    np.testing.assert_array_equal(here, there)


def test_dask_arrays_that_cannot_be_passed_over_are_refused():
    X = da.from_array(positives(100), chunks=(50, -1))
    bad = [(X.rechunk((50, 3)), "divided along the features.*rechunk"), (X.astype(int), "holds int64.*astype")]
    bad += [(X[:, 0], "Expected 2D array, got 1D"), (X[:1], r"shape \(1, 6\).*at least 2 samples")]
    bad += [(X[X[:, 0] > 3], "compute_chunk_sizes")]
    for array, text in bad:
        with pytest.raises(ValueError, match=f"(?s){text}"):
            quick().fit(array)
    for weights, text in ((np.ones(99), "expected"), (-np.ones(100), "Negative"), (np.zeros(100), "zero")):
        with pytest.raises(ValueError, match=text):
            quick().fit(X, sample_weight=weights)
    holed = positives(100)
    holed[70, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        quick().fit(da.from_array(holed, chunks=(50, -1)))


def test_dask_arrays_that_cannot_be_scored_are_refused(model):
    X = positives(100)
    blocks = da.from_array(X, chunks=(50, 4))
    expected = model.score_samples(X)
    np.testing.assert_allclose(model.score_samples(blocks).compute(), expected, rtol=1e-9)
    some = model.score_samples(blocks[blocks[:, 0] > 4]).compute()
    np.testing.assert_allclose(some, expected[X[:, 0] > 4], rtol=1e-9)
    for array, text in ((blocks[:, 0], "Expected 2D array, got 1D"), (blocks[:, :5], "5 features.*expecting 6")):
        with pytest.raises(ValueError, match=text):
            model.predict(array)
    bag = pytest.importorskip("dask.bag").from_sequence(X.tolist())
    for act in (quick().fit, model.predict):
        with pytest.raises(ValueError, match=r"(?s)only arrays.*Bag.*to_dask_array"):
            act(bag)
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        holed = X.copy()
        holed[70, 2] = value
        scores = model.score_samples(da.from_array(holed, chunks=(50, -1)))
        with pytest.raises(ValueError, match=f"Input X contains {word}"):
            scores.compute()


def test_a_dask_array_has_no_feature_names():
    X = positives(100)
    model = quick().fit(pd.DataFrame(X, columns=list("abcdef")))
    model.fit(da.from_array(X, chunks=(50, -1)))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 6


def test_what_is_computed_after_another_fit_is_scored_by_the_model_that_was_asked():
    X = positives(300)
    blocks = da.from_array(X, chunks=(50, -1))
    model = quick().fit(X)
    here, there = model.decision_function(X), model.decision_function(blocks)
    model.fit(3.0 * X[:100])
    np.testing.assert_allclose(there.compute(), here, rtol=1e-9)


@pytest.mark.parametrize("calibration", ["auto", "held-out"])
def test_a_dask_array_that_is_learned_whole_is_learned_as_its_rows_are(calibration):
    X, weights = positives(250), np.repeat([0.0, 1.0], [20, 230])
    both, model = (X, da.from_array(X, chunks=(60, -1))), AutoDetector(calibration=calibration)
    here, there = (clone(model).fit(rows, sample_weight=weights) for rows in both)
    np.testing.assert_array_equal(here.calibration_scores_, there.calibration_scores_)
    np.testing.assert_array_equal(here.decision_function(X), there.decision_function(X))
