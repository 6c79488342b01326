from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from upturn.pool import Pool, Selection
from upturn.pool.ingestion import IngestOptions, ingest
from upturn.pool.statistics import AgentStatistics, FamilyStatistics, statistics
from upturn.records import Evaluation, EvaluationVerdict, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]

DATA = Path(__file__).parents[1] / "data" / "pool"
RECORDED = Path(__file__).parents[3] / "shared" / "data" / "tau_bench_gpt4o_airline.json"


def add_group(pool: Pool, make_point: MakePoint, task: str, verdicts: str, agent: str = "nano@1") -> None:
    """Stores one trajectory per letter: s success, f failure, m missing."""
    names: dict[str, EvaluationVerdict] = {"s": "success", "f": "failure", "m": "missing"}
    scores = {"s": 1.0, "f": 0.0, "m": None}
    for number, letter in enumerate(verdicts):
        point = make_point(
            f"{task}-{agent}-{number}", task=task, agent=agent, verdict=names[letter], score=scores[letter]
        )
        pool.append(*point)


def test_small_tau_bench_file_by_hand(pool: Pool) -> None:
    ingest(pool, DATA / "tau_bench_small.json", IngestOptions("tau-bench"))
    figures = statistics(pool, tenant="default")
    # Renewal: 4 turns with tools, 1 without, 4 with; reservation: 3, 3 with tools, 0 (broken).
    assert (figures.trajectories, figures.tasks, figures.groups, figures.turns, figures.with_tools) == (
        6,
        2,
        2,
        15,
        4,
    )
    assert (figures.successes, figures.failures, figures.missing) == (4, 2, 0)
    # Both groups: 2 successes of 3; C(2,1)/C(3,1) = 2/3, C(2,2)/C(3,2) = 1/3, 0.
    assert [entry.value for entry in figures.pass_k] == pytest.approx([2 / 3, 1 / 3, 0.0])
    assert figures.histograms == {3: {0: 0, 1: 0, 2: 2, 3: 0}}
    assert (figures.comparable_groups, figures.zero_variance_groups) == (2, 0)
    assert figures.success_turns == pytest.approx((4 + 4 + 3 + 3) / 4)
    assert figures.failure_turns == pytest.approx((1 + 0) / 2)
    assert figures.tool_adoption == pytest.approx(4 / 6)
    assert figures.families == (FamilyStatistics("library", 6, 4, 0),)
    assert [(agent.trajectories, agent.successes, agent.missing) for agent in figures.agents] == [(6, 4, 0)]
    assert list(figures.outcomes.items()) == [("finished", 5), ("model_error", 1)]


def test_work_and_success_are_counted_by_agent_version(pool: Pool, make_point: MakePoint) -> None:
    add_group(pool, make_point, "t1", "ssfm", "nano@2")
    add_group(pool, make_point, "t1", "fs", "nano@1")
    add_group(pool, make_point, "t2", "m", "rules@1")
    assert statistics(pool, tenant="default").agents == (
        AgentStatistics("nano@1", 2, 1, 0),
        AgentStatistics("nano@2", 4, 2, 1),
        AgentStatistics("rules@1", 1, 0, 1),
    )


def test_recorded_airline_trajectories_give_the_published_figures(pool: Pool) -> None:
    if not RECORDED.is_file():
        pytest.skip(f"the recorded trajectories are not at {RECORDED}")
    report = ingest(pool, RECORDED, IngestOptions("tau-bench", agent="gpt-4o"))
    assert (report.added, report.quarantined) == (200, ())
    figures = statistics(pool, tenant="default")
    assert (figures.trajectories, figures.tasks, figures.turns, figures.with_tools) == (200, 50, 2454, 182)
    assert [round(entry.value, 3) for entry in figures.pass_k] == [0.420, 0.273, 0.220, 0.200]
    assert figures.histograms == {4: {0: 14, 1: 12, 2: 10, 3: 4, 4: 10}}
    assert (figures.zero_variance_groups, figures.comparable_groups, figures.missing) == (24, 50, 0)
    assert figures.success_turns is not None
    assert figures.failure_turns is not None
    assert (round(figures.success_turns, 2), round(figures.failure_turns, 2)) == (9.87, 14.01)
    assert [entry.family for entry in figures.families] == ["airline"]


