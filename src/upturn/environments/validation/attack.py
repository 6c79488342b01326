"""The panel of attacks: ways to be rewarded for work not done, or for doing more than asked. None may succeed.

Attacks know what every agent knows (tools and observations); those that spoil oracle solutions also know the
oracle. An attempt counts if it could be carried out: at least one decisive action was accepted, and an attempt
based on the oracle solution did not end in the oracle's state (archiving a mail twice is archiving it). Where no
attempt could be carried out, the attack does not apply. Refusing is tried only where the oracle does not refuse:
some tasks cannot be done.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy, play
from upturn.environments.validation.case import MOST_TURNS, REFUSAL_OPERATIONS, Case, was_refused
from upturn.environments.validation.mutation import is_perfect
from upturn.environments.validation.schema_sampling import text_parameters
from upturn.models import write_call
from upturn.records import Action, JsonValue, Tool, Trajectory


class AttackScript(NamedTuple):
    """A sequence of actions that attacks a task."""

    actions: tuple[Action, ...]
    decisive: tuple[int, ...] = ()
    """Indices of actions, one of which must be accepted; empty = it can always be carried out."""
    spoils: bool = False
    """True where it may end in the oracle's state: it includes the oracle solution, or actions the user agreed
    to."""


class AttackRun(NamedTuple):
    """A script that could be carried out."""

    description: str
    """Its actions, in words."""
    trajectory: Trajectory


Attack: TypeAlias = Callable[[Case], Iterator[AttackScript]]

_CLAIMS = ("done", "the task is completed", "everything that was asked for has been done successfully")
_EXCUSE = "this cannot be done"
_PIECES = 6
"""Pieces tried of a text too long for a parameter."""
_SIZES = (10_000, 2_000, 400, 100)
"""Text lengths tried where a full text is refused."""
_LISTED = 30
"""Words of one kind in one refusal, about what a few sentences hold."""
_SIBLINGS = 6
"""Alternative values tried for a parameter."""
_UNCONFIRMED = "unconfirmed"
"""Error code of actions that need the user's agreement."""
_SHOW, _WAIT = "user.preview", "user.confirm"
"""Operations that ask the user to agree to the call in ``call``, where a kit has both."""
_CONFIRMED = 3
"""Calls of a tool for which agreement is requested."""
_REMOVING = re.compile(r"delete|remove|cancel|clear|erase|drop|purge|trash|discard|revoke|wipe", re.IGNORECASE)


def _nothing(case: Case) -> Iterator[AttackScript]:
    """Stops at once; ends the task without text."""
    yield AttackScript(())
    for end in case.wordless:
        yield AttackScript((end,), (0,))


def _echo(case: Case) -> Iterator[AttackScript]:
    """Answers with the instruction; writes it into every text parameter, and ends."""
    for end in case.saying(case.task.instruction):
        yield AttackScript((end,), (0,))
    for tool in _changing_tools(case):
        for name in text_parameters(tool):
            call = case.calls[tool.name][0]
            yield from _ended(case, [_with(call, name, case.task.instruction)])


def _claim(case: Case) -> Iterator[AttackScript]:
    """Claims that the task is done."""
    for text in _CLAIMS:
        for end in case.saying(text):
            yield AttackScript((end,), (0,))


def _dump(case: Case) -> Iterator[AttackScript]:
    """Writes all observations, as the answer and in place of each text of the oracle solution."""
    yield from _flooded(case, "\n".join(case.readings))


def _stuff(case: Case) -> Iterator[AttackScript]:
    """As ``_dump``, with all words of the task and the world; refuses with many words of one kind at once."""
    yield from _flooded(case, " ".join(case.vocabulary.words))
    lists = (
        ", ".join(words[start : start + _LISTED])
        for words in case.vocabulary.kinds()
        for start in range(0, min(len(words), _PIECES * _LISTED), _LISTED)
    )
    for end in _excuses(case, lists):
        yield AttackScript((end,), (0,))


def _empty(case: Case) -> Iterator[AttackScript]:
    """Calls every tool with empty texts; runs the oracle solution with one text empty."""
    empty_calls = [
        Action(tool.target, tool.operation, {**call.parameters, **dict.fromkeys(text_parameters(tool), text)})
        for tool in case.tools.values()
        if text_parameters(tool) and not any(tool.name == closer.name for closer in case.closers)
        for call in (case.calls.get(tool.name) or (_bare(tool),))[:1]
        for text in ("", " ")
    ]
    yield from _ended(case, empty_calls)
    for text in ("", " ", "-"):
        yield from _with_replaced_texts(case, text)


def _delete(case: Case) -> Iterator[AttackScript]:
    """Calls every deleting tool; where the user must agree, asks first, one by one and for all at once."""
    removing = [tool for tool in case.tools.values() if _REMOVING.search(tool.operation)]
    yield from _ended(case, [call for tool in removing for call in case.calls.get(tool.name, ())])
    confirmed = [calls for tool in removing for calls in _confirmed(case, tool)]
    for chosen in (*([calls] for calls in confirmed), *([confirmed] if len(confirmed) > 1 else [])):
        for script in _ended(case, [action for calls in chosen for action in calls]):
            yield script._replace(decisive=tuple(range(2, 3 * len(chosen), 3)), spoils=True)


def _confirmed(case: Case, tool: Tool) -> list[tuple[Action, Action, Action]]:
    """Calls of the tool that need agreement, each after showing it to the user and waiting for the answer."""
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
            Action(
                show.target, show.operation, {**dict.fromkeys(show.required, "this"), "call": write_call(action)}
            ),
            Action(wait.target, wait.operation),
            action,
        )
        for action in [*refused.values()][:_CONFIRMED]
    ]


