"""Models in files: `save` and `load`.

skops.io writes and reads them, and builds no object of a type that is not trusted. Here are the types that are trusted,
and how much memory a file may take: sizes are compared before anything is unpacked or allocated.
"""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
import sklearn

import slabsvm
from slabsvm.data.files import open_regular, replacing
from slabsvm.files.arrays import BYTES_BY_MEMBER, DAMAGED, METHODS, MOST_MEMBERS, Header, opened
from slabsvm.runtime.caller import escaped
from slabsvm.runtime.caller import load as load_extra

# The classes that models of this package are made of. Beside these, skops trusts scikit-learn's estimators, NumPy's
# arrays and functions of numbers, and Python's containers.
TRUSTED = (
    "numpy.dtype",
    "scipy.sparse._csr.csr_array",
    "sklearn.compose._column_transformer._RemainderColsList",  # of scikit-learn 1.6, a list
    "slabsvm.conformal.detector.ConformalDetector",
    "slabsvm.conformal.p_values.Ranking",
    "slabsvm.detectors.kernel_density.Density",
    "slabsvm.detectors.kernel_density.DensityModel",
    "slabsvm.detectors.kernel_density.KernelDensityDetector",
    "slabsvm.detectors.kernel_pca.KernelPCADetector",
    "slabsvm.detectors.kernel_pca.Subspace",
    "slabsvm.detectors.one_class_svm.OneClassSVM",
    "slabsvm.detectors.slab.OneClassSlabSVM",
    "slabsvm.detectors.svdd.SVDD",
    "slabsvm.ensemble.auto.AutoDetector",
    "slabsvm.ensemble.known.OutlierClassifier",
    "slabsvm.ensemble.known.Trees",
    "slabsvm.ensemble.nearest.Nearest",
    "slabsvm.ensemble.neighbours.NeighboursDetector",
    "slabsvm.ensemble.neighbours.NeighboursModel",
    "slabsvm.ensemble.ranks.NormalScores",
    "slabsvm.ensemble.ranks.Surprise",
    "slabsvm.ensemble.readings.Combination",
    "slabsvm.ensemble.readings.CombinedModel",
    "slabsvm.ensemble.readings.Known",
    "slabsvm.ensemble.readings.View",
    "slabsvm.ensemble.trimmed.TrimmedDetector",
    "slabsvm.fitted.explanation.Usual",
    "slabsvm.fitted.model.Support",
    "slabsvm.fitted.model.SupportVectorModel",
    "slabsvm.fitted.planes.SlabPlanes",
    "slabsvm.fitted.planes.TwoSided",
    "slabsvm.kernels.additive.Chi2",
    "slabsvm.kernels.additive.Hellinger",
    "slabsvm.kernels.additive.Intersection",
    "slabsvm.kernels.additive.Linear",
    "slabsvm.kernels.base.WeightVector",
    "slabsvm.kernels.expansion.Expansion",
    "slabsvm.kernels.rbf.RBF",
    "slabsvm.monitor.DriftMonitor",
    "slabsvm.openset.classifier.OpenSetClassifier",
    "slabsvm.openset.rules.ClassifierRule",
    "slabsvm.openset.rules.DetectorRule",
    "slabsvm.tables.columns.Categories",
    "slabsvm.tables.columns.Numbers",
    "slabsvm.tables.encoder.TableEncoder",
    "slabsvm.tables.plan.LeftOut",
    "slabsvm.tables.times.Times",
)
# Members of the archive: what the model is, by skops, and which versions wrote it.
SCHEMA, VERSIONS = "schema.json", "slabsvm.json"
# Bytes that a member may unpack to for each byte in the file, and that all members may unpack to together.
MOST_PER_BYTE, MOST_UNPACKED = 100, 2**32
# Bytes of the schema in a file of any size; a larger file may have as many as it has bytes. Parsed it takes 30 times as
# much memory at most.
SMALL_SCHEMA = 2**24
# What skops may read for an object, by its loader.
EXTENSIONS = {"NdArrayNode": ".npy", "SparseMatrixNode": ".npz", "BytesNode": ".bin", "BytearrayNode": ".bin"}
GENERATORS = ("RandomStateNode", "RandomGeneratorNode")
# NumPy's types of numbers, texts, times and records.
KINDS_OF_NUMPY = "biufcSUMmV"
# Bytes that are unpacked at a time.
PIECE = 2**20
# Letters of an error's text.
LONGEST = 500


