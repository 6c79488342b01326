"""Cuts a conversation to a budget: long observations, then earlier turns, each with a note of what is omitted.

Stateless: the view is a function of the turns, so one agent serves many rollouts, and a resumed rollout gets the
same view. The history is rewritten only when the context would exceed the budget, and then down to the low mark;
until that room is used up, every prompt extends the one before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from upturn.agents.context.budget import Budget
from upturn.agents.context.relevance import Relevance, lexical_relevance
from upturn.agents.context.turn_selection import StepTokens, TurnForm, select_forms
from upturn.agents.recorder import LimitReachedError
from upturn.errors import RecordError
from upturn.models import write_call
from upturn.records import Observation, Turn

Count = Callable[[str], int]
"""Number of tokens of a text."""
_SHRINK = 0.9
"""The factor by which a text still too long is shortened: tokens are not spread evenly over it."""


class View(NamedTuple):
    """The part of a conversation that an agent sees."""

    turns: tuple[Turn, ...]
    """The remaining turns, shortened where needed; each has the observation that now precedes it."""
    observation: Observation
    """The latest observation."""
    forms: tuple[TurnForm, ...]
    """The form of each turn of the rollout, with its result."""
    is_rewritten: bool
    """Whether the history changed since the previous turn's view."""


class _Step(NamedTuple):
    """An action and its result, in full and summarised."""

    turn: Turn
    result: Observation
    short_turn: Turn
    short_result: Observation
    tokens: StepTokens


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """Cuts conversations to a budget."""

    budget: Budget
    count: Count
    """Exact, or an upper estimate."""
    step_tokens: int
    """Tokens around an action and its result."""
    reserve: int
    """Tokens reserved for the next output."""
    relevance: Relevance = lexical_relevance

    def truncate(self, observation: Observation) -> Observation:
        """The observation, cut to ``budget.observation_tokens``."""
        return _shorten_observation(observation, self.budget.observation_tokens, self.count)

    def is_over(self, prompt_tokens: int) -> bool:
        """Whether a prompt leaves too little of the budget for the next output."""
        return prompt_tokens + self.reserve > self.budget.tokens

    def replay(self, turns: Sequence[Turn], observation: Observation, *, opening: int) -> View:
        """The view after at least one turn, with all rewrites of the history that were or are due.

        ``opening``: tokens of prompt, tools and instruction. Raises LimitReachedError where not even the latest
        turn fits.
        """
        steps, forms, is_rewritten = self._steps(turns, observation), tuple[TurnForm, ...](), False
        for count in range(1, len(steps) + 1):
            forms = (*forms, "full")
            is_rewritten = self.is_over(opening + self._history_tokens(steps, forms))
            if is_rewritten:
                forms = self._select_forms(turns[0].observation, steps[:count], opening)
        return self._view(turns[0].observation, steps, forms, opening=opening, is_rewritten=is_rewritten)

    def rewrite(self, turns: Sequence[Turn], observation: Observation, *, opening: int) -> View:
        """The view after at least one turn when the history is rewritten now. Otherwise as ``replay``."""
        steps = self._steps(turns, observation)
        forms = self._select_forms(turns[0].observation, steps, opening)
        return self._view(turns[0].observation, steps, forms, opening=opening, is_rewritten=True)

    def _steps(self, turns: Sequence[Turn], observation: Observation) -> list[_Step]:
        later = [*(turn.observation for turn in turns[1:]), observation]
        return [self._step(turn, result) for turn, result in zip(turns, later, strict=True)]

    def _step(self, turn: Turn, result: Observation) -> _Step:
        limit = self.budget.summary_tokens
        full, short = self.truncate(result), _shorten_observation(result, limit, self.count)
        short_turn = _without_thought(turn, limit, self.count)
        tokens = StepTokens(self._tokens(turn, full), self._tokens(short_turn, short))
        return _Step(turn, full, short_turn, short, tokens)

    def _tokens(self, turn: Turn, result: Observation) -> int:
        return self.step_tokens + self.count(turn.message or turn.text) + self.count(observation_text(result))

    def _history_tokens(self, steps: Sequence[_Step], forms: Sequence[TurnForm]) -> int:
        """Tokens of the history, including the note on dropped turns."""
        dropped = forms.count("dropped")
        history = sum(step.tokens.of(form) for step, form in zip(steps, forms, strict=False))
        return history + (self.count(_dropped_note(dropped)) if dropped else 0)

    def _select_forms(self, instruction: Observation, steps: Sequence[_Step], opening: int) -> tuple[TurnForm, ...]:
        note = self.count(_dropped_note(len(steps)))
        room = self.budget.low_tokens - self.reserve - opening - note
        texts = [f"{step.turn.text}\n{step.result.text}" for step in steps]
        scores = self.relevance(f"{instruction.text}\n{steps[-1].result.text}", texts)
        sizes = [step.tokens for step in steps]
        return select_forms(sizes, scores, room=room, window=self.budget.window_turns)

    def _view(
        self,
        instruction: Observation,
        steps: Sequence[_Step],
        forms: tuple[TurnForm, ...],
        *,
        opening: int,
        is_rewritten: bool,
    ) -> View:
        dropped = forms.count("dropped")
        first = replace(instruction, text=instruction.text + _dropped_note(dropped)) if dropped else instruction
        kept = [(step, form) for step, form in zip(steps, forms, strict=True) if form != "dropped"]
        calls = [step.turn if form == "full" else step.short_turn for step, form in kept]
        observations = [first, *(step.result if form == "full" else step.short_result for step, form in kept)]
        over = opening + self._history_tokens(steps, forms) + self.reserve - self.budget.tokens
        if over > 0:  # everything else is cut already: shorten the newest result
            observations[-1] = self._shorten_by(observations[-1], over)
        turns = _renumber(
            [replace(turn, observation=before) for turn, before in zip(calls, observations, strict=False)],
            [form != "dropped" for form in forms],
        )
        return View(turns, observations[-1], forms, is_rewritten)

    def _shorten_by(self, observation: Observation, tokens: int) -> Observation:
        """The observation shortened by that many tokens; raises LimitReachedError where nothing would be left."""
        text = shorten(observation.text, self.count(observation.text) - tokens, self.count)
        if not text:
            raise LimitReachedError
        return replace(observation, text=text)


