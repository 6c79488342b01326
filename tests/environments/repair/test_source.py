"""Packages in memory: calls, imports, and limits for bugs that loop."""

import sys

import pytest

from upturn.environments.repair.catalogue import PACKAGES
from upturn.environments.repair.source import Program, Result, functions_of, sources

ALL = [package for packages in PACKAGES.values() for package in packages]


def test_modules_import_each_other_without_a_trace() -> None:
    texts = {
        "kit/__init__.py": "",
        "kit/one.py": "import math\n\ndef two():\n    return math.floor(2.5)\n",
        "kit/other.py": "from kit.one import two\n\ndef four():\n    return 2 * two()\n",
    }
    assert Program(texts).call("kit.other", "four", ()) == Result("4")
    assert "kit" not in sys.modules and "kit.one" not in sys.modules


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n        pass",
        "while True:\n        x = x + x",
        "return f(x)",
        "while True:\n        x = x + [x]",
    ],
)
def test_a_bug_that_loops_or_grows_ends(body: str) -> None:
    program = Program({"m.py": f"def f(x):\n    {body}\n"})
    result = program.call("m", "f", ("ab",))
    assert not result.is_value
    assert result.error in ("LimitError", "RecursionError", "TypeError")


def test_an_exception_is_named() -> None:
    assert Program({"m.py": "def f(x):\n    return x[1]\n"}).call("m", "f", ([],)) == Result(None, "IndexError")


@pytest.mark.parametrize("package", ALL, ids=lambda package: package.name)
def test_every_function_of_a_package_has_inputs(package: object) -> None:
    name, inputs = package.name, package.inputs  # type: ignore[attr-defined]
    texts = sources(name)
    assert all(text.isascii() for text in texts.values())
    assert {f"{name}/{module}.py" for module in inputs} | {f"{name}/__init__.py"} == set(texts)
    for module, drawn in inputs.items():
        assert functions_of(texts[f"{name}/{module}.py"]).keys() == drawn.keys()


def test_held_out_packages_are_in_no_training_task() -> None:
    train, heldout = ({package.name for package in PACKAGES[split]} for split in ("train", "heldout"))
    assert not train & heldout
    assert len(train) == 12
    assert len(heldout) == 4
