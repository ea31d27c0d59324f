"""What is written, by name: by everything that learns, answers, keeps and draws."""

import json
import os
from pathlib import Path

import pytest
import scipy

from processes import python

# Hears of all that is written, made, renamed or removed, from before the first import of the package.
HEARD = """
import json, os, sys
folder, heard = sys.argv[1], []
os.chdir(folder)
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")

def hear(event, arguments):
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        heard.append(arguments[0])
    elif event in CHANGES:
        heard.extend(arguments[:2] if event in ("os.rename", "os.link", "os.symlink") else arguments[:1])

sys.addaudithook(hear)
import numpy as np
from slabsvm import AutoDetector, OneClassSlabSVM, OpenSetClassifier
from slabsvm.command.group import slabsvm
from slabsvm.display import draw_scores
from slabsvm.files import load, save
from archive_parts import parts

X = np.random.default_rng(0).normal(size=(90, 1)) + 0.1 * np.random.default_rng(1).normal(size=(90, 3))
model = OneClassSlabSVM().fit(X)
model.predict(X), model.score_samples(X)
OpenSetClassifier().fit(X, np.arange(90) % 2).predict(X)
save(model, "kept.skops")
load("kept.skops").predict(X)
draw_scores(model, X).savefig("scores.png")
parts(80, 0).to_csv("good.csv", index=False)
for command in (
    "fit good.csv -o model.skops --detector slab --id serial",
    "score model.skops good.csv -o scored.csv",
):
    try:
        slabsvm(command.split())
    except SystemExit as end:
        assert not end.code, command
import matplotlib
print(json.dumps({"heard": [os.fsdecode(path) for path in heard if not isinstance(path, int)],
                  "of matplotlib": [matplotlib.get_cachedir(), matplotlib.get_configdir()]}))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_written_but_what_is_named(tmp_path):
    folder = tmp_path / "named"
    folder.mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run = python(HEARD, folder, flags=("-W", "ignore"), PYTHONDONTWRITEBYTECODE="1", TMPDIR=str(temporary))
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    allowed = [folder, *map(Path, found["of matplotlib"])]
    # SciPy 1.13 has a temporary folder while it is imported.
    allowed += [temporary] if scipy.__version__.startswith("1.13.") else []
    assert not os.listdir(temporary)
    heard = {folder / path for path in found["heard"]}
    beyond = {path for path in heard if not any(path.is_relative_to(place) for place in allowed)}
    assert beyond <= {Path(os.devnull)}
    # It has heard, and nothing is left beside what was named.
    assert {"kept.skops", "scored.csv"} <= {path.name for path in heard}
    named = {"kept.skops", "scores.png", "good.csv", "model.skops", "scored.csv"}
    assert set(os.listdir(folder)) == named
