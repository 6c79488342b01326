"""Episodes in the tokens of a model that did not answer them: by its template, from the contents of their calls."""

from collections.abc import Mapping, Sequence
from typing import Literal

from upturn.dialects import (
    Conversation,
    Image,
    Message,
    ModelAnswer,
    ModelRequest,
    RequestError,
    Toolbox,
    ToolDefinition,
)
from upturn.loop.online import RecordedCall, is_answered, with_rendered_rows
from upturn.models.upstreams import Script
from upturn.pool.calls import StoredCall
from upturn.records import TokenRow, Trajectory, WrittenSpan, from_fields

NotRendered = Literal["deleted", "unwritable"]
"""``deleted``: contents of its calls are gone. ``unwritable``: the model cannot read or write what was said."""


def render_episode(trajectory: Trajectory, calls: Sequence[StoredCall], script: Script) -> Trajectory | NotRendered:
    """The trajectory in the script's tokens, without log-probs; ``calls``: all of its episode, in their order."""
    recorded = [RecordedCall(stored.call, stored.content) for stored in calls if stored.content is not None]
    if len(recorded) < len(calls) or not recorded:
        return "deleted"
    reading, rows = script.fresh(), dict[str, TokenRow]()
    requests: dict[str, ModelRequest] = {}
    try:
        for member in recorded:
            request = requests[member.call.id] = _request(member, requests, recorded)
            if is_answered(member):
                rows[member.call.id] = _row(reading, request, from_fields(ModelAnswer, member.content.answer))
    except RequestError:
        return "unwritable"
    return with_rendered_rows(trajectory, recorded, rows)


def _request(
    member: RecordedCall, earlier: Mapping[str, ModelRequest], recorded: Sequence[RecordedCall]
) -> ModelRequest:
    """The whole conversation of a call, of which only what its predecessor lacks is stored with it."""
    own = from_fields(Conversation, member.content.messages).messages
    if any(isinstance(part, Image) for message in own for part in message.parts):
        raise RequestError("local models read no images")
    tools: tuple[ToolDefinition, ...] = ()
    before: tuple[Message, ...] = ()
    if member.call.extends is not None:
        if member.call.extends not in earlier:
            raise RequestError("the conversation begins in another episode")
        answers = {known.call.id: known.content.answer for known in recorded}
        answer = from_fields(ModelAnswer, answers[member.call.extends])
        before = (*earlier[member.call.extends].messages, Message("assistant", answer.parts))
        tools = earlier[member.call.extends].tools
    if member.content.tools:
        tools = from_fields(Toolbox, member.content.tools).tools
    return ModelRequest("", (*before, *own), tools)


def _row(script: Script, request: ModelRequest, answer: ModelAnswer) -> TokenRow:
    prompt = script.prompt(request)
    written = script.write(prompt, answer, request)
    script.remember(prompt, written, request)
    start = len(prompt.token_ids)
    spans = (WrittenSpan(0, start, start + len(written)),) if written else ()
    return TokenRow((*prompt.token_ids, *written), spans, ())
