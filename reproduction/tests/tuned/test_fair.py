"""The fair table: methods tuned alike, nothing learned from the test rows, and a report that can say who loses."""

import json
from itertools import product

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.run import protocol
from slabsvm_reproduction.run.journal import Record
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


def test_every_method_has_the_same_budget_and_promises_the_same_recall():
    for name, method in fair.METHODS.items():
        given = method.estimator.get_params()
        assert np.prod([len(values) for values in method.grid.values()]) == fair.N_CANDIDATES, name
        assert method.grid.keys() <= given.keys()
        if method.calibrated:
            assert given.get("nu", given.get("nu_lower", 0) + given.get("nu_upper", 0)) == pytest.approx(fair.NU)
            assert given["calibration"] == "auto"


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_a_method_is_tuned_without_the_test_rows_which_its_candidates_are_faced_with(ring, name):
    train, test, known = ring
    with protocol.expected_warnings():
        record = fair.measure_fair(cell_of(name), train, test, known)
        other = fair.measure_fair(cell_of(name), train, test[::-1] + 0.3, known)
    assert record["mcc"] == record["candidates_mcc"][_index(name, record["chosen_by_marginals"])]
    assert record["oracle_mcc"] == max(record["candidates_mcc"])
    assert record["mcc"] > 0.6
    json.dumps(record, allow_nan=False)
    for choice in ("chosen_by_marginals", "chosen_by_swaps"):
        assert record[choice] == other[choice]
    assert record["candidates_mcc"] != other["candidates_mcc"]


def test_rows_that_are_equal_leak_nothing_from_fold_to_fold(ring, monkeypatch):
    """Each row is there three times."""
    seen = []

    class Seen:
        def fit(self, X):
            self.learned = {*map(tuple, X)}
            return self

        def set_params(self, **_):
            return self

        def decision_function(self, X):
            seen.append([tuple(row) in self.learned for row in X])
            return np.zeros(len(X))

    monkeypatch.setattr(fair, "clone", lambda _: Seen())
    fair.measured(cell_of("KDE"), [{}], np.repeat(ring[0][:40], 3, axis=0))
    held_out = seen[:: 1 + len(fair.RULES)]
    assert [len(rows) for rows in held_out] == [24] * fair.N_FOLDS
    assert not np.any(held_out)


def test_what_is_measured_is_what_the_folds_say(ring):
    with protocol.expected_warnings():
        means = fair.measured(cell_of("OCSVM"), [{"gamma": 1.0}, {"gamma": 64.0}], ring[0])
    assert means["recall"].shape == (2,)
    # One of 1 - nu is asked for; its standard error over 120 rows is .027.
    assert abs(means["recall"][0] - 0.9) < 0.08
    assert means["level"].tolist() == [0.0, 0.0]
    assert (means["marginals"][1] < means["marginals"][0]).all()
    assert (means["swaps"] <= 1).all()


@pytest.mark.parametrize("rule", fair.RULES)
def test_the_tightest_that_keeps_the_recall_wins(rule):
    asked = fair.RULES[rule]
    chance = np.sqrt(2 * asked * (1 - asked) / 100)
    recall = asked + chance * np.array([1.0, -0.9, -1.1, -3.0])
    means = {"recall": recall, rule: np.array([0.5, 0.1, 0.01, 0.0])}
    assert np.argsort(-fair.rule_scores(rule, means, 100)).tolist() == [1, 0, 2, 3]
    # Even a candidate that accepts everything is before one that misses the recall.
    means[rule] = np.array([1.0, 1.0, 0.0, 0.0])
    assert np.argsort(-fair.rule_scores(rule, means, 100), kind="stable").tolist() == [0, 1, 2, 3]


def test_the_chance_of_thresholds_counts_beside_that_of_the_rows_that_judge():
    """Of normal scores, thresholds at the .1-quantile of n rows have recalls on n others that differ by the slack."""
    n, rng = 300, np.random.default_rng(0)
    put, judge = rng.normal(size=(2, 4000, n))
    recalls = (judge >= np.quantile(put, 0.1, axis=1)[:, None]).mean(axis=1)
    tried = np.array([0.9 - 0.95 * recalls.std(), 0.9 - 1.05 * recalls.std()])
    scores = fair.rule_scores("marginals", {"recall": tried, "marginals": np.array([0.5, 0.5])}, n)
    assert (scores >= -1).tolist() == [True, False]


class Level:
    """A detector whose score of a row is its first feature."""

    def decision_function(self, X):
        return X[:, 0]


def test_a_threshold_of_held_out_positives_keeps_what_was_promised():
    rng = np.random.default_rng(0)
    positives, outliers = rng.normal(size=(500, 1)), {rule: rng.normal(size=(200, 1)) for rule in fair.RULES}
    found = fair.judged(Level(), positives, outliers, 0.1)
    assert found["recall"] == pytest.approx(0.9)
    assert found["level"] == pytest.approx(np.quantile(positives, 0.1))
    for rule, rows in outliers.items():
        assert found[rule] == pytest.approx(np.mean(rows >= found["level"]))
    own = fair.judged(Level(), positives, outliers, None)
    assert (own["level"], own["recall"]) == (0.0, pytest.approx(np.mean(positives >= 0)))


def test_synthetic_outliers_are_made_of_the_positives_values(ring):
    for rule, make in fair.MAKERS.items():
        made = make(ring[0], np.random.default_rng(3))
        assert made.shape == (fair.N_OUTLIERS, 2)
        for column in range(2):
            assert np.isin(made[:, column], ring[0][:, column]).all()
        # A swap takes its features from two rows.
        known = {*map(tuple, ring[0])}
        assert rule != "swaps" or not known & {*map(tuple, made)}


def invented(values: dict[str, np.ndarray]) -> list[Record]:
    return [
        {"known": letter, "method": name, "auroc": 0.9, "accepted": 9, "rejected": 1, "oracle_mcc": float(mcc) + 0.01}
        | dict.fromkeys(("mcc", *(f"mcc_by_{rule}" for rule in fair.RULES)), float(mcc))
        | {"candidates_mcc": [float(mcc)] * fair.N_CANDIDATES}
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
    # Where most is equal, the rest judges.
    first = np.concatenate([np.zeros(14), np.linspace(0.01, 0.12, 12)])
    found = comparison.compare(first, np.zeros(26))
    assert (found.difference, found.wins, found.losses, found.word) == (0.0, 12, 0, "better")
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
