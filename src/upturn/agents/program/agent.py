"""Agents that are somebody's own program: a function or a command that calls models through a base URL.

A program works on a whole attempt: it starts with the task, a folder, and the address of a server with a key for
this attempt only. Its model calls pass through the server (``capture``) and are recorded: those of a local model
with their tokens, so that its trajectories are trained on as those of every agent. Its final answer, or what it
left in its folder, ends the task.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from upturn.agents.agent import AttemptEnd, Reply
from upturn.agents.call_form import TextForm
from upturn.agents.call_thread import call_function
from upturn.agents.program.attempt import Attempt
from upturn.agents.program.capture import CaptureServer
from upturn.agents.program.command import ForkedFunction, ProgramCommand
from upturn.agents.program.destination import Destination, ProgramModels
from upturn.agents.program.turns import AttemptTurns
from upturn.agents.recorder import Recorder
from upturn.agents.stage import Stage
from upturn.dialects import ModelAnswer, Text
from upturn.environments import MAX_ACTION_LENGTH, ProgramEnd, ProgramEnvironment, action_text, recordable_text
from upturn.environments.programs import TemporaryFolder
from upturn.errors import error_text
from upturn.models import PLAIN_NAME, FunctionNames, tool_schema
from upturn.records import Action, JsonValue, Tool

_ERROR_LENGTH = 500
"""Characters of a command's last errors that are quoted."""

Answer: TypeAlias = str | Action | None
Program: TypeAlias = Callable[[Attempt], Answer | Awaitable[Answer]]
"""The final answer: an action, text with a call as ``models.calls.free_text`` reads it, or None = no answer."""


