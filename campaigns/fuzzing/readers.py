"""The readers of slabsvm, and that of image annotations, each as a function of bytes.

A target is prepared in a folder of its own, where its inputs become files. Modules are imported while a target is
prepared and no earlier, so that whoever prepares it can instrument them first.
"""

from __future__ import annotations

import gzip
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "tests"))
import damage
from fuzzing import commands, models

Read = Callable[[bytes], object]


@dataclass(frozen=True)
class Reader:
    """A target, and the modules whose lines it is to reach.

    `prepare` returns of a folder the function of an input, and the errors that are its clear answers to bad inputs;
    `seeds` good inputs. `words` mean something to it. `change` makes another input of one, of a most length and by a
    seed; None changes bytes blindly. The longest input has so many bytes.
    """

    name: str
    modules: tuple[str, ...]
    prepare: Callable[[Path], tuple[Read, tuple[type[BaseException], ...]]]
    seeds: Callable[[Path], Sequence[bytes]]
    words: tuple[bytes, ...] = ()
    change: Callable[[bytes, int, int], bytes] | None = None
    longest: int = 2048


def drawn(content: bytes, *choices: Sequence[Any]) -> tuple[list[Any], bytes]:
    """Return one of each sequence, by a first byte for each, and the rest."""
    padded = content[: len(choices)].ljust(len(choices), b"\0")
    return [some[byte % len(some)] for some, byte in zip(choices, padded, strict=True)], content[len(choices) :]


# Texts of separated values

TEXT_ROWS = (
    b"a,b,c\n1,2.5,x\n3,4.5,y\n-1e3,,z\n",
    b"a;b\n1,5;2\n3,25;4\n",
    b'a\tb\n1\t"x\ty"\n2\t"""q"""\n',
    b"1,2\n3,4\n",
    b'name,n\n"line\none",1\nNA,2\n,3\n',
    b"\xef\xbb\xbfd,flag\n2024-01-02,True\n2024-01-03,False\n",
    b"Parts of May\n\nid;money;zip\na;1.094,17 \x80;01067\nid;money;zip\nb;(5,00) \x80;50667\nTotal;;\n",
    b"a,b,a\n$1.50,4 %,1:30:05\n-$3,5 %,30:00:00\n",
    b"t,ts\n13/01/2025,1735689600\n2025-01-14T10:00:00+02:00,1735776000\n",
)
SEPARATORS = (None, ";", "\t", " ", "|", "a", "")
ENCODINGS = (None, "utf-8", "latin-1", "utf-16", "cp1252", "utf-32", "utf-7", "idna", "no such", "base64", "big5")
TEXT_WORDS = (b'"', b'""', b"\r\n", b"\n", b"\r", b"\0", b"NA", b"1e999", b"-inf", b"\xef\xbb\xbf", b"\xff\xfe", b"nan")


def _records(_: Path) -> tuple[Read, tuple[type[BaseException], ...]]:
    import io

    from slabsvm.files.records import Records
    from slabsvm.tables.cells import TableError

    def read(content: bytes) -> None:
        (separator, encoding, header), text = drawn(content, (",", ";", "\t", "a"), ENCODINGS, (True, False))
        records = Records(io.BytesIO(text), separator=separator, encoding=encoding, header=header, say=lambda _: None)
        blocks = list(records)
        records.examine(blocks)

    return read, (TableError,)


def _texts(folder: Path) -> tuple[Read, tuple[type[BaseException], ...]]:
    from slabsvm.files.tables import Reading, pieces, whole
    from slabsvm.tables import TableEncoder, TableError

    names_of_files = ("table.csv", "table.csv", "table.csv.gz")

    def read(content: bytes) -> None:
        (separator, encoding, decimal, header, texts, name), text = drawn(
            content, SEPARATORS, ENCODINGS, (".", ",", "x", ""), (True, False), ((), ("a",), ("a", "b")), names_of_files
        )
        how = Reading(
            separator=separator, encoding=encoding, decimal=decimal, header=header, texts=texts[:1], ids=texts[1:]
        )
        file = folder / name
        file.write_bytes(text)
        table = whole(file, how)
        assert sum(map(len, pieces(file, how))) == len(table), "read as a whole there are other rows than in pieces"
        TableEncoder(id_column="b" if "b" in texts else None).fit_transform(table)

    return read, (TableError,)


def _text_seeds(choices: int) -> Callable[[Path], list[bytes]]:
    """Return good texts, one of them separated by semicolons and one compressed, where the last choice says so."""
    more = [
        b"\1" + bytes(choices - 1) + TEXT_ROWS[1],
        bytes(choices - 1) + b"\2" + gzip.compress(TEXT_ROWS[0], mtime=0),
    ]
    return lambda _: [bytes(choices) + text for text in TEXT_ROWS] + more


