"""From observations and actions to the tokens of a model, and back.

A renderer only appends: the prompt of a turn is the prompt of the turn before, the model's output, and ``extend``
of the new observation. Nothing is rendered again, so the trained tokens are the sampled tokens. Where a chat
template renders earlier turns differently later on, a ``ConversationRenderer`` supplies the whole next prompt: such
a prompt starts a new training row, and sampled tokens stay in the row they were sampled in. The same holds for a
conversation that a ``RerenderingRenderer`` renders again because it has become too long.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

from tokenizers import Tokenizer

from upturn.errors import ModelError, RecordError
from upturn.models.call import read_call, write_call
from upturn.records import Action, Observation, Turn

TASK_TOKEN = "<|task|>"
ACT_TOKEN = "<|act|>"
OBSERVATION_TOKEN = "<|obs|>"
END_TOKEN = "<|end|>"
SPECIAL_TOKENS = (TASK_TOKEN, ACT_TOKEN, OBSERVATION_TOKEN, END_TOKEN)
"""In the order in which a tokenizer for CompactRenderer must define them."""
ERROR_TOKEN = "<|error|>"
"""With a tokenizer that also has this token, errors are shown in full."""
GLUE = "\u2060"
"""U+2060, the word joiner: the shipped tokenizer's mark before a word without a preceding space. Decoding removes
it with that word, so it remains only at the end of a text whose next word has not been written."""


class ParsedOutput(NamedTuple):
    """A model's output: the text, and the action parsed from it (None = it is not an action)."""

    text: str
    action: Action | None


class Renderer(Protocol):
    """Converts between records and token ids. Pure: the same arguments give the same ids."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """A model's turn ends after one of these; it is part of the output."""

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        """The first prompt, up to the model's output. ``prompt`` is the system prompt; empty = none."""

    def extend(self, observation: Observation) -> tuple[int, ...]:
        """The ids between an action and the model's next output."""

    def write(self, action: Action) -> tuple[int, ...]:
        """The ids a model would write for this action, stop token included; raises RecordError if it cannot."""

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        """Text and action of a model's output. Never raises."""


class OutputPart(NamedTuple):
    """One call of a model's output."""

    stop: int
    """Index after its last token; the next part begins there."""
    output: ParsedOutput
    repairs: tuple[str, ...] = ()
    """What was repaired in the call, by name; sorted."""
    refusal: str = ""
    """Why there is no action, ``reason: detail``; empty = there is one, or no reason is known."""


@runtime_checkable
class MessageRenderer(Protocol):
    """A Renderer whose outputs may hold several calls. Each is a turn; ``Turn.call`` counts those of a message."""

    def read_all(self, token_ids: Sequence[int]) -> tuple[OutputPart, ...]:
        """All calls of the output with their parts of its tokens; one part where there is no call. Never raises."""

    def write_all(self, actions: Sequence[Action]) -> tuple[tuple[int, ...], ...]:
        """The ids of each call of one message; raises RecordError if it cannot."""


def _reads_messages(renderer: Renderer) -> TypeGuard[MessageRenderer]:
    return _implements(type(renderer), MessageRenderer)


@cache
def _implements(kind: type, protocol: type) -> bool:
    """``issubclass``, once per class: with a protocol it takes 0.1 ms, and every turn asks."""
    return issubclass(kind, protocol)


def read_parts(renderer: Renderer, token_ids: Sequence[int]) -> tuple[OutputPart, ...]:
    """The calls of a model's output; one part with other renderers."""
    if _reads_messages(renderer):
        return renderer.read_all(token_ids)
    return (OutputPart(len(token_ids), renderer.read(token_ids)),)


def write_parts(renderer: Renderer, actions: Sequence[Action]) -> tuple[tuple[int, ...], ...]:
    """The ids of each call of one message; raises RecordError if the renderer cannot write several."""
    if _reads_messages(renderer):
        return renderer.write_all(actions)
    if len(actions) > 1:
        raise RecordError(
            f"a {type(renderer).__name__} writes one call per message, got {len(actions)}; give each its own turn"
        )
    return (renderer.write(actions[0]),)


