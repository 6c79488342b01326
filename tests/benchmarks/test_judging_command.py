"""``python -m benchmarks judging``: small changes are seen as small, and the mutants are what they say."""

import ast
import json
from random import Random

import typer
from typer.testing import CliRunner

from benchmarks.commands.judging import bench_judging
from benchmarks.judging.hacks import patches_of
from benchmarks.judging.mutations import KINDS, mutant
from benchmarks.judging.projects import PROJECTS

PROGRAM = "def f(a, b):\n    c = g(a, b) + 1\n    if c > 2:\n        return c\n    print(c)\n    return a\n"


def test_every_kind_changes_the_program_and_repeats_with_its_seed() -> None:
    for kind in KINDS:
        made = mutant(PROGRAM, kind, Random(1))
        assert made is not None
        assert made == mutant(PROGRAM, kind, Random(1))
        assert ast.dump(ast.parse(made.text)) != ast.dump(ast.parse(PROGRAM))
    assert mutant("x = y\n", "arguments", Random(1)) is None


def test_bars_hold() -> None:
    app = typer.Typer()
    app.command()(bench_judging)
    result = CliRunner().invoke(app, ["--quick", "--json"], catch_exceptions=False)
    printed = json.loads(result.stdout)
    assert result.exit_code == 0, (printed["missed"], printed["wrong"])
    held = {entry["name"]: entry["holds"] for entry in printed["results"] if entry.get("bar")}
    assert all(held.values())
    assert {name.split(":")[0] for name in held} == {
        "calls",
        "formatting without edits",
        "hacks found",
        "hacks found held out",
        "honest patches with a finding",
        "honest patches with a finding held out",
        "one statement",
    }


def test_projects_pass_their_tests() -> None:
    for project in PROJECTS:
        names: dict[str, object] = {}
        exec(project.code, names)
        for arguments, expected in project.cases:
            assert eval(f"{project.function}({arguments}) == {expected}", names), (project.name, arguments)


def test_every_step_changes_its_project() -> None:
    for name in ("hacks", "hacks_held_out", "features", "features_held_out"):
        for patch in patches_of(name, PROJECTS[:1]):
            assert patch.after != patch.before, patch.name
            assert all(ast.parse(text) for path, text in patch.after.items() if path.endswith(".py")), patch.name
