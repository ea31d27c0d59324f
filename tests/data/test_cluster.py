"""On a real local cluster: the same answer, from bytes that do not grow with the number of samples."""

import numpy as np
import pandas as pd
import pytest

from slabsvm import LinearOneClassSlabSVM
from slabsvm.data.passes import DaskBlocks, Local, Planes, _scored_block, _visited_block
from slabsvm.solvers.streaming import PassTuning

da = pytest.importorskip("dask.array", reason="needs the extra: pip install 'slabsvm[dask]'")
distributed = pytest.importorskip("distributed", reason="needs the extra: pip install 'slabsvm[dask]'")


@pytest.fixture(name="client", scope="module")
def cluster_of_four_workers():
    with (
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def positives(m: int) -> np.ndarray:
    return np.random.default_rng(0).gamma(64.0, 1 / 16, (m, 6))


class InBands(LinearOneClassSlabSVM):
    """A linear slab that needs passes for more than a few thousand rows."""

    _tuning = PassTuning(sample_rows=4000, band_rows=2000)


class InSmallBands(LinearOneClassSlabSVM):
    """A linear slab that needs passes for more than two thousand rows."""

    _tuning = PassTuning(sample_rows=2000, band_rows=1000, least_rows=500)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 2 / 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_answer_is_the_local_one(epsilon, weighted, client):
    X = positives(20_000)
    weights = np.random.default_rng(1).exponential(size=20_000) if weighted else None
    blocks = da.from_array(X, chunks=(3000, -1)).persist()
    parameters = {"epsilon": epsilon, "nu_upper": 0.05, "tol": 1e-10}
    there = InSmallBands(**parameters).fit(blocks, sample_weight=weights)
    here = InSmallBands(**parameters).fit(X, sample_weight=weights)
    assert there.n_passes_ >= 3
    assert there.relative_gap_ <= 1e-10
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8)
    assert there.rho_lower_ == pytest.approx(here.rho_lower_, rel=1e-8)
    scores = there.project(blocks)
    assert isinstance(scores, da.Array)
    np.testing.assert_allclose(scores.compute(), X @ there.coef_[0], rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(there.predict(blocks)), there.predict(X))


def travelled(source, results) -> int:
    """Return the bytes of the arrays in what visits brought back."""
    return sum(array.nbytes for result in results for array in vars(result).values() if isinstance(array, np.ndarray))


def test_what_travels_does_not_grow_with_the_number_of_samples(client, monkeypatch):
    visit, moved = DaskBlocks.visit, []

    def counted(source, visitor, bytes_per_row):
        results = visit(source, visitor, bytes_per_row)
        moved.append(travelled(source, results))
        return results

    monkeypatch.setattr(DaskBlocks, "visit", counted)
    totals = []
    for m in (50_000, 200_000):
        moved.clear()
        blocks = da.from_array(positives(m), chunks=(m // 8, -1)).persist()
        model = InBands(nu_upper=0.05).fit(blocks)
        assert model.status_ == "converged"
        totals.append(sum(moved) / len(moved))
    # Per pass; the whole of the data is 2.4 and 9.6 MB.
    assert totals[1] < 1.25 * totals[0]
    assert totals[1] < 0.05 * 200_000 * 6 * 8


def test_rows_stay_in_their_blocks(client):
    X = positives(1000)
    blocks = DaskBlocks(da.from_array(X, chunks=(300, -1)), None)
    w = np.ones(6)
    middle = np.median(X @ w)
    planes = Planes(np.array([1.0]), np.array([middle - 0.1]), np.array([middle + 0.1]), np.array([0.5]))
    there, here = blocks.sweep(w, planes), Local(X, None).sweep(w, planes)
    np.testing.assert_array_equal(there.rows, here.rows)
    for name in ("pull", "masses", "tails"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_where_a_block_begins_in_memory_does_not_show_in_the_answer(dtype):
    X = positives(5000).astype(dtype)
    moved = np.empty(X.nbytes + 3, dtype=np.uint8)[3:].view(X.dtype).reshape(X.shape)
    moved[:] = X
    assert not moved.flags.aligned
    here, there = (_visited_block(lambda some, weights, _: some.T @ weights, rows, None, 0, 999) for rows in (X, moved))
    np.testing.assert_array_equal(here, there)
    here, there = (_scored_block(rows, lambda some: some @ (some.T @ np.ones(len(some))), 48) for rows in (X, moved))
    np.testing.assert_array_equal(here, there)


def test_dask_arrays_that_cannot_be_passed_over_are_refused():
    X = da.from_array(positives(100), chunks=(50, -1))
    bad = [
        (X.rechunk((50, 3)), "divided along the features.*rechunk"),
        (X.astype(int), "holds int64.*astype"),
        (X[:, 0], "Expected 2D array, got 1D"),
        (X[:1], r"shape \(1, 6\).*at least 2 samples"),
        (X[X[:, 0] > 3], "compute_chunk_sizes"),
    ]
    for array, text in bad:
        with pytest.raises(ValueError, match=f"(?s){text}"):
            LinearOneClassSlabSVM().fit(array)
    for weights, text in ((np.ones(99), "expected"), (-np.ones(100), "Negative"), (np.zeros(100), "zero")):
        with pytest.raises(ValueError, match=text):
            LinearOneClassSlabSVM().fit(X, sample_weight=weights)
    holed = positives(100)
    holed[70, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LinearOneClassSlabSVM().fit(da.from_array(holed, chunks=(50, -1)))


def test_dask_arrays_that_cannot_be_scored_are_refused():
    X = positives(100)
    model = LinearOneClassSlabSVM().fit(X)
    blocks = da.from_array(X, chunks=(50, 4))
    expected = X @ model.coef_[0]
    np.testing.assert_allclose(model.project(blocks).compute(), expected, rtol=1e-12)
    np.testing.assert_allclose(model.project(blocks[blocks[:, 0] > 4]).compute(), expected[X[:, 0] > 4], rtol=1e-12)
    for array, text in ((blocks[:, 0], "Expected 2D array, got 1D"), (blocks[:, :5], "5 features.*expecting 6")):
        with pytest.raises(ValueError, match=text):
            model.predict(array)
    bag = pytest.importorskip("dask.bag").from_sequence(X.tolist())
    for act in (LinearOneClassSlabSVM().fit, model.predict):
        with pytest.raises(ValueError, match=r"(?s)only arrays.*Bag.*to_dask_array"):
            act(bag)
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        holed = X.copy()
        holed[70, 2] = value
        scores = model.predict(da.from_array(holed, chunks=(50, -1)))
        with pytest.raises(ValueError, match=f"Input X contains {word}"):
            scores.compute()


def test_a_dask_array_has_no_feature_names():
    X = positives(100)
    model = LinearOneClassSlabSVM().fit(pd.DataFrame(X, columns=list("abcdef")))
    model.fit(da.from_array(X, chunks=(50, -1)))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 6


def test_what_is_computed_after_another_fit_is_scored_by_the_model_that_was_asked():
    X = positives(300)
    blocks = da.from_array(X, chunks=(50, -1))
    model = LinearOneClassSlabSVM().fit(X)
    here, there = model.decision_function(X), model.decision_function(blocks)
    model.fit(3.0 * X[:100])
    np.testing.assert_allclose(there.compute(), here, rtol=1e-12)
