"""The fair table: methods tuned alike, nothing learned from the test rows, and a report that can say who loses."""

import json
import warnings
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
from sklearn.model_selection import KFold, ParameterGrid

from slabsvm import KernelDensityDetector, LabelFreeSearchCV, LeakageWarning
from slabsvm.selection import Answer, Record
from slabsvm.selection.criteria import GridEdgeWarning, SyntheticOutliers
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.run import protocol
from slabsvm_reproduction.tuned import comparison
from slabsvm_reproduction.tuned import experiment as fair
from slabsvm_reproduction.tuned import report as fair_report

CHEAP = ("OCSSVM", "OCSVM", "KDE", "LOF")


def cell_of(name: str) -> fair.FairCell:
    method = fair.METHODS[name]
    return fair.FairCell("generated", "0", name, repr(method.estimator), tuple(method.grid.items()))


@pytest.fixture(scope="module")
def ring():
    """A ring of 120 training samples, and 200 test samples on it and off it."""
    rng = np.random.default_rng(0)
    angles, radii = rng.uniform(0, 2 * np.pi, 320), 1 + 0.05 * rng.normal(size=320)
    radii[220:] *= rng.choice([0.4, 1.6], 100)
    points = np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
    return points[:120], points[120:], np.repeat([True, False], 100)


def test_every_method_has_the_same_budget():
    for name, method in fair.METHODS.items():
        sizes = [len(values) for values in method.grid.values()]
        assert np.prod(sizes) == fair.N_CANDIDATES, name
        for parameter in method.grid:
            assert parameter in method.estimator.get_params()


def test_every_method_promises_the_same_recall():
    for method in fair.METHODS.values():
        if method.calibrated:
            given = method.estimator.get_params()
            assert given.get("nu", given.get("nu_lower", 0) + given.get("nu_upper", 0)) == pytest.approx(fair.NU)
            assert given["offsets"] == "leave-one-out"


