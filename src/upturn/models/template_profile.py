"""The messages that a chat template supports: probed by rendering small conversations, not looked up by name.

Order of probes: it renders a user's message; the token that ends an assistant's turn; whether it renders calls and
their results, and in which format (else calls are JSON in the assistant's text, and results are user messages); the
token that ends a call; where a thought goes; whether results carry the function's name; whether a message holds
several calls; whether it renders a system prompt, also in later turns (else the prompt goes before the first
message); whether it lists tools (else they are listed in the prompt).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal

from upturn.errors import ModelError
from upturn.models.call import value_text
from upturn.models.calls import (
    ANY_NAME,
    CALL_FORMATS,
    JSON,
    PLAIN_NAME,
    CallFormat,
    FunctionNames,
    Reading,
    json_call,
)
from upturn.models.template import ChatTemplate, Message, Messages, unmarked_at
from upturn.records import Action, Tool

CALL_ID = "000000000"
"""The id of a first call without one: nine letters or digits, as Mistral's templates require."""
_QUESTION, _PROMPT, _REPLY, _ANSWER, _WHY = "Zquestion", "Zprompt", "Zsaid", "Zanswer", "Zwhy"
"""Words that no template contains."""
PROBE = Action("probe", "call", {"value": "Zvalue"})
OTHER_PROBE = Action("probe", "call", {"value": "Zother"})
PROBE_TOOL = Tool("probe", "call", "Does nothing.", {"value": {"type": "string"}}, ("value",))
ThoughtKey = Literal["content", "reasoning_content", "none"]
"""Where the template takes the thought of a message with calls from; ``none``: it has no place for one."""


def call_id(index: int) -> str:
    """The id of a message's call that has none."""
    return f"{index:09d}"


@dataclass(frozen=True, slots=True)
class TemplateProfile:
    """The messages that a template supports, and how to write them."""

    header: str
    """The template's text before an assistant's message."""
    end_text: str
    """The control token that ends an assistant's text without calls."""
    end_id: int
    call_end_text: str
    """The control token that ends a message with calls; most templates have one token for both."""
    call_end_id: int
    has_inner_ends: bool = False
    """True = ``end_text`` also ends a thought before a call, so generation does not stop there."""
    has_system_role: bool = True
    """False = the system prompt goes before the first message's text."""
    writes_calls: bool = False
    """False = a call is the assistant's text, and its result a user message."""
    has_tool_role: bool = False
    """False = the result of a call is a user message."""
    has_text_arguments: bool = False
    """True = the template expects arguments as JSON in a string."""
    thought_key: ThoughtKey = "content"
    names_results: bool = False
    """True = the text of a result contains the function's name."""
    holds_several: bool = False
    """Whether a message may have several calls."""
    lists_tools: bool = False
    """False = tools are described in the system prompt."""
    calls: CallFormat = JSON
    names: FunctionNames = field(default_factory=FunctionNames)

    def opening(self, prompt: str, text: str, tools: Sequence[Tool]) -> Messages:
        """The first messages."""
        if tools and not self.lists_tools:
            prompt = f"{prompt}\n\n{tools_prompt(tools, self.calls, self.names)}".lstrip("\n")
        if not prompt:
            return [{"role": "user", "content": text}]
        if self.has_system_role:
            return [{"role": "system", "content": prompt}, {"role": "user", "content": text}]
        return [{"role": "user", "content": f"{prompt}\n\n{text}"}]

    def call(self, *actions: Action, ids: Sequence[str] = ()) -> Message:
        """The assistant's message with calls, after the first one's thought.

        ``ids``: of the calls; empty = they have none. Raises RecordError when an action cannot be a call.
        """
        thought = actions[0].thought
        if not self.writes_calls:
            lines = [json_call(action, self.names.write(action)) for action in actions]
            return {"role": "assistant", "content": "\n".join([thought, *lines]).lstrip("\n")}
        calls = [
            {"id": identity, "type": "function", "function": self._function(action)}
            for action, identity in zip(actions, ids or map(call_id, range(len(actions))), strict=True)
        ]
        message: Message = {"role": "assistant", "content": "", "tool_calls": calls}
        return message if self.thought_key == "none" else {**message, self.thought_key: thought}

    def answers(self, *texts: str, ids: Sequence[str] = ()) -> Messages:
        """The messages with the environment's results of a message's calls."""
        if not self.has_tool_role:
            return [{"role": "user", "content": text} for text in texts]
        return [
            {"role": "tool", "content": text, "tool_call_id": identity}
            for text, identity in zip(texts, ids or map(call_id, range(len(texts))), strict=True)
        ]

    def _function(self, action: Action) -> Message:
        arguments = dict(action.parameters)
        if not self.calls.has_types:
            arguments = {key: value_text(value) for key, value in arguments.items()}
        written = json.dumps(arguments, ensure_ascii=False) if self.has_text_arguments else arguments
        return {"name": self.names.write(action), "arguments": written}


