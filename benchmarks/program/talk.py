"""Attempts of programs that talk with a local model, and the same requests sent straight to the engine."""

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.program.observed_engine import Calls
from upturn.agents import Attempt, ProgramAgent, RolloutRequest, Setting, run_rollouts
from upturn.agents.program import Program, ProgramCommand, ProgramModels, rollout_model
from upturn.agents.rollout import Job
from upturn.config import Limits
from upturn.environments import one_step
from upturn.models import Generation, LocalModel, Model
from upturn.models.upstreams import script_for
from upturn.records import Action, Task, Trajectory

_WORDS = ("ledger", "invoice", "meeting", "summary", "folder", "budget", "travel", "contract", "report", "notes")
_INSTRUCTION_WORDS = 60


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation of a program with its model."""

    turns: int = 6
    max_tokens: int = 48

    @property
    def limits(self) -> Limits:
        """With room for all of it."""
        return Limits(max_turns=self.turns + 1, max_tokens=2_000, max_action_tokens=self.max_tokens)

    @property
    def command(self) -> ProgramCommand:
        """The program as a command."""
        script = Path(__file__).with_name("talk_command.py")
        return ProgramCommand((sys.executable, "-I", "-S", str(script), str(self.turns), str(self.max_tokens)))

    async def program(self, attempt: Attempt) -> None:
        """The program as a function; sends the whole conversation with each call."""
        import aiohttp

        messages: list[Any] = [{"role": "user", "content": attempt.task}]
        headers = {"authorization": f"Bearer {attempt.api_key}"}
        async with aiohttp.ClientSession(headers=headers) as client:
            for turn in range(self.turns):
                body = {"model": attempt.model, "messages": messages, "max_tokens": self.max_tokens}
                async with client.post(f"{attempt.base_url}/chat/completions", json=body) as response:
                    answer = (await response.json())["choices"][0]["message"]
                said = f"Go on with part {turn + 1}, and say what follows."
                messages += [answer, {"role": "user", "content": said}]


def _make(rng: Any) -> tuple[str, dict[str, Any]]:
    return " ".join(rng.choice(_WORDS) for _ in range(_INSTRUCTION_WORDS)), {}


def _check(action: Action, expected: Any) -> bool:  # noqa: ARG001  # a kit's check
    return False


KIT = one_step("talk", _make, _check)


def setting(
    local: LocalModel, engine: Model, program: Program | ProgramCommand, limits: Limits, *, parallel: int, key: str
) -> Setting:
    """Attempts of a program with a local model, as a rollout runs them in training."""
    renderer = local.renderer()
    own = rollout_model("m", script_for(renderer, ""), limits)
    agent = ProgramAgent(
        program, ProgramModels("m", own, lambda token_ids: renderer.read(token_ids).text), parallel=parallel
    )
    return Setting(key, agent, "program@1", engine, limits=limits, fixes_sampling=True)


def attempts(setting: Setting, tasks: Sequence[Task], *, parallel: int) -> list[Trajectory]:
    """One attempt at each task."""
    jobs = [Job(RolloutRequest(task, 0, index), setting) for index, task in enumerate(tasks)]
    return asyncio.run(run_rollouts(jobs, KIT.environment, slots=parallel))


class Sent(NamedTuple):
    """What the engine answered."""

    seconds: float
    generations: list[Generation]
    """In the order of the calls."""


def send_straight(engine: Model, calls: Calls) -> Sent:
    """Sends the calls of each session one after another, and all sessions at the same time."""
    sessions: dict[str, list[int]] = {}
    for index, (request, _) in enumerate(calls):
        sessions.setdefault(request.session, []).append(index)
    received: dict[int, Generation] = {}

    async def work(session: str, indices: Sequence[int]) -> None:
        for index in indices:
            received[index] = await engine.generate(calls[index][0])
        engine.release(session)

    async def work_all() -> None:
        await asyncio.gather(*(work(session, indices) for session, indices in sessions.items()))

    started = time.perf_counter()
    asyncio.run(work_all())
    return Sent(time.perf_counter() - started, [received[index] for index in range(len(calls))])
