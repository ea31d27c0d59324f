"""Experiments: cells in, records out, resumable, and the same whatever the number of threads."""

import csv
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef, roc_auc_score

import slabsvm
from places import LETTERS, needs_letters
from slabsvm_reproduction.demo import digits
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter import report as letter_report
from slabsvm_reproduction.letter import table_one
from slabsvm_reproduction.letter.data import load_letters
from slabsvm_reproduction.run import methods, printed, protocol, provenance
from slabsvm_reproduction.run.counts import Counts
from slabsvm_reproduction.toy import experiment as toy


@dataclass(frozen=True)
class Square:
    number: int
    version: str = "1"


def square(cell: Square) -> dict[str, int]:
    return {"square": cell.number**2}


SQUARES = [Square(number) for number in range(12)]
EXPECTED = [{"number": n, "version": "1", "square": n**2} for n in range(12)]


def test_counts_give_the_matthews_correlation_of_scikit_learn():
    rng = np.random.default_rng(0)
    for share in (0.1, 0.5, 0.9):
        known, inside = rng.random(300) < share, rng.random(300) < 0.4
        counts = Counts.of(inside, known)
        assert counts.mcc == pytest.approx(matthews_corrcoef(known, inside))
        assert counts.recall == pytest.approx(np.mean(inside[known]))
        assert counts.false_acceptance == pytest.approx(np.mean(inside[~known]))
    # With an empty side they correlate with nothing.
    assert Counts.of(np.ones(5, bool), np.array([1, 0, 1, 0, 1], bool)).mcc == 0.0
    assert np.isnan(Counts.of(np.zeros(2, bool), np.zeros(2, bool)).recall)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_records_come_in_the_order_of_the_cells_and_none_is_computed_twice(tmp_path, n_jobs):
    steps = []
    journal = tmp_path / "new" / "journal"
    assert protocol.run(SQUARES, square, journal, n_jobs=n_jobs, advance=lambda: steps.append(1)) == EXPECTED
    assert len(steps) == len(SQUARES)
    assert protocol.run(SQUARES, pytest.fail, journal) == EXPECTED
    # Records of another version are not taken for these.
    assert protocol.run([Square(0, version="2")], square, journal)[0]["version"] == "2"


@pytest.mark.skipif(os.name == "nt", reason="Windows knows no such signals")
def test_an_interruption_waits_until_all_cells_are_handed_to_the_threads(tmp_path, monkeypatch):
    submitted = []

    def submit(pool, task, cell):
        # In the midst of this the pool's lock can be held, which its threads wait for.
        signal.raise_signal(signal.SIGINT)
        submitted.append(cell)
        return original(pool, task, cell)

    original = ThreadPoolExecutor.submit
    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    said = []
    with pytest.raises(KeyboardInterrupt):
        protocol.run(SQUARES, square, tmp_path / "journal", n_jobs=2, stopping=lambda: said.append("stopping"))
    assert submitted == SQUARES
    assert said == ["stopping"]


def test_what_the_paper_prints_is_complete_and_read_as_it_stands():
    assert len(printed.TABLE_ONE) == 21
    assert len(printed.TABLE_TWO) == 20
    assert printed.TABLE_ONE["SVDD", "hellinger"] == 0.02
    of_rbf = [printed.TABLE_TWO[method, "rbf"] for method in ("KPCA", "SVDD", "OCSVM", "OCSSVM")]
    assert of_rbf == [0.05, 0.07, 0.14, 0.09]
    assert printed.TOY_SHARES["linear"] == pytest.approx({k / 6: 0.92 if k == 5 else 0.91 for k in range(1, 6)})
    assert set(printed.TOY_SHARES["rbf"].values()) == {0.9}
    for data, classes in (("letter", paper.LETTERS), ("voc", sorted(printed.VOC_CLASSES))):
        assert len(classes) == {"letter": 26, "voc": 20}[data]
        for method, kernel, known in product(("KPCA", "SVDD", "OCSVM", "OCSSVM"), printed.KERNELS, classes):
            given = printed.parameters(data, method, kernel, known)
            assert ("gamma" in given) == (kernel == "rbf")
            assert ("C" in given) == (method == "SVDD")
    gammas = [printed.gamma("letter", "OCSSVM", letter) for letter in paper.LETTERS]
    assert [gammas.count(gamma) for gamma in (0.5, 1.0, 2.0)] == [7, 17, 2]
    slab = {"nu_lower": 0.1, "nu_upper": 0.01, "epsilon": 2 / 3, "gamma": 2.0}
    assert printed.parameters("letter", "OCSSVM", "rbf", "Q") == slab
    assert printed.parameters("letter", "KPCA", "rbf", "H") == {"n_components": 16, "gamma": 16.0}
    assert printed.parameters("voc", "SVDD", "chi2", "bottle") == {"C": 0.9}
    assert "1608.01026" in printed.SOURCE


