"""Files of any origin: only regular files of bounded size are read, and results are written whole.

A device without end, a pipe to which nobody writes, or somebody else's link is refused with an `OSError` whose
`strerror` is a sentence. What is being written has a name of its own, and the system's lock while its process lives:
what a killed process left is known by its free lock, and is removed when the same file is written again.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

# What other distributions use.
__all__ = ["BEHIND", "beside", "locked", "named_errors", "open_regular", "replacing", "same_file", "write_whole"]
# A system without such a flag lacks the danger too, or has one that no flag averts.
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# Where Windows locks a byte, nobody else can read it: behind all that is read while a lock is held.
BEHIND = 1 << 10


def open_regular(path: Path, mode: str = "rb", *, links: bool = True) -> BinaryIO:
    """Open a regular file as "rb", "r+b" or "a+b", never waiting for one that is not; OSError for others, or links."""
    if not links and path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and links are not followed here. Remove it", str(path))
    flags = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "a+b": os.O_RDWR | os.O_APPEND | os.O_CREAT}[mode]
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | BINARY | (0 if links else NO_LINK)
    # Opening a pipe to write, or a socket, fails in words that do not say what it is.
    if path.exists():
        _require_regular(path.stat().st_mode, path)
    descriptor = os.open(path, flags, 0o666)
    try:
        _require_regular(os.fstat(descriptor).st_mode, path)
    except BaseException:
        os.close(descriptor)
        raise
    return cast(BinaryIO, os.fdopen(descriptor, mode))


def is_stream(path: Path) -> bool:
    """Return whether what is there is a device or a pipe, or leads to an open file of this process, as /dev/stdout."""
    # Where Linux and the BSDs keep the open files of a process.
    if path.is_symlink() and os.readlink(path).startswith(("/proc/self/fd/", "/dev/fd/", "fd/")):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file so that it is never there in part, also when the process is killed; text becomes UTF-8, or escapes.
    A link in its place is replaced, not followed.
    """
    content = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, *, lasting: bool = False) -> Iterator[BinaryIO]:
    """Open a new file beside a path, which takes its place when all has been written, and is removed otherwise.

    A lasting file is on the disk before it takes the place, and the place after it. Raises OSError: the file cannot be
    written, or a device or a pipe is in its place, such as /dev/null.
    """
    with named_errors(path):
        if path.is_dir():
            raise OSError(errno.EISDIR, "it is a folder, which no file can replace. Name a file in it", str(path))
        if is_stream(path):
            why = f"it is {_kind(path.stat().st_mode)}, which no file can replace. Name a file"
            raise OSError(errno.EINVAL, why, str(path))
        with beside(path) as (part, file):
            yield file
            file.flush()
            if lasting:
                os.fsync(file.fileno())
            file.close()
            os.replace(part, path)
        if lasting:
            _keep_name(path)


@contextmanager
def beside(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Open a new file in the folder of a path, and give its own name, too, under which nothing is left at the end. What
    killed processes left of the same path is removed first.
    """
    _remove_what_killed_writers_left(path)
    while True:
        # The name is random, so that nobody can put a link there first.
        part = path.with_name(f"{_start_of_part(path)}{secrets.token_hex(8)}.part")
        # Inside, so that an interruption leaves nothing; nobody else has a file of this name, one of 2^64.
        try:
            # A new file, with the usual permissions of the user's files.
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK | BINARY, 0o666)
            with os.fdopen(descriptor, "w+b") as file, _while_open(descriptor):
                # Between the making and the locking another writer may have taken it for a killed one's.
                if _is_held(descriptor, part):
                    yield part, cast(BinaryIO, file)
                    return
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _while_open(descriptor: int) -> Iterator[None]:
    """Keep an open file's lock also when it has been closed: until it has its name."""
    if sys.platform == "win32":  # which gives no new name to an open file
        yield
        return
    held = os.dup(descriptor)
    try:
        yield
    finally:
        os.close(held)


def _is_held(descriptor: int, part: Path) -> bool:
    """Lock a new file, where the file system has locks; False where others hold it, or it is there no more."""
    if sys.platform == "win32":
        return True
    try:
        return locked(descriptor) and same_file(descriptor, part)
    except OSError:
        return True


def _remove_what_killed_writers_left(path: Path) -> None:
    """Remove the parts of a path whose locks are free; without locks there is no telling, and all are left."""
    # Windows removes no open file, and renames none: there a part would have to be closed, and free, before its end.
    if sys.platform == "win32":
        return
    with suppress(OSError):
        for part in [path.with_name(name) for name in os.listdir(path.parent) if _is_part(name, path)]:
            with suppress(OSError), open_regular(part, links=False) as file:
                if locked(file.fileno()):
                    part.unlink()


def _is_part(name: str, path: Path) -> bool:
    """Return whether a file's name is that of a part of a path."""
    return re.fullmatch(rf"{re.escape(_start_of_part(path))}[0-9a-f]{{16}}\.part", name) is not None


def _start_of_part(path: Path) -> str:
    """Return the begin of a part's name: with 40 letters, of up to four bytes each, of a name that may be the longest
    that a system allows.
    """
    return f".{path.name[:40]}."


def locked(descriptor: int) -> bool:
    """Take the system's lock on an open file; False where somebody else has it, OSError where there are no locks."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, BEHIND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def same_file(descriptor: int, path: Path) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _keep_name(path: Path) -> None:
    """Write a file's new name to the disk, where the system opens folders and can; the file is in its place already."""
    with suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Add the file's name to a system error that has none, such as that of a full disk, or the name of its part."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not _is_part(os.path.basename(str(error.filename)), path):
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _require_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, f"it is {_kind(mode)}, not a regular file", str(path))


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
