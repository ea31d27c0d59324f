"""Disks that fill, and folders that cannot be written, for everything that writes.

python campaigns/machine/disks.py NAME SEED       # prints a record; needs to mount, as root or by `unshare -rm`
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from machine.children import Ended, done
from machine.kills import EARLIER
from machine.works import WORKS, Contents, Work, make_inputs

Record = dict[str, Any]

SIZE = 2**20
PAGE = 4096
ENOUGH = "64m"
# Shares of what an unbroken run writes that there is room for, and one that is drawn.
ROOM = (0.0, 0.3, 0.9)
FULL = "No space left on device"
READ_ONLY = ("Read-only file system", "Permission denied", "nothing can be written to", "Cannot write to")
NOBODY = 65534


def in_a_namespace(name: str, seed: int) -> list[Record]:
    """Return the records of a work, made where mounting is allowed and is nobody else's."""
    namespace = ["unshare", "-rm"] if os.geteuid() else ["unshare", "-m"]
    command = [*namespace, sys.executable, "-m", "machine.disks", name, str(seed)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


class Disk:
    """A file system of 1 MB in memory.

    Parameters
    ----------
    place : Path
        An empty folder.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place / "results"
        self._filler = place / "filler"

    def __enter__(self) -> Disk:
        self._mount("size=1m", "-t", "tmpfs", "none")
        self.folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self.place], check=True)

    def fill(self, room: int) -> None:
        """Leave so many bytes, in whole pages."""
        free = shutil.disk_usage(self.place).free
        taken = free - PAGE * (room // PAGE)
        if taken > 0:
            self._filler.write_bytes(bytes(taken))

    def make_room(self) -> None:
        """Make the disk larger than anything that is written here."""
        self._mount(f"remount,size={ENOUGH}")

    def forbid(self) -> None:
        """Let nothing be written."""
        self._mount("remount,ro")

    def allow(self) -> None:
        """Let everything be written."""
        self._mount(f"remount,rw,size={ENOUGH}")

    def _mount(self, options: str, *further: str) -> None:
        subprocess.run(["mount", "-o", options, *further, self.place], check=True)


class Trying:
    """One work on disks that do not take what it writes.

    Parameters
    ----------
    work : Work
    base : Path
        An empty folder.
    """

    def __init__(self, work: Work, base: Path) -> None:
        self.work, self.log = work, base / "said"
        self.inputs, self.place, whole = (base / name for name in ("inputs", "disk", "unbroken"))
        for folder in (self.inputs, self.place, whole):
            folder.mkdir()
        make_inputs(self.inputs)
        # In this process: what it imports on the way may be out of the reach of nobody.
        with redirect_stdout(io.StringIO()):
            work.do(self.inputs, whole)
        self.contents: Contents = work.contents(whole)
        self.size = sum(path.stat().st_size for path in whole.iterdir())

    def full(self, share: float) -> list[str]:
        """Return what is wrong where there is room for a share of what is written."""
        with Disk(self.place) as disk:
            self._put_earlier(disk.folder)
            disk.fill(int(share * min(self.size, SIZE)))
            faults = self._refused(disk.folder, self._do(disk.folder), (FULL,))
            disk.make_room()
            return faults + self._goes_on(disk.folder)

    def read_only(self) -> list[str]:
        """Return what is wrong on a disk that is mounted to be read."""
        with Disk(self.place) as disk:
            self._put_earlier(disk.folder)
            disk.forbid()
            faults = self._refused(disk.folder, self._do(disk.folder), READ_ONLY)
            disk.allow()
            return faults + self._goes_on(disk.folder)

    def without_rights(self) -> list[str]:
        """Return what is wrong in a folder that the user may read alone."""
        with Disk(self.place) as disk:
            self._put_earlier(disk.folder)
            disk.folder.chmod(0o555)
            faults = self._refused(disk.folder, self._do(disk.folder, as_nobody=True), READ_ONLY)
            disk.folder.chmod(0o755)
            disk.make_room()
            return faults + self._goes_on(disk.folder)

    def _put_earlier(self, folder: Path) -> None:
        for name in self.work.results:
            (folder / name).write_bytes(EARLIER)

    def _do(self, folder: Path, *, as_nobody: bool = False) -> Ended:
        return done(partial(_done, self.work.do, self.inputs, folder, as_nobody), self.log)

    def _refused(self, folder: Path, how: Ended, words: tuple[str, ...]) -> list[str]:
        """Return what is wrong with a run that could not write."""
        faults = []
        last = how.said.strip().splitlines()[-1] if how.said.strip() else ""
        if how.status in (0, 70) or "Traceback" in how.said:
            faults.append(f"it ended with {how.status}: {how.said[-300:]}")
        elif not any(word in how.said for word in words) or str(folder) not in how.said:
            faults.append(f"it did not say what is wrong, and where: {last}")
        for path in folder.iterdir():
            if path.name in self.work.results:
                if path.read_bytes() not in (EARLIER, self.contents[path.name]):
                    faults.append(f"{path.name} is neither what was there nor what is to be")
            elif path.name != self.work.journal:
                faults.append(f"{path.name} is left")
        return faults

    def _goes_on(self, folder: Path) -> list[str]:
        last = self._do(folder)
        if last.status:
            return [f"with room it ended with {last.status}: {last.said[-300:]}"]
        return [] if self.work.contents(folder) == self.contents else ["with room it wrote something else"]


def _done(do: Callable[[Path, Path], None], inputs: Path, folder: Path, as_nobody: bool) -> None:
    """Do it, and say an error of the system as a command says it."""
    if as_nobody and os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        do(inputs, folder)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}")
        raise SystemExit(1) from error


def tried(name: str, seed: int) -> list[Record]:
    """Return the records of a work: full disks, and folders that cannot be written."""
    drawn = float(np.random.default_rng(seed).random())
    with TemporaryDirectory(prefix="slabsvm-faults-") as base:
        Path(base).chmod(0o755)
        trying = Trying(WORKS[name], Path(base))
        ways: dict[str, Callable[[], list[str]]] = {
            f"1 MB, room for {share:.0%}": partial(trying.full, share) for share in (*ROOM, drawn)
        }
        ways["mounted read-only"] = trying.read_only
        # In a namespace of users nobody has no number.
        if _is_root():
            ways["no right to write"] = trying.without_rights
        return [
            {"section": "disks", "what": name, "seed": seed, "how": how, "bytes": trying.size, "faults": try_it()}
            for how, try_it in ways.items()
        ]


def _is_root() -> bool:
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


if __name__ == "__main__":
    # What is said on the way is no record.
    records, sys.stdout = sys.stdout, sys.stderr
    json.dump(tried(sys.argv[1], int(sys.argv[2])), records)
