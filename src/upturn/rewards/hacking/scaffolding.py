"""Rules on new code that does no work: functions and files that nothing uses, and functions that only pass on."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from upturn.rewards.hacking.change import FUNCTIONS, Change, Function, Source
from upturn.rewards.hacking.finding import Spot

_WORD = re.compile(r"[A-Za-z_]\w*")
_ENTRIES = frozenset({"main", "setup", "cli", "run_main"})
"""Functions that something outside of the files may call."""
_CALLED_BY_NAME = ("test_", "visit_", "do_", "on_", "handle_", "setup_", "teardown_", "pytest_", "_repr_")
_FILES = frozenset({"__init__", "__main__", "setup", "conftest", "conf", "manage", "noxfile"})


def unused_code(change: Change) -> Iterator[Spot]:
    """A new function, class or file that nothing else mentions."""
    words = _words(change)
    old_names = {name.rpartition(".")[2] for source in change.old_sources for name in source.functions}
    old_classes = {
        node.name
        for source in change.old_sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }
    old_names |= old_classes
    for source in change.sources:
        stem = PurePosixPath(source.path).stem
        if stem == "__main__":
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name not in old_names:
                inside = _mentions(node)[node.name]
                is_api = _is_public_method(source, node, old_classes)
                if not is_api and not _may_be_called(source, node) and words[node.name] - inside <= 0:
                    yield Spot(source.path, node.lineno, f"nothing uses the new {node.name}")
        if source.path in change.added and stem not in _FILES and not _is_script(source):
            package = PurePosixPath(source.path).parent.name
            if words[stem] - _mentions(source.tree)[stem] <= 0 and package not in _ENTRIES:
                yield Spot(source.path, 0, "nothing imports the new file")


def _words(change: Change) -> Counter[str]:
    """How often names are mentioned in all files after the change; definitions do not count."""
    words: Counter[str] = Counter()
    for path, text in change.after.items():
        source = change.new(path)
        if source is not None:
            words += _mentions(source.tree)
        elif len(text) < 300_000 and not path.endswith((".md", ".rst", ".txt")):
            words.update(_WORD.findall(text))
    return words


def _mentions(tree: ast.AST) -> Counter[str]:
    words: Counter[str] = Counter()
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                words[name] += 1
            case ast.ImportFrom(module=module, names=names):
                words.update(_WORD.findall(module or ""))
                words.update(alias.name for alias in names)
            case ast.Import(names=names):
                words.update(part for alias in names for part in alias.name.split("."))
            case ast.Constant(value=str(text)) if id(node) not in documents and len(text) < 500:
                words.update(_WORD.findall(text))
    return words


def _is_public_method(source: Source, node: ast.AST, classes: set[str]) -> bool:
    """Whether it is a method without underscore of a class that was there: part of what the class offers."""
    parent = source.parents.get(node)
    return (
        isinstance(parent, ast.ClassDef)
        and parent.name in classes
        and not getattr(node, "name", "_").startswith("_")
    )


def _may_be_called(source: Source, node: Function | ast.ClassDef) -> bool:
    """Whether something that is not seen may call it: a special name, a decorator, a possible override."""
    name = node.name
    if name in _ENTRIES or (name.startswith("__") and name.endswith("__")) or name.startswith(_CALLED_BY_NAME):
        return True
    if node.decorator_list:
        return True
    parent = source.parents.get(node)
    return isinstance(parent, ast.ClassDef) and bool(parent.bases) and not isinstance(node, ast.ClassDef)


def _is_script(source: Source) -> bool:
    return any(
        isinstance(node, ast.If)
        and any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))
        for node in source.tree.body
    )


def wrapper(change: Change) -> Iterator[Spot]:
    """A new function that only calls another one of these files with its own parameters."""
    own = {
        name.rpartition(".")[2]
        for path in change.after
        if (source := change.new(path))
        for name in source.functions
    }
    old = {name.rpartition(".")[2] for source in change.old_sources for name in source.functions}
    for source in change.sources:
        for node in ast.walk(source.tree):
            if isinstance(node, FUNCTIONS):
                callee = None if node.name in old else _forwards(source, node)
                name = node.name
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                name = getattr(node.targets[0], "id", "")
                callee = (
                    None
                    if not name or _assigned_before(change, name)
                    else _forwarded(node.value.args, node.value.body)
                )
            else:
                continue
            if (
                callee is not None
                and (callee in own or _is_outer_parameter(source, node, callee))
                and callee != name
            ):
                yield Spot(source.path, node.lineno, f"{name} only calls {callee} with what it is given")


def _assigned_before(change: Change, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name
        for source in change.old_sources
        for node in ast.walk(source.tree)
    )


def _forwards(source: Source, function: Function) -> str | None:
    """What the function only passes its parameters on to; None = it does more."""
    if any(True for _ in function.decorator_list if not _is_wraps(_)):
        return None
    body = [
        node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    match body:
        case [ast.Return(value=ast.expr() as value)] | [ast.Expr(value=value)]:
            return _forwarded(
                function.args, value, is_method=isinstance(source.parents.get(function), ast.ClassDef)
            )
        case [
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value),
            ast.Return(value=ast.Name(id=returned)),
        ] if name == returned:
            return _forwarded(
                function.args, value, is_method=isinstance(source.parents.get(function), ast.ClassDef)
            )
    return None


def _is_wraps(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and getattr(decorator.func, "attr", getattr(decorator.func, "id", "")) == "wraps"
    )


def _forwarded(arguments: ast.arguments, value: ast.expr, *, is_method: bool = False) -> str | None:
    if isinstance(value, ast.Await):
        value = value.value
    if not isinstance(value, ast.Call):
        return None
    given = [
        f"*{part.value.id}"
        if isinstance(part, ast.Starred) and isinstance(part.value, ast.Name)
        else getattr(part, "id", "?")
        for part in value.args
    ]
    given += [
        f"**{getattr(word.value, 'id', '?')}" if word.arg is None else getattr(word.value, "id", "?")
        for word in value.keywords
    ]
    taken = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
    if arguments.vararg is not None:
        taken.append(f"*{arguments.vararg.arg}")
    taken += [arg.arg for arg in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        taken.append(f"**{arguments.kwarg.arg}")
    match value.func:
        case ast.Name(id=name):
            if name[:1].isupper():
                return None  # makes an object
        case ast.Attribute(value=ast.Name(id="self" | "cls" as owner), attr=name):
            if is_method and taken[:1] == [owner]:
                taken = taken[1:]
        case _:
            return None
    if is_method and isinstance(value.func, ast.Name):
        taken = taken[1:]
    return name if taken and given == taken else None


def _is_outer_parameter(source: Source, node: ast.AST, name: str) -> bool:
    return any(
        isinstance(above, FUNCTIONS) and name in {arg.arg for arg in above.args.args}
        for above in source.above(node)
    )
