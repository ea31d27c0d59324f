"""The command line. click and rich, the optional extra `slabsvm[command]`, are imported in this folder alone.

Other distributions add subcommands through entry points of the group `slabsvm.commands`.
"""

from __future__ import annotations

import signal
import sys

from slabsvm.runtime.caller import ExtraMissingError, require

INTERRUPTED = 130  # the exit status by which shells know an interruption


def main() -> None:
    """Run the command line; exit with status 1 and a sentence where the extra `command` is missing."""
    try:
        for library in ("click", "rich"):
            require("The command slabsvm", library, "slabsvm[command]")
    except ExtraMissingError as error:
        sys.exit(str(error))
    # The signals by which schedulers and closed terminals end a process have it remove what it has written in part.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup has it ignored.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        from slabsvm.command.group import slabsvm
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    slabsvm()
