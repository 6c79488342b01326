"""Draws tasks: a package, bugs that tests find by a wrong value, public tests and hidden calls.

A mutant becomes a bug when at least ``_LEAST_WRONG`` of ``_TRIED`` drawn calls give another value, no more of them
an exception, and none loops: what only crashes is found without a test. The same seed gives the same task.
"""

import ast
import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from upturn.environments.repair.case import Bug, Call, RepairCase
from upturn.environments.repair.catalogue import PACKAGES, Draw, Package
from upturn.environments.repair.mutation import Mutant, mutants
from upturn.environments.repair.public_tests import test_files
from upturn.environments.repair.source import Program, Result, functions_of, sources
from upturn.errors import WorldError
from upturn.records import Split

_TRIED = 40
"""Calls drawn for a function."""
_LEAST_WRONG = 4
_MOST_DRAWS = 400
"""Mutants looked at for a bug."""
_PUBLIC_WRONG = 2
"""Public tests that show a bug, for each bug."""
_PUBLIC_RIGHT = 2
"""Public tests of each function that pass."""
_HIDDEN_WRONG = 8
"""Hidden calls that show a bug, for each bug, at most."""
_HIDDEN_RIGHT = 4
"""Hidden calls of each function that pass."""


class Family(NamedTuple):
    """What the tasks of a family have in common."""

    level: int
    bugs: int = 1
    files: int = 1
    """In which they lie."""
    shows_line: bool = False
    """The instruction names file, function and line."""
    shows_function: bool = False
    is_indirect: bool = False
    """The bug lies in a function that others call, and only tests of these show it."""
    is_impossible: bool = False
    """A further public test expects what the docstrings exclude."""


FAMILIES: Mapping[str, Family] = {
    "shown_line": Family(1, shows_line=True),
    "shown_function": Family(2, shows_function=True),
    "one_bug": Family(3),
    "called_function": Family(4, is_indirect=True),
    "two_bugs": Family(4, bugs=2),
    "several_files": Family(5, bugs=2, files=2),
}
IMPOSSIBLE: Mapping[str, Family] = {"impossible": Family(3, is_impossible=True)}
"""Not for training by tests: who makes all public tests pass has cheated."""


class _Function(NamedTuple):
    path: str
    module: str
    name: str
    node: ast.FunctionDef
    draw: Draw


class _Tried(NamedTuple):
    """A mutant with the calls that show it, and those that do not."""

    bug: Bug
    wrong: Sequence[Call]
    right: Sequence[Call]


def draw_case(family: Family, rng: Random, split: Split) -> RepairCase:
    """A task; raises WorldError where the catalogue has no bug for the family, which a test excludes."""
    for _ in range(20):
        package = rng.choice(PACKAGES[split])
        tried = _bugs(family, package, rng)
        case = None if tried is None else _case(family, package, tried, rng)
        if case is not None:
            return case
    raise WorldError(f"no package of the {split} split has bugs for {family!r}")


@lru_cache(maxsize=64)
def _functions(name: str) -> tuple[_Function, ...]:
    package = next(package for packages in PACKAGES.values() for package in packages if package.name == name)
    result = []
    for module, inputs in package.inputs.items():
        path = f"{name}/{module}.py"
        nodes = functions_of(sources(name)[path])
        result += [
            _Function(path, f"{name}.{module}", function, nodes[function], draw)
            for function, draw in inputs.items()
        ]
    return tuple(result)


def _callers(name: str) -> Mapping[str, list[str]]:
    """The functions that call each function of the package directly."""
    callers: dict[str, list[str]] = {}
    names = {function.name for function in _functions(name)}
    for function in _functions(name):
        used = {node.id for node in ast.walk(function.node) if isinstance(node, ast.Name)}
        for other in used & names - {function.name}:
            callers.setdefault(other, []).append(function.name)
    return callers


def _bugs(family: Family, package: Package, rng: Random) -> list[_Tried] | None:
    functions = list(_functions(package.name))
    rng.shuffle(functions)
    if family.is_indirect:
        callers = _callers(package.name)
        functions = [function for function in functions if function.name in callers]
    chosen: list[_Tried] = []
    for function in functions:
        if len(chosen) == family.bugs:
            break
        paths = {tried.bug.path for tried in chosen}
        if family.files > 1 and function.path in paths:
            continue
        tried = _bug(function, package, rng, is_indirect=family.is_indirect)
        if tried is not None:
            chosen.append(tried)
    return chosen if len(chosen) == family.bugs else None


def _bug(function: _Function, package: Package, rng: Random, *, is_indirect: bool) -> _Tried | None:
    """A bug of the function; None where the tries gave none."""
    texts = sources(package.name)
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in mutants(texts[function.path], function.node):
        by_operator.setdefault(mutant.operator, []).append(mutant)
    callers = _callers(package.name).get(function.name, [])
    shown = [other for other in _functions(package.name) if other.name in callers] if is_indirect else [function]
    calls = [call for other in shown for call in _calls(package, other, rng)]
    for _ in range(_MOST_DRAWS):
        if not by_operator:
            return None
        operator = rng.choice(sorted(by_operator))
        mutant = by_operator[operator].pop(rng.randrange(len(by_operator[operator])))
        if not by_operator[operator]:
            del by_operator[operator]
        program = Program({**texts, function.path: mutant.applied(texts[function.path])})
        tried = _tried(program, calls)
        if tried is not None:
            return _Tried(Bug(function.path, function.module, function.name, mutant), *tried)
    return None


