"""A folder with a table of good parts, one of new parts, and a model, for all tests of the command."""

import numpy as np
import pytest
from click.testing import CliRunner

from archive_parts import N_GOOD, parts
from slabsvm.command.group import slabsvm


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the command in a folder of its own; it returns what click's runner gives."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *arguments, **how: runner.invoke(slabsvm, [str(argument) for argument in arguments], **how)


@pytest.fixture(scope="session")
def ready(tmp_path_factory):
    """A folder with good.csv, new.csv (whose rows 2 to 5 are bad) and model.skops."""
    folder = tmp_path_factory.mktemp("ready")
    parts(N_GOOD, 0).to_csv(folder / "good.csv", index=False)
    new = parts(60, 1).astype(object)
    new.loc[1, "weight"] = 90
    new.loc[2, "finish"] = "violet"
    new.loc[3, "line"] = "B"
    new.loc[4, "width"] = np.nan
    new.to_csv(folder / "new.csv", index=False)
    result = CliRunner().invoke(
        slabsvm, ["fit", str(folder / "good.csv"), "-o", str(folder / "model.skops"), "--id", "serial"]
    )
    assert result.exit_code == 0, result.output
    return folder
