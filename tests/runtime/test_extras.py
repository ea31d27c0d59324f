"""Where the library of an extra is missing, one kind of error says in one wording which extra brings it."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.random_projection import GaussianRandomProjection

from many import pickled
from processes import python
from slabsvm import ExtraMissingError, OneClassSlabSVM
from slabsvm.command import main
from slabsvm.display import figure
from slabsvm.files import save, to_onnx
from slabsvm.files.tables import Reading, whole

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Nothing here asks for Dask: who passes its arrays has it. The others are for those who work on this repository.
ASKED_BY_NOBODY = {"campaigns", "dask", "test", "benchmarks", "browser", "docs", "dev"}
X = np.random.default_rng(0).normal(size=(30, 3))
INSTALL = r"Install it with: pip install '\.\[(\w+)\]', in your clone of slabsvm"
WORDING = rf"(.+) needs ([\w-]+), which is not installed\. {INSTALL}"


def drawn(folder):
    with figure(folder / "figure.png", 1, 1):
        pass


def read(name, content=b"a,b\n1,2\n"):
    def action(folder):
        (folder / name).write_bytes(content)
        whole(folder / name, Reading())

    return action


def projected(folder):
    to_onnx(make_pipeline(GaussianRandomProjection(2, random_state=0), OneClassSlabSVM()).fit(X))


NEEDS = [("plots", "matplotlib", drawn), ("tables", "pandas", read("rows.csv"))]
NEEDS += [("parquet", "pyarrow", read("rows.parquet")), ("xlsx", "openpyxl", read("rows.xlsx"))]
NEEDS += [("files", "skops", lambda folder: save(OneClassSlabSVM(), folder / "model.skops"))]
NEEDS += [("onnx", "onnx", lambda _: to_onnx(OneClassSlabSVM().fit(X))), ("onnx", "skl2onnx", projected)]
NEEDS += [("command", "click", lambda _: main()), ("command", "rich", lambda _: main())]


def hide(library, monkeypatch):
    """Make a library as good as not installed, and forget what here has imported it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)


@pytest.mark.parametrize(
    ("extra", "library", "action"), NEEDS, ids=[f"{extra}-{library}" for extra, library, _ in NEEDS]
)
def test_a_missing_library_is_named_with_the_extra_that_brings_it(extra, library, action, tmp_path, monkeypatch):
    hide(library, monkeypatch)
    # The command ends in the sentence, with status 1.
    with pytest.raises(SystemExit if extra == "command" else ExtraMissingError) as raised:
        action(tmp_path)
    _, named, brought_by = re.fullmatch(WORDING, str(raised.value)).groups()
    assert (named, brought_by) == (library, extra)
    assert any(requirement.startswith(library) for requirement in PROJECT["optional-dependencies"][extra])


def test_every_extra_of_users_is_asked_for_in_the_test_above():
    assert {extra for extra, _, _ in NEEDS} == set(PROJECT["optional-dependencies"]) - ASKED_BY_NOBODY


WITHOUT = """
import pickle, sys
class Missing:
    def find_spec(name, path=None, target=None):
        if name in sys.argv[1].split():
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing)
import numpy as np
from slabsvm import AutoDetector, OneClassSlabSVM
X = np.random.default_rng(0).normal(size=(60, 3))
for detector in (OneClassSlabSVM(), AutoDetector()):
    model = detector.fit(X)
    again = pickle.loads(pickle.dumps(model))  # bytes that this line made
    assert (again.decision_function(X) == model.decision_function(X)).all()
"""


def test_models_fit_predict_and_are_pickled_without_any_extra():
    run = python(WITHOUT, " ".join(library for _, library, _ in NEEDS))
    assert run.returncode == 0, run.stderr


def test_the_error_is_an_import_error_that_crosses_processes():
    error = ExtraMissingError.of("A figure", "matplotlib", "slabsvm[plots]")
    assert isinstance(error, ImportError)
    assert error.name == "matplotlib"
    again = pickled(error)
    assert (type(again), str(again), again.name) == (ExtraMissingError, str(error), "matplotlib")
