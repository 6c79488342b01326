"""Reinforcement from a handful of tasks: which trials there are, and what they are said to show."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, LoopConfig
from upturn.deployment.interval import Interval
from upturn.errors import ConfigError, ModelError
from upturn.loop.evaluation.evaluate import HeldoutResult, Mark, evaluate_heldout
from upturn.loop.run.context import Context
from upturn.loop.trainers.rft import (
    FIXED_RATE,
    Chance,
    RewardKind,
    Shown,
    Trial,
    _course,
    _practice,
    _trials,
    chance,
    examples,
    over_seeds,
    points,
    rounds_of,
    shown,
    study,
)
from upturn.loop.trainers.train_command import run_training
from upturn.records import AgentVersion, fields_json
from upturn.training.algorithms.grpo import GrpoSettings

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)


def _exam(name: str, outcomes: Sequence[int]) -> HeldoutResult:
    marks = tuple(
        Mark(f"task-{at}", "sums", 1, f"{name}/{at}", bool(outcome), False, {}, 1, 1, {})
        for at, outcome in enumerate(outcomes)
    )
    return HeldoutResult(name, name, 1.0, marks)


def _trial(reward: RewardKind, seed: int, outcomes: Sequence[int]) -> Trial:
    version = AgentVersion("nano", f"{reward}-{seed}", "local_model", model=MODEL)
    return Trial("nano@base", reward, seed, version, _exam(f"{reward}-{seed}", outcomes))


def _interval(low: float) -> Interval:
    return Interval(low + 0.1, low, low + 0.2, 12)


def test_the_interval_over_seeds_and_tasks_is_what_a_slow_bootstrap_gives() -> None:
    """Drawn with another generator: 4,000 resamples put each end within 0.02, 4 standard errors of a quantile."""
    rng = np.random.default_rng(3)
    differences = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.3, 0.5], size=(4, 25)) + rng.normal(0, 0.2, (4, 1))
    found = over_seeds(differences)
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
    assert over_seeds(differences) == found


def test_seeds_that_differ_widen_the_interval() -> None:
    """The same tasks' differences: equal in all seeds, or all in one seed."""
    equal = np.full((4, 30), 0.25)
    uneven = np.zeros((4, 30))
    uneven[0] = 1.0
    assert over_seeds(equal) == Interval(0.25, 0.25, 0.25, 120)
    found = over_seeds(uneven)
    assert (found.mean, found.low) == (0.25, 0.0)
    assert found.high >= 0.5


def test_a_gain_that_random_rewards_have_too_does_not_survive() -> None:
    before = _exam("before", [0] * 40)
    everything, nothing = [1] * 40, [0] * 40
    trials = [_trial("true", seed, everything) for seed in (0, 1)]
    trials += [_trial("random", seed, everything) for seed in (0, 1)]
    trials += [_trial("format", seed, nothing) for seed in (0, 1)]
    found = shown("nano@base", before, trials)
    assert (found.seeds, found.gain.mean) == (2, 1.0)
    assert {name: each.mean for name, each in found.over.items()} == {"random": 0.0, "format": 1.0}
    assert not found.survives
    assert found.words() == (
        "nano@base, 2 seeds: gain +100.0 points [+100.0, +100.0]; over random +0.0 points [+0.0, +0.0]; over "
        "format +100.0 points [+100.0, +100.0]. The gain does not survive: it is not shown to be more than with "
        "the random reward."
    )


@pytest.mark.parametrize(
    ("gain", "over", "verdict"),
    [
        (-0.01, {"random": 0.5}, "No gain is shown, so there is nothing that controls could take away."),
        (0.2, {}, "No control was run, so the gain is not shown to come from the reward."),
        (0.2, {"random": 0.1, "format": 0.1}, "The gain survives its controls."),
        (
            0.2,
            {"random": -0.1, "format": -0.1},
            "it is not shown to be more than with the random and format reward.",
        ),
    ],
)
def test_no_more_is_claimed_than_the_intervals_say(
    gain: float, over: dict[RewardKind, float], verdict: str
) -> None:
    found = Shown("nano@base", 1, _interval(gain), {name: _interval(low) for name, low in over.items()})
    assert found.words().startswith(f"nano@base, 1 seed: gain {points(_interval(gain))}")
    assert found.words().endswith(verdict)
    assert found.survives == (gain > 0 and all(low > 0 for low in over.values()))


