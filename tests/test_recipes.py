"""CONTRIBUTING's recipes, carried out: what it names is all that is needed."""

import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import slabsvm
from slabsvm import FitWarning
from slabsvm.detectors.base import Detector, parameters
from slabsvm.fitted.model import Model, rounding_of
from slabsvm.fitted.training import Training
from slabsvm.svm.program import weighted_quantile

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def code_of(recipe: str) -> list[str]:
    """Return the Python blocks of a recipe, in order."""
    section = PAGE.split(f"### {recipe}\n", 1)[1].split("\n### ", 1)[0]
    return [block.split("```", 1)[0] for block in section.split("```python\n")[1:]]


@pytest.mark.slow
def test_a_kernel_is_a_class_and_a_line(tmp_path):
    # With what was compiled: that takes minutes.
    shutil.copytree(Path(slabsvm.__file__).parent, tmp_path / "slabsvm")
    text, lines = code_of("A kernel")
    (tmp_path / "slabsvm" / "kernels" / "ruzicka.py").write_text(text)
    named = tmp_path / "slabsvm" / "kernels" / "__init__.py"
    before = named.read_text()
    (kernels,) = [line for line in before.splitlines() if line.startswith("KERNELS")]
    assert lines.strip().endswith(kernels.removesuffix(")") + ", Ruzicka)")
    named.write_text(before.replace(f"\n\n{kernels}", f"\n{lines.strip()}", 1))
    code = (
        "import numpy as np; from slabsvm import OneClassSlabSVM, SVDD\n"
        "X = np.random.default_rng(0).gamma(4.0, size=(60, 3))\n"
        "smaller, larger = np.minimum(X[:, None], X).sum(2), np.maximum(X[:, None], X).sum(2)\n"
        "for model in (OneClassSlabSVM, SVDD):\n"
        "    named = model(kernel='ruzicka', tol=1e-9).fit(X)\n"
        "    given = model(kernel='precomputed', tol=1e-9).fit(smaller / larger)\n"
        "    assert abs(named.dual_objective_ - given.dual_objective_) <= 2e-9 * abs(given.dual_objective_)\n"
        "    assert (named.predict([[1e9, 1e9, 1e9]]) == -1).all()\n"
        "try:\n"
        "    OneClassSlabSVM(kernel='ruzicka').fit(-X)\n"
        "except ValueError as error:\n"
        "    assert 'ruzicka' in str(error)\n"
        "else:\n"
        "    raise AssertionError('negative features were taken')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


# Each part of the package asks a detector of which it knows nothing but its file.
ASKED = """
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from problems import FAMILY
from slabsvm import SVDD, ConformalDetector, explain
from slabsvm.files import load, save
from slabsvm.metrics import label_free_score

X, new = np.random.default_rng(0).normal(size=(2, 200, 3)) * [[[1.0]], [[2.0]]]
ball = FAMILY["ball"](tol=1e-9).fit(X)
known = SVDD(tol=1e-9).fit(X)
np.testing.assert_allclose(ball.decision_function(new), known.decision_function(new), atol=1e-6)
np.testing.assert_allclose(ball.calibration_decisions_, known.calibration_decisions_, atol=1e-6)
np.testing.assert_allclose(ball.radius_, known.radius_, rtol=1e-6)
np.testing.assert_allclose(explain(ball, new).sum(axis=1), ball.decision_function(new), atol=1e-9)

save(ball, "ball.skops")
loaded = load("ball.skops")
assert type(loaded) is type(ball) and loaded.radius_ == ball.radius_
assert loaded.decision_function(new).tobytes() == ball.decision_function(new).tobytes()

grouped = clone(ball).fit(X, groups=np.arange(200) // 4)
assert 0.8 < grouped.expected_recall_ < 1.0
assert clone(ball).set_params(nu=0.2).fit(X).radius_ < ball.radius_
assert 0.8 < (ConformalDetector(ball, alpha=0.1).fit(X).predict(X) == 1).mean()
search = GridSearchCV(ball, {"gamma": [0.1, 1.0]}, scoring=label_free_score)
assert search.fit(X).best_estimator_.radius_ > 0
"""


@pytest.mark.slow
def test_a_kernel_detector_is_a_file_a_public_name_and_a_test_problem(tmp_path):
    """Support vector data description is added anew, and the rest of the package takes it."""
    shutil.copytree(Path(slabsvm.__file__).parent, tmp_path / "slabsvm")
    detectors = tmp_path / "slabsvm" / "detectors"
    (detectors / "ball.py").write_text((detectors / "svdd.py").read_text().replace("SVDD", "Ball"))
    for place, before, line in (
        (tmp_path / "slabsvm" / "__init__.py", "\nHOMES = {\n", '    "Ball": "detectors.ball",\n'),
        (tmp_path / "slabsvm" / "files" / "models.py", "\nTRUSTED = (\n", '    "slabsvm.detectors.ball.Ball",\n'),
        (tmp_path / "problems.py", "\nFAMILY: dict[str, Callable[..., Any]] = {\n", '    "ball": slabsvm.Ball,\n'),
    ):
        text = (place if place.exists() else TESTS / place.name).read_text()
        assert text.count(before) == 1
        text = text.replace(before, before + line)
        if place.name == "problems.py":
            text = text.replace("\nimport numpy", "\nimport slabsvm\nimport numpy", 1)
        place.write_text(text)
    run = subprocess.run([sys.executable, "-c", ASKED], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@dataclass(frozen=True, kw_only=True)
class Ellipsoid(Model):
    """Where the samples' standardised distances from their mean are small."""

    mean: np.ndarray
    variance: np.ndarray

    def scores(self, X: np.ndarray) -> np.ndarray:
        return -np.sum((X - self.mean) ** 2 / self.variance, axis=1)


@parameters
class EllipsoidDetector(Detector):
    """Accept what lies within an ellipsoid around the mean: a detector of somebody else's."""

    nu: float = 0.1

    model_: Ellipsoid = field(init=False)

    def score_samples(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.model_.scores(self._checked(X, reset=False))

    def _learn(self, training: Training) -> Ellipsoid:
        rows, weights = training.samples.astype(np.float64), training.distinct.weights
        mean = np.average(rows, axis=0, weights=weights)
        variance = np.average((rows - mean) ** 2, axis=0, weights=weights) + 1e-12
        found = Ellipsoid(offset=0.0, rounding=0.0, calibration_scores=None, mean=mean, variance=variance)
        scores = found.scores(rows)
        rounding = rounding_of(float(np.abs(scores).max()))
        offset = weighted_quantile(scores, training.distinct.weights, self.nu) - rounding
        return replace(found, offset=offset, rounding=rounding)

    def _diagnosis(self) -> str:
        return "All samples are one point." if self.model_.variance.max() <= 1e-12 else ""

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = False) -> Any:
        return super()._checked(X, reset=reset, accept_sparse=accept_sparse)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


@parametrize_with_checks([EllipsoidDetector(calibration="training")])
def test_a_detector_says_how_it_learns_and_scores(estimator, check):
    check(estimator)


def test_a_detector_of_somebody_elses_rejects_its_share_and_strangers():
    X = np.random.default_rng(0).normal(size=(400, 3))
    model = EllipsoidDetector(calibration="training").fit(X)
    assert np.mean(model.predict(X) == -1) == pytest.approx(0.1, abs=1 / 400)
    assert model.predict([[9.0, 9.0, 9.0]]) == -1
    with pytest.warns(FitWarning, match="one point"):
        EllipsoidDetector(calibration="training").fit(np.ones((5, 2)))
