"""Errands as a benchmark of training: environment, tasks, and the model that all runs start from.

The model is the shipped one after some supervised training on oracle demonstrations of the families of level 3: the
shipped model hardly ever succeeds there, and without successes there is no credit to assign.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from benchmarks.errands import MODEL, ErrandsKit, oracle
from benchmarks.implementations import NullSink
from upturn.agents import rendered_rows
from upturn.config import Limits
from upturn.environments import play
from upturn.loop import AgentRuntime, Purpose
from upturn.loop.evaluation import HeldoutResult, evaluate_version, evaluation_tasks
from upturn.loop.rollouts import ContinuationSpec, PolicyWorker, RolloutSpec, TaskSampler
from upturn.models import CompactRenderer, load_local, model_folder
from upturn.records import AgentVersion, Evaluation, Trajectory
from upturn.training import ScoredGroup
from upturn.training.runs import RunOptions

_LIMITS = Limits(max_turns=10, max_tokens=240, max_action_tokens=40)
_DEMONSTRATION_SEED, _EVALUATION_SEED = 41_000, 43_000


@dataclass(frozen=True, slots=True)
class ErrandsSettings:
    """Everything that determines a result, except estimator and seed."""

    families: tuple[str, ...] = ("mail_to_event", "mail_to_sheet", "call_off")
    demonstrations: int = 16
    """Oracle demonstrations per family that the model is first trained on."""
    epochs: int = 2
    agreement_tasks: int = 18
    """Tasks whose turns are credited to measure agreement."""
    group_size: int = 8
    """Rollouts per task, for agreement and in training."""
    continuations: int = 64
    """Per state, to measure the truth."""
    tasks: int = 12
    """Per training iteration."""
    learning_rate: float = 3e-4
    evaluate_every: int = 3
    """Iterations."""
    evaluation_tasks: int = 120
    target: float = 0.8
    budget: int = 300_000
    """Tokens that training may sample until the target."""


def success_of(_: Trajectory, evaluation: Evaluation) -> float | None:
    """1 for a success, 0 for a failure, None for a missing evaluation; as a reward its value is a probability."""
    return evaluation.rewards.get("success")


def continuations(count: int) -> ContinuationSpec:
    """So many continuations per state, rewarded by success."""
    return ContinuationSpec(count, success_of)


class ErrandsSetup:
    """The environment with its tasks, and the model. The caller sets torch's threads."""

    def __init__(self, folder: Path, settings: ErrandsSettings) -> None:
        """``folder``: of the model, which is trained when first needed."""
        self.settings = settings
        self.kit = ErrandsKit()
        self.runtime = AgentRuntime(self.kit, _LIMITS)
        self.sink = NullSink()
        self._folder = folder

    def new_worker(self) -> PolicyWorker:
        """A worker with newly loaded weights of the model."""
        if not (self._folder / "model.safetensors").is_file():
            train_model(self._folder, self.kit, self.settings)
        return PolicyWorker(
            self.runtime,
            AgentVersion("nano", "bench", "local_model", model=str(self._folder), parameters={"temperature": 1.0}),
        )

    def new_task_sampler(self, seed: int) -> TaskSampler:
        """A sampler of training tasks, all families equally often."""
        return TaskSampler(self.kit, dict.fromkeys(self.settings.families, 1.0), self.settings.tasks, seed=seed)

    def rollout_spec(self, run: str, seed: int) -> RolloutSpec:
        """Groups rewarded by success."""
        return RolloutSpec(run, seed, self.settings.group_size, success_of)

    def evaluate_heldout(self, worker: PolicyWorker, *, seed: int) -> HeldoutResult:
        """Success of sampled rollouts on training templates in worlds that training never uses."""
        tasks = evaluation_tasks(
            self.kit,
            self.settings.families,
            self.settings.evaluation_tasks,
            seed=_EVALUATION_SEED + seed,
            split="train",
        )
        version = worker.serve_as(worker.version)
        return evaluate_version(self.runtime, version, tasks, Purpose(f"exam/{seed}", seed, 1.0), pool=None)


def train_model(folder: Path, kit: ErrandsKit, settings: ErrandsSettings) -> None:
    """Trains the shipped model on oracle demonstrations and saves it; equal settings give equal weights."""
    from upturn.config import OptimiserSettings
    from upturn.training import supervised_rows
    from upturn.training.algorithms.sft import SftSettings, run_sft
    from upturn.training.runs import save_version

    local = load_local(MODEL)
    renderer = CompactRenderer(local.tokenizer)
    stream = kit.tasks(seed=_DEMONSTRATION_SEED, split="train", families=settings.families)
    tasks = islice(stream, settings.demonstrations * len(settings.families))
    demonstrations = [play(kit.environment(task), task, oracle) for task in tasks]
    rows = supervised_rows(
        [replace(trajectory, rows=rendered_rows(trajectory, renderer)) for trajectory in demonstrations]
    )
    sft = SftSettings(
        epochs=settings.epochs, batch_rows=16, optimiser=OptimiserSettings(learning_rate=1e-3, warmup_steps=5)
    )
    run_sft(local.model, rows, sft, RunOptions(0, folder.with_name(f"{folder.name}-training")))
    save_version(local.model, folder, companions=model_folder(MODEL))


def written_tokens(groups: Sequence[ScoredGroup]) -> int:
    """Tokens that the model wrote in all rollouts of the groups."""
    return sum(member.trajectory.usage.written_tokens for group in groups for member in group.members)
