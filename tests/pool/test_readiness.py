from collections.abc import Callable
from dataclasses import replace

from upturn.config import ReadinessConfig
from upturn.pool import Pool, Selection
from upturn.pool.quality import check, readiness, survey
from upturn.records import Alternative, Decision, Evaluation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]

SMALL = ReadinessConfig(decisions=1, points=4, clean_share=0.8, categories=2)


def fill(pool: Pool, make_point: MakePoint, tenant: str = "default") -> None:
    """Stores five points of two families, of which four are clean, and one decision."""
    points = [make_point(f"{tenant}{number}", family="ab"[number % 2], tenant=tenant) for number in range(5)]
    task, trajectory, evaluation = points[4]
    points[4] = (task, replace(trajectory, rows=()), evaluation)
    choice = (Alternative("nano@1", 1.0, None),)
    decision = Decision(
        f"d{tenant}", points[0][0].id, "a", tenant, "thompson", "hash", choice, "nano", "nano@1", 1.0, "only one"
    )
    pool.append(*(record for point in points for record in point), decision)


def test_pool_that_meets_every_threshold_exactly_is_ready(pool: Pool, make_point: MakePoint) -> None:
    fill(pool, make_point)
    result = readiness(pool, SMALL, tenant="default")
    values = {check.name: check.value for check in result.checks}
    assert values == {"decisions": 1, "clean_points": 4, "clean_share": 0.8, "families": 2, "private_points": 0}
    assert result.is_ready
    assert result.survey.failed_gates == {"tokens": 1}
    assert [(result.bar, result.holds) for result in result.results()] == [
        (">= 1", True),
        (">= 4", True),
        (">= 0.8", True),
        (">= 2", True),
        ("<= 0", True),
    ]


def test_each_threshold_alone_prevents_training(pool: Pool, make_point: MakePoint) -> None:
    fill(pool, make_point)
    surveyed = survey(pool, tenant="default")
    for name, threshold in {
        "decisions": replace(SMALL, decisions=2),
        "clean_points": replace(SMALL, points=5),
        "clean_share": replace(SMALL, clean_share=0.81),
        "families": replace(SMALL, categories=3),
    }.items():
        result = check(surveyed, threshold)
        assert [check.name for check in result.checks if not check.holds] == [name]
        assert not result.is_ready


def test_private_point_prevents_training_unless_privacy_is_off(pool: Pool, make_point: MakePoint) -> None:
    fill(pool, make_point)
    task, trajectory, evaluation = make_point("private")
    private_task = replace(task, instruction="Write to ruth.klein@gmail.com.")
    pool.append(private_task, trajectory, evaluation)
    surveyed = survey(pool, tenant="default")
    assert surveyed.private == 1
    assert [check.name for check in check(surveyed, SMALL).checks if not check.holds] == ["private_points"]
    assert check(surveyed, replace(SMALL, privacy=False)).is_ready


def test_other_tenants_and_selections_are_not_counted(pool: Pool, make_point: MakePoint) -> None:
    fill(pool, make_point, tenant="ada")
    fill(pool, make_point, tenant="bob")
    assert survey(pool, tenant="ada").points == 5
    assert survey(pool, tenant="ada", selection=Selection(families=("b",))).points == 2
    assert survey(pool, tenant="nobody") == (0, 0, 0, 0, 0, {}, 0)


def test_empty_pool_is_not_ready(pool: Pool) -> None:
    result = readiness(pool, ReadinessConfig(), tenant="default")
    assert [check.name for check in result.checks if check.holds] == ["private_points"]


def test_feedback_counts_as_an_evaluation_where_there_is_none(pool: Pool, make_point: MakePoint) -> None:
    for number in range(3):
        task, trajectory, evaluation = make_point(f"{number}")
        pool.append(task, trajectory, *([evaluation] if number == 0 else []))
    assert survey(pool, tenant="default").failed_gates == {"evaluated": 2}
    rated = survey(pool, tenant="default", rewards={"trajectory-1": 0.0})
    assert (rated.clean, rated.failed_gates) == (2, {"evaluated": 1})
