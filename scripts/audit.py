"""Ask for known vulnerabilities of every library that slabsvm and its users' extras bring, as installed in .venv.

pip-audit asks, from an environment of its own, .venv-audit, made on first use; both need a network. Exit status: 0 each
library was asked for and none has a known vulnerability; 1 some have; 3 some could not be asked for, which pip-audit
itself takes for a success.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from dependencies import FOLDERS, ROOT, components

VULNERABLE, NOT_ASKED = 1, 3
AUDITOR = "pip-audit>=2.7,<3"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./scripts/audit", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pip-audit", type=Path, metavar="FILE", help="a pip-audit that is there already")
    asked = parser.parse_args()
    versions = {one.name: one.version for folder in FOLDERS for one in components(folder)}
    answered = answers(asked.pip_audit or auditor(), versions)
    said = {name: answered.get(name, {}) for name in versions}
    skipped = {name: one.get("skip_reason") for name, one in said.items() if "vulns" not in one}
    found = {name: one["vulns"] for name, one in said.items() if one.get("vulns")}
    for name, fault in ((name, fault) for name, faults in found.items() for fault in faults):
        remedy = ", ".join(fault["fix_versions"]) or "no version"
        print(f"VULNERABLE  {name} {versions[name]}: {fault['id']}, mended in {remedy}")
    print(f"{len(versions)} libraries, {len(versions) - len(skipped)} of them asked for: {len(found)} are vulnerable.")
    if skipped:
        print(f"NOT ASKED FOR: {', '.join(f'{name} {versions[name]}' for name in skipped)}.")
        print("pip-audit says:", next(iter(skipped.values())) or "nothing of them")
    return VULNERABLE if found else NOT_ASKED if skipped else 0


def auditor() -> Path:
    """Return the pip-audit of its environment, made if need be."""
    folder = ROOT / ".venv-audit"
    program = folder / "bin" / "pip-audit"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", AUDITOR]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            give_up(f"pip-audit cannot be installed:\n{done.stderr.strip()[-500:]}")
    return program


def answers(program: Path, versions: dict[str, str]) -> dict[str, Any]:
    """Return what pip-audit says of libraries of these versions, by name: their "vulns", or a "skip_reason"."""
    with TemporaryDirectory() as folder:
        listed = Path(folder, "versions.txt")
        listed.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()), encoding="utf-8")
        how = ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "15"]
        done = subprocess.run([program, "-r", listed, *how], capture_output=True, text=True, check=False)
    try:
        return {one["name"]: one for one in json.loads(done.stdout)["dependencies"]}
    except (ValueError, KeyError):
        give_up((done.stderr.strip().splitlines() or ["it said nothing"])[-1])


def give_up(why: str) -> NoReturn:
    print(f"NOT ASKED FOR: no advisory could be read. {why}", file=sys.stderr)
    sys.exit(NOT_ASKED)


if __name__ == "__main__":
    sys.exit(main())
