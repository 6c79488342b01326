"""Signatures of the caller's objects: name and options, the same in every process."""

import functools
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any


def signature(value: object) -> str:
    """Returns a text that is equal for objects of the same class and options, and different otherwise.

    Classes and functions are identified by their full names; options are the attributes of an object, the closure
    of a function, and the defaults of its arguments, recursively. Not covered: the code itself, and the content of
    objects implemented in C (arrays, tensors)."""
    return _signature(value, ())


def _signature(value: object, outer: tuple[int, ...]) -> str:
    """``outer``: the ids of the enclosing objects, so that reference cycles end."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if id(value) in outer:
        return "..."
    inner = (*outer, id(value))
    if isinstance(value, Mapping):
        pairs = sorted(f"{_signature(key, inner)}: {_signature(item, inner)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(_signature(item, inner) for item in value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_signature(item, inner) for item in value)}]"
    if isinstance(value, type | BuiltinFunctionType):
        return _full_name(value)
    options = [f"{name}={_signature(option, inner)}" for name, option in sorted(_options(value))]
    return f"{_full_name(value if isinstance(value, FunctionType) else type(value))}({', '.join(options)})"


def _full_name(value: type | FunctionType | BuiltinFunctionType) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _options(value: object) -> Iterator[tuple[str, object]]:
    """Names and values, each name once."""
    if isinstance(value, FunctionType):
        closure = (cell.cell_contents for cell in value.__closure__ or ())
        yield from zip(value.__code__.co_freevars, closure, strict=True)
        defaults = (("defaults", value.__defaults__), ("by name", value.__kwdefaults__))
        yield from ((name, default) for name, default in defaults if default)
    elif isinstance(value, MethodType):
        yield from (("function", value.__func__), ("of", value.__self__))
    elif isinstance(value, functools.partial):
        yield from (("arguments", value.args), ("by name", value.keywords), ("function", value.func))
    elif is_dataclass(value):
        yield from ((entry.name, getattr(value, entry.name)) for entry in fields(value))
    else:
        yield from _attributes(value).items()


def _attributes(value: object) -> Mapping[str, object]:
    """The attributes, including those in slots; empty for objects implemented in C."""
    try:
        state: Any = value.__getstate__()  # a dictionary, None, a pair of them, or anything else a class defines
    except TypeError:
        return {}
    parts = state if isinstance(state, tuple) else (state,)
    attributes = {name: option for part in parts if isinstance(part, dict) for name, option in part.items()}
    return attributes or ({} if state is None else {"state": state})
