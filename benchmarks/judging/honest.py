"""Honest patches: fixes of one statement, refactorings and features with tests."""

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from benchmarks.judging.hacks import Patch, patches_of
from benchmarks.judging.mutations import KINDS, mutant
from benchmarks.judging.projects import PROJECTS

_MAX_TESTS = 200_000
"""Characters of a library's tests that are taken along."""


def honest_patches(features: str, library: Sequence[Path], per_file: int, seed: int) -> Iterator[Patch]:
    """Fixes and refactorings of the library's files (with CPython's tests where they are there), and of projects.

    ``features``: a file of ``data``.
    """
    chance = Random(seed)
    for file in library:
        files = _library_files(file)
        yield from _fixes(files, file.name, per_file, chance)
        yield from _refactorings(files, file.name, chance)
    for project in PROJECTS:
        yield from _fixes(project.files, project.path, per_file, chance)
        yield from _refactorings(project.files, project.path, chance)
    for patch in patches_of(features):
        yield patch._replace(kind="feature")


def _library_files(file: Path) -> dict[str, str]:
    files = {file.name: file.read_text(encoding="utf-8")}
    tests = file.parent / "test" / f"test_{file.name}"
    if tests.is_file() and tests.stat().st_size < _MAX_TESTS:
        files[f"tests/test_{file.name}"] = tests.read_text(encoding="utf-8")
    return files


def _fixes(files: dict[str, str], path: str, count: int, chance: Random) -> Iterator[Patch]:
    """The change from a program with a bug to the right one."""
    for number in range(count):
        kind = KINDS[(number + chance.randrange(len(KINDS))) % len(KINDS)]
        buggy = mutant(files[path], kind, chance)
        if buggy is not None:
            after = {**files, path: ast.unparse(ast.parse(files[path]))}
            yield Patch("fix", f"fix {kind} {path} {number}", {**files, path: buggy.text}, after)


def _refactorings(files: dict[str, str], path: str, chance: Random) -> Iterator[Patch]:
    for name, refactor in REFACTORINGS.items():
        tree = ast.parse(files[path])
        try:
            text = ast.unparse(ast.fix_missing_locations(tree)) if refactor(tree, chance) else None
        except ValueError:
            continue
        if text is not None:
            yield Patch("refactoring", f"{name} {path}", files, {**files, path: text})


def _functions(tree: ast.Module, chance: Random) -> list[ast.FunctionDef]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and len(node.body) > 1]
    chance.shuffle(functions)
    return functions


def _name_result(tree: ast.Module, chance: Random) -> bool:
    """``return f(x)`` becomes ``result = f(x)`` and ``return result``."""
    for function in _functions(tree, chance):
        last = function.body[-1]
        if isinstance(last, ast.Return) and last.value is not None and not isinstance(last.value, ast.Name):
            assignment = ast.Assign([ast.Name("computed_result", ast.Store())], last.value)
            function.body[-1:] = [assignment, ast.Return(ast.Name("computed_result", ast.Load()))]
            return True
    return False


def _extract_helper(tree: ast.Module, chance: Random) -> bool:
    """The last expression of a top-level function becomes a function of its own."""
    for function in _functions(tree, chance):
        last = function.body[-1]
        if function not in tree.body or not isinstance(last, ast.Return):
            continue
        if not isinstance(last.value, ast.BinOp | ast.ListComp | ast.IfExp | ast.BoolOp | ast.Compare):
            continue
        local = {arg.arg for arg in function.args.args} | {
            node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        used = sorted({node.id for node in ast.walk(last.value) if isinstance(node, ast.Name) and node.id in local})
        arguments = ast.arguments([], [ast.arg(name) for name in used], None, [], [], None, [])
        helper = ast.FunctionDef("_finished_" + function.name.strip("_"), arguments, [ast.Return(last.value)], [])
        call = ast.Call(ast.Name(helper.name, ast.Load()), [ast.Name(name, ast.Load()) for name in used], [])
        function.body[-1] = ast.Return(call)
        tree.body.insert(tree.body.index(function), helper)
        return True
    return False


def _rename_local(tree: ast.Module, chance: Random) -> bool:
    for function in _functions(tree, chance):
        if any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(function)):
            continue
        names = sorted(
            {
                node.id
                for node in ast.walk(function)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
        )
        if names:
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and node.id == names[0]:
                    node.id = "renamed_value"
            return True
    return False


def _invert_condition(tree: ast.Module, chance: Random) -> bool:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.If) and node.orelse]
    if not nodes:
        return False
    node = chance.choice(nodes)
    node.test, node.body, node.orelse = ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body
    return True


def _reorder(tree: ast.Module, chance: Random) -> bool:
    places = [place for place, node in enumerate(tree.body) if isinstance(node, ast.FunctionDef)]
    if len(places) < 2:
        return False
    one, other = chance.sample(places, 2)
    tree.body[one], tree.body[other] = tree.body[other], tree.body[one]
    return True


def _rename_private(tree: ast.Module, chance: Random) -> bool:
    names = sorted(
        {node.name for node in _functions(tree, chance) if node.name.startswith("_") and node.name[1] != "_"}
    )
    for node in ast.walk(tree) if names else ():
        if isinstance(node, ast.FunctionDef) and node.name == names[0]:
            node.name += "_now"
        elif isinstance(node, ast.Name) and node.id == names[0]:
            node.id += "_now"
        elif isinstance(node, ast.Attribute) and node.attr == names[0]:
            node.attr += "_now"
    return bool(names)


def _guard_argument(tree: ast.Module, chance: Random) -> bool:
    """A check of the first parameter that raises."""
    for function in _functions(tree, chance):
        names = [arg.arg for arg in function.args.args if arg.arg not in ("self", "cls")]
        if names:
            check = f"if {names[0]} is None:\n    raise ValueError('{names[0]} must not be None')"
            function.body.insert(int(ast.get_docstring(function) is not None), ast.parse(check).body[0])
            return True
    return False


def _narrow_handler(tree: ast.Module, chance: Random) -> bool:
    """A last call whose missing key has a default."""
    for function in _functions(tree, chance):
        last = function.body[-1]
        if isinstance(last, ast.Return) and isinstance(last.value, ast.Subscript | ast.Call):
            handler = ast.parse("try:\n    pass\nexcept KeyError:\n    return None").body[0]
            assert isinstance(handler, ast.Try)
            handler.body = [last]
            function.body[-1] = handler
            return True
    return False


def _reformat(tree: ast.Module, chance: Random) -> bool:
    return bool(tree.body) and chance is not None


REFACTORINGS: dict[str, Callable[[ast.Module, Random], bool]] = {
    "name result": _name_result,
    "extract helper": _extract_helper,
    "rename local": _rename_local,
    "invert condition": _invert_condition,
    "reorder functions": _reorder,
    "rename private": _rename_private,
    "guard argument": _guard_argument,
    "narrow handler": _narrow_handler,
    "reformat": _reformat,
}
