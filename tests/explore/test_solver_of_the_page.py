"""The page's own solver, in JavaScript, against the library, on problems of two features."""

import json
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from slabsvm import OneClassSlabSVM
from slabsvm.svm.program import Point, Solution, Status, certified, with_right_sums
from slabsvm.svm.small import Leaving, LeftOutScores, solve_small
from slabsvm_reproduction.interior_point import interior_point

pytestmark = pytest.mark.numeric

FOLDER = Path(__file__).parents[2] / "docs" / "playground" / "slab"
SCRIPTS = re.findall(r'<script defer src="([\w-]+\.js)"></script>', (FOLDER / "index.html").read_text(encoding="utf-8"))
# What answers questions, without a page.
SOLVER = SCRIPTS[: SCRIPTS.index("slab.js") + 1]

N_PROBLEMS = 100
KERNELS = ("rbf", "rbf", "rbf", "linear", "intersection", "hellinger", "chi2")
SHAPES = ("cloud", "two clouds", "ring", "ties", "outlier")
TOL = 1e-11
ALLOWED = 1e-6
# Left-out scores that differ by less, as a share of the largest, may be the same: nearly singular systems lead to them.
SAME = 1e-11
SAME_RECALL = 1e-12
# The interior point's multipliers that are this near to a bound, as a share of the upper bound, are at it.
AT_A_BOUND = 1e-6


def node() -> str:
    """Return a program that runs JavaScript: node, or the one in Playwright's driver."""
    found = shutil.which("node")
    if found:
        return found
    driver = pytest.importorskip("playwright._impl._driver", reason="no node is installed, and no Playwright with one")
    return str(driver.compute_driver_executable()[0])


