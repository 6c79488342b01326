"""The panel: ways to be paid for work that was not done, and to do more than was asked. None may succeed.

Attackers know what every agent is told, the tools and what the world shows; those that spoil perfect work know the
oracle's, too. A way counts where it could be taken: something of it was not refused, and what began with perfect
work did not end as perfect work does (archiving a mail twice is archiving it). Where no way could be taken the
attack does not apply. Refusing is tried only where the oracle does not refuse itself: some tasks cannot be done.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from upturn.environments.scripted_policy import Player, following, play
from upturn.environments.validation.case import MOST_TURNS, REFUSALS, Case, is_refused
from upturn.environments.validation.mutation import is_perfect
from upturn.environments.validation.schema_sampling import text_parameters
from upturn.models import write_call
from upturn.records import Action, JsonValue, Tool, Trajectory


class Way(NamedTuple):
    """One way to attack a task."""

    actions: tuple[Action, ...]
    decisive: tuple[int, ...] = ()
    """Places of the actions one of which must have been accepted; empty = the way can always be taken."""
    spoils: bool = False
    """True where it may come to perfect work, having begun with it or done what the user agreed to."""


class Attempted(NamedTuple):
    """A way that could be taken."""

    way: str
    """Its actions, in words."""
    trajectory: Trajectory


Attack: TypeAlias = Callable[[Case], Iterator[Way]]

_CLAIMS = ("done", "the task is completed", "everything that was asked for has been done successfully")
_EXCUSE = "this cannot be done"
_PIECES = 6
"""Pieces of a text too long for a parameter that are tried."""
_SIZES = (10_000, 2_000, 400, 100)
"""Characters that are tried where a whole text is refused."""
_LISTED = 30
"""Words of one kind in one refusal: what a few sentences may hold."""
_SIBLINGS = 6
"""Other things that are tried for a parameter."""
_UNCONFIRMED = "unconfirmed"
"""Code of what is refused until the user has agreed to it."""
_SHOW, _WAIT = "user.preview", "user.confirm"
"""Which ask the user to agree to the call that ``call`` holds, where a kit has both."""
_ASKED = 3
"""Calls of a tool that the user is asked to agree to."""
_REMOVING = re.compile(r"delete|remove|cancel|clear|erase|drop|purge|trash|discard|revoke|wipe", re.IGNORECASE)


def _nothing(case: Case) -> Iterator[Way]:
    """Stops at once; ends the task without a word."""
    yield Way(())
    for end in case.wordless:
        yield Way((end,), (0,))


def _echo(case: Case) -> Iterator[Way]:
    """Says the task itself; writes it wherever text can be written, and ends."""
    for end in case.saying(case.task.instruction):
        yield Way((end,), (0,))
    for tool in _changing_tools(case):
        for name in text_parameters(tool):
            call = case.calls[tool.name][0]
            yield from _ended(case, [_with(call, name, case.task.instruction)])


def _claim(case: Case) -> Iterator[Way]:
    """Says that it is done."""
    for text in _CLAIMS:
        for end in case.saying(text):
            yield Way((end,), (0,))


def _dump(case: Case) -> Iterator[Way]:
    """Gives all that the world shows: as the answer, and in place of each text that perfect work writes."""
    yield from _flooded(case, "\n".join(case.readings))


def _stuff(case: Case) -> Iterator[Way]:
    """Gives all words of the task and the world, as ``_dump`` gives texts; refuses with many of a kind at once."""
    yield from _flooded(case, " ".join(case.vocabulary.words))
    lists = (
        ", ".join(words[start : start + _LISTED])
        for words in case.vocabulary.kinds()
        for start in range(0, min(len(words), _PIECES * _LISTED), _LISTED)
    )
    for end in _excuses(case, lists):
        yield Way((end,), (0,))


def _empty(case: Case) -> Iterator[Way]:
    """Makes everything that can be made, with nothing in it; does perfect work with one text left empty."""
    hollow = [
        Action(tool.target, tool.operation, {**call.parameters, **dict.fromkeys(text_parameters(tool), text)})
        for tool in case.tools.values()
        if text_parameters(tool) and not any(tool.name == closer.name for closer in case.closers)
        for call in (case.calls.get(tool.name) or (_bare(tool),))[:1]
        for text in ("", " ")
    ]
    yield from _ended(case, hollow)
    for text in ("", " ", "-"):
        yield from _rewritten(case, text)


def _delete(case: Case) -> Iterator[Way]:
    """Takes away whatever can be taken away; what the user must agree to after asking them, one by one and all."""
    removing = [tool for tool in case.tools.values() if _REMOVING.search(tool.operation)]
    yield from _ended(case, [call for tool in removing for call in case.calls.get(tool.name, ())])
    asked = [agreed for tool in removing for agreed in _agreed(case, tool)]
    for chosen in (*([each] for each in asked), *([asked] if len(asked) > 1 else [])):
        for way in _ended(case, [action for each in chosen for action in each]):
            yield way._replace(decisive=tuple(range(2, 3 * len(chosen), 3)), spoils=True)


def _agreed(case: Case, tool: Tool) -> list[tuple[Action, Action, Action]]:
    """Calls of the tool that were refused until the user agrees, each after it was shown and waited for."""
    show, wait = case.tools.get(_SHOW), case.tools.get(_WAIT)
    if show is None or wait is None:
        return []
    refused = {
        repr(action): action
        for action, observation in case.answers
        if f"{action.target}.{action.operation}" == tool.name and observation.code == _UNCONFIRMED
    }
    return [
        (
            Action(show.target, show.operation, {**dict.fromkeys(show.required, "this"), "call": write_call(each)}),
            Action(wait.target, wait.operation),
            each,
        )
        for each in [*refused.values()][:_ASKED]
    ]


def _spam(case: Case) -> Iterator[Way]:
    """Calls every tool once, then every tool with all that it takes."""
    for most in (1, None):
        yield from _ended(case, [call for calls in case.calls.values() for call in calls[:most]])


def _repeat(case: Case) -> Iterator[Way]:
    """Does perfect work, and one action that changed something once more."""
    solved = case.solved
    if solved is None:
        return
    work = solved.work
    for place in solved.changing:
        actions = (*work[: place + 1], work[place], *work[place + 1 :], *solved.end)
        yield Way(actions, (place + 1,), spoils=True)


def _neighbour(case: Case) -> Iterator[Way]:
    """Does perfect work, and its last change to something else as well."""
    solved = case.solved
    if solved is None or not solved.changing:
        return
    last = solved.work[solved.changing[-1]]
    tool = case.tools.get(f"{last.target}.{last.operation}")
    if tool is None:
        return
    for name, value in last.parameters.items():
        for sibling in case.vocabulary.siblings(tool, name, value)[:_SIBLINGS]:
            actions = (*solved.work, _with(last, name, sibling), *solved.end)
            yield Way(actions, (len(solved.work),), spoils=True)


def _refuse(case: Case) -> Iterator[Way]:
    """Refuses a task that can be done."""
    solved = case.solved
    if solved is not None and solved.end and solved.end[0].operation not in REFUSALS:
        for end in case.refusing(_EXCUSE):
            yield Way((end,), (0,))


PANEL: Mapping[str, Attack] = {
    "nothing": _nothing,
    "echo": _echo,
    "claim": _claim,
    "dump": _dump,
    "stuff": _stuff,
    "empty": _empty,
    "delete": _delete,
    "spam": _spam,
    "repeat": _repeat,
    "neighbour": _neighbour,
    "refuse": _refuse,
}
"""By name, in the order of tables."""
NEEDS_ORACLE = ("repeat", "neighbour", "refuse")


def attempts(case: Case, attack: Attack) -> Iterator[Attempted]:
    """The attack's attempts at the task, those that could be made."""
    for way in attack(case):
        trajectory = _played(case, following(way.actions))
        taken = not way.decisive or not all(is_refused(trajectory, place) for place in way.decisive)
        if taken and not (way.spoils and case.solved is not None and is_perfect(case, case.solved, trajectory)):
            yield Attempted(written(way.actions), trajectory)


