"""A conversation cut to a budget: long observations, then earlier turns, each with a note of what is left out.

Nothing here holds state: what an agent is shown is a function of its turns, so one agent serves many attempts, and
an attempt that is resumed sees what it would have seen. History is rewritten only when the context would exceed the
budget, and then down to the low mark; until that is used up, every prompt extends the one before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from upturn.agents.context.arrangement import Form, StepTokens, arranged
from upturn.agents.context.budget import Budget
from upturn.agents.context.relevance import Relevance, lexical_relevance
from upturn.agents.recorder import LimitReachedError
from upturn.errors import RecordError
from upturn.models import write_call
from upturn.records import Observation, Turn

Count = Callable[[str], int]
"""Tokens that a text takes."""
_SHRINK = 0.9
"""What is tried next of a text that is still too long: tokens are not spread evenly over it."""


class View(NamedTuple):
    """A conversation as an agent is shown it."""

    turns: tuple[Turn, ...]
    """Those that are left, shortened where they were; each holds the observation that now stands before it."""
    observation: Observation
    """The latest."""
    forms: tuple[Form, ...]
    """Of each turn of the attempt with its result."""
    is_rewritten: bool
    """Whether earlier turns are shown otherwise than at the turn before."""


class _Step(NamedTuple):
    """An action and its result, as they were shown first and as they are summarised."""

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
    """Exact, or on the safe side."""
    step_tokens: int
    """What surrounds an action and its result."""
    reserve: int
    """Tokens held free for what is written next."""
    relevance: Relevance = lexical_relevance

    def shown(self, observation: Observation) -> Observation:
        """The observation, with at most the tokens that one may take."""
        return _shortened(observation, self.budget.observation_tokens, self.count)

    def is_over(self, prompt_tokens: int) -> bool:
        """Whether a prompt leaves too little of the budget for what is written next."""
        return prompt_tokens + self.reserve > self.budget.tokens

    def replayed(self, turns: Sequence[Turn], observation: Observation, *, opening: int) -> View:
        """What is shown after at least one turn, history being rewritten where that was or is due.

        ``opening``: tokens of prompt, tools and instruction. Raises LimitReachedError where not even the newest
        turn fits.
        """
        steps, forms, is_due = self._steps(turns, observation), tuple[Form, ...](), False
        for place in range(1, len(steps) + 1):
            forms = (*forms, "whole")
            is_due = self.is_over(opening + self._used(steps, forms))
            if is_due:
                forms = self._arranged(turns[0].observation, steps[:place], opening)
        return self._view(turns[0].observation, steps, forms, opening=opening, is_rewritten=is_due)

    def rewritten(self, turns: Sequence[Turn], observation: Observation, *, opening: int) -> View:
        """What is shown after at least one turn when history is rewritten now. As ``replayed`` otherwise."""
        steps = self._steps(turns, observation)
        forms = self._arranged(turns[0].observation, steps, opening)
        return self._view(turns[0].observation, steps, forms, opening=opening, is_rewritten=True)

    def _steps(self, turns: Sequence[Turn], observation: Observation) -> list[_Step]:
        later = [*(turn.observation for turn in turns[1:]), observation]
        return [self._step(turn, result) for turn, result in zip(turns, later, strict=True)]

    def _step(self, turn: Turn, result: Observation) -> _Step:
        limit = self.budget.summary_tokens
        seen, short = self.shown(result), _shortened(result, limit, self.count)
        short_turn = _without_thought(turn, limit, self.count)
        tokens = StepTokens(self._tokens(turn, seen), self._tokens(short_turn, short))
        return _Step(turn, seen, short_turn, short, tokens)

    def _tokens(self, turn: Turn, result: Observation) -> int:
        return self.step_tokens + self.count(turn.text) + self.count(observation_text(result))

    def _used(self, steps: Sequence[_Step], forms: Sequence[Form]) -> int:
        """Tokens of the history, the note of what was dropped included."""
        dropped = forms.count("dropped")
        history = sum(step.tokens.of(form) for step, form in zip(steps, forms, strict=False))
        return history + (self.count(_dropped_note(dropped)) if dropped else 0)

    def _arranged(self, instruction: Observation, steps: Sequence[_Step], opening: int) -> tuple[Form, ...]:
        note = self.count(_dropped_note(len(steps)))
        room = self.budget.low_tokens - self.reserve - opening - note
        texts = [f"{step.turn.text}\n{step.result.text}" for step in steps]
        scores = self.relevance(f"{instruction.text}\n{steps[-1].result.text}", texts)
        sizes = [step.tokens for step in steps]
        return arranged(sizes, scores, room=room, window=self.budget.window_turns)

    def _view(
        self,
        instruction: Observation,
        steps: Sequence[_Step],
        forms: tuple[Form, ...],
        *,
        opening: int,
        is_rewritten: bool,
    ) -> View:
        dropped = forms.count("dropped")
        first = replace(instruction, text=instruction.text + _dropped_note(dropped)) if dropped else instruction
        kept = [(step, form) for step, form in zip(steps, forms, strict=True) if form != "dropped"]
        acted = [step.turn if form == "whole" else step.short_turn for step, form in kept]
        seen = [first, *(step.result if form == "whole" else step.short_result for step, form in kept)]
        over = opening + self._used(steps, forms) + self.reserve - self.budget.tokens
        if over > 0:  # only ever after all that could be cut was: the newest result has to give way
            seen[-1] = self._cut_by(seen[-1], over)
        turns = tuple(replace(turn, observation=before) for turn, before in zip(acted, seen, strict=False))
        return View(turns, seen[-1], forms, is_rewritten)

    def _cut_by(self, observation: Observation, tokens: int) -> Observation:
        """Raises LimitReachedError where nothing would be left."""
        text = shortened(observation.text, self.count(observation.text) - tokens, self.count)
        if not text:
            raise LimitReachedError
        return replace(observation, text=text)


def observation_text(observation: Observation) -> str:
    """The most that an agent is shown of it."""
    return f"error {observation.code}: {observation.text}" if observation.is_error else observation.text


def shortened(text: str, limit: int, count: Count) -> str:
    """The text, or as much of its beginning as takes at most ``limit`` tokens with a note of how much is left out.

    Where not even the note fits, nothing is left of it.
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


def _shortened(observation: Observation, limit: int, count: Count) -> Observation:
    """The observation with a text of at most ``limit`` tokens, an error's code not counted."""
    text = shortened(observation.text, limit, count)
    return observation if text == observation.text else replace(observation, text=text)


def _dropped_note(turns: int) -> str:
    return f"\n[{turns} earlier turns are left out]" if turns > 1 else "\n[1 earlier turn is left out]"


def _without_thought(turn: Turn, limit: int, count: Count) -> Turn:
    """The turn's call alone; what is no call, shortened."""
    if turn.action is None:
        return replace(turn, text=shortened(turn.text, limit, count))
    action = replace(turn.action, thought="")
    try:
        return replace(turn, text=write_call(action), action=action)
    except RecordError:  # names that the grammar does not have
        return replace(turn, action=action)
