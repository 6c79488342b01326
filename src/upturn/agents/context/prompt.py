"""What a model of ours is given to read, when its context has a budget: exact, in tokens."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from upturn.agents.context.budget import Budget
from upturn.agents.context.relevance import Relevance, lexical_relevance
from upturn.agents.context.window import ContextWindow
from upturn.agents.recorder import LimitReachedError
from upturn.config import Limits
from upturn.errors import ConfigError
from upturn.models import ConversationRenderer, Renderer, RerenderingRenderer, next_prompt
from upturn.records import Observation, Turn

COMPACTED = "history_compacted"
"""Cause of a row that begins because the history was rewritten to fit its budget."""
_COUNTED = 1024
"""Texts whose tokens are remembered: each is counted again whenever history is rewritten."""
_TRIES = 8
"""At cutting down to what fits: counts of single texts may be a little less than the whole they become."""


class Prompt(NamedTuple):
    """What a model reads next."""

    token_ids: tuple[int, ...]
    fork_cause: str | None = None
    """Of the row that begins where the prompt does not extend what was read and written before; None = as the
    recorder finds."""


class Prompts(Protocol):
    """Makes the prompts of attempts. Holds nothing of an attempt."""

    def next(self, history: tuple[int, ...], turns: Sequence[Turn], observation: Observation) -> Prompt:
        """The prompt after ``turns``; ``history``: what was read and written last. Raises LimitReachedError."""


class GrowingPrompt:
    """Without a budget: every prompt is the history with what is new, as the renderer has it."""

    def __init__(self, renderer: Renderer, prompt: str = "") -> None:
        self._renderer = renderer
        self._prompt = prompt

    def next(self, history: tuple[int, ...], turns: Sequence[Turn], observation: Observation) -> Prompt:
        """The prompt after ``turns``; ``history``: what was read and written last."""
        return Prompt(next_prompt(self._renderer, history, turns, observation=observation, prompt=self._prompt))


class BudgetedPrompt:
    """With a budget: as without, until a prompt leaves too little room; then the conversation is told anew, cut.

    Where a chat template shows earlier turns differently later on, every prompt is told anew anyhow; what it leaves
    out changes as seldom as with other templates.
    """

    def __init__(
        self,
        renderer: Renderer,
        budget: Budget,
        *,
        reserve: int,
        prompt: str = "",
        relevance: Relevance = lexical_relevance,
    ) -> None:
        """``reserve``: tokens that may be written in a turn. Raises ConfigError where a budget leaves no room."""
        if not isinstance(renderer, RerenderingRenderer):
            raise ConfigError(
                [
                    f"context_tokens has no effect with a {type(renderer).__name__}, which cannot tell a "
                    "conversation anew; give it the methods rerender and count (models.RerenderingRenderer), or "
                    "leave the budget out"
                ]
            )
        self._renderer, self._retelling, self._prompt = renderer, renderer, prompt
        self._keeps = not isinstance(renderer, ConversationRenderer) or renderer.keeps_prefix(prompt)
        around = len(renderer.extend(Observation(""))) + 1  # and what ends an action
        count = lru_cache(_COUNTED)(renderer.count)
        self._window = ContextWindow(budget, count, around, reserve, relevance)
        check_room(self._window, len(renderer.open(Observation(""), prompt)))

    def next(self, history: tuple[int, ...], turns: Sequence[Turn], observation: Observation) -> Prompt:
        """The prompt after ``turns``; ``history``: what was read and written last.

        Raises LimitReachedError where not even the instruction and the newest turn fit.
        """
        if not turns:
            opened = Prompt(self._renderer.open(observation, self._prompt))
            if self._window.is_over(len(opened.token_ids)):
                raise LimitReachedError
            return opened
        grown = self._grown(history, turns, observation)
        return self._rewritten(turns, observation) if self._window.is_over(len(grown.token_ids)) else grown

    def _grown(self, history: tuple[int, ...], turns: Sequence[Turn], observation: Observation) -> Prompt:
        if self._keeps:
            seen = self._window.shown(observation)
            return Prompt(next_prompt(self._renderer, history, turns, observation=seen, prompt=self._prompt))
        view = self._window.replayed(turns, observation, opening=self._opening(turns))
        ids = self._retelling.rerender(view.turns, observation=view.observation, prompt=self._prompt)
        return Prompt(ids, COMPACTED if view.is_rewritten else None)

    def _rewritten(self, turns: Sequence[Turn], observation: Observation) -> Prompt:
        opening = self._opening(turns)
        for _ in range(_TRIES):
            view = self._window.rewritten(turns, observation, opening=opening)
            ids = self._retelling.rerender(view.turns, observation=view.observation, prompt=self._prompt)
            if not self._window.is_over(len(ids)):
                return Prompt(ids, COMPACTED)
            opening += len(ids) + self._window.reserve - self._window.budget.tokens
        raise LimitReachedError

    def _opening(self, turns: Sequence[Turn]) -> int:
        return len(self._renderer.open(turns[0].observation, self._prompt))


def prompts_of(renderer: Renderer, limits: Limits, prompt: str = "", *, context: Budget | None = None) -> Prompts:
    """How an agent's prompts are made; ``context``: None = they only grow. Raises ConfigError.

    A budget must be less than the attempt's token limit, which would else end an attempt that could go on.
    """
    if context is None:
        return GrowingPrompt(renderer, prompt)
    if limits.max_tokens is not None and context.tokens >= limits.max_tokens:
        raise ConfigError(
            [
                f"context_tokens = {context.tokens} must be less than max_tokens = {limits.max_tokens}, which ends "
                "an attempt; lower it, or raise max_tokens"
            ]
        )
    return BudgetedPrompt(renderer, context, reserve=limits.max_action_tokens, prompt=prompt)


def check_room(window: ContextWindow, opening: int) -> None:
    """Raises ConfigError where prompt and tools, one observation and one answer do not fit into the budget."""
    budget = window.budget
    needed = opening + budget.observation_tokens + window.reserve
    if needed > budget.tokens:
        raise ConfigError(
            [
                f"context_tokens = {budget.tokens} is too small: prompt and tools take {opening} tokens, an "
                f"observation up to {budget.observation_tokens}, an answer up to {window.reserve} (max_tokens); "
                "raise it"
            ]
        )
