"""Detects canaries that are shown before they are earned (defined in ``OracleKit.canaries``)."""

from collections.abc import Iterator, Mapping, Sequence

from upturn.environments.oracle_protocol import CANARY_LENGTH
from upturn.errors import RecordError
from upturn.models import value_text, write_call
from upturn.records import Action, Observation, Trajectory


def earned_canaries(trajectory: Trajectory, canaries: Sequence[str]) -> dict[str, frozenset[str]]:
    """By canary: the operations whose results showed it to the oracle."""
    results = [(action, text) for action, text in _results(trajectory) if action is not None]
    return {canary: frozenset(action.name for action, text in results if canary in text) for canary in canaries}


def first_leak(trajectory: Trajectory, canaries: Sequence[str], earned: Mapping[str, frozenset[str]]) -> str:
    """A description of the first canary shown unearned; empty = none."""
    written = ""
    for action, text in _results(trajectory):
        written += "" if action is None else _written(action)
        if leak := _leak(action, text, written=written, canaries=canaries, earned=earned):
            return leak
    return ""


def leak_of(
    action: Action, observation: Observation, canaries: Sequence[str], earned: Mapping[str, frozenset[str]]
) -> str:
    """As ``first_leak``, for the observation after a first action."""
    return _leak(action, _text_of(observation), written=_written(action), canaries=canaries, earned=earned)


def _leak(
    action: Action | None, text: str, *, written: str, canaries: Sequence[str], earned: Mapping[str, frozenset[str]]
) -> str:
    operation = "" if action is None else action.name
    for canary in canaries:
        if canary in text and canary not in written and operation not in earned.get(canary, ()):
            return f"{canary!r} is shown {f'after {operation}' if operation else 'at the beginning'}"
    return ""


def _text_of(observation: Observation) -> str:
    return f"{observation.code} {observation.text}"


def short_canaries(canaries: Sequence[str]) -> list[str]:
    """Canaries so short that they may occur by chance."""
    return [canary for canary in canaries if len(canary) < CANARY_LENGTH]


def _results(trajectory: Trajectory) -> Iterator[tuple[Action | None, str]]:
    """Each observation's text with the action before it; None = the first observation."""
    first = trajectory.turns[0].observation if trajectory.turns else trajectory.final_observation
    yield None, _text_of(first)
    for turn, result in zip(trajectory.turns, trajectory.results, strict=True):
        yield turn.action, _text_of(result)


def _written(action: Action) -> str:
    """All text in the action: the call, each value and the thought."""
    try:
        call = write_call(action)
    except RecordError:
        call = action.name
    values = (f"{name}={value_text(value)}" for name, value in action.parameters.items())
    return "\n".join(("", call, *values, action.thought))
