"""RFT: its trials, and the gain that they show."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, LoopConfig
from upturn.errors import ConfigError, ModelError
from upturn.interval import Interval
from upturn.loop.evaluation.evaluate import HeldoutResult, Mark, evaluate_heldout
from upturn.loop.rollouts.state_values import Reward
from upturn.loop.run.context import Context
from upturn.loop.trainers.algorithms.rft import (
    FIXED_RATE,
    ChanceRate,
    GainReport,
    RewardKind,
    Trial,
    _planned_trials,
    _trial_spec,
    bootstrap_over_seeds,
    format_points,
    iteration_tasks,
    load_examples,
    measure_chance,
    report_gain,
    train,
)
from upturn.loop.trainers.train_command import run_training
from upturn.records import AgentVersion, fields_json
from upturn.training.algorithms.grpo import GrpoSettings

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)


def _heldout(name: str, outcomes: Sequence[int]) -> HeldoutResult:
    marks = tuple(
        Mark(f"task-{at}", "sums", 1, f"{name}/{at}", bool(outcome), False, {}, 1, 1, {})
        for at, outcome in enumerate(outcomes)
    )
    return HeldoutResult(name, name, 1.0, marks)


def _trial(reward: RewardKind, seed: int, outcomes: Sequence[int]) -> Trial:
    version = AgentVersion("nano", f"{reward}-{seed}", "local_model", model=MODEL)
    return Trial("nano@base", reward, version, _heldout(f"{reward}-{seed}", outcomes))


def _interval(low: float) -> Interval:
    return Interval(low + 0.1, low, low + 0.2, 12)


def test_the_interval_over_seeds_and_tasks_equals_a_slow_bootstrap() -> None:
    """Drawn with another generator: 4,000 resamples put each end within 0.02, 4 standard errors of a quantile."""
    rng = np.random.default_rng(3)
    differences = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.3, 0.5], size=(4, 25)) + rng.normal(0, 0.2, (4, 1))
    found = bootstrap_over_seeds(differences)
    slow = []
    for _ in range(4000):
        tasks = rng.integers(0, 25, size=25)
        seeds = rng.integers(0, 4, size=4)
        slow.append(np.mean([[differences[seed][task] for task in tasks] for seed in seeds]))
    low, high = np.quantile(slow, [0.025, 0.975])
    assert found.mean == pytest.approx(differences.mean())
    assert found.low == pytest.approx(low, abs=0.02)
    assert found.high == pytest.approx(high, abs=0.02)
    assert found.n == 100
    assert bootstrap_over_seeds(differences) == found


def test_different_seeds_widen_the_interval() -> None:
    """The same tasks' differences: equal in all seeds, or all in one seed."""
    equal = np.full((4, 30), 0.25)
    uneven = np.zeros((4, 30))
    uneven[0] = 1.0
    assert bootstrap_over_seeds(equal) == Interval(0.25, 0.25, 0.25, 120)
    found = bootstrap_over_seeds(uneven)
    assert (found.mean, found.low) == (0.25, 0.0)
    assert found.high >= 0.5


def test_a_gain_that_random_rewards_also_have_does_not_survive() -> None:
    before = _heldout("before", [0] * 40)
    everything, nothing = [1] * 40, [0] * 40
    trials = [_trial("true", seed, everything) for seed in (0, 1)]
    trials += [_trial("random", seed, everything) for seed in (0, 1)]
    trials += [_trial("format", seed, nothing) for seed in (0, 1)]
    found = report_gain("nano@base", before, trials)
    assert (found.seeds, found.gain.mean) == (2, 1.0)
    assert {name: each.mean for name, each in found.over.items()} == {"random": 0.0, "format": 1.0}
    assert not found.survives
    assert found.summary() == (
        "nano@base, 2 seeds: gain +100.0 points [+100.0, +100.0]; over random +0.0 points [+0.0, +0.0]; over "
        "format +100.0 points [+100.0, +100.0]. The gain does not survive: it is not significantly above that of "
        "the random reward."
    )


@pytest.mark.parametrize(
    ("gain", "over", "verdict"),
    [
        (-0.01, {"random": 0.5}, "There is no significant gain."),
        (0.2, {}, "Without a control the gain is not shown to come from the reward."),
        (0.2, {"random": 0.1, "format": 0.1}, "The gain survives its controls."),
        (
            0.2,
            {"random": -0.1, "format": -0.1},
            "it is not significantly above that of the random and format reward.",
        ),
    ],
)
def test_the_summary_claims_only_what_is_significant(
    gain: float, over: dict[RewardKind, float], verdict: str
) -> None:
    found = GainReport("nano@base", 1, _interval(gain), {name: _interval(low) for name, low in over.items()})
    assert found.summary().startswith(f"nano@base, 1 seed: gain {format_points(_interval(gain))}")
    assert found.summary().endswith(verdict)
    assert found.survives == (gain > 0 and all(low > 0 for low in over.values()))


