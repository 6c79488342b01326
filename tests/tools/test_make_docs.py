"""The generated pages are up to date."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent.parent
Load = Callable[[str], ModuleType]


def test_pages_in_the_repository_are_current(load_tool: Load) -> None:
    for name, page in load_tool("make_docs").PAGES.items():
        assert (ROOT / name).read_text() == page(), f"{name} is stale; run make docs"


def test_default_of_zero_is_shown_and_empty_default_is_not(load_tool: Load) -> None:
    lines = load_tool("make_docs").cli_page().splitlines()
    assert "| `--seed <int range>` | `0` | Seed of all random choices. |" in lines
    assert "| `--seed <int>` | `0` | Seed of the task. |" in lines
    assert "| `--heldout` |  | Play a held-out task instead of a training task. |" in lines
    assert "| `--tenant <str>` | `default` | Tenant whose records to use. |" in lines


def test_field_docstrings_are_those_under_the_field(load_tool: Load) -> None:
    source = 'class A:\n    x: int = 1\n    """What x is."""\n    y: int = 2\n'
    assert load_tool("make_docs").field_docstrings(source) == {("A", "x"): "What x is."}
