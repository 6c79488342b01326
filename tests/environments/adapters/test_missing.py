"""Adapters without their libraries: the error names the extra to install."""

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("adapter", "packages"),
    [
        ("gymnasium", ["gymnasium"]),
        ("openenv", ["openenv", "openenv.core"]),
        ("openenv_types", ["openenv", "openenv.core", "openenv.core.env_server.types"]),
        ("verifiers", ["verifiers", "verifiers.v1"]),
    ],
)
def test_the_extra_to_install_is_named(adapter: str, packages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    module = f"upturn.environments.adapters.{adapter}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    extra = adapter.removesuffix("_types")
    with pytest.raises(ImportError, match=rf"is not installed: pip install 'upturn\[{extra}\]'"):
        import_module(module)