def _spam(case: Case) -> Iterator[AttackScript]:
    """Calls every tool once, then every tool with all accepted parameters."""
    for most in (1, None):
        yield from _ended(case, [call for calls in case.calls.values() for call in calls[:most]])


def _repeat(case: Case) -> Iterator[AttackScript]:
    """Runs the oracle solution, and repeats one action that changed the state."""
    solved = case.solved
    if solved is None:
        return
    work = solved.work
    for index in solved.changing:
        actions = (*work[: index + 1], work[index], *work[index + 1 :], *solved.end)
        yield AttackScript(actions, (index + 1,), spoils=True)


def _neighbour(case: Case) -> Iterator[AttackScript]:
    """Runs the oracle solution, and applies its last change to another object too."""
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
            yield AttackScript(actions, (len(solved.work),), spoils=True)


def _refuse(case: Case) -> Iterator[AttackScript]:
    """Refuses a solvable task."""
    solved = case.solved
    if solved is not None and solved.end and solved.end[0].operation not in REFUSAL_OPERATIONS:
        for end in case.refusing(_EXCUSE):
            yield AttackScript((end,), (0,))


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
"""By name, in display order."""
NEEDS_ORACLE = ("repeat", "neighbour", "refuse")


def run_attack(case: Case, attack: Attack) -> Iterator[AttackRun]:
    """The attack's attempts at the task that could be carried out."""
    for script in attack(case):
        trajectory = _run(case, fixed_policy(script.actions))
        is_accepted = not script.decisive or not all(was_refused(trajectory, index) for index in script.decisive)
        if is_accepted and not (
            script.spoils and case.solved is not None and is_perfect(case, case.solved, trajectory)
        ):
            yield AttackRun(summarize_actions(script.actions), trajectory)


def run_kit_attacks(case: Case) -> Iterator[AttackRun]:
    """Attempts of the kit's own attacks; ``description`` is the attack's name."""
    for name, player in {} if case.proven is None else case.proven.attacks(case.task).items():
        yield AttackRun(name, _run(case, player))


def _run(case: Case, player: ScriptedPolicy) -> Trajectory:
    return play(case.kit.environment(case.task), case.task, player, max_turns=MOST_TURNS)


def summarize_actions(actions: Sequence[Action]) -> str:
    """The first few actions, shortened."""
    texts = [f"{action.target}.{action.operation} {dict(action.parameters)!r:.80}" for action in actions[:4]]
    return "; ".join(texts) + (f" and {len(actions) - 4} more" if len(actions) > 4 else "") or "no action"


def _ended(case: Case, actions: Sequence[Action]) -> Iterator[AttackScript]:
    """The actions followed by each way to end the task, or just the actions where none is known."""
    if not actions:
        return
    decisive = tuple(range(len(actions)))
    ends = [*case.wordless, *case.saying(_CLAIMS[0])]
    if not ends:
        yield AttackScript(tuple(actions), decisive)
    for end in ends:
        yield AttackScript((*actions, end), decisive)


def _excuses(case: Case, texts: Iterable[str]) -> Iterator[Action]:
    """Refusals with these texts, where the text matters: ``_refuse`` covers solvable tasks, and where an empty
    excuse is accepted, any text is."""
    if case.solved is not None and case.solved.end and case.solved.end[0].operation not in REFUSAL_OPERATIONS:
        return
    verify = case.kit.verifier.verify
    plain_refusals = (fixed_policy((end,)) for end in case.refusing(_EXCUSE))
    if not any(verify(case.task, _run(case, policy)).is_success for policy in plain_refusals):
        yield from (end for text in texts for end in case.refusing(text) if end.parameters)


def _flooded(case: Case, text: str) -> Iterator[AttackScript]:
    if not text:
        return
    for end in (*case.saying(text), *_excuses(case, (text,))):
        for piece in _pieces(case, end, text):
            yield AttackScript((_with(end, next(iter(end.parameters)), piece),), (0,))
    yield from _with_replaced_texts(case, text)
    yield from _with_replaced_texts(case, text[: _SIZES[-2]])


def _pieces(case: Case, end: Action, text: str) -> list[str]:
    """The full text where it is accepted; otherwise pieces of an accepted size; empty where none is."""
    name = next(iter(end.parameters))
    for size in (len(text), *(size for size in _SIZES if size < len(text))):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        if not was_refused(_run(case, fixed_policy((_with(end, name, pieces[0]),))), 0):
            return pieces[:_PIECES]
    return []


def _with_replaced_texts(case: Case, text: str) -> Iterator[AttackScript]:
    """The oracle solution with each of its texts replaced, one at a time."""
    solved = case.solved
    if solved is None:
        return
    for index in solved.changing:
        action = solved.work[index]
        for name, value in action.parameters.items():
            if isinstance(value, str):
                work = (*solved.work[:index], _with(action, name, text), *solved.work[index + 1 :])
                yield AttackScript((*work, *solved.end), (index,), spoils=True)


def _changing_tools(case: Case) -> list[Tool]:
    names = dict.fromkeys(f"{action.target}.{action.operation}" for action in case.changers)
    return [case.tools[name] for name in names]


def _with(action: Action, name: str, value: JsonValue) -> Action:
    return Action(action.target, action.operation, {**action.parameters, name: value})


def _bare(tool: Tool) -> Action:
    return Action(tool.target, tool.operation)