def test_figures_are_named_after_base_and_control() -> None:
    found = Shown("nano@base", 3, _interval(0.2), {"random": _interval(0.1)})
    assert [(each.name, each.low, each.n) for each in found.results()] == [
        ("nano@base: gain", 0.2, 3),
        ("nano@base: over_random", 0.1, 3),
    ]


def _context_trials(context: Context) -> list[tuple[str, str, int]]:
    parent = AgentVersion("nano", "base", "local_model", model=MODEL)
    return [(base.id, reward, seed) for base, reward, seed in _trials(context, parent)]


def test_each_reward_is_repeated_from_each_seed(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "a", desk.config(run={"seed": 5}, rft={"seeds": 2})) as context:
        found = _context_trials(context)
    assert found == [
        ("nano@base", reward, seed) for reward in ("true", "random", "format") for seed in (5, 5 + 1009)
    ]
    with desk.opened(tmp_path / "b", desk.config(rft={"seeds": 1, "controls": []})) as context:
        assert _context_trials(context) == [("nano@base", "true", 0)]
    both = desk.config(rft={"seeds": 1, "controls": ["format", "format"], "second_base": "other"})
    with desk.opened(tmp_path / "c", both) as context:
        assert _context_trials(context) == [
            (base, reward, 0) for base in ("nano@base", "second-base@base") for reward in ("true", "format")
        ]


def test_every_base_is_examined_before_anything_is_trained(desk: ModuleType, tmp_path: Path) -> None:
    """So that one which is not there costs no training."""
    config = desk.config(("adder",), rft={"seeds": 1, "second_base": str(tmp_path / "gone")})
    with desk.opened(tmp_path / "run", config) as context:
        parent = context.router.registry.served("adder").incumbent
        with pytest.raises(ModelError, match="gone"):
            study(context, parent, evaluate_heldout(context, "heldout-before", parent))
        steps = [step.name for step in context.journal.progress().steps]
    assert steps == ["heldout-before", "heldout-before-second-base"]


def test_every_round_has_its_number_of_examples_and_none_comes_more_often_than_another(desk: ModuleType) -> None:
    """Ten tasks of two families, one of which has one task only; three a round."""
    tasks = [*islice(desk.kit().tasks(seed=1, split="train", families=["sums"]), 9)]
    tasks += islice(desk.kit().tasks(seed=1, split="train", families=["products"]), 1)
    rounds = [rounds_of(tasks, 3, 5, number) for number in range(300)]
    assert {len({task.id for task in each}) for each in rounds} == {3}
    for start in range(0, 300, 3):
        passed = [task.id for each in rounds[start : start + 3] for task in each]
        assert len(set(passed)) == 9
    counts = Counter(task.id for each in rounds for task in each)
    # Each pass leaves one of ten out: of 100 passes a task misses 10 +- 3; outside of 0..27 with p < 1e-6 each.
    assert len(counts) == 10 and all(73 <= count <= 100 for count in counts.values())
    assert rounds_of(tasks, 3, 5, 7) == rounds[7]
    assert rounds_of(tasks, 3, 6, 7) != rounds[7]
    assert {task.id for task in rounds_of(tasks, 10, 5, 4)} == {task.id for task in tasks}


def test_what_is_practised_is_the_examples(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config(rft={"examples": 5, "tasks_per_iteration": 4})) as context:
        parent = AgentVersion("nano", "base", "local_model", model=MODEL)
        course = _course(context, parent, "x", _practice(context, "x", "true", seed=3, rate=0.5))
        assert course.tasks is not None
        drawn = [task.id for number in range(6) for task in course.tasks(number)]
        assert (len(drawn), set(drawn)) == (24, {task.id for task in examples(context)})
        assert course.weights == {"sums": 1.0, "products": 1.0}


def test_more_examples_than_the_file_has_are_refused_before_anything_is_examined(
    desk: ModuleType, tmp_path: Path
) -> None:
    tasks = [
        task for split in ("train", "heldout") for task in islice(
            desk.kit().tasks(seed=9, split=split, families=["sums"]), 30)
    ]  # fmt: skip
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(fields_json, tasks)))
    plain = desk.config(tasks={"file": str(path)}, rft={"examples": 31})
    config = plain.with_sections(GrpoSettings(), loop=LoopConfig(), agents=(NANO,))
    with desk.opened(tmp_path / "run", config) as context:
        with pytest.raises(ConfigError, match=r"rft\.examples = 31 are more than the 30 training tasks that"):
            run_training(context, "rft")
        assert context.journal.progress().steps == ()


