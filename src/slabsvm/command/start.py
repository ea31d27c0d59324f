"""The start of `slabsvm`: the command where its extra is installed, and what to install where it is not."""

from __future__ import annotations

import sys

from slabsvm.command.stopping import end_in_order, nothing_begun


def main() -> None:
    """Run the command line; exit with status 1 and a sentence where the extra `command` is missing."""
    end_in_order()
    try:
        with nothing_begun():
            from slabsvm.command.group import slabsvm
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"The command slabsvm needs {error.name}. Install it with: pip install 'slabsvm[command]'")
    slabsvm()
