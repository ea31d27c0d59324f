"""What is released holds nothing that should not be there. `scripts/release` builds it twice."""

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
