"""Any kit as a taskset of verifiers v1, judged by the kit's own verifier: ``pip install 'upturn[verifiers]'``.

Verifiers finds plugins by the name of a top-level module with ``__all__``, so a taskset needs one of its own that
imports ``KitEnv`` and ``KitTaskset`` from here. ``KitTaskset`` draws tasks; ``KitEnv`` plays each with one agent as
the user of a chat: replies are read as actions, the answers to them are the next messages. The verifier's reward is
of the attempt that the trace keeps, which can be scored again; where it breaks there is an error instead.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, TypeVar

try:
    import verifiers.v1 as vf
except ImportError as exc:
    raise ImportError("Verifiers v1 is not installed: pip install 'upturn[verifiers]'") from exc

from upturn.environments.environment import blocks, judge
from upturn.environments.kit import resolve_kit, tools_of
from upturn.environments.scripted_policy import MAX_TURNS
from upturn.environments.stepwise import StepwiseAttempt, TaskChoice, record_fields
from upturn.errors import WorldError
from upturn.models import tools_prompt
from upturn.records import Evaluation, Split, Task, Trajectory, from_fields

ResultT = TypeVar("ResultT")
_kit = lru_cache(resolve_kit)

ATTEMPT = "upturn_attempt"
"""Where a trace's ``info`` keeps the attempt, as the fields of a ``Trajectory``."""
FAULTS = "upturn_faults"
"""Where it keeps what went wrong in the apps: names, a list for each action."""


class KitTasksetConfig(vf.TasksetConfig):
    """``--env.taskset.kit`` and so on."""

    kit: str = "office"
    """A registered kit, or ``module:factory``."""
    family: str | None = None
    level: int | None = None
    """None = all, as with ``family``."""
    split: Split = "train"
    seed: int = 0
    max_turns: int = MAX_TURNS
    """Actions in one attempt."""


class KitTaskData(vf.TaskData):
    """A task as traces keep it, with all that judging it needs."""

    kit: str
    max_turns: int
    task: dict[str, Any]
    """The fields of a ``Task``."""


class KitTask(vf.Task[KitTaskData]):
    """One task of a kit."""

    @vf.reward
    async def judged(self, trace: vf.Trace) -> dict[str, float]:
        """``score``: the verifier's. ``on_the_way``: what the environment gave for single actions. They add up."""
        score = self._evaluation(trace).score
        if score is None:
            raise WorldError(f"the attempt at {self.data.id!r} could not be judged, so it has no reward")
        return {"score": score, "on_the_way": sum(turn.reward for turn in _attempt(trace).turns)}

    @vf.metric
    async def figures(self, trace: vf.Trace) -> dict[str, float]:
        """Success, gates, costs, actions and faults met. Costs are no part of the reward: safety is a limit."""
        found = self._evaluation(trace)
        named = {f"gate_{gate.name}": float(gate.is_passed) for gate in found.gates}
        named |= {f"cost_{name}": value for name, value in found.costs.items()}
        if FAULTS in trace.info:  # older traces have none
            named["faults"] = float(sum(map(len, trace.info[FAULTS])))
        return {"success": float(found.is_success), "actions": float(len(_attempt(trace).turns)), **named}

    def _evaluation(self, trace: vf.Trace) -> Evaluation:
        return judge(_kit(self.data.kit).verifier, task_of(self.data), _attempt(trace))


class KitTaskset(vf.Taskset[KitTask, KitTasksetConfig]):
    """A kit's tasks, without end where they are generated."""

    INFINITE = True

    def load(self) -> Iterator[KitTask]:
        """The tasks of the configured seed; raises UnknownNameError where there are none of that kind."""
        config, kit = self.config, _kit(self.config.kit)
        told = tools_prompt(tools_of(kit)) if tools_of(kit) else None
        for task in TaskChoice(config.family, config.level, config.split).stream(kit, config.seed):
            data = KitTaskData(
                id=task.id,
                name=task.id,
                prompt=task.instruction,
                system_prompt=told,
                kit=config.kit,
                max_turns=config.max_turns,
                task=record_fields(task),
            )
            yield KitTask(data, config.task)


class KitEnvConfig(vf.EnvConfig):
    """One seat. A plain chat on this machine unless another harness is chosen: the tools are the kit's."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())


class KitEnv(vf.Env[KitEnvConfig]):
    """A kit's environment as the user of a chat."""

    async def run(self, task: KitTask, agents: vf.Agents) -> None:
        """One attempt, until it ends or the agent says nothing more."""
        attempt = StepwiseAttempt(_kit(task.data.kit), task_of(task.data), max_turns=task.data.max_turns)
        with ThreadPoolExecutor(1) as thread:
            await _ask(attempt, thread, attempt.begin)
            async with agents.agent.interaction(task) as interaction:
                segment = await interaction.turn()
                while not segment.terminated:
                    answer = await _ask(attempt, thread, partial(attempt.act, segment.last_reply))
                    if answer.evaluation is not None:
                        break
                    segment = await interaction.turn(answer.observation.text or answer.observation.code)
                kept = record_fields(await _ask(attempt, thread, attempt.trajectory))
                interaction.trace.info |= {ATTEMPT: kept, FAULTS: [list(fault) for fault in attempt.faults]}


async def _ask(attempt: StepwiseAttempt, thread: Executor, call: Callable[[], ResultT]) -> ResultT:
    """What the call returns, made in the thread where the environment blocks, else at once."""
    if not blocks(attempt.environment):
        return call()
    return await asyncio.get_running_loop().run_in_executor(thread, call)


def task_of(data: KitTaskData) -> Task:
    """The task that was drawn."""
    return from_fields(Task, json.dumps(data.task))


def _attempt(trace: vf.Trace) -> Trajectory:
    if ATTEMPT not in trace.info:
        raise WorldError(f"the trace {trace.id!r} keeps no attempt; tasks of kits are played by KitEnv")
    return from_fields(Trajectory, json.dumps(trace.info[ATTEMPT]))
