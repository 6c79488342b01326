"""Any kit as a taskset of verifiers v1, scored by the kit's verifier: ``pip install 'upturn[verifiers]'``.

Verifiers finds plugins by the name of a top-level module with ``__all__``, so a taskset needs its own module that
imports ``KitEnv`` and ``KitTaskset`` from here. ``KitTaskset`` draws tasks; ``KitEnv`` runs each with one agent, as
the user of a chat: replies are parsed as actions, observations are the next messages. The reward is computed from
the trajectory stored in the trace, which can be scored again. A verifier that raises gives an error, no reward.
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

from upturn.environments.environment import is_blocking, verify
from upturn.environments.kit import resolve_kit, tools_of
from upturn.environments.scripted_policy import MAX_TURNS
from upturn.environments.stepwise import StepwiseEpisode, TaskSelection, record_fields
from upturn.errors import WorldError
from upturn.models import tools_prompt
from upturn.records import Evaluation, Split, Task, Trajectory, from_fields

ResultT = TypeVar("ResultT")
_kit = lru_cache(resolve_kit)

TRAJECTORY_KEY = "upturn_attempt"
"""Key in a trace's ``info`` for the fields of the ``Trajectory``."""
FAULTS_KEY = "upturn_faults"
"""Key for injected faults: a list of names for each action."""


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
    """The most actions of one episode."""


class KitTaskData(vf.TaskData):
    """A task as stored in traces, with everything that grading needs."""

    kit: str
    max_turns: int
    task: dict[str, Any]
    """The fields of a ``Task``."""


class KitTask(vf.Task[KitTaskData]):
    """One task of a kit."""

    @vf.reward
    async def verifier_reward(self, trace: vf.Trace) -> dict[str, float]:
        """``score``: the verifier's. ``on_the_way``: the environment's rewards for single actions. They add up."""
        score = self._evaluation(trace).score
        if score is None:
            raise WorldError(f"the trajectory of {self.data.id!r} has no evaluation, so it has no reward")
        return {"score": score, "on_the_way": sum(turn.reward for turn in _trajectory(trace).turns)}

    @vf.metric
    async def metrics(self, trace: vf.Trace) -> dict[str, float]:
        """Success, gates, costs, actions and faults. Costs are not part of the reward: safety is a constraint."""
        evaluation = self._evaluation(trace)
        metrics = {f"gate_{gate.name}": float(gate.is_passed) for gate in evaluation.gates}
        metrics |= {f"cost_{name}": value for name, value in evaluation.costs.items()}
        if FAULTS_KEY in trace.info:  # absent in older traces
            metrics["faults"] = float(sum(map(len, trace.info[FAULTS_KEY])))
        return {"success": float(evaluation.is_success), "actions": float(len(_trajectory(trace).turns)), **metrics}

    def _evaluation(self, trace: vf.Trace) -> Evaluation:
        return verify(_kit(self.data.kit).verifier, task_of(self.data), _trajectory(trace))


class KitTaskset(vf.Taskset[KitTask, KitTasksetConfig]):
    """A kit's tasks; endless where they are generated."""

    INFINITE = True

    def load(self) -> Iterator[KitTask]:
        """The tasks of the configured seed; raises UnknownNameError where none match."""
        config, kit = self.config, _kit(self.config.kit)
        system_prompt = tools_prompt(tools_of(kit)) if tools_of(kit) else None
        for task in TaskSelection(config.family, config.level, config.split).stream(kit, config.seed):
            data = KitTaskData(
                id=task.id,
                name=task.id,
                prompt=task.instruction,
                system_prompt=system_prompt,
                kit=config.kit,
                max_turns=config.max_turns,
                task=record_fields(task),
            )
            yield KitTask(data, config.task)


class KitEnvConfig(vf.EnvConfig):
    """One agent, by default in a plain local chat without a harness: the tools are the kit's."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())


class KitEnv(vf.Env[KitEnvConfig]):
    """A kit's environment as the user of a chat."""

    async def run(self, task: KitTask, agents: vf.Agents) -> None:
        """One episode, until it ends or the agent stops replying."""
        episode = StepwiseEpisode(_kit(task.data.kit), task_of(task.data), max_turns=task.data.max_turns)
        with ThreadPoolExecutor(1) as thread:
            await _call(episode, thread, episode.start)
            async with agents.agent.interaction(task) as interaction:
                segment = await interaction.turn()
                while not segment.terminated:
                    answer = await _call(episode, thread, partial(episode.act, segment.last_reply))
                    if answer.evaluation is not None:
                        break
                    segment = await interaction.turn(answer.observation.text or answer.observation.code)
                stored = record_fields(await _call(episode, thread, episode.trajectory))
                interaction.trace.info |= {
                    TRAJECTORY_KEY: stored,
                    FAULTS_KEY: [list(fault) for fault in episode.faults],
                }


async def _call(episode: StepwiseEpisode, thread: Executor, call: Callable[[], ResultT]) -> ResultT:
    """Runs the call, in the thread where the environment blocks."""
    if not is_blocking(episode.environment):
        return call()
    return await asyncio.get_running_loop().run_in_executor(thread, call)


def task_of(data: KitTaskData) -> Task:
    """The task in the stored data."""
    return from_fields(Task, json.dumps(data.task))


def _trajectory(trace: vf.Trace) -> Trajectory:
    if TRAJECTORY_KEY not in trace.info:
        raise WorldError(f"the trace {trace.id!r} has no trajectory; run kit tasks with KitEnv")
    return from_fields(Trajectory, json.dumps(trace.info[TRAJECTORY_KEY]))
