"""The report of Table 1: its verdicts and its sentences follow from the records, whatever these say."""

from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter import report as letter_report
from slabsvm_reproduction.letter import table_one
from slabsvm_reproduction.report.parts import BAD, GOOD
from slabsvm_reproduction.run import printed
from slabsvm_reproduction.run.journal import Record

MEASURED = ("auroc", "recall", "expected_recall", "false_acceptance", "fit_seconds", "score_seconds")


def invented(medians: dict[tuple[str, str], float]) -> list[Record]:
    """Records of all letters, a third of them above the median, and a third below."""
    return [
        {"method": method, "kernel": None if kernel == printed.NO_KERNEL else kernel, "known": letter}
        | {"mcc": value + 0.01 * (number % 3 - 1) * (number < 24), **dict.fromkeys(MEASURED, 0.5)}
        | {"duality_gap": 0.0, "dual_objective": 1.0, "tol": 1e-10}
        for (method, kernel), value in medians.items()
        for number, letter in enumerate(paper.LETTERS)
    ]


AS_PRINTED = dict(table_one.PAPER)
# In the paper kernel PCA's .18 with chi2 is the slab's; here it is a little below.
AS_PRINTED["KPCA", "chi2"] = 0.17
FAR_AWAY = dict.fromkeys(table_one.PAPER, 0.7) | {("KPCA", kernel): 0.8 for kernel in paper.KERNELS}


def test_a_table_as_printed_is_reproduced():
    found = " ".join(letter_report.found(invented(AS_PRINTED), "training"))
    assert "Of the 21 cells that the paper prints, 21 come out within 0.015 of it: 5 of the slab's 5" in found
    assert "and 16 of the others'" in found
    assert "than that of the one-class SVM with all kernels, and than kernel PCA with all kernels" in found
    assert "here that holds with all kernels" in found


def test_a_table_far_away_is_not_reproduced_and_the_slab_can_lose():
    found = " ".join(letter_report.found(invented(FAR_AWAY | {("OCSSVM", "rbf"): 0.75}), "training"))
    assert "0 come out within 0.015 of it: 0 of the slab's 5, and none of the others'" in found
    assert "than that of the one-class SVM with 1 of 5 kernels (rbf), and than kernel PCA with no kernel" in found
    assert "here that holds with no kernel" in found


def test_every_cell_has_its_verdict():
    grid = letter_report.verdict_grid(invented(AS_PRINTED | {("OCSSVM", "rbf"): 0.39 - 0.016}))
    verdicts = {(row[0], row[1]): row[5] for row in grid.rows}
    assert verdicts.pop(("OCSSVM", "rbf")) == "not reproduced"
    assert set(verdicts.values()) == {"reproduced"}
    marks = {verdicts_row[5]: grid.marks[at, 5] for at, verdicts_row in enumerate(grid.rows)}
    assert marks == {"reproduced": GOOD, "not reproduced": BAD}


def test_no_number_that_the_paper_prints_is_shown_as_unknown():
    records = invented(AS_PRINTED)
    ours = [record for record in records if record["method"] in table_one.OURS]
    text = letter_report.letter_report(records, ours, [], [], "auto").markdown()
    text += letter_report.table_grid(records, "training").markdown() + letter_report.verdict_grid(records).markdown()
    text += letter_report.ours_grid(records, ours).markdown()
    assert "?" not in text
    assert "unknown" not in text


def test_planes_that_the_paper_does_not_have_get_no_verdict():
    records = invented(AS_PRINTED)
    assert letter_report.table_grid(records, "auto").marks == {}
    assert letter_report.table_grid(records, "training").marks != {}
    assert "reproduced" not in letter_report.letter_report(records, [], [], [], "auto").html()
