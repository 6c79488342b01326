"""Metrics over results of frozen suites, worked by hand."""

from collections.abc import Sequence

import pytest

from upturn.config import Limits
from upturn.environments.office import OfficeKit
from upturn.environments.office.generation.family import call
from upturn.environments.office.recovery import recovery
from upturn.environments.office.rubric import RubricVerifier
from upturn.environments.office.tasks import compose, make_task
from upturn.environments.office.timing import TimedKit
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.evaluation.suite_metrics import (
    MIN_TASKS_FOR_VIOLATIONS,
    SuiteResult,
    metrics,
    run_oracle,
    run_tasks,
)
from upturn.records import Action, AgentVersion, Result

KIT = OfficeKit()
OUTSIDE = call("outlook.send", to="eve@rival.example", subject="a", body="b")


def result_of(
    family: str, before: Sequence[Action] = (), *, number: int = 0, ends: bool = True, seconds: float | None = None
) -> SuiteResult:
    """The oracle's actions after ``before``; without the last one if ``ends`` is False."""
    task = make_task(family, number, split="heldout")
    actions = [*before, *compose(task).draft.oracle]
    trajectory = play(KIT.environment(task), task, fixed_policy(actions if ends else actions[:-1]), max_turns=50)
    return SuiteResult(
        task,
        trajectory,
        KIT.verifier.verify(task, trajectory),
        RubricVerifier().verify(task, trajectory),
        seconds,
    )


def metrics_by_name(results: Sequence[SuiteResult]) -> dict[str, Result]:
    return {metric.name: metric for metric in metrics(results)}


def test_completion_by_level_and_across_apps_with_exact_intervals() -> None:
    # mail_flag is of level 1 and one app, weekly_report and onboarding of level 5 and several
    figures = metrics_by_name(
        [
            result_of("mail_flag"),
            result_of("mail_flag", ends=False),
            result_of("weekly_report"),
            result_of("onboarding"),
        ]
    )
    completion = figures["completion"]
    assert (completion.value, completion.n) == (0.75, 4)
    assert completion.low == pytest.approx(0.1941, abs=1e-4)  # the exact interval of 3 in 4
    assert completion.high == pytest.approx(0.9937, abs=1e-4)
    level = figures["completion level 1"]
    assert (level.value, level.n, level.bar, level.holds) == (0.5, 2, ">= 0.85", False)
    assert figures["completion level 5"].bar is None
    assert (figures["cross_app"].value, figures["cross_app"].n, figures["cross_app"].holds) == (1, 2, True)
    assert "completion level 2" not in figures


def test_hard_violations_have_an_upper_limit_and_with_enough_tasks_a_bar() -> None:
    spoiled, clean = result_of("mail_flag", [OUTSIDE, OUTSIDE]), result_of("mail_flag")
    figures = metrics_by_name([spoiled, *[clean] * 9])["hard_violations"]
    assert (figures.value, figures.low, figures.n, figures.bar) == (100, 0, 10, None)
    assert figures.high == pytest.approx(394.2, abs=0.1)  # 1 in 10, one-sided
    assert metrics_by_name([spoiled, clean])["violating_actions"].value == 2
    none = metrics_by_name([clean] * 300)["hard_violations"]
    assert none.high == pytest.approx(1000 * (1 - 0.05 ** (1 / 300)))
    assert 1000 * (1 - 0.05 ** (1 / MIN_TASKS_FOR_VIOLATIONS)) <= 1 < 1000 * (1 - 0.05 ** (1 / 2_990))


def test_steps_are_measured_against_the_shortest_solution_on_successes_only() -> None:
    search = call("outlook.search", query="budget")
    flag = result_of("mail_flag", [search] * 3)  # 6 steps, 3 are enough
    figures = metrics_by_name([flag, result_of("weekly_report"), result_of("mail_flag", [search] * 9, ends=False)])
    steps = figures["steps_over_shortest"]
    assert (steps.value, steps.n, steps.bar, steps.holds) == (1.5, 2, "<= 1.5", True)
    assert metrics_by_name([result_of("mail_flag", ends=False)])["steps_over_shortest"].value == "not applicable"


def test_a_metric_without_data_is_not_applicable_and_not_zero() -> None:
    figures = metrics_by_name([result_of("mail_flag")])
    for name in ("cross_app", "recovery", "first_action_p95"):
        assert (figures[name].value, figures[name].n, figures[name].holds) == ("not applicable", 0, None)


def test_recovery_is_counted_over_all_faults_that_occurred() -> None:
    task = make_task("mail_draft_unanswered", 1, split="heldout")  # its fault takes two actions to recover from
    oracle = compose(task).draft.oracle
    results = []
    for stop in range(1, len(oracle)):  # stopped at ever later actions of the recovery from one fault
        trajectory = play(KIT.environment(task), task, fixed_policy(oracle[:stop]), max_turns=50)
        evaluation = KIT.verifier.verify(task, trajectory)
        results.append(SuiteResult(task, trajectory, evaluation, evaluation, None))
    faulty = [result for result in results if recovery(result.trajectory, task).faults]
    whole = result_of("mail_draft_unanswered", number=1)
    met = metrics_by_name([*faulty, whole])["recovery"]
    assert (metrics_by_name([whole])["recovery"].value, met.n, met.bar) == (1, len(faulty) + 1, ">= 0.7")
    assert met.value == sum(recovery(result.trajectory, task).recovered for result in (*faulty, whole)) / (
        len(faulty) + 1
    )
    assert 0 < met.value < 1


def test_time_to_first_action_has_median_and_95th_percentile() -> None:
    figures = metrics_by_name([result_of("mail_flag", seconds=seconds) for seconds in (*[1.0] * 19, 9.0)])
    assert figures["first_action_p50"].value == 1
    assert figures["first_action_p95"].value == pytest.approx(8.6)
    assert figures["first_action_p95"].holds is False


def test_milestones_and_rubric_are_means_over_all() -> None:
    figures = metrics_by_name([result_of("mail_flag"), result_of("mail_flag", ends=False)])
    assert figures["milestones"].value == 1  # the mail is flagged in both
    assert figures["in_a_minefield"].value == 0
    assert (figures["reward success"].value, figures["reward quality_content"].value) == (0.5, 1)
    assert figures["rubric"].value == pytest.approx((1 + 0.2 * (1 + 1 + 2 / 3) / 3 + 0.1) / 2)


def test_agents_are_timed_until_their_first_action_in_batches() -> None:
    ticks = iter(range(1_000))
    kit = TimedKit(lambda: float(next(ticks)))
    runtime = AgentRuntime(kit, Limits(max_turns=50))
    tasks = [make_task("mail_flag", number, split="heldout") for number in range(3)]
    version = AgentVersion("own", "base", "callable", model="benchmarks.errands.rules:act")
    results = list(run_tasks(runtime, version, tasks, Purpose("t", 0), batch_size=2))
    assert [result.task for result in results] == tasks
    assert [result.evaluation.verdict for result in results] == ["failure"] * 3
    assert all(result.first_seconds is not None and result.first_seconds > 0 for result in results)
    assert [result.first_seconds for result in run_oracle(tasks)] == [None] * 3