def test_figures_are_named_after_base_and_control() -> None:
    found = GainReport("nano@base", 3, _interval(0.2), {"random": _interval(0.1)})
    assert [(result.name, result.low, result.n) for result in found.results()] == [
        ("nano@base: gain", 0.2, 3),
        ("nano@base: over_random", 0.1, 3),
    ]


def _context_trials(context: Context) -> list[tuple[str, str, int]]:
    parent = AgentVersion("nano", "base", "local_model", model=MODEL)
    return [(base.id, reward, seed) for base, reward, seed in _planned_trials(context, parent)]


def test_each_reward_is_repeated_from_each_seed(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "a", desk.config(run={"seed": 5}, rft={"seeds": 2})) as context:
        found = _context_trials(context)
    assert found == [
        ("nano@base", reward, seed) for reward in ("true", "random", "format") for seed in (5, 5 + 1009)
    ]
    with desk.opened(tmp_path / "b", desk.config(rft={"seeds": 1, "controls": []})) as context:
        assert _context_trials(context) == [("nano@base", "true", 0)]
    both = desk.config(rft={"seeds": 1, "controls": ["format", "format"], "replication_model": "other"})
    with desk.opened(tmp_path / "c", both) as context:
        assert _context_trials(context) == [
            (base, reward, 0) for base in ("nano@base", "second-base@base") for reward in ("true", "format")
        ]


def test_every_base_is_evaluated_before_any_training(desk: ModuleType, tmp_path: Path) -> None:
    """So that a missing one costs no training."""
    config = desk.config(("adder",), rft={"seeds": 1, "replication_model": str(tmp_path / "gone")})
    with desk.opened(tmp_path / "run", config) as context:
        parent = context.router.registry.served("adder").incumbent
        with pytest.raises(ModelError, match="gone"):
            train(context, parent, evaluate_heldout(context, "heldout-before", parent), "rft")
        steps = [step.name for step in context.journal.progress().steps]
    assert steps == ["begin", "heldout-before", "heldout-before-second-base"]


def test_every_iteration_has_distinct_examples_and_all_are_equally_frequent(desk: ModuleType) -> None:
    """Ten tasks of two families, one of which has a single task; three per iteration."""
    tasks = [*islice(desk.kit().tasks(seed=1, split="train", families=["sums"]), 9)]
    tasks += islice(desk.kit().tasks(seed=1, split="train", families=["products"]), 1)
    rounds = [iteration_tasks(tasks, 3, 5, number) for number in range(300)]
    assert {len({task.id for task in item}) for item in rounds} == {3}
    for start in range(0, 300, 3):
        passed = [task.id for item in rounds[start : start + 3] for task in item]
        assert len(set(passed)) == 9
    counts = Counter(task.id for item in rounds for task in item)
    # Each pass leaves one of ten out: of 100 passes a task misses 10 +- 3; outside of 0..27 with p < 1e-6 each.
    assert len(counts) == 10 and all(73 <= count <= 100 for count in counts.values())
    assert iteration_tasks(tasks, 3, 5, 7) == rounds[7]
    assert iteration_tasks(tasks, 3, 6, 7) != rounds[7]
    assert {task.id for task in iteration_tasks(tasks, 10, 5, 4)} == {task.id for task in tasks}


def test_training_uses_only_the_examples(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config(rft={"examples": 5, "tasks_per_iteration": 4})) as context:
        parent = AgentVersion("nano", "base", "local_model", model=MODEL)
        spec = _trial_spec(context, parent, "x", "true", seed=3, rate=0.5)
        assert spec.tasks is not None
        drawn = [task for number in range(6) for task in spec.tasks(number)]
        assert (len(drawn), {task.id for task in drawn}) == (24, {task.id for task in load_examples(context)})
        assert {task.family for task in drawn} == {"sums", "products"}


