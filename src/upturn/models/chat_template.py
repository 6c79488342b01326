"""A renderer for any model with a chat template: the template's own roles, tool lists and call format.

Where the template keeps prefixes, a conversation is only appended to, as with every renderer: the text after an
action is taken from a small conversation of the same shape. Where the template renders earlier turns differently
once later ones follow (thoughts dropped, tools or prompts moved), the whole conversation is rendered again and each
such prompt starts a new training row. The constructor probes which of the two applies by rendering conversations of
several turns.

A turn that was cut off before its end token gets one as context; it is not trained on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from upturn.errors import ModelError, RecordError
from upturn.models.calls import (
    Call,
    CallSchema,
    FunctionNames,
    Reading,
    Refusal,
    call_schema,
    checked_arguments,
    is_same_call,
    typed_arguments,
)
from upturn.models.renderer import OutputPart, ParsedOutput, first_message, last_message
from upturn.models.template import ChatTemplate, Message, Messages, unmarked_at
from upturn.models.template_profile import (
    CALL_ID,
    OTHER_PROBE,
    PROBE,
    call_id,
    call_segment,
    probe_template,
    tool_schema,
)
from upturn.records import Action, JsonValue, Observation, Tool, Turn

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

THOUGHT, THOUGHT_END = "<think>", "</think>"
_OPENINGS = 64
"""Number of cached first prompts: the rollouts of a group share one."""
_PROBED_TURNS = 3
_PROBED_THOUGHT = f"{THOUGHT}\nZwhy\n{THOUGHT_END}"


class ChatRenderer:
    """Converts between records and the tokens of one tokenizer's chat template.

    The first observation is the user's message; later ones answer the previous call, an error as ``error CODE:
    text``. An action is a call in the template's own format, after its thought where the template shows thoughts.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        tools: Sequence[Tool] = (),
        *,
        calls: Literal["json"] | None = None,
        options: Mapping[str, JsonValue] | None = None,
        stops: Sequence[int] = (),
    ) -> None:
        """``tools``: listed in the prompt as callable; empty = none.

        ``calls``: None = the template's own format, or JSON where it has none; ``json`` = always JSON. ``options``:
        variables of the template. ``stops``: further end-of-turn tokens, from the model's generation settings;
        those that are not special tokens of the tokenizer are ignored. Raises ModelError, with the remedy, when
        there is no template or an unusable one.
        """
        self.template = ChatTemplate(tokenizer, options)
        """The tokenizer's, with the options."""
        profile = probe_template(self.template, calls)
        self.profile = replace(profile, names=FunctionNames(tools, profile.names.allowed))
        """Which messages the template supports."""
        self._tools = tuple(tools)
        self._by_action = {(tool.target, tool.operation): tool for tool in tools}
        self._answer_tool = next((tool for tool in tools if tool.text_parameter), None)
        self._tool_schemas = (
            [self.template.mark(tool_schema(tool, self.profile.names)) for tool in tools]
            if self.profile.lists_tools
            else []
        )
        eos = [] if self.template.eos_id is None else [self.template.eos_id]
        further = [token for token in (*eos, *stops) if token in self.template.special_ids]
        ends = (self.profile.call_end_id, self.profile.end_id)
        inner = {self.profile.end_id} if self.profile.has_inner_ends else set()
        self._stop_ids = tuple(dict.fromkeys(token for token in (*ends, *further) if token not in inner))
        trusted = {*self.profile.calls.markers, THOUGHT, THOUGHT_END}
        self._allowed = frozenset(token for token in trusted if self.template.id_of(token) is not None)
        allowed_ids = {self.template.id_of(token) for token in self._allowed}
        self._role_ids = self.template.special_ids - allowed_ids
        self._cached_opening = lru_cache(_OPENINGS)(self._encode_opening)
        opening = self._render(self._opening(Observation("?"), ""))
        self._begins_in_thought = opening.rstrip().endswith(THOUGHT)
        self._later_tool_schemas = self._choose_later_schemas()
        self._keeps_prefix = {
            is_prompted: self._extends_prefixes("Zprompt" if is_prompted else "") for is_prompted in (False, True)
        }

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The token that ends an assistant's turn, then the tokenizer's own end token and further ones."""
        return self._stop_ids

    def call_schema(self) -> CallSchema:
        """What an output must be to call a tool; raises ModelError where there is no schema for it."""
        return call_schema(self.profile.calls, self._tools, self.profile.names)

    def keeps_prefix(self, prompt: str) -> bool:
        """Whether conversations with (or without) a system prompt are appended to.

        False = rendered again each turn.
        """
        return self._keeps_prefix[bool(prompt)]

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        """System prompt, tools and the first message, up to where the model writes."""
        return self._cached_opening(observation, prompt)

    def extend(self, observation: Observation) -> tuple[int, ...]:
        """The ids between an action's end token and where the model writes again."""
        return self._extension((observation,), ())

    def next_prompt(
        self, history: tuple[int, ...], turns: Sequence[Turn], *, observation: Observation, prompt: str
    ) -> tuple[int, ...]:
        """The whole next prompt: the history plus the extension, or the conversation rendered again."""
        if not self.keeps_prefix(prompt):
            return self.rerender(turns, observation=observation, prompt=prompt)
        profile, message = self.profile, last_message(turns)
        is_ended = bool(history) and history[-1] in self._stop_ids
        has_own_end = profile.call_end_id != profile.end_id
        if is_ended and (self._is_plain(message[0]) or (has_own_end and self._is_reply(history[-1], message[0]))):
            return (*history, *self._reply_extension(observation, history[-1]))
        if has_own_end:
            is_ended = is_ended and history[-1] == profile.call_end_id
        gap = () if is_ended else (profile.call_end_id,)
        answers = (*(turn.observation for turn in message[1:]), observation)
        return (*history, *gap, *self._extension(answers, message))

    def rerender(self, turns: Sequence[Turn], *, observation: Observation, prompt: str) -> tuple[int, ...]:
        """The whole conversation as the template renders it, with calls written from the turns' actions."""
        return tuple(self.template.encode(self._render(self._conversation(turns, observation, prompt))))

    def count(self, text: str) -> int:
        """The number of tokens of the text, with control tokens in it encoded as text."""
        return len(self.template.encode(self.template.mark(text)))

    def write(self, action: Action) -> tuple[int, ...]:
        """The call as the template writes it, and the end token.

        Raises RecordError for what cannot be a call, or would not parse back to the same action: values with the
        format's own markers, characters that the tokenizer lacks.
        """
        return self.write_all((action,))[0]

    def write_all(self, actions: Sequence[Action]) -> tuple[tuple[int, ...], ...]:
        """One message with all the calls, as the ids of each; the end token is the last one's.

        Raises RecordError as ``write``, and where the template holds one call per message.
        """
        if len(actions) > 1 and not self.profile.holds_several:
            raise RecordError(
                f"{len(actions)} calls cannot be one message: the chat template holds one; write them one by one"
            )
        for action in actions:
            checked_arguments(action)
        before, safe = self._opening(Observation("?"), ""), [self._mark_action(action) for action in actions]
        text = self._close_thought(
            call_segment(self.template, self.profile, before, self.profile.call(*safe)), safe[0]
        )
        ids = (*self.template.encode(text), self.profile.call_end_id)
        parts = self.read_all(ids)
        parsed = [part.output.action for part in parts]
        is_right = len(parsed) == len(actions) and all(
            action is not None and is_same_call(written, action)
            for written, action in zip(actions, parsed, strict=True)
        )
        if not is_right or any(part.repairs for part in parts):
            shown = actions[0] if len(actions) == 1 else tuple(actions)
            raise RecordError(
                f"{shown!r} cannot be written as a call: {self.template.decode(ids[:-1])!r} reads as {parsed!r}; "
                f"the format {self.profile.calls.name!r} or the tokenizer cannot hold it"
            )
        starts = (0, *(part.stop for part in parts[:-1]))
        return tuple(ids[start : part.stop] for start, part in zip(starts, parts, strict=True))

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        """The one call of the output. A truncated output, or one with role tokens, has none."""
        parts = self.read_all(token_ids)
        if len(parts) == 1:
            return parts[0].output
        return ParsedOutput(self._body(token_ids)[1], None)

    def read_all(self, token_ids: Sequence[int]) -> tuple[OutputPart, ...]:
        """All calls of the output, each with its part of the tokens; one part without an action where it has
        none."""
        body, text = self._body(token_ids)
        reading = self._reading(token_ids, body, text)
        if isinstance(reading, Reading) and len(reading.calls) > 1:
            bounds = self._bounds(body, reading) if self.profile.holds_several else []
            stops = (*bounds, len(token_ids))
            if len(stops) == len(reading.calls):
                return tuple(
                    self._part(stop, self.template.decode(body[start:stop]), reading, index)
                    for index, (start, stop) in enumerate(zip((0, *bounds), stops, strict=True))
                )
            reading = _SEVERAL
        if isinstance(reading, Reading):
            return (self._part(len(token_ids), text, reading, 0),)
        answer = self._plain_action(text) if reading.reason == "no_call" else None
        refusal = "" if answer is not None else str(reading)
        return (OutputPart(len(token_ids), ParsedOutput(text, answer), refusal=refusal),)

    def _body(self, token_ids: Sequence[int]) -> tuple[list[int], str]:
        """The ids without the stop token, and the text of the valid ones."""
        is_ended = bool(token_ids) and token_ids[-1] in self._stop_ids
        body = list(token_ids[:-1] if is_ended else token_ids)
        return body, self.template.decode([token for token in body if 0 <= token < self.template.size])

    def _reading(self, token_ids: Sequence[int], body: list[int], text: str) -> Reading | Refusal:
        if len(body) == len(token_ids):
            return Refusal("truncated", "the message was cut off before its end")
        if not all(0 <= token < self.template.size for token in body) or self._role_ids.intersection(body):
            return Refusal("control_tokens", "the message contains tokens of a prompt")
        return self._read(text)

    def _part(self, stop: int, text: str, reading: Reading, index: int) -> OutputPart:
        """The call with this index as an action. The text before the first call is its thought."""
        call = reading.calls[index]
        target, operation = self.profile.names.read(call.name)
        tool = None if self.profile.calls.has_types else self._by_action.get((target, operation))
        arguments = call.arguments if tool is None else typed_arguments(call.arguments, tool)
        thoughts = (*((reading.thought,) if index == 0 else ()), call.thought)
        action = Action(target, operation, arguments, "\n".join(filter(None, thoughts)))
        return OutputPart(stop, ParsedOutput(text, action), tuple(sorted(call.repairs)))

    def _bounds(self, body: list[int], reading: Reading) -> list[int]:
        """The index of the token in which each call after the first begins; empty where they share a token."""
        bounds = []
        for call in reading.calls[1:]:
            low, high = 0, len(body)
            while low < high:  # the least number of tokens whose text reaches into the call
                middle = (low + high) // 2
                low, high = (
                    (low, middle) if len(self.template.decode(body[:middle])) > call.start else (middle + 1, high)
                )
            bounds.append(low - 1)
        is_ascending = all(
            0 < first < second for first, second in zip(bounds, (*bounds[1:], len(body)), strict=True)
        )
        return bounds if is_ascending else []

    def _plain_action(self, text: str) -> Action | None:
        """A message without a call as an action, where a tool takes one; None = none does, or it is empty."""
        tool = self._answer_tool
        _, _, after = text.rpartition(THOUGHT_END)
        answer = self.profile.calls.plain_text(after).strip()
        if tool is None or not answer:
            return None
        return Action(tool.target, tool.operation, {tool.text_parameter: answer})

    def _is_plain(self, turn: Turn) -> bool:
        """Whether the turn's action is its message's text."""
        return (
            turn.action is not None
            and self._answer_tool is not None
            and turn.action == self._plain_action(turn.text)
        )

    def _is_reply(self, end: int, turn: Turn) -> bool:
        """Whether a message with this end token is plain text, where calls end with another."""
        return end != self.profile.call_end_id and turn.action is None

    def _encode_opening(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return tuple(self.template.encode(self._render(self._opening(observation, prompt))))

    def _opening(self, observation: Observation, prompt: str) -> Messages:
        return self.template.mark(self.profile.opening(prompt, _observation_text(observation), self._tools))

    def _render(self, messages: Messages) -> str:
        return self.template.render(messages, self._tool_schemas, is_open=True)

    def _extension(self, observations: Sequence[Observation], message: Sequence[Turn]) -> tuple[int, ...]:
        """The ids after the end of a message; ``message``: its turns, empty = one call."""
        answers = [self.template.mark(_observation_text(observation)) for observation in observations]
        calls = self._probes(len(answers), message if self.profile.names_results else ())
        ids = self._call_ids(message, len(answers))
        text = self._extension_text(answers, ids, calls=calls, listed=self._later_tool_schemas)
        return tuple(self.template.encode_after(self.profile.call_end_id, text))

    def _probes(self, count: int, message: Sequence[Turn]) -> list[Action]:
        """Calls with the shape of the message's, and with its functions where these matter."""
        probes = [PROBE if index == 0 else OTHER_PROBE for index in range(count)]
        for index, turn in enumerate(message):
            if turn.action is not None:
                target, operation = turn.action.target, turn.action.operation
                probes[index] = replace(probes[index], target=target, operation=operation)
        return probes

    def _extension_text(
        self, answers: Sequence[str], ids: Sequence[str], *, calls: Sequence[Action], listed: Sequence[Message]
    ) -> str:
        """The template's text after the end of a message with calls.

        ``answers`` are marked; ``listed``: the tools, as JSON.
        """
        profile = self.profile
        question: Message = {"role": "user", "content": "?"}
        conversation = [question, profile.call(*calls, ids=ids), *profile.answers(*answers, ids=ids)]
        text = self.template.render(conversation, listed, is_open=True)
        last_value = str(calls[-1].parameters["value"])
        call_start = text.find(last_value)
        end = unmarked_at(text, profile.call_end_text, max(call_start, 0))
        if call_start < 0 or end < 0:
            raise ModelError(
                "the chat template omits the call before an answer; its conversations cannot be appended to"
            )
        return text[end + len(profile.call_end_text) :]

    def _reply_extension(self, observation: Observation, end: int) -> tuple[int, ...]:
        """The ids between the end token of a message without calls and where the model writes again."""
        answer = self.template.mark(_observation_text(observation))
        question: Message = {"role": "user", "content": "?"}
        reply: Message = {"role": "assistant", "content": "Zsaid"}
        messages = [question, reply, {"role": "user", "content": answer}]
        _, _, rest = self.template.render(messages, self._later_tool_schemas, is_open=True).partition("Zsaid")
        position = unmarked_at(rest, self.profile.end_text, 0)
        if position < 0:
            raise ModelError(
                "the chat template omits a reply before a user's message; its conversations cannot be appended to"
            )
        return tuple(self.template.encode_after(end, rest[position + len(self.profile.end_text) :]))

    def _choose_later_schemas(self) -> Sequence[Message]:
        """The tools; none where the text after a call is the same without them, which is faster."""
        without, listed = (
            self._extension_text(["Zanswer"], [CALL_ID], calls=[PROBE], listed=tools)
            for tools in ([], self._tool_schemas)
        )
        return [] if without == listed else self._tool_schemas

    def _extends_prefixes(self, prompt: str) -> bool:
        """Whether rendering each turn of a test conversation extends the rendering of the turn before."""
        thought = _PROBED_THOUGHT if self.template.mentions(THOUGHT_END) else ""
        messages = self._opening(Observation("?"), prompt)
        text, profile = self._render(messages), self.profile
        for turn in range(_PROBED_TURNS):
            count = 2 if profile.holds_several and turn == 1 else 1
            values = [f"Zvalue{turn}{index}" for index in range(count)]
            answers = [f"Zanswer{turn}{index}" for index in range(count)]
            actions = [Action(PROBE.target, PROBE.operation, {"value": value}, thought) for value in values]
            messages = [*messages, profile.call(*actions), *profile.answers(*answers)]
            later = self._render(messages)
            end = unmarked_at(later, profile.call_end_text, len(text))
            written = later[len(text) : end]
            is_complete = all(value in written for value in values) and (not thought or "Zwhy" in written)
            if end < 0 or not later.startswith(text) or not is_complete:
                return False
            probes, ids = self._probes(count, ()), self._call_ids((), count)
            extension = self._extension_text(answers, ids, calls=probes, listed=self._later_tool_schemas)
            if later[end + len(profile.call_end_text) :] != extension:
                return False
            text = later
        return True

    def _conversation(self, turns: Sequence[Turn], observation: Observation, prompt: str) -> Messages:
        """All messages. A turn without a call is the assistant's plain text, answered by a user's message."""
        mark = self.template.mark
        messages = self._opening(turns[0].observation, prompt)
        later = [*(turn.observation for turn in turns[1:]), observation]
        start = 0
        while start < len(turns):
            message = first_message(turns[start:])
            answers = [mark(_observation_text(result)) for result in later[start : start + len(message)]]
            start += len(message)
            actions = [turn.action for turn in message if turn.action is not None]
            if not actions or self._is_plain(message[0]):
                text = mark(message[0].text, but=(THOUGHT, THOUGHT_END))
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": answers[0]}]
                continue
            ids = self._call_ids(message, len(message))
            calls = self.profile.call(*map(self._mark_action, actions), ids=ids)
            messages += [calls, *self.profile.answers(*answers, ids=ids)]
        return messages

    def _mark_action(self, action: Action) -> Action:
        """The action with all control tokens in it marked, except those around a thought."""
        mark = self.template.mark
        return replace(
            action,
            parameters=mark(dict(action.parameters)),
            thought=mark(action.thought, but=(THOUGHT, THOUGHT_END)),
        )

    def _close_thought(self, text: str, action: Action) -> str:
        """The text with the end of the thought that the template's prompt opens."""
        is_closed = 0 <= text.find(THOUGHT_END) < text.find(self.profile.names.write(action))
        if is_closed or not self._begins_in_thought:
            return text
        thought, end, _ = action.thought.partition(THOUGHT_END)
        inner = thought.replace(THOUGHT, "", 1).strip("\n") if end else ""
        return f"{inner}\n{THOUGHT_END}\n\n{text}"

    def _call_ids(self, message: Sequence[Turn], count: int) -> list[str]:
        """The ids in the model's calls; those without one are numbered."""
        reading = self._read("".join(turn.text for turn in message)) if message else None
        calls: tuple[Call | None, ...] = reading.calls if isinstance(reading, Reading) else ()
        named = [None if call is None else call.id for call in (*calls[:count], *[None] * (count - len(calls)))]
        return [call_id(index) if identity is None else identity for index, identity in enumerate(named)]

    def _read(self, text: str) -> Reading | Refusal:
        """The calls after the thought; calls inside the thought are drafts and ignored."""
        if not self._begins_in_thought and not text.lstrip().startswith(THOUGHT):
            return self.profile.calls.read(text)
        thought, end, rest = text.partition(THOUGHT_END)
        if not end:
            return Refusal("no_call", "the thought does not end")
        reading = self.profile.calls.read(rest)
        if isinstance(reading, Refusal):
            return reading
        offset = len(text) - len(rest)
        calls = tuple(call._replace(start=call.start + offset) for call in reading.calls)
        return Reading(f"{thought}{end}\n\n{reading.thought}".strip(), calls)


_SEVERAL = Refusal("several_calls", "write one call in a message")


def _observation_text(observation: Observation) -> str:
    if not observation.is_error:
        return observation.text
    return f"error {observation.code}: {observation.text}" if observation.text else f"error {observation.code}"
