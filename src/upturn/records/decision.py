"""The arbiter's choice, with what it knew and the probability it chose with."""

from collections.abc import Mapping
from typing import Any, Literal

from upturn.records.record import record

Arm = Literal["candidate", "control"]
"""Which version of an agent served a task while a canary ran: the candidate, or the incumbent as control."""

FeedbackSubject = Literal["trajectory", "decision", "episode"]
"""What a feedback value is about."""


@record
class Alternative:
    """A candidate as the arbiter saw it when it decided."""

    agent_version: str
    probability: float
    """Of being chosen, floor and canary coin included; 0.0 only if it was not eligible."""
    estimate: float | None
    """Posterior mean success in this family; None = not eligible, or the policy has no estimate."""
    excluded_by: str = ""
    """Why it was not eligible; empty = it was."""


@record
class Decision:
    """One routing decision. The eligible alternatives' probabilities sum to 1."""

    id: str
    task_id: str
    family: str
    tenant: str
    policy: str
    """Name of the routing policy."""
    policy_snapshot: str
    """Hash of the policy's state that the probabilities were computed from."""
    alternatives: tuple[Alternative, ...]
    agent: str
    """Name of the chosen agent."""
    chosen: str
    """``AgentVersion.id`` of the chosen version of that agent."""
    propensity: float
    """The probability with which ``chosen`` was sampled, at decision time."""
    reason: str
    """For people: why this agent, in one sentence."""
    episode: str | None = None
    """None: the task belongs to no episode."""
    is_sticky: bool = False
    """True: the episode's earlier decision was reused (``propensity`` is then that decision's)."""
    release: str | None = None
    """The release whose canary coin was thrown; None = no canary runs for the chosen agent."""
    arm: Arm | None = None
    """None = no canary."""


@record
class Feedback:
    """A value that arrives later for a decision, a trajectory or an episode."""

    id: str
    subject_kind: FeedbackSubject
    subject_id: str
    metric: str
    """What the value is of. Training reads two: ``thumbs``, above 0 for good and below 0 for bad, and
    ``correction``, where what ``refers_to`` names is better than the subject."""
    value: float
    tenant: str = "default"
    comment: str = ""
    refers_to: str | None = None
    """A trajectory that the subject is compared with; None = with none."""


def add_agent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON fields of a stored decision, with the ``agent`` that decisions before pool revision 0002 lack.

    Their agent's name is the part of ``chosen`` before the last ``@``, as the service of that time read it.
    """
    if "agent" in fields or not isinstance(fields.get("chosen"), str):
        return dict(fields)
    return {**fields, "agent": fields["chosen"].rsplit("@", 1)[0]}
