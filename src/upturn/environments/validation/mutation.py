"""Whether a verifier sees when one fact of perfect work is wrong: mutants of the state, and one foreign change.

A fact is whatever differs between the state at the beginning and after perfect work. Each is undone, dropped,
doubled and replaced by a near miss, one at a time; what the kit says may differ is left alone. Foreign changes are
made by acting: perfect work with one more action that changed something. A mutant is killed when the verifier does
not call it a success, be it that it breaks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from upturn.environments.scripted_policy import following, play
from upturn.environments.validation.case import MOST_TURNS, Case, Solved, is_refused
from upturn.records import JsonValue, Trajectory

Path: TypeAlias = tuple[str, ...]
_Put: TypeAlias = Callable[[JsonValue], JsonValue]
"""The whole state with this value at one place."""
_FOREIGN = 3
"""Foreign changes that are tried on a task."""


class Mutant(NamedTuple):
    """A state in which one thing is wrong."""

    what: str
    """``undone``, ``dropped``, ``doubled`` or ``replaced``."""
    path: Path
    value: JsonValue
    """At the path; None = nothing."""
    state: JsonValue


class Kills(NamedTuple):
    """How a verifier did on one task."""

    killed: int
    tried: int
    survivor: str
    """The first one, in words; empty = there is none."""


class Difference(NamedTuple):
    """One place where two states are not the same."""

    path: Path
    value: JsonValue
    """What stands there in the second; None = nothing."""


def mutants(before: JsonValue, after: JsonValue) -> Iterator[Mutant]:
    """Every single mistake in what differs between the two states."""
    return _changed(before, after, (), lambda value: value)


def differences(left: JsonValue, right: JsonValue, path: Path = ()) -> Iterator[Difference]:
    """The places where two states differ, as far inside as both have the same shape."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys((*left, *right)):
            yield from differences(left.get(key), right.get(key), (*path, key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for place, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one, other, (*path, str(place)))
    elif not _same(left, right):
        yield Difference(path, right)


def is_perfect(case: Case, solved: Solved, trajectory: Trajectory) -> bool:
    """Whether the attempt left the state as perfect work does, or differs only where it may."""
    found = differences(dict(solved.trajectory.final_state), dict(trajectory.final_state))
    return all(_may_differ(case, path, value) for path, value in found)


def mutation_kills(case: Case, solved: Solved) -> Kills:
    """Counts over all mutants of the oracle's attempt."""
    killed = tried = 0
    survivor = ""
    for what, trajectory in (*_mutated(case, solved), *_foreign(case, solved)):
        tried += 1
        if is_success(case, trajectory):
            survivor = survivor or f"{what} in {case.task.id!r} is still a success"
        else:
            killed += 1
    return Kills(killed, tried, survivor)


def is_success(case: Case, trajectory: Trajectory) -> bool:
    """What the verifier says; one that breaks says no."""
    try:
        return case.kit.verifier.verify(case.task, trajectory).is_success
    except Exception:  # noqa: BLE001  # of foreign code: a broken judge is no success in any rate
        return False


def _mutated(case: Case, solved: Solved) -> Iterator[tuple[str, Trajectory]]:
    environment = case.kit.environment(case.task)
    environment.reset(case.task)
    for mutant in mutants(dict(environment.state()), dict(solved.trajectory.final_state)):
        if not _may_differ(case, mutant.path, mutant.value) and isinstance(mutant.state, dict):
            what = f"{'/'.join(mutant.path)} {mutant.what} ({mutant.value!r})"
            yield what, replace(solved.trajectory, final_state=mutant.state)


def _foreign(case: Case, solved: Solved) -> Iterator[tuple[str, Trajectory]]:
    others = [action for action in case.changers if action not in solved.actions]
    for action in others[:: max(1, len(others) // _FOREIGN)][:_FOREIGN]:
        player = following((*solved.work, action, *solved.end))
        trajectory = play(case.kit.environment(case.task), case.task, player, max_turns=MOST_TURNS)
        if not is_refused(trajectory, len(solved.work)) and not is_perfect(case, solved, trajectory):
            yield f"perfect work and {action!r}", trajectory


def _may_differ(case: Case, path: Sequence[str], value: JsonValue) -> bool:
    return case.proven is not None and case.proven.may_differ(case.task, path, value)


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Equal, and True is not 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _changed(before: JsonValue, after: JsonValue, path: Path, put: _Put) -> Iterator[Mutant]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        if not _same(before, after):
            yield Mutant("undone", path, before, put(before))
            yield from _wrong(after, path, put)
        return
    for key in dict.fromkeys((*before, *after)):
        place = (*path, key)
        if key not in after:
            yield Mutant("undone", place, before[key], put({**after, key: before[key]}))
        elif key in before:
            yield from _changed(before[key], after[key], place, _into(after, key, put))
        else:
            yield Mutant("dropped", place, None, put(_without(after, key)))
            yield from _wrong(after[key], place, _into(after, key, put))


def _wrong(value: JsonValue, path: Path, put: _Put) -> Iterator[Mutant]:
    """Every mistake in something that was not there before."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield Mutant("dropped", (*path, key), None, put(_without(value, key)))
            yield from _wrong(inner, (*path, key), _into(value, key, put))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            place = (*path, str(index))
            yield Mutant("dropped", place, None, put([*value[:index], *value[index + 1 :]]))
            yield Mutant("doubled", place, inner, put([*value[: index + 1], *value[index:]]))
            yield from _wrong(inner, place, _at(value, index, put))
    else:
        for what, other in _near_misses(value):
            yield Mutant(what, path, other, put(other))


def _into(whole: dict[str, JsonValue], key: str, put: _Put) -> _Put:
    return lambda value: put({**whole, key: value})


def _at(whole: list[JsonValue], index: int, put: _Put) -> _Put:
    return lambda value: put([*whole[:index], value, *whole[index + 1 :]])


def _without(whole: dict[str, JsonValue], key: str) -> dict[str, JsonValue]:
    return {name: value for name, value in whole.items() if name != key}


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
