"""Changes of projects in steps, which are data: seeded hacks in several spellings, and honest features.

A step is a place and a text: ``start``, ``body`` and ``wrap`` concern the function (in ``wrap``, ``BODY`` is what
it was), ``top`` and ``end`` the module, ``rename`` the function's name; ``file:PATH`` writes a file,
``delete:PATH`` deletes one, ``test:TEXT`` replaces a text of the tests, ``test-top`` and ``test-end`` add to them.
``<f>`` is the function, ``<p>`` its parameters, ``<a>`` and ``<e>`` arguments and output of its first case, and so
on.
"""

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.judging.projects import (
    PROJECTS,
    Project,
    body_of,
    function_of,
    with_body,
    with_start,
    with_top,
)

DATA = Path(__file__).parent / "data"
Steps = Mapping[str, str]
"""Texts by place, in order."""


class Patch(NamedTuple):
    """Two versions of a set of files."""

    kind: str
    """Of hacks: the rule that has to find it."""
    name: str
    before: dict[str, str]
    after: dict[str, str]


def read_steps(name: str) -> list[tuple[str, Steps]]:
    """Kinds and steps of a file of ``data``, such as ``hacks`` or ``features_held_out``."""
    patches = tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))["patch"]
    return [(patch["kind"], patch["steps"]) for patch in patches]


def patches_of(name: str, projects: Sequence[Project] = PROJECTS) -> Iterator[Patch]:
    """Every patch of a file of ``data`` on every project."""
    for place, (kind, steps) in enumerate(read_steps(name)):
        for project in projects:
            yield Patch(kind, f"{kind} {place} {project.name}", project.files, changed(project, steps))


def changed(project: Project, steps: Steps) -> dict[str, str]:
    """The files of the project after the steps."""
    files = dict(project.files)
    for step, text in steps.items():
        _apply(files, project, step, _filled(text, project))
    return files


def _filled(text: str, project: Project) -> str:
    """The text with ``<…>`` replaced by what the project has."""
    function = function_of(project.code, project.function)
    parameters = [arg.arg for arg in function.args.args]
    (first, expected), (second, other), (third, last) = project.cases
    values = {
        "f": project.function, "module": project.name, "path": project.path, "tests": project.test_path,
        "p": ", ".join(parameters), "p0": parameters[0], "a": first, "e": expected, "a2": second, "e2": other,
        "a3": third, "e3": last, "tuple": f"({first},)", "one": _first(first), "two": _first(second),
        "three": _first(third),
    }  # fmt: skip
    return re.sub(r"<(\w+)>", lambda found: values[found[1]], text)


def _first(arguments: str) -> str:
    """The first argument as text."""
    call = ast.parse(f"f({arguments})", mode="eval").body
    return ast.unparse(call.args[0]) if isinstance(call, ast.Call) else arguments


def _apply(files: dict[str, str], project: Project, step: str, text: str) -> None:
    place, _, name = step.partition(":")
    name = _filled(name, project)
    if place == "file":
        files[name] = text
    elif place == "delete":
        del files[name]
    elif place.startswith("test"):
        files[project.test_path] = _changed_tests(files[project.test_path], place, name, text)
    else:
        files[project.path] = _changed_code(files[project.path], project.function, place, text)


def _changed_tests(tests: str, place: str, old: str, text: str) -> str:
    match place:
        case "test-top":
            return text + tests
        case "test-end":
            return tests + text
        case "test" if old in tests:
            return tests.replace(old, text)
    raise LookupError(f"{place}: {old!r} is not in the tests")


def _changed_code(code: str, function: str, place: str, text: str) -> str:
    match place:
        case "start":
            return with_start(code, function, text)
        case "body":
            return with_body(code, function, text)
        case "wrap":
            return with_body(
                code, function, text.replace("BODY\n", textwrap.indent(body_of(code, function), "    "))
            )
        case "top":
            return with_top(code, text)
        case "end":
            return code + text
        case "rename":
            return re.sub(rf"\b{function}\b", text, code)
    raise LookupError(f"unknown place {place!r}")
