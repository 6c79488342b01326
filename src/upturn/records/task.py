"""Tasks."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records.json import JsonValue
from upturn.records.record import record

Split = Literal["train", "heldout"]

EPISODE_TASK = "episode"
"""Start of the id of the task that a sealed episode is stored as, before its tenant and its name."""
MODEL_CALL = "call"
"""The environment of the tasks of clients' model calls. Nothing is built for it: the client acts."""


def episode_task_id(tenant: str, episode: str) -> str:
    """Returns the id of the task that an episode is stored as."""
    return f"{EPISODE_TASK}:{tenant}:{episode}"


@record
class Task:
    """One piece of work; an environment builds its initial state from this record alone."""

    id: str
    """Unique and permanent: equal ids are equal tasks."""
    instruction: str
    family: str
    """The category that routing, statistics and guardrails group by."""
    environment: str
    """Registered name or import path of the task's environment."""
    level: int = 1
    seed: int = 0
    split: Split = "train"
    """``heldout`` tasks are never trained on; their templates and seeds are unseen in training."""
    tenant: str = "default"
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further data for the environment, e.g. the template's name."""
    episode: str | None = None
    """Session that the task belongs to. Tasks of one episode depend on each other, so validation counts them as one
    unit. None = the task is a unit by itself."""
