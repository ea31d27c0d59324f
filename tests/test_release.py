"""What is released holds nothing that should not be there, and says what it brings. `scripts/release` builds twice."""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from sysconfig import get_config_var

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECTS = {"slabsvm": ROOT, "slabsvm_reproduction": ROOT / "reproduction"}
# Code, its page and its templates. What a table, an image or a model would be called is not among them.
SUFFIXES = {".py", ".pyi", ".typed", ".js", ".html", ".css", ".svg", ".json"}
LARGEST_FILE = 100_000
LARGEST_MODULE = 2_000_000
by_project = pytest.mark.parametrize("name", PROJECTS)


@pytest.fixture(scope="module", name="wheels")
def built(tmp_path_factory):
    pytest.importorskip("scikit_build_core", reason="scikit-build-core, which builds wheels, is not installed")
    pytest.importorskip("nanobind", reason="nanobind, of which the core is compiled, is not installed")
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    # What is held does not depend on how it is optimised, which takes a third of the time.
    quick = {"slabsvm": ["--config-settings=cmake.args=-DCMAKE_CXX_FLAGS_RELEASE=-O0"]}
    for name, source in PROJECTS.items():
        subprocess.run([*build, *quick.get(name, []), "--wheel-dir", folder, source], check=True)
    return {name: next(folder.glob(f"{name}-*.whl")) for name in PROJECTS}


@pytest.mark.slow
@by_project
def test_a_wheel_holds_its_package_and_licence_and_nothing_else(wheels, name):
    package = PROJECTS[name] / "src" / name
    with zipfile.ZipFile(wheels[name]) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
        [licence] = [member for member in sizes if member.endswith(".dist-info/licenses/LICENSE")]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    held = {member for member in sizes if member.startswith(f"{name}/")}
    there = {path for path in package.rglob("*") if path.suffix in SUFFIXES and "__pycache__" not in path.parts}
    compiled = {f"slabsvm/core{get_config_var('EXT_SUFFIX')}"} if name == "slabsvm" else set()
    assert held - compiled == {path.relative_to(package.parent).as_posix() for path in there}
    assert held >= compiled
    assert max(sizes[member] for member in held - compiled) <= LARGEST_FILE
    assert all(sizes[member] <= LARGEST_MODULE for member in compiled)
    about = {member.partition("/")[2] for member in set(sizes) - held}
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


@by_project
def test_every_dependency_has_a_lower_and_an_upper_bound(name):
    project = tomllib.loads((PROJECTS[name] / "pyproject.toml").read_text(encoding="utf-8"))
    stated = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        stated += extra
    for requirement in map(Requirement, stated):
        if requirement.name != "slabsvm":
            assert {bound.operator for bound in requirement.specifier} == {">=", "<"}, str(requirement)


@pytest.fixture(name="dependencies")
def script_that_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.delitem(sys.modules, "dependencies", raising=False)
    import dependencies

    yield dependencies
    del sys.modules["dependencies"]


@pytest.mark.slow
@by_project
def test_the_bill_of_materials_lists_what_is_asked_for_and_what_that_needs(dependencies, name, tmp_path):
    folder, wheel = PROJECTS[name], tmp_path / f"{name}-0.1-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    text = dependencies.bill_of_materials(folder, wheel, 1_700_000_000)
    assert text == dependencies.bill_of_materials(folder, wheel, 1_700_000_000)
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    listed = {component["name"]: component for component in bill["components"]}
    properties = [(one["name"], each) for one in bill["components"] for each in one["properties"]]
    bounds = {name: each["value"] for name, each in properties if each["name"] == "slabsvm:bounds"}
    assert bounds == {need.name.lower(): str(need.specifier) for _, need in dependencies.expanded(folder)}
    # What NumPy is needed for is needed always; what an extra brings, by the extra, with all below it.
    assert listed["numpy"]["scope"] == listed["joblib"]["scope"] == "required"
    assert listed["pillow"]["scope"] == ("optional" if name == "slabsvm" else "required")
    assert "pytest" not in listed
    references = [bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bill["components"])]
    assert [one["ref"] for one in bill["dependencies"]] == references
    assert {needed for one in bill["dependencies"] for needed in one["dependsOn"]} == set(references[1:])


@pytest.mark.slow
def test_an_audit_asks_for_every_library_and_takes_no_silence_for_good_news(dependencies):
    command = [sys.executable, ROOT / "scripts" / "dependencies.py"]
    listed = subprocess.check_output(command, text=True).splitlines()
    needed = {one.name: one.version for folder in PROJECTS.values() for one in dependencies.components(folder)}
    assert listed == sorted(f"{name}=={version}" for name, version in needed.items())
    # Without it pip-audit passes over a library that it could not ask for.
    assert "pip-audit --strict " in (ROOT / "scripts" / "audit").read_text(encoding="utf-8")
