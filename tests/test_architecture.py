"""The house: who may import whom, and what an import costs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import slabsvm
from slabsvm_reproduction.run import provenance

PACKAGE = Path(slabsvm.__file__).parent
# The floors, from the ground up, and on each the files from the first to the last.
FLOORS = (
    (
        "_smo",
        "_additive",
        "_lookup",
        "_secular",
        "additive",
        "kernels",
        "samples",
        "features",
        "dual",
        "faces",
        "subspace",
        "journal",
        "bandwidth",
    ),
    ("gram", "products", "distances", "passes", "cluster", "loo", "expansion"),
    (
        "solvers",
        "solvers.rows",
        "solvers.pool",
        "solvers.level",
        "solvers.working_set",
        "solvers.smo",
        "solvers.interior",
        "solvers.bands",
    ),
    (
        "base",
        "kernelized",
        "slab",
        "support",
        "svm",
        "linear",
        "sphere",
        "density",
        "principal",
        "path",
        "selection",
        "selection.caller",
        "selection.folds",
        "selection.leakage",
        "selection.tables",
        "selection.strangers",
        "selection.criterion",
        "selection.curves",
        "selection.consistency",
        "selection.criteria",
        "selection.named",
        "selection.judging",
        "selection.reuse",
        "selection.cells",
        "selection.results",
        "selection.parts",
        "selection.chosen",
        "selection.search",
        "selection.auto",
    ),
    ("conformal", "calibration", "classwise", "openset", "metrics", ""),
    (
        "experiments",
        "experiments.data",
        "experiments.metrics",
        "experiments.provenance",
        "experiments.protocol",
        "experiments.methods",
        "experiments.toy",
        "experiments.digits",
        "experiments.paper",
        "experiments.table_one",
        "experiments.fair",
        "experiments.openset",
        "experiments.annotation",
        "experiments.annotated",
        "experiments.layout",
        "experiments.voc",
        "experiments.regions",
        "experiments.feature_store",
        "experiments.hog",
        "experiments.coordinates",
        "experiments.surest",
        "experiments.texture",
        "experiments.pascal_classes",
        "experiments.pascal_costs",
        "experiments.pascal",
    ),
    (
        "palette",
        "comparison",
        "report",
        "tables",
        "plots",
        "selection_plot",
        "letter_report",
        "letter_plots",
        "fair_report",
        "fair_plots",
        "openset_report",
        "openset_plots",
        "voc_medians",
        "voc_findings",
        "voc_report",
        "voc_plots",
        "terminal",
        "voc_stages",
        "voc_reading",
        "page",
        "cli",
    ),
)
ORDER = {name: place for place, name in enumerate(name for floor in FLOORS for name in floor)}
ESTIMATORS = ORDER["base"]


def modules() -> dict[str, Path]:
    """Return every module of the package by its name without the package's: "" is the package itself."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path) -> set[str]:
    """Return the absolute names of all that a module imports, anywhere in its text."""
    package = ["slabsvm", *name.split(".")] if path.name == "__init__.py" else ["slabsvm", *name.split(".")][:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*[part for part in package if part][: len(package) - node.level + 1], base]).rstrip(
                    "."
                )
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def own(imported: str) -> str | None:
    """Return which module of the package an absolute import is of, or None."""
    if imported != "slabsvm" and not imported.startswith("slabsvm."):
        return None
    name = imported.removeprefix("slabsvm").removeprefix(".")
    while name not in modules():
        name = name.rpartition(".")[0]
    return name


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_imports_only_from_below_or_from_above_it_on_its_floor(name):
    assert name in ORDER, f"{name} has no floor: give it one in FLOORS"
    for imported in imports(name, modules()[name]):
        target = own(imported)
        assert target is None or ORDER[target] < ORDER[name], f"{name} imports {imported}"


def test_the_house_in_contributing_has_every_file_on_its_floor():
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for number, floor in enumerate(FLOORS):
        row = next(line for line in page.splitlines() if line.startswith(f"| {number} |"))
        files = {
            f"{name.split('.')[0]}/" if (PACKAGE / name.split(".")[0]).is_dir() else f"{name}.py" for name in floor
        }
        # The package itself is the one that no folder and no file in the table is.
        assert set(re.findall(r"`([^`]+)`", row)) == files - {"/"}, f"floor {number}"


def test_a_change_of_what_only_shows_records_leaves_them_valid():
    assert set(FLOORS[-1]) == provenance.PRESENTATION


@pytest.mark.parametrize("name", sorted(modules()))
def test_scikit_learn_begins_at_the_estimators(name):
    uses = any(imported.split(".")[0] == "sklearn" for imported in imports(name, modules()[name]))
    assert not uses or ORDER[name] >= ESTIMATORS or name == "features"


@pytest.mark.parametrize("name", sorted(modules()))
def test_matplotlib_is_for_plots_and_reports(name):
    uses = any(imported.split(".")[0] == "matplotlib" for imported in imports(name, modules()[name]))
    assert not uses or name in ("plots", "report", "selection_plot")


@pytest.mark.parametrize("name", sorted(modules()))
def test_numba_is_for_the_files_that_say_so(name):
    uses = any(imported.split(".")[0] == "numba" for imported in imports(name, modules()[name]))
    assert uses == name.rpartition(".")[2].startswith("_")


def test_solvers_never_print():
    solvers = [name for name in ORDER if name.startswith("solvers.")]
    for name in (*solvers, "dual", "gram", "products", "loo", "faces", "base", "support", "svm"):
        calls = [node for node in ast.walk(ast.parse(modules()[name].read_text())) if isinstance(node, ast.Call)]
        assert not any(isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls)


def loaded_after(code: str) -> set[str]:
    answer = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(answer.stdout.split())


def test_importing_the_package_or_its_estimator_loads_neither_numba_nor_matplotlib():
    assert not {"numba", "matplotlib", "rich", "click"} & loaded_after("import slabsvm")
    assert not {"numba", "matplotlib", "rich", "click"} & loaded_after("from slabsvm import OneClassSlabSVM")


def test_the_interior_point_on_a_named_kernel_does_without_numba():
    code = (
        "import numpy as np; from slabsvm import OneClassSlabSVM; "
        "OneClassSlabSVM(solver='interior-point').fit(np.random.default_rng(0).normal(size=(50, 2)))"
    )
    assert "numba" not in loaded_after(code)


def test_the_package_lists_what_it_offers():
    for name in slabsvm.__all__:
        assert hasattr(slabsvm, name)
    assert set(slabsvm.__all__) <= set(dir(slabsvm)) | {"__version__"}