def first_message(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The first turn and those that follow it in the same message."""
    size = 1
    while size < len(turns) and turns[size].call == turns[size - 1].call + 1:
        size += 1
    return turns[:size]


def last_message(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The turns of the last message."""
    start = len(turns) - 1
    while start > 0 and turns[start].call > 0 and turns[start - 1].call == turns[start].call - 1:
        start -= 1
    return turns[start:]


@runtime_checkable
class ConversationRenderer(Protocol):
    """A Renderer whose next prompt may depend on more than the latest observation."""

    def keeps_prefix(self, prompt: str) -> bool:
        """Whether every prompt of a conversation with this system prompt extends the history before it."""

    def next_prompt(
        self, history: tuple[int, ...], turns: Sequence[Turn], *, observation: Observation, prompt: str
    ) -> tuple[int, ...]:
        """The whole prompt after at least one turn. ``history``: all ids so far, the latest output included."""


@runtime_checkable
class RerenderingRenderer(Protocol):
    """A Renderer that can render a conversation again from its turns, for example shortened."""

    def rerender(self, turns: Sequence[Turn], *, observation: Observation, prompt: str) -> tuple[int, ...]:
        """The whole prompt after these turns (at least one), from their content and not from recorded ids."""

    def count(self, text: str) -> int:
        """Tokens that a text takes within a conversation, without its surroundings."""


def _extends_conversations(renderer: Renderer) -> TypeGuard[ConversationRenderer]:
    return _implements(type(renderer), ConversationRenderer)


def next_prompt(
    renderer: Renderer,
    history: tuple[int, ...],
    turns: Sequence[Turn],
    *,
    observation: Observation,
    prompt: str = "",
) -> tuple[int, ...]:
    """The ids a model reads before it answers ``observation``, after ``turns``."""
    if not turns:
        return renderer.open(observation, prompt)
    if _extends_conversations(renderer):
        return renderer.next_prompt(history, turns, observation=observation, prompt=prompt)
    return history + renderer.extend(observation)


class CompactRenderer:
    """The compact grammar of the nano model, without tool schemas.

    ``<|task|>instruction<|act|>`` is the first prompt, the model writes ``call<|end|>``, and ``<|obs|>text<|act|>``
    follows. An error observation is ``<|obs|>error CODE<|act|>``, or ``<|error|>text<|act|>`` for a tokenizer that
    has that token. Each text between special tokens is encoded separately; text that looks like a special token
    stays text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Copies the tokenizer; raises ModelError when it lacks one of the four special tokens."""
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.encode_special_tokens = True
        self._task, self._act, self._observation, self._end = (self._special_id(token) for token in SPECIAL_TOKENS)
        self._error: int | None = self._tokenizer.token_to_id(ERROR_TOKEN)
        self._special_ids = frozenset(self._tokenizer.get_added_tokens_decoder())

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The id of ``<|end|>``."""
        return (self._end,)

    def open(self, observation: Observation, prompt: str = "") -> tuple[int, ...]:
        """``<|task|>instruction<|act|>``; a system prompt precedes the instruction on separate lines."""
        text = f"{prompt}\n{observation.text}" if prompt else observation.text
        return (self._task, *self._encode(text), self._act)

    def extend(self, observation: Observation) -> tuple[int, ...]:
        """``<|obs|>text<|act|>``"""
        if observation.is_error and self._error is not None:
            return (self._error, *self._encode(observation.text), self._act)
        text = f"error {observation.code}" if observation.is_error else observation.text
        return (self._observation, *self._encode(text), self._act)

    def rerender(self, turns: Sequence[Turn], *, observation: Observation, prompt: str = "") -> tuple[int, ...]:
        """``open``, then for each turn its text, ``<|end|>`` and the observation."""
        ids = list(self.open(turns[0].observation, prompt))
        later = [*(turn.observation for turn in turns[1:]), observation]
        for turn, result in zip(turns, later, strict=True):
            ids += (*self._encode(turn.text), self._end, *self.extend(result))
        return tuple(ids)

    def count(self, text: str) -> int:
        """Tokens of the text."""
        return len(self._encode(text))

    def write(self, action: Action) -> tuple[int, ...]:
        """``call<|end|>``; raises RecordError when a name in the action is not an identifier."""
        return (*self._encode(write_call(action)), self._end)

    def write_text(self, text: str) -> tuple[int, ...]:
        """``text<|end|>``, whether it is a call or not."""
        return (*self._encode(text), self._end)

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        """The call before ``<|end|>``. Truncated output, or output with special tokens inside, has no action."""
        is_ended = bool(token_ids) and token_ids[-1] == self._end
        body = list(token_ids[:-1] if is_ended else token_ids)
        text: str = self._tokenizer.decode(body, skip_special_tokens=False)
        is_readable = is_ended and not self._special_ids.intersection(body)
        return ParsedOutput(text, read_call(text) if is_readable else None)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        if self._special_ids.intersection(ids):
            # A word-level tokenizer matches special tokens even with encode_special_tokens.
            ids = self._tokenizer.encode(text.replace("<|", "< |"), add_special_tokens=False).ids
        return ids

    def _special_id(self, token: str) -> int:
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise ModelError(
                f"the tokenizer has no special token {token!r}; CompactRenderer needs {', '.join(SPECIAL_TOKENS)}: "
                "use the tokenizer that ships with the model"
            )
        return int(token_id)