def test_table_one_has_a_cell_for_each_printed_number_at_the_printed_parameters():
    letters = SimpleNamespace(sha256="0" * 64)
    assert len(set(paper.planes_cells(letters))) == 520
    letters = SimpleNamespace(sha256="0" * 64, y=np.repeat(list(paper.LETTERS), 600))
    parts = table_one.cells_by_part(letters)
    cells = [cell for part in parts.values() for cell in part]
    assert len(set(cells)) == len(cells)
    assert [len(part) // 26 for part in parts.values()] == [21, 10, len(table_one.CONVENTIONS)]
    by_part = table_one.cells_by_part(letters, "auto")
    assert [len(by_part[name]) // 26 for name in ("table", "ours", "conventions")] == [21, 0, 0]
    for cell in parts["table"]:
        given = printed.parameters("letter", cell.method, cell.kernel or printed.NO_KERNEL, cell.known)
        assert {name: getattr(cell, name) for name in given} == given
        assert cell.calibration == "training"


def test_what_is_known_of_table_one_names_its_cells():
    assert set(letter_report.KNOWN_OF_CELL) <= set(table_one.PAPER)
    assert set(letter_report.KNOWN_OF_COLUMN) == set(table_one.CHOSEN) == set(methods.METHODS)
    assert {(c.method, c.kernel) for c in table_one.CONVENTIONS} <= set(table_one.PAPER)


def parameters_of(method: str) -> dict[str, object]:
    return printed.parameters("letter", method, "linear", "A") | table_one.CHOSEN[method]


def one_class_cell(method: str, **parameters: object) -> methods.OneClassCell:
    return methods.OneClassCell(data="generated", known="0", method=method, calibration="training", **parameters)


@pytest.mark.parametrize("method", list(methods.METHODS))
def test_a_cell_is_measured_as_its_detector_decides(method):
    rng = np.random.default_rng(0)
    train, test, known = rng.normal(size=(80, 3)), rng.normal(size=(60, 3)), np.repeat([True, False], 30)
    test[~known] *= 4.0
    cell = one_class_cell(method, **{k: v for k, v in parameters_of(method).items() if k != "n_components"})
    with protocol.expected_warnings():
        record = methods.measure_one_class(cell, train, test, known)
        detector = cell.detector().fit(train)
    counts = Counts.of(detector.predict(test) == 1, known)
    for name in ("accepted", "rejected", "mcc"):
        assert record[name] == getattr(counts, name)
    assert record["auroc"] == pytest.approx(roc_auc_score(known, detector.decision_function(test)))
    assert ("duality_gap" in record) == (method in methods.CERTIFIED)
    json.dumps(record, allow_nan=False)


def test_a_cell_gives_its_method_no_parameter_that_it_does_not_have():
    for method in methods.METHODS:
        parameters = parameters_of(method)
        given = one_class_cell(method, **parameters).detector().get_params()
        assert {name: given[name] for name in parameters} == parameters


def test_a_release_is_known_by_its_version_and_other_code_by_its_sources_too(tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "solver.py").write_text("tol = 1")
    (tmp_path / "report" / "page.py").write_text("colour = 1")
    first = provenance.code_version("0.2.dev0", tmp_path)
    assert provenance.code_version("0.2", tmp_path) == "0.2"
    (tmp_path / "report" / "page.py").write_text("colour = 2")
    assert provenance.code_version("0.2.dev0", tmp_path) == first
    (tmp_path / "solver.py").write_text("tol = 2")
    assert provenance.code_version("0.2.dev0", tmp_path) != first
    assert first.startswith("0.2.dev0+")


def test_what_only_shows_records_is_named_as_such_and_is_there():
    package, library = Path(provenance.__file__).parents[1], Path(slabsvm.__file__).parent
    for path in package.rglob("*.py"):
        if "slabsvm_reproduction.report.parts import" in path.read_text():
            name = path.relative_to(package).as_posix()
            assert {name, name.split("/")[0].removesuffix(".py")} & provenance.PRESENTATION, name
    for name in provenance.PRESENTATION:
        assert any(place.exists() for place in (package / name, package / f"{name}.py", library / name)), name


def test_the_toy_experiment_has_the_printed_parameters_and_each_reading_changes_what_it_says():
    cells = toy.toy_cells()
    assert len(cells) == len(set(cells)) == 2 * 5 * 3 * 100 + (3 * 2 + 1) * 5 * 3 * 20
    first = toy.cells_of(toy.READINGS[0])
    given = {(c.n_points, c.nu_lower, c.nu_upper, c.gamma, c.calibration) for c in first}
    assert given == {(1500, 0.1, 0.05, 0.5, "training")}
    for reading in toy.READINGS:
        for name, value in reading.changes:
            assert {getattr(cell, name) for cell in toy.cells_of(reading)} == {value}
    standardised = toy.toy_points(toy.ToyCell("linear", 1 / 6, 0, "long", standardised=True))
    np.testing.assert_allclose(standardised.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(standardised.std(axis=0), 1.0)


@pytest.mark.parametrize(("kernel", "low", "high"), [("linear", 0.849, 0.853), ("rbf", 0.85, 0.90)])
def test_the_toy_shares_are_what_the_page_on_reproduction_says(kernel, low, high):
    for shape in toy.SHAPES:
        record = toy.toy_measure(toy.ToyCell(kernel, 1 / 6, 0, shape))
        assert low <= record["share_inside"] <= high
        assert record["share_strictly_inside"] <= 0.85 <= record["share_inside"] <= record["share_not_below"]


def test_the_digits_are_split_alike_each_time_and_gamma_sees_only_the_training_half():
    first, second = digits.split_digits(), digits.split_digits()
    np.testing.assert_array_equal(first.test, second.test)
    assert 0.1 < first.gamma < 0.3
    assert set(np.bincount(first.train_digits)) <= set(range(86, 93))


@pytest.mark.slow
@needs_letters
def test_the_130_letter_cells_agree_with_the_reference(tmp_path):
    reference_file = LETTERS.parents[2] / "reference" / "letter_ocssvm.csv"
    if not reference_file.is_file():
        pytest.skip("there is no reference/letter_ocssvm.csv beside the folder that SLABSVM_DATA names")
    with reference_file.open() as file:
        reference = {(row["kernel"], row["letter"]): row for row in csv.DictReader(file)}
    letters = load_letters(LETTERS)
    cells = [cell for cell in table_one.table_cells(letters) if cell.method == "OCSSVM"]
    records = protocol.run(cells, paper.letter_measure(letters), tmp_path / "j", n_jobs=2)
    assert len(records) == len(reference) == 130
    for record in records:
        row = reference[record["kernel"], record["known"]]
        cell = f"{record['kernel']} {record['known']}"
        assert record["m"] == int(row["m"]), cell
        # The gap bounds how far the objective is from its optimum; the planes follow the scores, which are farther.
        assert record["dual_objective"] == pytest.approx(float(row["objective"]), rel=2 * paper.TOLERANCE), cell
        assert record["rho_lower"] == pytest.approx(float(row["rho1"]), rel=1e-8), cell
        assert record["rho_upper"] == pytest.approx(float(row["rho2"]), rel=1e-8), cell
        # A test sample that lies on a plane falls on either side by the last digit of its score.
        slack = 1e-9 + 0.01 * int(row["n_test_on_boundary"])
        assert record["mcc"] == pytest.approx(float(row["MCC"]), abs=slack), cell
    medians = [median(r["mcc"] for r in records if r["kernel"] == kernel) for kernel in paper.KERNELS]
    assert medians == pytest.approx([0.1372, 0.3895, 0.2584, 0.1338, 0.1916], abs=6e-5)
    line = json.loads((tmp_path / "j").read_text().splitlines()[0])
    assert set(line) == {*records[0], "checksum"}
