"""A control for practice: rewards that mean nothing teach nothing, where the true rewards do teach."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.errands import ENVIRONMENT, LEARNED, MODEL
from upturn.deployment.interval import Interval
from upturn.loop.evaluation.evaluate import HeldoutResult, evaluate_heldout
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.run.context import Context, open_run
from upturn.loop.trainers import parse_full_config
from upturn.loop.trainers.grpo import train_grpo
from upturn.loop.trainers.rl_training import OutcomeReward
from upturn.models.engine import weights_hash
from upturn.records import AgentVersion, Evaluation
from upturn.training.distributed.weights import restore_weights
from upturn.training.runs.curve import read_curve

pytestmark = pytest.mark.slow

ITERATIONS = 20
HELDOUT_TASKS = 480
Begun = tuple[Context, AgentVersion, HeldoutResult]


def by_chance(evaluation: Evaluation) -> float:
    """Uniform in [0, 1], of each attempt anew, whatever the attempt was like."""
    return int.from_bytes(sha256(evaluation.id.encode()).digest()[:4]) / 2**32


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Begun]:
    """A run, and the model's marks before it."""
    threads = torch.get_num_threads()
    config = parse_full_config(
        {
            "run": {"seed": 2, "directory": "runs", "threads": 1},
            "agents": [{"name": "nano", "kind": "local_model", "model": MODEL}],
            "environment": {"name": ENVIRONMENT, "max_turns": 10, "max_tokens": 240, "max_action_tokens": 40},
            "tasks": {"train_families": list(LEARNED), "heldout_count": HELDOUT_TASKS},
            "rewards": {"weights": {"success": 0.9, "efficiency": 0.1}},
            "grpo": {
                "iterations": ITERATIONS,
                "tasks_per_iteration": 24,
                "group_size": 8,
                "evaluate_every": ITERATIONS,
                "optimiser": {"learning_rate": 4e-4},
                "decay": "linear",
                "incumbent_share": 0.15,
            },
        }
    )
    with open_run(config, tmp_path / "run", "control", NoProgress()) as context:
        parent = context.router.registry.served("nano").incumbent
        yield context, parent, evaluate_heldout(context, "before", parent)
    torch.set_num_threads(threads)


def train_on_rollouts(begun: Begun, name: str, reward: OutcomeReward | None) -> Interval:
    """Gain of the version that practice for that reward gives, on the held-out tasks, paired."""
    context, parent, before = begun
    version = train_grpo(context, parent, dict.fromkeys(LEARNED, 1.0), name, reward=reward)
    return evaluate_heldout(context, f"after {name}", version).gain_over(before)


def at_the_end(begun: Begun, name: str) -> Interval:
    """The same for the weights at the end of practice: the version has the first ones if those look better."""
    context, parent, before = begun
    stored = load_file(context.run_dir / "training" / name / "checkpoint.safetensors")
    prefix = "weights."
    worker = PolicyWorker(context.runtime, parent)
    first = weights_hash(worker.model)
    restore_weights(
        worker.model, {key.removeprefix(prefix): stored[key] for key in stored if key.startswith(prefix)}
    )
    assert weights_hash(worker.model) != first
    version = worker.serve_as(replace(parent, version=f"{name}-at-the-end"))
    return evaluate_heldout(context, f"at the end of {name}", version).gain_over(before)


def course(context: Context, name: str) -> dict[str, list[float]]:
    """What practice recorded of its groups and steps, in order."""
    points = read_curve(context.run_dir / "training" / name / "curve.jsonl")
    return {
        metric: [found for point in points if (found := point.metrics.get(metric)) is not None]
        for metric in ("mean_return", "grad_norm", "filtered_groups")
    }


def test_random_rewards_gain_nothing_where_true_ones_gain(begun: Begun) -> None:
    context, _, before = begun
    by_luck, by_success = train_on_rollouts(begun, "luck", by_chance), train_on_rollouts(begun, "success", None)
    assert by_luck.n == by_success.n == len(before.marks) >= 200
    assert by_luck.low <= 0.0 <= by_luck.high, (
        f"{by_luck}: where random rewards teach nothing, the interval still misses 0 in one of twenty seeds, and "
        "only if the last weights look better than the first on the watched tasks: otherwise the first are kept"
    )
    last = at_the_end(begun, "luck")
    assert last.low <= 0.0, f"{last}: an interval lies above 0 by chance in one of forty seeds"
    # Five seeds gained .074 to .150, .125 on average with a deviation of .031, and .035 is enough: about one
    # seed in five hundred misses this.
    assert by_success.low > 0.0, f"{by_success}: true rewards under the same settings teach something"
    # Practice for luck was real: rewards that differ within every group and are .5 on average, over 3,840 draws
    # with a deviation of .0047, and steps.
    luck = course(context, "luck")
    assert set(luck["filtered_groups"]) == {0.0}
    assert sum(luck["mean_return"]) / ITERATIONS == pytest.approx(0.5, abs=0.03)
    assert len(luck["grad_norm"]) == ITERATIONS
    assert min(luck["grad_norm"]) > 0.0
