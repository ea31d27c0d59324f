"""A cache of compiled code: read-only, absent, corrupt, cut off, or shared by processes that begin at once."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from slabsvm.runtime.compilation import NOWHERE, UNREADABLE

Record = dict[str, Any]

# Says what compiled loops answer: those that fit, that predict, and that prepare tables.
ANSWERS = """
import hashlib, warnings
import numpy as np
warnings.simplefilter("always")
from slabsvm import SVDD, OneClassSlabSVM
X = np.random.default_rng(0).gamma(9.0, size=(80, 3))
found = hashlib.sha256()
for model in (OneClassSlabSVM(), SVDD(), OneClassSlabSVM(kernel="intersection")):
    found.update(model.fit(X).score_samples(X + 0.5).tobytes())
print("answers", found.hexdigest(), flush=True)
"""
AT_ONCE = 10
# Mounts a folder over itself, to be read alone, and runs what follows: rights would not keep an administrator out.
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
# Lines of the log that are announced: what cannot be kept, and what cannot be read.
ANNOUNCED = (NOWHERE, UNREADABLE)


class Caching:
    """Processes that share one cache.

    Parameters
    ----------
    base : Path
        An empty folder.
    generator : Generator
        Draws what is damaged, and when.
    """

    def __init__(self, base: Path, generator: np.random.Generator) -> None:
        self.cache, self.generator = base / "cache", generator
        self.home = base / "home"
        self.home.write_text("where a home would be")
        # From no cache, which makes one.
        self.expected = self._heard(self._begun())[0]
        self.kept = base / "kept"
        shutil.copytree(self.cache, self.kept)

    def absent(self) -> list[str]:
        """Return what is wrong where the cache's folder is yet to be made."""
        return self._faults([self._begun()], quiet=True) + self._found_again()

    def corrupt(self, harm: Callable[[Path, np.random.Generator], None], ending: str) -> list[str]:
        """Return what is wrong where some of the kept files are not what was written."""
        shutil.copytree(self.kept, self.cache)
        files = sorted(self.cache.rglob(f"*.{ending}"))
        for path in files:
            if path == files[0] or self.generator.random() < 0.5:
                harm(path, self.generator)
        return self._faults([self._begun()]) + self._found_again()

    def read_only(self, full: bool) -> list[str]:
        """Return what is wrong where the cache can be read alone; it is empty, or has all."""
        shutil.copytree(self.kept, self.cache) if full else self.cache.mkdir()
        return self._faults([self._begun(read_only=True)], quiet=full)

    def shared(self) -> list[str]:
        """Return what is wrong with ten processes that begin at once, without a cache."""
        # Two that compile a loop for different types at once may give both one file, which is announced.
        return self._faults([self._begun() for _ in range(AT_ONCE)])

    def cut_off(self) -> list[str]:
        """Return what is wrong after processes that were killed while they compiled."""
        for _ in range(4):
            process = self._begun()
            # Compiling begins when the cache has its folder.
            while not self.cache.exists() and process.poll() is None:
                time.sleep(0.01)
            time.sleep(float(self.generator.uniform(0.0, 8.0)))
            process.send_signal(signal.SIGKILL)
            process.communicate()
        return self._faults([self._begun()], quiet=True) + self._found_again()

    def a_file(self) -> list[str]:
        """Return what is wrong where a file has the cache's name."""
        self.cache.write_text("no folder")
        return self._faults([self._begun()])

    def clear(self) -> None:
        """Forget the cache."""
        if self.cache.is_file():
            self.cache.unlink()
        shutil.rmtree(self.cache, ignore_errors=True)

    def _begun(self, *, read_only: bool = False) -> subprocess.Popen[str]:
        known = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        # A home that is a file, where nothing can be kept.
        places = {name: str(self.home) for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA")}
        command = [sys.executable, "-c", ANSWERS]
        if read_only:
            namespace = ["unshare", "-rm"] if os.geteuid() else ["unshare", "-m"]
            command = [*namespace, "sh", "-c", READ_ONLY, str(self.cache), *command]
        return subprocess.Popen(
            command,
            env={**known, **places, "NUMBA_CACHE_DIR": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _heard(self, process: subprocess.Popen[str]) -> tuple[str, list[str]]:
        said, log = process.communicate()
        return (f"it ended with {process.returncode}: {log[-300:]}" if process.returncode else said), log.splitlines()

    def _faults(self, processes: list[subprocess.Popen[str]], quiet: bool = False) -> list[str]:
        """Return what is wrong with processes, which may say what is announced, unless they are to be quiet."""
        faults = []
        for process in processes:
            said, log = self._heard(process)
            if said != self.expected:
                faults.append(f"it said {said}")
            if strange := [line for line in log if quiet or not line.startswith(ANNOUNCED)]:
                faults.append(f"it warned: {strange[:3]}")
        return faults

    def _found_again(self) -> list[str]:
        """Return what is wrong with the process after: it has a cache that is whole, and nothing to say."""
        process = self._begun()
        said, log = process.communicate()
        return [] if (said, log) == (self.expected, "") else [f"the next one said {said}{log[-300:]}"]


def cut_short(path: Path, generator: np.random.Generator) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(generator.integers(len(content)))])


def overwritten(path: Path, generator: np.random.Generator) -> None:
    path.write_bytes(generator.bytes(path.stat().st_size))


def bits_flipped(path: Path, generator: np.random.Generator) -> None:
    content = bytearray(path.read_bytes())
    for place in generator.integers(len(content), size=8):
        content[place] ^= 1 << int(generator.integers(8))
    path.write_bytes(content)


def of_another_version(path: Path, _: np.random.Generator) -> None:
    content = path.read_bytes()
    path.write_bytes(pickle.dumps("0.0") + content[len(pickle.dumps("0.0")) :])


def caches(seed: int) -> list[Record]:
    """Return the records of every state of a cache."""
    found = []
    with TemporaryDirectory(prefix="slabsvm-faults-") as base:
        caching = Caching(Path(base), np.random.default_rng(seed))
        ways: dict[str, Callable[[], list[str]]] = {"absent": caching.absent, "a file in its place": caching.a_file}
        for ending, words in (("nbi", "index"), ("nbc", "code")):
            for harm in (cut_short, overwritten, of_another_version):
                name = harm.__name__.replace("_", " ")
                ways[f"{words} {name}"] = lambda harm=harm, ending=ending: caching.corrupt(harm, ending)
        ways["read-only, empty"] = lambda: caching.read_only(False)
        ways["read-only, whole"] = lambda: caching.read_only(True)
        ways["writers killed while they compile"] = caching.cut_off
        ways[f"shared by {AT_ONCE} that begin at once"] = caching.shared
        for name, try_it in ways.items():
            caching.clear()
            found.append({"section": "cache", "what": name, "seed": seed, "faults": try_it()})
            print(found[-1], file=sys.stderr, flush=True)
    return found
