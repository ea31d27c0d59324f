"""The open-set experiment: its cells, what one of them measures, and a report that says where the slab loses."""

from contextlib import nullcontext
from string import ascii_uppercase

import numpy as np
import pytest

from slabsvm import FitWarning
from slabsvm_reproduction.openset import experiment as openset
from slabsvm_reproduction.openset import report as openset_report


@pytest.fixture(scope="module", name="rows")
def letters_of_two_features() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.repeat(list(ascii_uppercase), 24)
    centres = 4.0 * np.stack(np.divmod(np.arange(26), 6), axis=1)
    X = np.repeat(centres, 24, axis=0) + 0.3 * random.normal(size=(len(y), 2))
    order = random.permutation(len(y))
    return X[order], y[order]


def test_draws_part_the_letters_and_differ():
    for draw in range(openset.N_DRAWS):
        known, others = openset.drawn(draw)
        assert sorted(known + others) == list(ascii_uppercase)
        assert len(known) == openset.N_KNOWN
    assert openset.drawn(0) != openset.drawn(1)
    assert openset.drawn(1) == openset.drawn(1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["OCSVM", "SVC", "SVC-alpha"])
def test_a_cell_measures_what_its_confusion_matrix_says(method, rows):
    cell = openset.OpenSetCell(data="invented", draw=0, method=method, gammas=openset.METHODS[method].gammas)
    few = "too few samples for alpha|out of the kernel's reach"
    with pytest.warns(FitWarning, match=few) if method == "OCSVM" else nullcontext():
        record = openset.measure_openset(cell, *rows, *rows)
    counts = np.array(record["confusion"])
    assert counts.sum() == len(rows[1])
    known = counts[:-1]
    assert record["rejected_known"] == pytest.approx(known[:, -1].sum() / known.sum())
    assert record["accepted_unknown"] == pytest.approx(counts[-1, :-1].sum() / counts[-1].sum())
    f1 = 2 * np.diag(counts) / np.maximum(counts.sum(axis=0) + counts.sum(axis=1), 1)
    assert record["f1"][-1] == pytest.approx(f1.mean())
    assert record["gamma"] in cell.gammas
    assert len(record["f1"]) == len(record["mcc"]) == len(openset.N_UNKNOWN)
    assert len(record["curve"]) == len(openset.RATES)


def invented(f1: dict[str, float]) -> list[dict[str, object]]:
    fixed = dict.fromkeys((field for field, _, _ in openset_report.MEASURED), 0.5)
    return [
        {"method": name, "draw": draw, "gamma": 4.0, "f1": [value] * 6, "mcc": [value] * 6, **fixed, "auroc": value}
        for name, value in f1.items()
        for draw in range(openset.N_DRAWS)
    ]


def test_the_report_says_so_where_the_slab_loses():
    records = invented({"OCSSVM": 0.6, "OCSVM": 0.7, "SVDD": 0.7, "SVC": 0.5, "SVC-alpha": 0.6})
    (text,) = openset_report.found(records)
    assert "Against the one-class SVM, the slab's macro F1 is nowhere above it (0.600 to 0.700 at the widest)" in text
    assert "Against the closed-set SVC, probability .5, the slab's macro F1 is above it at openness 0.00" in text
    assert "Against the closed-set SVC, at the rate, the slab's macro F1 is nowhere above it" in text
    assert "ahead of the SVC in AUROC" in text
    markdown = openset_report.openset_report(records, []).markdown()
    assert "| one-class SVM | **0.700** |" in markdown
