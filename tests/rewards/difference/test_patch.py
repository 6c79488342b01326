"""Differences of files and patches: what counts, what does not, and a defined result for every content."""

import ast
import random
from importlib.util import find_spec
from pathlib import Path

import pytest

from upturn.errors import ConfigError, FileFormatError
from upturn.rewards.difference import (
    PatchDifference,
    compare_file,
    compare_patch,
    excess,
    is_test_path,
    minimal_difference,
    require_language,
    tree_difference,
)
from upturn.rewards.difference import grammar as grammar_module
from upturn.rewards.difference import source as source_module
from upturn.rewards.difference.python import STATEMENTS, python_tree
from upturn.rewards.difference.sequence import common_subsequence, increasing

HAS_GRAMMARS = all(find_spec(grammar.module) for grammar in grammar_module.GRAMMARS.values())
needs_grammars = pytest.mark.skipif(
    not HAS_GRAMMARS, reason="tree-sitter is not installed: pip install -e '.[diff]'"
)

PROGRAM = '''
import os

LIMIT = 3


def clamp(value, low, high):
    """Return the value in bounds."""
    # a comment
    if value < low:
        return low
    if value > high:
        return high
    return value


class Counter:
    def __init__(self, start=0):
        self.count = start

    def add(self, amount):
        total = self.count + amount
        total = total * 2
        self.count = clamp(total, 0, LIMIT)
        return total
'''


def changes(old: str, new: str, program: str = PROGRAM) -> tuple[int, int]:
    """Edits and statements of replacing ``old`` by ``new`` in the program."""
    assert old in program
    difference = compare_file(program, program.replace(old, new), "program.py")
    assert difference.method == "tree"
    return difference.edits, difference.statements


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("# a comment", "# another one", (0, 0), id="comment"),
        pytest.param("Return the value in bounds.", "Clamp.", (0, 0), id="docstring"),
        pytest.param("value < low", "(value\n        <low\n        )", (0, 0), id="layout"),
        pytest.param("value < low", "value <= low", (1, 1), id="operator"),
        pytest.param("LIMIT = 3", "LIMIT = 4", (1, 1), id="constant"),
        pytest.param("        return low\n", "        return high\n", (1, 1), id="another variable"),
        pytest.param("total = total * 2\n", "pass\n", (6, 1), id="replaced statement"),
        pytest.param("import os\n", "import os\nimport sys\n", (2, 1), id="inserted statement"),
        pytest.param("        total = total * 2\n", "", (5, 1), id="deleted statement"),
    ],
)
def test_edits_and_statements(old: str, new: str, expected: tuple[int, int]) -> None:
    assert changes(old, new) == expected


def test_a_renamed_local_is_one_edit_however_many_uses() -> None:
    assert changes("total", "result") == (1, 1)  # five uses in four statements


def test_a_renamed_function_is_one_edit_in_its_file() -> None:
    assert changes("clamp", "bounded")[0] == 1


def test_a_variable_that_takes_the_place_of_another_is_no_renaming() -> None:
    program = "def f(a, b):\n    print(a, a)\n    return a + b\n"
    edits, statements = changes("print(a, a)\n    return a", "print(b, b)\n    return b", program)
    assert (edits, statements) == (3, 2)


def test_moved_code_is_a_move() -> None:
    start = PROGRAM.index("class Counter")
    clamp = PROGRAM.index("def clamp")
    moved = PROGRAM[:clamp] + PROGRAM[start:] + "\n\n" + PROGRAM[clamp:start]
    difference = tree_difference(python_tree(PROGRAM), python_tree(moved))
    assert [edit.kind for edit in difference.edits] == ["move"]


def test_a_statement_put_under_a_condition_is_one_statement() -> None:
    wrapped = "        if amount:\n            total = total * 2\n"
    edits, statements = changes("        total = total * 2\n", wrapped)
    assert (edits, statements) == (4, 1)  # if, its test, its block, and the move


def test_steps_name_whole_subtrees() -> None:
    difference = tree_difference(python_tree("x = 1\n"), python_tree("x = 1\ny = f(2)\n"))
    assert [edit.kind for edit in difference.steps] == ["insert-tree"]
    assert len(difference.edits) == 5