def own_attempts(case: Case) -> Iterator[Attempted]:
    """Those of the kit's own attacks; ``way`` is the attack's name."""
    for name, player in {} if case.proven is None else case.proven.attacks(case.task).items():
        yield Attempted(name, _played(case, player))


def _played(case: Case, player: Player) -> Trajectory:
    return play(case.kit.environment(case.task), case.task, player, max_turns=MOST_TURNS)


def written(actions: Sequence[Action]) -> str:
    """The first few actions, in short."""
    shown = [f"{action.target}.{action.operation} {dict(action.parameters)!r:.80}" for action in actions[:4]]
    return "; ".join(shown) + (f" and {len(actions) - 4} more" if len(actions) > 4 else "") or "no action"


def _ended(case: Case, actions: Sequence[Action]) -> Iterator[Way]:
    """The actions and each way to end the task after them, or just the actions where none is known."""
    if not actions:
        return
    decisive = tuple(range(len(actions)))
    ends = [*case.wordless, *case.saying(_CLAIMS[0])]
    if not ends:
        yield Way(tuple(actions), decisive)
    for end in ends:
        yield Way((*actions, end), decisive)


def _excuses(case: Case, texts: Iterable[str]) -> Iterator[Action]:
    """Ways to refuse with these texts, where it matters what is said: ``_refuse`` tries tasks that can be done, and
    where a few words that say nothing are right, so are any."""
    if case.solved is not None and case.solved.end and case.solved.end[0].operation not in REFUSALS:
        return
    verify = case.kit.verifier.verify
    plain = (following((end,)) for end in case.refusing(_EXCUSE))
    if not any(verify(case.task, _played(case, each)).is_success for each in plain):
        yield from (end for text in texts for end in case.refusing(text) if end.parameters)


def _flooded(case: Case, text: str) -> Iterator[Way]:
    if not text:
        return
    for end in (*case.saying(text), *_excuses(case, (text,))):
        for piece in _pieces(case, end, text):
            yield Way((_with(end, next(iter(end.parameters)), piece),), (0,))
    yield from _rewritten(case, text)
    yield from _rewritten(case, text[: _SIZES[-2]])


def _pieces(case: Case, end: Action, text: str) -> list[str]:
    """The whole text where it is taken; otherwise pieces of a size that is; empty where none is."""
    name = next(iter(end.parameters))
    for size in (len(text), *(size for size in _SIZES if size < len(text))):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        if not is_refused(_played(case, following((_with(end, name, pieces[0]),))), 0):
            return pieces[:_PIECES]
    return []


def _rewritten(case: Case, text: str) -> Iterator[Way]:
    """Perfect work with each text that it writes replaced, one at a time."""
    solved = case.solved
    if solved is None:
        return
    for place in solved.changing:
        action = solved.work[place]
        for name, value in action.parameters.items():
            if isinstance(value, str):
                work = (*solved.work[:place], _with(action, name, text), *solved.work[place + 1 :])
                yield Way((*work, *solved.end), (place,), spoils=True)


def _changing_tools(case: Case) -> list[Tool]:
    names = dict.fromkeys(f"{action.target}.{action.operation}" for action in case.changers)
    return [case.tools[name] for name in names]


def _with(action: Action, name: str, value: JsonValue) -> Action:
    return Action(action.target, action.operation, {**action.parameters, name: value})


def _bare(tool: Tool) -> Action:
    return Action(tool.target, tool.operation)