def tools_prompt(tools: Sequence[Tool], calls: CallFormat = JSON, names: FunctionNames | None = None) -> str:
    """The description of the tools for the system prompt, where the template lists none.

    ``names``: None = the tools' own.
    """
    schemas = "\n".join(json.dumps(tool_schema(tool, names)["function"], ensure_ascii=False) for tool in tools)
    return (
        f"You can call one of these functions in each turn:\n{schemas}\n"
        f"To call one, end your turn with:\n{calls.example}"
    )


def tool_schema(tool: Tool, names: FunctionNames | None = None) -> Message:
    """The tool in the form that chat templates expect; ``names``: None = it has its own."""
    properties, required = dict(tool.properties), list(tool.required)
    parameters = {"type": "object", "properties": properties, "required": required}
    name = tool.name if names is None else names.write(Action(tool.target, tool.operation))
    function = {"name": name, "description": tool.description, "parameters": parameters}
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
    end = _end(template, [user, reply])
    profile = TemplateProfile(_header(template, [user, reply]), *end, *end)
    if calls is None:
        profile = _with_calls(template, profile)
    opening: Messages = [{"role": "system", "content": _PROMPT}, user]
    longer = [*opening, profile.call(PROBE), *profile.answers(_ANSWER)]
    shows_prompt = all(_shows(template, messages, _PROMPT) for messages in (opening, longer))
    profile = replace(profile, has_system_role=shows_prompt)
    schema = tool_schema(PROBE_TOOL, profile.names)
    lists = _shows(template, [user], schema["function"]["name"], tools=[schema])
    return replace(profile, lists_tools=lists and profile.writes_calls)


def call_segment(template: ChatTemplate, profile: TemplateProfile, before: Messages, call: Message) -> str:
    """The template's text of a message with calls: from the generation prompt after ``before`` to its end.

    Rendered with the calls' results, as in the middle of a conversation: some templates render the last turn
    differently, or change the generation prompt once it is answered.
    """
    answers = profile.answers(*[""] * len(call.get("tool_calls", [0])))
    text = template.render([*before, call, *answers], [], is_open=True)
    for start in (
        template.render(before, [], is_open=True),
        template.render(before, [], is_open=False) + profile.header,
    ):
        end = unmarked_at(text, profile.call_end_text, len(start))
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
    # where nothing ends the last message, a turn ends with the token that begins the next one, as in GLM; gpt-oss
    # ends the last message with the tokenizer's own end token, earlier ones with another
    end = ends[1] if ends[0] in (None, template.eos_id) else ends[0]
    if end is None or ends[1] != end:
        raise ModelError(
            "the chat template ends an assistant's turn without a special token, so generation would not stop; add "
            "the tokenizer's end token after an assistant's text in the template"
        )
    return template.text_of(end), end


