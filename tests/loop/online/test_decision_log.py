"""Outcomes of the pool's decisions: which evaluation and which feedback belongs to which decision."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from upturn.config import MetricConfig
from upturn.errors import RecordError
from upturn.loop.online import read_decision_log
from upturn.loop.online.routes import NAMED
from upturn.pool import Pool, RolloutKey
from upturn.records import (
    Alternative,
    Decision,
    Evaluation,
    EvaluationVerdict,
    Feedback,
    FeedbackSubject,
    Observation,
    Task,
    Trajectory,
    episode_task_id,
)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


def decision(
    name: str, *, task: str = "", episode: str | None = None, tenant: str = "default", policy: str = "uniform"
) -> Decision:
    return Decision(
        id=name,
        task_id=task or f"task-{name}",
        family="mail",
        tenant=tenant,
        policy=policy,
        policy_snapshot="",
        alternatives=(Alternative("a@1", 0.5, None), Alternative("b@1", 0.5, None)),
        agent="a",
        chosen="a@1",
        propensity=0.5,
        reason="",
        episode=episode,
    )


def work(
    task: str, number: int = 0, *, verdict: EvaluationVerdict | None = "success", tenant: str = "default"
) -> list[Task | Trajectory | Evaluation]:
    """Returns a task, a trajectory of a@1 on it, and its evaluation (None = none)."""
    name = f"{task}/{number}"
    trajectory = Trajectory(
        id=name,
        task_id=task,
        agent_version="a@1",
        turns=(),
        final_observation=Observation(""),
        outcome="finished",
        origin="rendered",
    )
    records: list[Task | Trajectory | Evaluation] = [Task(task, "do", "mail", "office", tenant=tenant), trajectory]
    if verdict is not None:
        records.append(Evaluation(f"e-{name}", task, name, "office/1", verdict, (), {}, {}, None))
    return records


def feedback(
    name: str, metric: str, value: float, *, kind: FeedbackSubject = "decision", of: str = "d1"
) -> Feedback:
    return Feedback(name, kind, of, metric, value)


def rewards(pool: Pool, metric: str = "success", tenant: str = "default") -> dict[str, float | None]:
    log = read_decision_log(pool, tenant=tenant, metric=metric)
    return {outcome.decision.id: outcome.reward for outcome in log.logged}


def test_verdicts_become_rewards(pool: Pool) -> None:
    verdicts: dict[str, EvaluationVerdict | None] = {"s": "success", "f": "failure", "m": "missing", "n": None}
    for name, verdict in verdicts.items():
        pool.append(decision(name), *work(f"task-{name}", verdict=verdict))
    pool.append(decision("none"))
    pool.append(decision("other", tenant="acme"), *work("task-other", tenant="acme"))
    assert rewards(pool) == {"s": 1.0, "f": 0.0, "m": None, "n": None, "none": None}
    log = read_decision_log(pool, tenant="default")
    assert set(log.tasks) == {"task-s", "task-f", "task-m", "task-n"}


def test_the_same_task_in_two_runs_has_two_outcomes(pool: Pool) -> None:
    pool.append(*work("t", 0, verdict="failure"))  # before any decision, such as a validation
    pool.append(decision("d1", task="t"), *work("t", 1, verdict="success"))
    pool.append(*work("t", 2, verdict="failure")[1:], rollout=RolloutKey("training", 0))
    pool.append(decision("d2", task="t"), *work("t", 3, verdict="success"))
    pool.append(decision("d3", task="t"))
    assert rewards(pool) == {"d1": 1.0, "d2": 1.0, "d3": None}


def test_an_episodes_trajectory_is_the_outcome_of_all_its_decisions(pool: Pool) -> None:
    pool.append(decision("d1", episode="e"), decision("d2", episode="e"), decision("d3", episode="other"))
    pool.append(*work(episode_task_id("default", "e"), verdict="failure"))
    assert rewards(pool) == {"d1": 0.0, "d2": 0.0, "d3": None}


def test_the_first_feedback_counts_and_the_nearest_subject(pool: Pool) -> None:
    pool.append(decision("d1", episode="e"), decision("d2", episode="e"), decision("d3"), decision("d4"))
    pool.append(*work("task-d3"))
    pool.append(
        feedback("1", "quality", 0.25),
        feedback("2", "quality", 0.75),
        feedback("3", "quality", 0.5, kind="episode", of="e"),
        feedback("4", "quality", 1.0, kind="trajectory", of="task-d3/0"),
        feedback("5", "other", 0.0, of="d4"),
    )
    assert rewards(pool, "quality") == {"d1": 0.25, "d2": 0.5, "d3": 1.0, "d4": None}


def test_thumbs_are_yes_or_no_and_other_values_must_be_rewards(pool: Pool) -> None:
    pool.append(decision("d1"), decision("d2"), decision("d3"))
    pool.append(*(feedback(f"t{sign}", "thumbs", sign, of=f"d{sign + 2}") for sign in (-1, 0, 1)))
    assert rewards(pool, "thumbs") == {"d1": 0.0, "d2": None, "d3": 1.0}
    pool.append(feedback("m", "minutes saved", 12.5))
    with pytest.raises(RecordError, match=r"'minutes saved' is 12\.5.*rewards in \[0, 1\]"):
        rewards(pool, "minutes saved")


def test_decisions_that_the_client_made_are_left_out(pool: Pool) -> None:
    pool.append(decision("d1"), decision("d2", policy=NAMED))
    assert rewards(pool) == {"d1": None}


def test_the_primary_metric_stands_in_for_a_missing_verdict(pool: Pool) -> None:
    pool.append(decision("d1"), decision("d2"), decision("d3"), *work("task-d1", verdict="failure"))
    pool.append(feedback("f1", "success", 1.0, of="d1"), feedback("f2", "success", 0.5, of="d2"))
    assert rewards(pool) == {"d1": 0.0, "d2": 0.5, "d3": None}


def test_values_are_worth_what_their_metric_declares(pool: Pool) -> None:
    minutes = MetricConfig(name="minutes", high=10.0, direction="lower")
    pool.append(decision("d1"), decision("d2"), *work("task-d1", verdict="success"))
    pool.append(feedback("f1", "minutes", 4.0, of="d2"), feedback("f2", "success", 1.0, of="d2"))

    def worth(metric: str) -> list[float | None]:
        log = read_decision_log(pool, tenant="default", metric=metric, metrics=(minutes,))
        return [outcome.reward for outcome in log.logged]

    assert worth("") == worth("minutes") == [1.0, 0.6]
    assert worth("success") == [1.0, 1.0]
    with pytest.raises(RecordError, match="declare the metric"):
        read_decision_log(pool, tenant="default", metric="minutes")
