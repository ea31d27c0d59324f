"""The build backend: scikit-build-core's, with a compiler from the package index where the machine has none.

In a clone the compiled core lies beside the package in src/slabsvm, where an editable installation finds it. What was
compiled is kept in build/, and only what has changed is compiled again. ./scripts/build does this alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scikit_build_core import build as scikit_build

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "slabsvm"
COMPILERS = ("c++", "g++", "clang++")
ZIG = "ziglang>=0.13,<1"
# zig compiles for the very processor it runs on, unless told otherwise, and pip may keep the wheel for another machine.
PROGRAMS = {"cc": "cc -mcpu=baseline", "c++": "c++ -mcpu=baseline", "ar": "ar", "ranlib": "ranlib"}
HEADERS = "On Debian and Ubuntu they are in python3-dev, on Fedora in python3-devel."
SANITIZED = (
    "-DSLABSVM_SANITIZE=address;undefined",
    "-DCMAKE_BUILD_TYPE=Debug",
    "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g -D_GLIBCXX_ASSERTIONS",
)

build_sdist = scikit_build.build_sdist
get_requires_for_build_sdist = scikit_build.get_requires_for_build_sdist
prepare_metadata_for_build_editable = scikit_build.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = scikit_build.prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what a build needs beside what pyproject.toml names: CMake, ninja and a compiler where there is none."""
    return [*scikit_build.get_requires_for_build_wheel(config_settings), *([ZIG] if lacks_compiler() else [])]


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    with TemporaryDirectory() as folder, compiler(Path(folder)):
        return scikit_build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Compile what has changed of the core, and build a wheel that points to src."""
    build_core()
    return scikit_build.build_editable(wheel_directory, config_settings, metadata_directory)


def lacks_compiler() -> bool:
    """Whether no C++ compiler is named or found. On Windows, CMake knows of places that are not on the PATH."""
    return os.name == "posix" and "CXX" not in os.environ and not any(map(shutil.which, COMPILERS))


@contextlib.contextmanager
def compiler(folder: Path) -> Iterator[None]:
    """Where there is no compiler, put zig's programs into a folder, under the names that CMake looks for."""
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        sys.exit(f"slabsvm needs Python's headers to be built, and {sys.executable} has none. {HEADERS}")
    before = dict(os.environ)
    # CMake and ninja may be here alone: pip installs them beside Python.
    places = [str(Path(sys.executable).parent), before.get("PATH", os.defpath)]
    if lacks_compiler():
        found = find_spec("ziglang")
        if found is None or not found.submodule_search_locations:
            sys.exit("slabsvm needs a C++ compiler, or ziglang, which pip installs. Neither was found.")
        zig = Path(found.submodule_search_locations[0], "zig")
        folder.mkdir(parents=True, exist_ok=True)
        for name, command in PROGRAMS.items():
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec "{zig}" {command} "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        os.environ.update(CC=str(folder / "cc"), CXX=str(folder / "c++"))
        places.insert(0, str(folder))
    os.environ["PATH"] = os.pathsep.join(places)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def build_core(*options: str, build: Path | None = None, package: Path = PACKAGE, quiet: bool = True) -> None:
    """Compile what has changed since the last build, and put the module into a package in place of the last one."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    build = build or ROOT / "build" / f"core{suffix.rpartition('.')[0]}"
    with compiler(build / "programs"):
        ninja = shutil.which("ninja")
        configure = ["cmake", "-S", ROOT, "-B", build, f"-DPython_EXECUTABLE={sys.executable}", *options]
        configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
        cache = build / "CMakeCache.txt"
        if not cache.exists() or subprocess.run(configure, capture_output=True, check=False).returncode:
            # What is kept, if anything, names programs that are gone.
            cache.unlink(missing_ok=True)
            shutil.rmtree(build / "CMakeFiles", ignore_errors=True)
            run(configure)
        run(["cmake", "--build", build, "--config", "Release", "--parallel", str(os.cpu_count())], quiet=quiet)
        run(["cmake", "--install", build, "--config", "Release", "--prefix", build / "installed"])
    # A Python that has loaded the last one keeps it.
    os.replace(build / "installed" / "slabsvm" / f"core{suffix}", package / f"core{suffix}")


def run(command: list[Any], *, quiet: bool = True) -> None:
    """Run a command; what it prints shows if it fails or is not to be quiet."""
    kept = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
    done = subprocess.run(command, text=True, check=False, **kept)
    if done.returncode:
        sys.exit(f"{done.stdout or ''}The compiled core could not be built.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="./scripts/build", description="Build the compiled core into src/slabsvm.")
    parser.add_argument("--quiet", action="store_true", help="say nothing unless it fails")
    parser.add_argument("--needs", action="store_true", help="print what pip has to install for it, and build nothing")
    parser.add_argument(
        "--sanitize", type=Path, metavar="FOLDER", help="build it with sanitizers, for scripts/sanitize"
    )
    asked = parser.parse_args()
    if asked.needs:
        print(*get_requires_for_build_editable())
    elif asked.sanitize:
        build_core(*SANITIZED, build=asked.sanitize / "core", package=asked.sanitize / "slabsvm", quiet=asked.quiet)
    else:
        build_core(quiet=asked.quiet)
