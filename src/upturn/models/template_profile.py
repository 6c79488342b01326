"""How a conversation has to be put to one chat template: found out by rendering small ones, not by its name.

Order of findings: that it shows what a user says; what ends an assistant's turn; whether it writes calls and their
answers, and in which format (else calls are JSON in the assistant's text, and answers are a user's messages);
whether it shows a system prompt, also once the conversation goes on (else the prompt is put before the first
message); whether it lists tools (else they are listed in the prompt).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from upturn.errors import ModelError
from upturn.models.call import value_text
from upturn.models.call_format import CALL_FORMATS, JSON, CallFormat, called_name, written_json
from upturn.models.template import ChatTemplate, Message, Messages, unmarked_at
from upturn.records import Action, Tool

CALL_ID = "000000000"
"""Of calls that a model gave none: nine letters or digits, as Mistral's templates ask for. One turn is one call, so
one id is enough."""
_ASKED, _PROMPT, _SAID, _ANSWER = "Zquestion", "Zprompt", "Zsaid", "Zanswer"
"""Words that no template holds itself."""
PROBE = Action("probe", "call", {"value": "Zvalue"})
PROBE_TOOL = Tool("probe", "call", "Does nothing.", {"value": {"type": "string"}}, ("value",))


@dataclass(frozen=True, slots=True)
class Manner:
    """What messages a template takes."""

    header: str
    """What the template writes before an assistant's text."""
    end_text: str
    """The control token that ends an assistant's turn."""
    end_id: int
    has_system_role: bool = True
    """False: the system prompt stands before the first message's text."""
    writes_calls: bool = False
    """False: a call is the assistant's text, and its answer a user's message."""
    has_tool_role: bool = False
    """False: the answer to a call is a user's message."""
    lists_tools: bool = False
    """False: tools are described in the system prompt."""
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
        """The assistant's message that makes a call; raises RecordError when the action cannot be one."""
        thought = action.thought
        if not self.writes_calls:
            return {"role": "assistant", "content": f"{thought}\n{written_json(action)}".lstrip("\n")}
        arguments = dict(action.parameters)
        if not self.calls.has_types:
            arguments = {key: value_text(value) for key, value in arguments.items()}
        called = {"name": called_name(action), "arguments": arguments}
        calls = [{"id": call_id, "type": "function", "function": called}]
        return {"role": "assistant", "content": thought, "tool_calls": calls}

    def answer(self, text: str, call_id: str = CALL_ID) -> Message:
        """What the environment says to a call."""
        if self.has_tool_role:
            return {"role": "tool", "content": text, "tool_call_id": call_id}
        return {"role": "user", "content": text}


def tools_prompt(tools: Sequence[Tool], calls: CallFormat = JSON) -> str:
    """What a model is told of the tools where no template lists them."""
    listed = "\n".join(json.dumps(described(tool)["function"], ensure_ascii=False) for tool in tools)
    return (
        f"You can call one of these functions in each turn:\n{listed}\n"
        f"To call one, end your turn with:\n{calls.example}"
    )


def described(tool: Tool) -> Message:
    """The tool as chat templates list it."""
    properties, required = dict(tool.properties), list(tool.required)
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def learn_manner(template: ChatTemplate, calls: Literal["json"] | None = None) -> Manner:
    """How to talk to the template; ``calls``: None = as the template writes them, where it does.

    Raises ModelError when the template does not show what is said, ends an assistant's turn with no special token,
    or writes calls in a format that no reader here knows.
    """
    user, said = {"role": "user", "content": _ASKED}, {"role": "assistant", "content": _SAID}
    if _ASKED not in template.render([user], [], asks=True):
        raise ModelError(
            "the chat template does not show what the user says in plain text; give the folder the template that "
            "belongs to its model (those of models that see images may take none)"
        )
    manner = Manner(_header(template, [user, said]), *_end(template, [user, said]))
    if calls is None:
        manner = _with_calls(template, manner)
    opening: Messages = [{"role": "system", "content": _PROMPT}, user]
    longer = [*opening, manner.call(PROBE), manner.answer(_ANSWER)]
    shows_prompt = all(_shows(template, each, _PROMPT) for each in (opening, longer))
    manner = replace(manner, has_system_role=shows_prompt)
    lists = _shows(template, [user], PROBE_TOOL.name, tools=[described(PROBE_TOOL)])
    return replace(manner, lists_tools=lists and manner.writes_calls)


def call_segment(template: ChatTemplate, manner: Manner, before: Messages, called: Message) -> str:
    """What the template writes between where the model is asked, after ``before``, and the end of its turn.

    With the call answered, as in the midst of a conversation: some templates write the last turn differently, and
    some ask differently than they show later what was asked.
    """
    text = template.render([*before, called, manner.answer("")], [], asks=True)
    for start in (template.render(before, [], asks=True), template.render(before, [], asks=False) + manner.header):
        end = unmarked_at(text, manner.end_text, len(start))
        if text.startswith(start) and end >= 0:
            return text[len(start) : end]
    raise ModelError(
        "the chat template shows the first message differently once the conversation goes on, so what an assistant "
        "writes cannot be told from it; use the template that belongs to the model, or calls='json'"
    )


def _shows(template: ChatTemplate, messages: Messages, word: str, *, tools: Sequence[Message] = ()) -> bool:
    return _tried(lambda: word in template.render(messages, tools, asks=True)) is True


def _tried(ask: Callable[[], bool]) -> bool | None:
    """None = the template refuses."""
    try:
        return ask()
    except ModelError:
        return None


def _header(template: ChatTemplate, messages: Messages) -> str:
    """What stands between the first message and the assistant's text; empty where the first is shown otherwise."""
    start = template.render(messages[:1], [], asks=False)
    text, _, _ = template.render([*messages, messages[0]], [], asks=False).partition(_SAID)
    return text.removeprefix(start) if text.startswith(start) else ""


def _end(template: ChatTemplate, messages: Messages) -> tuple[str, int]:
    """The special token that ends an assistant's turn, as text and id."""
    found = []
    for later in ([], messages[:1]):
        _, _, rest = template.render([*messages, *later], [], asks=False).rpartition(_SAID)
        ids = template.encode(rest)
        found.append(next((token for token in ids if token in template.special_ids), None))
    end = found[0]
    if end is None or found[1] != end:
        raise ModelError(
            "the chat template ends an assistant's turn with no special token, so a model would not know when to "
            "stop; add the tokenizer's end token to what the template writes after an assistant's text"
        )
    return template.text_of(end), end


def _with_calls(template: ChatTemplate, manner: Manner) -> Manner:
    """The manner with calls as the template writes them; unchanged where it writes none."""
    before: Messages = [{"role": "user", "content": _ASKED}]
    for has_tool_role in (True, False):
        tried = replace(manner, writes_calls=True, has_tool_role=has_tool_role)
        conversation = [*before, tried.call(PROBE), tried.answer(_ANSWER)]
        words = (PROBE.operation, str(PROBE.parameters["value"]), _ANSWER)
        if not all(_shows(template, conversation, word) for word in words):
            continue
        segment = call_segment(template, tried, before, tried.call(PROBE))
        for each in CALL_FORMATS.values():
            call = each.read(segment)
            if call is not None and replace(call.action, thought="") == PROBE:
                return replace(tried, calls=each)
        raise ModelError(
            f"the chat template writes calls in a format that is not known here: {segment!r}; known: "
            f"{', '.join(CALL_FORMATS)}; ask for calls='json' to have them written as {JSON.example}"
        )
    return manner
