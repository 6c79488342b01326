"""A version in training: its weights, the engine that samples from them, and the groups of its rollouts."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from upturn.agents import prompt_builder_for, render_trajectory, rendered_rows
from upturn.config import AdapterSettings, OptimiserSettings, SamplingSettings
from upturn.environments import EnvironmentKit, draw_tasks, verify_all
from upturn.errors import ConfigError, ModelError
from upturn.loop.agent_runtime import AgentRuntime, Engine, Purpose, build_renderer
from upturn.loop.rollouts.imported_rows import UnwritableError, imported_rows
from upturn.loop.rollouts.state_values import ContinuationSpec, Reward, measure_values, turn_rewards
from upturn.loop.run import proxy_scores
from upturn.models import SHIPPED, Precision, load_local, local_folder
from upturn.pool import is_imported
from upturn.records import AgentVersion, Evaluation, Task, TokenRow, Trajectory, TrajectorySink
from upturn.training import RewardComponent, ScoredGroup, ScoredTrajectory
from upturn.training.data import Portion

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upturn.models.upstreams import Script


Components = Callable[[Trajectory, Evaluation], tuple[RewardComponent, ...]]
"""What the reward of a trajectory consists of."""
TRAINING_SEED_OFFSET = 1_000_000
"""Separates the streams of training tasks from those of service and of held-out evaluations."""
REFILL_SEED_STEP = 10_000_000
"""Separates the seeds of an iteration's own tasks and trajectories from those of each further round."""


class TaskSampler:
    """Training tasks by iteration: a pure function of (seed, iteration), with families drawn by weight."""

    def __init__(self, kit: EnvironmentKit, weights: Mapping[str, float], count: int, *, seed: int) -> None:
        self._kit = kit
        self._families = list(weights)
        total = sum(weights.values())
        self._shares = [weights[family] / total for family in self._families]
        self._count = count
        self._seed = seed
        self._streams: dict[str, Iterator[Task]] = {}
        self._numbered: dict[str, tuple[Iterator[Task], list[Task]]] = {}
        """By family: a stream, and the tasks that were read from it."""
        self._next = 0

    def tasks(self, iteration: int) -> list[Task]:
        """The iteration's tasks without repeats, all of them new as long as the environment has new ones.

        Iterations must be requested in ascending order.
        """
        assert iteration >= self._next
        tasks: list[Task] = []
        for number in range(self._next, iteration + 1):
            tasks = self._draw(number)
        self._next = iteration + 1
        return tasks

    def further_tasks(self, iteration: int, number: int) -> list[Task]:
        """As many tasks again, for refill round ``number`` (from 1) of an iteration; fewer where there are no more.

        A pure function of (seed, iteration, number), so rounds may be requested in any order.
        """
        counts = self._family_counts(iteration, number)
        seed = self._seed + TRAINING_SEED_OFFSET + REFILL_SEED_STEP * number + iteration
        return [
            task
            for family in self._families
            for task in islice(draw_tasks(self._kit, seed=seed, split="train", families=[family]), counts[family])
        ]

    def numbered_tasks(self, portions: Sequence[Portion]) -> list[Task]:
        """The tasks that a curriculum chose by family and number, without repeats within a portion.

        Numbers beyond a family's last task start over at its first.
        """
        tasks: list[Task] = []
        for family, first, count in portions:
            if family not in self._numbered:
                self._numbered[family] = (self._stream(family), [])
            stream, known = self._numbered[family]
            known += islice(stream, max(0, first + count - len(known)))
            assert known, "a trained family has tasks"
            chosen = (known[number % len(known)] for number in range(first, first + count))
            tasks += {task.id: task for task in chosen}.values()
        return tasks

    def _draw(self, iteration: int) -> list[Task]:
        counts = self._family_counts(iteration)
        tasks: list[Task] = []
        for family in self._families:
            if family not in self._streams:
                self._streams[family] = self._stream(family)
            drawn = list(islice(self._streams[family], counts[family]))
            if len(drawn) < counts[family]:  # the stream has ended: start over, without repeats in this iteration
                self._streams[family] = self._stream(family)
                used = {task.id for task in drawn}
                unused = (task for task in self._streams[family] if task.id not in used)
                drawn += islice(unused, counts[family] - len(drawn))
            tasks += drawn
        return tasks

    def _family_counts(self, *entropy: int) -> Counter[str]:
        rng = np.random.default_rng([self._seed, *entropy])
        return Counter(rng.choice(self._families, size=self._count, p=self._shares).tolist())

    def _stream(self, family: str) -> Iterator[Task]:
        return draw_tasks(self._kit, seed=self._seed + TRAINING_SEED_OFFSET, split="train", families=[family])


