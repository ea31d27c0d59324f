"""The start of `slabsvm`: the command where its extra is installed, and what to install where it is not."""

from __future__ import annotations

import sys

from slabsvm.command.stopping import end_in_order, nothing_begun
from slabsvm.runtime.caller import ExtraMissingError, require


def main() -> None:
    """Run the command line; exit with status 1 and a sentence where the extra `command` is missing."""
    try:
        for library in ("click", "rich"):
            require("The command slabsvm", library, "slabsvm[command]")
    except ExtraMissingError as error:
        sys.exit(str(error))
    end_in_order()
    with nothing_begun():
        from slabsvm.command.group import slabsvm
    slabsvm()
