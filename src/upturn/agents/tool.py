"""Agents that act with one answer a turn: a model behind a renderer, or any Python function."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from upturn.agents.agent import ModelSession, Reply
from upturn.agents.limit import Limits
from upturn.errors import RecordError
from upturn.models import Renderer, read_call, write_call
from upturn.records import Action, Observation, Turn

Answer: TypeAlias = Action | str
AgentFunction: TypeAlias = Callable[[str, Sequence[Turn], Observation], Answer | Awaitable[Answer]]
"""``function(instruction, turns, observation)``: an action, or text in the grammar of ``upturn.models.call``."""


class ToolAgent:
    """A model that writes one action a turn. Its context only grows: the session's history plus the observation."""

    def __init__(self, renderer: Renderer, limits: Limits, prompt: str = "") -> None:
        self._renderer = renderer
        self._max_tokens = limits.max_action_tokens
        self._prompt = prompt

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        """One call of the model, read as an action."""
        if turns:
            prompt_ids = model.history + self._renderer.extend(observation)
        else:
            prompt_ids = self._renderer.open(observation, self._prompt)
        generation = await model.generate(prompt_ids, max_tokens=self._max_tokens, stop_ids=self._renderer.stop_ids)
        return Reply(*self._renderer.read(generation.token_ids))


class CallableAgent:
    """A Python function as an agent: rules, or the user's own agent. Called on the event loop; may be async."""

    def __init__(self, function: AgentFunction) -> None:
        self._function = function

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:  # noqa: ARG002
        """What the function answers; text that is no call is sent on as unreadable."""
        instruction = turns[0].observation.text if turns else observation.text
        answer = self._function(instruction, turns, observation)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Action):
            return Reply(_text(answer), answer)
        if isinstance(answer, str):
            return Reply(answer, read_call(answer))
        raise TypeError(f"an agent function must return an Action or a str, got {answer!r}")


def _text(action: Action) -> str:
    try:
        return write_call(action)
    except RecordError:  # a name outside the grammar: the environment is still asked, and refuses it
        return f"{action.target}.{action.operation}"