class ModelFileError(ValueError):
    """A file that holds no model that can be read here, or a model that no file can hold; the text says why."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file of skops, whole or not at all.

    What is in the place of the file is replaced when all has been written to the disk. The file holds all that the
    model holds, training rows among it: support vectors, or all rows.

    Parameters
    ----------
    model : estimator
        Any of this package, fitted or not, and pipelines and other estimators of scikit-learn's.
    path : path
        By custom its name ends in ".skops".

    Raises
    ------
    ModelFileError
        The model holds what no file keeps: a function without a name, or a generator of random numbers.
    slabsvm.ExtraMissingError
        Without skops; the text says what to install.
    OSError
        The file cannot be written. What was there is there.
    """
    load_extra("A model file", "skops", "slabsvm[files]")
    import skops
    import skops.io

    _must(hasattr(model, "get_params"), f"model is a {_type_name(type(model))}. Give an estimator")
    packed = io.BytesIO()
    try:
        skops.io.dump(model, packed)
    except TypeError as error:
        raise ModelFileError(f"The model holds what no file keeps: {error}") from error
    with replacing(Path(path), lasting=True) as file, zipfile.ZipFile(file, "w") as archive:
        with zipfile.ZipFile(packed) as written:
            schema = json.loads(written.read(SCHEMA))
            _refuse_what_cannot_be_loaded(schema)
            for name in written.namelist():
                content = written.read(name)
                # skops indents the schema, which doubles its size.
                content = json.dumps(schema, separators=(",", ":")).encode() if name == SCHEMA else content
                archive.writestr(name, _not_compressed(content) if name.endswith(".npz") else content)
        versions = {"slabsvm": slabsvm.__version__, "scikit-learn": sklearn.__version__, "skops": skops.__version__}
        archive.writestr(VERSIONS, json.dumps({**versions, "numpy": np.__version__}))


def load(path: str | os.PathLike[str], *, trusted: Sequence[str | type] = ()) -> Any:
    """Return the model of a file, which answers as the one that was saved, to the last bit.

    Nothing that a file names is imported or called unless it is trusted: the classes of this package
    (`slabsvm.files.models.TRUSTED`), and what skops trusts, such as scikit-learn's estimators. Values are not checked:
    load a file from somebody else where a crash, or wrong answers, do no harm.

    Parameters
    ----------
    path : path
    trusted : sequence of str or type, default=()
        Further classes and functions that may be built and called, such as "sklearn.tree._tree.Tree" of forests.

    Raises
    ------
    ModelFileError
        The file is damaged, foreign, or of another version of slabsvm; it holds types that are not trusted, or would
        unpack to more than 100 times its size or 4 GiB. The text says what is wrong, and what to do.
    slabsvm.ExtraMissingError
        Without skops; the text says what to install.
    OSError
        There is no such file, it is not a regular one, or the system refuses it.
    """
    load_extra("A model file", "skops", "slabsvm[files]")
    try:
        with open_regular(Path(path)) as file:
            _examine(file)
            return _loaded(file, [one if isinstance(one, str) else _type_name(one) for one in trusted])
    except ModelFileError as error:
        # The text may repeat what is long, or means something to a terminal.
        text = escaped(str(error)[: LONGEST + 1])
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        raise ModelFileError(f"{os.fspath(path)} is not a model that can be read: {text}") from error