def _renumber(kept: Sequence[Turn], is_kept: Sequence[bool]) -> tuple[Turn, ...]:
    """The kept turns; one whose predecessor in its message was dropped begins a message."""
    follows = [before for before, here in zip((False, *is_kept), is_kept, strict=False) if here]
    turns: list[Turn] = []
    for turn, is_next in zip(kept, follows, strict=True):
        call = turns[-1].call + 1 if turns and is_next and turn.call > 0 else 0
        turns.append(turn if turn.call == call else replace(turn, call=call))
    return tuple(turns)


def observation_text(observation: Observation) -> str:
    """The text of an observation for an agent, an error with its code."""
    return f"error {observation.code}: {observation.text}" if observation.is_error else observation.text


def shorten(text: str, limit: int, count: Count) -> str:
    """The text, cut at the end to at most ``limit`` tokens including a note on the omitted characters.

    Empty where not even the note fits.
    """
    total = count(text)
    if total <= limit:
        return text
    if limit < 1:
        return ""
    length = min(len(text) - 1, int(len(text) * limit / total))
    while length > 0:
        kept = text[:length].rstrip()
        cut = f"{kept}… [{len(text) - len(kept)} more characters]"
        if count(cut) <= limit:
            return cut
        length = int(length * _SHRINK)
    note = f"[{len(text)} characters]"
    return note if count(note) <= limit else ""


def _shorten_observation(observation: Observation, limit: int, count: Count) -> Observation:
    """The observation with its text cut to ``limit`` tokens, not counting an error's code."""
    text = shorten(observation.text, limit, count)
    return observation if text == observation.text else replace(observation, text=text)


def _dropped_note(turns: int) -> str:
    return f"\n[{turns} earlier turns are left out]" if turns > 1 else "\n[1 earlier turn is left out]"


def _without_thought(turn: Turn, limit: int, count: Count) -> Turn:
    """The turn's call without the thought; text that is not a call is shortened."""
    if turn.action is None:
        return replace(turn, text=shorten(turn.text, limit, count), message="")
    action = replace(turn.action, thought="")
    try:
        return replace(turn, text=write_call(action), action=action, message="")
    except RecordError:  # names that the grammar does not allow
        return replace(turn, action=action, message="")
