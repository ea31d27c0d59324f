"""The mutants of the campaign of mutation testing: what is changed, one change at a time, and what is left alone."""

import ast
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "campaigns"))
import mutants as campaign
from mutations import mutants

SOURCE = '''
"""A module."""
LEAST: int = 1


def larger(x, *, strictly=True):
    """Return whether x is larger."""
    if x < LEAST and not strictly:
        raise ValueError(f"{x} is 0")
    return max(abs(x), 2.5) - 3
'''
CHANGES = {
    "module | LEAST: int = 1 | LEAST: int = 2",
    "module | LEAST: int = 1 | LEAST: int = 0",
    "larger | True | False",
    "larger | x < LEAST and (not strictly) | x < LEAST or not strictly",
    "larger | x < LEAST and (not strictly) | not (x < LEAST and (not strictly))",
    "larger | x < LEAST and (not strictly) | x <= LEAST and (not strictly)",
    "larger | x < LEAST and (not strictly) | x >= LEAST and (not strictly)",
    "larger | x < LEAST and (not strictly) | x < LEAST and strictly",
    "larger | raise ValueError(f'{x} is 0') | pass",
    "larger | return max(abs(x), 2.5) - 3 | return None",
    "larger | max(abs(x), 2.5) - 3 | max(abs(x), 2.5) + 3",
    "larger | max(abs(x), 2.5) - 3 | min(abs(x), 2.5) - 3",
    "larger | max(abs(x), 2.5) - 3 | max(x, 2.5) - 3",
    "larger | max(abs(x), 2.5) - 3 | max(abs(x), 3.5) - 3",
    "larger | max(abs(x), 2.5) - 3 | max(abs(x), 2.5) - 4",
    "larger | max(abs(x), 2.5) - 3 | max(abs(x), 2.5) - 2",
}


def test_each_mutant_is_one_change_and_the_next_knows_nothing_of_it():
    original, found = ast.dump(ast.parse(SOURCE)), []
    for mutant, tree in mutants(SOURCE):
        assert ast.dump(tree) != original
        compile(tree, "larger.py", "exec")
        assert ast.parse(ast.unparse(tree))
        found.append(mutant.key)
    assert len(found) == len(set(found))
    assert set(found) == CHANGES


def test_a_mutant_knows_its_function_and_the_lines_that_reach_it():
    where = {mutant.key: (mutant.function, mutant.lines) for mutant, _ in mutants(SOURCE)}
    assert where["larger | raise ValueError(f'{x} is 0') | pass"] == ("larger", range(9, 10))
    # What is written in a function's head runs on import.
    assert where["larger | True | False"][0] == ""
    assert where["module | LEAST: int = 1 | LEAST: int = 2"] == ("", range(3, 4))


def test_a_record_counts_the_outcomes_that_are_kept_of_mutants_that_the_source_still_has(tmp_path, monkeypatch, capsys):
    name = "conformal/doubts.py"
    every = [mutant.key for mutant, _ in mutants(campaign.FILES[name].read_text(encoding="utf-8"))]
    monkeypatch.setattr(campaign, "WORK", tmp_path)
    reasons = dict.fromkeys((f"{name}: {key}" for key in (every[0], every[1], "not | there | now")), "speed: a reason")
    monkeypatch.setattr(campaign, "reasons", lambda: reasons)
    kept = {every[0]: "test_that_finds_it", every[1]: "", every[2]: "", "once | there | was": "time or crash"}
    campaign.kept_of(name).write_text(json.dumps(kept))
    record = campaign.recorded(name)
    expected = {"file": name, "mutants": 3, "killed": 1, "survived": 2, "speed": 1, "none": 1, "equivalent": 0}
    assert record == record | expected | {"of these by time or crash": 0, "share": round(3 / len(every), 2)}
    needless = {every[0]: "test_that_finds_it", "not | there | now": "the source has it no more"}
    said = [f"{name}: {every[2]}", *(f"{name}: {key}\n    needs no reason: {why}" for key, why in needless.items())]
    assert capsys.readouterr().err.splitlines() == "\n".join(said).splitlines()