def edge_of(name):
    """The warning that the ring's best candidate is the last one of a method's grid, for the method where it is."""
    return pytest.warns(GridEdgeWarning) if name == "KDE" else nullcontext()


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_a_method_is_tuned_and_its_candidates_are_faced_with_the_test_rows(ring, name):
    with edge_of(name), protocol.expected_warnings():
        record = fair.measure_fair(cell_of(name), *ring)
    assert record["mcc"] == record["candidates_mcc"][_index(name, record["chosen_by_marginals"])]
    assert record["oracle_mcc"] == max(record["candidates_mcc"])
    assert record["mcc"] > 0.6
    json.dumps(record, allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_the_choice_does_not_see_the_test_rows(ring, name):
    train, test, known = ring
    with edge_of(name), protocol.expected_warnings():
        first = fair.measure_fair(cell_of(name), train, test, known)
        other = fair.measure_fair(cell_of(name), train, test[::-1] + 0.3, known)
    assert first["chosen_by_marginals"] == other["chosen_by_marginals"]
    assert first["chosen_by_swaps"] == other["chosen_by_swaps"]
    assert first["candidates_mcc"] != other["candidates_mcc"]


@pytest.mark.slow
def test_rows_that_are_equal_leak_nothing_from_fold_to_fold(ring):
    """The search warns of held-out rows that are equal to learned ones; here each row is there three times."""
    train = np.repeat(ring[0][:40], 3, axis=0)

    with protocol.expected_warnings():
        warnings.simplefilter("error", LeakageWarning)
        fair.measure_fair(cell_of("KDE"), train, *ring[1:])
    with protocol.expected_warnings():
        warnings.simplefilter("error", LeakageWarning)
        leaking = LabelFreeSearchCV(KernelDensityDetector(), {"bandwidth": [0.1]}, cv=KFold(5, shuffle=True))
        with pytest.raises(LeakageWarning, match="Equal rows are in several folds"):
            leaking.fit(train)


@pytest.mark.slow
def test_what_is_chosen_is_what_the_search_chooses(ring):
    method, (first, rule) = fair.METHODS["OCSVM"], next(iter(fair.RULES.items()))
    search = LabelFreeSearchCV(method.estimator, {"gamma": list(fair.GAMMAS)}, criterion=rule, refit=False)
    with protocol.expected_warnings():
        record = fair.measure_fair(cell_of("OCSVM"), *ring)
        search.fit(ring[0])
    assert record[f"chosen_by_{first}"] == search.best_params_


def test_a_threshold_of_held_out_positives_keeps_what_was_promised():
    rng = np.random.default_rng(0)
    positives, outliers = rng.normal(size=500), rng.normal(size=400)
    outliers[200:] -= 2
    never = np.zeros(500, dtype=bool)
    shown = Answer(positives, never), Answer(outliers, never[:400]), SyntheticOutliers(outliers)
    measured = fair.EveryRule(0.1).measure(*shown)
    assert measured["recall"] == pytest.approx(0.9)
    assert measured["level"] == pytest.approx(np.quantile(positives, 0.1))
    for half, name in enumerate(fair.RULES):
        mine = outliers[200 * half : 200 * (half + 1)]
        assert measured[name] == pytest.approx(np.mean(mine >= measured["level"]))
    own = fair.EveryRule(None).measure(*shown)
    assert (own["level"], own["recall"]) == (0.0, pytest.approx(np.mean(positives >= 0)))


def test_every_rule_is_shown_its_own_outliers(ring):
    made = fair.EveryRule(None).outliers(ring[0], np.random.default_rng(3))
    first = next(iter(fair.RULES.values())).outliers(ring[0], np.random.default_rng(3))
    assert made.X.shape == (len(fair.RULES) * fair.N_OUTLIERS, 2)
    np.testing.assert_array_equal(made.X[: fair.N_OUTLIERS], first.X)


def invented(values: dict[str, np.ndarray]) -> list[Record]:
    return [
        {
            "known": letter,
            "method": name,
            "mcc": float(mcc),
            **{f"mcc_by_{rule}": float(mcc) for rule in fair.RULES},
            "oracle_mcc": float(mcc) + 0.01,
            "auroc": 0.9,
            "accepted": 9,
            "rejected": 1,
            "candidates_mcc": [float(mcc)] * fair.N_CANDIDATES,
        }
        for name, column in values.items()
        for letter, mcc in zip(paper.LETTERS, column, strict=True)
    ]


def test_a_comparison_counts_wins_and_tells_chance_from_more():
    base = np.linspace(0.5, 0.8, 26)
    wave = 0.01 * np.where(np.arange(26) % 2, 1, -1) * np.linspace(1, 2, 26)
    records = invented({"OCSVM": base, "SVDD": base, "OCSSVM": base - 0.05, "KDE": base + 0.05, "LOF": base + wave})
    same = fair_report.compare_methods(records, "SVDD", "OCSVM")
    assert (same.word, same.difference, same.wins, same.losses, same.p) == ("level", 0.0, 0, 0, 1.0)
    assert fair_report.compare_methods(records, "KDE", "OCSVM").word == "better"
    worse = fair_report.compare_methods(records, "OCSSVM", "OCSVM")
    assert (worse.word, worse.wins, worse.losses) == ("worse", 0, 26)
    assert worse.difference == pytest.approx(-0.05)
    assert fair_report.compare_methods(records, "LOF", "OCSVM").word == "level"


def test_the_p_is_of_all_signs_that_the_ranks_can_have():
    differences = np.array([0.5, -0.1, 0.2, 0.9, 0.3, -0.4, 0.7])
    ranks = np.argsort(np.argsort(np.abs(differences))) + 1
    found = comparison.compare(differences, np.zeros(7))
    sums = np.abs([np.dot(signs, ranks) for signs in product([-1, 1], repeat=7)])
    assert found.rank_sum == np.dot(np.sign(differences), ranks)
    assert found.p == pytest.approx(np.mean(sums >= abs(found.rank_sum)))


def test_a_comparison_of_which_most_is_equal_is_judged_by_the_rest():
    first = np.concatenate([np.zeros(14), np.linspace(0.01, 0.12, 12)])
    found = comparison.compare(first, np.zeros(26))
    assert (found.difference, found.wins, found.losses, found.word) == (0.0, 12, 0, "better")
    assert comparison.compare(np.zeros(26), first).word == "worse"
    assert found.p == comparison.compare(first[14:], np.zeros(12)).p


def test_many_comparisons_are_corrected():
    ps = {"a": 0.04, "b": 0.001, "c": 0.03, "d": 0.02}
    found = comparison.holm({name: comparison.Comparison(0.1, 9, 1, 40.0, p, p) for name, p in ps.items()})
    assert list(found) == list(ps)
    assert [one.p for one in found.values()] == list(ps.values())
    assert [one.corrected for one in found.values()] == pytest.approx([0.06, 0.004, 0.06, 0.06])
    assert [one.word for one in found.values()] == ["level", "better", "level", "level"]


def test_the_report_says_so_where_the_slab_loses():
    base = np.linspace(0.5, 0.8, 26)
    records = invented({name: base + 0.01 * place for place, name in enumerate(fair.METHODS)})
    text = " ".join(fair_report.found(records))
    assert "the slab comes 9th of 9" in text
    assert "significantly worse than: Gaussian mixture" in text
    assert "significantly better" not in text
    assert "Tuned by swaps instead, the slab is significantly worse than the one-class SVM (-0.010, 0:26" in text
    assert "at 0 of 9 gammas (none)" in text
    markdown = fair_report.fair_report(records, []).markdown()
    assert "| **0.730** |" in markdown
    assert "| one-class slab SVM | 0.650 |" in markdown


def _index(name: str, candidate: dict[str, object]) -> int:
    grid = {parameter: list(values) for parameter, values in fair.METHODS[name].grid.items()}
    return list(ParameterGrid(grid)).index(candidate)
