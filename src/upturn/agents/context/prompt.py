"""Prompt builders of local models, with or without a context budget; exact, in tokens."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, Protocol

from upturn.agents.context.budget import Budget
from upturn.agents.context.relevance import Relevance, lexical_relevance
from upturn.agents.context.window import ContextWindow
from upturn.agents.recorder import LimitReachedError
from upturn.config import Limits
from upturn.errors import ConfigError
from upturn.models import ConversationRenderer, Renderer, RerenderingRenderer, last_message, next_prompt
from upturn.records import Observation, Turn

COMPACTED = "history_compacted"
"""Fork cause of a row that starts because the history was rewritten to fit its budget."""
_CACHED_COUNTS = 1024
"""Texts whose token counts are cached: each is counted again whenever the history is rewritten."""
_TRIES = 8
"""Tries to cut a prompt to size: its token count may slightly exceed the sum over its texts."""


class Prompt(NamedTuple):
    """The next prompt of a model."""

    token_ids: tuple[int, ...]
    fork_cause: str | None = None
    """Why the prompt does not extend the history, where it does not; None = the recorder determines it."""


class PromptBuilder(Protocol):
    """Builds the prompts of rollouts. Stateless."""

    def next(self, history: tuple[int, ...], turns: Sequence[Turn], observation: Observation) -> Prompt:
        """The prompt after ``turns``; ``history``: the latest prompt and output. Raises LimitReachedError."""


class GrowingPrompt:
    """Without a budget: every prompt extends the history, as the renderer does."""

    def __init__(self, renderer: Renderer, prompt: str = "") -> None:
        self._renderer = renderer
        self._prompt = prompt

    def next(self, history: tuple[int, ...], turns: Sequence[Turn], observation: Observation) -> Prompt:
        """The prompt after ``turns``; ``history``: the latest prompt and output."""
        return Prompt(next_prompt(self._renderer, history, turns, observation=observation, prompt=self._prompt))


class BudgetedPrompt:
    """With a budget: prompts grow until one leaves too little room; then the history is rewritten, shorter.

    Where a chat template renders earlier turns differently later on, every prompt is rendered again anyway; the
    selection of turns changes as rarely as with other templates.
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
        """``reserve``: output tokens of a turn. Raises ConfigError where the budget leaves no room."""
        if not isinstance(renderer, RerenderingRenderer):
            raise ConfigError(
                [
                    f"context_tokens has no effect with a {type(renderer).__name__}, which cannot rerender a "
                    "conversation; add the methods rerender and count (models.RerenderingRenderer), or remove the "
                    "budget"
                ]
            )
        self._renderer, self._rerendering, self._prompt = renderer, renderer, prompt
        self._keeps_prefix = not isinstance(renderer, ConversationRenderer) or renderer.keeps_prefix(prompt)
        around = len(renderer.extend(Observation(""))) + 1  # and the end token of an action
        count = lru_cache(_CACHED_COUNTS)(renderer.count)
        self._window = ContextWindow(budget, count, around, reserve, relevance)
        check_room(self._window, len(renderer.open(Observation(""), prompt)))

    def next(self, history: tuple[int, ...], turns: Sequence[Turn], observation: Observation) -> Prompt:
        """The prompt after ``turns``; ``history``: the latest prompt and output.

        Raises LimitReachedError where not even the instruction and the latest turn fit.
        """
        if not turns:
            token_ids = self._renderer.open(observation, self._prompt)
            if self._window.is_over(len(token_ids)):
                raise LimitReachedError
            return Prompt(token_ids)
        grown = self._grow(history, turns, observation)
        return self._rewrite(turns, observation) if self._window.is_over(len(grown.token_ids)) else grown

    def _grow(self, history: tuple[int, ...], turns: Sequence[Turn], observation: Observation) -> Prompt:
        if self._keeps_prefix:
            cut, message = self._window.truncate(observation), last_message(turns)
            shown = [replace(turn, observation=self._window.truncate(turn.observation)) for turn in message[1:]]
            turns = (*turns[: len(turns) - len(shown)], *shown)
            return Prompt(next_prompt(self._renderer, history, turns, observation=cut, prompt=self._prompt))
        view = self._window.replay(turns, observation, opening=self._opening(turns))
        ids = self._rerendering.rerender(view.turns, observation=view.observation, prompt=self._prompt)
        return Prompt(ids, COMPACTED if view.is_rewritten else None)

    def _rewrite(self, turns: Sequence[Turn], observation: Observation) -> Prompt:
        opening = self._opening(turns)
        for _ in range(_TRIES):
            view = self._window.rewrite(turns, observation, opening=opening)
            ids = self._rerendering.rerender(view.turns, observation=view.observation, prompt=self._prompt)
            if not self._window.is_over(len(ids)):
                return Prompt(ids, COMPACTED)
            opening += len(ids) + self._window.reserve - self._window.budget.tokens
        raise LimitReachedError

    def _opening(self, turns: Sequence[Turn]) -> int:
        return len(self._renderer.open(turns[0].observation, self._prompt))


def prompt_builder(
    renderer: Renderer, limits: Limits, prompt: str = "", *, context: Budget | None = None
) -> PromptBuilder:
    """An agent's prompt builder; ``context``: None = no budget. Raises ConfigError.

    A budget must be less than the rollout's token limit, which would otherwise end rollouts that could continue.
    """
    if context is None:
        return GrowingPrompt(renderer, prompt)
    if limits.max_tokens is not None and context.tokens >= limits.max_tokens:
        raise ConfigError(
            [
                f"context_tokens = {context.tokens} must be less than max_tokens = {limits.max_tokens}, which ends "
                "a rollout; lower it, or raise max_tokens"
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
