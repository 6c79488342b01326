"""How observations and actions become the tokens a model reads and writes.

A renderer only ever appends: the prompt of a turn is the prompt of the turn before, what the model wrote, and
``extend`` of the new observation. Nothing is rendered again, so the tokens trained are the tokens sampled. Where a
model's own chat template shows earlier turns differently later on, ``ConversationRenderer`` says what the whole
next prompt is: such a prompt starts a new training row, and what was sampled stays in the row it was sampled in.
So does a conversation that ``RetellingRenderer`` tells anew, because it has become too long.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from tokenizers import Tokenizer

from upturn.errors import ModelError
from upturn.models.call import read_call, write_call
from upturn.records import Action, Observation, Turn

TASK_TOKEN = "<|task|>"
ACT_TOKEN = "<|act|>"
OBSERVATION_TOKEN = "<|obs|>"
END_TOKEN = "<|end|>"
SPECIAL_TOKENS = (TASK_TOKEN, ACT_TOKEN, OBSERVATION_TOKEN, END_TOKEN)
"""In the order a tokenizer for CompactRenderer must know them."""
ERROR_TOKEN = "<|error|>"
"""Where a tokenizer knows this one as well, errors are shown in full."""


class Written(NamedTuple):
    """What a model wrote: the text, and the action read from it (None: it cannot be read as one)."""

    text: str
    action: Action | None


class Renderer(Protocol):
    """Between records and token ids. Pure: the same arguments give the same ids."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """A model's turn ends after one of these; it is part of what the model wrote."""

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        """The first prompt, up to where the model writes. ``prompt`` is the system prompt; empty = none."""

    def extend(self, observation: Observation) -> tuple[int, ...]:
        """What follows an action's ids, up to where the model writes again."""

    def write(self, action: Action) -> tuple[int, ...]:
        """The ids a model would write for this action, stop token included; raises RecordError if it cannot."""

    def read(self, token_ids: Sequence[int]) -> Written:
        """What the written ids say. Never raises."""


@runtime_checkable
class ConversationRenderer(Protocol):
    """What a Renderer also is when the next prompt depends on more than the latest observation."""

    def keeps_prefix(self, prompt: str) -> bool:
        """Whether every prompt of a conversation with this system prompt begins with the history before it."""

    def proceed(
        self, history: tuple[int, ...], turns: Sequence[Turn], *, observation: Observation, prompt: str
    ) -> tuple[int, ...]:
        """The whole prompt that follows at least one turn. ``history``: all ids so far, those written last
        included.
        """


@runtime_checkable
class RetellingRenderer(Protocol):
    """What a Renderer also is when a conversation can be told anew from its turns, shortened for instance."""

    def retell(self, turns: Sequence[Turn], *, observation: Observation, prompt: str) -> tuple[int, ...]:
        """The whole prompt after these turns, at least one, made from what they say and not from recorded ids."""

    def count(self, text: str) -> int:
        """Tokens that a text takes within a conversation, without what surrounds it."""


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
    if isinstance(renderer, ConversationRenderer):
        return renderer.proceed(history, turns, observation=observation, prompt=prompt)
    return history + renderer.extend(observation)


class CompactRenderer:
    """The nano policy's grammar, without tool schemas.

    ``<|task|>instruction<|act|>`` is the first prompt, a model writes ``call<|end|>``, and ``<|obs|>text<|act|>``
    follows. An error observation is ``<|obs|>error CODE<|act|>``, or ``<|error|>text<|act|>`` for a tokenizer that
    knows that token. Every text between special tokens is encoded on its own, and
    text that looks like a special token stays text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Copies the tokenizer; raises ModelError when it lacks one of the four special tokens."""
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.encode_special_tokens = True
        self._task, self._act, self._observation, self._end = (self._special(token) for token in SPECIAL_TOKENS)
        self._error: int | None = self._tokenizer.token_to_id(ERROR_TOKEN)
        self._special_ids = frozenset(self._tokenizer.get_added_tokens_decoder())

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The id of ``<|end|>``."""
        return (self._end,)

    def open(self, observation: Observation, prompt: str = "") -> tuple[int, ...]:
        """``<|task|>instruction<|act|>``; a system prompt stands on lines of its own before the instruction."""
        text = f"{prompt}\n{observation.text}" if prompt else observation.text
        return (self._task, *self._encode(text), self._act)

    def extend(self, observation: Observation) -> tuple[int, ...]:
        """``<|obs|>text<|act|>``"""
        if observation.is_error and self._error is not None:
            return (self._error, *self._encode(observation.text), self._act)
        text = f"error {observation.code}" if observation.is_error else observation.text
        return (self._observation, *self._encode(text), self._act)

    def retell(self, turns: Sequence[Turn], *, observation: Observation, prompt: str = "") -> tuple[int, ...]:
        """As ``open``, and for each turn what it wrote, ``<|end|>`` and what it got."""
        ids = list(self.open(turns[0].observation, prompt))
        later = [*(turn.observation for turn in turns[1:]), observation]
        for turn, seen in zip(turns, later, strict=True):
            ids += (*self._encode(turn.text), self._end, *self.extend(seen))
        return tuple(ids)

    def count(self, text: str) -> int:
        """Tokens of the text."""
        return len(self._encode(text))

    def write(self, action: Action) -> tuple[int, ...]:
        """``call<|end|>``; raises RecordError when a name in the action is not an identifier."""
        return (*self._encode(write_call(action)), self._end)

    def read(self, token_ids: Sequence[int]) -> Written:
        """The call before ``<|end|>``. An action that was cut off, or has special tokens within, is none."""
        is_ended = bool(token_ids) and token_ids[-1] == self._end
        body = list(token_ids[:-1] if is_ended else token_ids)
        text: str = self._tokenizer.decode(body, skip_special_tokens=False)
        is_readable = is_ended and not self._special_ids.intersection(body)
        return Written(text, read_call(text) if is_readable else None)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        if self._special_ids.intersection(ids):
            # A tokenizer that looks whole words up finds special tokens even when told to encode them as text.
            ids = self._tokenizer.encode(text.replace("<|", "< |"), add_special_tokens=False).ids
        return ids

    def _special(self, token: str) -> int:
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise ModelError(
                f"the tokenizer has no special token {token!r}; CompactRenderer needs {', '.join(SPECIAL_TOKENS)}: "
                "use the tokenizer that ships with the model"
            )
        return int(token_id)
