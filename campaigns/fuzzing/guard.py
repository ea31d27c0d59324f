"""What no reader may do, whatever it is given; and what is a fault.

docs/developers/fuzzing.md has the list. Python's audit hooks tell: they hear of all of this, also where it happens in a
library below.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

# The letters of a screen of 80 times 25.
SCREEN = 2000
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PLACES = {"os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.truncate", "os.link", "os.symlink", "os.chmod"}
NEVER = {
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn"),
    *("subprocess.Popen", "pickle.find_class", "webbrowser.open", "urllib.Request", "os.kill", "os.putenv"),
    *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"),
}
# What Python says to programmers is no text for a user.
NOT_FOR_USERS = re.compile(r"object has no attribute|Traceback|<[\w.]+ object at 0x|JSON compliant")


class Forbidden(BaseException):
    """What no reader may do; no `except Exception` may hide it."""


@dataclass(frozen=True)
class Fault:
    """What was wrong with the answer to an input, and the innermost line of this project's code: its name."""

    what: str
    where: str


class Guard:
    """Hears what Python does while an input is read, and where: files may be written into some folders alone.

    With packages=True none may be imported that was not there when the guard began.
    """

    def __init__(self, *folders: Path, packages: bool = True) -> None:
        """Begin to listen, for good: Python forgets no audit hook."""
        self.active = False
        self._below = tuple(f"{folder.resolve()}{os.sep}" for folder in folders)
        # What an input names is in none of these, but for encodings, which are modules of the standard library.
        known = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names
        self._known = known if packages else None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: Any) -> None:
        if not self.active:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITES and not isinstance(path, int):
                self._require_inside(event, path)
        elif event in PLACES:
            # A descriptor of a folder, or -1.
            for path in arguments:
                if not isinstance(path, int):
                    self._require_inside(event, path)
        elif event in NEVER:
            self._refuse(f"{event}{arguments!r:.200}")
        elif event == "import" and self._known is not None and arguments[0].partition(".")[0] not in self._known:
            self._refuse(f"import of {arguments[0]}")
        elif event == "exec" and not os.path.isfile(arguments[0].co_filename):
            # A module makes its named tuples and dataclasses of texts.
            callers = (frame.f_code for frame, _ in traceback.walk_stack(sys._getframe()))
            if ("_find_and_load", "<frozen importlib._bootstrap>") not in ((c.co_name, c.co_filename) for c in callers):
                self._refuse(f"exec of {arguments[0]!r:.200}")

    def _require_inside(self, event: str, path: Any) -> None:
        place = os.path.abspath(os.fsdecode(path))
        if not place.startswith(self._below) and place != "/dev/null":
            self._refuse(f"{event} of {place:.200}")

    def _refuse(self, what: str) -> NoReturn:
        raise Forbidden(what)

    def judged(
        self, read: Callable[[bytes], object], content: bytes, clear: tuple[type[BaseException], ...]
    ) -> tuple[Fault | None, str]:
        """Return what was wrong, None for nothing; and the text of a clear error, "" for an answer."""
        self.active = True
        try:
            read(content)
        except clear as error:
            text = str(error)
            unclear = _unclear(text)
            return (Fault(f"{unclear}: {text[:SCREEN]!r}", _where(error)) if unclear else None), text
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            return Fault(f"{type(error).__name__}: {str(error)[:SCREEN]}", _where(error)), ""
        finally:
            self.active = False
        return None, ""


def _unclear(text: str) -> str:
    """Return what is wrong with the text of an error; nothing, where it is a text for users."""
    if not text.strip():
        return "an error without a text"
    if len(text) > SCREEN:
        return f"an error of {len(text):,} letters"
    if not text.replace("\n", "").isprintable():
        return "an error that means something to a terminal"
    return "an error that is Python's" if NOT_FOR_USERS.search(text) else ""


def _where(error: BaseException) -> str:
    """Return the innermost line of this project's that an error went through, and the function it was raised in."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "slabsvm" in frame.filename] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno} in {frames[-1].name}" if frames else ""


def warnings_are_faults() -> None:
    """Have any library's warning raised as an error, but for those of this package, which are for its users."""
    warnings.resetwarnings()
    warnings.simplefilter("error")
    for name in ("slabsvm", "slabsvm_reproduction"):
        for module in [module for loaded, module in sys.modules.items() if loaded.partition(".")[0] == name]:
            for value in vars(module).values():
                if isinstance(value, type) and issubclass(value, Warning) and value.__module__.startswith(name):
                    warnings.simplefilter("ignore", value)
    # Of a column whose decimal mark nothing tells, or of which new rows will have values never seen; and of steps that
    # another version of scikit-learn wrote.
    from sklearn.exceptions import DataConversionWarning, DataDimensionalityWarning, InconsistentVersionWarning

    for category in (DataConversionWarning, DataDimensionalityWarning, InconsistentVersionWarning):
        warnings.simplefilter("ignore", category)
