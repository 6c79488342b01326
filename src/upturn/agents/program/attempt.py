"""What a program gets for an attempt: its task, its folder, and where its models and its environment are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from upturn.records import JsonValue, Task

_LONGEST_VARIABLE = 100_000
"""Bytes of a variable of a process's environment; Linux allows 128 KiB."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a task."""

    id: str
    """Of the attempt's trajectory."""
    task: str
    """The instruction, as the environment shows it."""
    task_id: str
    family: str
    tools: Sequence[JsonValue]
    """The environment's tools as definitions of chat completions; empty = it describes none."""
    folder: str
    """Working folder; a command starts in it."""
    base_url: str
    """With ``/v1``: chat completions, Responses and Messages are served below it."""
    environment_url: str
    """``GET`` shows the environment's observation, ``POST …/step`` executes an action in it."""
    api_key: str = field(repr=False)
    """For this attempt only."""
    model: str
    """The model's name."""

    def to_json(self) -> str:
        """What a command gets on standard input."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def variables(self, task: Task) -> Mapping[str, str]:
        """Environment variables of a command.

        ``UPTURN_TASK`` is left out for a task that is too long for a variable; standard input has it.
        """
        root = self.base_url.removesuffix("/v1")
        shown = {
            "id": task.id,
            "instruction": self.task,
            "family": task.family,
            "level": task.level,
            "environment": task.environment,
            "context": dict(task.context),
        }
        described = json.dumps(shown, ensure_ascii=False)
        known = {"UPTURN_TASK": described} if len(described.encode()) <= _LONGEST_VARIABLE else {}
        return known | {
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_KEY": self.api_key,
            "ANTHROPIC_BASE_URL": root,
            "ANTHROPIC_API_KEY": self.api_key,
            "UPTURN_ATTEMPT": self.id,
            "UPTURN_MODEL": self.model,
            "UPTURN_ENVIRONMENT_URL": self.environment_url,
        }
