"""Names that a package exports but imports only on first access (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Returns the ``__getattr__`` of ``package``; ``modules`` maps each lazy name to the module that defines it.

    Used for modules that import torch, or an HTTP server. Any other name raises AttributeError.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get