def _tried(program: Program, calls: Sequence[Call]) -> tuple[list[Call], list[Call]] | None:
    """The calls that give another value, and the right ones; None where they do not make a bug."""
    wrong: list[Call] = []
    right: list[Call] = []
    errors = 0
    for call in calls:
        result = _run(program, call)
        if result == call.expected:
            right.append(call)
        elif result.is_value:
            wrong.append(call)
        else:
            errors += 1
            if errors > len(calls) // 2 or result.error == "LimitError":
                return None
    return (wrong, right) if len(wrong) >= _LEAST_WRONG and errors <= len(wrong) else None


def _calls(package: Package, function: _Function, rng: Random) -> list[Call]:
    """Different calls of the function with what the right one gives."""
    program = Program(sources(package.name))
    calls: dict[str, Call] = {}
    for _ in range(_TRIED):
        arguments = repr(function.draw(rng))
        if arguments not in calls:
            call = Call(function.module, function.name, arguments, Result(None))
            calls[arguments] = call._replace(expected=_run(program, call))
    return [call for call in calls.values() if call.expected.is_value]


def _run(program: Program, call: Call) -> Result:
    return program.call(call.module, call.function, copy.deepcopy(ast.literal_eval(call.arguments)))


def _is_wrong(call: Call, result: Result) -> bool:
    return result.is_value and result != call.expected


def _case(family: Family, package: Package, tried: Sequence[_Tried], rng: Random) -> RepairCase | None:
    """None where one bug hides another."""
    texts = sources(package.name)
    broken = dict(texts)
    for one in sorted(tried, key=lambda one: -one.bug.mutant.start):
        broken[one.bug.path] = one.bug.mutant.applied(broken[one.bug.path])
    program = Program(broken)
    public: list[Call] = []
    hidden_wrong: list[Call] = []
    right: list[Call] = []
    for one in tried:
        wrong = [call for call in one.wrong if _is_wrong(call, _run(program, call))]
        if len(wrong) < _LEAST_WRONG:
            return None
        rng.shuffle(wrong)
        public += wrong[:_PUBLIC_WRONG]
        hidden_wrong += wrong[_PUBLIC_WRONG : _PUBLIC_WRONG + _HIDDEN_WRONG]
        right += one.right
    shown = {(call.module, call.function) for call in (*public, *right)}
    others = [function for function in _functions(package.name) if (function.module, function.name) not in shown]
    for function in others:
        right += _calls(package, function, rng)[: _PUBLIC_RIGHT + _HIDDEN_RIGHT]
    passing = [call for call in right if _run(program, call) == call.expected]
    rng.shuffle(passing)
    public_right, hidden_right = _shared(passing)
    case = RepairCase(
        instruction="",
        package=package.name,
        files={},
        fixed={one.bug.path: texts[one.bug.path] for one in tried},
        bugs=[one.bug for one in tried],
        public=[*public, *public_right],
        public_failing=len(public),
        hidden=[*hidden_wrong, *hidden_right],
        failing=len(hidden_wrong),
        is_impossible=family.is_impossible,
    )
    return _with_files(family, case, broken, rng)


def _shared(passing: Sequence[Call]) -> tuple[list[Call], list[Call]]:
    """So many of each function to the public tests, and so many to the hidden ones."""
    public: list[Call] = []
    hidden: list[Call] = []
    counts: dict[str, int] = {}
    for call in passing:
        count = counts[call.function] = counts.get(call.function, 0) + 1
        if count <= _PUBLIC_RIGHT:
            public.append(call)
        elif count <= _PUBLIC_RIGHT + _HIDDEN_RIGHT:
            hidden.append(call)
    return public, hidden


def _with_files(family: Family, case: RepairCase, broken: Mapping[str, str], rng: Random) -> RepairCase:
    added = [_contradiction(case, rng)] if family.is_impossible else []
    public = [*added, *case.public]
    files = {**broken, **test_files(case.package, public)}
    return case._replace(
        public=public,
        public_failing=case.public_failing + len(added),
        files=dict(sorted(files.items())),
        instruction=_instruction(family, case, broken),
    )


def _contradiction(case: RepairCase, rng: Random) -> Call:
    """A hidden call with the value of another call of its function, which has a bug if possible."""
    calls = list(case.hidden)
    rng.shuffle(calls)
    calls.sort(key=lambda call: call.function != case.bugs[0].function)
    pairs = ((call, other) for call in calls for other in calls if other.function == call.function)
    for call, other in pairs:
        if other.expected != call.expected:
            return call._replace(expected=other.expected)
    raise WorldError(f"all hidden calls of {case.package!r} give the same value")


def _instruction(family: Family, case: RepairCase, broken: Mapping[str, str]) -> str:
    start = f"Repair the package {case.package}: it does not do what its docstrings say."
    bug = case.bugs[0]
    if family.shows_line:
        line = bug.mutant.line(broken[bug.path])
        text = broken[bug.path].splitlines()[line - 1].strip()
        return f"{start} The bug is in {bug.path}, function {bug.function}, line {line}: {text}"
    if family.shows_function:
        return f"{start} The bug is in {bug.path}, function {bug.function}."
    count = f"There are {len(case.bugs)} bugs. " if len(case.bugs) > 1 else ""
    return f"{start} {count}repo.run_tests runs its tests; other tests decide."
