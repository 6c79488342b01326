"""``python -m benchmarks judging``: small changes are seen as small, and the mutants are what they say."""

import ast
import json
from random import Random

import typer
from typer.testing import CliRunner

from benchmarks.commands.judging import bench_judging
from benchmarks.judging.mutations import KINDS, mutant

PROGRAM = "def f(a, b):\n    c = g(a, b) + 1\n    if c > 2:\n        return c\n    print(c)\n    return a\n"


def test_every_kind_changes_the_program_and_repeats_with_its_seed() -> None:
    for kind in KINDS:
        made = mutant(PROGRAM, kind, Random(1))
        assert made is not None
        assert made == mutant(PROGRAM, kind, Random(1))
        assert ast.dump(ast.parse(made.text)) != ast.dump(ast.parse(PROGRAM))
    assert mutant("x = y\n", "arguments", Random(1)) is None


def test_differences_hold_the_bars() -> None:
    app = typer.Typer()
    app.command()(bench_judging)
    result = CliRunner().invoke(app, ["--quick", "--json"], catch_exceptions=False)
    printed = json.loads(result.stdout)
    assert result.exit_code == 0, printed["missed"]
    held = {entry["name"]: entry["holds"] for entry in printed["results"] if entry.get("bar")}
    assert held.pop("one statement") and held.pop("formatting without edits")
    assert {name.split(":")[0] for name in held} == {"calls"} and all(held.values())
