"""Names that a package hands on without loading the module behind them until somebody asks (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of ``package``: ``modules`` says which of its modules defines a name.

    For names whose modules import torch at their top. Raises AttributeError for any other name.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get
