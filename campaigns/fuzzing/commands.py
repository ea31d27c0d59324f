"""Command lines of `slabsvm`, its own subcommands and the reproduction's, carried out on tiny files.

An input is a word a line. A command ends with one of its exit statuses and a text that fits on a screen, leaves nothing
half-written, and writes no file but those that its words name. What would compute for long whatever its words are
(`demo`, `reproduce toy`) is parsed and not carried out.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any
from unittest import mock

from fuzzing.guard import SCREEN

MODULES = (
    *("slabsvm.command.options", "slabsvm.command.check", "slabsvm.command.fit"),
    *("slabsvm.command.score", "slabsvm.command.terminal"),
)
STATUSES = (0, 1, 2, 3)
LONG = ("demo", "toy")
LINES = (
    "check good.csv --drop c --json",
    "fit good.csv -o new.skops",
    "fit good.csv --outliers good.tsv -o new.skops --drop c --json",
    "fit good.csv -o new.skops --detector slab --id c --json",
    "fit good.csv -o new.skops --detector kernel-density --drop c,b --weight a",
    "fit good.tsv -o new.skops --detector one-class-svm --recall .5 --categories a --missing refuse",
    "fit - -o new.skops --detector svdd --separator ; --decimal , --encoding latin-1 --no-header",
    "fit table.npy -o new.skops --detector kernel-pca --seed 3",
    "fit table.npz -o new.skops --array x --format npz --detector slab",
    "score model.skops good.csv -o out.csv --alpha .1 --reasons 2 --fail-above .2 --id c",
    "score model.skops - --jobs 2",
    "score model.skops bad.csv -o out.csv --json",
    "inspect model.skops --json",
    "reproduce letter --data data --output made --calibration training --jobs 1 --no-figures --fresh",
    "reproduce voc --data data --output made --classes cat,dog --backgrounds 10 --objects 30 --seed 1 --no-figures",
    "reproduce voc --data data --year 2012 --image-set train --difficult --no-truncated --strict --output made",
    "reproduce paper --data data --output made --no-voc --no-figures",
    "reproduce planes --data data --output made --no-figures",
    "reproduce toy --output made",
    "demo --output made",
    "--help",
    "--version",
)
OTHERS = """
-1 0 1 nan inf 1e400 99999999999999999999 0.5 -- - -h = --= good.csv bad.csv empty.csv model.skops none.csv
folder folder/x.csv /dev/null none/x.csv good.csv.gz table.parquet table.svmlight ä a a,b b c csv tsv parquet
npy npz svmlight utf-16 idna auto calibrated leave-one-out new.skops
"""
STRANGE = ("", " ", "x" * 99, "\x1b[2J")
WORDS = tuple(sorted({word.encode() for word in (*" ".join((*LINES, OTHERS)).split(), *STRANGE)}))


def line_seeds(_: Path) -> list[bytes]:
    return ["\n".join(line.split()).encode() for line in LINES]


def _words(content: bytes) -> list[str]:
    # No argument of a process holds a zero.
    line = content.replace(b"\0", b"").decode("utf-8", "surrogateescape")
    return line.split("\n") if line else []


def _commands() -> Any:
    """Return the command with all its subcommands, of which those that would compute for long do nothing."""
    import click

    from slabsvm.command.group import slabsvm
    from slabsvm_reproduction.command import demo, reproduce

    def stubbed(command: Any) -> Any:
        found = copy(command)
        if isinstance(command, click.Group):
            found.commands = {name: stubbed(one) for name, one in command.commands.items()}
        elif command.name in LONG:
            found.callback = lambda **_: None
        return found

    own = (*slabsvm.commands.values(), demo, reproduce)
    root = click.Group("slabsvm", params=slabsvm.params, context_settings=slabsvm.context_settings)
    root.commands = {command.name: stubbed(command) for command in own}
    return root


def _carried_out(root: Any, words: list[str], given: bytes) -> None:
    """Give a command line, and see that it ends as one should."""
    said, errors = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors) for errors in ("strict", "backslashreplace")
    )
    streams = {"stdin": io.TextIOWrapper(io.BytesIO(given)), "stdout": said, "stderr": errors}
    with mock.patch.multiple(sys, **streams):
        try:
            root.main(words, prog_name="slabsvm")
            status: Any = 0
        except SystemExit as error:
            status = error.code
    errors.flush()
    text = errors.buffer.getvalue().decode()
    assert status in STATUSES, f"status {status!r}"
    if status:
        assert text.strip() or status > 2, "nothing is said of what is wrong"
        assert len(text) < 2 * SCREEN, f"an error of {len(text):,} letters"
        assert "Traceback" not in text, text


def whole(folder: Path) -> tuple[Callable[[bytes], object], tuple[type[BaseException], ...]]:
    """Prepare the commands, in a folder of tiny files."""
    os.chdir(folder)
    os.environ["SLABSVM_DATA"] = str(folder / "data")
    files = _files(folder)
    root = _commands()

    def read(content: bytes) -> None:
        words = _words(content)
        _restore(folder, files)
        _carried_out(root, words, files["good.csv"])
        named = " ".join(words)
        for path in folder.rglob("*"):
            name = path.relative_to(folder).as_posix()
            assert not name.endswith(".part"), f"{name} was left"
            assert name in files or path.is_dir() or name.split("/")[0] in named, f"{name} was written"

    return read, ()


def _restore(folder: Path, files: dict[str, bytes]) -> None:
    for path in folder.iterdir():
        if path.is_dir() and path.name not in ("data", "folder"):
            shutil.rmtree(path)
        elif path.is_file() and path.name not in files:
            path.unlink()
    for name, content in files.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _files(folder: Path) -> dict[str, bytes]:
    import gzip

    import numpy as np
    from sklearn.pipeline import make_pipeline

    from slabsvm import AutoDetector, OneClassSVM, TableEncoder
    from slabsvm.files import save
    from slabsvm.files.tables import Reading, whole

    rows = np.random.default_rng(0).gamma(2.0, size=(30, 2)).round(2)
    good = "a,b,c\n" + "".join(f"{one},{other},n{number}\n" for number, (one, other) in enumerate(rows))
    (folder / "good.csv").write_text(good)
    table = whole(folder / "good.csv", Reading())[["a", "b"]]
    # What `fit` imports to learn by default, before anybody listens.
    make_pipeline(TableEncoder(), AutoDetector()).fit(table)
    model = make_pipeline(TableEncoder(), OneClassSVM()).fit(table)
    save(model, folder / "model.skops")
    np.save(folder / "table.npy", rows)
    np.savez(folder / "table.npz", x=rows)
    made = {name: (folder / name).read_bytes() for name in ("model.skops", "table.npy", "table.npz")}
    return made | {
        "good.csv": good.encode(),
        "good.csv.gz": gzip.compress(good.encode(), mtime=0),
        "good.tsv": good.replace(",", "\t").encode(),
        "bad.csv": b'a,b\n1,2\n3\n"x,4\n',
        "empty.csv": b"",
        "table.svmlight": b"1 1:1 2:2\n" * 12,
        "folder/kept.txt": b"",
        "data/letter/letter-recognition.data": b"T,2,8,3\n",
        "data/Annotations/a.xml": b"<annotation><filename>a.png</filename></annotation>",
        "data/JPEGImages/none.txt": b"",
    }