def test_pass_k_is_the_share_of_draws_that_all_succeed(pool: Pool, make_point: MakePoint) -> None:
    groups = {"a": "sffss", "b": "fffff", "c": "sssss", "d": "sf"}
    for task, verdicts in groups.items():
        add_group(pool, make_point, task, verdicts)
    figures = statistics(pool, tenant="default")
    assert [(entry.k, entry.groups) for entry in figures.pass_k] == [(1, 4), (2, 4), (3, 3), (4, 3), (5, 3)]
    for entry in figures.pass_k:
        large_enough = [verdicts for verdicts in groups.values() if len(verdicts) >= entry.k]
        draws = [list(combinations(verdicts, entry.k)) for verdicts in large_enough]
        shares = [sum(set(draw) == {"s"} for draw in group) / len(group) for group in draws]
        assert entry.value == pytest.approx(sum(shares) / len(shares))


def test_missing_evaluation_is_neither_success_nor_failure(pool: Pool, make_point: MakePoint) -> None:
    add_group(pool, make_point, "a", "sm")
    add_group(pool, make_point, "b", "mm")
    add_group(pool, make_point, "c", "ssm")
    figures = statistics(pool, tenant="default")
    assert (figures.successes, figures.failures, figures.missing) == (3, 0, 4)
    assert figures.pass_k[0].value == pytest.approx((1 / 2 + 0 + 2 / 3) / 3)
    assert figures.failure_turns is None
    # Only c has two scores, and they are the same.
    assert (figures.comparable_groups, figures.zero_variance_groups, figures.zero_variance_share) == (1, 1, 1.0)


def test_trajectories_without_evaluation_are_missing_and_give_no_rate(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, _ = make_point("a")
    pool.append(task, trajectory)
    figures = statistics(pool, tenant="default")
    assert (figures.trajectories, figures.missing, figures.pass_k) == (1, 1, ())
    assert {result.name for result in figures.results()}.isdisjoint({"pass^1", "turns_on_success"})


def test_versions_of_an_agent_are_separate_groups(pool: Pool, make_point: MakePoint) -> None:
    add_group(pool, make_point, "a", "ff", agent="nano@1")
    add_group(pool, make_point, "a", "ss", agent="nano@2")
    figures = statistics(pool, tenant="default")
    assert (figures.tasks, figures.groups, figures.zero_variance_groups) == (1, 2, 2)
    assert figures.histograms == {2: {0: 1, 1: 0, 2: 1}}
    second = statistics(pool, tenant="default", selection=Selection(agent_versions=("nano@2",)))
    assert (second.trajectories, second.pass_k[1].value) == (2, 1.0)


def test_equal_fractional_scores_have_no_variance(pool: Pool, make_point: MakePoint) -> None:
    for number in range(2):
        task, trajectory, evaluation = make_point(str(number), task="a", verdict="failure", score=0.5)
        pool.append(task, trajectory, evaluation)
    assert statistics(pool, tenant="default").zero_variance_groups == 1
    task, trajectory, evaluation = make_point("2", task="a")
    other = replace(evaluation, score=0.75, verdict="failure")
    pool.append(trajectory, other)
    assert statistics(pool, tenant="default").zero_variance_groups == 0


def test_empty_pool_has_figures_without_rates(pool: Pool) -> None:
    figures = statistics(pool, tenant="default")
    assert (figures.trajectories, figures.turns, figures.pass_k, figures.tool_adoption) == (0, 0, (), None)
    assert all(result.value == 0 for result in figures.results())
