"""The fair table: methods tuned alike, nothing learned from the test rows, and a report that can say who loses."""

import json
import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold, ParameterGrid

from slabsvm import KernelDensityDetector, LabelFreeSearchCV, LeakageWarning, fair_report
from slabsvm.experiments import fair, paper, protocol
from slabsvm.journal import Record
from slabsvm.selection.criteria import Answer, TightestAtRecall
from slabsvm.selection.strangers import Strangers

CHEAP = ("OCSSVM", "OCSVM", "KDE", "LOF")


def cell_of(name: str) -> fair.FairCell:
    method = fair.METHODS[name]
    return fair.FairCell("generated", "0", name, repr(method.estimator), tuple(method.grid.items()), n_strangers=100)


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


@pytest.mark.parametrize("name", CHEAP)
def test_a_method_is_tuned_and_its_candidates_are_faced_with_the_test_rows(ring, name):
    with protocol.expected_warnings():
        record = fair.measure_fair(cell_of(name), *ring)
    assert record["mcc"] == record["candidates_mcc"][_index(name, record["chosen"])]
    assert record["oracle_mcc"] == max(record["candidates_mcc"])
    assert record["mcc"] > 0.6
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("name", CHEAP)
def test_the_choice_does_not_see_the_test_rows(ring, name):
    train, test, known = ring
    with protocol.expected_warnings():
        first = fair.measure_fair(cell_of(name), train, test, known)
        other = fair.measure_fair(cell_of(name), train, test[::-1] + 0.3, known)
    assert first["chosen"] == other["chosen"]
    assert first["candidates_mcc"] != other["candidates_mcc"]


def test_rows_that_are_equal_leak_nothing_from_fold_to_fold(ring):
    """The search warns of held-out rows that are equal to learned ones; here each row is there three times."""
    train = np.repeat(ring[0][:40], 3, axis=0)
    with protocol.expected_warnings():
        warnings.simplefilter("error", LeakageWarning)
        fair.measure_fair(cell_of("KDE"), train, *ring[1:])
        leaking = LabelFreeSearchCV(KernelDensityDetector(), {"bandwidth": [0.1]}, cv=KFold(5, shuffle=True))
        with pytest.raises(LeakageWarning, match="Equal rows straddle the folds"):
            leaking.fit(train)


def test_a_threshold_of_held_out_positives_keeps_what_was_promised():
    rng = np.random.default_rng(0)
    positives, strangers = rng.normal(size=500), rng.normal(size=300) - 2
    criterion = fair.TightestAtHeldOutRecall(0.1, recall=0.8, n_strangers=300)
    never = np.zeros(500, dtype=bool)
    measured = criterion.measure(Answer(positives, never), Answer(strangers, never[:300]), Strangers(strangers))
    assert measured["recall"] == pytest.approx(0.9)
    assert measured["level"] == pytest.approx(np.quantile(positives, 0.1))
    assert measured["acceptance"] == pytest.approx(np.mean(strangers >= measured["level"]))
    assert isinstance(criterion, TightestAtRecall)


def invented(values: dict[str, np.ndarray]) -> list[Record]:
    return [
        {
            "known": letter,
            "method": name,
            "mcc": float(mcc),
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
    assert fair_report.compare(records, "SVDD", "OCSVM") == fair_report.Comparison(0.0, 0, 0, 1.0)
    assert fair_report.compare(records, "KDE", "OCSVM").word == "better"
    worse = fair_report.compare(records, "OCSSVM", "OCSVM")
    assert (worse.word, worse.wins, worse.losses) == ("worse", 0, 26)
    assert worse.difference == pytest.approx(-0.05)
    assert fair_report.compare(records, "LOF", "OCSVM").word == "level"


def test_the_report_says_so_where_the_slab_loses():
    base = np.linspace(0.5, 0.8, 26)
    records = invented({name: base + 0.01 * place for place, name in enumerate(fair.METHODS)})
    text = " ".join(fair_report.found(records))
    assert "the slab comes 9th of 9" in text
    assert "significantly worse than: Gaussian mixture" in text
    assert "significantly better" not in text
    assert "at 0 of 9 gammas (none)" in text
    markdown = fair_report.fair_report(records, []).markdown()
    assert "| **0.730** |" in markdown
    assert "| one-class slab SVM | 0.650 |" in markdown


def _index(name: str, candidate: dict[str, object]) -> int:
    grid = {parameter: list(values) for parameter, values in fair.METHODS[name].grid.items()}
    return list(ParameterGrid(grid)).index(candidate)