def test_formatting_of_library_files_does_not_count() -> None:
    folder = Path(ast.__file__).parent
    for name in ("bisect.py", "textwrap.py", "shlex.py", "graphlib.py"):
        text = (folder / name).read_text()
        difference = compare_file(text, ast.unparse(ast.parse(text)), name)
        assert (difference.method, difference.edits, difference.statements) == ("tree", 0, 0)


def test_deleting_any_statement_of_a_library_file_is_one_statement() -> None:
    text = (Path(ast.__file__).parent / "graphlib.py").read_text()
    before = python_tree(text)
    chance = random.Random(0)
    for _ in range(12):
        program = ast.parse(text)
        blocks = [
            node.body for node in ast.walk(program) if isinstance(node, ast.FunctionDef) and len(node.body) > 2
        ]
        block = chance.choice(blocks)
        del block[chance.randrange(1, len(block))]
        assert tree_difference(before, python_tree(ast.unparse(program))).statements == 1


def test_statements_of_every_python_are_known() -> None:
    assert {kind.__name__ for kind in ast.stmt.__subclasses__()} <= STATEMENTS


@pytest.mark.parametrize(
    ("before", "after", "path", "expected"),
    [
        pytest.param("x = 1\n", "x = (\n", "a.py", ("lines", 1, "does not parse"), id="syntax"),
        pytest.param("x = 1\n", "x = " + "9" * 5_000, "a.py", ("lines", 1, "does not parse"), id="number"),
        pytest.param("x = 1\n", "x = " + "-" * 5_000 + "1", "a.py", ("lines", 1, "nested too deeply"), id="depth"),
        pytest.param("a\nb\n", "a\nc\n", "notes.txt", ("lines", 1, "no language is known"), id="language"),
        pytest.param(b"\xff\xfe", b"\x00", "a.py", ("binary", 1, "no UTF-8 text"), id="binary"),
        pytest.param("x = 1\0", "x = 1", "a.py", ("binary", 1, "no UTF-8 text"), id="null byte"),
        pytest.param(None, "x = 1\n", "a.py", ("tree", 3, ""), id="new file"),
        pytest.param("x = 1\n", None, "a.py", ("tree", 3, ""), id="deleted file"),
    ],
)
def test_every_content_has_a_result(
    before: str | bytes | None, after: str | bytes | None, path: str, expected: tuple[str, int, str]
) -> None:
    difference = compare_file(before, after, path)
    assert (difference.method, difference.edits) == expected[:2]
    assert expected[2] in difference.reason
    assert bool(difference.reason) == (difference.method != "tree")


def test_large_files_are_compared_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_CHARACTERS", 10)
    difference = compare_file("x = 1\ny = 2\n", "x = 1\ny = 3\nz = 3\n", "a.py")
    assert (difference.method, difference.edits) == ("lines", 2)
    assert difference.reason == "'a.py' has 12 characters; more than 10 are not parsed"


def test_patch_counts_files_lines_and_tests() -> None:
    before = {"a.py": "x = 1\n", "b.py": "y = 2\n", "tests/test_a.py": "assert True\n"}
    after = {"a.py": "x = 2\n", "b.py": "y  =  2\n", "tests/test_a.py": "assert 1\n", "c.txt": "one\ntwo\n"}
    patch = compare_patch(before, after)
    assert [file.path for file in patch.files] == ["a.py", "b.py", "c.txt", "tests/test_a.py"]
    assert [file.edits for file in patch.files] == [1, 0, 2, 1]
    assert (patch.edits, patch.statements, patch.lines) == (4, 4, 8)
    assert patch.tests_touched == ("tests/test_a.py",)


def test_folders_are_compared_without_hidden_ones_and_links(tmp_path: Path) -> None:
    for side, value in (("old", "1"), ("new", "2")):
        for name in ("pkg/a.py", ".git/config", "pkg/__pycache__/a.pyc"):
            path = tmp_path / side / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"x = {value}\n")
        (tmp_path / side / "link.py").symlink_to(tmp_path / side / "pkg/a.py")
    patch = compare_patch(tmp_path / "old", tmp_path / "new")
    assert [file.path for file in patch.files] == ["pkg/a.py"]
    with pytest.raises(FileFormatError, match="is no folder"):
        compare_patch(tmp_path / "missing", tmp_path / "new")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/data/x.json", True),
        ("pkg/test_a.py", True),
        ("pkg/a_test.go", True),
        ("src/a.test.ts", True),
        ("src/FooTest.java", True),
        ("conftest.py", True),
        ("pkg/contest.py", False),
        ("pkg/latest.py", False),
        ("testing.py", False),
    ],
)
def test_paths_of_tests(path: str, expected: bool) -> None:
    assert is_test_path(path) is expected


