"""A renderer for any model with a chat template: its own roles, its own way to list tools and to write calls.

A conversation is only ever appended to, as with every renderer, where the template keeps prefixes: what follows an
action is what the template writes after it in a small conversation of the same shape. Where the template shows
earlier turns differently once others follow (thoughts left out, tools or prompts moved), the conversation is
rendered again, as the template means it, and its tokens start a new training row each time: that is found out when
the renderer is made, by rendering conversations of several turns.

A turn that was cut off before its end gets the end token as context: nobody wrote it, nobody is trained on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from upturn.errors import ModelError, RecordError
from upturn.models.call_format import Call, called_name, checked_arguments, is_same_call
from upturn.models.renderer import Written
from upturn.models.template import ChatTemplate, Message, Messages, unmarked_at
from upturn.models.template_profile import CALL_ID, PROBE, call_segment, described, learn_manner
from upturn.records import Action, JsonValue, Observation, Tool, Turn

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

THOUGHT, THOUGHT_END = "<think>", "</think>"
_OPENINGS = 64
"""First prompts that are remembered: attempts of a group begin with the same one."""
_PROBED_TURNS = 3
_PROBED_THOUGHT = f"{THOUGHT}\nZwhy\n{THOUGHT_END}"


class ChatRenderer:
    """Between records and the tokens of one tokenizer's chat template.

    The first observation is the user's message, further ones answer the call before them, an error as ``error CODE:
    text``. An action is a call in the template's own format; its thought stands before it, where the template shows
    one.
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
        """``tools``: what the model is told it can call; empty = nothing.

        ``calls``: None = as the template writes them, or as JSON where it knows none; ``json`` = as JSON in any
        case. ``options``: variables of the template. ``stops``: further tokens that end a turn, as the model's own
        generation settings name them; those that the tokenizer does not hold as special are left out. Raises
        ModelError when there is no template, or none that can be used, with the cure.
        """
        self._template = ChatTemplate(tokenizer, options)
        self.manner = learn_manner(self._template, calls)
        """How the template is talked to."""
        self._tools = tuple(tools)
        self._listed = [self._template.marked(described(tool)) for tool in tools] if self.manner.lists_tools else []
        named = [] if self._template.eos_id is None else [self._template.eos_id]
        further = [token for token in (*named, *stops) if token in self._template.special_ids]
        self._stop_ids = tuple(dict.fromkeys((self.manner.end_id, *further)))
        trusted = {*self.manner.calls.markers, THOUGHT, THOUGHT_END}
        self._own = frozenset(token for token in trusted if self._template.id_of(token) is not None)
        own_ids = {self._template.id_of(token) for token in self._own}
        self._foreign_ids = self._template.special_ids - own_ids
        self._opened = lru_cache(_OPENINGS)(self._encoded_opening)
        asked = self._rendered(self._opening(Observation("?"), ""))
        self._begins_in_thought = asked.rstrip().endswith(THOUGHT)
        self._listed_later = self._needed_later()
        self._keeps = {
            is_prompted: self._is_kept("Zprompt" if is_prompted else "") for is_prompted in (False, True)
        }

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The token that ends an assistant's turn, then the tokenizer's own end token and further ones."""
        return self._stop_ids

    def keeps_prefix(self, prompt: str) -> bool:
        """Whether conversations with such a system prompt are appended to. False: they are rendered again each
        turn.
        """
        return self._keeps[bool(prompt)]

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        """System prompt, tools and the first message, up to where the model writes."""
        return self._opened(observation, prompt)

    def extend(self, observation: Observation) -> tuple[int, ...]:
        """What follows an action's end token, up to where the model writes again."""
        return self._extension(observation, CALL_ID)

    def proceed(
        self, history: tuple[int, ...], turns: Sequence[Turn], *, observation: Observation, prompt: str
    ) -> tuple[int, ...]:
        """The whole next prompt: the history with what follows, or all of it rendered again."""
        if not self.keeps_prefix(prompt):
            return self.retell(turns, observation=observation, prompt=prompt)
        gap = () if history[-1:] and history[-1] in self._stop_ids else (self.manner.end_id,)
        return (*history, *gap, *self._extension(observation, self._call_id(turns[-1])))

    def retell(self, turns: Sequence[Turn], *, observation: Observation, prompt: str) -> tuple[int, ...]:
        """The conversation as the template shows all of it, calls made from the turns' actions."""
        return tuple(self._template.encode(self._rendered(self._conversation(turns, observation, prompt))))

    def count(self, text: str) -> int:
        """Tokens of the text, control tokens in it as text."""
        return len(self._template.encode(self._template.marked(text)))

    def write(self, action: Action) -> tuple[int, ...]:
        """The call as the template writes it, and the end token.

        Raises RecordError for what cannot be a call, or would not read back as the same: values that hold the
        format's own marks, letters that the tokenizer does not have.
        """
        checked_arguments(action)
        before, safe = self._opening(Observation("?"), ""), self._safe(action)
        text = self._closed(call_segment(self._template, self.manner, before, self.manner.call(safe)), safe)
        ids = (*self._template.encode(text), self.manner.end_id)
        found = self.read(ids)
        if found.action is None or not is_same_call(action, found.action):
            raise RecordError(
                f"{action!r} cannot be written as a call: {found.text!r} reads as {found.action!r}; the format "
                f"{self.manner.calls.name!r} or the tokenizer cannot hold it"
            )
        return ids

    def read(self, token_ids: Sequence[int]) -> Written:
        """The one call that ends what was written. A text that was cut off, or holds tokens of roles, has none."""
        is_ended = bool(token_ids) and token_ids[-1] in self._stop_ids
        body = list(token_ids[:-1] if is_ended else token_ids)
        known = [token for token in body if 0 <= token < self._template.size]
        text = self._template.decode(known)
        is_readable = is_ended and known == body and not self._foreign_ids.intersection(body)
        call = self._read(text) if is_readable else None
        return Written(text, None if call is None else call.action)

    def _encoded_opening(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return tuple(self._template.encode(self._rendered(self._opening(observation, prompt))))

    def _opening(self, observation: Observation, prompt: str) -> Messages:
        return self._template.marked(self.manner.opening(prompt, _shown(observation), self._tools))

    def _rendered(self, messages: Messages) -> str:
        return self._template.render(messages, self._listed, asks=True)

    def _extension(self, observation: Observation, call_id: str) -> tuple[int, ...]:
        shown = self._template.marked(_shown(observation))
        text = self._extension_text(shown, call_id, listed=self._listed_later)
        return tuple(self._template.encode_after(self.manner.end_id, text))

    def _extension_text(self, marked: str, call_id: str, *, listed: Sequence[Message]) -> str:
        """What the template writes after the end of a call. ``listed``: the tools, as the template takes them."""
        manner = self.manner
        asked: Messages = [{"role": "user", "content": "?"}]
        conversation = [*asked, manner.call(PROBE, call_id), manner.answer(marked, call_id)]
        text = self._template.render(conversation, listed, asks=True)
        called = text.find(str(PROBE.parameters["value"]))
        end = unmarked_at(text, manner.end_text, max(called, 0))
        if called < 0 or end < 0:
            raise ModelError("the chat template leaves out the call before an answer; it cannot be appended to")
        return text[end + len(manner.end_text) :]

    def _needed_later(self) -> Sequence[Message]:
        """The tools, or none where the template writes the same without them after a call: that takes less time."""
        without, told = (self._extension_text("Zanswer", CALL_ID, listed=each) for each in ([], self._listed))
        return [] if without == told else self._listed

    def _is_kept(self, prompt: str) -> bool:
        """Whether a conversation of several turns is rendered as the one before it with an extension, each time."""
        thought = _PROBED_THOUGHT if self._template.mentions(THOUGHT_END) else ""
        messages = self._opening(Observation("?"), prompt)
        text = self._rendered(messages)
        for turn in range(_PROBED_TURNS):
            value, answer = f"Zvalue{turn}", f"Zanswer{turn}"
            action = Action(PROBE.target, PROBE.operation, {"value": value}, thought)
            messages = [*messages, self.manner.call(action), self.manner.answer(answer)]
            later = self._rendered(messages)
            end = unmarked_at(later, self.manner.end_text, len(text))
            written = later[len(text) : end]
            is_whole = value in written and (not thought or "Zwhy" in written)
            extension = later[end + len(self.manner.end_text) :]
            if end < 0 or not later.startswith(text) or not is_whole:
                return False
            if extension != self._extension_text(answer, CALL_ID, listed=self._listed_later):
                return False
            text = later
        return True

    def _conversation(self, turns: Sequence[Turn], observation: Observation, prompt: str) -> Messages:
        """All of it; what cannot be read as a call is the assistant's text, and is answered by the user."""
        marked = self._template.marked
        messages = self._opening(turns[0].observation, prompt)
        later = [*(turn.observation for turn in turns[1:]), observation]
        for turn, seen in zip(turns, later, strict=True):
            shown = marked(_shown(seen))
            if turn.action is None:
                said = marked(turn.text, but=(THOUGHT, THOUGHT_END))
                messages += [{"role": "assistant", "content": said}, {"role": "user", "content": shown}]
            else:
                call_id = self._call_id(turn)
                messages += [self.manner.call(self._safe(turn.action), call_id), self.manner.answer(shown, call_id)]
        return messages

    def _safe(self, action: Action) -> Action:
        """The action with all control tokens in it marked, except those around a thought."""
        marked = self._template.marked
        return replace(
            action,
            parameters=marked(dict(action.parameters)),
            thought=marked(action.thought, but=(THOUGHT, THOUGHT_END)),
        )

    def _closed(self, text: str, action: Action) -> str:
        """What is written, with the end of the thought that the model is asked to begin with."""
        is_closed = 0 <= text.find(THOUGHT_END) < text.find(called_name(action))
        if is_closed or not self._begins_in_thought:
            return text
        thought, end, _ = action.thought.partition(THOUGHT_END)
        inner = thought.replace(THOUGHT, "", 1).strip("\n") if end else ""
        return f"{inner}\n{THOUGHT_END}\n\n{text}"

    def _call_id(self, turn: Turn) -> str:
        """As the model named its call; an own one where it did not."""
        call = self._read(turn.text)
        return CALL_ID if call is None or call.id is None else call.id

    def _read(self, text: str) -> Call | None:
        """The call after the thought, which may hold drafts of calls."""
        if not self._begins_in_thought and not text.lstrip().startswith(THOUGHT):
            return self.manner.calls.read(text)
        thought, end, rest = text.partition(THOUGHT_END)
        call = self.manner.calls.read(rest) if end else None
        if call is None:
            return None
        whole = f"{thought}{end}\n\n{call.action.thought}".strip()
        return call._replace(action=replace(call.action, thought=whole))


def _shown(observation: Observation) -> str:
    if not observation.is_error:
        return observation.text
    return f"error {observation.code}: {observation.text}" if observation.text else f"error {observation.code}"
