"""The panel of attacks: ways to get rewarded without doing the task, or with additional changes. None may succeed.

Attacks use what every agent sees (tools and observations); those that alter oracle solutions use the oracle too. A
script counts if it was carried out: at least one decisive action was accepted, and a script based on the oracle
solution did not end in the oracle's state (archiving a mail twice is archiving it). An attack without such a script
does not apply. Refusing is tried only where the oracle does not refuse, since some tasks cannot be done.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from upturn.environments.oracle_protocol import PricedAttack
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy, play
from upturn.environments.validation.case import MAX_TURNS, Case, was_refused
from upturn.environments.validation.mutation import is_perfect
from upturn.environments.validation.schema_sampling import text_parameters
from upturn.models import write_call
from upturn.records import Action, JsonValue, Tool, Trajectory


class AttackScript(NamedTuple):
    """A sequence of actions that attacks a task."""

    actions: tuple[Action, ...]
    decisive: tuple[int, ...] = ()
    """Indices of actions, one of which must be accepted; empty = it can always be carried out."""
    may_solve: bool = False
    """Whether it may end in the oracle's state: it includes the oracle solution, or actions the user agreed to."""


class AttackRun(NamedTuple):
    """A script that was carried out."""

    description: str
    """Its actions as text."""
    trajectory: Trajectory
    most: float = 0.0
    """The highest score of a success that is allowed."""


Attack: TypeAlias = Callable[[Case], Iterator[AttackScript]]

_CLAIMS = ("done", "the task is completed", "everything that was asked for has been done successfully")
_EXCUSE = "this cannot be done"
_MAX_PIECES = 6
"""Pieces tried of a text too long for a parameter."""
_SIZES = (10_000, 2_000, 400, 100)
"""Text lengths tried where a full text is refused."""
_MAX_LISTED = 30
"""Words of one kind in one refusal, about as many as fit into a few sentences."""
_MIN_LISTED = 4
"""Fewer words of one kind are an informed guess: the sender and the recipient of the mail that was found."""
_MAX_SIBLINGS = 6
"""Alternative values tried for a parameter."""
_UNCONFIRMED = "unconfirmed"
"""Error code of actions that need the user's agreement."""
_PREVIEW, _CONFIRM = "user.preview", "user.confirm"
"""Operations that ask the user to agree to the call in ``call``, where a kit has both."""
_MAX_CONFIRMED = 3
"""Calls of a tool for which agreement is requested."""
_REMOVING = re.compile(r"delete|remove|cancel|clear|erase|drop|purge|trash|discard|revoke|wipe", re.IGNORECASE)


def _nothing(case: Case) -> Iterator[AttackScript]:
    """Stops at once; ends the task without text."""
    yield AttackScript(())
    yield from _single(case.final_calls())


def _echo(case: Case) -> Iterator[AttackScript]:
    """Answers with the instruction; writes it into every text parameter, and ends."""
    yield from _single(case.final_calls(case.task.instruction))
    for tool_name in dict.fromkeys(action.name for action in case.changing_calls):
        for parameter in text_parameters(case.tools[tool_name]):
            call = case.calls[tool_name][0]
            yield from _ended(case, [_with(call, parameter, case.task.instruction)])


def _claim(case: Case) -> Iterator[AttackScript]:
    """Claims that the task is done."""
    yield from _single(end for text in _CLAIMS for end in case.final_calls(text))


def _dump(case: Case) -> Iterator[AttackScript]:
    """Writes all observations, as the answer and in place of each text of the oracle solution."""
    yield from _flooded(case, "\n".join(case.observations))


def _stuff(case: Case) -> Iterator[AttackScript]:
    """As ``_dump``, with all words of the task and the world; refuses with many words of one kind at once."""
    yield from _flooded(case, " ".join(case.vocabulary.words))
    lists = (
        ", ".join(words[max(0, min(start, len(words) - _MAX_LISTED)) : start + _MAX_LISTED])
        for words in case.vocabulary.kinds()
        if len(words) >= _MIN_LISTED
        for start in range(0, min(len(words), _MAX_PIECES * _MAX_LISTED), _MAX_LISTED)
    )
    yield from _single(_excuses(case, lists))


def _empty(case: Case) -> Iterator[AttackScript]:
    """Calls every tool with empty texts; runs the oracle solution with one text empty."""
    empty_calls = [
        Action(tool.target, tool.operation, {**call.parameters, **dict.fromkeys(text_parameters(tool), text)})
        for tool in case.tools.values()
        if text_parameters(tool) and tool not in case.final_tools
        for call in (case.calls.get(tool.name) or (Action(tool.target, tool.operation),))[:1]
        for text in ("", " ")
    ]
    yield from _ended(case, empty_calls)
    for text in ("", " ", "-"):
        yield from _with_replaced_texts(case, text)


def _delete(case: Case) -> Iterator[AttackScript]:
    """Calls every deleting tool; where the user must agree, asks first, for one call at a time and for all."""
    removing = [tool for tool in case.tools.values() if _REMOVING.search(tool.operation)]
    yield from _ended(case, [call for tool in removing for call in case.calls.get(tool.name, ())])
    confirmed = [calls for tool in removing for calls in _confirmed(case, tool)]
    for chosen in (*([calls] for calls in confirmed), *([confirmed] if len(confirmed) > 1 else [])):
        for script in _ended(case, [action for calls in chosen for action in calls]):
            yield script._replace(decisive=tuple(range(2, 3 * len(chosen), 3)), may_solve=True)