def test_excess_and_reward() -> None:
    assert excess(6, 2) == 3.0
    assert excess(3, 0) == 3.0
    with pytest.raises(ValueError, match="0 or more"):
        excess(-1, 2)
    fix = compare_patch({"a.py": PROGRAM}, {"a.py": PROGRAM.replace("value < low", "value <= low")})
    large = compare_patch({"a.py": PROGRAM}, {"a.py": PROGRAM.replace("= total * 2", "= f(total, 2, x)")})
    nothing = PatchDifference(())
    assert (fix.edits, large.edits) == (1, 8)
    assert minimal_difference("success", fix, fix) == 1.0
    assert minimal_difference("success", large, fix) == pytest.approx(1 / 8)
    assert minimal_difference("success", nothing, fix) == 1.0
    assert minimal_difference("failure", nothing, fix) == 0.0
    assert minimal_difference("missing", fix, fix) is None


def test_common_subsequences_of_long_inputs() -> None:
    left = [number // 2 for number in range(800)]
    right = [-1, *left[:300], 5_000, *left[310:], -2]
    pairs = common_subsequence(left, right)
    assert all(left[old] == right[new] for old, new in pairs)
    assert len(pairs) == 790
    unique = list(range(500))
    assert len(common_subsequence(unique, unique[::-1])) == 1
    assert increasing([3, 1, 2, 5, 4]) == [1, 2, 4]


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_module, "find_spec", lambda _: None)
    grammar_module._parser.cache_clear()
    with pytest.raises(ConfigError, match=r"differences of go need tree-sitter and tree-sitter-go.*upturn\[diff\]"):
        require_language("go")
    difference = compare_file("package a\n", "package b\n", "a.go")
    assert (difference.method, difference.edits) == ("lines", 1)
    assert "pip install 'upturn[diff]'" in difference.reason


@needs_grammars
@pytest.mark.parametrize(
    ("path", "before", "after", "expected"),
    [
        ("a.js", "function f(a) { return a + b; } // c", "function f(a) {\n  return (a + b)\n}", (0, 0)),
        ("a.js", "async function f() { g(); }", "function f() { g(); }", (1, 1)),
        ("a.ts", "let x: number = f(a, 'b');", 'let x: number = f(\n  a, "b",\n);', (0, 0)),
        ("a.tsx", "const x = <b>{y}</b>;", "const x = <b>{z}</b>;", (1, 1)),
        (
            "A.java",
            "class A { int f(int x) { return x + 1; } }",
            "class A { int f(int x) { return x - 1; } }",
            (1, 1),
        ),
        (
            "a.go",
            "package a\nfunc f(x int) int { return x + x }",
            "package a\nfunc f(y int) int { return y + y }",
            (1, 1),
        ),
        ("a.rs", "fn f(x: i32) -> i32 { g(x); x }", "fn f(x: i32) -> i32 { x } /* no g */", (5, 1)),
        ("a.c", "int f(int x) { if (x) return 1; return 2; }", "int f(int x) { return 2; }", (4, 1)),
        ("a.cpp", "int f() { return 1; } int g() { h(); }", "int g() { h(); } int f() { return 1; }", (1, 1)),
    ],
)
def test_other_languages(path: str, before: str, after: str, expected: tuple[int, int]) -> None:
    difference = compare_file(before, after, path)
    assert difference.reason == ""
    assert (difference.edits, difference.statements) == expected


@needs_grammars
def test_other_languages_that_do_not_parse_are_compared_by_lines() -> None:
    difference = compare_file("int f() {\n", "int g() {\n", "a.c")
    assert (difference.method, difference.edits) == ("lines", 1)
    assert "this is no c: the first error is in line 1" in difference.reason
