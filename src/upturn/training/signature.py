"""What an object of the caller's own is, in words that are the same in every process: its name and its options."""

import functools
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any


def signature(value: object) -> str:
    """Two objects made alike have the same signature, two with other options or of other classes another.

    Objects and functions are named in full; options are the attributes of an object, what a function closes over,
    and the defaults of its arguments, in turn by their signatures. Not covered: the code itself, and what an object
    written in C (an array, a tensor) holds.
    """
    return _signature(value, ())


def _signature(value: object, around: tuple[int, ...]) -> str:
    """``around``: the ids of the objects that this one lies in, so that a ring ends."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if id(value) in around:
        return "..."
    inner = (*around, id(value))
    if isinstance(value, Mapping):
        pairs = sorted(f"{_signature(key, inner)}: {_signature(each, inner)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(_signature(each, inner) for each in value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_signature(each, inner) for each in value)}]"
    if isinstance(value, type | BuiltinFunctionType):
        return _name(value)
    options = [f"{name}={_signature(option, inner)}" for name, option in sorted(_options(value))]
    named = value if isinstance(value, FunctionType) else type(value)
    return f"{_name(named)}({', '.join(options)})"


def _name(value: type | FunctionType | BuiltinFunctionType) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _options(value: object) -> Iterator[tuple[str, object]]:
    """By name, each once."""
    if isinstance(value, FunctionType):
        closed = (cell.cell_contents for cell in value.__closure__ or ())
        yield from zip(value.__code__.co_freevars, closed, strict=True)
        yield from (
            each for each in (("defaults", value.__defaults__), ("by name", value.__kwdefaults__)) if each[1]
        )
    elif isinstance(value, MethodType):
        yield from (("function", value.__func__), ("of", value.__self__))
    elif isinstance(value, functools.partial):
        yield from (("arguments", value.args), ("by name", value.keywords), ("function", value.func))
    elif is_dataclass(value):
        yield from ((each.name, getattr(value, each.name)) for each in fields(value))
    else:
        yield from _state(value).items()


def _state(value: object) -> Mapping[str, object]:
    """The attributes, those in slots too; none for what is written in C."""
    try:
        state: Any = value.__getstate__()  # a dictionary, None, or a pair of them, or whatever a class makes of it
    except TypeError:
        return {}
    parts = state if isinstance(state, tuple) else (state,)
    found = {name: option for part in parts if isinstance(part, dict) for name, option in part.items()}
    return found or ({} if state is None else {"state": state})
