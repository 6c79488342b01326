"""The messages that a chat template supports: probed by rendering small conversations, not looked up by name.

Order of probes: it renders a user's message; the token that ends an assistant's turn; whether it renders calls and
their results, and in which format (else calls are JSON in the assistant's text, and results are user messages);
whether it renders a system prompt, also in later turns (else the prompt goes before the first message); whether it
lists tools (else they are listed in the prompt).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from upturn.errors import ModelError
from upturn.models.call import value_text
from upturn.models.call_format import CALL_FORMATS, JSON, CallFormat, call_name, json_call
from upturn.models.template import ChatTemplate, Message, Messages, unmarked_at
from upturn.records import Action, Tool

CALL_ID = "000000000"
"""The id of a call without one: nine letters or digits, as Mistral's templates require. A turn has one call, so one
id is enough."""
_QUESTION, _PROMPT, _REPLY, _ANSWER = "Zquestion", "Zprompt", "Zsaid", "Zanswer"
"""Words that no template contains."""
PROBE = Action("probe", "call", {"value": "Zvalue"})
PROBE_TOOL = Tool("probe", "call", "Does nothing.", {"value": {"type": "string"}}, ("value",))


@dataclass(frozen=True, slots=True)
class TemplateProfile:
    """The messages that a template supports, and how to write them."""

    header: str
    """The template's text before an assistant's message."""
    end_text: str
    """The control token that ends an assistant's turn."""
    end_id: int
    has_system_role: bool = True
    """False = the system prompt goes before the first message's text."""
    writes_calls: bool = False
    """False = a call is the assistant's text, and its result a user message."""
    has_tool_role: bool = False
    """False = the result of a call is a user message."""
    lists_tools: bool = False
    """False = tools are described in the system prompt."""
    calls: CallFormat = JSON

    def opening(self, prompt: str, text: str, tools: Sequence[Tool]) -> Messages:
        """The first messages."""
        if tools and not self.lists_tools:
            prompt = f"{prompt}\n\n{tools_prompt(tools, self.calls)}".lstrip("\n")
        if not prompt:
            return [{"role": "user", "content": text}]
        if self.has_system_role:
            return [{"role": "system", "content": prompt}, {"role": "user", "content": text}]
        return [{"role": "user", "content": f"{prompt}\n\n{text}"}]

    def call(self, action: Action, call_id: str = CALL_ID) -> Message:
        """The assistant's message with a call; raises RecordError when the action cannot be one."""
        thought = action.thought
        if not self.writes_calls:
            return {"role": "assistant", "content": f"{thought}\n{json_call(action)}".lstrip("\n")}
        arguments = dict(action.parameters)
        if not self.calls.has_types:
            arguments = {key: value_text(value) for key, value in arguments.items()}
        function = {"name": call_name(action), "arguments": arguments}
        calls = [{"id": call_id, "type": "function", "function": function}]
        return {"role": "assistant", "content": thought, "tool_calls": calls}

    def answer(self, text: str, call_id: str = CALL_ID) -> Message:
        """The message with the environment's result of a call."""
        if self.has_tool_role:
            return {"role": "tool", "content": text, "tool_call_id": call_id}
        return {"role": "user", "content": text}


def tools_prompt(tools: Sequence[Tool], calls: CallFormat = JSON) -> str:
    """The description of the tools for the system prompt, where the template lists none."""
    schemas = "\n".join(json.dumps(tool_schema(tool)["function"], ensure_ascii=False) for tool in tools)
    return (
        f"You can call one of these functions in each turn:\n{schemas}\n"
        f"To call one, end your turn with:\n{calls.example}"
    )


