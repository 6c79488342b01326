"""Lines of code are counted without docstrings and comments, for every algorithm."""

from pathlib import Path

import pytest

import upturn.training
from benchmarks.algorithms.code_size import FILES, SHARED, code_lines, measure_code_size

SOURCE = '''"""A module
of two lines."""

import os  # counts

# does not


class Thing:
    """Neither does this."""

    field: int = 1
    """Nor this,
    which is longer."""

    def work(self) -> str:
        """Nor this."""
        text = """but this
        does, twice"""
        return (
            text  # three lines in all
        )
'''


def test_docstrings_comments_and_blank_lines_are_not_counted() -> None:
    # import, class, field, def, two of text, return ( text )
    assert code_lines(SOURCE) == 1 + 1 + 1 + 1 + 2 + 3


@pytest.mark.parametrize("source", ["", "\n\n", '"""Only words."""\n', "# nothing\n"])
def test_file_without_code_has_no_lines(source: str) -> None:
    assert code_lines(source) == 0


def test_every_file_with_a_run_function_is_counted() -> None:
    (folder,) = upturn.training.__path__
    with_runs = {
        path.relative_to(folder).with_suffix("").as_posix()
        for path in Path(folder).rglob("*.py")
        if "\ndef run_" in path.read_text(encoding="utf-8")
    }
    counted = {name for names in FILES.values() for name in names}
    assert with_runs <= counted
    assert not counted & set(SHARED)


def test_counted_files_are_reported() -> None:
    results, details = measure_code_size()
    assert {row.name for row in results} == {f"size_{name}" for name in FILES}
    grpo = next(row for row in results if row.name == "size_grpo")
    counted = details["counted"]
    assert isinstance(counted, dict) and isinstance(files := counted["grpo"], dict)
    assert set(files) == {"algorithms/grpo/run.py", "algorithms/policy_gradient.py"}
    assert grpo.value == sum(value for value in files.values() if isinstance(value, int))
    assert grpo.bar == "<= 150"
    assert all(row.bar is None for row in measure_code_size(has_bars=False)[0])


def test_every_algorithm_is_within_the_bar() -> None:
    results, _ = measure_code_size()
    assert {row.name: row.value for row in results if not row.holds} == {}
