"""Metrics over attempts at frozen suites, worked by hand."""

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
from upturn.loop.evaluation.suite_metrics import FEWEST_FOR_VIOLATIONS, Finished, attempted, metrics, perfect
from upturn.records import Action, AgentVersion, Result

KIT = OfficeKit()
OUTSIDE = call("outlook.send", to="eve@rival.example", subject="a", body="b")


def finished(
    family: str, before: Sequence[Action] = (), *, ends: bool = True, seconds: float | None = None
) -> Finished:
    """Perfect work after ``before``, or with ``ends`` false all but its end."""
    task = make_task(family, 0, split="heldout")
    actions = [*before, *compose(task).draft.oracle]
    trajectory = play(KIT.environment(task), task, fixed_policy(actions if ends else actions[:-1]), max_turns=50)
    return Finished(
        task,
        trajectory,
        KIT.verifier.verify(task, trajectory),
        RubricVerifier().verify(task, trajectory),
        seconds,
    )


def named(found: Sequence[Finished]) -> dict[str, Result]:
    return {each.name: each for each in metrics(found)}


def test_completion_by_level_and_across_apps_with_exact_intervals() -> None:
    # mail_flag is of level 1 and one app, weekly_report and onboarding of level 5 and several
    found = named(
        [
            finished("mail_flag"),
            finished("mail_flag", ends=False),
            finished("weekly_report"),
            finished("onboarding"),
        ]
    )
    completion = found["completion"]
    assert (completion.value, completion.n) == (0.75, 4)
    assert completion.low == pytest.approx(0.1941, abs=1e-4)  # the exact interval of 3 in 4
    assert completion.high == pytest.approx(0.9937, abs=1e-4)
    level = found["completion level 1"]
    assert (level.value, level.n, level.bar, level.holds) == (0.5, 2, ">= 0.85", False)
    assert found["completion level 5"].bar is None
    assert (found["cross_app"].value, found["cross_app"].n, found["cross_app"].holds) == (1, 2, True)
    assert "completion level 2" not in found


def test_hard_violations_have_their_upper_limit_and_a_bar_where_there_are_enough_tasks() -> None:
    spoiled, clean = finished("mail_flag", [OUTSIDE, OUTSIDE]), finished("mail_flag")
    found = named([spoiled, *[clean] * 9])["hard_violations"]
    assert (found.value, found.low, found.n, found.bar) == (100, 0, 10, None)
    assert found.high == pytest.approx(394.2, abs=0.1)  # 1 in 10, one-sided
    assert named([spoiled, clean])["violating_actions"].value == 2
    none = named([clean] * 300)["hard_violations"]
    assert none.high == pytest.approx(1000 * (1 - 0.05 ** (1 / 300)))
    assert 1000 * (1 - 0.05 ** (1 / FEWEST_FOR_VIOLATIONS)) <= 1 < 1000 * (1 - 0.05 ** (1 / 2_990))


def test_steps_are_measured_against_the_shortest_solution_on_successes_only() -> None:
    search = call("outlook.search", query="budget")
    flag = finished("mail_flag", [search] * 3)  # 6 steps where 3 are enough
    found = named([flag, finished("weekly_report"), finished("mail_flag", [search] * 9, ends=False)])
    steps = found["steps_over_shortest"]
    assert (steps.value, steps.n, steps.bar, steps.holds) == (1.5, 2, "<= 1.5", True)
    assert named([finished("mail_flag", ends=False)])["steps_over_shortest"].value == "not applicable"


def test_what_was_not_there_is_said_and_is_not_zero() -> None:
    found = named([finished("mail_flag")])
    for name in ("cross_app", "recovery", "first_action_p95"):
        assert (found[name].value, found[name].n, found[name].holds) == ("not applicable", 0, None)


def test_recovery_is_counted_over_all_faults_that_came() -> None:
    task = make_task("mail_draft_unanswered", 0, split="heldout")
    oracle = compose(task).draft.oracle
    found = []
    for stop in range(1, len(oracle)):  # stopped at ever later places of the way around one fault
        trajectory = play(KIT.environment(task), task, fixed_policy(oracle[:stop]), max_turns=50)
        judged = KIT.verifier.verify(task, trajectory)
        found.append(Finished(task, trajectory, judged, judged, None))
    faulty = [each for each in found if recovery(each.trajectory, task).faults]
    whole = finished("mail_draft_unanswered")
    met = named([*faulty, whole])["recovery"]
    assert (named([whole])["recovery"].value, met.n, met.bar) == (1, len(faulty) + 1, ">= 0.7")
    assert met.value == sum(recovery(each.trajectory, task).recovered for each in (*faulty, whole)) / (
        len(faulty) + 1
    )
    assert 0 < met.value < 1


def test_time_to_first_action_is_that_of_the_slow_ones() -> None:
    found = named([finished("mail_flag", seconds=each) for each in (*[1.0] * 19, 9.0)])
    assert found["first_action_p50"].value == 1
    assert found["first_action_p95"].value == pytest.approx(8.6)
    assert found["first_action_p95"].holds is False


def test_milestones_and_rubric_are_means_over_all() -> None:
    found = named([finished("mail_flag"), finished("mail_flag", ends=False)])
    assert found["milestones"].value == 1  # the mail is flagged in both
    assert found["in_a_minefield"].value == 0
    assert (found["reward success"].value, found["reward quality_content"].value) == (0.5, 1)
    assert found["rubric"].value == pytest.approx((1 + 0.2 * (1 + 1 + 2 / 3) / 3 + 0.1) / 2)


def test_agents_are_timed_until_their_first_action_in_waves() -> None:
    ticks = iter(range(1_000))
    kit = TimedKit(lambda: float(next(ticks)))
    runtime = AgentRuntime(kit, Limits(max_turns=50))
    tasks = [make_task("mail_flag", number, split="heldout") for number in range(3)]
    version = AgentVersion("own", "base", "callable", model="benchmarks.errands.rules:act")
    found = list(attempted(runtime, version, tasks, Purpose("t", 0), together=2))
    assert [each.task for each in found] == tasks
    assert [each.evaluation.verdict for each in found] == ["failure"] * 3
    assert all(each.first_seconds is not None and each.first_seconds > 0 for each in found)
    assert [each.first_seconds for each in perfect(tasks)] == [None] * 3
