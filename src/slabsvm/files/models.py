"""Models in files: `save` and `load`.

skops.io writes and reads them, and builds no object of a type that is not trusted. Here are the types that are trusted,
and how much memory a file may take: sizes are compared before anything is kept or allocated.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.base import clone

import slabsvm
from slabsvm.data.files import open_regular, replacing
from slabsvm.files.arrays import PACKINGS, Header, naming_damage, opened
from slabsvm.runtime.caller import escaped
from slabsvm.runtime.caller import load as load_extra

# The classes that models of this package are made of. Beside these, skops trusts scikit-learn's estimators, NumPy's
# arrays and functions of numbers, and Python's containers.
TRUSTED = (
    "numpy.dtype",
    "scipy.sparse._csr.csr_array",
    "sklearn.compose._column_transformer._RemainderColsList",  # of scikit-learn 1.6, a list
    "sklearn.model_selection._split.KFold",  # of a fitted search
    "slabsvm.conformal.detector.ConformalDetector",
    "slabsvm.conformal.p_values.Ranking",
    "slabsvm.detectors.kernel_density.Density",
    "slabsvm.detectors.kernel_density.DensityModel",
    "slabsvm.detectors.kernel_density.KernelDensityDetector",
    "slabsvm.detectors.kernel_pca.KernelPCADetector",
    "slabsvm.detectors.kernel_pca.Subspace",
    "slabsvm.detectors.label_free.label_free_score",
    "slabsvm.detectors.one_class_svm.OneClassSVM",
    "slabsvm.detectors.slab.OneClassSlabSVM",
    "slabsvm.detectors.svdd.SVDD",
    "slabsvm.ensemble.auto.AutoDetector",
    "slabsvm.ensemble.known.OutlierClassifier",
    "slabsvm.ensemble.known.Trees",
    "slabsvm.ensemble.neighbours.Nearest",
    "slabsvm.ensemble.neighbours.NeighboursDetector",
    "slabsvm.ensemble.neighbours.NeighboursModel",
    "slabsvm.ensemble.ranks.NormalScores",
    "slabsvm.ensemble.ranks.Surprise",
    "slabsvm.ensemble.readings.Combination",
    "slabsvm.ensemble.readings.CombinedModel",
    "slabsvm.ensemble.readings.Known",
    "slabsvm.ensemble.readings.View",
    "slabsvm.ensemble.trimmed.TrimmedDetector",
    "slabsvm.fitted.explanation.TypicalParts",
    "slabsvm.fitted.model.Support",
    "slabsvm.fitted.model.SupportVectorModel",
    "slabsvm.fitted.planes.SlabPlanes",
    "slabsvm.fitted.planes.TwoSided",
    "slabsvm.kernels.named.Chi2",
    "slabsvm.kernels.named.Hellinger",
    "slabsvm.kernels.named.Intersection",
    "slabsvm.kernels.named.Linear",
    "slabsvm.kernels.base.WeightVector",
    "slabsvm.kernels.expansion.Expansion",
    "slabsvm.kernels.named.RBF",
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
# Bytes of the schema in a file of any size; a larger file may have as many as it has bytes.
SMALL_SCHEMA = 2**24
# Objects in a file of any size; a larger one may have one more for each 50 bytes. In memory an object takes some 3 kB.
MOST_OBJECTS = 100_000


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
    except (TypeError, RecursionError) as error:
        raise ModelFileError(f"The model holds what no file keeps: {error}") from error
    with replacing(Path(path), lasting=True) as file, zipfile.ZipFile(file, "w") as archive:
        with zipfile.ZipFile(packed) as written:
            schema = json.loads(written.read(SCHEMA))
            _refuse_what_cannot_be_loaded(schema)
            _refuse_what_would_change(model, packed)
            for name in written.namelist():
                content = written.read(name)
                # skops indents the schema, which doubles its size.
                content = json.dumps(schema, separators=(",", ":")).encode() if name == SCHEMA else content
                archive.writestr(name, _not_compressed(content) if name.endswith(".npz") else content)
        versions = {"slabsvm": slabsvm.__version__, "scikit-learn": sklearn.__version__, "skops": skops.__version__}
        archive.writestr(VERSIONS, json.dumps({**versions, "numpy": np.__version__}))
        archive.close()
        _examine(file)


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
        # The text may repeat what is long, or means something to a terminal: 800 letters of it are shown.
        text = escaped(str(error)[:801])
        text = text if len(text) <= 800 else f"{text[:800]}..."
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
            "it holds what is not trusted. If you know who wrote the file, and that these do no harm, load it in "
            f"Python: slabsvm.files.load(path, trusted={strange})"
        ) from error
    except MemoryError as error:
        raise ModelFileError("there is not enough memory for what it holds") from error
    except (OSError, Warning):
        raise
    # The schema may be anything, and skops fails at it in any way. The texts of other errors are for programmers.
    except Exception as error:
        why = f": {error}" if isinstance(error, ValueError | ImportError) else ""
        raise ModelFileError(f"its {SCHEMA} is damaged, or was not written by skops{why}") from error
    kind = "a class" if isinstance(model, type) else f"a {_type_name(type(model))}"
    _must(hasattr(model, "get_params") and not isinstance(model, type), f"it holds {kind}, and no model")
    return model


def _examine(file: BinaryIO) -> None:
    """Raise ModelFileError for a file that is none of skops's, or takes more memory than one of its size may."""
    file.seek(0)
    start = file.read(2)
    _must(start[:1] != b"\x80", "it is a pickle, and none is read here, since reading one may run anything")
    foreign = "it is not a model file. Give one that `slabsvm fit` or `slabsvm.files.save` wrote"
    _must(start == b"PK", foreign if start else "it is empty")
    size = file.seek(0, os.SEEK_END)
    with naming_damage(ModelFileError, "it is damaged"), opened(file) as archive:
        _must(SCHEMA in archive.namelist(), f"it holds no {SCHEMA}: it is an archive of another kind")
        members = _members(archive, size)
        claimed, most = members[SCHEMA].file_size, max(SMALL_SCHEMA, size)
        _must(claimed <= most, f"its {SCHEMA} has {claimed:,} bytes, where at most {most:,} are read")
        if VERSIONS in members:
            _must(members[VERSIONS].file_size <= 10_000, f"its {VERSIONS} is too long")
            _refuse_other_version(json.loads(archive.read(VERSIONS)))
        schema = json.loads(archive.read(SCHEMA))
        _must(isinstance(schema, dict), f"its {SCHEMA} holds no object")
        _refuse_strange(schema)
        _refuse_repeats(schema, members, size)
    file.seek(0)


