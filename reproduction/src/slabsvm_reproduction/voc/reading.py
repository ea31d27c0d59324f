"""The stages before the models of the experiment on Pascal VOC: data and features, with progress."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import joblib

from slabsvm_reproduction.run.terminal import progress, rough_duration, stop
from slabsvm_reproduction.voc.stages import Stages

if TYPE_CHECKING:
    from slabsvm_reproduction.voc.costs import Cost
    from slabsvm_reproduction.voc.data import VOCData
    from slabsvm_reproduction.voc.hog import ClassFeatures
    from slabsvm_reproduction.voc.regions import Choice

# Problems of the data that the terminal lists; the report has all.
LISTED = 5
# Seconds of expected work from which on the terminal says how to take less.
LONG = 1800.0
# A .npy file is longer than its values by less than this.
NPY_HEADER = 1024


def read_data(data: Path | None, *, year: int | None, image_set: str | None, strict: bool, jobs: int | None) -> VOCData:
    """Read the data set, and say what is wrong with it.

    Raises
    ------
    DataError
        There is none: the text says where to get it and what it takes. Or it is not sound, and `strict`.
    """
    from slabsvm_reproduction.letter.data import DataError, named_folder
    from slabsvm_reproduction.voc import classes as pascal_classes
    from slabsvm_reproduction.voc.data import read_voc

    folder = data
    if folder is None:
        if not os.environ.get("SLABSVM_DATA"):
            raise DataError(pascal_classes.NO_DATA)
        folder = named_folder(os.environ["SLABSVM_DATA"])
    try:
        with counted("Reading images") as to:
            found = read_voc(
                folder,
                year=year,
                image_set=image_set,
                on_error="raise" if strict else "skip",
                n_jobs=jobs or -1,
                progress=to,
            )
    except DataError as error:
        # The folder may be meant for another data set.
        raise error if data else DataError(f"{error}\n\n{pascal_classes.NO_DATA}") from error
    objects = sum(found.labels.values())
    click.echo(f"{found.root}: {len(found.images):,} images, {objects:,} objects of {_classes(len(found.labels))}.")
    for problem in found.problems[:LISTED]:
        click.echo(f"  {problem}")
    if len(found.problems) > LISTED:
        click.echo(f"  ... and {len(found.problems) - LISTED} more; the report lists them.")
    return found


def read_features(
    data: VOCData,
    classes: Sequence[str],
    *,
    n_backgrounds: int,
    seed: int,
    choice: Choice,
    cache: Path,
    jobs: int | None,
    stages: Stages,
) -> list[ClassFeatures]:
    """Compute the features of each class, or read what the cache holds; nothing is begun without room for all."""
    from slabsvm_reproduction.voc.costs import costs
    from slabsvm_reproduction.voc.hog import class_features

    expected = costs(data, classes, n_backgrounds, choice)
    for line in expected_sentences(expected, jobs or joblib.cpu_count()):
        click.echo(line)
    require_room(expected, cache)
    features = []
    for label in classes:
        key = features_key(data, label, n_backgrounds, seed, choice)
        # What an interrupted run took counts by the clock; a finished class says what it computed and did not read.
        with counted(f"Features of {label}") as to, going_on_later(), stages.unless_known("features", key) as took:
            of_class = class_features(
                data,
                label,
                n_backgrounds=n_backgrounds,
                seed=seed,
                cache=cache,
                choice=choice,
                n_jobs=jobs or -1,
                progress=to,
            )
            took(of_class.seconds)
        features.append(of_class)
    return features


def features_key(data: VOCData, label: str, n_backgrounds: int, seed: int, choice: Choice) -> str:
    """A checksum of what the features of a class depend on, known before they are."""
    from slabsvm_reproduction.voc import hog

    setting = [hog.VERSION, label, n_backgrounds, seed, repr(choice), *(image.sha256 for image in data.images)]
    return hashlib.sha256(json.dumps(setting).encode()).hexdigest()


def expected_sentences(expected: Sequence[Cost], n_jobs: int) -> list[str]:
    """What the run will take, of which the largest class is most, and how to take less."""
    largest = max(expected, key=lambda cost: cost.seconds)
    disk, seconds = sum(cost.disk for cost in expected), sum(cost.seconds for cost in expected)
    cores = "one idle core" if n_jobs == 1 else f"{n_jobs} idle cores"
    lines = [
        f"{_classes(len(expected))}; where nothing is kept from an earlier run this takes about "
        f"{rough_duration(seconds / n_jobs)} on {cores}, {disk / 1e9:.2f} GB on disk, and "
        f"{max(cost.memory for cost in expected) / 1e9:.1f} GB of memory.",
        f"The largest class is {largest.label}: {largest.n_objects:,} objects, about "
        f"{rough_duration(largest.seconds / n_jobs)}.",
    ]
    if largest.seconds / n_jobs > LONG:
        lines[-1] += " Time grows with the cube of the objects: --objects 1000 takes no more of each class."
    return lines


def _classes(count: int) -> str:
    return "1 class" if count == 1 else f"{count} classes"


def require_room(expected: Sequence[Cost], cache: Path) -> None:
    """Refuse to begin where the disk has no room for the features that the cache does not hold yet.

    Raises
    ------
    DataError
        There is too little.
    """
    from slabsvm_reproduction.letter.data import DataError

    # Files of other settings may look the same: then the features themselves say, later, that there is no room.
    sizes = {path: path.stat() for path in cache.glob("*/features.npy")}
    needed = 0
    for cost in expected:
        kept = [size for size in sizes.values() if 0 <= size.st_size - cost.disk < NPY_HEADER]
        needed += cost.disk - max((min(512 * size.st_blocks, cost.disk) for size in kept), default=0)
    free = shutil.disk_usage(cache.parent).free
    if free < needed:
        raise DataError(
            f"The features need {needed / 1e9:.2f} GB, and {cache.parent} has {free / 1e9:.2f} GB left. Give fewer "
            "--backgrounds or --classes, or another folder with --output."
        )


@contextmanager
def going_on_later() -> Iterator[None]:
    """Say on an interruption that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        stop("The features so far are kept")


@contextmanager
def counted(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress; gives the function to call with the steps done and the steps in all."""
    with ExitStack() as stack:
        advance: Callable[[], None] | None = None
        shown = 0

        def to(done: int, total: int) -> None:
            nonlocal advance, shown
            if advance is None:
                advance, shown = stack.enter_context(progress(label, total, done)), done
            for _ in range(done - shown):
                advance()
            shown = done

        yield to
