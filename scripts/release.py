"""Build a release twice, from two clean exports of one commit, compare them bit for bit, and write it with its sums.

The second build has another folder, umask, time zone, language and order of hashes; a wheel that is built of the source
must be the same, too (docs/developers/releases.md). The wheel of slabsvm is for this Python on systems like this one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT, ROOT / "reproduction")
# What must not show in a file, each time another.
SURROUNDINGS = (
    {"umask": 0o022, "TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"},
    {"umask": 0o077, "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"},
)

# In a project's folder: build what is named by the functions of its build system, into a folder.
BUILD = """
import importlib, sys, tomllib
with open("pyproject.toml", "rb") as file:
    system = tomllib.load(file)["build-system"]
sys.path[:0] = system.get("backend-path", [])
backend = importlib.import_module(system["build-backend"])
for target in sys.argv[2:]:
    getattr(backend, f"build_{target}")(sys.argv[1])
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="./scripts/release", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--ref", default="HEAD", help="the tag or commit to build [%(default)s]")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder to write to [dist]")
    asked = parser.parse_args()
    commit = git("rev-parse", "--verify", f"{asked.ref}^{{commit}}").decode().strip()
    epoch = int(git("log", "-1", "--format=%ct", commit))
    if git("status", "--porcelain", "--untracked-files=no"):
        print("Changes that are not committed are not part of it.", file=sys.stderr)
    with TemporaryDirectory() as folder:
        places = (Path(folder, "one"), Path(folder, "other", "place"))
        one, other = (built(commit, epoch, *each) for each in zip(places, SURROUNDINGS, strict=True))
        differing = [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
        again = wheels_of_sources(places[0] / "built", epoch, Path(folder))
        differing += [f"{name}, built of the source" for name in again if again[name] != one[name]]
        if differing:
            print(*(f"DIFFERS   {name}" for name in differing), sep="\n")
            return 1
    asked.output.mkdir(parents=True, exist_ok=True)
    for name, content in one.items():
        (asked.output / name).write_bytes(content)
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in sorted(one.items())]
    (asked.output / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    print(f"{commit} was built twice, bit for bit the same. In {asked.output}:", *sums, sep="\n")
    return 0


def git(*command: str) -> bytes:
    return subprocess.check_output(["git", "-C", ROOT, *command])


def built(commit: str, epoch: int, folder: Path, surroundings: dict[str, str | int]) -> dict[str, bytes]:
    """Return the files of a release by name, built of a clean export of a commit into a folder."""
    folder.mkdir(parents=True)
    export = folder.with_suffix(".tar")
    git("archive", "--output", str(export), commit)
    shutil.unpack_archive(export, folder, filter="data")
    for project in FOLDERS:
        build(folder / project.relative_to(ROOT), ("sdist", "wheel"), folder / "built", epoch, surroundings)
    paths = sorted((folder / "built").iterdir())
    return {path.name: path.read_bytes() for path in paths if path.suffix != ".gitignore"}


def wheels_of_sources(sources: Path, epoch: int, folder: Path) -> dict[str, bytes]:
    for source in sources.glob("*.tar.gz"):
        shutil.unpack_archive(source, folder, filter="data")
        build(folder / source.name.removesuffix(".tar.gz"), ("wheel",), folder / "again", epoch, SURROUNDINGS[0])
    return {path.name: path.read_bytes() for path in (folder / "again").iterdir()}


def build(
    project: Path, targets: tuple[str, ...], output: Path, epoch: int, surroundings: dict[str, str | int]
) -> None:
    variables = {name: str(value) for name, value in surroundings.items() if name != "umask"}
    output.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, output, *targets],
        cwd=project,
        env={**os.environ, **variables, "SOURCE_DATE_EPOCH": str(epoch)},
        umask=int(surroundings["umask"]),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{project.name} cannot be built:\n{done.stdout.strip()}\n{done.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main())
