"""A version in training: its weights, the engine that samples from them, and the groups it is compared in."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from upturn.agents import prompt_builder_for
from upturn.config import AdapterSettings
from upturn.environments import EnvironmentKit, verify
from upturn.errors import ModelError
from upturn.loop.agent_runtime import CONTEXT, SLOTS, AgentRuntime, Purpose, renderer_of
from upturn.loop.rollouts.state_values import Continuations, measure_values, turn_rewards
from upturn.models import SHIPPED, load_local, local_folder
from upturn.records import AgentVersion, Evaluation, Task, Trajectory, TrajectorySink
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.data import Portion

if TYPE_CHECKING:
    from transformers import PreTrainedModel


TRAINING_SEED_OFFSET = 1_000_000
"""Training draws its tasks from streams that neither service nor heldout_results use."""
_BROKEN = frozenset({"model_error", "environment_error"})
"""Outcomes that say nothing of the policy."""
REFILL_SEED_STEP = 10_000_000
"""Between the seeds of an iteration's own tasks and attempts and those of each further round."""


class TaskSampler:
    """Which tasks an iteration trains on: a pure function of (seed, iteration), families drawn by weight."""

    def __init__(self, kit: EnvironmentKit, weights: Mapping[str, float], count: int, *, seed: int) -> None:
        self._kit = kit
        self._families = list(weights)
        total = sum(weights.values())
        self._shares = [weights[family] / total for family in self._families]
        self._count = count
        self._seed = seed
        self._streams: dict[str, Iterator[Task]] = {}
        self._numbered: dict[str, _Numbered] = {}
        self._next = 0

    def tasks(self, iteration: int) -> list[Task]:
        """The iteration's tasks, each once, and none used before as long as the environment has new ones.

        Iterations must be asked for in ascending order.
        """
        assert iteration >= self._next
        while self._next < iteration:
            self._draw(self._next)
            self._next += 1
        self._next += 1
        return self._draw(iteration)

    def further_tasks(self, iteration: int, attempt: int) -> list[Task]:
        """As many tasks again, for round ``attempt`` (from 1) of an iteration; fewer where there are no more.

        A pure function of (seed, iteration, attempt), so that rounds may be asked for in any order.
        """
        rng = np.random.default_rng([self._seed, iteration, attempt])
        drawn = Counter(rng.choice(self._families, size=self._count, p=self._shares).tolist())
        seed = self._seed + TRAINING_SEED_OFFSET + REFILL_SEED_STEP * attempt + iteration
        return [
            task
            for family in self._families
            for task in islice(self._kit.tasks(seed=seed, split="train", families=[family]), drawn[family])
        ]

    def numbered_tasks(self, portions: Sequence[Portion]) -> list[Task]:
        """The tasks that a curriculum chose, by family and number; each once, where families have enough."""
        found: list[Task] = []
        for family, first, count in portions:
            if family not in self._numbered:
                self._numbered[family] = _Numbered(partial(self._stream, family))
            found += self._numbered[family].tasks(first, count)
        return found

    def _draw(self, iteration: int) -> list[Task]:
        rng = np.random.default_rng([self._seed, iteration])
        drawn = Counter(rng.choice(self._families, size=self._count, p=self._shares).tolist())
        tasks: list[Task] = []
        for family in self._families:
            if family not in self._streams:
                self._streams[family] = self._stream(family)
            found = list(islice(self._streams[family], drawn[family]))
            if len(found) < drawn[family]:  # the stream has ended: begin again, but ask for no task twice at once
                self._streams[family] = self._stream(family)
                used = {task.id for task in found}
                again = (task for task in self._streams[family] if task.id not in used)
                found += islice(again, drawn[family] - len(found))
            tasks += found
        return tasks

    def _stream(self, family: str) -> Iterator[Task]:
        return self._kit.tasks(seed=self._seed + TRAINING_SEED_OFFSET, split="train", families=[family])


class _Numbered:
    """A family's tasks by number; where they have an end they begin again, so that every number is one."""

    def __init__(self, begin: Callable[[], Iterator[Task]]) -> None:
        self._begin = begin
        self._stream = begin()
        self._read = 0
        self._length: int | None = None
        """None = no end was seen yet."""

    def tasks(self, first: int, count: int) -> list[Task]:
        """``count`` tasks from number ``first``; fewer where the family has fewer."""
        found = [self._task(number) for number in range(first, first + count)]
        return list({task.id: task for task in found}.values())

    def _task(self, number: int) -> Task:
        wanted = number if self._length is None else number % self._length
        if wanted < self._read:
            self._stream, self._read = self._begin(), 0
        while True:
            task = next(self._stream, None)
            if task is None:
                assert self._read, "a trained family has tasks"
                self._length = self._read
                return self._task(number)
            self._read += 1
            if self._read > wanted:
                return task


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """How groups are made."""

    run: str
    """Key of the rollouts in the sink."""
    seed: int
    attempts: int
    reward: Callable[[Evaluation], float | None] = lambda evaluation: evaluation.score
    """What an attempt's outcome is worth, beside what its environment gave for single turns; None = missing."""
    penalty: Callable[[Trajectory], float] | None = None
    """What is added to that, 0 or less; None = nothing."""
    both: Callable[[Trajectory, Evaluation], float | None] | None = None
    """What an attempt is worth by itself and its outcome together, in place of ``reward`` and ``penalty``; None =
    those decide."""
    continuations: int = 0
    """From each state of each attempt, to measure what the state is worth; 0 = the estimator needs no values."""
    gamma: float = 1.0
    """Discount per turn of what continuations earn."""
    refill: int = 0
    """Which round of further tasks in an iteration; 0 = the iteration's own."""

    def earned(self, trajectory: Trajectory, evaluation: Evaluation) -> float | None:
        """What an attempt is worth; None = missing."""
        if self.both is not None:
            return self.both(trajectory, evaluation)
        reward = self.reward(evaluation)
        return reward if reward is None or self.penalty is None else reward + self.penalty(trajectory)


