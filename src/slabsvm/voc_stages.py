"""The stages before the models of the experiment on Pascal VOC, with progress, and what each stage took."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from slabsvm.journal import Journal
from slabsvm.terminal import INTERRUPTED, progress

if TYPE_CHECKING:
    from slabsvm.experiments.hog import ClassFeatures
    from slabsvm.experiments.regions import Choice
    from slabsvm.experiments.voc import VOCData

# Problems of the data that the terminal lists; the report has all.
LISTED = 5


class Stages:
    """What each stage took, kept beside the records: a run that goes on counts what earlier ones took.

    Parameters
    ----------
    path : Path
        The journal; what it says of other data, that is of other keys, is passed over.
    """

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self._keys: set[str] = set()
        self._now: dict[str, float] = {}

    def took(self, stage: str, seconds: float, key: str | None = None) -> None:
        """Keep the time of a stage of the work on what has this key; without a key it is of this run alone."""
        if key is None:
            self._now[stage] = seconds
            return
        self._keys.add(key)
        if seconds:
            self._journal.append({"stage": stage, "key": key, "seconds": round(seconds, 3)})

    @contextmanager
    def timed(self, stage: str, key: str | None = None) -> Iterator[None]:
        """Time what is done inside, also if it is interrupted."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.took(stage, perf_counter() - begin, key)

    def forget(self, stage: str) -> None:
        """Forget what a stage took, since it is done again."""
        kept = [json.dumps(record) + "\n" for record in self._journal.records() if record["stage"] != stage]
        part = self._journal.path.with_suffix(".part")
        part.write_text("".join(kept), encoding="utf-8")
        os.replace(part, self._journal.path)

    def seconds(self, order: Sequence[str]) -> dict[str, float]:
        """The time of each stage in this order, earlier runs' included."""
        found = dict.fromkeys(order, 0.0) | self._now
        for record in self._journal.records():
            if record["key"] in self._keys:
                found[record["stage"]] += record["seconds"]
        return {stage: found[stage] for stage in order}


def read_data(data: Path | None, *, year: int | None, image_set: str | None, strict: bool, jobs: int | None) -> VOCData:
    """Read the data set, and say what is wrong with it.

    Raises
    ------
    DataError
        There is none: the text says where to get it and what it takes. Or it is not sound, and `strict`.
    """
    from slabsvm.experiments import pascal_classes
    from slabsvm.experiments.data import DataError
    from slabsvm.experiments.voc import read_voc

    folder = data
    if folder is None:
        if not os.environ.get("SLABSVM_DATA"):
            raise DataError(pascal_classes.NO_DATA)
        folder = Path(os.environ["SLABSVM_DATA"]).expanduser()
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
    click.echo(f"{found.root}: {len(found.images):,} images, {objects:,} objects of {len(found.labels)} classes.")
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
    from slabsvm.experiments import pascal_classes
    from slabsvm.experiments.data import DataError
    from slabsvm.experiments.hog import class_features

    needed = pascal_classes.bytes_of_features(data, classes, n_backgrounds, choice)
    if not any(cache.glob("*/*.npy")):
        click.echo(f"HOG features will take {needed / 1e9:.2f} GB in {cache}: {', '.join(classes)}.")
        free = shutil.disk_usage(cache.parent).free
        if free < needed:
            raise DataError(
                f"The features need {needed / 1e9:.2f} GB, and {cache.parent} has {free / 1e9:.2f} GB left. Give fewer "
                "--backgrounds or --classes, or another folder with --output."
            )
    features = []
    for label in classes:
        with counted(f"Features of {label}") as to, going_on_later():
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
        stages.took("features", of_class.seconds, of_class.key)
        features.append(of_class)
    return features


@contextmanager
def going_on_later() -> Iterator[None]:
    """Say on an interruption that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nStopped. The features so far are kept; the same command goes on from there.", err=True)
        raise SystemExit(INTERRUPTED) from None


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
