"""Which fields of records hold texts of people, agents or environments, and whether those have findings."""

from collections.abc import Iterator

from upturn.pool.privacy.detection import findings
from upturn.pool.privacy.finding import NAME_KINDS, Finding
from upturn.pool.privacy.replacement import json_findings
from upturn.records import Task, Trajectory


def has_findings(task: Task, trajectory: Trajectory) -> bool:
    """Returns whether instruction, context or any text of the trajectory has an identifier or a secret.

    Names, addresses and organisations do not count: nearly all conversations have some.
    """
    return any(finding.kind not in NAME_KINDS for finding in _findings(task, trajectory))


def _findings(task: Task, trajectory: Trajectory) -> Iterator[Finding]:
    yield from findings(task.instruction)
    yield from json_findings(task.context)
    for turn in trajectory.turns:
        yield from findings(turn.observation.text)
        yield from findings(turn.text)
        if turn.action is not None:
            yield from findings(turn.action.thought)
            yield from json_findings(turn.action.parameters)
    yield from findings(trajectory.final_observation.text)
    yield from json_findings(trajectory.final_state)
    yield from findings(trajectory.error)
