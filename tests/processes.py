"""Python in a process of its own."""

import os
import subprocess
import sys
import textwrap
from typing import Any


def python(
    code: str, *arguments: Any, flags: tuple[str, ...] = (), **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run code in a process that imports from where this one does; return its status and what it says."""
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    command = [sys.executable, *flags, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, env=known, capture_output=True, text=True, timeout=300, check=False)


def loaded_after(code: str) -> set[str]:
    """Return the modules that there are in a process after some code."""
    answer = python(f"{code}; import sys; print(*sys.modules)")
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.splitlines()[-1].split())
