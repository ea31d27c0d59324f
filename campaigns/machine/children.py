"""Forked processes that work, and are killed at a moment by the clock, or at the n-th change of a file."""

from __future__ import annotations

import io
import itertools
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FAILED = 70


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes
    ----------
    killed : bool
    status : int
        The exit status of one that was not killed.
    seconds : float
    said : str
        All that it wrote on the standard streams.
    """

    killed: bool
    status: int
    seconds: float
    said: str


class Changes:
    """Counts the changes of files in a folder that this process makes, and kills it at one of them.

    Names that appear, change or go are changes, and each write of the system; a write is killed when half of it is
    written.
    """

    def __init__(self, folder: Path, fatal: int | None) -> None:
        self._folder = os.fspath(folder)
        self._fatal = fatal
        self._numbers = itertools.count(1)
        self.number = 0

    def watch(self) -> None:
        """Begin; there is no end, so that this is for a process of its own."""
        sys.addaudithook(self._heard)
        os.fdopen = self._opened

    def is_fatal(self) -> bool:
        """Count a change, and say whether it is the one."""
        self.number = next(self._numbers)
        return self.number == self._fatal

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            concerned = bool(flags & WRITING) and self._is_ours(path)
        else:
            concerned = event in CHANGES and self._is_ours(arguments[0])
        if concerned and self.is_fatal():
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_ours(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._folder)

    def _opened(self, descriptor: int, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if mode not in ("w+b", "a+b", "r+b"):
            return io.open(descriptor, mode, *rest, **options)  # noqa: UP020 - the one beneath os.fdopen
        return io.BufferedRandom(_Counted(descriptor, mode, self))


class _Counted(io.FileIO):
    def __init__(self, descriptor: int, mode: str, changes: Changes) -> None:
        super().__init__(descriptor, mode.replace("b", ""))
        self._changes = changes

    def write(self, content: Any) -> int:
        if self._changes.is_fatal():
            half = bytes(content)[: max(1, len(content) // 2)]
            super().write(half)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(content)


def started(do: Callable[[], object], log: Path) -> int:
    """Do something in a forked process; return its number."""
    number = os.fork()
    if number:
        return number
    status = FAILED
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        do()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def ended(number: int, log: Path, *, after: float | None = None, limit: float = 300.0) -> Ended:
    """Wait for a process, and kill it when so many seconds have passed; it counts as killed if it was alive then.

    Raises
    ------
    TimeoutError
        It is at work beyond the limit: it hangs.
    """
    begun = time.perf_counter()
    while True:
        done, status = os.waitpid(number, os.WNOHANG)
        seconds = time.perf_counter() - begun
        if done:
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            return Ended(killed, code, seconds, log.read_text(errors="replace"))
        if seconds > limit:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            raise TimeoutError(f"a process was at work for {limit:.0f} s: {log.read_text(errors='replace')[-500:]}")
        if after is not None and seconds >= after:
            os.kill(number, signal.SIGKILL)
            after = None
        time.sleep(0.001)


def done(do: Callable[[], object], log: Path) -> Ended:
    """Do something in a forked process, to its end."""
    return ended(started(do, log), log)