@dataclass(frozen=True, slots=True)
class RolloutSpec:
    """How the groups of one training step are sampled and rewarded."""

    run: str
    """Key of the rollouts in the sink."""
    seed: int
    group_size: int
    """Trajectories per task."""
    reward: Reward = lambda _, evaluation: evaluation.score
    """Reward of a whole trajectory, on top of the environment's rewards for single turns; None means missing."""
    continuations: int = 0
    """Continuations from each state of each trajectory, to measure the state's value; 0 means no values."""
    gamma: float = 1.0
    """Discount per turn in continuations."""
    temperature: float = 1.0
    sampling: SamplingSettings | None = None
    """Options of sampling; None means only the version's stop strings."""
    refill: int = 0
    """Round of further tasks in an iteration; 0 means the iteration's own tasks."""
    components: Components | None = None
    """What that reward consists of, with the environment's; None means that no estimator compares components."""


def in_training(version: AgentVersion) -> AgentVersion:
    """The version under the name that its rollouts carry while its weights are trained; it is stored nowhere."""
    return replace(version, version=f"{version.version}-in-training")


class PolicyWorker:
    """One model that is trained and sampled from in turn; single use."""

    def __init__(
        self,
        runtime: AgentRuntime,
        version: AgentVersion,
        adapter: AdapterSettings | None = None,
        optimiser: OptimiserSettings | None = None,
    ) -> None:
        """Loads the version's weights again and samples under a name of its own; serving is not affected.

        ``adapter``: trained in place of the weights; None means that the weights are trained. ``optimiser``: of the
        training, whose precision the weights have; None means float32. Raises ModelError where the model cannot be
        loaded.
        """
        local = load_local(version.model, precision=weights_form(adapter, optimiser), device=runtime.device)
        self.adapter = adapter
        if adapter is not None:
            add_named_adapter(local.model, adapter, version.model)
        self.runtime = runtime
        self.version = in_training(version)
        self.model: PreTrainedModel = local.model
        self.engine: Engine = runtime.engine_for(local)
        """Where the runtime samples elsewhere, it hands the present weights over."""
        self.renderer = build_renderer(local, version, runtime.kit)
        self.prompts = prompt_builder_for(version, runtime.limits, self.renderer)
        """Builds the prompts of the version's agent."""
        self.refusals: Counter[str] = Counter()
        """Why imported conversations were rendered without rows, and how many times."""

    def rendered(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory in the worker's tokens; see ``render_trajectory``.

        The model of a program reads what the program sends: calls of programs are rendered as they were sent, and
        work of other agents only where the program sends a task as it is (``sends_tasks_plainly``). Imported
        conversations are rendered word for word (``imported_rows``).
        """
        if is_imported(trajectory):
            return self._rendered_import(trajectory)
        rows_of = self._program_rows if self.version.kind == "program" else None
        return render_trajectory(trajectory, self.renderer, self.prompts, rows_of=rows_of)

    def _rendered_import(self, trajectory: Trajectory) -> Trajectory:
        try:
            return replace(trajectory, rows=imported_rows(trajectory, self._script))
        except UnwritableError as exc:
            self.refusals[str(exc)] += 1
            return replace(trajectory, rows=())

    @cached_property
    def _script(self) -> "Script":
        from upturn.models.upstreams import script_for

        return script_for(self.renderer, "")

    def _program_rows(self, trajectory: Trajectory) -> tuple[TokenRow, ...]:
        from upturn.agents.program import is_program, program_rows
        from upturn.models.upstreams import script_for

        if is_program(trajectory):
            return program_rows(trajectory, script_for(self.renderer, ""))
        return rendered_rows(trajectory, self.renderer, self.prompts) if self.sends_tasks_plainly else ()

    @cached_property
    def sends_tasks_plainly(self) -> bool:
        """Whether the program's first prompt is the task's first observation and nothing else, in one attempt."""
        kit = self.runtime.kit
        task = next(draw_tasks(kit, seed=TRAINING_SEED_OFFSET, split="train", families=list(kit.families)))
        (trajectory,) = self.runtime.rollout([(self.serve_as(self.version), task, 0)], Purpose("plain", 0))
        if not trajectory.rows:
            return False
        row, turn = trajectory.rows[0], trajectory.turns[0]
        return row.token_ids[: row.spans[0].start] == self.renderer.open(turn.observation, "")

    def refuse_program(self, what: str) -> None:
        """Raises ConfigError where the version is a program. ``what``: needs an agent that acts turn by turn."""
        if self.version.kind == "program":
            raise ConfigError(
                [
                    f"agent {self.version.agent!r} is a program, which cannot be trained with {what}; choose an "
                    "algorithm or estimator without them, or an agent of kind 'local_model'"
                ]
            )

    def merge(self) -> None:
        """Merges the adapter into the model; afterwards nothing may be sampled or trained."""
        self.model = self.whole_model()

    def whole_model(self) -> "PreTrainedModel":
        """The model with its adapter merged, as a copy; the model itself where it has none.

        An adapter on weights in bfloat16 or 4 bits is merged into float32 weights, which are read again.
        """
        from torch import float32

        from upturn.training.optimisation import merge_adapter

        is_rounded = self.adapter is not None and self.model.dtype != float32
        return merge_adapter(self.model, load_local(self.version.model).model if is_rounded else None)

    def serve_as(self, version: AgentVersion) -> AgentVersion:
        """Serves ``version`` with the present weights in the worker's runtime; returns it."""
        self.runtime.adopt(version, self.engine, self.renderer)
        return version

    def sample_groups(
        self, tasks: Sequence[Task], iteration: int, rollouts: RolloutSpec, sink: TrajectorySink
    ) -> list[ScoredGroup]:
        """Groups of trajectories of the tasks with the present weights; all go to the sink.

        Trajectories that a model or an environment broke are missing, whatever the verifier returns: they are no
        evidence about the policy. Continuations, which measure states, are not stored. Raises WorldError where an
        environment cannot be re-entered, ModelError where the model broke every trajectory.
        """
        if rollouts.continuations:
            self.refuse_program("continuations, which go on from states within an attempt")
        version = self.serve_as(self.version)
        run, key = rollouts.run, f"{rollouts.run}/{iteration}"
        seed = rollouts.seed * 100_003 + iteration
        if rollouts.refill:
            run, key = f"{run}/refill-{rollouts.refill}", f"{key}.{rollouts.refill}"
            seed += REFILL_SEED_STEP * rollouts.refill
        purpose = Purpose(key, seed, rollouts.temperature, rollouts.sampling)
        jobs = [(version, task, number) for task in tasks for number in range(rollouts.group_size)]
        trajectories = self.runtime.rollout(jobs, purpose)
        judged = [(task, trajectory) for (_, task, _), trajectory in zip(jobs, trajectories, strict=True)]
        evaluations = verify_all(self.runtime.kit.verifier, judged)
        finished = [(*pair, evaluation) for pair, evaluation in zip(judged, evaluations, strict=True)]
        self.check_model(trajectories)
        sink.append(run, iteration, finished)
        members = [self.scored(rollouts, trajectory, evaluation) for _, trajectory, evaluation in finished]
        size = rollouts.group_size
        groups = [
            ScoredGroup(task, tuple(members[index * size : (index + 1) * size])) for index, task in enumerate(tasks)
        ]
        if not rollouts.continuations:
            return groups
        spec = ContinuationSpec(rollouts.continuations, rollouts.reward, rollouts.gamma)
        return measure_values(
            self.runtime, version, groups, replace(purpose, key=f"{key}/values"), spec=spec
        ).groups

    def check_model(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises ModelError where the model broke every trajectory."""
        if trajectories and all(trajectory.outcome == "model_error" for trajectory in trajectories):
            raise ModelError(
                f"the model failed in all {len(trajectories)} trajectories, in the first with: "
                f"{trajectories[0].error}; check the model or its engine, then resume"
            )
        if trajectories and all(member.outcome == "program_error" and not member.rows for member in trajectories):
            raise ModelError(
                f"the program failed in all {len(trajectories)} trajectories before its first call, in the first "
                f"with: {trajectories[0].error}; run it by hand, then resume"
            )

    def scored(self, rollouts: RolloutSpec, trajectory: Trajectory, evaluation: Evaluation) -> ScoredTrajectory:
        """The trajectory with its rewards; missing where a model or an environment broke it."""
        if trajectory.outcome in ("model_error", "environment_error"):
            return score_trajectory(trajectory, None)
        succeeded = None if evaluation.verdict == "missing" else evaluation.is_success
        member = score_trajectory(trajectory, rollouts.reward(trajectory, evaluation), succeeded)
        components = None if rollouts.components is None else rollouts.components(trajectory, evaluation)
        return replace(member, components=components, proxies=proxy_scores(evaluation.rewards))


def weights_form(adapter: AdapterSettings | None, optimiser: OptimiserSettings | None) -> Precision:
    """The form of a model's weights in training. Raises ConfigError for a 4-bit base without bfloat16 weights."""
    is_short = optimiser is not None and optimiser.precision == "bfloat16_weights"
    if adapter is None or adapter.base == "full":
        return "bfloat16" if is_short else "float32"
    if not is_short:
        shown = None if optimiser is None else optimiser.precision
        raise ConfigError(
            [
                f"lora.base = {adapter.base!r} needs bfloat16 for all other weights, but optimiser.precision is "
                f"{shown!r}; set optimiser.precision = 'bfloat16_weights', or remove lora.base"
            ]
        )
    return "nf4"


def add_named_adapter(model: "PreTrainedModel", adapter: AdapterSettings, name: str) -> None:
    """Adds an adapter to the model ``name``, whose folder the saved adapter names as its base."""
    from upturn.training.optimisation import add_adapter

    base = SHIPPED[name] if name in SHIPPED else local_folder(name)
    add_adapter(model, adapter, base=str(base.absolute()))


def score_trajectory(
    trajectory: Trajectory, reward: float | None, succeeded: bool | None = None
) -> ScoredTrajectory:
    """The trajectory with the rewards of its turns, and with its states' potentials where the environment has them.

    ``reward``: added to the last turn's; None means missing. A trajectory without turns is unscorable.
    ``succeeded``: the verifier's verdict; None means that there is none.
    """
    if reward is None or not trajectory.turns:
        return ScoredTrajectory(trajectory, None, succeeded=succeeded)
    potentials = [turn.potential for turn in trajectory.turns if turn.potential is not None]
    is_known = len(potentials) == len(trajectory.turns)
    return ScoredTrajectory(
        trajectory,
        turn_rewards(trajectory, reward),
        potentials=(*potentials, 0.0) if is_known else None,
        succeeded=succeeded,
    )
