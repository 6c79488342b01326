"""Retention deletes the oldest trajectories beyond the bounds, keeps what trained something, leaves tombstones."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import func, select

from upturn.config import RetentionRule
from upturn.pool import Location, Pool, RolloutKey, ledger_problems, schema, take_snapshot_of
from upturn.pool.access import admin_acts
from upturn.pool.retention import plan_pruning, prune, prune_due
from upturn.records import AgentVersion, Evaluation, Run, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]
DAY = 86_400.0


@pytest.fixture
def pool(location: Location, make_point: MakePoint) -> Iterator[Pool]:
    """One trajectory a day from day 1 on: a to e of one tenant, f of another."""
    days = iter(range(1, 100))
    with Pool.open(location, clock=lambda: day[0] * DAY) as opened:
        day = [0]
        for name in "abcdef":
            day[0] = next(days)
            opened.append(*make_point(name, tenant="other" if name == "f" else "default"))
        yield opened


def left(pool: Pool) -> str:
    with pool.engine.connect() as connection:
        ids = connection.execute(
            select(schema.trajectories.c.id).order_by(schema.trajectories.c.sequence)
        ).scalars()
        return "".join(one.removeprefix("trajectory-") for one in ids)


def count(pool: Pool, table: str) -> int:
    with pool.engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(schema.metadata.tables[table])).scalar_one())


def apply(pool: Pool, *rules: RetentionRule, now: float = 6.5 * DAY) -> int:
    return prune(pool, plan_pruning(pool.engine, rules, now).outdated, who="ada", now=now)


def test_age_deletes_trajectories_with_evaluations_and_says_who_and_why(pool: Pool) -> None:
    assert apply(pool, RetentionRule(days=4)) == 2
    assert left(pool) == "cdef"
    assert count(pool, "evaluations") == 4
    assert count(pool, "tasks") == 6
    (act,) = admin_acts(pool.engine, tenant="default")
    assert (act.who, act.what, act.tenant, act.why) == ("ada", "pool prune", "default", "older than 4 days")
    assert list(ledger_problems(pool.engine)) == []
    assert apply(pool, RetentionRule(days=4)) == 0


def test_size_keeps_the_newest_of_each_tenant(pool: Pool) -> None:
    size = plan_pruning(pool.engine, [RetentionRule(days=0.001)], 9 * DAY).outdated[0].size
    assert apply(pool, RetentionRule(megabytes=2.5 * size / 1e6)) == 3
    assert left(pool) == "def"
    assert list(ledger_problems(pool.engine)) == []


def test_a_tenants_own_rule_replaces_that_of_all(pool: Pool) -> None:
    assert apply(pool, RetentionRule(days=1), RetentionRule(tenant="default", days=3)) == 3
    assert left(pool) == "def"
    assert apply(pool, RetentionRule(tenant="nobody", days=1)) == 0


def test_what_a_snapshot_a_version_or_a_running_run_has_is_kept(pool: Pool, make_point: MakePoint) -> None:
    take_snapshot_of(pool, ["trajectory-a"], tenant="default", criteria="{}")
    for run in ("made", "running", "over"):
        pool.append(*make_point(run), rollout=RolloutKey(f"{run}/train", 0))
    pool.append(AgentVersion("nano", "2", "local_model", run="made"))
    pool.append(Run("running", "train", "hash", 1, "0.1.0"), Run("over", "train", "hash", 1, "0.1.0", "done"))
    plan = plan_pruning(pool.engine, [RetentionRule(days=1)], 100 * DAY)
    assert plan.protected == 3
    assert prune(pool, plan.outdated, who="ada", now=100 * DAY) == 6
    assert left(pool) == "amaderunning"
    assert count(pool, "rollouts") == 2
    assert list(ledger_problems(pool.engine)) == []


def test_a_snapshot_that_is_taken_after_the_plan_is_kept(pool: Pool) -> None:
    plan = plan_pruning(pool.engine, [RetentionRule(days=1)], 100 * DAY)
    take_snapshot_of(pool, ["trajectory-b"], tenant="default", criteria="{}")
    assert prune(pool, plan.outdated, who="ada", now=100 * DAY) == 5
    assert left(pool) == "b"


def test_pieces_of_tokens_without_a_trajectory_are_deleted(pool: Pool) -> None:
    before = count(pool, "token_blobs")
    apply(pool, RetentionRule(tenant="default", days=1), now=100 * DAY)
    assert count(pool, "token_blobs") <= before
    (experience,) = pool.experiences(tenant="other")
    assert experience.trajectory.rows
    apply(pool, RetentionRule(days=1), now=100 * DAY)
    assert count(pool, "token_blobs") == 0


def test_a_record_may_be_stored_again_after_it_was_deleted(pool: Pool, make_point: MakePoint) -> None:
    apply(pool, RetentionRule(days=4))
    pool.append(*make_point("a"))
    assert left(pool) == "cdefa"
    assert list(ledger_problems(pool.engine)) == []


def test_nothing_is_planned_while_nothing_can_be_beyond_the_bounds(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_arguments: object) -> None:
        raise AssertionError("all trajectories are read")

    with monkeypatch.context() as patch:
        patch.setattr("upturn.pool.retention.plan_pruning", forbidden)
        kept = prune_due(pool, [RetentionRule(days=30, megabytes=1_000)], who="gateway", now=6.5 * DAY)
    assert (kept.deleted, kept.protected) == (0, 0)
    assert 10_000 < kept.stored_bytes < 50_000_000
    assert left(pool) == "abcdef"
    assert prune_due(pool, [], who="gateway", now=1e9 * DAY).deleted == 0


def test_a_regular_pruning_deletes_what_is_too_old_or_too_much(pool: Pool) -> None:
    assert prune_due(pool, [RetentionRule(days=4)], who="gateway", now=6.5 * DAY).deleted == 2
    assert left(pool) == "cdef"
    assert prune_due(pool, [RetentionRule(megabytes=0.0001)], who="gateway", now=6.5 * DAY).deleted == 4
    assert {act.who for act in admin_acts(pool.engine, tenant="default")} == {"gateway"}
    assert list(ledger_problems(pool.engine)) == []
