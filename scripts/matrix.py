"""Run the tests of numbers under each of OpenBLAS's kernels that this processor runs, and all with other versions.

CONTRIBUTING.md says which. OPENBLAS_CORETYPE asks for kernels, and what the OpenBLAS in NumPy's and SciPy's wheels made
of the wish is read back.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from subprocess import CompletedProcess

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ("Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids")
# What continuous integration runs, with so many threads of BLAS: instruction sets of 128, 256 and 256 bits, the last
# with fused products.
FEW = (("Nehalem", 2), ("Sandybridge", 1), ("Haswell", 2))
NUMBERS = ("-m", "numeric and not contract", "tests")
# Answers are the same bits for any number of threads of BLAS: another number runs what is quick.
QUICK = ("-m", "numeric and not contract and not slow", "tests")
# Tests of the pages need a builder of pages and a browser, which nobody installs to use the package.
ELSEWHERE = ("docs", "browser", "dev", "benchmarks", "campaigns")
EVERYTHING = ("tests", "reproduction/tests", "--ignore=tests/docs")
# A warning fails a test. What other libraries will change is theirs to say, and not in all of their versions.
THEIRS = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning", "UserWarning")
WARNED = tuple(f"-Wdefault::{name}" for name in THEIRS)
# Under other kernels a fit that is near a warning's threshold may warn or not: tests/conftest.py reads it.
OURS = {"SLABSVM_WARNINGS": "either way"}
DESCRIBED = (ROOT / "pyproject.toml", ROOT / "reproduction" / "pyproject.toml")
# "dask[array]>=2024.8,<2027" is of dask, from 2024.8.
BOUND = re.compile(r"([A-Za-z0-9-]+)(?:\[\w+\])?>=([0-9.]+),")
PROBE = """
import importlib.metadata, json, numpy, scipy.linalg, sys, threadpoolctl
square = numpy.eye(300) + numpy.ones((300, 300)) @ numpy.ones((300, 300))
scipy.linalg.cholesky(square)
found = [library for library in threadpoolctl.threadpool_info() if library["internal_api"] == "openblas"]
print(json.dumps({
    "kernels": sorted({library.get("architecture") or "unknown" for library in found}),
    "versions": {name: importlib.metadata.version(name) for name in sys.argv[1:]},
}))
"""


@dataclass(frozen=True)
class Cell:
    """One run: an interpreter, the kernels asked of OpenBLAS (None: its own choice), its threads, and the tests."""

    python: Path
    kernels: str | None
    n_threads: int
    tests: tuple[str, ...] = NUMBERS

    @property
    def environment(self) -> dict[str, str]:
        wish = {} if self.kernels is None else {"OPENBLAS_CORETYPE": self.kernels}
        return {**os.environ, **OURS, **wish, "OPENBLAS_NUM_THREADS": str(self.n_threads)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./scripts/matrix", description=__doc__.partition("\n\n")[0])
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--few", action="store_true", help="three kinds of kernels alone, as in CI")
    part.add_argument("--ends-only", action="store_true", help="the oldest and the newest versions alone")
    asked = parser.parse_args()
    found = []
    for said, passed in map(run, cells(asked)):
        found.append((said, passed))
        print(said, flush=True)
    counted, failed = (sum(passed in some for _, passed in found) for some in ((True, False), (False,)))
    print(f"\n== {counted} runs, {failed} failed", *(said for said, _ in found), sep="\n")
    return 1 if failed or not counted else 0


def cells(asked: argparse.Namespace) -> Iterator[Cell]:
    python = Path(sys.executable)
    if asked.few:
        yield from (Cell(python, kernels, n_threads) for kernels, n_threads in FEW)
        return
    for kernels in () if asked.ends_only else KERNELS:
        yield from (Cell(python, kernels, 1), Cell(python, kernels, 2, QUICK))
    for age in ("oldest", "newest"):
        python = environment(age)
        yield from (Cell(python, None, 1, EVERYTHING), Cell(python, None, 2, QUICK))


def run(cell: Cell) -> tuple[str, bool | None]:
    """Return a line that says how it went, and whether it passed; None for kernels that could not be had."""
    name = f"{cell.kernels or 'own kernels'}, BLAS threads {cell.n_threads}"
    asked = lower_bounds() if cell.tests == EVERYTHING else ("numpy", "scipy", "scikit-learn")
    probe = output([cell.python, "-c", PROBE, *asked], cell.environment)
    if probe.returncode < 0:
        return f"not counted  {name}: this processor does not run them", None
    if probe.returncode:
        return f"FAILED       {name}: {probe.stderr.strip()[-500:]}", False
    found = json.loads(probe.stdout)
    taken = " and ".join(found["kernels"]) or "no OpenBLAS"
    if cell.kernels is not None and taken.lower() != cell.kernels.lower():
        return f"not counted  {name}: the libraries took {taken} in their place", None
    begun = time.monotonic()
    done = output([cell.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *WARNED, *cell.tests], cell.environment)
    minutes = (time.monotonic() - begun) / 60
    if done.returncode:
        print(done.stdout[-20000:], done.stderr[-2000:], sep="\n")
    outcome = "FAILED     " if done.returncode else "passed     "
    last = (done.stdout.strip().splitlines() or ["nothing was said"])[-1].strip("= ")
    versions = ", ".join(f"{library} {version}" for library, version in found["versions"].items())
    return f"{outcome}  {name} ({taken}; {versions}), {minutes:.1f} min: {last}", not done.returncode


def output(command: Sequence[str | Path], variables: dict[str, str]) -> CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def environment(age: str) -> Path:
    """Return the interpreter of the environment with the "oldest" or the "newest" versions, which is made."""
    folder = ROOT / f".venv-{age}"
    python = folder / "bin" / "python"
    print(f"Making {folder.name} ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pins = [f"{library}=={version}" for library, version in lower_bounds().items()] if age == "oldest" else []
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    described_by = ["--editable", f"{ROOT}[test]", "--editable", f"{ROOT / 'reproduction'}[voc]"]
    subprocess.run([*install, *described_by, *pins], check=True)
    return python


def lower_bounds() -> dict[str, str]:
    """Return the lower bound of each library that the tests of both distributions need: {"numpy": "1.26", ...}."""
    stated: list[str] = []
    for path in DESCRIBED:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        extras = project["optional-dependencies"].items()
        stated += [*project["dependencies"], *chain(*(extra for name, extra in extras if name not in ELSEWHERE))]
    return {bound[1]: bound[2] for requirement in stated if (bound := BOUND.match(requirement))}


if __name__ == "__main__":
    sys.exit(main())