def _loaded(file: BinaryIO, trusted: list[str]) -> Any:
    """Return the model of a file whose sizes have been examined."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        model = skops.io.load(file, trusted=[*TRUSTED, *trusted])
    except UntrustedTypesFoundException as error:
        strange = sorted({*skops.io.get_untrusted_types(file=file)} - {*TRUSTED, *trusted})
        raise ModelFileError(
            f"it holds what is not trusted: {', '.join(strange)}. If you know who wrote the file, and that these do no "
            f"harm, load it in Python: slabsvm.files.load(path, trusted={strange})"
        ) from error
    except (MemoryError, OSError, Warning):
        raise
    # The schema may be anything, and skops fails at it in any way. The texts of other errors are for programmers.
    except Exception as error:
        why = f": {error}" if isinstance(error, ValueError | ImportError) else ""
        raise ModelFileError(f"its {SCHEMA} is damaged, or was not written by skops{why}") from error
    _must(hasattr(model, "get_params"), f"it holds a {_type_name(type(model))}, and no model")
    return model


def _examine(file: BinaryIO) -> None:
    """Raise ModelFileError for a file that is none of skops's, or takes more memory than one of its size may."""
    start = file.read(2)
    _must(start[:1] != b"\x80", "it is a pickle, and none is read here, since reading one may run anything")
    foreign = "it is not a model file. Give one that `slabsvm fit` or `slabsvm.files.save` wrote"
    _must(start == b"PK", foreign if start else "it is empty")
    size = file.seek(0, os.SEEK_END)
    try:
        with opened(file, BYTES_BY_MEMBER, MOST_MEMBERS) as archive:
            _must(SCHEMA in archive.namelist(), f"it holds no {SCHEMA}: it is an archive of another kind")
            members = _members(archive, size)
            claimed, most = members[SCHEMA].file_size, max(SMALL_SCHEMA, size)
            _must(claimed <= most, f"its {SCHEMA} has {claimed:,} bytes, where at most {most:,} are read")
            if VERSIONS in members:
                _refuse_other_version(json.loads(archive.read(VERSIONS)))
            schema = json.loads(archive.read(SCHEMA))
            _must(isinstance(schema, dict), f"its {SCHEMA} holds no object")
            _refuse_generators(schema)
            _refuse_repeats(schema, members)
    except ModelFileError:
        raise
    except (OSError, RecursionError, *DAMAGED) as error:
        # A damaged archive may ask to read before the file's beginning.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        why = "it leads out of the file" if isinstance(error, OSError) else str(error) or "it ends too early"
        raise ModelFileError(f"it is damaged, or was cut short: {why}") from error
    file.seek(0)


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive of this size, by their names; each unpacks to what it claims."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename
        _must(name not in members, f"it holds {name} twice")
        members[name] = info
        _must(info.compress_type in METHODS and not info.flag_bits & 1, f"{name} is encrypted, or packed in a rare way")
        most = MOST_PER_BYTE * info.compress_size
        _must(info.file_size <= most, f"{name} would unpack to more than {MOST_PER_BYTE} times its size in the file")
    packed = sum(info.compress_size for info in members.values())
    _must(packed <= size, "its members claim more bytes than the file has")
    total = sum(info.file_size for info in members.values())
    _must(total <= MOST_UNPACKED, f"it would unpack to {total:,} bytes, where at most {MOST_UNPACKED:,} are read")
    for name, info in members.items():
        _must(
            _unpacked(archive, info) == info.file_size, f"{name} does not have the {info.file_size:,} bytes it claims"
        )
        if name.endswith(".npy"):
            with archive.open(info) as member:
                header = Header.of(member, name, KINDS_OF_NUMPY)
            what = f"{name} claims the shape {header.shape} of {header.dtype}, and has {info.file_size:,} bytes"
            _must(header.start + header.nbytes == info.file_size, what)
        elif name.endswith(".npz"):
            content = io.BytesIO(archive.read(info))
            with opened(content, BYTES_BY_MEMBER, MOST_MEMBERS) as inner:
                _must(
                    all(one.endswith(".npy") for one in _members(inner, info.file_size)),
                    f"{name} holds what is no array",
                )
            content.seek(0)
            matrix = sp.load_npz(content)
            # SciPy's products read and write wherever indices lead.
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)
    return members


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Return how many bytes a member unpacks to, of which zipfile would drop what is more than it claims; at most one
    more than that.
    """
    if info.compress_type == zipfile.ZIP_STORED:
        return info.compress_size
    longer = copy(info)
    longer.file_size += 1
    with archive.open(longer) as member:
        return sum(map(len, iter(lambda: member.read(PIECE), b"")))


def _nodes(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the objects of a schema, each with the name of the attribute that it is, or is in."""
    waiting: list[tuple[str, Any]] = [("model", document)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            if "__loader__" in value:
                plain = isinstance(value["__loader__"], str) and isinstance(value.get("__id__", 0), int)
                _must(plain, f"its {SCHEMA} is damaged, or was not written by skops")
                yield name, value
            waiting += [(name if key in ("content", "key_types") else key, one) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [(name, one) for one in value]


def _refuse_repeats(schema: dict[str, Any], members: dict[str, zipfile.ZipInfo]) -> None:
    """Refuse a schema whose objects together read more bytes than may be unpacked: many may name one member."""
    total, seen = 0, set()
    for name, node in _nodes(schema):
        if (file := node.get("file")) is None:
            continue
        extension = EXTENSIONS.get(node["__loader__"], "")
        known = isinstance(file, str) and file in members and file.endswith(extension or "/")
        _must(known, f"{name} is read from {file!r}, which is no member of its kind")
        identity = node.get("__id__")
        # What has the number of another object is that object.
        if not identity or identity not in seen:
            total += members[file].file_size
        seen.add(identity)
    _must(total <= MOST_UNPACKED, f"its objects take {total:,} bytes, where at most {MOST_UNPACKED:,} are read")


def _refuse_generators(schema: dict[str, Any]) -> None:
    for name, node in _nodes(schema):
        _must(
            node["__loader__"] not in GENERATORS, f"{name} is a generator of random numbers. Set a number in its place"
        )


def _refuse_what_cannot_be_loaded(schema: dict[str, Any]) -> None:
    """Raise ModelFileError for a model that no `load` could read."""
    _refuse_generators(schema)
    for name, node in _nodes(schema):
        nameless = node["__loader__"] == "FunctionNode" and "<" in str(node["__class__"])
        _must(not nameless, f"{name} is a function without a name. Define it in a module, with def")


def _refuse_other_version(versions: Any) -> None:
    """Raise ModelFileError for a model whose attributes may be others than in this version."""
    written = str(versions.get("slabsvm")) if isinstance(versions, dict) else "unknown"
    alike = written.split(".")[:2] == slabsvm.__version__.split(".")[:2]
    text = f"slabsvm {written} wrote it, and this is {slabsvm.__version__}. Load it with that, or fit the model again"
    _must(alike, text)


def _not_compressed(content: bytes) -> bytes:
    """Return a sparse matrix as SciPy saves it without compression: equal values would unpack to too many bytes."""
    plain = io.BytesIO()
    sp.save_npz(plain, sp.load_npz(io.BytesIO(content)), compressed=False)
    return plain.getvalue()


def _must(holds: object, text: str) -> None:
    if not holds:
        raise ModelFileError(text)


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
