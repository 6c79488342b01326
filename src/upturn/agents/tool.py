"""Agents that write one action a turn: a model behind a renderer, or any Python function."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from upturn.agents.agent import ModelSession, Reply
from upturn.agents.call_thread import call_function
from upturn.agents.context import Budget, prompt_builder
from upturn.config import Limits
from upturn.environments import MAX_ACTION_LENGTH, action_text, read_action
from upturn.models import OutputPart, Renderer, read_parts, repaired
from upturn.records import Action, Observation, Turn

Answer: TypeAlias = Action | str
AgentFunction: TypeAlias = Callable[[str, Sequence[Turn], Observation], Answer | Awaitable[Answer]]
"""``function(instruction, turns, observation)``: an action, or text that ``read_action`` parses."""


class ToolAgent:
    """A model that writes one action a turn. Its prompt is the session's history plus the observation.

    Except with a context budget, or a chat template that renders earlier turns differently later on.
    """

    def __init__(
        self, renderer: Renderer, limits: Limits, prompt: str = "", *, context: Budget | None = None
    ) -> None:
        """``context``: None = no budget. Raises ConfigError for a budget that leaves no room."""
        self._renderer = renderer
        self._max_tokens = limits.max_action_tokens
        self._call_repairs = limits.call_repairs
        self._prompts = prompt_builder(renderer, limits, prompt, context=context)

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        """One call of the model, parsed as an action; none where its latest output has further calls."""
        pending = model.pending()
        if pending is not None:
            return pending
        prompt = self._prompts.next(model.history, turns, observation)
        generation = await model.generate(
            prompt.token_ids,
            max_tokens=self._max_tokens,
            stop_ids=self._renderer.stop_ids,
            fork_cause=prompt.fork_cause,
        )
        output, stop_ids = generation.token_ids, self._renderer.stop_ids
        if generation.finish_reason == "stop" and output[-1] not in stop_ids:
            output += stop_ids[:1]  # a stop string ended the action, which is complete
        parts = read_parts(self._renderer, output)
        replies = [self._reply(part, index) for index, part in enumerate(parts)]
        if len(replies) > 1:
            model.divide(replies, [min(part.stop, len(generation.token_ids)) for part in parts])
        return replies[0]

    def _reply(self, part: OutputPart, index: int) -> Reply:
        """The part as a reply; without an action where it was repaired and repairs are refused."""
        if part.repairs and self._call_repairs == "refuse":
            return Reply(part.output.text, None, refusal=str(repaired(part.repairs)), call=index)
        return Reply(*part.output, repairs=part.repairs, refusal=part.refusal, call=index)


class CallableAgent:
    """A Python function as an agent: rules, or the user's own agent.

    A plain function runs in a separate thread, so that a slow one delays no other rollout: it may be called
    concurrently. An async function runs on the event loop and must not block it. A call abandoned at the time limit
    is stopped where Python can stop it; otherwise it keeps running in a daemon thread.
    """

    def __init__(self, function: AgentFunction) -> None:
        self._function = function

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:  # noqa: ARG002
        """The function's answer; text that is not a call has no action."""
        instruction = turns[0].observation.text if turns else observation.text
        answer = await call_function(self._function, instruction, turns, observation)
        if isinstance(answer, Action):
            return Reply(action_text(answer), answer)
        if isinstance(answer, str):
            return Reply(answer, read_action(answer) if len(answer) <= MAX_ACTION_LENGTH else None)
        raise TypeError(f"an agent function must return an Action or a str, got a {type(answer).__name__}")
