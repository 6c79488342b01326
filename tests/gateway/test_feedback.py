"""Feedback over HTTP: declared metrics, refusals, levels, and what teaches the router."""

from pathlib import Path
from time import time
from typing import Any

import httpx2
import pytest

from tests.gateway.test_app import CHAT, client_of
from upturn.arbiter import DiscountedThompson, Learner
from upturn.config import MetricConfig
from upturn.pool import Pool

MINUTES = MetricConfig(name="minutes", level="episode", direction="lower", high=10.0, delay_hours=48.0)
STARS = MetricConfig(name="stars", level="call", low=1.0, high=5.0, weight=3.0)
TASKS = MetricConfig(name="accepted", level="task")
METRICS = (MINUTES, STARS, TASKS)


@pytest.fixture
def pool(tmp_path: Path) -> Any:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


async def call(client: httpx2.AsyncClient, episode: str) -> str:
    """Returns the decision of a new call in the episode."""
    return str((await client.post(f"/episodes/{episode}/v1/chat/completions", json=CHAT)).json()["id"])


def rewards(pool: Pool, *metrics: MetricConfig) -> float:
    """Sum of the rewards that a router learns."""
    policy = DiscountedThompson()
    Learner(pool, policy, tenant="default", metrics=metrics).start()
    return sum(policy.tally.count("general", f"{agent}@1").reward for agent in ("ann", "ben"))


async def test_feedback_without_a_metric_is_of_the_primary_one(pool: Pool) -> None:
    async with client_of(pool, (STARS, MINUTES)) as (client, _, _app):
        decision = await call(client, "e")
        answer = await client.post("/v1/feedback", json={"value": 4, "decision_id": decision})
    assert answer.json() == {"id": answer.json()["id"], "metric": "stars", "state": "stored"}
    assert rewards(pool, STARS, MINUTES) == 0.75


async def test_any_call_of_an_episode_may_carry_its_value_once(pool: Pool) -> None:
    async with client_of(pool, METRICS) as (client, _, _app):
        decisions = [await call(client, "e") for _ in range(2)]
        states = [
            (await client.post("/v1/feedback", json={"value": value} | subject)).json()["state"]
            for value, subject in (
                (4, {"decision_id": decisions[1]}),
                (4, {"decision_id": decisions[0]}),
                (4, {"episode_id": "e"}),
                (9, {"episode_id": "e"}),
            )
        ]
    assert states == ["stored", "known", "known", "contradicts"]
    [first, _] = pool.feedback(tenant="default")
    assert (first.subject_kind, first.subject_id, first.value) == ("episode", "e", 4.0)
    assert rewards(pool, MINUTES) == 0.6


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_weighted_metrics_teach_once_both_are_there_in_any_order(pool: Pool, order: tuple[int, int]) -> None:
    metrics = (MetricConfig(name="minutes", high=10.0, direction="lower"), STARS)
    async with client_of(pool, metrics) as (client, _, _app):
        decision = await call(client, "e")
        values = [{"metric": "minutes", "value": 5}, {"metric": "stars", "value": 5}]
        assert rewards(pool, *metrics) == 0
        for expected, index in zip((0.0, 0.875), order, strict=True):
            await client.post("/v1/feedback", json=values[index] | {"decision_id": decision})
            assert rewards(pool, *metrics) == expected
        await client.post("/v1/feedback", json={"metric": "minutes", "value": 10, "decision_id": decision})
    assert rewards(pool, *metrics) == (0.5 + 3 * 1.0) / 4


@pytest.mark.parametrize(
    ("value", "code", "problem"),
    [
        (
            {"metric": "speed", "value": 1},
            "unknown_metric",
            "unknown metric 'speed'; declared: minutes, stars, acc",
        ),
        ({"metric": "stars", "value": 0}, "value_out_of_range", "a value of 'stars' must be from 1 to 5, got 0.0"),
        ({"value": 10.5}, "value_out_of_range", "a value of 'minutes' must be from 0 to 10, got 10.5"),
        ({"metric": "accepted", "value": 1}, "wrong_level", "'accepted' is about a task: name its trajectory_id"),
    ],
)
async def test_refusals_name_the_fault_in_the_caller_s_dialect(
    pool: Pool, value: Any, code: str, problem: str
) -> None:
    async with client_of(pool, METRICS) as (client, _, _app):
        body = value | {"decision_id": await call(client, "e")}
        chat = await client.post("/v1/feedback", json=body)
        messages = await client.post("/v1/feedback", json=body, headers={"anthropic-version": "2023-06-01"})
    assert (chat.status_code, chat.json()["error"]["code"]) == (400, code)
    assert problem in chat.json()["error"]["message"]
    assert messages.json()["type"] == "error"
    assert problem in messages.json()["error"]["message"]
    assert not list(pool.feedback(tenant="default"))


async def test_a_call_s_metric_needs_the_call(pool: Pool) -> None:
    async with client_of(pool, METRICS) as (client, _, _app):
        await call(client, "e")
        answer = await client.post("/v1/feedback", json={"metric": "stars", "value": 5, "episode_id": "e"})
    assert answer.json()["error"]["code"] == "wrong_level"


async def test_the_state_counts_what_has_arrived_and_what_is_missing(tmp_path: Path) -> None:
    age = 0.0
    with Pool.open(tmp_path / "aged.db", clock=lambda: time() - age) as pool:
        assert await _counts(pool) == [("minutes", 2, 1, 0), ("stars", 1, 2, 0), ("accepted", 0, 3, 0)]
    age = 86_401.0
    with Pool.open(tmp_path / "older.db", clock=lambda: time() - age) as pool:
        assert await _counts(pool) == [("minutes", 2, 1, 0), ("stars", 1, 0, 2), ("accepted", 0, 0, 3)]


async def _counts(pool: Pool) -> list[tuple[str, int, int, int]]:
    """Arrived, waiting and missing values by metric, after three calls and two values for the first of them."""
    async with client_of(pool, METRICS) as (client, _, _app):
        decision = await call(client, "e")
        await call(client, "e")
        await call(client, "f")
        for body in ({"value": 1}, {"metric": "stars", "value": 5}):
            await client.post("/v1/feedback", json=body | {"decision_id": decision})
        metrics = (await client.get("/v1/router/state")).json()["metrics"]
    return [(item["name"], item["arrived"], item["waiting"], item["missing"]) for item in metrics]
