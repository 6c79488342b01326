"""Prompts for reinforcement learning: ``grpo`` and ``verl``. One row per task: what the model read before it wrote.

The task is in the row as JSON, so that a reward function can begin it in its environment and judge the answer.
"""

from collections.abc import Iterator
from typing import NamedTuple

from upturn.dialects import Json
from upturn.pool.exports.chat import Chat, message_rows
from upturn.pool.exports.formats.format import TrainingFormat, tools_text
from upturn.pool.exports.source import ChatSource
from upturn.records import Split, Task, fields_json


class _Prompt(NamedTuple):
    task: Task
    rows: list[Json]
    chat: Chat


def _prompts(source: ChatSource, split: Split) -> Iterator[_Prompt]:
    known: set[str] = set()
    for point in source.points(split):
        if point.task.id in known:
            continue
        known.add(point.task.id)
        chat = point.chats[0]
        roles = [message.role for message in chat.messages]
        rows = message_rows(chat.messages[: roles.index("assistant")])
        if rows:
            yield _Prompt(point.task, rows, chat)
        else:
            source.omitted["no_prompt"] += 1


def _grpo(source: ChatSource, split: Split) -> Iterator[Json]:
    for task, rows, chat in _prompts(source, split):
        about: Json = {"task_id": task.id, "family": task.family, "environment": task.environment}
        yield {"prompt": list(rows), "tools": tools_text(chat), **about, "task": fields_json(task)}


def _verl(source: ChatSource, split: Split) -> Iterator[Json]:
    for index, (task, rows, chat) in enumerate(_prompts(source, split)):
        yield {
            "data_source": f"upturn/{task.environment}",
            "prompt": list(rows),
            "ability": task.family,
            "reward_model": {"style": "rule", "ground_truth": fields_json(task)},
            "extra_info": {
                "index": index,
                "split": "test" if split == "heldout" else "train",
                "task_id": task.id,
                "level": task.level,
                "tools": tools_text(chat),
            },
        }


GRPO = TrainingFormat(
    "TRL's GRPOTrainer: prompts, one row per task",
    {
        "prompt": "prompt",
        "tools": "text",
        "task_id": "text",
        "family": "text",
        "environment": "text",
        "task": "text",
    },
    _grpo,
    has_heldout=True,
)
VERL = TrainingFormat(
    "verl: prompts with data source and reward model, one row per task",
    {
        "data_source": "text",
        "prompt": "prompt",
        "ability": "text",
        "reward_model": {"style": "text", "ground_truth": "text"},
        "extra_info": {"index": "count", "split": "text", "task_id": "text", "level": "count", "tools": "text"},
    },
    _verl,
    has_heldout=True,
)