def _members(archive: zipfile.ZipFile, size: int, *, inner: bool = False) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive of this size, by their names; each unpacks to what it claims. An inner one has
    arrays alone.
    """
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename
        _must(name not in members, f"it holds {name} twice")
        _must(name.endswith(".npy") or not inner, f"{name} is no array, and in an archive of arrays")
        members[name] = info
        _must(
            info.compress_type in PACKINGS and not info.flag_bits & 1, f"{name} is encrypted, or packed in a rare way"
        )
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
                header = Header.of(member, name, "biufcSUMmV")  # numbers, texts, times and records
            what = f"{name} claims the shape {header.shape} of {header.dtype}, and has {info.file_size:,} bytes"
            fits = header.start + header.nbytes == info.file_size
            _must(fits and (header.dtype.itemsize or math.prod(header.shape) <= 1), what)
        elif name.endswith(".npz"):
            total += _unpacked_matrix(archive.read(info), name, info.compress_size)
            _must(total <= MOST_UNPACKED, f"it would unpack to more than {MOST_UNPACKED:,} bytes")
    return members


def _unpacked_matrix(content: bytes, name: str, size: int) -> int:
    """Return how many bytes the arrays of a sparse matrix unpack to, which has this many bytes in the file."""
    with opened(io.BytesIO(content)) as inner:
        total = sum(info.file_size for info in _members(inner, len(content), inner=True).values())
    _must(total <= MOST_PER_BYTE * size, f"{name} would unpack to more than {MOST_PER_BYTE} times its size in the file")
    try:
        matrix = sp.load_npz(io.BytesIO(content))
        # SciPy's products read and write wherever indices lead.
        matrix.check_format(full_check=True)
        fine = matrix.format == "csr" and matrix.data.dtype.kind in "biuf" and matrix.indices.dtype.kind == "i"
    # What is in the archive may be any arrays, and SciPy fails at them in any way.
    except Exception as error:
        raise ModelFileError(f"{name} is no sparse matrix of rows: {type(error).__name__}") from error
    _must(fine, f"{name} is no sparse matrix of rows and numbers")
    return total


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Return how many bytes a member unpacks to, of which zipfile would drop what is more than it claims; at most one
    more than that.
    """
    if info.compress_type == zipfile.ZIP_STORED:
        return info.compress_size
    longer = copy(info)
    longer.file_size += 1
    with archive.open(longer) as member:
        return sum(map(len, iter(lambda: member.read(2**20), b"")))


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


