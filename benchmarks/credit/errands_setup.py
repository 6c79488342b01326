"""Errands as a place to measure in, and the model that everything starts from.

That model is the shipped one after a little supervised training on perfect walks through the families of level 3:
as it ships it hardly ever succeeds there, and where nothing succeeds there is no credit to give.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from benchmarks.errands import MODEL, ErrandsKit, oracle
from upturn.agents import rendered_rows
from upturn.config import Limits
from upturn.environments import play
from upturn.loop import AgentRuntime, Purpose
from upturn.loop.evaluation import HeldoutResult, evaluate_version, evaluation_tasks
from upturn.loop.rollouts import Continuations, PolicyWorker
from upturn.models import CompactRenderer, load_local, model_folder
from upturn.records import AgentVersion, Evaluation, Task, Trajectory
from upturn.training.runs import RunOptions

_LIMITS = Limits(max_turns=10, max_tokens=240, max_action_tokens=40)
_DEMONSTRATION_SEED, _EXAM_SEED = 41_000, 43_000


@dataclass(frozen=True, slots=True)
class ErrandsSettings:
    """Everything that decides a result, beside contender and seed."""

    families: tuple[str, ...] = ("mail_to_event", "mail_to_sheet", "call_off")
    demonstrations: int = 16
    """Perfect walks through tasks of each family that the model is trained on first."""
    epochs: int = 2
    ranked_tasks: int = 18
    """Whose attempts' turns are credited."""
    attempts: int = 8
    """At each task, when turns are credited and in practice."""
    continuations: int = 64
    """Of each state, to measure the truth."""
    tasks: int = 12
    """Of an iteration of practice."""
    learning_rate: float = 3e-4
    evaluate_every: int = 3
    """Iterations."""
    examined_tasks: int = 120
    target: float = 0.8
    budget: int = 300_000
    """Tokens that practice may sample until the target."""


def reward_of(evaluation: Evaluation) -> float | None:
    """1 for a success, 0 for a failure, None where the judgement is missing: a value is a chance of success."""
    return evaluation.rewards.get("success")


def continuations(count: int) -> Continuations:
    """So many from each state."""
    return Continuations(count, lambda _, evaluation: reward_of(evaluation))


class Errands:
    """The model, the environment and its tasks. The caller sets torch's threads."""

    def __init__(self, folder: Path, settings: ErrandsSettings) -> None:
        """``folder``: where the model lies, or will lie."""
        self.settings = settings
        self.kit = ErrandsKit()
        self.runtime = AgentRuntime(self.kit, _LIMITS)
        self.sink = _NoSink()
        self._folder = folder

    def worker(self) -> PolicyWorker:
        """The model, loaded anew; made first where it is missing."""
        if not (self._folder / "model.safetensors").is_file():
            make_model(self._folder, self.kit, self.settings)
        return PolicyWorker(
            self.runtime,
            AgentVersion("nano", "bench", "local_model", model=str(self._folder), parameters={"temperature": 1.0}),
        )

    def evaluate_heldout(self, worker: PolicyWorker, *, seed: int) -> HeldoutResult:
        """Sampled attempts at training templates in worlds that practice never meets."""
        wanted = self.settings
        tasks = evaluation_tasks(
            self.kit, wanted.families, wanted.examined_tasks, seed=_EXAM_SEED + seed, split="train"
        )
        version = worker.serve_as(worker.version)
        return evaluate_version(self.runtime, version, tasks, Purpose(f"exam/{seed}", seed, 1.0), pool=None)


def make_model(folder: Path, kit: ErrandsKit, settings: ErrandsSettings) -> None:
    """Trains the shipped model on perfect walks and writes it; the same settings give the same weights."""
    from upturn.config import OptimiserSettings
    from upturn.training import supervised_rows
    from upturn.training.algorithms.sft import SftSettings, run_sft
    from upturn.training.runs import save_version

    local = load_local(MODEL)
    renderer = CompactRenderer(local.tokenizer)
    stream = kit.tasks(seed=_DEMONSTRATION_SEED, split="train", families=settings.families)
    tasks = islice(stream, settings.demonstrations * len(settings.families))
    walks = [play(kit.environment(task), task, oracle) for task in tasks]
    rows = supervised_rows([replace(walk, rows=rendered_rows(walk, renderer)) for walk in walks])
    plan = SftSettings(
        epochs=settings.epochs, batch_rows=16, optimiser=OptimiserSettings(learning_rate=1e-3, warmup_steps=5)
    )
    run_sft(local.model, rows, plan, RunOptions(0, folder.with_name(f"{folder.name}-training")))
    save_version(local.model, folder, companions=model_folder(MODEL))


class _NoSink:
    """Forgets finished rollouts."""

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Nothing."""
