"""Transcripts of trajectories: turns with their observations, and changes of the environment's state."""

import json
from collections.abc import Iterator, Mapping

from upturn.records import Evaluation, JsonValue, Trajectory
from upturn.report.content import StateChange, Transcript, TranscriptTurn


def transcript(
    trajectory: Trajectory,
    evaluation: Evaluation | None,
    *,
    stage: str,
    initial_state: Mapping[str, JsonValue] | None = None,
) -> Transcript:
    """The transcript of a trajectory.

    ``initial_state``: the environment's state before the first action; None = changes are not shown.
    """
    observations = [turn.observation for turn in trajectory.turns[1:]]
    observations.append(trajectory.final_observation)
    turns = tuple(
        TranscriptTurn(text=turn.text, observation=observation.text, code=observation.code)
        for turn, observation in zip(trajectory.turns, observations, strict=False)
    )
    return Transcript(
        stage=stage,
        agent_version=trajectory.agent_version,
        turns=turns,
        outcome=trajectory.outcome,
        verdict="missing" if evaluation is None else evaluation.verdict,
        gates=() if evaluation is None else evaluation.gates,
        changes=None if initial_state is None else state_changes(initial_state, trajectory.final_state),
    )


def state_changes(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> tuple[StateChange, ...]:
    """The differences of two states by path, in the order of ``before`` and then ``after``.

    A state that consists of changes (``changes`` by path, and the values ``before``) is shown as these changes.
    """
    changed, old = after.get("changes"), after.get("before")
    if not (isinstance(changed, Mapping) and isinstance(old, Mapping)):
        return tuple(_differences("", before, after))
    rest = [{key: state[key] for key in state if key not in ("changes", "before")} for state in (before, after)]
    return (
        *(StateChange(path, _text(old[path]) if path in old else None, _text(changed[path])) for path in changed),
        *_differences("", rest[0], rest[1]),
    )


def _differences(path: str, before: object, after: object) -> Iterator[StateChange]:
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        before, after = dict(enumerate(before)), dict(enumerate(after))
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            inner = f"{path}.{key}" if path else str(key)
            if key not in after:
                yield StateChange(path=inner, before=_text(before[key]), after=None)
            elif key not in before:
                yield StateChange(path=inner, before=None, after=_text(after[key]))
            else:
                yield from _differences(inner, before[key], after[key])
    elif type(before) is not type(after) or before != after:
        yield StateChange(path=path, before=_text(before), after=_text(after))


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