def _refuse_repeats(schema: dict[str, Any], members: dict[str, zipfile.ZipInfo], size: int) -> None:
    """Refuse a schema whose objects together are more, or read more bytes, than they seem: many may name one member,
    and what has the number of another object is that object, and has to be as large.
    """
    known: dict[int, tuple[int, int]] = {}
    # What skops may read for an object, by its loader.
    extensions = {"NdArrayNode": ".npy", "SparseMatrixNode": ".npz", "BytesNode": ".bin"}

    def size_of(value: Any) -> tuple[int, int]:
        """Return how many objects there are in a value, and how many bytes they read."""
        inner = list(
            map(size_of, value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        )
        count, total = sum(one for one, _ in inner), sum(one for _, one in inner)
        if not isinstance(value, dict) or "__loader__" not in value:
            _must(not isinstance(value, dict) or "__id__" not in value, f"its {SCHEMA} is damaged")
            return count, total
        if (file := value.get("file")) is not None:
            fits = isinstance(file, str) and file.endswith(extensions.get(value["__loader__"], "/")) and file in members
            _must(fits, f"an object is read from {file!r}, which is no member of its kind")
            total += members[file].file_size
            is_array = value["__loader__"] != "NdArrayNode" or value.get("__class__") == "ndarray"
            # NumPy's header and a number have less than 1,024 bytes.
            _must(is_array or members[file].file_size <= 1024, f"{file} is no number by itself")
        found = count + 1, total
        if identity := value.get("__id__"):
            _must(known.setdefault(identity, found) == found, "objects have one number, and are not alike")
        return found

    count, total = size_of(schema)
    most = MOST_OBJECTS + size // 50
    _must(count <= most, f"it holds {count:,} objects, where one of its size has at most {most:,}")
    _must(total <= MOST_UNPACKED, f"its objects take {total:,} bytes, where at most {MOST_UNPACKED:,} are read")


def _refuse_strange(schema: dict[str, Any]) -> None:
    """Raise ModelFileError for objects that no model has, or that another loader is to build than the one of their
    kind.
    """
    # The one loader of the names that begin so: skops itself lets any loader build, or call, what is trusted.
    loaders = {"slabsvm.": "ObjectNode", "scipy.sparse.": "SparseMatrixNode", "numpy.dtype": "DTypeNode"}
    for name, node in _nodes(schema):
        loader, kind = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
        is_random = loader in ("RandomStateNode", "RandomGeneratorNode")
        _must(not is_random, f"{name} is a generator of random numbers. Set a number in its place")
        # No model needs these: they take many times their bytes, or lead back to other objects.
        unused = loader in ("BytearrayNode", "CachedNode") or kind == "numpy.void"
        _must(not unused, f"{name} is a {kind}, which no model has")
        is_scorer = kind == "slabsvm.detectors.label_free.label_free_score" and loader == "FunctionNode"
        fits = is_scorer or all(loader == its for start, its in loaders.items() if kind.startswith(start))
        _must(fits, f"its {SCHEMA} is damaged, or was made by hand: {name} is a {kind} by a {loader}")
        is_version = re.fullmatch(r'"[\w.+-]{1,40}"', str(node.get("content")), re.ASCII)
        _must(name != "_sklearn_version" or is_version, f"its {SCHEMA} is damaged: {name} is no version")


def _refuse_what_cannot_be_loaded(schema: dict[str, Any]) -> None:
    """Raise ModelFileError for a model that no `load` could read."""
    _refuse_strange(schema)
    for name, node in _nodes(schema):
        nameless = node["__loader__"] == "FunctionNode" and "<" in str(node["__class__"])
        _must(not nameless, f"{name} is a function without a name. Define it in a module, with def")
        if node["__loader__"] in ("DictNode", "DefaultDictNode"):
            kinds = [f"{one.get('__module__')}.{one.get('__class__')}" for one in node["key_types"]["content"]]
            # Keys of a mapping become texts, of which these come back.
            odd = next((kind for kind in kinds if kind not in ("builtins.str", "builtins.int", "builtins.float")), None)
            _must(odd is None, f"{name} is a mapping with keys of {odd}. Files keep texts and numbers as keys")
            _must(len(kinds) == len(node["content"]), f"{name} is a mapping with two keys that are written alike")


def _refuse_what_would_change(model: Any, packed: BinaryIO) -> None:
    """Raise ModelFileError for a model that skops would not give back, or with other parameters."""
    import skops.io

    try:
        packed.seek(0)
        with warnings.catch_warnings(action="ignore"):
            again = skops.io.load(packed, trusted=skops.io.get_untrusted_types(file=packed))
    except Exception as error:
        raise ModelFileError(f"The model holds what no file keeps: {type(error).__name__}: {error}") from error
    # A copy has no progress function, nor has a file; what is called by its address in memory is another one.
    texts = [re.sub(r" at 0x[0-9a-f]+", "", repr(one)) for one in (again, deepcopy(clone(model)))]
    _must(texts[0] == texts[1], "A parameter of the model would be another in a file. Set it to a plain value")


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
