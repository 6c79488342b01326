"""Mutation tests of a verifier: oracle solutions with one fact wrong, or with one extra change.

A fact is any difference between the initial state and the oracle's final state. Each is undone, dropped, doubled
and replaced by a near miss, one at a time, except where the kit allows it (``may_differ``). An extra change is one
more action in the oracle solution that changes the state. A mutant is killed when the verifier does not accept it;
a verifier that raises kills it too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from upturn.environments.scripted_policy import fixed_policy, play
from upturn.environments.validation.case import MAX_TURNS, Case, Solution, was_refused
from upturn.records import JsonValue, Trajectory

Path: TypeAlias = tuple[str, ...]
_Put: TypeAlias = Callable[[JsonValue], JsonValue]
"""The whole state with this value at one path."""
_MAX_EXTRA = 3
"""Extra changes tried per task."""


class Mutant(NamedTuple):
    """A state with one fact wrong."""

    kind: str
    """``undone``, ``dropped``, ``doubled`` or ``replaced``."""
    path: Path
    value: JsonValue
    """The value at the path; None = missing."""
    state: JsonValue


class Kills(NamedTuple):
    """A verifier's result on one task."""

    killed: int
    tried: int
    survivor: str
    """A description of the first mutant not killed; empty = none."""


class Difference(NamedTuple):
    """A path at which two states differ."""

    path: Path
    value: JsonValue
    """The value in the second state; None = missing."""


def mutants(before: JsonValue, after: JsonValue) -> Iterator[Mutant]:
    """All mutants of the differences between the two states."""
    return _mutants_of_change(before, after, (), lambda value: value)


def differences(left: JsonValue, right: JsonValue, path: Path = ()) -> Iterator[Difference]:
    """The innermost paths at which two states differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys((*left, *right)):
            yield from differences(left.get(key), right.get(key), (*path, key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (first, second) in enumerate(zip(left, right, strict=True)):
            yield from differences(first, second, (*path, str(index)))
    elif not _same(left, right):
        yield Difference(path, right)


def is_perfect(case: Case, solution: Solution, trajectory: Trajectory) -> bool:
    """Whether the trajectory's final state equals the oracle's, except where it may differ."""
    changes = differences(dict(solution.trajectory.final_state), dict(trajectory.final_state))
    return all(_may_differ(case, path, value) for path, value in changes)


def mutation_kills(case: Case, solution: Solution) -> Kills:
    """The counts over all mutants of the oracle solution."""
    killed = tried = 0
    survivor = ""
    for what, trajectory in (*_wrong_facts(case, solution), *_extra_changes(case, solution)):
        tried += 1
        if is_success(case, trajectory):
            survivor = survivor or f"{what} in {case.task.id!r} is still a success"
        else:
            killed += 1
    return Kills(killed, tried, survivor)


def is_success(case: Case, trajectory: Trajectory) -> bool:
    """The verifier's verdict; False where it raises."""
    try:
        return case.kit.verifier.verify(case.task, trajectory).is_success
    except (Exception, SystemExit):  # noqa: BLE001  third-party code: an error is never a success
        return False


def _wrong_facts(case: Case, solution: Solution) -> Iterator[tuple[str, Trajectory]]:
    environment = case.kit.environment(case.task)
    environment.reset(case.task)
    for mutant in mutants(dict(environment.state()), dict(solution.trajectory.final_state)):
        if not _may_differ(case, mutant.path, mutant.value) and isinstance(mutant.state, dict):
            what = f"{'/'.join(mutant.path)} {mutant.kind} ({mutant.value!r})"
            yield what, replace(solution.trajectory, final_state=mutant.state)


def _extra_changes(case: Case, solution: Solution) -> Iterator[tuple[str, Trajectory]]:
    candidates = [action for action in case.changing_calls if action not in solution.actions]
    for action in candidates[:: max(1, len(candidates) // _MAX_EXTRA)][:_MAX_EXTRA]:
        policy = fixed_policy((*solution.work, action, *solution.end))
        trajectory = play(case.kit.environment(case.task), case.task, policy, max_turns=MAX_TURNS)
        if not was_refused(trajectory, len(solution.work)) and not is_perfect(case, solution, trajectory):
            yield f"perfect work and {action!r}", trajectory


def _may_differ(case: Case, path: Sequence[str], value: JsonValue) -> bool:
    return case.oracle_kit is not None and case.oracle_kit.may_differ(case.task, path, value)


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Whether the values are equal and of the same kind (True is not 1)."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _mutants_of_change(before: JsonValue, after: JsonValue, path: Path, put: _Put) -> Iterator[Mutant]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        if not _same(before, after):
            yield Mutant("undone", path, before, put(before))
            yield from _mutants_of_value(after, path, put)
        return
    for key in dict.fromkeys((*before, *after)):
        inner_path = (*path, key)
        if key not in after:
            yield Mutant("undone", inner_path, before[key], put({**after, key: before[key]}))
        elif key in before:
            yield from _mutants_of_change(before[key], after[key], inner_path, _into(after, key, put))
        else:
            yield Mutant("dropped", inner_path, None, put(_without(after, key)))
            yield from _mutants_of_value(after[key], inner_path, _into(after, key, put))


def _mutants_of_value(value: JsonValue, path: Path, put: _Put) -> Iterator[Mutant]:
    """All mutants of a new value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield Mutant("dropped", (*path, key), None, put(_without(value, key)))
            yield from _mutants_of_value(inner, (*path, key), _into(value, key, put))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            inner_path = (*path, str(index))
            yield Mutant("dropped", inner_path, None, put([*value[:index], *value[index + 1 :]]))
            yield Mutant("doubled", inner_path, inner, put([*value[: index + 1], *value[index:]]))
            yield from _mutants_of_value(inner, inner_path, _at(value, index, put))
    else:
        for what, near_miss in _near_misses(value):
            yield Mutant(what, path, near_miss, put(near_miss))


def _into(container: dict[str, JsonValue], key: str, put: _Put) -> _Put:
    return lambda value: put({**container, key: value})


def _at(container: list[JsonValue], index: int, put: _Put) -> _Put:
    return lambda value: put([*container[:index], value, *container[index + 1 :]])


def _without(container: dict[str, JsonValue], key: str) -> dict[str, JsonValue]:
    return {name: value for name, value in container.items() if name != key}


def _near_misses(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, bool):
        yield "replaced", not value
    elif isinstance(value, int | float):
        yield "replaced", value + 1
        if value:
            yield "doubled", 2 * value
    elif isinstance(value, str):
        yield "replaced", str(int(value) + 1) if value.isascii() and value.isdigit() else f"{value}x"
        if value:
            yield "dropped", ""
            yield "doubled", f"{value} {value}"
    else:
        yield "replaced", "x"
