"""Writes the generated pages of docs/ from the program itself; ``--check`` fails when they are stale.

The command line comes from the commands' parameters, the configuration from the fields of its classes and the
docstrings under them, the metrics from their list.
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.main import get_command as as_command

from upturn.cli import app
from upturn.config import CORE, TABLES, Settings, changed_settings, default_value, nested_settings
from upturn.loop.trainers import sections
from upturn.training.runs import GROUPS, METRICS

ROOT = Path(__file__).resolve().parent.parent
NOTICE = "<!-- Made by `make docs`; edit the program, not this file. -->"


def cli_page() -> str:
    """The reference of every command as Markdown."""
    lines = [
        NOTICE,
        "# Command line",
        "",
        "`make` puts the command at `.venv/bin/upturn`. With `--json` a command prints one JSON object on standard",
        "output and nothing else; progress goes to standard error. Exit codes: 0 success, 1 failure, 2 wrong usage",
        "or configuration, 130 stopped by Ctrl-C. A missed bar is a failure of commands that check something, such",
        "as `env validate`, `pool ready` and `release simulate`; runs report it and end with 0.",
    ]
    root = as_command(app)
    context = typer.Context(root, info_name="upturn")
    for command, names in _commands(root, context, ("upturn",)):
        lines += ["", f"{'#' * min(len(names), 3)}# `{' '.join(names)}`", "", _sentence(command.help)]
        lines += _parameter_table(command, context)
    return "\n".join(lines) + "\n"


def _commands(command: Any, context: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The command and everything below it, in help order."""
    yield command, names
    if not hasattr(command, "list_commands"):
        return
    for name in command.list_commands(context):
        _, inner, _ = command.resolve_command(context, [name])
        yield from _commands(inner, typer.Context(inner, info_name=name, parent=context), (*names, name))


