"""Agents that are somebody's own program: a function or a command that calls models through a base URL.

In each turn the program gets the task, what happened so far, the environment's tools and a base URL with a key for
this attempt only; its final answer is the action. Its calls go through ``capture`` to the agent's model and are
recorded with the turn. Its trajectories are not trained on.
"""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

from upturn.agents.agent import ModelSession, Reply
from upturn.agents.call_form import TextForm
from upturn.agents.call_thread import call_function
from upturn.agents.context import observation_text
from upturn.agents.program.capture import CaptureServer, stored_calls
from upturn.dialects import ModelAnswer, Text
from upturn.environments import MAX_ACTION_LENGTH, action_text, recordable_text
from upturn.models import PLAIN_NAME, FunctionNames, tool_schema
from upturn.models.upstreams import Endpoint, EndpointUpstream
from upturn.records import Action, JsonValue, Observation, Tool, Turn

_ERROR_LENGTH = 500
"""Characters of a command's last errors that are quoted."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a program gets in a turn."""

    task: str
    """The instruction."""
    turns: Sequence[dict[str, str]]
    """So far: each ``answer`` of the program and the ``result`` that it led to."""
    tools: Sequence[JsonValue]
    """The environment's tools as definitions of chat completions; empty = it describes none."""
    base_url: str
    """With ``/v1``: chat completions, Responses and Messages are served below it."""
    api_key: str = field(repr=False)
    """For this attempt only."""
    model: str
    """The model's name; any other name is served by the same model."""


Program: TypeAlias = Callable[[Attempt], str | Action | Awaitable[str | Action]]
"""The final answer: an action, or text with a call as ``models.calls.free_text`` reads it."""


class ProgramAgent:
    """Runs a program once a turn."""

    def __init__(self, program: Program | Sequence[str], endpoint: Endpoint, tools: Sequence[Tool] = ()) -> None:
        """``program``: a function, or a command with its arguments. ``tools``: of the environment; empty = none.

        A function runs as in ``CallableAgent``. A command gets the attempt as JSON on its standard input and the
        base URL and key in ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``, ``ANTHROPIC_BASE_URL`` (without ``/v1``) and
        ``ANTHROPIC_API_KEY``; its standard output is the answer.
        """
        self._program, self._endpoint = program, endpoint
        names = FunctionNames(tools, PLAIN_NAME)
        self._definitions: tuple[JsonValue, ...] = tuple(tool_schema(tool, names) for tool in tools)
        self._form = TextForm("", tools)

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        """The program's answer; text without a call is one of the tool that takes text, or has no action.

        Raises RuntimeError for a command that fails.
        """
        pending = model.pending()
        if pending is not None:
            return pending
        async with CaptureServer(lambda: EndpointUpstream(self._endpoint)) as server:
            results = (*(turn.observation for turn in turns[1:]), observation)
            history = [
                {"answer": turn.text, "result": observation_text(result)}
                for turn, result in zip(turns, results, strict=False)
            ]
            task = (turns[0].observation if turns else observation).text
            attempt = Attempt(task, history, self._definitions, server.url, server.key, self._endpoint.model)
            if callable(self._program):
                answer = await call_function(self._program, attempt)
            else:
                answer = await _run(self._program, attempt)
        first, *later = self._replies(answer)
        model.defer(later)
        return first._replace(message=stored_calls(server.calls), usage=server.usage)

    def _replies(self, answer: object) -> list[Reply]:
        if isinstance(answer, Action):
            return [Reply(action_text(answer), answer)]
        if not isinstance(answer, str):
            raise TypeError(f"a program must return an Action or a str, got a {type(answer).__name__}")
        return self._form.replies(ModelAnswer("", "", (Text(recordable_text(answer)),), "stop"))


async def _run(command: Sequence[str], attempt: Attempt) -> str:
    """The command's standard output; it is ended with its children where the caller is cancelled."""
    root = attempt.base_url.removesuffix("/v1")
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": attempt.base_url,
        "OPENAI_API_KEY": attempt.api_key,
        "ANTHROPIC_BASE_URL": root,
        "ANTHROPIC_API_KEY": attempt.api_key,
    }
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
    )
    try:
        output, errors = await process.communicate(json.dumps(asdict(attempt), ensure_ascii=False).encode())
    finally:
        with suppress(ProcessLookupError):  # children that it left behind, too
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode != 0:
        said = errors.decode(errors="replace").strip()[-_ERROR_LENGTH:]
        raise RuntimeError(f"the command {command[0]!r} ended with {process.returncode}: {said}")
    return output.decode(errors="replace").strip()[-MAX_ACTION_LENGTH:]
