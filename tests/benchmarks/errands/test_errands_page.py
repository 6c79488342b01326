"""The tables of the page about errands agree with the code."""

import re
from pathlib import Path

from benchmarks.errands import FAMILIES, OPERATIONS, ErrandsEnvironment, ErrandsVerifier, make_task
from benchmarks.errands.baseline import oracle
from benchmarks.errands.operation import Parameter
from upturn.environments.scripted_policy import play

FOLDER = Path(__file__).parents[3] / "benchmarks" / "errands"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading."""
    [table] = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def describe(parameter: Parameter) -> str:
    kind = "" if parameter.kind == "text" else f" {parameter.kind}"
    return f"`{parameter.name}`{kind}{'' if parameter.is_required else ' (optional)'}"


def test_page_lists_the_operations_of_errands() -> None:
    expected = [
        [f"`{name}`", ", ".join(map(describe, operation.parameters))] for name, operation in OPERATIONS.items()
    ]
    assert [[name, parameters] for name, parameters, _ in rows("operation")] == expected


def test_page_lists_the_families_of_errands_with_a_real_instruction() -> None:
    expected = [
        [f"`{name}`", str(family.level), make_task(name, 0).instruction] for name, family in FAMILIES.items()
    ]
    assert rows("family") == expected


def test_page_lists_the_codes_of_errands() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    used = set(re.findall(r'OperationError\(\s*"(\w+)"', source))
    assert set(re.findall(r"`(\w+)`", " ".join(codes for codes, _ in rows("code")))) == used


def test_page_lists_the_gates_of_the_verifier() -> None:
    task = make_task("mail_file", 0)
    gates = ErrandsVerifier().verify(task, play(ErrandsEnvironment(), task, oracle)).gates
    assert [name for name, _ in rows("gate")] == [f"`{gate.name}`" for gate in gates]


def test_page_lists_the_floors_of_every_family() -> None:
    assert [name for name, *_ in rows("task family")] == [f"`{name}`" for name in FAMILIES]
