"""Size caps: excesses are reported, and exceptions must be needed."""

from collections.abc import Callable
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]


def function(lines: int, parameters: str = "") -> str:
    return f"def f({parameters}):\n" + "    pass\n" * (lines - 1)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("src/a.py", "x = 1\n" * 500, []),
        ("src/a.py", "x = 1\n" * 501, [("src/a.py", "lines", 501, 500)]),
        ("tests/a.py", "x = 1\n" * 600, []),
        ("tests/a.py", "x = 1\n" * 601, [("tests/a.py", "lines", 601, 600)]),
        ("src/a.py", function(60), []),
        ("src/a.py", function(61), [("src/a.py:f", "lines", 61, 60)]),
        ("src/a.py", function(2, "a, /, b, c, *, d, e, f"), []),
        ("src/a.py", function(2, "a, /, b, c, *, d, e, f, g"), [("src/a.py:f", "parameters", 7, 6)]),
        ("tests/a.py", function(2, "a, b, c, d, e, f, g"), []),
        ("src/a.py", "class A:\n    async def f(self, a, b, c, d, e, f): ...\n", []),
        (
            "src/a.py",
            "class A:\n    if True:\n        def f(self, a, b, c, d, e, f, g): ...\n",
            [("src/a.py:A.f", "parameters", 7, 6)],
        ),
    ],
)
def test_caps(load_tool: Load, path: str, text: str, expected: list[tuple[str, str, int, int]]) -> None:
    assert list(load_tool("check_sizes").file_excesses(path, text)) == expected


def test_public_methods_are_counted(load_tool: Load) -> None:
    tool = load_tool("check_sizes")
    methods = [f"    def m{index}(self): ...\n" for index in range(12)] + ["    def _private(self): ...\n"]
    assert list(tool.file_excesses("src/a.py", "class A:\n" + "".join(methods))) == []
    (excess,) = tool.file_excesses("src/a.py", "class A:\n" + "".join(methods) + "    def more(self): ...\n")
    assert excess == ("src/a.py:A", "public methods", 13, 12)


def test_exceptions_cover_excesses_and_must_be_needed(load_tool: Load) -> None:
    tool = load_tool("check_sizes")
    excess = tool.Excess("src/a.py:f", "lines", 61, 60)
    assert tool.problems([excess], {}) == ["src/a.py:f: 61 lines, at most 60"]
    assert tool.problems([excess], {"src/a.py:f": "a table"}) == []
    assert tool.problems([], {"src/a.py:f": "a table"}) == [
        "src/a.py:f: no longer over a cap; remove it from EXCEPTIONS"
    ]


def test_files_of_source_folders_are_counted(load_tool: Load) -> None:
    tool = load_tool("check_sizes")
    twenty = [f"src/room/m{index}.py" for index in range(20)]
    assert list(tool.folder_excesses([*twenty, "src/room/inner/a.py"])) == []
    assert list(tool.folder_excesses([*twenty, "src/room/more.py"])) == [("src/room", "files", 21, 20)]
    assert (
        list(tool.folder_excesses([path.replace("src", "tests") for path in [*twenty, "src/room/more.py"]])) == []
    )
