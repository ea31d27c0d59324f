"""The house: which folder may import which, what an import costs, and what other distributions may use."""

import ast
import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import slabsvm
from processes import loaded_after
from slabsvm import AutoDetector, OneClassSlabSVM, bandwidth, core, display, kernels, metrics
from slabsvm.data import files
from slabsvm.display import palette
from slabsvm.svm.gram import Gram

ROOT = Path(__file__).parents[1]
PACKAGE = Path(slabsvm.__file__).parent
# Each folder imports only from those before it. That of the core holds C++, which imports nothing from here.
FLOORS = ("runtime", "core", "data", "kernels", "svm", "fitted", "detectors", "conformal")
FLOORS += ("ensemble", "openset", "monitor", "tables", "display", "files", "command")
# The files of the core that know of Python: where its arrays come in, and where SciPy's BLAS is found.
BORDER = ("bindings.cpp", "border.h", "lapack.cpp")
# What users import by name, and what stands above all floors.
FRONT = {"", "__main__", "bandwidth", "metrics"}
# A floor that is one file.
FILES = {"monitor"}
# `python -m` looks for one of them there.
MOST_FILES_AT_THE_ROOT = 6
# The third parties that only some folders import.
HOMES = {"matplotlib": {"display"}, "click": {"command"}, "rich": {"command"}, "pandas": {"files"}}
HOMES |= {"pyarrow": {"files"}, "dask": {"data", "fitted"}, "onnx": {"files"}, "skl2onnx": {"files"}}
HOMES |= {"sklearn": {"runtime", "kernels", *FLOORS[FLOORS.index("fitted") :]}}


def modules() -> dict[str, Path]:
    """Return every module of the package by its name without the package's: "" is the package itself."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def folder(name: str) -> str:
    """Return the folder of a module, "" for one at the package's root."""
    return "" if name in FRONT else name.partition(".")[0]


@cache
def imports(path: Path) -> set[str]:
    """Return the absolute names of all that a module imports, anywhere in its text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own(imported: str) -> str | None:
    """Return which module of the package an absolute import is of, or None."""
    if imported != "slabsvm" and not imported.startswith("slabsvm."):
        return None
    name = imported.removeprefix("slabsvm").removeprefix(".")
    if name.partition(".")[0] == "core":
        return "core"
    while name not in MODULES:
        name = name.rpartition(".")[0]
    return name


@pytest.mark.parametrize("name", sorted(set(MODULES) - FRONT))
def test_a_folder_imports_only_from_folders_below_it(name):
    assert folder(name) in FLOORS, f"{name} is in no folder of FLOORS"
    allowed = {"", *FLOORS[: FLOORS.index(folder(name)) + 1]}
    for imported in imports(MODULES[name]):
        target = own(imported)
        assert target is None or folder(target) in allowed, f"{name} imports {imported}"
        assert target not in FRONT - {""}, f"{name} imports {imported}, a name for users: import it from its folder"


@pytest.mark.parametrize("name", FLOORS)
def test_inside_a_folder_imports_make_no_circle(name):
    inside = {module for module in MODULES if folder(module) == name and module != name}
    below = {module: {own(imported) for imported in imports(MODULES[module])} & inside for module in inside}
    while below:
        free = {module for module, needed in below.items() if not needed & set(below)}
        assert free, f"these import each other: {sorted(below)}"
        below = {module: needed for module, needed in below.items() if module not in free}


def test_the_root_holds_what_users_import_by_name():
    assert {path.stem for path in PACKAGE.glob("*.py")} == (FRONT - {""}) | FILES | {"__init__"}
    assert len(FRONT | FILES) <= MOST_FILES_AT_THE_ROOT


def test_behind_the_border_of_the_core_nothing_knows_of_python():
    sources = {path.name: path.read_text(encoding="utf-8") for path in (PACKAGE / "core").iterdir()}
    assert {Path(name).suffix for name in sources} == {".cpp", ".h", ".inc"}
    of_python = {name for name, text in sources.items() if re.search(r"#include <(nanobind|Python)", text)}
    assert of_python <= {*BORDER}
    for name, text in sources.items():
        included = set(re.findall(r'#include "([^"]+)"', text))
        assert included <= set(sources), f"{name} includes {sorted(included - set(sources))}"


@pytest.mark.parametrize("library", HOMES)
def test_third_parties_stay_in_their_folders(library):
    for name, path in MODULES.items():
        if any(imported.partition(".")[0] == library for imported in imports(path)):
            assert folder(name) in HOMES[library], f"{name} imports {library}"


def test_the_reproduction_uses_public_names_alone():
    public = {"slabsvm", *(f"slabsvm.{name}" for name in slabsvm.__all__)}
    for module in (bandwidth, display, files, palette, kernels, metrics):
        public |= {module.__name__, *(f"{module.__name__}.{name}" for name in module.__all__)}
    for path in (ROOT / "reproduction" / "src").rglob("*.py"):
        used = {imported for imported in imports(path) if imported == "slabsvm" or imported.startswith("slabsvm.")}
        assert used <= public, f"{path.name} uses {sorted(used - public)}"


@pytest.mark.slow
def test_importing_an_estimator_does_not_load_matplotlib():
    assert not {"matplotlib", "rich", "click"} & loaded_after("from slabsvm import OneClassSlabSVM")
    # joblib's and pandas's own imports are not ours to choose.
    assert "matplotlib" not in loaded_after("from slabsvm import AutoDetector, OpenSetClassifier")


def test_each_folder_says_what_lives_there_and_contributing_lists_them_in_order():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = [page.find(f"| `{name}{'.py' if name in FILES else '/'}` |") for name in FLOORS]
    assert all(place >= 0 for place in places)
    assert places == sorted(places)
    of_python = {name: MODULES[name].read_text(encoding="utf-8") for name in FLOORS if name != "core"}
    says = {name: ast.get_docstring(ast.parse(text)) for name, text in of_python.items()}
    for name, text in {**says, "core": core.__doc__}.items():
        assert text, f"{name} does not say what it is"
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"} == set(FLOORS) - FILES


def stays_of(fit, given):
    """Return the files, one after the other, in which a fit calls functions with an argument that is `given`."""
    stays = []

    def seen(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            place = str(Path(code.co_filename).relative_to(PACKAGE))
            if any(given(frame.f_locals.get(name)) for name in names) and stays[-1:] != [place]:
                stays.append(place)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        fit()
    finally:
        sys.setprofile(before)
    return stays


@pytest.mark.parametrize("model", [OneClassSlabSVM(), AutoDetector()], ids=repr)
def test_rows_and_their_gram_matrix_take_a_short_way_through_a_fit(model):
    X = np.random.default_rng(0).normal(size=(300, 4))
    rows = stays_of(lambda: model.fit(X), lambda value: value is X)
    floors = [FLOORS.index(place.partition("/")[0]) for place in rows]
    assert 0 < len(rows) <= 12
    assert sum(later > former for former, later in pairwise(floors)) <= 4
    assert len(stays_of(lambda: model.fit(X), lambda value: isinstance(value, Gram))) <= 15
