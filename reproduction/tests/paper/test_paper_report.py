"""The page of verdicts: a row for each number that the paper prints, none unknown; and the command that makes it."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from places import LETTERS, needs_letters
from slabsvm.command.group import slabsvm as main
from slabsvm_reproduction import command as cli
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter import table_one
from slabsvm_reproduction.paper import report as paper_report
from slabsvm_reproduction.paper import runs as reproductions
from slabsvm_reproduction.report.tables import convergence
from slabsvm_reproduction.run import printed
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.toy import experiment as toy
from slabsvm_reproduction.toy import report as toy_report
from slabsvm_reproduction.voc import experiment as pascal
from slabsvm_reproduction.voc import reading as voc_reading

# What figures of the small toy fit.
pytestmark = pytest.mark.filterwarnings("ignore:.* of the training samples are support vectors")


def of_letter(shift: float) -> list[Record]:
    return [
        {"method": method, "kernel": None if kernel == printed.NO_KERNEL else kernel, "known": letter}
        | {"mcc": value + shift}
        for (method, kernel), value in printed.TABLE_ONE.items()
        for letter in paper.LETTERS
    ]


def of_voc(shift: float) -> list[Record]:
    return [
        {"known": known, "fold": fold, "method": method, "kernel": kernel.name, "calibration": "training"}
        | {"gamma": None, "multiple": kernel.multiple, "printed": kernel.printed}
        | {"mcc": printed.TABLE_TWO[method, kernel.name] + (0.5 if kernel.multiple else shift)}
        for known in ("cat", "cow")
        for fold in range(3)
        for method in pascal.COLUMNS
        for kernel in pascal.KERNELS
    ]


def of_toy(shift: float) -> list[Record]:
    fields = ("kernel", "epsilon", "shape", "n_points", "mean", "standardised", "nu_lower", "nu_upper", "gamma")
    fields += ("calibration",)
    return [
        {name: getattr(cell, name) for name in fields}
        | dict.fromkeys(toy_report.COUNTED, printed.TOY_SHARES[cell.kernel][cell.epsilon] + shift)
        | {"duality_gap": 0.0, "dual_objective": 1.0, "tol": 1e-10, "status": "converged"}
        for cell in toy.toy_cells()
    ]


def test_every_number_that_the_paper_prints_has_a_row_with_a_verdict():
    grid = paper_report.verdicts_grid(of_letter(0.0), of_voc(0.0), of_toy(0.0))
    assert len(grid.rows) == 10 + 21 + 20
    verdicts = [row[6] for row in grid.rows]
    # Three rows of Table 2 are Table 1's own numbers.
    assert verdicts.count("reproduced") == 10 + 21 + 8
    assert verdicts.count("no target") == 12
    assert all(row[7] for row in grid.rows if row[6] == "no target")
    assert not any("?" in cell or "unknown" in cell for row in grid.rows for cell in row)
    printed_there = [float(row[4]) for row in grid.rows]
    shares = [share for of_kernel in printed.TOY_SHARES.values() for share in of_kernel.values()]
    assert printed_there == pytest.approx([*shares, *printed.TABLE_ONE.values(), *printed.TABLE_TWO.values()])


def test_what_is_farther_than_the_printed_digits_is_not_reproduced():
    grid = paper_report.verdicts_grid(of_letter(0.02), of_voc(-0.02), of_toy(0.01))
    assert {row[6] for row in grid.rows} == {"not reproduced", "no target"}
    assert {row[5] for row in grid.rows if row[0] == "Table 1"} == {"+0.020"}
    assert paper_report.found(grid)[0].startswith("Of the 51 numbers that the paper prints, 0 come out.")
    assert "Table 1: 21 not reproduced." in paper_report.found(grid)[0]


def test_what_was_not_run_is_said_and_the_papers_number_still_stands():
    grid = paper_report.verdicts_grid(of_letter(0.0), None, None)
    rest = [row for row in grid.rows if row[0] != "Table 1"]
    assert len(rest) == 30
    assert all(row[3] == "" and row[4] and row[6] for row in rest)
    assert {row[6] for row in rest} == {paper_report.NOT_MEASURED, "no target"}


def test_the_report_says_how_many_fits_met_their_tolerance_and_where_the_objective_is_zero():
    met = {"duality_gap": 1e-12, "dual_objective": 1.0, "tol": 1e-10, "status": "converged"}
    flat = met | {"dual_objective": 1e-30, "status": "degenerate"}
    assert convergence([met] * 3) == "All 3 fits reached a relative duality gap of 1e-10."
    said = convergence([met, met | {"duality_gap": 2e-9}, flat])
    assert said == (
        "1 of 3 fits reached a relative duality gap of 1e-10. Of 1 the gap is larger, at most 2.0e-09. Of 1 the best w "
        "is zero, and the gap, at most 1e-12, is no share of anything."
    )


def test_data_in_vocs_layout_that_are_not_voc_are_no_table_two(tmp_path, monkeypatch):
    letters = SimpleNamespace(sha256="0" * 64, y=np.repeat(list(paper.LETTERS), 700))
    other = SimpleNamespace(root=Path("BCCD"), labels={"RBC": 90}, images=[])
    monkeypatch.setattr(cli, "load", lambda _: letters)
    monkeypatch.setattr(voc_reading, "read_data", lambda *_, **__: other)
    result = CliRunner().invoke(main, ["reproduce", "paper", "--output", str(tmp_path), "--no-figures"])
    assert result.exit_code == 1
    assert "BCCD is not Pascal VOC" in result.output
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.slow
@pytest.mark.usefixtures("small_toy")
@needs_letters
def test_one_command_says_its_time_runs_all_resumes_and_writes_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "LETTERS", ("A", "I"))

    def run() -> str:
        arguments = ["reproduce", "paper", "--no-voc", "--output", str(tmp_path), "--jobs", "2", "--data", str(LETTERS)]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    said = run()
    order = ("Table 1 10 s; the toy experiment 10 s", "fits took", "Left: the toy exp")
    assert [*map(said.index, order)] == sorted(map(said.index, order))
    page = (tmp_path / "paper.html").read_text()
    assert page.count('src="data:image/png;base64,') == 2 + 3
    assert page.count(f">{paper_report.NOT_MEASURED}</td>") == 8
    assert "Of the 51 numbers that the paper prints" in page
    assert "from <code>letter-training.jsonl</code>, <code>toy.jsonl</code>, one record a line" in page
    report = (tmp_path / "letter-training.md").read_text()
    assert "fits reached a relative duality gap of" in report
    assert report.count("| OCSSVM |") == 1 + 5
    assert not re.search(r"unknown|\?", report)
    for name, count in (("conventions", len(table_one.CONVENTIONS)), ("ours", 10)):
        assert len((tmp_path / f"letter-training-{name}.csv").read_text().splitlines()) == 1 + 2 * count
    monkeypatch.setattr(toy, "toy_measure", pytest.fail)
    (tmp_path / "paper.html").unlink()
    again = run()
    assert again.count("nothing to compute") == 2
    assert "Table 1 is there already; the toy experiment is there already." in again
    assert (tmp_path / "paper.html").exists()
    assert reproductions.TABLE_TWO not in said.split("fits took")[0]
