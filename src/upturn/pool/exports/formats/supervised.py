"""Rows for supervised fine-tuning: ``sft`` and ``prompt-completion``.

``sft`` has one row per conversation, ``prompt-completion`` one per message of the model, so that each message is
trained on once and results of tools never are.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from upturn.dialects import Json, Message
from upturn.pool.exports.chat import Chat, message_rows
from upturn.pool.exports.formats.format import ABOUT, TrainingFormat, about, tools_text
from upturn.pool.exports.source import ChatSource
from upturn.records import Split


class Step(NamedTuple):
    """One message of the model, and what it read before."""

    before: Sequence[Message]
    message: Message


def steps(chats: Sequence[Chat]) -> Iterator[tuple[Chat, Step]]:
    """Yields each message of the model once, although conversations of one episode may begin alike."""
    known: set[tuple[Message, ...]] = set()
    for chat in chats:
        for index, message in enumerate(chat.messages):
            if message.role != "assistant":
                continue
            until = chat.messages[: index + 1]
            if len(chats) > 1:
                if until in known:
                    continue
                known.add(until)
            yield chat, Step(chat.messages[:index], message)


def _conversations(source: ChatSource, split: Split) -> Iterator[Json]:
    for point in source.points(split):
        for chat in point.chats:
            written = [index for index, message in enumerate(chat.messages) if message.role == "assistant"]
            messages = chat.messages[: written[-1] + 1]
            yield {"messages": list(message_rows(messages)), "tools": tools_text(chat), **about(point)}


def _completions(source: ChatSource, split: Split) -> Iterator[Json]:
    for point in source.points(split):
        for chat, step in steps(point.chats):
            yield {**step_columns(step), "tools": tools_text(chat), **about(point)}


def step_columns(step: Step) -> Json:
    """Returns the columns ``prompt`` and ``completion``."""
    return {"prompt": list(message_rows(step.before)), "completion": list(message_rows([step.message]))}


SFT = TrainingFormat(
    "TRL's SFTTrainer: messages",
    {"messages": "messages", "tools": "text", **ABOUT},
    _conversations,
    has_successes_only=True,
)
PROMPT_COMPLETION = TrainingFormat(
    "TRL's SFTTrainer: prompt and completion, one row per message of the model",
    {"prompt": "messages", "completion": "messages", "tools": "text", **ABOUT},
    _completions,
    has_successes_only=True,
)