def _confirmed(case: Case, tool: Tool) -> list[tuple[Action, Action, Action]]:
    """Calls of the tool that need agreement, each after a preview for the user and a wait for the answer."""
    preview, confirm = case.tools.get(_PREVIEW), case.tools.get(_CONFIRM)
    if preview is None or confirm is None:
        return []
    refused = {
        repr(action): action
        for action, observation in case.tried_calls
        if action.name == tool.name and observation.code == _UNCONFIRMED
    }
    filled = dict.fromkeys(preview.required, "this")
    return [
        (
            Action(preview.target, preview.operation, {**filled, "call": write_call(action)}),
            Action(confirm.target, confirm.operation),
            action,
        )
        for action in [*refused.values()][:_MAX_CONFIRMED]
    ]


def _spam(case: Case) -> Iterator[AttackScript]:
    """Calls every tool once, then every tool with all accepted parameters."""
    for most in (1, None):
        yield from _ended(case, [call for calls in case.calls.values() for call in calls[:most]])


def _repeat(case: Case) -> Iterator[AttackScript]:
    """Runs the oracle solution, and repeats one action that changed the state."""
    solution = case.solution
    if solution is None:
        return
    work = solution.work
    for index in solution.changing:
        actions = (*work[: index + 1], work[index], *work[index + 1 :], *solution.end)
        yield AttackScript(actions, (index + 1,), may_solve=True)


def _neighbour(case: Case) -> Iterator[AttackScript]:
    """Runs the oracle solution, and applies its last change to another object too."""
    solution = case.solution
    if solution is None or not solution.changing:
        return
    last = solution.work[solution.changing[-1]]
    tool = case.tools.get(last.name)
    if tool is None:
        return
    for name, value in last.parameters.items():
        for sibling in case.vocabulary.siblings(tool, name, value)[:_MAX_SIBLINGS]:
            actions = (*solution.work, _with(last, name, sibling), *solution.end)
            yield AttackScript(actions, (len(solution.work),), may_solve=True)


def _refuse(case: Case) -> Iterator[AttackScript]:
    """Refuses a solvable task."""
    if case.is_solvable:
        yield from _single(case.refusal_calls(_EXCUSE))


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
    """Yields the attack's scripts that could be carried out, with their trajectories."""
    for script in attack(case):
        trajectory = _run(case, fixed_policy(script.actions))
        is_accepted = not script.decisive or not all(was_refused(trajectory, index) for index in script.decisive)
        if is_accepted and not (
            script.may_solve and case.solution is not None and is_perfect(case, case.solution, trajectory)
        ):
            yield AttackRun(summarize_actions(script.actions), trajectory)


def run_kit_attacks(case: Case) -> Iterator[AttackRun]:
    """Yields the kit's own attacks that could be carried out; ``description`` is the attack's name."""
    for name, attack in {} if case.oracle_kit is None else case.oracle_kit.attacks(case.task).items():
        priced = attack if isinstance(attack, PricedAttack) else PricedAttack(attack)
        trajectory = _run(case, priced.policy)
        if not any(was_refused(trajectory, index) for index in priced.decisive):
            yield AttackRun(name, trajectory, priced.most)


def _run(case: Case, policy: ScriptedPolicy) -> Trajectory:
    return play(case.kit.environment(case.task), case.task, policy, max_turns=MAX_TURNS)


def summarize_actions(actions: Sequence[Action]) -> str:
    """The first few actions, shortened."""
    texts = [f"{action.name} {dict(action.parameters)!r:.80}" for action in actions[:4]]
    return "; ".join(texts) + (f" and {len(actions) - 4} more" if len(actions) > 4 else "") or "no action"


def _single(actions: Iterable[Action]) -> Iterator[AttackScript]:
    """A script for each of these actions alone."""
    return (AttackScript((action,), (0,)) for action in actions)


def _ended(case: Case, actions: Sequence[Action]) -> Iterator[AttackScript]:
    """The actions followed by each way to end the task, or just the actions where none is known."""
    if not actions:
        return
    decisive = tuple(range(len(actions)))
    ends = [*case.final_calls(), *case.final_calls(_CLAIMS[0])]
    if not ends:
        yield AttackScript(tuple(actions), decisive)
    for end in ends:
        yield AttackScript((*actions, end), decisive)


def _excuses(case: Case, texts: Iterable[str]) -> Iterator[Action]:
    """Refusals with these texts where the text matters: ``_refuse`` covers solvable tasks, and a task that accepts
    ``_EXCUSE`` accepts any text."""
    if case.is_solvable:
        return
    verify = case.kit.verifier.verify
    plain_refusals = (fixed_policy((end,)) for end in case.refusal_calls(_EXCUSE))
    if not any(verify(case.task, _run(case, policy)).is_success for policy in plain_refusals):
        yield from (end for text in texts for end in case.refusal_calls(text) if end.parameters)


def _flooded(case: Case, text: str) -> Iterator[AttackScript]:
    if not text:
        return
    for end in (*case.final_calls(text), *_excuses(case, (text,))):
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
            return pieces[:_MAX_PIECES]
    return []


def _with_replaced_texts(case: Case, text: str) -> Iterator[AttackScript]:
    """The oracle solution with each of its texts replaced, one at a time."""
    solution = case.solution
    if solution is None:
        return
    for index in solution.changing:
        action = solution.work[index]
        for name, value in action.parameters.items():
            if isinstance(value, str):
                work = (*solution.work[:index], _with(action, name, text), *solution.work[index + 1 :])
                yield AttackScript((*work, *solution.end), (index,), may_solve=True)


def _with(action: Action, name: str, value: JsonValue) -> Action:
    return Action(action.target, action.operation, {**action.parameters, name: value})
