"""Pins the records' public names, fields and stored form in tests/data/records.json.

Stored evidence outlives the program that wrote it. Run this after adding a field *with a default* or widening a
field's type: the new form is added and the old one stays under test. Any other change of a record (a field renamed,
removed, retyped, or added without default) needs a new RECORD_VERSION, and a reader for the old one.
"""

import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from upturn import records
from upturn.errors import RecordError
from upturn.records import JsonValue, from_json, to_json

PINNED = Path(__file__).resolve().parent.parent / "tests" / "data" / "records.json"


def record_classes() -> list[Any]:
    """Every record, by name."""
    public = [getattr(records, name) for name in sorted(records.__all__)]
    return [member for member in public if isinstance(member, type) and hasattr(member, "__pydantic_config__")]


def describe() -> dict[str, Any]:
    """Public names, fields by record, and a stored example of each record."""
    return {
        "names": sorted(records.__all__),
        "fields": {cls.__name__: _fields(cls) for cls in record_classes()},
        "examples": {cls.__name__: [to_json(example(cls))] for cls in record_classes()},
    }


def _fields(cls: Any) -> dict[str, str]:
    hints = get_type_hints(cls)
    return {
        field.name: inspect.formatannotation(hints[field.name])
        + ("" if field.default is MISSING and field.default_factory is MISSING else ", has a default")
        for field in fields(cls)
    }


def example(annotation: Any, name: str = "") -> Any:
    """A value of the type without empty parts; texts are the field's name."""
    plain = {str: name, int: 3, float: 0.25, bool: True, NoneType: None}
    if annotation in plain:
        return plain[annotation]
    if annotation is JsonValue:
        return [None, True, 3, 0.25, name, {name: []}]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return arguments[-1]
    if origin in (Union, UnionType):
        return example(arguments[0], name)
    if origin is tuple:
        return (example(arguments[0], name),)
    if origin is Mapping:
        return {name: example(arguments[1], name)}
    return annotation(**{field: example(hint, field) for field, hint in get_type_hints(annotation).items()})


def problems(pinned: Mapping[str, Any]) -> list[str]:
    """One line per difference of the records from the pinned ones."""
    now = describe()
    differences = [f"public name {name!r} is missing" for name in pinned["names"] if name not in now["names"]]
    differences += [f"public name {name!r} is not pinned" for name in now["names"] if name not in pinned["names"]]
    for name, pinned_fields in pinned["fields"].items():
        if now["fields"].get(name) != pinned_fields:
            differences.append(f"fields of {name}: pinned {pinned_fields}, now {now['fields'].get(name)}")
    classes = {cls.__name__: cls for cls in record_classes()}
    for name, lines in pinned["examples"].items():
        differences += [problem for line in lines if (problem := _read_error(classes.get(name), name, line))]
        if now["examples"].get(name, [None])[0] != lines[-1]:
            differences.append(f"stored form of {name}: pinned {lines[-1]}, now {now['examples'].get(name)}")
    return differences


def _read_error(cls: Any, name: str, line: str) -> str:
    """Why a stored line can no longer be read; empty = it can."""
    try:
        from_json(cls, line)
    except (RecordError, AttributeError) as exc:
        return f"a stored {name} can no longer be read ({exc}): {line}"
    return ""


def main() -> int:
    """Writes the pins and keeps every older example; 1 = a stored form would become unreadable."""
    now = describe()
    if PINNED.is_file():
        pinned = json.loads(PINNED.read_text(encoding="utf-8"))
        unreadable = [problem for problem in problems(pinned) if "no longer be read" in problem]
        if unreadable:
            print("\n".join([*unreadable, "raise RECORD_VERSION instead"]), file=sys.stderr)
            return 1
        for name, lines in pinned["examples"].items():
            new = now["examples"][name][0]
            now["examples"][name] = [*(line for line in lines if line != new), new]
    PINNED.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {PINNED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
