"""The sources of the packages, and calls of their functions in this process: only of sources that we wrote.

A call has a limit of lines, so that an injected bug that loops for ever ends it. What an agent wrote is never run
here (``hidden``).
"""

import ast
import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import FrameType, ModuleType
from typing import Any, NamedTuple

_MOST_LINES = 5_000
"""Executed lines of one call; the right functions need a few hundred."""
_LARGEST = 10_000
"""Items of a list and letters of a text in a variable: a bug may double one in a loop."""

_LOOKED = 8
"""Every so many lines the variables are looked at."""


class Result(NamedTuple):
    """What a call gave: a value as text that ``ast.literal_eval`` reads, or the name of its exception."""

    value: str | None
    error: str = ""

    @property
    def is_value(self) -> bool:
        """False = it raised."""
        return self.value is not None


@cache
def sources(package: str) -> Mapping[str, str]:
    """The files of a package by path, such as ``roman/lists.py``, in alphabetical order."""
    folder = files("upturn.environments.repair").joinpath("packages", package)
    paths = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".py"))
    return {f"{package}/{name}": folder.joinpath(name).read_text(encoding="utf-8") for name in paths}


class LimitError(Exception):
    """A call has executed too many lines, or made too large a value."""


class Program:
    """The modules of a package in memory, without a trace in ``sys.modules``."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """``texts``: files by path. Raises SyntaxError, and whatever a module raises at import."""
        self._texts = {_module_name(path): text for path, text in texts.items()}
        self._modules: dict[str, ModuleType] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}

    def call(self, module: str, function: str, arguments: Sequence[Any]) -> Result:
        """The result; arguments that the function changes are the caller's loss."""
        called = getattr(self._module(module), function)
        try:
            return Result(repr(limited(lambda: called(*arguments))))
        except Exception as exc:  # noqa: BLE001  a bug may raise anything
            return Result(None, type(exc).__name__)

    def _module(self, name: str) -> ModuleType:
        if name not in self._modules:
            module = ModuleType(name)
            module.__dict__["__builtins__"] = self._builtins
            self._modules[name] = module
            exec(compile(self._texts[name], f"<{name}>", "exec"), module.__dict__)
        return self._modules[name]

    def _import(self, name: str, *others: Any) -> Any:
        """As ``__import__``."""
        return self._module(name) if name in self._texts else __import__(name, *others)


def limited(action: Callable[[], Any]) -> Any:
    """What the action returns; raises LimitError after too many lines, and where a value grows too large."""
    left = _MOST_LINES

    def trace(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        nonlocal left
        left -= 1
        if left < 0 or (left % _LOOKED == 0 and any(_is_large(value) for value in frame.f_locals.values())):
            raise LimitError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return action()
    finally:
        sys.settrace(before)


def _is_large(value: object) -> bool:
    if isinstance(value, str | list | dict | set | tuple):
        return len(value) > _LARGEST
    return isinstance(value, int) and value.bit_length() > _LARGEST


def functions_of(text: str) -> Mapping[str, ast.FunctionDef]:
    """The functions of a module's top level."""
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
