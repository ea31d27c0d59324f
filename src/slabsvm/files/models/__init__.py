"""Models in files, without pickle: `save` and `load`. docs/reference/model-files.md states the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import sklearn

import slabsvm
from slabsvm.data.files import open_regular, replacing
from slabsvm.files.models.archive import Incoming, ModelFileError, Outgoing, must
from slabsvm.files.models.classes import OWN
from slabsvm.files.models.estimators import CLASSES, estimator
from slabsvm.files.models.kinds import At
from slabsvm.files.models.steps import STEPS
from slabsvm.runtime.caller import escaped

FORMAT = "slabsvm model"
# A file of another layout, or with other parts of a class, is of another schema, and is refused.
SCHEMA = 2
# Letters of an error's text.
LONGEST = 500
# A class is added by an `Entry`, in one of these tables.
CLASSES.update(OWN | STEPS)


def save(model: Any, path: str | os.PathLike[str], *, training: bool = True) -> None:
    """Write a model to a file, whole or not at all.

    Equal models make equal bytes. What is in the place of the file is replaced when all has been written to the disk.

    Parameters
    ----------
    model : estimator
        A detector of this package, fitted or not; `ConformalDetector` and `OpenSetClassifier`; pipelines of these with
        the steps that docs/reference/model-files.md lists; a `DriftMonitor`, with all that it knows of its stream.
    path : path
    training : bool, default=True
        Whether to keep what prediction does not need: leave-one-out scores of single detectors, fingerprints of learned
        rows, and the numbers of held-out rows. Support vectors, which are training rows, are always kept.

    Raises
    ------
    ModelFileError
        For a model, or a part of it, of a class that is not kept, and for functions; the text names the part, and says
        what to do.
    OSError
        The file cannot be written. What was there is there.
    """
    with replacing(Path(path), lasting=True) as file:
        write(model, file, training=training)


def write(model: Any, file: BinaryIO, *, training: bool = True) -> None:
    """Write a model, as :func:`save` does, into a file that is open, or into memory."""
    with Outgoing(file) as store:
        node = estimator(None)(model, At("model", store, training, {}))
        # Who writes is for people, and read by nothing.
        versions = {"slabsvm": slabsvm.__version__, "scikit-learn": sklearn.__version__, "numpy": np.__version__}
        store.end({"format": FORMAT, "schema": SCHEMA, "written by": versions, "model": node})


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model of a file, which decides as the one that was saved, to the last bit.

    Nothing in a file is run, or names what is run. Little more memory is taken than the file has bytes.

    Raises
    ------
    ModelFileError
        For a file that is damaged, foreign, or of another schema; the text says what is wrong.
    OSError
        There is no such file, it is not a regular one, or the system refuses it.
    """
    try:
        with open_regular(Path(path)) as file:
            return _loaded(file)
    except (ModelFileError, RecursionError) as error:
        # The text may repeat what is long, or means something to a terminal.
        text = "it has no bottom" if isinstance(error, RecursionError) else escaped(str(error)[: LONGEST + 1])
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        raise ModelFileError(f"{os.fspath(path)} is not a model that can be read: {text}") from error


def _loaded(file: BinaryIO) -> Any:
    """Return the model of a file of this schema."""
    store = Incoming(file)
    document = store.document()
    known = isinstance(document, dict) and document.get("format") == FORMAT
    must(known, f"it is an archive of another kind, and not a {FORMAT}")
    schema, writer = document.get("schema"), str(document.get("written by"))[:80]
    must(
        type(schema) is int and schema == SCHEMA,
        f"it is of schema {schema!r}, written by {writer}, and slabsvm {slabsvm.__version__} reads schema {SCHEMA} "
        "alone. Load it with the version that wrote it, or fit the model again",
    )
    model = estimator(None)(document.get("model"), At("model", store, True, {}))
    store.finish()
    return model
