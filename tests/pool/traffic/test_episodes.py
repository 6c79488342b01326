"""Reads of sealed episodes with their rewards."""

from dataclasses import replace
from pathlib import Path

import pytest

from upturn.config import TrafficConfig, traffic_metrics
from upturn.pool import Pool
from upturn.pool.traffic import as_prompt_task, has_traffic, prompt_task_id, read_episodes
from upturn.records import Call, Evaluation, Feedback, Observation, Task, Trajectory, Turn, episode_task_id

DEFAULT = traffic_metrics(TrafficConfig(), ())


def sealed(
    name: str, prompt: str = "hello", *, tenant: str = "default", family: str = "general"
) -> tuple[Task, Trajectory]:
    """An episode with one answer."""
    task = Task(episode_task_id(tenant, name), prompt, family, "call", tenant=tenant, episode=name)
    turns = (Turn(Observation(prompt), "hi", None),)
    return task, Trajectory(f"{task.id}/0", task.id, "ann@1", turns, Observation(""), "finished", "rendered")


def value(
    name: str, subject: tuple[str, str], number: float, metric: str = "success", tenant: str = "default"
) -> Feedback:
    """Feedback on an episode, a trajectory or a decision."""
    kind, subject_id = subject
    return Feedback(name, kind, subject_id, metric, number, tenant)  # type: ignore[arg-type]


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return Pool.open(tmp_path / "pool.db")


def rewards(pool: Pool, tenant: str = "default", **options: object) -> dict[str, float | None]:
    read = read_episodes(pool, DEFAULT, tenant=tenant, **options)  # type: ignore[arg-type]
    return {episode.trajectory_id.split(":")[2]: episode.reward.value for episode in read}


def test_feedback_is_found_by_episode_trajectory_and_call(pool: Pool) -> None:
    with pool:
        for name in ("a/0", "b", "c", "d"):  # names of clients with keys contain a slash
            pool.append(*sealed(name))
        call = Call("k", "default", "c", "default", "chat", "ann@1", "answered")
        pool.append(call, value("1", ("episode", "a/0"), 1.0), value("3", ("decision", "k"), 0.25))
        pool.append(value("2", ("trajectory", f"{episode_task_id('default', 'b')}/0"), 0.5))
        assert rewards(pool) == {"a/0/0": 1.0, "b/0": 0.5, "c/0": 0.25, "d/0": None}


def test_a_verdict_counts_before_feedback_and_a_missing_one_does_not(pool: Pool) -> None:
    with pool:
        for name, verdict, score in (("a", "failure", 0.125), ("b", "missing", None)):
            task, trajectory = sealed(name)
            judged = Evaluation(f"e{name}", task.id, trajectory.id, "own/1", verdict, (), {}, {}, score)  # type: ignore[arg-type]
            pool.append(task, trajectory, judged, value(name, ("episode", name), 1.0))
        assert rewards(pool) == {"a/0": 0.125, "b/0": 1.0}


def test_failed_and_unanswered_episodes_have_no_reward(pool: Pool) -> None:
    with pool:
        broken, empty = sealed("a"), sealed("b")
        pool.append(broken[0], replace(broken[1], outcome="model_error"), empty[0], replace(empty[1], turns=()))
        pool.append(value("1", ("episode", "a"), 1.0), value("2", ("episode", "b"), 1.0))
        read = read_episodes(pool, DEFAULT, tenant="default")
        assert [(episode.reward.value, episode.reward.missing) for episode in read] == [
            (None, "broken"),
            (None, "unanswered"),
        ]


def test_tenants_never_see_each_other(pool: Pool) -> None:
    with pool:
        pool.append(*sealed("a"), *sealed("a", tenant="other"), value("1", ("episode", "a"), 1.0, tenant="other"))
        theirs = f"{episode_task_id('default', 'a')}/0"
        pool.append(value("2", ("trajectory", theirs), 0.0, tenant="other"))
        assert rewards(pool) == {"a/0": None}
        assert rewards(pool, "other") == {"a/0": 1.0}
        assert rewards(pool, "third") == {}


def test_the_latest_episodes_of_the_families_are_read_in_their_order(pool: Pool) -> None:
    with pool:
        for number in range(5):
            pool.append(*sealed(str(number), family="ab"[number % 2]))
        assert list(rewards(pool, limit=3)) == ["2/0", "3/0", "4/0"]
        assert list(rewards(pool, families=("a",))) == ["0/0", "2/0", "4/0"]
        assert list(rewards(pool, families=("a",), limit=1)) == ["4/0"]


def test_episodes_that_begin_with_the_same_prompt_are_the_same_task(pool: Pool) -> None:
    with pool:
        pool.append(*sealed("a", "caf\u00e9  au lait\n"), *sealed("b", "cafe\u0301 au lait"), *sealed("c", "tea"))
        first, second, third = read_episodes(pool, DEFAULT, tenant="default")
        assert first.task_id == second.task_id == prompt_task_id("default", "caf\u00e9 au lait")
        assert third.task_id != first.task_id
        assert first.task_id != prompt_task_id("other", "caf\u00e9 au lait")
        (stored,) = pool.experiences_of([second.trajectory_id], tenant="default")
        as_task = as_prompt_task(stored)
        assert as_task.task.id == as_task.trajectory.task_id == first.task_id
        assert as_task.trajectory.turns == stored.trajectory.turns


def test_traffic_is_any_call_of_the_tenant(pool: Pool) -> None:
    with pool:
        assert not has_traffic(pool, tenant="default")
        pool.append(Call("k", "default", "c", "default", "chat", "ann@1", "answered"))
        assert has_traffic(pool, tenant="default")
        assert not has_traffic(pool, tenant="other")