def _with_calls(template: ChatTemplate, profile: TemplateProfile) -> TemplateProfile:
    """The profile with the template's own call format; unchanged where it has none."""
    before: Messages = [{"role": "user", "content": _QUESTION}]
    value = str(PROBE.parameters["value"])
    for has_tool_role, has_text, allowed in product((True, False), (False, True), (ANY_NAME, PLAIN_NAME)):
        names = FunctionNames((), allowed)
        candidate = replace(
            profile, writes_calls=True, has_tool_role=has_tool_role, has_text_arguments=has_text, names=names
        )
        conversation = [*before, candidate.call(PROBE), *candidate.answers(_ANSWER)]
        if not all(_shows(template, conversation, word) for word in (PROBE.operation, value, _ANSWER)):
            continue
        text = template.render(conversation, [], is_open=True)
        segments = []
        for call_format in CALL_FORMATS.values():
            end = _call_end(template, text[text.find(value) :], call_format)
            if end is None:
                continue
            found = replace(candidate, call_end_text=template.text_of(end), call_end_id=end)
            segments.append(call_segment(template, found, before, candidate.call(PROBE)))
            if _reads(call_format, found, segments[-1], PROBE):
                return _details(template, replace(found, calls=call_format), before, allowed)
        raise ModelError(
            f"the chat template writes calls in an unknown format: {(segments or [text])[0]!r}; known: "
            f"{', '.join(CALL_FORMATS)}; pass calls='json' to write them as {JSON.example}"
        )
    return profile


def _call_end(template: ChatTemplate, rest: str, call_format: CallFormat) -> int | None:
    """The first special token after a call's value that is not a part of the call; None = there is none."""
    markers = {template.id_of(marker) for marker in call_format.markers}
    ids = (token for token in template.encode(rest) if token in template.special_ids)
    return next((token for token in ids if token not in markers), None)


def _reads(call_format: CallFormat, profile: TemplateProfile, segment: str, *actions: Action) -> bool:
    """Whether the text contains exactly these calls, without repairs."""
    reading = call_format.read(segment, is_strict=True)
    return isinstance(reading, Reading) and [(call.name, call.arguments) for call in reading.calls] == [
        (profile.names.write(action), dict(action.parameters)) for action in actions
    ]


def _details(
    template: ChatTemplate, profile: TemplateProfile, before: Messages, allowed: "re.Pattern[str]"
) -> TemplateProfile:
    """The profile with everything about calls besides their format."""
    names = FunctionNames((), profile.calls.names if allowed is ANY_NAME else allowed)
    profile = _with_thought(template, replace(profile, names=names), before)
    thinking = call_segment(template, profile, before, profile.call(replace(PROBE, thought=_WHY)))
    results = template.render(
        [*before, profile.call(PROBE), *profile.answers(_ANSWER)], [], is_open=True
    ).partition(str(PROBE.parameters["value"]))[2]
    profile = replace(
        profile,
        has_inner_ends=unmarked_at(thinking, profile.end_text, 0) >= 0,
        names_results=names.write(PROBE) in results,
    )
    return replace(profile, holds_several=_holds_several(template, profile, before))


def _with_thought(template: ChatTemplate, profile: TemplateProfile, before: Messages) -> TemplateProfile:
    """The profile with a key for thoughts other than ``content``, where that is rendered after the call."""
    thinking = replace(PROBE, thought=_WHY)
    conversation = [*before, profile.call(thinking), *profile.answers(_ANSWER)]
    if not _shows(template, conversation, _WHY):
        return profile
    keys: tuple[ThoughtKey, ...] = ("content", "reasoning_content")
    for key in keys:
        candidate = replace(profile, thought_key=key)
        thought, value, _ = call_segment(template, candidate, before, candidate.call(thinking)).partition(
            str(PROBE.parameters["value"])
        )
        if value and _WHY in thought:
            return candidate
    return replace(profile, thought_key="none")


def _holds_several(template: ChatTemplate, profile: TemplateProfile, before: Messages) -> bool:
    """Whether the template renders two calls in one message, and their results, readably."""
    call, answers = profile.call(PROBE, OTHER_PROBE), profile.answers(_ANSWER, _REPLY)
    words = (*(str(probe.parameters["value"]) for probe in (PROBE, OTHER_PROBE)), _ANSWER, _REPLY)
    if not all(_shows(template, [*before, call, *answers], word) for word in words):
        return False
    segment = call_segment(template, profile, before, call)
    return _reads(profile.calls, profile, segment, PROBE, OTHER_PROBE)
