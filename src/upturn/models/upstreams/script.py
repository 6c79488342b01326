"""How a local model reads conversations and writes answers: ``chat_script`` or ``compact_script``."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from upturn.dialects import (
    FinishReason,
    ModelAnswer,
    ModelRequest,
    Part,
    RequestError,
    Text,
    ToolCall,
    ToolDefinition,
    conversation_digests,
    json_object,
    tools_digest,
)
from upturn.models.upstreams.fork_cause import Fork, ForkCause
from upturn.models.upstreams.memory import Start
from upturn.records import JsonValue, Tool

_ID_BYTES = 12
"""Of a call's id."""


class Prompt(NamedTuple):
    """What a model reads."""

    token_ids: tuple[int, ...]
    start: Start
    """The request as it goes on."""
    text: str = ""
    """As the template renders it; empty = there is no template."""

    @property
    def fork_cause(self) -> ForkCause | None:
        """Why it is not an earlier prompt, its answer and what follows; None = it is, or there is no earlier call.

        After ``answered_again`` it may be, but an earlier call is, too.
        """
        return None if self.start.fork is None else self.start.fork.cause


class Written(NamedTuple):
    """A generation as parts of an answer."""

    parts: tuple[Part, ...]
    finish: FinishReason


class Script(Protocol):
    """How a model reads conversations and writes answers, and which of them it remembers."""

    def fresh(self) -> "Script":
        """The same without what it remembers: calls of another attempt share no tokens with those of this one."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer."""

    @property
    def forks(self) -> Sequence[Fork]:
        """Why answered calls did not go on with an earlier one; the latest of them."""

    def prompt(self, request: ModelRequest, /) -> Prompt:
        """The conversation, up to where the model writes. Raises RequestError.

        Where it goes on with a remembered one, it begins with the tokens of that one and of its answer.
        """

    def remember(self, prompt: Prompt, token_ids: Sequence[int], request: ModelRequest, /) -> None:
        """Takes note of the answer to a request."""

    def read(self, token_ids: Sequence[int], request: ModelRequest, /) -> Written:
        """The answer in the model's output."""

    def write(self, prompt: Prompt, answer: ModelAnswer, request: ModelRequest, /) -> tuple[int, ...]:
        """The tokens that the model would write for the answer to a request, with an end token unless the answer
        was cut off. Raises RequestError for an answer that it cannot write, or that would read back otherwise."""

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest, /) -> bool:
        """Whether ``read`` of an output that begins so begins with the text that it has so far."""


def may_call(request: ModelRequest) -> bool:
    """Whether the model's calls are calls, and not text."""
    return bool(request.tools) and request.tool_choice.kind != "none"


def before_stop(text: str, request: ModelRequest) -> str | None:
    """The text before the first of the request's stop strings; None = it has none."""
    ends = [text.find(stop) for stop in request.sampling.stop if stop in text]
    return text[: min(ends)] if ends else None


def checked(
    script: Script, token_ids: tuple[int, ...], answer: ModelAnswer, request: ModelRequest
) -> tuple[int, ...]:
    """The tokens of an answer with an end token, without it where the answer was cut off.

    Raises RequestError where they read as another text, or as other calls; thoughts are not compared.
    """
    read = script.read(token_ids, request).parts
    if _said(read) != _said(answer.parts):
        raise RequestError(f"the model would read its own answer as {read!r:.200}", field="messages")
    return token_ids[:-1] if answer.finish == "length" else token_ids


def _said(parts: Sequence[Part]) -> tuple[str, list[tuple[str, Mapping[str, JsonValue] | None]]]:
    """The text and the calls of an answer."""
    text = "".join(part.text for part in parts if isinstance(part, Text)).strip()
    return text, [(part.name, json_object(part.arguments or "{}")) for part in parts if isinstance(part, ToolCall)]


def call_id(request: ModelRequest, token_ids: Sequence[int], index: int) -> str:
    """The client's id of an answer's call.

    Clients match calls and results by id across conversations, as after a hand-off to another agent, so it differs
    between conversations and between answers. The same answer to the same request has the same ids.
    """
    conversation = conversation_digests(request.messages, request.model)[-1:]
    identity = json.dumps([conversation, tools_digest(request.tools), list(token_ids), index])
    return f"call_{hashlib.blake2b(identity.encode(), digest_size=_ID_BYTES).hexdigest()}"


def offered(tool: ToolDefinition, target: str, operation: str) -> Tool:
    """The tool as a record."""
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    return Tool(
        target,
        operation,
        tool.description,
        properties if isinstance(properties, dict) else {},
        tuple(map(str, required)) if isinstance(required, list) else (),
    )