def _parameter_table(command: Any, context: Any) -> list[str]:
    rows = [
        (_spelling(parameter, context), _default(parameter), _sentence(parameter.help))
        for parameter in command.params
        if not parameter.hidden and parameter.name != "help"
    ]
    if not rows:
        return []
    return ["", "| parameter | default | meaning |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]


def _spelling(parameter: Any, context: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    spelled = " / ".join([*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag else f" {parameter.display_type(context)}"
    return f"`{spelled}{value}`".replace("|", "\\|")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False or default in ("", ()) or callable(default):
        return ""
    return f"`{getattr(default, 'value', default)}`"


def _sentence(text: str | None) -> str:
    """The text on one line, without rst's double backticks."""
    return " ".join((text or "").replace("``", "`").split()).replace("|", "\\|")


def configuration_page() -> str:
    """The reference of every setting as Markdown."""
    lines = [
        NOTICE,
        "# Configuration: `upturn.toml`",
        "",
        "One file holds all settings of a run. Unknown keys are errors, all problems are reported together",
        "before any work, and a setting without effect in the chosen combination is an error that names both",
        "settings. The resolved configuration with all defaults is saved with each run, and its hash is on every",
        "record. The smallest file that works (the shipped model in the office):",
        "",
        "```toml",
        "[[agents]]",
        'name = "nano"',
        'kind = "local_model"',
        'model = "nano"',
        "```",
        "",
        "A setting that is a table links to that table and lists the defaults that differ from the table's:",
        "`[grpo.objective]` and `[ppo.objective]` have the same settings. `false` removes an optional table or",
        "number, `true` sets an optional table with its defaults.",
    ]
    shown = dict(CORE) | dict(sections())
    for name, kind in shown.items():
        lines += _section_lines(kind, TABLES.get(name, f"[{name}]"), kind.__doc__)
    tables: dict[type[Settings], str] = {}
    waiting = [*shown.values()]
    while waiting:
        for name, inner in _tables(waiting.pop(0)).items():
            if inner not in tables:
                tables[inner] = name
                waiting.append(inner)
    for kind in sorted(tables, key=lambda table: table.__name__):
        if kind not in CORE.values():
            lines += _section_lines(kind, kind.__name__, kind.__doc__)
    return "\n".join(lines) + "\n"


def _section_lines(kind: type[Settings], heading: str, text: str | None) -> Iterator[str]:
    """Heading, text and table of a section."""
    yield from ("", f"## `{heading}`", "", _sentence(text), "")
    yield from ("| setting | type | default | meaning |", "|---|---|---|---|")
    hints, meanings = get_type_hints(kind, include_extras=True), _meanings(kind)
    nested = nested_settings(kind)
    for field in fields(kind):
        default, inner = default_value(field), nested.get(field.name)
        shown = _type_text(hints[field.name]) if inner is None else f"[table](#{_anchor(inner)})"
        yield f"| `{field.name}` | {shown} | {_default_of_field(default)} | {_sentence(meanings[field.name])} |"


def _tables(kind: type[Settings]) -> Mapping[str, type[Settings]]:
    """The class of each field that is a table or a list of tables."""
    hints = get_type_hints(kind, include_extras=True)
    lists = {name: get_args(hint)[0] for name, hint in hints.items() if get_origin(hint) is tuple}
    return {**nested_settings(kind), **{name: inner for name, inner in lists.items() if _is_table(inner)}}


def _is_table(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)


def _anchor(kind: type[Settings]) -> str:
    core = {section: name for name, section in CORE.items()}
    return core.get(kind, kind.__name__.lower())


def _default_of_field(value: Any) -> str:
    """The default as in the file; of a table only the differences from the table's defaults."""
    if value is MISSING:
        return "required"
    if not isinstance(value, Settings):
        return _toml(value)
    names = [field.name for field in fields(value) if default_value(field) is MISSING]
    names += [name for name, _ in changed_settings(value, "") if "." not in name and name not in names]
    plain = {name: getattr(value, name) for name in names if not is_dataclass(getattr(value, name))}
    return f"`{_toml_value(plain)}`" if plain else ""


def _meanings(kind: type[Settings]) -> Mapping[str, str]:
    """The docstring under each field, in the class or the nearest base."""
    meanings: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if issubclass(cls, Settings) and cls is not Settings:
            source = inspect.getsource(inspect.getmodule(cls))  # type: ignore[arg-type]
            docstrings = field_docstrings(source)
            meanings |= {name: text for (owner, name), text in docstrings.items() if owner == cls.__name__}
    return meanings


def field_docstrings(source: str) -> dict[tuple[str, str], str]:
    """The docstring under each field, by class and field name; fields without one are omitted."""
    docstrings: dict[tuple[str, str], str] = {}
    for cls in ast.parse(source).body:
        if not isinstance(cls, ast.ClassDef):
            continue
        for node, after in zip(cls.body, cls.body[1:], strict=False):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                docstrings[cls.name, node.target.id] = str(after.value.value)
    return docstrings


def _type_text(annotation: Any) -> str:
    """A type in plain English."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_text(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{_quoted(value)}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_type_text(member) for member in arguments if member is not NoneType)
    if origin is tuple and _is_table(arguments[0]):
        return f"list of [tables](#{_anchor(arguments[0])})"
    if origin is tuple:
        return f"list of {_type_text(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"table of {_type_text(arguments[1])} by {_type_text(arguments[0])}"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[annotation]


def _quoted(value: object) -> str:
    return f'"{value}"'


def _toml(value: object) -> str:
    """A default as in the file; a dash for None."""
    if value is None:
        return "–"
    return f"`{_toml_value(value)}`"


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_toml_value(item)}' for name, item in value.items())}}}"
    return str(value)


def metrics_page() -> str:
    """The meaning of every number on a training curve as Markdown."""
    lines = [
        NOTICE,
        "# Metrics of a training run",
        "",
        "A training run writes one point after each unit (an iteration, or in supervised training an optimiser",
        "step) into its folder: `curve.jsonl`, one JSON object a line with `units`, `steps` (of the optimiser, so",
        "far) and the metrics below, `null` where a number was not finite; the same in `tensorboard/`, under group",
        "and name, such as `policy/entropy`; and at any time `upturn train report` makes `report.html` of it.",
        "",
        "A resumed run truncates its files to the checkpoint, so every unit is in them once. All metrics are those",
        "of an uninterrupted run, except for times and `verify_gap`, which is measured again on other rows.",
        "",
        "A custom algorithm may add metrics; they are shown under “Other”.",
    ]
    for group, title in GROUPS.items():
        metrics = [metric for metric in METRICS if metric.group == group]
        if metrics:
            lines += ["", f"## {title}", "", "| metric | unit | meaning |", "|---|---|---|"]
            lines += [
                f"| `{metric.name}` | {metric.unit} | {metric.meaning.replace('|', chr(92) + '|')} |"
                for metric in metrics
            ]
    return "\n".join(lines) + "\n"


PAGES = {
    "docs/cli.md": cli_page,
    "docs/configuration.md": configuration_page,
    "docs/training_metrics.md": metrics_page,
}


def main() -> int:
    """Writes the pages, or with ``--check`` returns 1 when one differs from what would be written."""
    parser = argparse.ArgumentParser(description="Write the generated pages of the documentation.")
    parser.add_argument("--check", action="store_true", help="fail when a page is stale instead of writing it")
    is_check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        path, text = ROOT / name, page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not is_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    if is_check and stale:
        print(f"stale: {', '.join(stale)}; run make docs and commit the result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
