"""Transitions for off-policy learning: ``transitions``, one row per turn of a trajectory, in order."""

import json
from collections.abc import Iterator
from dataclasses import replace

from upturn.dialects import Json
from upturn.pool.exports.formats.format import Columns, TrainingFormat
from upturn.pool.exports.source import ChatSource
from upturn.pool.transition import Transition, assigned, transitions_of
from upturn.records import Split

_COLUMNS: Columns = {
    "trajectory_id": "text",
    "task_id": "text",
    "family": "text",
    "agent": "text",
    "turn": "count",
    "turns": "count",
    "state": "text",
    "state_code": "text",
    "state_hash": "text",
    "potential": "number",
    "action": "text",
    "tool": "text",
    "arguments": "text",
    "reward": "number",
    "step_reward": "number",
    "costs": "text",
    "next_state": "text",
    "next_state_code": "text",
    "next_state_hash": "text",
    "is_last": "flag",
    "is_terminal": "flag",
    "is_truncated": "flag",
    "logprob": "number",
    "written_tokens": "count",
    "model_version": "text",
    "decision_id": "text",
    "propensity": "number",
}


def _transitions(source: ChatSource, split: Split) -> Iterator[Json]:
    points = source.experiences(split, has_tokens=True)
    for point, assignment in assigned(source.pool, points, tenant=source.tenant):
        if not point.trajectory.turns:
            source.omitted["no_turns"] += 1
            continue
        exported = replace(source.anonymous(point.trajectory), rows=point.trajectory.rows)  # for their log-probs
        yield from map(_row, transitions_of(point._replace(trajectory=exported), assignment))


def _row(transition: Transition) -> Json:
    action, assignment = transition.action, transition.assignment
    arguments = None if action is None else json.dumps(dict(action.parameters), ensure_ascii=False)
    return {
        "trajectory_id": transition.trajectory_id,
        "task_id": transition.task_id,
        "family": transition.family,
        "agent": transition.agent_version,
        "turn": transition.turn,
        "turns": transition.turns,
        "state": transition.state.observation.text,
        "state_code": transition.state.observation.code,
        "state_hash": transition.state.state_hash,
        "potential": transition.state.potential,
        "action": transition.text,
        "tool": None if action is None else action.name,
        "arguments": arguments,
        "reward": transition.reward,
        "step_reward": transition.step_reward,
        "costs": json.dumps(dict(transition.costs)),
        "next_state": transition.next_state.observation.text,
        "next_state_code": transition.next_state.observation.code,
        "next_state_hash": transition.next_state.state_hash,
        "is_last": transition.is_last,
        "is_terminal": transition.is_terminal,
        "is_truncated": transition.is_truncated,
        "logprob": transition.logprob,
        "written_tokens": transition.written_tokens,
        "model_version": transition.model_version,
        "decision_id": None if assignment is None else assignment.decision_id,
        "propensity": None if assignment is None else assignment.propensity,
    }


TRANSITIONS = TrainingFormat(
    "off-policy learning: state, action, reward and next state, one row per turn", _COLUMNS, _transitions
)
