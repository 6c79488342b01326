"""Rows for preference optimisation: ``dpo`` and ``kto``.

A pair of ``dpo`` is a correction by a person and the corrected trajectory, or else the trajectories of a task with
the highest and the lowest score. Its prompt is what both sides read until they first differ, and its sides are the
two messages of the model there: TRL cannot mask what the tools answered later. ``kto`` has one row per message of
the model, labelled by people's thumbs on the trajectory, or else by its verdict.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from upturn.config import THUMBS
from upturn.dialects import Json
from upturn.pool.exports.chat import message_rows
from upturn.pool.exports.formats.format import ABOUT, TrainingFormat, about, tools_text
from upturn.pool.exports.formats.supervised import step_columns, steps
from upturn.pool.exports.source import ChatPoint, ChatSource
from upturn.pool.preference import CORRECTION
from upturn.records import Split


class _Scored(NamedTuple):
    score: float
    trajectory_id: str


class _Pair(NamedTuple):
    chosen: str
    rejected: str


def _pairs(source: ChatSource, split: Split) -> Iterator[_Pair]:
    """Yields the ids of the trajectories of each pair."""
    tasks: dict[str, list[_Scored]] = defaultdict(list)
    task_of: dict[str, str] = {}
    for experience in source.experiences(split):
        trajectory, evaluation = experience.trajectory, experience.evaluation
        task_of[trajectory.id] = trajectory.task_id
        if evaluation is None or evaluation.score is None:
            source.omitted["unjudged"] += 1
        else:
            tasks[trajectory.task_id].append(_Scored(evaluation.score, trajectory.id))
    corrected: set[str] = set()
    for feedback in source.pool.feedback(tenant=source.tenant):
        if feedback.metric != CORRECTION or feedback.refers_to is None:
            continue
        sides = task_of.get(feedback.refers_to), task_of.get(feedback.subject_id)
        if sides[0] is None or sides[0] != sides[1]:
            source.omitted["corrections_of_others"] += 1
            continue
        corrected.add(sides[0])
        yield _Pair(feedback.refers_to, feedback.subject_id)
    for task_id, scored in tasks.items():
        if task_id in corrected:
            continue
        best, worst = max(scored), min(scored)
        if len(scored) < 2:
            source.omitted["tasks_with_one_trajectory"] += 1
        elif best.score == worst.score:
            source.omitted["tasks_with_equal_scores"] += 1
        else:
            yield _Pair(best.trajectory_id, worst.trajectory_id)


def _preferences(source: ChatSource, split: Split) -> Iterator[Json]:
    for pair in _pairs(source, split):
        sides = source.pool.experiences_of(pair, tenant=source.tenant, has_tokens=False)
        chosen, rejected = map(source.point, sides)
        if chosen is None or rejected is None:
            continue
        row = _preference(chosen, rejected)
        if isinstance(row, str):
            source.omitted[row] += 1
        else:
            yield row


def _preference(chosen: ChatPoint, rejected: ChatPoint) -> Json | str:
    """Returns the row of a pair, or why there is none."""
    left, right = chosen.chats[0].messages, rejected.chats[0].messages
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    if shared == min(len(left), len(right)):
        return "same_words"
    if left[shared].role != "assistant" or right[shared].role != "assistant":
        return "different_prompts"
    return {
        "prompt": list(message_rows(left[:shared])),
        "chosen": list(message_rows([left[shared]])),
        "rejected": list(message_rows([right[shared]])),
        "tools": tools_text(chosen.chats[0]),
        **about(chosen),
        "rejected_id": rejected.trajectory.id,
        "rejected_score": None if rejected.evaluation is None else rejected.evaluation.score,
    }


def _ratings(source: ChatSource, split: Split) -> Iterator[Json]:
    thumbs: dict[str, float] = defaultdict(float)
    for feedback in source.pool.feedback(tenant=source.tenant):
        if feedback.metric == THUMBS and feedback.subject_kind == "trajectory":
            thumbs[feedback.subject_id] += feedback.value
    for point in source.points(split):
        label = _label(point, thumbs.get(point.trajectory.id, 0.0))
        if label is None:
            source.omitted["unjudged"] += 1
            continue
        for chat, step in steps(point.chats):
            yield {**step_columns(step), "label": label, "tools": tools_text(chat), **about(point)}


def _label(point: ChatPoint, thumbs: float) -> bool | None:
    """Returns whether the trajectory is good; None = unknown."""
    if thumbs:
        return thumbs > 0
    if point.evaluation is None or point.evaluation.verdict == "missing":
        return None
    return point.evaluation.is_success


DPO = TrainingFormat(
    "TRL's DPOTrainer: prompt, chosen and rejected",
    {
        "prompt": "messages",
        "chosen": "messages",
        "rejected": "messages",
        "tools": "text",
        **ABOUT,
        "rejected_id": "text",
        "rejected_score": "number",
    },
    _preferences,
)
KTO = TrainingFormat(
    "TRL's KTOTrainer: prompt, completion and label, one row per message of the model",
    {"prompt": "messages", "completion": "messages", "label": "flag", "tools": "text", **ABOUT},
    _ratings,
)
