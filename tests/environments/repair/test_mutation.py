"""Mutants of small functions, worked by hand."""

import ast

import pytest

from upturn.environments.repair.mutation import OPERATORS, mutants
from upturn.environments.repair.source import functions_of


def mutated(body: str, operator: str) -> list[str]:
    """The mutated bodies of ``def f(a, b)``, without indentation."""
    text = f'def f(a, b):\n    """A docstring with 1 < 2 and a + b."""\n    {body}\n'
    function = functions_of(text)["f"]
    return [
        mutant.applied(text).split("\n", 2)[2].strip().replace("\n    ", "\n")
        for mutant in mutants(text, function)
        if mutant.operator == operator
    ]


@pytest.mark.parametrize(
    ("operator", "body", "expected"),
    [
        ("compare", "return a < b", ["return a <= b", "return a > b"]),
        ("compare", "return a == b", ["return a != b"]),
        ("compare", "return a not in b", ["return a in b"]),
        ("arithmetic", "return a + b", ["return a - b"]),
        ("arithmetic", "a //= b", ["a %= b"]),
        ("boolean", "return a and b", ["return a or b"]),
        ("negation", "return not a", ["return a"]),
        ("negation", "if a:\n        b()", ["if not a:\n    b()"]),
        ("off_by_one", "return a[0]", ["return a[1]"]),
        ("off_by_one", "return a[1]", ["return a[2]", "return a[0]"]),
        ("bound", "return range(a)", ["return range(a + 1)", "return range(a - 1)"]),
        ("variable", "return a", ["return b"]),
        ("swapped", "return a(b, 2)", ["return a(2, b)"]),
        ("swapped", "return a - b", ["return b - a"]),
        ("called", "return min(a)", ["return max(a)"]),
        ("called", "return a.lower()", ["return a.upper()"]),
        ("branches", "return 1 if a else 2", ["return 2 if a else 1"]),
        ("missing", "a.append(b)", ["pass"]),
    ],
)
def test_an_operator_changes_one_place(operator: str, body: str, expected: list[str]) -> None:
    assert mutated(body, operator) == expected


def test_every_operator_is_tested_above() -> None:
    marks = test_an_operator_changes_one_place.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for mark in marks for case in mark.args[1]} == set(OPERATORS)


def test_docstrings_are_left_alone_and_mutants_differ() -> None:
    text = 'def f(a):\n    """1 + 1"""\n    return a + 1  # a + 1\n'
    found = [mutant.applied(text) for mutant in mutants(text, functions_of(text)["f"])]
    assert len(set(found)) == len(found) > 0
    for mutant in found:
        assert '"""1 + 1"""' in mutant
        assert "# a + 1" in mutant
        ast.parse(mutant)