def test_too_many_examples_are_refused_before_any_evaluation(desk: ModuleType, tmp_path: Path) -> None:
    tasks = [
        task for split in ("train", "heldout") for task in islice(
            desk.kit().tasks(seed=9, split=split, families=["sums"]), 30)
    ]  # fmt: skip
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(fields_json, tasks)))
    plain = desk.config(tasks={"file": str(path)}, rft={"examples": 31})
    config = plain.with_sections(GrpoSettings(), loop=LoopConfig(), agents=(NANO,))
    with desk.opened(tmp_path / "run", config) as context:
        with pytest.raises(ConfigError, match=r"rft\.examples = 31 is more than the 30 training tasks of"):
            run_training(context, "rft")
        assert [step.name for step in context.journal.progress().steps] == ["begin"]


def test_more_tasks_per_iteration_than_examples_are_refused(desk: ModuleType) -> None:
    with pytest.raises(ConfigError, match="rft: tasks_per_iteration = 6 is more than examples = 5"):
        desk.config(rft={"examples": 5, "tasks_per_iteration": 6})


@pytest.mark.parametrize(
    ("agent", "measured", "rate"), [("adder", 2 / 3, 2 / 3), ("solver", 1.0, 0.5), ("refuser", 0.0, 0.5)]
)
def test_the_random_rate_is_measured_on_the_examples_or_fixed(
    desk: ModuleType, tmp_path: Path, agent: str, measured: float, rate: float
) -> None:
    """The adder solves the sums, which are two of the three examples."""
    with desk.opened(
        tmp_path, desk.config((agent,), rft={"examples": 3, "tasks_per_iteration": 3, "group_size": 3})
    ) as context:
        found = measure_chance(context, context.router.registry.served(agent).incumbent)
        assert list(context.pool.selected(tenant="default")) == []
    assert (found.measured, found.rate) == (measured, rate)


def test_without_a_verdict_there_is_no_measured_rate(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(("solver",), environment={"name": "toy_desk:unjudged_kit"}, rft={"examples": 10})
    with desk.opened(tmp_path, config) as context:
        found = measure_chance(context, context.router.registry.served("solver").incumbent)
    assert (found.measured, found.rate) == (None, FIXED_RATE)


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (0.37, "nano@base: the random reward pays at 37 %, the acceptance rate on the examples before training."),
        (
            0.0,
            "pays at 50 %, a fixed rate: none of the trajectories on the examples succeeded before training, and",
        ),
        (
            1.0,
            "pays at 50 %, a fixed rate: all of the trajectories on the examples succeeded before training, and",
        ),
        (None, "pays at 50 %, a fixed rate: no trajectory on the examples could be verified before training."),
    ],
)
def test_the_summary_has_the_rate_of_the_random_reward_and_its_origin(measured: float | None, words: str) -> None:
    assert words in ChanceRate("nano@base", measured).summary()


def test_examples_are_training_tasks_in_rounds_over_the_families(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config(rft={"examples": 5, "tasks_per_iteration": 5})) as context:
        found = load_examples(context)
        again = load_examples(context)
    assert found == again
    assert [task.family for task in found] == ["sums", "products"] * 2 + ["sums"]
    assert {task.split for task in found} == {"train"}


def test_more_examples_than_training_tasks_are_refused(desk: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    lines = [f'{{"id": "p{at}", "instruction": "add {at} 2", "family": "sums"}}' for at in range(3)]
    lines.append('{"id": "h", "instruction": "add 1 2", "family": "sums", "split": "heldout"}')
    file.write_text("\n".join(lines) + "\n")
    config = desk.config(tasks={"file": str(file)}, rft={"examples": 4, "tasks_per_iteration": 4})
    with (
        desk.opened(tmp_path / "run", config) as context,
        pytest.raises(ConfigError, match=r"rft\.examples = 4 is more than the 3 training tasks"),
    ):
        load_examples(context)


def test_a_random_reward_depends_on_the_trajectory_and_the_seed_only(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config()) as context:
        version = context.router.registry.served("adder").incumbent

        def reward(name: str, rate: float) -> Reward:
            return _trial_spec(context, version, name, "random", seed=3, rate=rate).rollouts.reward

        first, again, never = reward("x", 0.5), reward("y", 0.5), reward("z", 0.0)
        tasks = context.next_tasks(40)
        trajectories = context.runtime.rollout([(version, task, 0) for task in tasks], context.purpose("try"))
        evaluations = [
            context.kit.verifier.verify(task, each) for task, each in zip(tasks, trajectories, strict=True)
        ]
    pairs = list(zip(trajectories, evaluations, strict=True))
    rewards = [first(*pair) for pair in pairs]
    assert rewards == [again(*pair) for pair in pairs]
    assert {never(*pair) for pair in pairs} == {0.0}
    # 40 fair coins: fewer than 5 or more than 35 heads with probability below 1e-6.
    assert 5 <= sum(value or 0.0 for value in rewards) <= 35
