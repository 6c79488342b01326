"""A task: one piece of work."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records.json import JsonValue
from upturn.records.record import record

Split = Literal["train", "heldout"]


@record
class Task:
    """One piece of work; an environment rebuilds its whole world from this record alone."""

    id: str
    """Durable and unique: equal ids are equal tasks."""
    instruction: str
    family: str
    """The category that routing, statistics and guardrails group by."""
    environment: str
    """The registered name, or import path, of the environment the task is done in."""
    level: int = 1
    seed: int = 0
    split: Split = "train"
    """``heldout`` tasks are never trained on: unseen template and unseen seed."""
    tenant: str = "default"
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    """What else the environment needs, e.g. the template's name."""
