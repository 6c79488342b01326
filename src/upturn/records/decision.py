"""Routing decisions with their propensities, and the feedback on them."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Literal

from upturn.records.record import record

Arm = Literal["candidate", "control"]
"""Which version of an agent served a task while a canary ran: the candidate, or the incumbent as control."""

FamilySource = Literal["", "named", "rule", "cluster", "default"]
"""Where the family of a model call comes from: its client, a rule, a cluster of similar texts, or none of them.
Empty = it is not a guess of the gateway: the task of an environment, or a call before families were guessed."""

TextSource = Literal["", "hashing", "svd", "embeddings"]
"""Where the features of a text come from: its hashed words, principal directions of what was seen, or the embedding
of a server. Empty = the policy uses no features, or the call came before they were recorded."""

FeedbackSubject = Literal["trajectory", "decision", "episode", "task"]
"""The kind of record that a feedback value refers to; ``task`` for tags (``pool.tags``)."""


@record
class Forecast:
    """What choosing a version was expected to use when the decision was made."""

    cost_usd: float | None
    """None = the version had no price."""
    seconds: float
    handicap: float
    """Weighted cost, latency and switching, in units of reward; the policy maximised reward minus handicap."""


@record
class Alternative:
    """One agent version that the arbiter considered."""

    agent_version: str
    probability: float
    """Probability of being chosen, including exploration floor and canary share; 0.0 only if not eligible."""
    estimate: float | None
    """Posterior mean success rate in this family; None = not eligible, or the policy has no estimate."""
    excluded_by: str = ""
    """Why it was not eligible; empty = eligible."""
    forecast: Forecast | None = None
    """None = not eligible, or nothing was forecast: there were neither prices nor weights in the objective."""


_SETTERS = tuple(
    Alternative.__dict__[name].__set__
    for name in ("agent_version", "probability", "estimate", "excluded_by", "forecast")
)


def eligible_alternatives(
    versions: Sequence[str],
    probabilities: Sequence[float],
    estimates: Sequence[float | None],
    forecasts: Sequence[Forecast | None],
) -> tuple[Alternative, ...]:
    """Returns the alternatives of eligible versions; all arguments have one element per version.

    They are filled field by field, in half the time of the frozen class's constructor: for 100 agents, that would
    be a sixth of a decision's time."""
    alternatives = tuple(map(Alternative.__new__, repeat(Alternative, len(versions))))
    columns = (versions, probabilities, estimates, repeat(""), forecasts)
    for setter, column in zip(_SETTERS, columns, strict=True):
        deque(map(setter, alternatives, column), maxlen=0)
    return alternatives


@record
class Decision:
    """One routing decision. The probabilities of its alternatives sum to 1."""

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
    """Probability with which ``chosen`` was sampled."""
    reason: str
    """Human-readable reason for the choice, one sentence."""
    episode: str | None = None
    """None = the task belongs to no episode."""
    is_sticky: bool = False
    """True = the episode's earlier decision was reused; ``propensity`` is then that decision's."""
    release: str | None = None
    """The release whose canary chose between incumbent and candidate; None = no canary for the chosen agent."""
    arm: Arm | None = None
    """None = no canary."""
    features: tuple[float, ...] = ()
    """The features of the task that the policy saw, which it also learns from; empty = it uses none."""
    propensity_error: float = 0.0
    """Bound of the difference between ``propensity`` and the true probability of ``chosen``; 0 = they are equal."""
    family_source: FamilySource = ""
    """All but ``named`` and empty are guesses."""
    sketch: str = ""
    """Sketch of the text that clusters and features are learned from (``arbiter.texts.sketch``); empty = it teaches
    none."""
    text_source: TextSource = ""
    """Where the part of ``features`` comes from that describes the text."""
    current: str | None = None
    """The version that served the episode before, if this decision could keep or switch it; None = it could not."""


@record
class Feedback:
    """A value that arrives later for a decision, a trajectory or an episode."""

    id: str
    subject_kind: FeedbackSubject
    subject_id: str
    metric: str
    """Name of the measured quantity. Training reads two: ``thumbs`` (above 0 = good, below 0 = bad), and
    ``correction`` (the trajectory in ``refers_to`` is better than the subject)."""
    value: float
    tenant: str = "default"
    comment: str = ""
    refers_to: str | None = None
    """Id of the trajectory that the subject is compared with; None = no comparison."""


def add_agent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON fields of a stored decision with ``agent``, which decisions before pool revision 0002 lack.

    The agent's name is the part of ``chosen`` before the last ``@``, as the service split it at that time.
    """
    if "agent" in fields or not isinstance(fields.get("chosen"), str):
        return dict(fields)
    return {**fields, "agent": fields["chosen"].rsplit("@", 1)[0]}