def test_more_tasks_a_round_than_examples_are_refused(desk: ModuleType) -> None:
    with pytest.raises(ConfigError, match="rft: tasks_per_iteration = 6 is more than examples = 5"):
        desk.config(rft={"examples": 5, "tasks_per_iteration": 6})


@pytest.mark.parametrize(
    ("agent", "measured", "rate"), [("adder", 2 / 3, 2 / 3), ("solver", 1.0, 0.5), ("refuser", 0.0, 0.5)]
)
def test_chance_is_measured_on_the_examples_and_fixed_where_it_would_train_nothing(
    desk: ModuleType, tmp_path: Path, agent: str, measured: float, rate: float
) -> None:
    """The adder solves the sums, which are two of the three examples."""
    with desk.opened(
        tmp_path, desk.config((agent,), rft={"examples": 3, "tasks_per_iteration": 3, "group_size": 3})
    ) as context:
        found = chance(context, context.router.registry.served(agent).incumbent)
        assert list(context.pool.selected(tenant="default")) == []
    assert (found.measured, found.rate) == (measured, rate)


def test_what_nobody_could_judge_is_no_rate(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(("solver",), environment={"name": "toy_desk:unjudged_kit"}, rft={"examples": 10})
    with desk.opened(tmp_path, config) as context:
        found = chance(context, context.router.registry.served("solver").incumbent)
    assert (found.measured, found.rate) == (None, FIXED_RATE)


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (0.37, "nano@base: the random reward pays at 37 %, the acceptance rate on the examples before training."),
        (
            0.0,
            "pays at 50 %, a fixed rate: none of the attempts at the examples succeeded before training, and a rew",
        ),
        (
            1.0,
            "pays at 50 %, a fixed rate: all of the attempts at the examples succeeded before training, and a rew",
        ),
        (None, "pays at 50 %, a fixed rate: no attempt at the examples could be judged before training."),
    ],
)
def test_the_card_says_at_which_rate_a_random_reward_paid_and_why(measured: float | None, words: str) -> None:
    assert words in Chance("nano@base", measured).words()


def test_examples_are_full_rounds_of_training_tasks_that_every_trial_shares(
    desk: ModuleType, tmp_path: Path
) -> None:
    with desk.opened(tmp_path, desk.config(rft={"examples": 5, "tasks_per_iteration": 5})) as context:
        found = examples(context)
        again = examples(context)
    assert found == again
    assert [task.family for task in found] == ["sums", "products"] * 2 + ["sums"]
    assert {task.split for task in found} == {"train"}


def test_more_examples_than_there_are_tasks_are_refused(desk: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    lines = [f'{{"id": "p{at}", "instruction": "add {at} 2", "family": "sums"}}' for at in range(3)]
    lines.append('{"id": "h", "instruction": "add 1 2", "family": "sums", "split": "heldout"}')
    file.write_text("\n".join(lines) + "\n")
    config = desk.config(tasks={"file": str(file)}, rft={"examples": 4, "tasks_per_iteration": 4})
    with (
        desk.opened(tmp_path / "run", config) as context,
        pytest.raises(ConfigError, match=r"rft\.examples = 4 are more than the 3 training tasks"),
    ):
        examples(context)


def test_a_random_reward_depends_on_the_attempt_and_the_seed_only(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config()) as context:
        first = _practice(context, "x", "random", seed=3, rate=0.5)
        again = _practice(context, "y", "random", seed=3, rate=0.5)
        never = _practice(context, "z", "random", seed=3, rate=0.0)
        version = context.router.registry.served("adder").incumbent
        tasks = context.next_tasks(40)
        made = context.runtime.rollout([(version, task, 0) for task in tasks], context.purpose("try"))
        judged = [context.kit.verifier.verify(task, each) for task, each in zip(tasks, made, strict=True)]
    pairs = list(zip(made, judged, strict=True))
    earned = [first.earned(*pair) for pair in pairs]
    assert earned == [again.earned(*pair) for pair in pairs]
    assert {never.earned(*pair) for pair in pairs} == {0.0}
    # 40 fair coins: fewer than 5 or more than 35 heads with probability below 1e-6.
    assert 5 <= sum(value or 0.0 for value in earned) <= 35
