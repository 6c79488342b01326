"""Training on partial rollouts: a toy is learned as with whole ones; a killed run ends with the same weights."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.agents import Job, PausedRollout, Reply, RolloutRequest, Setting, run_until
from upturn.agents.agent import ModelSession
from upturn.config import OptimiserSettings
from upturn.environments import Info, Step
from upturn.loop.agent_runtime import Purpose
from upturn.loop.rollouts.partial_rollouts import PartialRollouts
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec
from upturn.models.engine import LocalEngine, weights_hash
from upturn.records import Action, AgentVersion, Evaluation, Observation, Task, Trajectory, Turn
from upturn.training import PartialSettings, ScoredGroup
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.runs import RunOptions
from upturn.training.runs.curve import read_curve
from upturn.training.runs.run_folder import CURVE_FILE

SYMBOLS = (3, 4, 5, 6)
VERSION = AgentVersion("toy", "1", "local_model")
GRPO = GrpoSettings(
    iterations=6,
    optimiser=OptimiserSettings(learning_rate=5e-3),
    minibatches=1,
    evaluate_every=None,
    keep="final",
    checkpoint_every=1,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are slower on two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny() -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=20,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=64,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )
    return model


class Copying:
    """Shows a symbol as often as it is copied: one turn for the first symbol, seven for the last."""

    def __init__(self, task: Task) -> None:
        self.symbol = int(task.instruction)
        self.left = 2 * self.symbol - 5

    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(task.instruction), Info({}, {})

    def step(self, action: Action) -> Step:
        self.left -= 1
        return Step(Observation(str(self.symbol)), 0.0, not self.left, False, Info({}, {}))

    def state(self) -> Mapping[str, Any]:
        return {}

    def snapshot(self) -> object:
        raise NotImplementedError

    def restore(self, snapshot: object) -> None:
        raise NotImplementedError


class OneToken:
    """Writes one token after ``x, 2``, following its history."""

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        prompt = (*(model.history or (1,)), int(observation.text), 2)
        written = await model.generate(prompt, max_tokens=1, stop_ids=())
        return Reply(str(written.token_ids[0]), Action("user", str(written.token_ids[0])))


class Verifier:
    """Gives no score: see ``share_copied``."""

    name = "copy/1"

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        return Evaluation(trajectory.id, task.id, trajectory.id, self.name, "success", (), {}, {}, 0.0)


def share_copied(trajectory: Trajectory, _: Evaluation) -> float:
    return sum(turn.text == turn.observation.text for turn in trajectory.turns) / len(trajectory.turns)


class ToyWorker:
    """A policy worker, and its runtime, without a tokenizer."""

    version = VERSION
    scored, check_model, refuse_program = PolicyWorker.scored, PolicyWorker.check_model, PolicyWorker.refuse_program

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.engine = LocalEngine(model, slots=64, max_length=64)
        self.runtime = self
        self.kit = SimpleNamespace(verifier=Verifier())

    def serve_as(self, version: AgentVersion) -> AgentVersion:
        return version

    def rollout_until(
        self,
        version: AgentVersion,
        requests: Sequence[RolloutRequest],
        purpose: Purpose,
        *,
        is_enough: Callable[[Trajectory], bool],
    ) -> list[Trajectory | PausedRollout]:
        self.engine.refresh()
        setting = Setting(purpose.key, OneToken(), version.id, self.engine, seed=purpose.seed)
        jobs = [Job(request, setting) for request in requests]
        return asyncio.run(run_until(jobs, Copying, is_enough=is_enough))


class Tasks:
    """Every symbol in each iteration, and again as further tasks."""

    def tasks(self, iteration: int) -> list[Task]:
        return [Task(f"{iteration} {symbol}", str(symbol), "copy", "toy") for symbol in SYMBOLS]

    def further_tasks(self, iteration: int, number: int) -> list[Task]:
        return [replace(task, id=f"{number}/{task.id}") for task in self.tasks(iteration)]


class Sink:
    """Stores nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[Any]) -> None:
        pass


class _StopError(Exception):
    """The run is killed."""


class Stopping(PartialRollouts):
    """Is killed in the middle of an iteration, after its rollouts."""

    stop_at: int | None = None

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        groups = super().__call__(iteration)
        if iteration == self.stop_at:
            raise _StopError
        return groups


def collect_of(model: PreTrainedModel, *, extra_tasks: int = 4, max_age: int = 2) -> Stopping:
    worker: Any = ToyWorker(model)
    sampler: Any = Tasks()
    rollouts = RolloutSpec("run", 3, 6, share_copied)
    return Stopping(
        worker,
        sampler,
        rollouts,
        Sink(),
        tasks=4,
        settings=PartialSettings(extra_tasks, max_age),
    )


def success(model: PreTrainedModel) -> float:
    """The exact success rate of the first turn."""
    with torch.no_grad():
        logits = model(torch.tensor([[1, x, 2] for x in SYMBOLS])).logits
    return float(logits[:, -1].softmax(-1)[range(len(SYMBOLS)), list(SYMBOLS)].mean())


@pytest.mark.slow
@pytest.mark.parametrize(("max_age", "least"), [(4, 0.95), (0, 0.8)])
def test_copying_is_learned_from_partial_rollouts(tmp_path: Path, max_age: int, least: float) -> None:
    """From 1/20, with old tokens corrected, or masked; whole rollouts of as many iterations reach 0.99."""
    model = tiny()
    settings = replace(GRPO, iterations=80, checkpoint_every=80)
    run_grpo(model, collect_of(model, max_age=max_age), settings, RunOptions(1, tmp_path))
    assert success(model) >= least
    points = [point.metrics for point in read_curve(tmp_path / CURVE_FILE)]
    assert points[-1]["partial_open"] and points[-1]["partial_age"]
    masked = sum(metrics["partial_masked"] or 0.0 for metrics in points)
    assert masked > 0 if max_age == 0 else masked == 0


@pytest.mark.parametrize("stop_at", [1, 4])
def test_a_run_killed_with_trajectories_in_flight_ends_with_the_same_weights(tmp_path: Path, stop_at: int) -> None:
    undisturbed = tiny()
    run_grpo(undisturbed, collect_of(undisturbed), GRPO, RunOptions(1, tmp_path / "a"))
    killed, resumed = tiny(), tiny()
    stopping = collect_of(killed)
    stopping.stop_at = stop_at
    with pytest.raises(_StopError):
        run_grpo(killed, stopping, GRPO, RunOptions(1, tmp_path / "b"))
    run_grpo(resumed, collect_of(resumed), GRPO, RunOptions(1, tmp_path / "b"))
    assert weights_hash(resumed) == weights_hash(undisturbed) != weights_hash(tiny())
