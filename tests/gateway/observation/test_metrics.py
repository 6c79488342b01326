"""Metrics, read back with Prometheus's own parser."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

import upturn.gateway.observation.metrics
from upturn.config import AccessConfig
from upturn.gateway.access.admission import AdmissionQueue
from upturn.gateway.observation.metrics import GatewayMetrics, ServedCall

SERIES = 100
CALL = ServedCall("default", "small", "chat", 200, 1.5, 0.0015, 0.3, 100, 60, 20, 0.25, 15)


def numbers(page: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and labels, in the order of the labels' names."""
    return {
        (sample.name, tuple(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_a_call_is_counted_with_its_tokens_and_cost() -> None:
    metrics = GatewayMetrics()
    metrics.observe(CALL)
    metrics.observe(CALL._replace(status=502, first_token_seconds=None, output_tokens=0, cost_usd=0.0))
    values = numbers(metrics.page())
    assert values["upturn_requests_total", ("small", "chat", "default", "200")] == 1
    assert values["upturn_requests_total", ("small", "chat", "default", "502")] == 1
    assert values["upturn_tokens_total", ("small", "input")] == 50
    assert values["upturn_tokens_total", ("small", "cache_write")] == 30
    assert values["upturn_tokens_total", ("small", "cached_input")] == 120
    assert values["upturn_tokens_total", ("small", "output")] == 20
    assert values["upturn_cost_usd_total", ("small",)] == 0.25
    assert values["upturn_overhead_seconds_bucket", ("chat", "0.001")] == 0
    assert values["upturn_overhead_seconds_bucket", ("chat", "0.002")] == 2
    assert values["upturn_overhead_seconds_sum", ("chat",)] == 0.003
    assert values["upturn_request_seconds_bucket", ("small", "1.0", "default")] == 0
    assert values["upturn_request_seconds_bucket", ("small", "2.5", "default")] == 2
    assert values["upturn_first_token_seconds_count", ("small", "default")] == 1


def test_states_are_shown() -> None:
    metrics = GatewayMetrics()
    metrics.show_queue(3, 2)
    metrics.show_breaker("small", "half_open")
    metrics.show_breaker("large", "open")
    metrics.show_learner_lag(7)
    metrics.refuse("rate_limit")
    metrics.feedback("repeated")
    values = numbers(metrics.page())
    assert values["upturn_in_flight", ()] == 3
    assert values["upturn_waiting", ()] == 2
    assert values["upturn_breaker", ("small",)] == 0.5
    assert values["upturn_breaker", ("large",)] == 1
    assert values["upturn_learner_lag_records", ()] == 7
    assert values["upturn_refused_total", ("rate_limit",)] == 1
    assert values["upturn_feedback_total", ("repeated",)] == 1
    assert values["process_resident_memory_bytes", ()] > 1e6


def test_two_servers_share_nothing() -> None:
    first, second = GatewayMetrics(), GatewayMetrics()
    first.observe(CALL)
    assert not any(name == "upturn_requests_total" for name, _ in numbers(second.page()))


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert upturn.gateway.observation.metrics.MAX_SERIES <= 1_000
    monkeypatch.setattr(upturn.gateway.observation.metrics, "MAX_SERIES", SERIES)
    metrics = GatewayMetrics()
    for number in range(SERIES + 50):
        metrics.observe(CALL._replace(agent=f"agent-{number}"))
    metrics.observe(CALL._replace(agent="agent-0"))
    counted = {
        labels: n for (name, labels), n in numbers(metrics.page()).items() if name == "upturn_requests_total"
    }
    assert len(counted) == SERIES + 1
    assert counted["other", "other", "other", "other"] == 50
    assert counted["agent-0", "chat", "default", "200"] == 2
    assert sum(counted.values()) == SERIES + 51, "no call is lost"


def test_the_queue_shows_its_length() -> None:
    metrics = GatewayMetrics()

    async def scenario() -> dict[tuple[str, tuple[str, ...]], float]:
        queue = AdmissionQueue(AccessConfig(max_in_flight=1, max_waiting=1), on_change=metrics.show_queue)

        async def wait() -> None:
            async with queue.slot("a"):
                pass

        async with queue.slot("a"):
            waiting = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            values = numbers(metrics.page())
        await waiting
        return values

    values = asyncio.run(scenario())
    assert (values["upturn_in_flight", ()], values["upturn_waiting", ()]) == (1, 1)
    after = numbers(metrics.page())
    assert (after["upturn_in_flight", ()], after["upturn_waiting", ()]) == (0, 0)
