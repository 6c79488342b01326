"""Learning from the pool: each outcome once, and the same bits whenever and in however many parts it is read."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import delete

from upturn.arbiter import DiscountedThompson, Learner
from upturn.config import MetricConfig
from upturn.pool import ALL_TENANTS, Location, Pool, PoolRecord, schema
from upturn.records import (
    EPISODE_TASK,
    Alternative,
    Call,
    Decision,
    Evaluation,
    EvaluationVerdict,
    Feedback,
    FeedbackSubject,
    Observation,
    Task,
    Trajectory,
)

A, B = "ana@1", "ben@1"
MINUTES = MetricConfig(name="minutes", high=5.0, direction="lower")


def decision(name: str, chosen: str = A, *, episode: str | None = None, tenant: str = "default") -> Decision:
    options = (Alternative(A, 0.5, None), Alternative(B, 0.5, None))
    agent = chosen.partition("@")[0]
    return Decision(
        name, f"task-{name}", "mail", tenant, "p", "0", options, agent, chosen, 0.5, "because", episode=episode
    )


def executed(name: str, version: str = A, *, run: str = "", task: str = "") -> tuple[Task, Trajectory]:
    stored = Task(task or f"task-{name}", "do", "mail", "office")
    trajectory = Trajectory(
        f"run-{name}{run}", stored.id, version, (), Observation(""), "finished", "rendered", attempt=0
    )
    return stored, trajectory


def verdict(name: str, value: EvaluationVerdict, *, evaluator: str = "judge/1") -> Evaluation:
    return Evaluation(f"{evaluator}-{name}", f"task-{name}", f"run-{name}", evaluator, value, (), {}, {}, None)


def rating(
    name: str, value: float, subject: str, kind: FeedbackSubject = "decision", *, metric: str = "success"
) -> Feedback:
    return Feedback(name, kind, subject, metric, value)


def call(name: str, version: str) -> Call:
    return Call(name, "default", "e", "r", "chat", version, "answered", attempted=(A,))


@pytest.fixture
def pool(location: Location) -> Iterator[Pool]:
    with Pool.open(location) as opened:
        yield opened


def learned(pool: Pool, *metrics: MetricConfig) -> DiscountedThompson:
    """The policy of a learner that reads everything at once."""
    policy = DiscountedThompson()
    Learner(pool, policy, tenant="default", metrics=metrics).start()
    return policy


def counted(pool: Pool, version: str = A, *metrics: MetricConfig) -> tuple[int, float, int]:
    """Outcomes, sum of rewards, missing verdicts."""
    count = learned(pool, *metrics).tally.count("mail", version)
    return count.outcomes, count.reward, count.missing


def test_the_first_value_teaches_and_later_ones_do_not(pool: Pool) -> None:
    pool.append(decision("x"))
    assert counted(pool) == (0, 0.0, 0)
    pool.append(rating("f1", 0.25, "x"))
    assert counted(pool) == (1, 0.25, 0)
    pool.append(rating("f2", 1.0, "x"), *executed("x"), verdict("x", "success"), rating("f3", 0.25, "x"))
    assert counted(pool) == (1, 0.25, 0)


def test_a_missing_verdict_is_counted_once_and_does_not_use_up_the_decision(pool: Pool) -> None:
    pool.append(decision("x"), *executed("x"), verdict("x", "missing"))
    pool.append(verdict("x", "missing", evaluator="judge/2"))
    assert counted(pool) == (0, 0.0, 1)
    pool.append(verdict("x", "failure", evaluator="judge/3"))
    pool.append(verdict("x", "success", evaluator="judge/4"))
    assert counted(pool) == (1, 0.0, 1)
    pool.append(verdict("x", "missing", evaluator="judge/5"))
    assert counted(pool) == (1, 0.0, 1)


def test_only_the_trajectory_that_carried_out_the_decision_teaches(pool: Pool) -> None:
    task, trajectory = executed("x")
    again = replace(trajectory, id="run-x-arena")
    repeated = replace(verdict("x", "failure"), id="arena", trajectory_id="run-x-arena")
    pool.append(decision("x"), task, trajectory)
    pool.append(again, repeated)
    assert counted(pool) == (0, 0.0, 0)
    pool.append(verdict("x", "success"))
    assert counted(pool) == (1, 1.0, 0)
    # The same task is decided again in another run.
    second = replace(decision("y"), task_id="task-x")
    of_second = replace(verdict("x", "failure"), id="second", trajectory_id="run-x-second")
    pool.append(second, replace(trajectory, id="run-x-second"), of_second)
    assert counted(pool) == (2, 1.0, 0)


def test_feedback_on_trajectory_and_episode_teaches_their_decision(pool: Pool) -> None:
    pool.append(decision("x"), *executed("x"), decision("y", B, episode="e"), decision("z", B, episode="e"))
    pool.append(rating("f1", 1.0, "run-x", "trajectory"), rating("f2", 0.5, "e", "episode"))
    assert (counted(pool), counted(pool, B)) == ((1, 1.0, 0), (1, 0.5, 0))
    pool.append(rating("f3", 0.0, "y"), rating("f4", 1.0, "z"))  # y has its value; z is another decision
    assert counted(pool, B) == (2, 1.5, 0)


def test_other_metrics_unusable_values_and_other_tenants_teach_nothing(pool: Pool) -> None:
    pool.append(decision("x"), decision("w", tenant="other"))
    pool.append(rating("f1", 1.0, "x", metric="minutes"), rating("f2", 7.0, "x"), rating("f3", 1.0, "w"))
    pool.append(replace(rating("f4", 1.0, "x"), tenant="other"), rating("f5", 1.0, "unknown"))
    assert counted(pool) == (0, 0.0, 0)
    assert counted(pool, A, MINUTES) == (1, 0.8, 0)  # less is better
    pool.append(rating("f6", 0.5, "x"))
    assert counted(pool) == (1, 0.5, 0)  # the unusable value did not use it up


def test_feedback_before_its_subject_is_stored_teaches_nothing(pool: Pool) -> None:
    pool.append(rating("f1", 1.0, "x"))
    pool.append(decision("x"))
    assert counted(pool) == (0, 0.0, 0)


def test_a_call_that_another_version_answered_is_a_failure_of_the_chosen_one(pool: Pool) -> None:
    pool.append(decision("x"), call("x", B), decision("y"), call("y", A))
    pool.append(rating("f1", 1.0, "x"), rating("f2", 1.0, "y"))
    assert (counted(pool), counted(pool, B)) == ((2, 1.0, 0), (0, 0.0, 0))


def test_another_policy_or_metric_has_another_snapshot(pool: Pool) -> None:
    def key(floor: float, *metrics: MetricConfig) -> str:
        return Learner(pool, DiscountedThompson(floor=floor), tenant="default", metrics=metrics).key

    everyone = Learner(pool, DiscountedThompson(), tenant=ALL_TENANTS).key
    assert len({key(0.05), key(0.01), key(0.05, MINUTES), everyone}) == 4
    assert key(0.05) == key(0.05, MetricConfig(name="success"))


def test_an_older_snapshot_does_not_replace_a_later_one(pool: Pool) -> None:
    early, late = (Learner(pool, DiscountedThompson(), tenant="default") for _ in range(2))
    early.start()
    pool.append(decision("x"), rating("f1", 1.0, "x"))
    late.start()
    late.save()
    early.save()
    fresh = Learner(pool, DiscountedThompson(), tenant="default")
    fresh.start()
    assert (fresh.learned, fresh.policy.state()) == (0, late.policy.state())


def ledger(rng: Random, count: int) -> list[tuple[PoolRecord, ...]]:
    """Batches in a random order of arrival: decisions with late, duplicate, missing and contradicting values."""
    batches: list[tuple[float, tuple[PoolRecord, ...]]] = []
    for number in range(count):
        name, start = f"d{number}", rng.random()
        chosen = rng.choice((A, B))
        batches.append((start, (decision(name, chosen, episode=f"e{number % 5}"), *executed(name, chosen))))
        for index in range(rng.randrange(5)):
            at = start + rng.random()
            record: PoolRecord = rating(f"{name}-{index}", rng.choice((0.0, 0.5, 1.0, 3.0)), name)
            if rng.random() < 0.5:
                kind: EvaluationVerdict = rng.choice(("success", "failure", "missing"))
                record = verdict(name, kind, evaluator=f"judge/{index}")
            elif rng.random() < 0.3:
                record = rating(f"{name}-{index}", rng.random(), f"e{number % 5}", "episode")
            batches.append((at, (record,)))
    return [batch for _, batch in sorted(batches, key=lambda item: item[0])]


@pytest.mark.parametrize("seed", range(4))
def test_any_interleaving_of_reading_restarting_and_deleting_gives_the_same_bits(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    monkeypatch.setattr("upturn.pool.serving.outcome._PAGE", rng.choice((1, 3, 400)))
    monkeypatch.setattr("upturn.pool.serving.outcome._SPAN", rng.choice((1, 5, 4_000)))
    with Pool.open(tmp_path / "pool.db") as pool:
        learner = Learner(pool, DiscountedThompson(), tenant="default")
        learner.start()
        for batch in ledger(rng, 25):
            pool.append(*batch)
            match rng.randrange(6):
                case 0:
                    learner.catch_up()
                case 1:
                    learner.save()
                case 2:
                    learner = Learner(pool, DiscountedThompson(), tenant="default")
                    learner.start()
                case 3:
                    pool.write(lambda connection: connection.execute(delete(schema.router_states)))
                case 4:
                    learner.catch_up(learner.sequence + rng.randrange(4))
        learner.catch_up()
        fresh = learned(pool)
        assert learner.policy.state() == fresh.state()
        assert sum(fresh.tally.count("mail", version).outcomes for version in (A, B)) > 5


def sealed(episode: str, version: str = A, *, task: str = "") -> tuple[Task, Trajectory]:
    """The records of a sealed episode."""
    stored = Task(task or f"{EPISODE_TASK}:default:{episode}", "do", "mail", "call", episode=episode)
    trajectory = Trajectory(f"{stored.id}/0", stored.id, version, (), Observation(""), "finished", "rendered")
    return stored, trajectory


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_a_sealed_episode_teaches_once_in_any_order(pool: Pool, order: tuple[int, ...]) -> None:
    """A verdict, a value of the episode and one of the trajectory: the first that arrives counts."""
    opening, later = decision("x", episode="e"), decision("y", episode="e")
    pool.append(opening, call("x", A), later, call("y", A))
    task, trajectory = sealed("e")
    pool.append(task, trajectory)
    judged = Evaluation("v", task.id, trajectory.id, "judge/1", "success", (), {}, {}, None)
    outcomes = (judged, rating("f1", 0.25, "e", "episode"), rating("f2", 0.75, trajectory.id, "trajectory"))
    policy = DiscountedThompson()
    learner = Learner(pool, policy, tenant="default")
    for index in order:
        pool.append(outcomes[index])
        learner.catch_up()
    first = (1.0, 0.25, 0.75)[order[0]]
    assert policy.tally.count("mail", A).reward == first
    assert counted(pool) == (1, first, 0)  # a new process


def test_a_sealed_episode_of_another_tenant_or_name_teaches_nothing(pool: Pool) -> None:
    pool.append(decision("x", episode="e"), call("x", A))
    for episode in ("f", "E"):
        task, trajectory = sealed(episode)
        pool.append(task, trajectory, rating(f"f-{episode}", 1.0, trajectory.id, "trajectory"))
    task, trajectory = sealed("e", task=f"{EPISODE_TASK}:other:e")
    pool.append(task, trajectory, rating("f3", 1.0, trajectory.id, "trajectory"))
    assert counted(pool) == (0, 0.0, 0)