JSON_LINES = [b'{"a": 1, "b": "x"}\n{"a": 2.5, "b": null}\n', b'{"a": [1], "b": {"c": true}}\n{"a": 1e999}\n']

# Arrays and Parquet

WIDEST = 1000


def _table_file(name: str, **how: Any) -> Callable[[Path], tuple[Read, tuple[type[BaseException], ...]]]:
    def prepare(folder: Path) -> tuple[Read, tuple[type[BaseException], ...]]:
        from slabsvm.files.tables import Reading, whole
        from slabsvm.tables import TableEncoder, TableError

        file = folder / name

        def read(content: bytes) -> None:
            file.write_bytes(content)
            table = whole(file, Reading(**how))
            # Each of 100,000 columns takes its time, which is not the reader's.
            if table.shape[1] <= WIDEST:
                TableEncoder().fit_transform(table)

        return read, (TableError,)

    return prepare


def _written(file: Path, save: Callable[..., object], *what: Any, **how: Any) -> bytes:
    save(file, *what, **how)
    return file.read_bytes()


def _npy_seeds(folder: Path) -> list[bytes]:
    arrays = [np.arange(6).reshape(3, 2), np.linspace(0, 1, 8).reshape(4, 2).T, np.ones((2, 2), "f4"), np.eye(3) > 0]
    return [_written(folder / "seed.npy", np.save, array) for array in arrays]


def _npz_seeds(folder: Path) -> list[bytes]:
    array, file = np.arange(6.0).reshape(3, 2), folder / "seed.npz"
    ways = product((np.savez, np.savez_compressed), ({"x": array}, {"x": array, "y": array}))
    return [_written(file, save, **arrays) for save, arrays in ways]


def _parquet_seeds(folder: Path) -> list[bytes]:
    import pandas as pd

    frames = [
        pd.DataFrame({"a": [1.5, 2.5, None], "b": ["x", "y", None]}),
        pd.DataFrame({"c": pd.Categorical(["u", "v", "u"]), "d": [True, False, True], "e": [1, 2, 3]}),
        pd.DataFrame({"t": pd.to_datetime(["2024-01-01", "2024-02-01"])}, index=["p", "q"]),
    ]
    ways = product(frames, (None, "snappy"))
    return [_written(folder / "seed.parquet", frame.to_parquet, compression=how) for frame, how in ways]


SVMLIGHT = (
    b"1 1:2 3:4.5 # a comment\n-1 2:1e-3\n0 qid:3 1:1\n",
    b"# head\n1 1:1\n\n1 5:2\n",
    b"1,2 1:0.5\n",
)

# Annotations of VOC

OBJECT = (
    "<object><name>{}</name><difficult>0</difficult><truncated>1</truncated>"
    "<bndbox><xmin>{}</xmin><ymin>2</ymin><xmax>{}</xmax><ymax>7.6</ymax></bndbox></object>"
)
ANNOTATION = "<annotation><folder>VOC</folder><filename>a.png</filename>{}<size><width>8</width>{}</size></annotation>"
VOC_WORDS = (
    *(b"<!DOCTYPE a [<!ENTITY e 'eeee'>]>", b"&e;", b"&#x0;", b"<![CDATA[", b"]]>", b"<?xml version='1.0' encoding='"),
    *(b"utf-16", b"idna", b"<object>", b"</object>", b"<bndbox>", b"<part>", b"nan", b"1e999", b"../", b"a.png", b"-0"),
)


def _annotations(folder: Path) -> tuple[Read, tuple[type[BaseException], ...]]:
    from PIL import Image

    from slabsvm_reproduction.letter.data import DataError
    from slabsvm_reproduction.voc.annotated import read_annotated
    from slabsvm_reproduction.voc.layout import listed_names

    Image.new("RGB", (8, 8)).save(folder / "a.png")
    file = folder / "a.xml"

    def read(content: bytes) -> None:
        file.write_bytes(content)
        reading = read_annotated(file, folder, ())
        assert reading.annotated is not None or reading.problems
        for problem in reading.problems:
            assert str(problem).isprintable()
            assert len(str(problem)) < 2000, "a problem that fills a screen"
        if b"<" not in content:
            listed_names(file)

    return read, (DataError,)


