"""What a distribution needs, and what that needs in turn, as installed: versions to audit, and a bill of materials."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT, ROOT / "reproduction")
# Extras of those who work on the repository; all others are users'.
WORKSHOP = ("test", "benchmarks", "browser", "campaigns", "docs", "dev")
OWN = ("slabsvm", "slabsvm-reproduction")


@dataclass
class Component:
    """A library as it is installed, which bounds it has here where it is asked for directly, and what it needs."""

    name: str
    version: str
    licence: str
    bounds: str = ""
    asked_by: set[str] = field(default_factory=set)
    needs: set[str] = field(default_factory=set)

    @property
    def reference(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"

    def listed(self, licence: dict[str, str]) -> dict[str, Any]:
        """Return its entry of a bill of materials."""
        place = {"bom-ref": self.reference, "name": self.name, "version": self.version, "purl": self.reference}
        return {"type": "library"} | place | {"licenses": [{"license": licence}]}


def stated(folder: Path) -> list[tuple[str, Requirement]]:
    """Return what the pyproject.toml of a folder asks for on behalf of users, each with its extra, "" for always."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [("", requirement) for requirement in project["dependencies"]]
    for extra, requirements in project.get("optional-dependencies", {}).items():
        if extra not in WORKSHOP:
            found += [(extra, requirement) for requirement in requirements]
    return [(extra, Requirement(requirement)) for extra, requirement in found]


def expanded(folder: Path, wanted: frozenset[str] | None = None) -> list[tuple[str, Requirement]]:
    """Return what is stated, by all extras or those wanted, with slabsvm[tables] replaced by what that asks for."""
    found = []
    for extra, requirement in stated(folder):
        if wanted is not None and extra not in wanted:
            continue
        if requirement.name not in OWN:
            found.append((extra, requirement))
        else:
            always = frozenset() if folder == ROOT else frozenset({""})
            found += [(extra, below) for _, below in expanded(ROOT, always | requirement.extras)]
    return found


def components(folder: Path) -> list[Component]:
    """Return every library that a distribution and its users' extras bring, as installed here, sorted by name.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        One of them is not installed.
    """
    found: dict[str, Component] = {}
    for extra, requirement in expanded(folder):
        _walked(requirement, extra, found).bounds = str(requirement.specifier)
    return [found[name] for name in sorted(found)]


def _walked(requirement: Requirement, extra: str, found: dict[str, Component]) -> Component:
    """Return the component of a requirement, noted with all below it as asked for by an extra."""
    name = canonicalize_name(requirement.name)
    installed = _installed(name)
    component = found.setdefault(name, Component(name, installed.version, _licence(installed)))
    component.asked_by.add(extra)
    for further in _needs(name):
        options = requirement.extras or {""}
        if further.marker is None or any(further.marker.evaluate({"extra": option}) for option in options):
            below = canonicalize_name(further.name)
            known = below in component.needs and extra in found[below].asked_by
            component.needs.add(below)
            if not known:
                _walked(further, extra, found)
    return component


@cache
def _installed(name: str) -> metadata.Distribution:
    return metadata.distribution(name)


@cache
def _needs(name: str) -> tuple[Requirement, ...]:
    return tuple(map(Requirement, _installed(name).requires or ()))


def _licence(installed: metadata.Distribution) -> str:
    stated = installed.metadata.get("License-Expression") or installed.metadata.get("License") or ""
    kinds = [kind for kind in installed.metadata.get_all("Classifier", []) if kind.startswith("License ::")]
    # Some put the whole text where a name belongs.
    name = stated if 0 < len(stated) < 60 else "; ".join(kind.rpartition(" :: ")[2] for kind in kinds)
    return re.sub(r"\s+", " ", name) or "not stated"


def bill_of_materials(folder: Path, wheel: Path, epoch: int) -> str:
    """Return a bill of materials (CycloneDX 1.6, JSON) of a wheel and of all that it needs; the same text each time."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    own = Component(project["name"], wheel.name.split("-")[1], "")
    below = components(folder)
    references = {component.name: component.reference for component in below}
    direct = sorted({references[canonicalize_name(need.name)] for _, need in expanded(folder)})
    tools = [
        {"type": "application", "name": name, "version": metadata.version(name)}
        for name in ("nanobind", "scikit-build-core")
    ]
    released = own.listed({"id": project["license"]}) | {"hashes": [{"alg": "SHA-256", "content": digest}]}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": tools},
            "component": released,
        },
        "components": [
            one.listed({"name": one.licence})
            | {"scope": "required" if "" in one.asked_by else "optional"}
            | {"properties": [{"name": "slabsvm:bounds", "value": one.bounds}] if one.bounds else []}
            for one in below
        ],
        "dependencies": [
            {"ref": own.reference, "dependsOn": direct},
            *({"ref": one.reference, "dependsOn": sorted(references[name] for name in one.needs)} for one in below),
        ],
    }
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    versions = {f"{one.name}=={one.version}" for folder in FOLDERS for one in components(folder)}
    print(*sorted(versions), sep="\n")
