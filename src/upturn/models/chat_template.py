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
from upturn.models.call_format import Call, call_name, checked_arguments, is_same_call
from upturn.models.call_schema import CallSchema, call_schema
from upturn.models.renderer import ParsedOutput
from upturn.models.template import ChatTemplate, Message, Messages, unmarked_at
from upturn.models.template_profile import CALL_ID, PROBE, call_segment, probe_template, tool_schema
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
        self._template = ChatTemplate(tokenizer, options)
        self.profile = probe_template(self._template, calls)
        """Which messages the template supports."""
        self._tools = tuple(tools)
        self._tool_schemas = (
            [self._template.mark(tool_schema(tool)) for tool in tools] if self.profile.lists_tools else []
        )
        eos = [] if self._template.eos_id is None else [self._template.eos_id]
        further = [token for token in (*eos, *stops) if token in self._template.special_ids]
        self._stop_ids = tuple(dict.fromkeys((self.profile.end_id, *further)))
        trusted = {*self.profile.calls.markers, THOUGHT, THOUGHT_END}
        self._allowed = frozenset(token for token in trusted if self._template.id_of(token) is not None)
        allowed_ids = {self._template.id_of(token) for token in self._allowed}
        self._role_ids = self._template.special_ids - allowed_ids
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
        return call_schema(self.profile.calls, self._tools)

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
        return self._extension(observation, CALL_ID)

    def next_prompt(
        self, history: tuple[int, ...], turns: Sequence[Turn], *, observation: Observation, prompt: str
    ) -> tuple[int, ...]:
        """The whole next prompt: the history plus the extension, or the conversation rendered again."""
        if not self.keeps_prefix(prompt):
            return self.rerender(turns, observation=observation, prompt=prompt)
        gap = () if history[-1:] and history[-1] in self._stop_ids else (self.profile.end_id,)
        return (*history, *gap, *self._extension(observation, self._call_id(turns[-1])))

    def rerender(self, turns: Sequence[Turn], *, observation: Observation, prompt: str) -> tuple[int, ...]:
        """The whole conversation as the template renders it, with calls written from the turns' actions."""
        return tuple(self._template.encode(self._render(self._conversation(turns, observation, prompt))))

    def count(self, text: str) -> int:
        """The number of tokens of the text, with control tokens in it encoded as text."""
        return len(self._template.encode(self._template.mark(text)))

    def write(self, action: Action) -> tuple[int, ...]:
        """The call as the template writes it, and the end token.

        Raises RecordError for what cannot be a call, or would not parse back to the same action: values with the
        format's own markers, characters that the tokenizer lacks.
        """
        checked_arguments(action)
        before, safe = self._opening(Observation("?"), ""), self._mark_action(action)
        text = self._close_thought(
            call_segment(self._template, self.profile, before, self.profile.call(safe)), safe
        )
        ids = (*self._template.encode(text), self.profile.end_id)
        parsed = self.read(ids)
        if parsed.action is None or not is_same_call(action, parsed.action):
            raise RecordError(
                f"{action!r} cannot be written as a call: {parsed.text!r} reads as {parsed.action!r}; the format "
                f"{self.profile.calls.name!r} or the tokenizer cannot hold it"
            )
        return ids

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        """The one call at the end of the output. A truncated output, or one with role tokens, has none."""
        is_ended = bool(token_ids) and token_ids[-1] in self._stop_ids
        body = list(token_ids[:-1] if is_ended else token_ids)
        valid = [token for token in body if 0 <= token < self._template.size]
        text = self._template.decode(valid)
        is_readable = is_ended and valid == body and not self._role_ids.intersection(body)
        call = self._read(text) if is_readable else None
        return ParsedOutput(text, None if call is None else call.action)

    def _encode_opening(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return tuple(self._template.encode(self._render(self._opening(observation, prompt))))

    def _opening(self, observation: Observation, prompt: str) -> Messages:
        return self._template.mark(self.profile.opening(prompt, _observation_text(observation), self._tools))

    def _render(self, messages: Messages) -> str:
        return self._template.render(messages, self._tool_schemas, is_open=True)

    def _extension(self, observation: Observation, call_id: str) -> tuple[int, ...]:
        answer = self._template.mark(_observation_text(observation))
        text = self._extension_text(answer, call_id, listed=self._later_tool_schemas)
        return tuple(self._template.encode_after(self.profile.end_id, text))

    def _extension_text(self, answer: str, call_id: str, *, listed: Sequence[Message]) -> str:
        """The template's text after the end of a call.

        ``answer`` is marked; ``listed``: the tools, as JSON.
        """
        profile = self.profile
        question: Message = {"role": "user", "content": "?"}
        conversation = [question, profile.call(PROBE, call_id), profile.answer(answer, call_id)]
        text = self._template.render(conversation, listed, is_open=True)
        call_start = text.find(str(PROBE.parameters["value"]))
        end = unmarked_at(text, profile.end_text, max(call_start, 0))
        if call_start < 0 or end < 0:
            raise ModelError(
                "the chat template omits the call before an answer; its conversations cannot be appended to"
            )
        return text[end + len(profile.end_text) :]

    def _choose_later_schemas(self) -> Sequence[Message]:
        """The tools; none where the text after a call is the same without them, which is faster."""
        without, listed = (
            self._extension_text("Zanswer", CALL_ID, listed=tools) for tools in ([], self._tool_schemas)
        )
        return [] if without == listed else self._tool_schemas

    def _extends_prefixes(self, prompt: str) -> bool:
        """Whether rendering each turn of a test conversation extends the rendering of the turn before."""
        thought = _PROBED_THOUGHT if self._template.mentions(THOUGHT_END) else ""
        messages = self._opening(Observation("?"), prompt)
        text = self._render(messages)
        for turn in range(_PROBED_TURNS):
            value, answer = f"Zvalue{turn}", f"Zanswer{turn}"
            action = Action(PROBE.target, PROBE.operation, {"value": value}, thought)
            messages = [*messages, self.profile.call(action), self.profile.answer(answer)]
            later = self._render(messages)
            end = unmarked_at(later, self.profile.end_text, len(text))
            written = later[len(text) : end]
            is_complete = value in written and (not thought or "Zwhy" in written)
            extension = later[end + len(self.profile.end_text) :]
            if end < 0 or not later.startswith(text) or not is_complete:
                return False
            if extension != self._extension_text(answer, CALL_ID, listed=self._later_tool_schemas):
                return False
            text = later
        return True

    def _conversation(self, turns: Sequence[Turn], observation: Observation, prompt: str) -> Messages:
        """All messages. A turn without a call is the assistant's plain text, answered by a user's message."""
        mark = self._template.mark
        messages = self._opening(turns[0].observation, prompt)
        later = [*(turn.observation for turn in turns[1:]), observation]
        for turn, result in zip(turns, later, strict=True):
            answer = mark(_observation_text(result))
            if turn.action is None:
                text = mark(turn.text, but=(THOUGHT, THOUGHT_END))
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": answer}]
            else:
                call_id = self._call_id(turn)
                messages += [
                    self.profile.call(self._mark_action(turn.action), call_id),
                    self.profile.answer(answer, call_id),
                ]
        return messages

    def _mark_action(self, action: Action) -> Action:
        """The action with all control tokens in it marked, except those around a thought."""
        mark = self._template.mark
        return replace(
            action,
            parameters=mark(dict(action.parameters)),
            thought=mark(action.thought, but=(THOUGHT, THOUGHT_END)),
        )

    def _close_thought(self, text: str, action: Action) -> str:
        """The text with the end of the thought that the template's prompt opens."""
        is_closed = 0 <= text.find(THOUGHT_END) < text.find(call_name(action))
        if is_closed or not self._begins_in_thought:
            return text
        thought, end, _ = action.thought.partition(THOUGHT_END)
        inner = thought.replace(THOUGHT, "", 1).strip("\n") if end else ""
        return f"{inner}\n{THOUGHT_END}\n\n{text}"

    def _call_id(self, turn: Turn) -> str:
        """The id in the model's call; CALL_ID where it has none."""
        call = self._read(turn.text)
        return CALL_ID if call is None or call.id is None else call.id

    def _read(self, text: str) -> Call | None:
        """The call after the thought; calls inside the thought are drafts and ignored."""
        if not self._begins_in_thought and not text.lstrip().startswith(THOUGHT):
            return self.profile.calls.read(text)
        thought, end, rest = text.partition(THOUGHT_END)
        call = self.profile.calls.read(rest) if end else None
        if call is None:
            return None
        full_thought = f"{thought}{end}\n\n{call.action.thought}".strip()
        return call._replace(action=replace(call.action, thought=full_thought))


def _observation_text(observation: Observation) -> str:
    if not observation.is_error:
        return observation.text
    return f"error {observation.code}: {observation.text}" if observation.text else f"error {observation.code}"