class ProgramAgent:
    """Runs a program once an attempt."""

    def __init__(
        self,
        program: Program | ProgramCommand | ForkedFunction,
        models: ProgramModels,
        tools: Sequence[Tool] = (),
        *,
        parallel: int = 16,
    ) -> None:
        """``program``: a function or a command. ``tools``: of the environment; empty = none.
        ``parallel``: attempts at a time.

        A function runs as in ``CallableAgent``. A command, and a function in a process of its own, gets the attempt
        as JSON on its standard input and as environment variables (``Attempt.variables``); its standard output is
        the answer.
        """
        self.parallel = parallel
        self._program, self._models = program, models
        self._names = FunctionNames(tools, PLAIN_NAME)
        self._definitions: list[JsonValue] = [tool_schema(tool, self._names) for tool in tools]
        self._form = TextForm("", tools)

    async def attempt(self, stage: Stage, model: Recorder) -> AttemptEnd:
        """Runs the program until it ends, answers, or has no turn left.

        A program that fails ends with ``program_error``, which is its own failure; one whose model fails, with
        ``model_error``.
        """
        turns = AttemptTurns(stage, model, self._names)
        async with _folder(stage) as folder:
            try:
                async with self._serve(model, turns) as server:
                    attempt = self._attempt_of(stage, model, server, folder)
                    result = await self._work(attempt, stage, turns)
                return await self._finish(stage, turns, result)
            finally:
                turns.close()

    async def close(self) -> None:
        """Ends the process that attempts are forked from."""
        if isinstance(self._program, ForkedFunction):
            await self._program.close()

    @asynccontextmanager
    async def _serve(self, model: Recorder, turns: AttemptTurns) -> AsyncIterator[CaptureServer]:
        """The attempt's server, with upstreams that are made when they are first called."""
        made: dict[str, Destination] = {}

        def destination(name: str) -> Destination:
            key = name if name in self._models.others else ""
            if key not in made:
                if key:
                    made[key] = Destination(self._models.others[key](turns, model), is_own=False)
                else:
                    read = self._models.read
                    made[key] = Destination(
                        self._models.own_model(turns, model), is_trained=read is not None, read=read
                    )
            return made[key]

        try:
            async with CaptureServer(turns, destination, self._definitions, self._names) as server:
                yield server
        finally:
            for known in made.values():
                await known.upstream.close()

    def _attempt_of(self, stage: Stage, model: Recorder, server: CaptureServer, folder: Path) -> Attempt:
        return Attempt(
            model.request.session,
            stage.observation.text,
            stage.task.id,
            stage.task.family,
            self._definitions,
            str(folder),
            f"{server.root}/v1",
            f"{server.root}/environment",
            server.key,
            self._models.name,
        )

    async def _work(self, attempt: Attempt, stage: Stage, turns: AttemptTurns) -> "_Result":
        """What came of the program, when it ended or was ended."""
        if isinstance(self._program, ProgramCommand | ForkedFunction):
            work = asyncio.ensure_future(_commanded(self._program, attempt, attempt.variables(stage.task)))
        else:
            work = asyncio.ensure_future(_called(self._program, attempt))
        try:
            waited: set[asyncio.Future[Any]] = {work, turns.stopped}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else _Result()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})

    async def _finish(self, stage: Stage, turns: AttemptTurns, result: "_Result") -> AttemptEnd:
        """Hands the result to the environment."""
        reason = turns.reason()
        if reason is not None and reason.outcome != "finished":
            return reason
        answer = result.answer if turns.answer is None else turns.answer
        environment = stage.environment
        if isinstance(environment, ProgramEnvironment):
            text = action_text(answer) if isinstance(answer, Action) else recordable_text(answer or "")
            end = ProgramEnd(text, result.exit_code, recordable_text(result.errors))
            finished = await turns.finish([Reply(text, None)], lambda: environment.finish(end))
        else:
            finished = await turns.finish(self._replies(answer), None)
        if result.is_failed and finished.outcome != "environment_error":
            return AttemptEnd("program_error", result.errors.strip()[-_ERROR_LENGTH:])
        return finished

    def _replies(self, answer: object) -> list[Reply]:
        """The actions of an answer; none where there is no answer."""
        if answer is None or answer == "":
            return []
        if isinstance(answer, Action):
            return [Reply(action_text(answer), answer)]
        if not isinstance(answer, str):
            raise TypeError(f"a program must return an Action, a str or None, got a {type(answer).__name__}")
        return self._form.replies(ModelAnswer("", "", (Text(recordable_text(answer)),), "stop"))


@asynccontextmanager
async def _folder(stage: Stage) -> AsyncIterator[Path]:
    """The environment's folder for programs, or a temporary one."""
    environment = stage.environment
    if isinstance(environment, ProgramEnvironment):
        yield environment.folder()
        return
    folder = TemporaryFolder()
    try:
        yield folder.path
    finally:
        folder.close()


class _Result(NamedTuple):
    """What came of a program."""

    answer: Answer = None
    """None = there is none."""
    exit_code: int | None = None
    """None = it is a function, or was ended."""
    errors: str = ""
    is_failed: bool = False


async def _called(function: Program, attempt: Attempt) -> _Result:
    """The function's answer, or how it failed."""
    try:
        return _Result(await call_function(function, attempt))
    except Exception as exc:  # noqa: BLE001  a failing program is its attempt's outcome
        return _Result(errors=error_text(exc), is_failed=True)


async def _commanded(
    command: ProgramCommand | ForkedFunction, attempt: Attempt, variables: Mapping[str, str]
) -> _Result:
    """How the command ended. Raises OSError where it cannot start, SandboxError where it must not."""
    end = await command.run(
        variables,
        input=attempt.to_json().encode(),
        folder=Path(attempt.folder),
        url=attempt.base_url,
        output_limit=MAX_ACTION_LENGTH,
    )
    errors = end.errors
    if end.exit_code != 0:
        errors = f"{end.errors.strip()}\n{command.name} ended with {end.exit_code}".strip()
    return _Result(end.output.strip(), end.exit_code, errors, end.exit_code != 0)