def tool_schema(tool: Tool) -> Message:
    """The tool in the form that chat templates expect."""
    properties, required = dict(tool.properties), list(tool.required)
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def probe_template(template: ChatTemplate, calls: Literal["json"] | None = None) -> TemplateProfile:
    """The messages that the template supports; ``calls``: None = the template's own format, where it has one.

    Raises ModelError when the template does not render messages in plain text, ends an assistant's turn without a
    special token, or writes calls in an unknown format.
    """
    user, reply = {"role": "user", "content": _QUESTION}, {"role": "assistant", "content": _REPLY}
    if _QUESTION not in template.render([user], [], is_open=True):
        raise ModelError(
            "the chat template does not render a user's plain text; use the template that belongs to the model "
            "(templates of vision models may not accept plain text)"
        )
    profile = TemplateProfile(_header(template, [user, reply]), *_end(template, [user, reply]))
    if calls is None:
        profile = _with_calls(template, profile)
    opening: Messages = [{"role": "system", "content": _PROMPT}, user]
    longer = [*opening, profile.call(PROBE), profile.answer(_ANSWER)]
    shows_prompt = all(_shows(template, messages, _PROMPT) for messages in (opening, longer))
    profile = replace(profile, has_system_role=shows_prompt)
    lists = _shows(template, [user], PROBE_TOOL.name, tools=[tool_schema(PROBE_TOOL)])
    return replace(profile, lists_tools=lists and profile.writes_calls)


def call_segment(template: ChatTemplate, profile: TemplateProfile, before: Messages, call: Message) -> str:
    """The template's text of a call: from the generation prompt after ``before`` to the end of the turn.

    Rendered with the call's result, as in the middle of a conversation: some templates render the last turn
    differently, or change the generation prompt once it is answered.
    """
    text = template.render([*before, call, profile.answer("")], [], is_open=True)
    for start in (
        template.render(before, [], is_open=True),
        template.render(before, [], is_open=False) + profile.header,
    ):
        end = unmarked_at(text, profile.end_text, len(start))
        if text.startswith(start) and end >= 0:
            return text[len(start) : end]
    raise ModelError(
        "the chat template renders the first message differently in later turns, so an assistant's text cannot be "
        "extracted; use the template that belongs to the model, or calls='json'"
    )


def _shows(template: ChatTemplate, messages: Messages, word: str, *, tools: Sequence[Message] = ()) -> bool:
    """Whether the template renders the messages, with the word."""
    try:
        return word in template.render(messages, tools, is_open=True)
    except ModelError:
        return False


def _header(template: ChatTemplate, messages: Messages) -> str:
    """The text between the first message and the assistant's; empty where the first later renders differently."""
    start = template.render(messages[:1], [], is_open=False)
    text, _, _ = template.render([*messages, messages[0]], [], is_open=False).partition(_REPLY)
    return text.removeprefix(start) if text.startswith(start) else ""


def _end(template: ChatTemplate, messages: Messages) -> tuple[str, int]:
    """The special token that ends an assistant's turn, as text and id."""
    ends = []
    for later in ([], messages[:1]):
        _, _, rest = template.render([*messages, *later], [], is_open=False).rpartition(_REPLY)
        ids = template.encode(rest)
        ends.append(next((token for token in ids if token in template.special_ids), None))
    end = ends[0]
    if end is None or ends[1] != end:
        raise ModelError(
            "the chat template ends an assistant's turn without a special token, so generation would not stop; add "
            "the tokenizer's end token after an assistant's text in the template"
        )
    return template.text_of(end), end


def _with_calls(template: ChatTemplate, profile: TemplateProfile) -> TemplateProfile:
    """The profile with the template's own call format; unchanged where it has none."""
    before: Messages = [{"role": "user", "content": _QUESTION}]
    for has_tool_role in (True, False):
        candidate = replace(profile, writes_calls=True, has_tool_role=has_tool_role)
        conversation = [*before, candidate.call(PROBE), candidate.answer(_ANSWER)]
        words = (PROBE.operation, str(PROBE.parameters["value"]), _ANSWER)
        if not all(_shows(template, conversation, word) for word in words):
            continue
        segment = call_segment(template, candidate, before, candidate.call(PROBE))
        for call_format in CALL_FORMATS.values():
            call = call_format.read(segment)
            if call is not None and replace(call.action, thought="") == PROBE:
                return replace(candidate, calls=call_format)
        raise ModelError(
            f"the chat template writes calls in an unknown format: {segment!r}; known: "
            f"{', '.join(CALL_FORMATS)}; pass calls='json' to write them as {JSON.example}"
        )
    return profile