def asked(seed: int) -> dict[str, Any]:
    """Return a question drawn from all that can vary."""
    rng = np.random.default_rng(seed)
    kernel, shape = KERNELS[seed % len(KERNELS)], str(rng.choice(SHAPES))
    m = int(rng.choice([2, 5, 12, 30, 60, 100, 150]))
    X = rng.normal(size=(m, 2)) @ np.array([[1.0, 0.6], [0.0, 0.5]])
    if shape == "two clouds":
        X[: m // 2] += 4.0
    elif shape == "ring":
        turn = rng.uniform(0.0, 2.0 * np.pi, m)
        X = 2.0 * np.column_stack([np.cos(turn), np.sin(turn)]) + 0.2 * rng.normal(size=(m, 2))
    elif shape == "ties":
        X = np.round(2.0 * X) / 2.0
    elif shape == "outlier":
        X[0] = 9.0, -7.0
    if kernel != "rbf":
        X = np.abs(X)
    gamma = ("neighbours", "scale", float(10.0 ** rng.uniform(-2.0, 2.0)))[int(rng.integers(3))]
    X = np.round(X, 4)
    low, high = X.min(axis=0) - (1.0 if kernel == "rbf" else 0.0), X.max(axis=0) + 1.0
    nus = round(float(rng.uniform(0.02, 0.5)), 3), round(float(rng.uniform(0.005, 0.3)), 3)
    parameters = {"kernel": kernel, "gamma": gamma, "nu_lower": nus[0], "nu_upper": nus[1]}
    parameters["epsilon"] = float(rng.choice([0.0, 0.3, 2 / 3, 2 / 3, 0.9, 1.5]))
    parameters["calibration"] = str(rng.choice(["auto", "auto", "training"]))
    stars = [high.tolist(), (high + 50.0).tolist(), X.mean(axis=0).tolist()]
    grid = {"x": [low[0], high[0], 21], "y": [low[1], high[1], 17]}
    return {"points": X.tolist(), "stars": stars, "parameters": parameters, "grid": grid}


@dataclass
class Known:
    """What the library says of a question, by its solver or another one."""

    model: OneClassSlabSVM
    texts: list[str]
    numbers: np.ndarray
    decisions: np.ndarray
    unit: float

    @classmethod
    def by(cls, question: dict[str, Any], solve: Any = solve_small) -> "Known":
        model = OneClassSlabSVM(**question["parameters"], tol=TOL)
        by_solver = mock.patch("slabsvm.detectors.support_vectors.solve_small", solve)
        with warnings.catch_warnings(record=True, action="always") as caught, by_solver:
            model.fit(question["points"])
        nodes = np.meshgrid(np.linspace(*question["grid"]["x"]), np.linspace(*question["grid"]["y"]))
        positions = model.project(np.stack(nodes, axis=-1).reshape(-1, 2))
        planes = [model.rho_lower_] if np.isinf(model.rho_upper_) else [model.rho_lower_, model.rho_upper_]
        # Positions that differ by rounding alone (the planes' margin for it is 1024 units of it) have no unit.
        unit = float(np.ptp(positions))
        unit = unit if unit > model.model_.rounding / ALLOWED else 0.0
        texts, numbers = [str(one.message) for one in caught], np.concatenate([planes, positions])
        return cls(model, texts, numbers, model.decision_function(question["stars"]), unit)

    def off(self, numbers: np.ndarray, decisions: np.ndarray, objective: float) -> float:
        """Return the largest difference, relative to the range of positions; of decisions, to their size."""
        decided = np.abs(self.decisions - decisions) / np.maximum(1.0, np.abs(self.decisions))
        lost = abs(self.model.dual_objective_ - objective) / max(abs(self.model.dual_objective_), self.unit**2)
        return max(float(np.abs(self.numbers - numbers).max()) / self.unit, float(decided.max()), lost)

    def determined(self, other: "Known") -> bool:
        """Return whether two solvers find this answer: w = 0 has no direction, and a singular K no one face.

        What is said of it is determined where it does not hang on which of two equal left-out scores is larger.
        """
        if self.model.status_ != "converged" or self.unit == 0:
            return False
        recalls = self.model.expected_recall_, other.model.expected_recall_
        if without_numbers(self.texts) != without_numbers(other.texts) or abs(recalls[0] - recalls[1]) > SAME_RECALL:
            return False
        return self.off(other.numbers, other.decisions, other.model.dual_objective_) < ALLOWED


Rounded = Callable[[np.ndarray], np.ndarray]


def central(
    rounded: Rounded, dual: Any, gram: Any, *, tol: float, leaving: Leaving | None = None, **_: Any
) -> tuple[Solution, LeftOutScores | None]:
    """Return what the interior point finds, with multipliers that are nearly at a bound put there.

    Left-out scores are the core's, with another rounding.
    """
    v = interior_point(gram.block(np.arange(gram.n_samples), None), dual).multipliers
    v = np.where(
        v < AT_A_BOUND * dual.upper_bounds,
        0.0,
        np.where(v > (1 - AT_A_BOUND) * dual.upper_bounds, dual.upper_bounds, v),
    )
    v = with_right_sums(dual, v)
    point = Point(dual, v, dual.linear + gram.dot(dual.beta(v)))
    known = {"mean_diagonal": float(gram.diagonal.mean()), "resolution": gram.resolution}
    solution = certified(point, **known, tol=tol, iterations=0, unfinished=Status.STALLED)
    left_out = solve_small(dual, gram, tol=tol, leaving=leaving)[1]
    return solution, left_out and replace(left_out, scores=rounded(left_out.scores))


def with_ties(scores: np.ndarray) -> np.ndarray:
    """Return scores that are the same where they differ by no more than rounding."""
    unit = SAME * float(np.abs(scores).max())
    return np.round(scores / unit) * unit if unit > 0 else scores


def without_ties(scores: np.ndarray) -> np.ndarray:
    """Return scores that differ by rounding."""
    return scores + SAME * float(np.abs(scores).max()) * np.random.default_rng(0).normal(size=len(scores))


def without_numbers(texts: list[str]) -> list[str]:
    return [re.sub(r"-?\d[\d.e+-]*", "#", text) for text in texts]


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """What two solvers agree on, the questions, and the page's answers."""
    known, questions = [], []
    drawn = 0
    while len(known) < N_PROBLEMS:
        question = asked(drawn)
        drawn += 1
        found = Known.by(question)
        others = (Known.by(question, partial(central, rounded)) for rounded in (with_ties, without_ties))
        if all(found.determined(other) for other in others):
            known.append(found)
            questions.append(question)
    return known, questions, answers(questions, tmp_path_factory.mktemp("questions"))


def answers(questions: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return what the page's solver answers."""
    path = folder / "questions.json"
    path.write_text(json.dumps([[question, TOL] for question in questions]), encoding="utf-8")
    script = Path(__file__).parent / "answer_all.js"
    run = subprocess.run([node(), script, FOLDER, path, *SOLVER], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
def test_a_hundred_problems_have_the_same_answers_to_a_millionth(problems):
    for found, question, answer in zip(*problems, strict=True):
        planes = [answer["rho_lower"], *([] if answer["rho_upper"] is None else [answer["rho_upper"]])]
        told, decisions = question["parameters"], np.array(answer["stars"]["decisions"])
        assert found.off(np.array(planes + answer["positions"]), decisions, answer["objective"]) < ALLOWED, told
        assert answer["status"] == found.model.status_
        assert answer["relative_gap"] < ALLOWED
        if found.model.calibration == "auto":
            left_out = np.array(answer["points"]["left_out"])
            assert np.abs(left_out - found.model.calibration_scores_).max() < ALLOWED * found.unit, told


def test_they_have_the_same_recall_and_are_warned_of_in_the_same_words(problems):
    for found, question, answer in zip(*problems, strict=True):
        told = question["parameters"]
        assert answer["expected_recall"] == pytest.approx(found.model.expected_recall_, abs=SAME_RECALL), told
        assert without_numbers(answer["warnings"]) == without_numbers(found.texts), told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kernel": "chi2"}, "Negative values in data: the chi2 kernel is defined for non-negative features"),
        ({"epsilon": 1.0}, "epsilon must not be 1: both planes would pull equally, and w = 0 would be the solution."),
        ({"nu_lower": 0.8, "nu_upper": 0.3}, "nu_lower + nu_upper must be less than 1, got 0.8 + 0.3"),
    ],
)
def test_what_makes_no_slab_is_refused_in_the_same_words(changes, said, tmp_path):
    question = asked(0)
    question["parameters"].update(changes)
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        OneClassSlabSVM(**question["parameters"]).fit(question["points"])
    assert answers([question], tmp_path) == [{"error": str(refused.value)}]
