"""Curricula: hand-computed schedules, and invariants of all of them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.config import CurriculumSettings, GateSettings, LevelSettings
from upturn.errors import ConfigError, TrainingError
from upturn.records import Observation, Task, Trajectory
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.data.curriculum import Curriculum

POOLS = {"d": 3, "a": 1, "c": 2, "b": 1}
"""Four families of three levels, not in order."""
GATE = GateSettings(0.1, 0.9, 0.1)


def small(**changes: Any) -> CurriculumSettings:
    return CurriculumSettings(**{"window": 3, "min_trajectories": 2, **changes})


def _scored(name: str, succeeded: bool | None) -> ScoredTrajectory:
    trajectory = Trajectory(name, name, "v", (), Observation(""), "finished", "sampled")
    return ScoredTrajectory(trajectory, None if succeeded is None else (), succeeded=succeeded)


def _groups(outcomes: Mapping[str, tuple[int, int]]) -> list[ScoredGroup]:
    """One group per pool; outcomes are (successes, trajectories)."""
    return [
        ScoredGroup(Task(pool, "", pool, ""), tuple(_scored(f"{pool}{at}", at < successes) for at in range(count)))
        for pool, (successes, count) in outcomes.items()
    ]


def family(group: ScoredGroup) -> str:
    return group.task.family


def run_iteration(curriculum: Curriculum, iteration: int, **outcomes: tuple[int, int]) -> None:
    curriculum.start(iteration)
    curriculum.observe(_groups(outcomes), family)


def shares(curriculum: Curriculum, iteration: int) -> object:
    """The shares of the iteration, to compare with hand-computed numbers."""
    curriculum.start(iteration)
    approximate: object = pytest.approx(dict(curriculum.shares), abs=1e-12)
    return approximate


def test_most_tasks_are_of_the_first_level_and_a_fifth_of_the_next() -> None:
    curriculum = Curriculum(POOLS, small(), seed=0)
    assert shares(curriculum, 0) == {"a": 0.4, "b": 0.4, "c": 0.2, "d": 0.0}
    assert {portion.pool: portion.tasks for portion in curriculum.portions(20)} == {"a": 8, "b": 8, "c": 4}


def test_a_level_advances_at_seventy_percent_and_keeps_a_share() -> None:
    """Level 1 is at (1 + .5)/2. Of .15 for it, a has 4 parts and b 5: max(.4, 1 − 1) to max(.4, 1 − .5)."""
    curriculum = Curriculum(POOLS, small(), seed=0)
    run_iteration(curriculum, 0, a=(2, 2), b=(1, 2), c=(0, 2))
    assert shares(curriculum, 1) == {"a": 0.15 * 4 / 9, "b": 0.15 * 5 / 9, "c": 0.85 * 0.8, "d": 0.85 * 0.2}
    assert (curriculum.level, curriculum.is_final) == (2, False)


@pytest.mark.parametrize("outcomes", [{"a": (2, 2), "b": (3, 8)}, {"a": (2, 2), "b": (1, 1)}, {}])
def test_a_level_below_seventy_percent_or_unknown_does_not_advance(outcomes: Mapping[str, tuple[int, int]]) -> None:
    """(1 + .375)/2 is .6875; one trajectory is too few for an estimate."""
    curriculum = Curriculum(POOLS, small(), seed=0)
    run_iteration(curriculum, 0, **outcomes)
    curriculum.start(1)
    assert curriculum.level == 1


def test_at_most_one_level_advances_per_iteration_then_the_final_mix() -> None:
    """10, 15 and 25 parts of the usual mix for three levels; in level 1 both pools fail nothing."""
    curriculum = Curriculum(POOLS, small(), seed=0)
    run_iteration(curriculum, 0, a=(4, 4), b=(4, 4), c=(4, 4), d=(4, 4))
    states = []
    for iteration in (1, 2, 3):
        curriculum.start(iteration)
        states.append((curriculum.level, curriculum.is_final))
    assert states == [(2, False), (3, False), (3, True)]
    assert curriculum.shares == pytest.approx({"a": 0.1, "b": 0.1, "c": 0.3, "d": 0.5})


def test_the_highest_level_has_the_rest_of_the_easier_share() -> None:
    curriculum = Curriculum({"a": 1, "d": 3}, small(), seed=0)
    run_iteration(curriculum, 0, a=(2, 2))
    assert shares(curriculum, 1) == {"a": 0.15, "d": 0.85}


def test_a_level_that_dropped_is_sampled_again_and_its_drop_reported() -> None:
    """Best 1, then 2 of 6: .667 below its best, a is sampled in addition to c, by the failure rates of both (2/3
    and 1)."""
    curriculum = Curriculum({"a": 1, "c": 2, "d": 3}, small(), seed=0)
    run_iteration(curriculum, 0, a=(2, 2))
    run_iteration(curriculum, 1, a=(0, 4), c=(0, 4))
    metrics = curriculum.metrics()
    assert metrics["best_level_1"] == 1.0
    assert metrics["success_level_1"] == pytest.approx(1 / 3)
    assert metrics["drop_level_1"] == pytest.approx(2 / 3)
    assert shares(curriculum, 2) == {"a": 0.15 + 0.68 * 2 / 5, "c": 0.68 * 3 / 5, "d": 0.17}
    run_iteration(curriculum, 2, a=(12, 12))  # 14 of 18: .222 below the best
    run_iteration(curriculum, 3, a=(12, 12))  # 24 of 28: iteration 0 is forgotten, .143 below
    assert shares(curriculum, 4) == {"a": 0.15, "c": 0.68, "d": 0.17}


def test_failure_weighted_shares_follow_failures_with_a_floor() -> None:
    """At first the shares follow the weights of an evaluation, then the outcomes."""
    weights = {"a": 0.4, "b": 1.0, "c": 0.5, "d": 0.7}
    curriculum = Curriculum(POOLS, small(policy="failure_weighted"), seed=0, weights=weights)
    assert shares(curriculum, 0) == {pool: weight / 2.6 for pool, weight in weights.items()}
    run_iteration(curriculum, 0, a=(1, 4), b=(4, 4))
    expected = {**weights, "a": 0.75, "b": 0.4}
    assert shares(curriculum, 1) == {pool: weight / 2.35 for pool, weight in expected.items()}


def test_uniform_shares_ignore_outcomes() -> None:
    curriculum = Curriculum(POOLS, small(policy="uniform"), seed=0)
    run_iteration(curriculum, 0, a=(4, 4), b=(0, 4))
    assert shares(curriculum, 1) == dict.fromkeys(POOLS, 0.25)


def test_closed_pools_are_probed_and_open_ones_get_the_rest() -> None:
    """a always succeeds and c never: together they keep .1, in the proportion of their weights .4 and 1."""
    curriculum = Curriculum({"a": 1, "b": 1, "c": 1}, small(policy="failure_weighted", gate=GATE), seed=0)
    run_iteration(curriculum, 0, a=(4, 4), b=(2, 4), c=(0, 4))
    assert shares(curriculum, 1) == {"a": 0.1 * 0.4 / 1.4, "b": 0.9, "c": 0.1 / 1.4}
    assert curriculum.metrics()["curriculum_closed"] == 2.0


def test_a_gate_admits_its_bounds_and_unknown_pools() -> None:
    curriculum = Curriculum({"a": 1, "b": 1, "c": 1}, small(policy="uniform", gate=GATE), seed=0)
    run_iteration(curriculum, 0, a=(1, 10), b=(9, 10))
    assert shares(curriculum, 1) == dict.fromkeys("abc", 1 / 3)


def test_a_closed_pool_opens_again_once_its_estimate_is_stale() -> None:
    curriculum = Curriculum({"a": 1, "b": 1}, small(policy="uniform", gate=GATE), seed=0)
    run_iteration(curriculum, 0, a=(4, 4), b=(2, 4))
    states = []
    for iteration in (1, 2, 3, 4):
        curriculum.start(iteration)
        states.append(curriculum.shares["a"])
    assert states == [pytest.approx(0.1)] * 3 + [0.5]


def test_a_gate_without_open_pools_changes_nothing() -> None:
    curriculum = Curriculum({"a": 1, "b": 1}, small(policy="uniform", gate=GATE), seed=0)
    run_iteration(curriculum, 0, a=(4, 4), b=(0, 4))
    assert shares(curriculum, 1) == {"a": 0.5, "b": 0.5}


def test_easier_levels_are_not_gated_and_a_failing_next_one_is_only_probed() -> None:
    """.17 planned for d becomes .1; a and c share the rest as .15 to .68."""
    curriculum = Curriculum({"a": 1, "c": 2, "d": 3}, small(gate=GATE), seed=0)
    run_iteration(curriculum, 0, a=(4, 4), c=(2, 4), d=(0, 4))
    assert shares(curriculum, 1) == {"a": 0.9 * 0.15 / 0.83, "c": 0.9 * 0.68 / 0.83, "d": 0.1}


def test_trajectories_without_an_evaluation_are_counted_and_ignored() -> None:
    curriculum = Curriculum({"a": 1, "b": 2}, small(), seed=0)
    curriculum.start(0)
    members = tuple(_scored(str(at), succeeded) for at, succeeded in enumerate((True, None, None)))
    curriculum.observe([ScoredGroup(Task("t", "", "a", ""), members)], family)
    assert curriculum.metrics()["curriculum_missing"] == 2.0
    assert "success_level_1" not in curriculum.metrics()


def test_rollouts_without_any_evaluation_are_refused() -> None:
    curriculum = Curriculum({"a": 1, "b": 2}, small(), seed=0)
    curriculum.start(0)
    scored = ScoredTrajectory(_scored("t", True).trajectory, ())
    with pytest.raises(TrainingError, match=r"none of them has ScoredTrajectory\.succeeded"):
        curriculum.observe([ScoredGroup(Task("t", "", "a", ""), (scored,))], family)


def test_a_task_of_an_unknown_pool_is_named() -> None:
    curriculum = Curriculum({"a": 1, "b": 2}, small(), seed=0)
    with pytest.raises(
        TrainingError, match=r"belongs to pool 'z', which the curriculum does not have; .* 'a', 'b'"
    ):
        run_iteration(curriculum, 0, z=(1, 1))


PLANS = st.builds(
    small,
    policy=st.just("levels"),
    gate=st.sampled_from([None, GATE, GateSettings(0.3, 0.6, 0.5)]),
    levels=st.builds(
        LevelSettings,
        ahead_share=st.floats(0, 0.9),
        easier_share=st.floats(0.1, 0.2),
        advance_at=st.floats(0.3, 1.0),
        max_drop=st.floats(0.01, 0.5),
    ),
)
OUTCOMES = st.lists(
    st.dictionaries(
        st.sampled_from(sorted(POOLS)),
        st.integers(0, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=150)
@given(PLANS, OUTCOMES, st.integers(1, 40), st.integers(0, 2**32))
def test_shares_add_up_levels_never_go_back_and_tasks_never_repeat(
    plan: CurriculumSettings, history: list[dict[str, tuple[int, int]]], count: int, seed: int
) -> None:
    curriculum, level, sampled = Curriculum(POOLS, plan, seed=seed), 1, dict.fromkeys(POOLS, 0)
    assert plan.levels is not None
    for iteration, outcomes in enumerate(history):
        curriculum.start(iteration)
        assert curriculum.level >= level
        level = curriculum.level
        pool_shares = curriculum.shares
        assert sum(pool_shares.values()) == pytest.approx(1.0, abs=1e-9)
        assert min(pool_shares.values()) >= 0
        easier = [pool for pool in POOLS if POOLS[pool] < level]
        easier_share = sum(pool_shares[pool] for pool in easier)
        assert not easier or easier_share >= plan.levels.easier_share - 1e-9
        portions = curriculum.portions(count)
        counts = dict.fromkeys(POOLS, 0) | {portion.pool: portion.tasks for portion in portions}
        assert sum(counts.values()) == count
        assert all(abs(counts[pool] - share * count) < 1 + 1e-6 for pool, share in pool_shares.items())
        assert sum(counts[pool] for pool in easier) > easier_share * count - 1 - 1e-6
        for portion in portions:
            assert portion.first == sampled[portion.pool]
            sampled[portion.pool] += portion.tasks
        curriculum.observe(_groups(outcomes), family)


@settings(deadline=None, max_examples=60)
@given(PLANS, OUTCOMES, st.integers(0, 2**32))
def test_tasks_are_a_function_of_seed_iteration_and_state(
    plan: CurriculumSettings, history: list[dict[str, tuple[int, int]]], seed: int
) -> None:
    """Also after restoring the state into a new object."""
    curriculum = Curriculum(POOLS, plan, seed=seed)
    for iteration, outcomes in enumerate(history):
        curriculum.start(iteration)
        curriculum.portions(7)
        curriculum.observe(_groups(outcomes), family)
    other = Curriculum(POOLS, plan, seed=seed)
    other.load_state({name: float(value) for name, value in curriculum.state().items()})
    assert other.state() == curriculum.state()
    for restored in (curriculum, other):
        restored.start(len(history))
    assert other.shares == curriculum.shares
    assert [other.portions(11, number) for number in range(3)] == [
        curriculum.portions(11, number) for number in range(3)
    ]
    assert other.state() == curriculum.state()


def test_over_many_iterations_every_pool_gets_its_share() -> None:
    """400 draws of mean 5·share, each off by less than 1 and so of deviation ≤ .5: the mean is within .125, five
    deviations, with probability above .999999 per pool."""
    curriculum = Curriculum(POOLS, small(), seed=3)
    total = dict.fromkeys(POOLS, 0)
    for iteration in range(400):
        curriculum.start(iteration)
        for portion in curriculum.portions(5):
            total[portion.pool] += portion.tasks
    for pool, share in {"a": 0.4, "b": 0.4, "c": 0.2, "d": 0.0}.items():
        assert total[pool] / 400 == pytest.approx(5 * share, abs=0.125)


HISTORY: tuple[Mapping[str, tuple[int, int]], ...] = (
    {"a": (9, 10), "b": (10, 10), "c": (1, 4)},
    {"a": (3, 10), "b": (10, 10), "c": (3, 4), "d": (0, 3)},
    {"a": (5, 10), "c": (4, 4), "d": (0, 3)},
    {"c": (4, 4), "d": (3, 3)},
    {"a": (9, 10), "b": (9, 10), "d": (9, 10)},
    {"d": (9, 10)},
)
"""A level is forgotten and recovered, and all are learned in the end."""


def _share_history(plan: CurriculumSettings) -> list[dict[str, float]]:
    curriculum, history = Curriculum(POOLS, plan, seed=0), []
    for iteration, outcomes in enumerate(HISTORY):
        run_iteration(curriculum, iteration, **outcomes)
        curriculum.start(iteration + 1)
        history.append(dict(curriculum.shares))
    return history


@pytest.mark.parametrize(
    "changed",
    [
        {"policy": "uniform", "levels": None},
        {"policy": "failure_weighted", "levels": None},
        {"failure_floor": 0.9},
        {"window": 1},
        {"min_trajectories": 5},
        {"gate": None},
        {"gate": GateSettings(0.4, 0.9, 0.1)},
        {"gate": GateSettings(0.1, 0.7, 0.1)},
        {"gate": GateSettings(0.1, 0.9, 0.05)},
        {"levels": LevelSettings(advance_at=0.9)},
        {"levels": LevelSettings(ahead_share=0.3)},
        {"levels": LevelSettings(easier_share=0.2)},
        {"levels": LevelSettings(max_drop=0.9)},
        {"levels": LevelSettings(final_mix={1: 0.3, 2: 0.3, 3: 0.4})},
    ],
    ids=str,
)
def test_every_setting_changes_the_sampled_tasks(changed: Mapping[str, Any]) -> None:
    base = {"gate": GATE, "levels": LevelSettings()}
    assert _share_history(small(**{**base, **changed})) != _share_history(small(**base))


def _settings(**changes: Any) -> Callable[[], object]:
    return lambda: CurriculumSettings(**changes)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            _settings(policy="uniform", failure_floor=0.2),
            "failure_floor=0.2 would do nothing with policy='uniform'",
        ),
        (_settings(policy="uniform", levels=LevelSettings()), "levels would do nothing with policy='uniform'"),
        (_settings(window=0), "window: input should be greater than or equal to 1, got 0"),
        (_settings(min_trajectories=0), "min_trajectories: input should be greater than or equal to 1, got 0"),
        (_settings(failure_floor=0.0), r"failure_floor: input should be greater than 0, got 0.0"),
        (lambda: GateSettings(0.0, 1.0), "a gate would do nothing with low=0 and high=1"),
        (lambda: GateSettings(0.6, 0.5), "low=0.6 must be less than high=0.5"),
        (lambda: GateSettings(probe_share=0.0), r"probe_share: input should be greater than 0, got 0.0"),
        (
            lambda: LevelSettings(easier_share=0.05),
            r"easier_share: input should be greater than or equal to 0.1, got 0.05",
        ),
        (
            lambda: LevelSettings(easier_share=0.3),
            r"easier_share: input should be less than or equal to 0.2, got 0.3",
        ),
        (lambda: LevelSettings(final_mix={1: 0.5, 2: 0.4}), "positive shares that add up to 1"),
        (lambda: LevelSettings(final_mix={1: 1.5, 2: -0.5}), r"final_mix\[2\]: input should be greater than 0"),
    ],
)
def test_unused_settings_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("pools", "plan", "weights", "sentence"),
    [
        ({"a": 1}, small(), None, "at least two pools"),
        ({"a": 2, "b": 2}, small(), None, "policy='levels' does nothing with one level only, 2"),
        (
            {"a": 1, "b": 9},
            small(),
            None,
            r"no usual final mix for levels \[1, 9\], .*; give each a share in levels.final_mix",
        ),
        ({"a": 1, "b": 1}, small(policy="uniform"), {"a": 2.0}, "would do nothing with policy='uniform'"),
        ({"a": 1, "b": 1}, small(policy="failure_weighted"), {"z": 1.0}, "of existing pools"),
        ({"a": 1, "b": 1}, small(policy="failure_weighted"), {"a": 0.0}, "weights must be positive"),
        (
            {"a": 1, "b": 2},
            small(levels=LevelSettings(final_mix={1: 0.05, 2: 0.95})),
            None,
            "leaves 0.05 to levels below the highest, less than levels.easier_share=0.15",
        ),
        (
            {"a": 1, "b": 2},
            small(levels=LevelSettings(final_mix={1: 0.5, 3: 0.5})),
            None,
            r"final_mix is of levels \[1, 3\], the pools have \[1, 2\]",
        ),
    ],
)
def test_settings_that_do_not_fit_the_pools_are_refused(
    pools: Mapping[str, int], plan: CurriculumSettings, weights: Mapping[str, float] | None, sentence: str
) -> None:
    with pytest.raises(TrainingError, match=sentence):
        Curriculum(pools, plan, seed=0, weights=weights)