def _voc_seeds(_: Path) -> list[bytes]:
    size = "<height>8</height><depth>3</depth>"
    texts = [ANNOTATION.format(OBJECT.format(*values), size) for values in (("cat", 1, 4), ("dog", 4, 1), ("", 0, 99))]
    return [
        text.encode() for text in [*texts, "<?xml version='1.0' encoding='latin-1'?>" + texts[0], "cat 1\ndog -1\n"]
    ]


# Changes that keep what a blind one would break at once: check sums, lengths, words

KEEPING = (damage.header, damage.values, damage.values, *(damage.schema,) * 4)
LEAST_FOOTER = 12


def blindly(content: bytes, most: int) -> bytes:
    """Return another input, as libFuzzer changes it."""
    import atheris

    return bytes(atheris.Mutate(content, most))


def changed_model(content: bytes, most: int, seed: int) -> bytes:
    """Change a model file: bytes, the text of its schema, or its parts with the check sums put right."""
    rng = random.Random(seed)
    chance = rng.random()
    if chance < 0.1:
        return blindly(content, most)
    changed = b""
    # What is no archive, or one without such parts, is changed blindly; zipfile warns of doubled names.
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if chance < 0.3:
            members = damage.read(content)
            members[damage.SCHEMA] = blindly(members[damage.SCHEMA], most // 2)
            changed = damage.written(members)
        else:
            changed = rng.choice(KEEPING)(content, np.random.default_rng(seed))
    return changed if 0 < len(changed) <= most else blindly(content, most)


def changed_parquet(content: bytes, most: int, seed: int) -> bytes:
    """Change a Parquet file: its footer, with the length put right, or any byte."""
    if len(content) < LEAST_FOOTER or seed % 3 == 0:
        return blindly(content, most)
    length = int.from_bytes(content[-8:-4], "little")
    if length > len(content) - 8:
        return blindly(content, most)
    before, footer = content[: -8 - length], content[-8 - length : -8]
    footer = blindly(footer, max(1, most - len(before) - 8))
    return before + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def changed_command(content: bytes, most: int, seed: int) -> bytes:
    """Change lines of words: one is added, removed, moved, exchanged for a known one or changed itself."""
    rng = random.Random(seed)
    line = content.split(b"\n") if content else []
    for _ in range(rng.randint(1, 3)):
        place = rng.randint(0, len(line))
        kind = rng.randrange(8)
        if kind < 3 or place == len(line):
            line.insert(place, rng.choice(commands.WORDS))
        elif kind < 5:
            line[place] = rng.choice(commands.WORDS)
        elif kind == 5:
            del line[place]
        elif kind == 6:
            line.insert(rng.randrange(len(line)), line.pop(place))
        else:
            line[place] = blindly(line[place], 40).replace(b"\n", b"")
    return b"\n".join(line)[:most]


READERS: tuple[Reader, ...] = (
    Reader("annotations", ("slabsvm_reproduction.voc.annotation",), _annotations, _voc_seeds, VOC_WORDS),
    Reader("records", ("slabsvm.files.records",), _records, _text_seeds(3), TEXT_WORDS),
    Reader("texts", ("slabsvm.files.tables", "slabsvm.tables.encoder"), _texts, _text_seeds(6), TEXT_WORDS, None, 1024),
    Reader(
        "svmlight",
        ("slabsvm.files.tables",),
        _table_file("table.svmlight"),
        lambda _: SVMLIGHT,
        (b"qid:", b":", b"#", b"1:1", b"99999999999", b"100000:1", b"nan", b"-1:"),
    ),
    Reader(
        "npy",
        ("slabsvm.files.arrays",),
        _table_file("table.npy"),
        _npy_seeds,
        (b"'descr'", b"'|O'", b"'<f8'", b"(1,)", b"((((", b"----", b"1e999", b"None", b"True", b"'fortran_order': "),
    ),
    Reader(
        "npz",
        ("slabsvm.files.arrays",),
        _table_file("table.npz"),
        _npz_seeds,
        (b"PK\1\2", b"PK\5\6", b".npy"),
    ),
    Reader(
        "parquet",
        ("slabsvm.files.tables",),
        _table_file("table.parquet"),
        _parquet_seeds,
        (b"PAR1", b"pandas", b"ARROW:schema", b"metadata"),
        changed_parquet,
        8192,
    ),
    Reader(
        "jsonl", ("slabsvm.files.tables",), _table_file("table.jsonl"), lambda _: JSON_LINES, (b'"a":', b"null", b"[]")
    ),
    Reader("models", models.MODULES, models.prepare, models.seeds, (), changed_model, 2**18),
    Reader("commands", commands.MODULES, commands.whole, commands.line_seeds, (), changed_command, 400),
)
