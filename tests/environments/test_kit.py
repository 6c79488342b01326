"""Resolving kits by name, and the errors for unknown names."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.errands.kit import ErrandsKit
from upturn.environments import EnvironmentKit, draw_tasks, registered_kits, resolve_kit
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Split, Task


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("my_environments")
    monkeypatch.setitem(sys.modules, "my_environments", module)
    return module


def test_registered_names_resolve() -> None:
    assert registered_kits() == ("office", "repair", "repair-impossible")
    for name in registered_kits():
        assert resolve_kit(name).name == name


def test_import_paths_resolve_to_the_factorys_kit(module: ModuleType) -> None:
    kit = ErrandsKit()
    module.make = lambda: kit  # type: ignore[attr-defined]
    module.KIT = kit  # type: ignore[attr-defined]
    assert isinstance(kit, EnvironmentKit)
    assert resolve_kit("my_environments:make") is kit
    assert resolve_kit("my_environments:KIT") is kit
    assert isinstance(resolve_kit("benchmarks.errands.kit:ErrandsKit"), ErrandsKit)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ofice", "unknown environment 'ofice'; known: office, repair, repair-impossible; or give module:factory"),
        ("", "unknown environment ''"),
        ("no_such_module:kit", "cannot be imported: No module named 'no_such_module'"),
        ("my_environments:missing", "cannot be imported: .* has no attribute 'missing'"),
        (":kit", "cannot be imported: Empty module name"),
        ("..up:kit", "cannot be imported: "),
        ("my_environments:with_argument", "could not be created: .*missing 1 required positional argument"),
        ("my_environments:number", "gave a int, not an EnvironmentKit: it needs name, families"),
        ("json:decoder", "gave a module, not an EnvironmentKit"),
    ],
)
def test_unresolvable_names_are_errors_with_the_reason(module: ModuleType, name: str, message: str) -> None:
    module.with_argument = lambda seed: seed  # type: ignore[attr-defined]
    module.number = lambda: 7  # type: ignore[attr-defined]
    with pytest.raises(UnknownNameError, match=message):
        resolve_kit(name)


def test_a_kit_that_raises_is_an_error_with_the_cause(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_desk.py").write_text("kit = = 3\n")
    (tmp_path / "leaving_desk.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownNameError, match="'broken_desk:kit' cannot be imported: SyntaxError: "):
        resolve_kit("broken_desk:kit")
    with pytest.raises(UnknownNameError, match="'leaving_desk:kit' cannot be imported: SystemExit: 3"):
        resolve_kit("leaving_desk:kit")
    module.failing = lambda: 1 / 0  # type: ignore[attr-defined]
    with pytest.raises(UnknownNameError, match="could not be created: ZeroDivisionError: division by zero"):
        resolve_kit("my_environments:failing")


@pytest.mark.parametrize("error", [KeyError("city"), SystemExit(1)], ids=repr)
def test_a_kit_that_cannot_draw_tasks_is_named(error: BaseException) -> None:
    class Broken(ErrandsKit):
        def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
            yield from islice(super().tasks(seed=seed, split=split, families=families), 2)
            raise error

    stream = draw_tasks(Broken(), seed=5, split="train", families=["mail_file"])
    assert [next(stream).family, next(stream).family] == ["mail_file", "mail_file"]
    with pytest.raises(WorldError) as caught:
        next(stream)
    assert str(caught.value).startswith("environment 'errands' cannot draw train tasks of seed 5: ")
    assert f"{type(error).__name__}: {error}; its tasks() must not fail" in str(caught.value)


def test_an_error_of_upturn_keeps_its_words() -> None:
    with pytest.raises(UnknownNameError, match="knitting"):
        next(draw_tasks(ErrandsKit(), seed=5, split="train", families=["knitting"]))