def in_training(version: AgentVersion) -> AgentVersion:
    """The name under which rollouts record a version whose weights are being trained; it is stored nowhere."""
    return replace(version, version=f"{version.version}-in-training")


class PolicyWorker:
    """Holds one model for training and sampling at once; single use."""

    def __init__(
        self, runtime: AgentRuntime, version: AgentVersion, adapter: AdapterSettings | None = None
    ) -> None:
        """Loads the version's weights anew and practises under a name of its own: whoever serves is not touched.

        ``adapter``: what is trained in place of the weights; None = they are. Raises ModelError where it cannot be.
        """
        from upturn.models.engine import LocalEngine

        local = load_local(version.model)
        self.adapter = adapter
        if adapter is not None:
            put_on(local.model, adapter, version.model)
        self.runtime = runtime
        self.version = in_training(version)
        self.model: PreTrainedModel = local.model
        self.engine: LocalEngine = LocalEngine(
            local.model, slots=SLOTS, max_length=runtime.limits.max_tokens or CONTEXT
        )
        self.renderer = renderer_of(local, version, runtime.kit)
        self.prompts = prompt_builder_for(version, runtime.limits, self.renderer)
        """How its agent makes prompts."""

    def merge(self) -> None:
        """Puts a whole model in the place of one with an adapter; afterwards nothing is sampled or trained."""
        from upturn.training.optimisation import merged

        self.model = merged(self.model)

    def serve_as(self, version: AgentVersion, runtime: AgentRuntime | None = None) -> AgentVersion:
        """Lets the runtime (None = its own) act as ``version`` with the weights as they are now."""
        self.engine.refresh()
        (runtime or self.runtime).adopt(version, self.engine, self.renderer)
        return version

    def sample_groups(
        self, tasks: Sequence[Task], iteration: int, practice: RolloutPlan, sink: TrajectorySink
    ) -> list[ScoredGroup]:
        """Groups of attempts at the tasks with the present weights, at temperature 1; all go to the sink.

        What a model or an environment broke is missing, whatever a judge makes of it: it says nothing of the
        policy. Continuations, which measure states, go nowhere. Raises WorldError where an environment cannot be
        entered again, ModelError where not one attempt could be made.
        """
        version = self.serve_as(self.version)
        key, seed = f"{practice.run}/{iteration}", practice.seed * 100_003 + iteration
        if practice.refill:
            key, seed = f"{key}.{practice.refill}", seed + REFILL_SEED_STEP * practice.refill
        purpose = Purpose(key, seed, temperature=1.0)
        jobs = [(version, task, number) for task in tasks for number in range(practice.attempts)]
        trajectories = self.runtime.attempt(jobs, purpose)
        verifier = self.runtime.kit.verifier
        evaluations = [verify(verifier, job[1], each) for job, each in zip(jobs, trajectories, strict=True)]
        _refuse_broken(trajectories)
        finished = list(zip((job[1] for job in jobs), trajectories, evaluations, strict=True))
        run = f"{practice.run}/refill-{practice.refill}" if practice.refill else practice.run
        sink.append(run, iteration, finished)
        size = practice.attempts
        groups = [
            ScoredGroup(
                task,
                tuple(
                    _scored(trajectories[at], evaluations[at], practice)
                    for at in range(index * size, (index + 1) * size)
                ),
            )
            for index, task in enumerate(tasks)
        ]
        if not practice.continuations:
            return groups
        how = Continuations(practice.continuations, practice.earned, practice.gamma)
        values = replace(purpose, key=f"{purpose.key}/values")
        return measure_values(self.runtime, version, groups, values, how=how).groups


def put_on(model: "PreTrainedModel", adapter: AdapterSettings, name: str) -> None:
    """An adapter on the model of that name, whose folder the saved adapter will name as its base."""
    from upturn.training.optimisation import adapt

    base = SHIPPED[name] if name in SHIPPED else local_folder(name)
    adapt(model, adapter, base=str(base.absolute()))


def _refuse_broken(trajectories: Sequence[Trajectory]) -> None:
    """An engine that is gone breaks every attempt: rounds of nothing would pass for training."""
    if trajectories and all(each.outcome == "model_error" for each in trajectories):
        raise ModelError(
            f"not one of {len(trajectories)} attempts could be made, the first broke with: "
            f"{trajectories[0].error}; look at the model or its engine, then resume"
        )


def _scored(trajectory: Trajectory, evaluation: Evaluation, practice: RolloutPlan) -> ScoredTrajectory:
    if trajectory.outcome in _BROKEN:
        return scored(trajectory, None)
    succeeded = None if evaluation.verdict == "missing" else evaluation.is_success
    return scored(trajectory, practice.earned(trajectory, evaluation), succeeded)


def scored(trajectory: Trajectory, earned: float | None, succeeded: bool | None = None) -> ScoredTrajectory:
    """The attempt with the rewards of its turns, and with its states' potentials where the environment gives them.

    ``earned`` stands on the last turn; None = missing. An attempt without turns is unscorable. ``succeeded``: what
    the verifier said; None = nothing.
    """
    if earned is None or not trajectory.turns:
        return ScoredTrajectory(trajectory, None, succeeded=succeeded)
    potentials = [turn.potential for turn in trajectory.turns if turn.potential is not None]
    is_known = len(potentials) == len(trajectory.turns)
    return ScoredTrajectory(
        trajectory,
        turn_rewards(trajectory, earned),
        potentials=(*potentials, 0.0) if is_known else None,
        succeeded=succeeded,
    )
