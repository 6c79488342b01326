"""What a format of training is: its columns and how its rows are made."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from upturn.dialects import Json
from upturn.pool.exports.chat import Chat, tool_rows
from upturn.pool.exports.source import ChatPoint, ChatSource
from upturn.records import Split

ColumnKind: TypeAlias = Literal["messages", "prompt", "text", "number", "count", "flag"]
"""``messages``: with calls, whose arguments have any keys. ``prompt``: roles and texts. ``text`` and ``number`` may
be null."""

Columns: TypeAlias = Mapping[str, ColumnKind | Mapping[str, ColumnKind]]
"""By name; a mapping is a struct."""


class TrainingFormat(NamedTuple):
    """A format that trainers read."""

    summary: str
    columns: Columns
    rows: Callable[[ChatSource, Split], Iterator[Json]]
    """Yields the rows of the trajectories whose tasks are of a split."""
    has_heldout: bool = False
    """Whether held-out tasks may be written: as prompts for validation, never as answers to train on."""
    has_successes_only: bool = False
    """True = without another choice, only successes are written."""


ABOUT: Columns = {"id": "text", "task_id": "text", "family": "text", "agent": "text", "score": "number"}
"""Where a row comes from. Trainers ignore these columns, or give them to reward functions."""


def about(point: ChatPoint) -> Json:
    """Returns the values of ``ABOUT``."""
    return {
        "id": point.trajectory.id,
        "task_id": point.task.id,
        "family": point.task.family,
        "agent": point.trajectory.agent_version,
        "score": None if point.evaluation is None else point.evaluation.score,
    }


def tools_text(chat: Chat) -> str | None:
    """Returns the tools as JSON text, as TRL reads them; None = there are none."""
    return json.dumps(tool_rows(chat.tools), ensure_ascii=False) if chat.tools else None
