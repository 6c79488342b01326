"""The task of a model call, for the router. It is not stored: the call and its decision are."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from upturn.arbiter import TEXT_FEATURES
from upturn.dialects import Image, ModelRequest, estimated_tokens, message_text
from upturn.records import MODEL_CALL, JsonValue, Task

GENERAL = "general"
"""The family of calls that name none and match no rule."""
_LONGEST_INSTRUCTION = 4_000
"""Characters of the last user message that are used as features of a call."""


class Place(NamedTuple):
    """Where a call belongs."""

    tenant: str
    episode: str
    route: str
    family: str
    is_guess: bool
    """False = the client names the family."""


def call_task(
    call: str,
    request: ModelRequest,
    place: Place,
    *,
    instruction: str,
    regions: Sequence[str] = (),
    text_features: Sequence[float] = (),
) -> Task:
    """Returns the task of the call with this id.

    ``instruction``: the last message of the user, as it is stored. ``regions``: those that its route allows; empty
    = any. ``text_features``: empty = policies hash words.
    """
    context = dict(_context(request, place.route, is_guess=place.is_guess))
    if regions:
        context["regions"] = list(regions)
    if text_features:
        context[TEXT_FEATURES] = list(text_features)
    return Task(
        id=call,
        instruction=instruction,
        family=place.family,
        environment=MODEL_CALL,
        tenant=place.tenant,
        episode=place.episode,
        context=context,
    )


def last_instruction(request: ModelRequest) -> str:
    """Returns the first 4,000 characters of the last message of the user; empty = there is none."""
    for message in reversed(request.messages):
        if message.role == "user":
            return message_text(message)[:_LONGEST_INSTRUCTION]
    return ""


def _context(request: ModelRequest, route: str, *, is_guess: bool) -> Mapping[str, JsonValue]:
    return {
        "route": route,
        "is_guess": is_guess,
        "tokens": estimated_tokens(request),
        "tools": len(request.tools),
        "turns": sum(message.role == "assistant" for message in request.messages),
        "has_images": any(isinstance(part, Image) for message in request.messages for part in message.parts),
        "has_schema": request.output.kind != "text",
    }
