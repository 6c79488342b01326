"""Agents that give one answer a turn: a model behind a renderer, or any Python function."""

import asyncio
import ctypes
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import TypeAlias, TypeVar, cast

from upturn.agents.agent import ModelSession, Reply
from upturn.agents.context import Budget, prompt_builder
from upturn.config import Limits
from upturn.environments import MAX_ACTION_LENGTH, action_text, read_action
from upturn.models import Renderer
from upturn.records import Action, Observation, Turn

Answer: TypeAlias = Action | str
AgentFunction: TypeAlias = Callable[[str, Sequence[Turn], Observation], Answer | Awaitable[Answer]]
"""``function(instruction, turns, observation)``: an action, or text that ``read_action`` parses."""

ResultT = TypeVar("ResultT")


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
        self._prompts = prompt_builder(renderer, limits, prompt, context=context)

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        """One call of the model, parsed as an action."""
        prompt = self._prompts.next(model.history, turns, observation)
        generation = await model.generate(
            prompt.token_ids,
            max_tokens=self._max_tokens,
            stop_ids=self._renderer.stop_ids,
            fork_cause=prompt.fork_cause,
        )
        return Reply(*self._renderer.read(generation.token_ids))


class CallableAgent:
    """A Python function as an agent: rules, or the user's own agent.

    A plain function runs in a separate thread, so that a slow one delays no other rollout: it may be called
    concurrently. An async function runs on the event loop and must not block it. A call abandoned at the time limit
    is stopped where Python can stop it; otherwise it keeps running in a daemon thread.
    """

    def __init__(self, function: AgentFunction) -> None:
        self._function = function
        call = getattr(type(function), "__call__", None)  # noqa: B004  an object's may be async too
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:  # noqa: ARG002
        """The function's answer; text that is not a call has no action."""
        instruction = turns[0].observation.text if turns else observation.text
        try:
            answer = await self._answer(instruction, turns, observation)
        except (SystemExit, asyncio.CancelledError) as exc:
            task = asyncio.current_task()
            if isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            raise RuntimeError(f"the agent function raised {type(exc).__name__}") from exc
        if isinstance(answer, Action):
            return Reply(action_text(answer), answer)
        if isinstance(answer, str):
            return Reply(answer, read_action(answer) if len(answer) <= MAX_ACTION_LENGTH else None)
        raise TypeError(f"an agent function must return an Action or a str, got a {type(answer).__name__}")

    async def _answer(self, instruction: str, turns: Sequence[Turn], observation: Observation) -> Answer:
        if self._is_async:
            answer = self._function(instruction, turns, observation)
        else:
            answer = await _in_thread(lambda: self._function(instruction, turns, observation))
        return await answer if inspect.isawaitable(answer) else answer


async def _in_thread(call: Callable[[], ResultT]) -> ResultT:
    """Runs the call in a daemon thread: unlike a pool's threads, it does not delay the exit of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[ResultT | None, BaseException | None]] = loop.create_future()

    def deliver(result: ResultT | None, error: BaseException | None) -> None:
        if not done.done():  # else it was abandoned
            done.set_result((result, error))

    def run() -> None:
        result, error = None, None
        try:
            result = call()
        except BaseException as exc:  # noqa: BLE001  also SystemExit, which would leave the caller waiting
            error = exc
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(deliver, result, error)

    thread = Thread(target=run, name="upturn-agent", daemon=True)
    thread.start()
    try:
        result, error = await done
    except asyncio.CancelledError:
        _stop(thread)
        raise
    if isinstance(error, Exception):
        raise error
    if error is not None:
        raise RuntimeError(f"the agent function raised {type(error).__name__}") from error
    return cast(ResultT, result)


def _stop(thread: Thread) -> None:
    """Raises SystemExit in the thread: an endless loop would slow down the process for good.

    Python raises it between two bytecodes, so a thread that waits in C code gets it only when the wait is over.
    """
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
