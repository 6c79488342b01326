"""Conversations as records: a task, a trajectory and an evaluation, under ids of their content."""

from dataclasses import replace
from typing import NamedTuple

from upturn.pool.ingestion.formats import Conversation
from upturn.pool.preference import CORRECTION
from upturn.pool.quality import IMPORTED
from upturn.pool.row import ReadyRow, digest, ready_row
from upturn.pool.tags import imported_tag
from upturn.records import Evaluation, Feedback, Task, Trajectory

RECORDED = "recorded"
"""Name of the reward and of the cost that a source recorded."""

_ID_LENGTH = 32
"""Hexadecimal digits of a content id: 128 bits."""


class Origin(NamedTuple):
    """Where conversations come from."""

    format: str
    tenant: str


class Point(NamedTuple):
    """The rows of a conversation."""

    task: ReadyRow
    trajectory: ReadyRow
    evaluation: ReadyRow
    preference: ReadyRow | None = None
    """Feedback that another trajectory is better; None = there is none."""

    tags: tuple[ReadyRow, ...] = ()
    """Feedback on the task, see ``pool.tags``."""

    @property
    def results(self) -> tuple[ReadyRow, ...]:
        """All but the task and its tags."""
        return (self.trajectory, self.evaluation, *(() if self.preference is None else (self.preference,)))


def task_of(conversation: Conversation, origin: Origin) -> Task:
    """Returns the task of the conversation."""
    return Task(
        id=f"imported:{digest(origin.tenant, conversation.family, conversation.task_key)[:_ID_LENGTH]}",
        instruction=conversation.instruction,
        family=conversation.family,
        environment=IMPORTED,
        tenant=origin.tenant,
        context=conversation.context,
    )


def trajectory_of(conversation: Conversation, task: Task, origin: Origin) -> Trajectory:
    """Returns the trajectory without its id and number."""
    return Trajectory(
        id="",
        task_id=task.id,
        agent_version=f"imported:{conversation.agent.replace('@', '_')}@{origin.format}",
        turns=conversation.turns,
        final_observation=conversation.final_observation,
        outcome=conversation.outcome,
        origin="rendered",
        final_state={"extra": dict(conversation.extra)} if conversation.extra else {},
        error=conversation.error,
        usage=conversation.usage,
    )


def point_of(
    conversation: Conversation,
    task: Task,
    trajectory: Trajectory,
    origin: Origin,
    *,
    content: str,
    number: int | None,
) -> Point:
    """Returns the conversation as rows; raises RecordError if they cannot be read back.

    ``content``: hash of the trajectory. ``number``: among equal ones; None = the source has an id or a number.
    """
    attempt = number if number is not None else conversation.number or 0
    if conversation.identity is None:
        name = digest(content, str(attempt))
    else:
        name = digest(origin.tenant, origin.format, "id", conversation.identity)
    trajectory = replace(trajectory, id=f"imported:{name[:_ID_LENGTH]}", attempt=attempt)
    reward, success = conversation.reward, conversation.is_success
    if reward is None and success is not None:
        reward = float(success)
    evaluator = f"{origin.format}/1"
    evaluation = Evaluation(
        id=f"imported:{digest(trajectory.id, evaluator)[:_ID_LENGTH]}",
        task_id=trajectory.task_id,
        trajectory_id=trajectory.id,
        evaluator=evaluator,
        verdict="missing" if success is None else "success" if success else "failure",
        gates=(),
        rewards={RECORDED: reward},
        costs={} if conversation.cost is None else {RECORDED: conversation.cost},
        score=reward,
    )
    tags = tuple(ready_row(imported_tag(task.id, tag, tenant=origin.tenant)) for tag in conversation.tags)
    return Point(ready_row(task), ready_row(trajectory), ready_row(evaluation), tags=tags)


def preferred(better: Point, worse: Point, origin: Origin) -> Point:
    """Returns the worse point with the feedback that the other is better."""
    subject, other = str(worse.trajectory.values["id"]), str(better.trajectory.values["id"])
    name = f"imported:{digest(origin.tenant, 'preference', subject, other)[:_ID_LENGTH]}"
    feedback = Feedback(name, "trajectory", subject, CORRECTION, 1.0, origin.tenant, refers_to=other)
    return worse._replace(preference=ready_row(feedback))
