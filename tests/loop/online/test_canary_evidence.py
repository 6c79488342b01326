"""Evidence of releases from stored decisions whose outcomes arrive one by one, late, or never."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from upturn.config import CanarySettings, MetricConfig
from upturn.deployment import Override, rollback, start
from upturn.loop.online import CanaryEvidence
from upturn.pool import Pool, PoolRecord
from upturn.records import (
    AgentVersion,
    Alternative,
    Call,
    Decision,
    Evaluation,
    EvaluationVerdict,
    Feedback,
    Observation,
    Release,
    Task,
    Trajectory,
    episode_task_id,
)

OLD, NEW = "clerk@1", "clerk@2"
SETTINGS = CanarySettings(stages=(0.5, 1.0))
METRICS = (MetricConfig(name="success", delay_hours=0.1), MetricConfig(name="speed", weight=1.0))
RELEASE = start(
    AgentVersion("clerk", "1", "callable"), AgentVersion("clerk", "2", "callable"), SETTINGS, Override("ana", "try")
)


class Clock:
    """Seconds, for the pool and the evidence; a millisecond passes between two looks."""

    now = 1_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(tmp_path: Path, clock: Clock) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db", clock=clock) as opened:
        opened.append(RELEASE)
        yield opened


def called(
    name: str, version: str = NEW, *, episode: str = "", release: str | None = RELEASE.id
) -> list[PoolRecord]:
    """A call of an episode with its decision."""
    episode = episode or name
    options = (Alternative(OLD, 0.5, None), Alternative(NEW, 0.5, None))
    decision = Decision(
        name, f"task-{name}", "mail", "default", "p", "0", options, "clerk", version, 0.5, "because",
        episode=episode, release=release, arm="candidate" if version == NEW else "control",
    )  # fmt: skip
    return [decision, Call(name, "default", episode, "", "chat", version, "answered")]


def rated(subject: str, value: float, kind: str = "decision") -> Feedback:
    return Feedback(f"{kind}-{subject}-{value}", kind, subject, "success", value)  # type: ignore[arg-type]


def sealed(episode: str, verdict: EvaluationVerdict, costs: dict[str, float]) -> list[PoolRecord]:
    """The trajectory of a sealed episode and its evaluation."""
    task = Task(episode_task_id("default", episode), "do", "mail", "call", episode=episode)
    trajectory = Trajectory(f"{task.id}/0", task.id, NEW, (), Observation(""), "finished", "rendered", attempt=0)
    name = f"judged-{episode}"
    return [task, trajectory, Evaluation(name, task.id, trajectory.id, "judge/1", verdict, (), {}, costs, None)]


def state(pool: Pool) -> Release:
    [release] = pool.states(Release)
    return release


def counts(pool: Pool) -> tuple[int, int, int]:
    """Judged candidate tasks, their successes, and missing outcomes; zeros before the first block."""
    if not (evidence := state(pool).evidence):
        return 0, 0, 0
    return evidence[-1].candidate_tasks, evidence[-1].candidate_successes, evidence[-1].missing


def advance(pool: Pool, clock: Clock) -> bool:
    """One look of a new process."""
    return bool(CanaryEvidence(pool, metrics=METRICS, clock=clock).advance(pool.states(Release), SETTINGS))


def test_episodes_count_in_their_order_and_wait_for_the_first_pending_one(pool: Pool, clock: Clock) -> None:
    pool.append(*called("a"), *called("b"), *called("c"), rated("a", 1.0), rated("c", 1.0))
    assert advance(pool, clock)
    assert counts(pool) == (1, 1, 0)
    assert not advance(pool, clock)  # b is pending, and c is behind it
    pool.append(rated("b", 0.0))
    assert advance(pool, clock)
    assert counts(pool) == (3, 2, 0)


def test_an_outcome_is_missing_once_its_time_has_passed_and_a_late_one_changes_nothing(
    pool: Pool, clock: Clock
) -> None:
    pool.append(*called("a"), *called("b"), rated("b", 1.0))
    clock.now += 359.0
    assert not advance(pool, clock)
    clock.now += 1.0
    assert advance(pool, clock)
    assert counts(pool) == (1, 1, 1)
    pool.append(rated("a", 1.0))
    assert not advance(pool, clock)
    assert counts(pool) == (1, 1, 1)


@pytest.mark.parametrize("kind", ["decision", "episode", "trajectory"])
def test_an_episode_is_one_task_with_its_first_value(pool: Pool, clock: Clock, kind: str) -> None:
    pool.append(*(record for name in "abc" for record in called(name, episode="e")))
    subject = {"decision": "b", "episode": "e", "trajectory": f"{episode_task_id('default', 'e')}/0"}[kind]
    pool.append(*sealed("e", "failure", {})[:2], rated(subject, 1.0, kind), rated("c", 0.0))
    assert advance(pool, clock)
    assert counts(pool) == (1, 1, 0)


def test_a_verdict_on_a_sealed_episode_counts_with_its_costs(pool: Pool, clock: Clock) -> None:
    pool.append(*called("a", episode="e"), *called("b", episode="e"), *sealed("e", "success", {"safety": 1.0}))
    assert advance(pool, clock)
    assert counts(pool) == (1, 1, 0)
    assert state(pool).evidence[-1].candidate_violations == 1


def test_a_call_that_another_version_answered_is_a_failure(pool: Pool, clock: Clock) -> None:
    decision, _ = called("a")
    pool.append(decision, Call("a", "default", "a", "", "chat", "helper@1", "answered", attempted=(NEW,)))
    assert advance(pool, clock)
    assert counts(pool) == (1, 0, 0)


def test_decisions_outside_of_the_release_do_not_count(pool: Pool, clock: Clock) -> None:
    pool.append(*called("a", release=None), rated("a", 1.0))
    assert not advance(pool, clock)


def test_a_small_block_waits_for_others_for_at_most_a_minute(pool: Pool, clock: Clock) -> None:
    evidence = CanaryEvidence(pool, metrics=METRICS, clock=clock)
    first = [f"first-{number}" for number in range(150)]
    pool.append(*(record for name in first for record in called(name)), *(rated(name, 1.0) for name in first))
    assert evidence.advance(pool.states(Release), SETTINGS)
    for name in ("a", "b"):
        pool.append(*called(name), rated(name, 1.0))
        assert not evidence.advance(pool.states(Release), SETTINGS)
    clock.now += 60.0
    assert evidence.advance(pool.states(Release), SETTINGS)
    assert counts(pool)[0] == 152
    assert len(state(pool).evidence) == 2


def test_a_decided_release_takes_no_evidence_that_was_on_its_way(pool: Pool, clock: Clock) -> None:
    pool.append(*called("a"), rated("a", 1.0))
    as_read = pool.states(Release)
    pool.change(Release, lambda states: rollback(states.all()[0], Override("ana", "broken")))
    CanaryEvidence(pool, metrics=METRICS, clock=clock).advance(as_read, SETTINGS)
    assert (state(pool).state, state(pool).evidence) == ("rolled_back", ())


def test_a_promoted_candidate_is_watched_on_all_that_it_serves(pool: Pool, clock: Clock) -> None:
    settings = CanarySettings(stages=(0.5, 1.0), min_candidate_tasks=5, watch_tasks=20)
    names = [f"{version}-{number}" for number in range(60) for version in (OLD, NEW)]
    pool.append(
        *(record for name in names for record in called(name, name.rpartition("-")[0])),
        *(rated(name, float(name.startswith(NEW))) for name in names),
    )
    evidence = CanaryEvidence(pool, metrics=METRICS, clock=clock)
    assert evidence.advance(pool.states(Release), settings)
    assert state(pool).state == "watch"
    later = [f"later-{number}" for number in range(20)]
    pool.append(
        *(record for name in later for record in called(name, release=None)), *(rated(name, 1.0) for name in later)
    )
    assert evidence.advance(pool.states(Release), settings)
    assert state(pool).state == "promoted"
    assert "the watch ended after 20 tasks" in state(pool).evidence[-1].reason
