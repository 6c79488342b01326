"""Measurements of the gateway beside a mock upstream and a load generator, all on the same cores.

Decisions and calls are stored durably in every measurement. Answers are checked before anything is timed: every
request gets a complete answer with status 200, or the measurement fails.
"""

import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.comparison import Bar, result, spread
from benchmarks.gateway.processes import (
    Server,
    compiled_gateway,
    litellm_gateway,
    mock_upstream,
    run_load,
    upturn_gateway,
)
from benchmarks.measurement import Measurement
from upturn.errors import MeasurementError
from upturn.pool import Pool
from upturn.records import JsonValue

CONNECTIONS = 64
KILLS = 10
STREAM_PARTS = 200
"""Parts of a stream, in the measurement of workers."""
_PLACES = 8
"""Calls in service, and calls that wait, in the measurement of overload."""
_UPSTREAM_SECONDS = 0.2
"""Time of the upstream there. Ten times its capacity is 400 calls a second, so the cores are not the limit."""


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurements."""

    requests: int = 4_000
    litellm_requests: int = 800
    rate: float = 200.0
    rate_seconds: int = 15
    memory_requests: tuple[int, int] = (20_000, 200_000)
    abandoned: int = 10_000
    repetitions: int = 3
    has_bars: bool = True
    litellm: Path | None = None
    """The executable of LiteLLM in an environment of its own; None = no comparison."""
    compiled: Path | None = None
    """The executable of SGLang's router, the same."""
    log: Callable[[str], None] = field(default=lambda _: None)

    def bar(self, limit: float, *, is_upper: bool = False) -> Bar | None:
        """The bar; None = the sizes are too small for one."""
        return Bar(limit, is_upper) if self.has_bars else None


QUICK = Plan(200, 50, 50.0, 2, (200, 600), 50, 1, has_bars=False)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="upturn-gateway-") as name:
        yield Path(name)


def _checked(figures: dict[str, Any], requests: int) -> dict[str, Any]:
    if figures["statuses"] != {"200": requests}:
        raise MeasurementError(f"{requests} complete answers were expected, got {figures['statuses']}")
    return figures


def _stored(folder: Path) -> int:
    """Answered calls in the pool."""
    with sqlite3.connect(folder / "pool.db") as connection:
        return int(connection.execute("SELECT count(*) FROM calls WHERE status = 'answered'").fetchone()[0])


def measure_throughput(plan: Plan) -> Measurement:
    """Requests per second at 64 connections, and those of other gateways that are installed."""
    ours: list[float] = []
    theirs: list[float] = []
    compiled: list[float] = []
    streams: list[float] = []
    with _folder() as folder, mock_upstream(folder) as upstream, upturn_gateway(folder, upstream) as gateway:
        _checked(run_load(gateway, 8, 100), 100)
        for repetition in range(plan.repetitions):
            plan.log(f"throughput: repetition {repetition + 1} of {plan.repetitions}")
            ours.append(
                _checked(run_load(gateway, CONNECTIONS, plan.requests), plan.requests)["requests_per_second"]
            )
            streamed = run_load(gateway, CONNECTIONS, plan.requests, "--stream")
            streams.append(_checked(streamed, plan.requests)["requests_per_second"])
            if plan.litellm is not None:
                theirs.append(_litellm(plan, folder, upstream))
            if plan.compiled is not None:
                with compiled_gateway(folder, upstream, plan.compiled) as proxy:
                    compiled.append(_rate(proxy, plan.requests))
        time.sleep(1.0)
        expected = 100 + 2 * plan.requests * plan.repetitions
        if (stored := _stored(folder)) != expected:
            raise MeasurementError(f"{expected} calls were answered, {stored} are stored")
        size = (folder / "pool.db").stat().st_size
    rows = [
        result("throughput", spread(ours), "requests/s"),
        result("throughput_streamed", spread(streams), "requests/s"),
        result("bytes_per_call", size / expected, "bytes"),
    ]
    if theirs:
        ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
        rows.insert(0, result("throughput_vs_litellm", spread(ratios), "×", plan.bar(5.0)))
        rows.append(result("throughput_litellm", spread(theirs), "requests/s"))
    if compiled:
        rows.append(result("throughput_compiled", spread(compiled), "requests/s"))
    return Measurement(tuple(rows))


def _litellm(plan: Plan, folder: Path, upstream: Server) -> float:
    assert plan.litellm is not None
    with litellm_gateway(folder, upstream, plan.litellm) as proxy:
        return _rate(proxy, plan.litellm_requests)


def _rate(proxy: Server, requests: int) -> float:
    """Requests per second through another gateway."""
    _checked(run_load(proxy, 8, 50), 50)
    return float(_checked(run_load(proxy, CONNECTIONS, requests), requests)["requests_per_second"])


def measure_overhead(plan: Plan) -> Measurement:
    """Added latency at a fixed rate: through the gateway minus directly, by quantile, alternating."""
    requests = int(plan.rate * plan.rate_seconds)
    added: dict[str, list[float]] = {"p50": [], "p99": [], "first_byte_p99": []}
    with (
        _folder() as folder,
        mock_upstream(folder, delay_ms=20.0) as upstream,
        upturn_gateway(folder, upstream) as gateway,
    ):
        _checked(run_load(gateway, 8, 100), 100)
        for repetition in range(plan.repetitions):
            plan.log(f"overhead: repetition {repetition + 1} of {plan.repetitions}")
            rate = ("--rate", str(plan.rate))
            through = _checked(run_load(gateway, CONNECTIONS, requests, *rate), requests)
            direct = _checked(run_load(upstream, CONNECTIONS, requests, *rate), requests)
            streamed = _checked(run_load(gateway, CONNECTIONS, requests, *rate, "--stream"), requests)
            plain = _checked(run_load(upstream, CONNECTIONS, requests, *rate, "--stream"), requests)
            added["p50"].append(through["p50_ms"] - direct["p50_ms"])
            added["p99"].append(through["p99_ms"] - direct["p99_ms"])
            added["first_byte_p99"].append(streamed["first_byte_p99_ms"] - plain["first_byte_p99_ms"])
    return Measurement(
        (
            result("overhead_p50", spread(added["p50"]), "ms", plan.bar(2.0, is_upper=True)),
            result("overhead_p99", spread(added["p99"]), "ms", plan.bar(10.0, is_upper=True)),
            result("first_token_p99", spread(added["first_byte_p99"]), "ms", plan.bar(10.0, is_upper=True)),
        )
    )


def measure_kills(plan: Plan) -> Measurement:
    """Calls that were answered completely and are not stored, after ``kill -9`` in the middle of the load."""
    lost = acknowledged = 0
    with _folder() as folder, mock_upstream(folder) as upstream:
        for kill in range(KILLS if plan.has_bars else 2):
            plan.log(f"kill -9: {kill + 1}")
            with upturn_gateway(folder, upstream) as gateway:
                timer = threading.Timer(0.5 + 0.15 * kill, gateway.kill)
                timer.start()
                figures = run_load(gateway, CONNECTIONS, 10 * plan.requests, "--ids")
                timer.join()
            ids = [name for name in figures["ids"] if name]
            acknowledged += len(ids)
            Pool.open(folder / "pool.db").close()  # as the next start does: it stores what the journal holds
            with sqlite3.connect(folder / "pool.db") as connection:
                known = {row[0] for row in connection.execute("SELECT id FROM calls WHERE status = 'answered'")}
            lost += len(set(ids) - known)
    return Measurement(
        (
            result("lost_after_kill", float(lost), "calls", plan.bar(0.0, is_upper=True)),
            result("acknowledged_before_kill", float(acknowledged), "calls"),
        )
    )


def measure_memory(plan: Plan) -> Measurement:
    """Resident memory after many requests against that after a tenth, and after abandoned streams."""
    first, last = plan.memory_requests
    with (
        _folder() as folder,
        mock_upstream(folder, delay_ms=5.0) as upstream,
        upturn_gateway(folder, upstream) as gateway,
    ):
        plan.log(f"memory: {first:,} requests")
        _checked(run_load(gateway, CONNECTIONS, first), first)
        before = gateway.resident_bytes()
        plan.log(f"memory: {last - first:,} further requests")
        _checked(run_load(gateway, CONNECTIONS, last - first), last - first)
        after = gateway.resident_bytes()
        plan.log(f"memory: {plan.abandoned:,} abandoned streams")
        _abandon(gateway, plan.abandoned)
        abandoned = gateway.resident_bytes()
    bar = plan.bar(1.1, is_upper=True)
    return Measurement(
        (
            result("memory_ratio", after / before, "×", bar),
            result("memory_ratio_abandoned", abandoned / after, "×", bar),
        ),
        {"resident_mb": [round(value / 2**20) for value in (before, after, abandoned)]},
    )


def measure_overload(plan: Plan) -> Measurement:
    """Ten times the calls that the gateway may serve: what the served ones wait, and how soon it is over.

    The capacity is ``_PLACES`` calls at the same time, each of which takes the upstream ``_UPSTREAM_SECONDS``.
    Every other call must be refused with status 429 or 503 and Retry-After.
    """
    capacity = _PLACES / _UPSTREAM_SECONDS
    ratios: list[float] = []
    recoveries: list[float] = []
    served: list[float] = []
    unexplained = 0
    access = f"[access]\nmax_in_flight = {_PLACES}\nmax_waiting = {_PLACES}\n"
    with (
        _folder() as folder,
        mock_upstream(folder, delay_ms=1e3 * _UPSTREAM_SECONDS) as upstream,
        upturn_gateway(folder, upstream, access) as gateway,
    ):
        _checked(run_load(gateway, _PLACES, 100), 100)
        for repetition in range(plan.repetitions):
            plan.log(f"overload: repetition {repetition + 1} of {plan.repetitions}")
            calm = _at_rate(gateway, capacity / 4, plan.rate_seconds)
            flood = _at_rate(gateway, 10 * capacity, plan.rate_seconds)
            after = _at_rate(gateway, capacity / 4, plan.rate_seconds)
            unexplained += sum(
                count for name, count in flood["statuses"].items() if name not in ("200", "429", "503")
            )
            ratios.append(flood["p99_ms"] / calm["p99_ms"])
            served.append(flood["requests_per_second"] / capacity)
            slow = [
                due
                for due, status, seconds in after["trace"]
                if status != "200" or seconds > 1.5e-3 * calm["p99_ms"]
            ]
            recoveries.append(max(slow, default=0.0))
    return Measurement(
        (
            result("overload_p99_ratio", spread(ratios), "×", plan.bar(3.0, is_upper=True)),
            result("overload_recovery", spread(recoveries), "s", plan.bar(5.0, is_upper=True)),
            result("overload_served_share", spread(served), "of the capacity"),
            result("overload_other_errors", float(unexplained), "calls", plan.bar(0.0, is_upper=True)),
        ),
        {"capacity": capacity, "offered": 10 * capacity},
    )


def _at_rate(gateway: Server, rate: float, seconds: int) -> dict[str, Any]:
    return run_load(gateway, CONNECTIONS, int(rate * seconds), "--rate", str(rate), "--trace")


def _abandon(gateway: Server, count: int) -> None:
    """Opens streams and leaves before their end."""
    command = [sys.executable, "-m", "benchmarks.gateway.abandon", gateway.url, str(count)]
    subprocess.run(command, check=True, cwd=Path(__file__).resolve().parent.parent.parent)


def measure_workers(plan: Plan) -> Measurement:
    """Processor time of the main process per call, alone and with two workers: what limits the calls per second."""
    rows = []
    for name, parts, options in (("whole", 20, ()), ("streamed", STREAM_PARTS, ("--stream",))):
        alone, shared = (_main_milliseconds(plan, workers, parts, options) for workers in (1, 2))
        rows += [
            result(f"main_process_{name}", spread(alone), "ms a call"),
            result(f"main_process_{name}_with_workers", spread(shared), "ms a call"),
        ]
    return Measurement(tuple(rows))


def _main_milliseconds(plan: Plan, workers: int, parts: int, options: Sequence[str]) -> list[float]:
    settings, costs = f"[gateway]\nworkers = {workers}\n", list[float]()
    with (
        _folder() as folder,
        mock_upstream(folder, parts=parts) as upstream,
        upturn_gateway(folder, upstream, settings) as gateway,
    ):
        _checked(run_load(gateway, 16, 200, *options), 200)
        for repetition in range(plan.repetitions):
            plan.log(f"{workers} workers, {parts} parts: repetition {repetition + 1} of {plan.repetitions}")
            before = gateway.processor_seconds()
            _checked(run_load(gateway, 16, plan.requests // 2, *options), plan.requests // 2)
            costs.append((gateway.processor_seconds() - before) / (plan.requests // 2) * 1_000.0)
    return costs


MEASUREMENTS: Mapping[str, Callable[[Plan], Measurement]] = {
    "throughput": measure_throughput,
    "overhead": measure_overhead,
    "kills": measure_kills,
    "memory": measure_memory,
    "overload": measure_overload,
    "workers": measure_workers,
}


def details_of(plan: Plan) -> dict[str, JsonValue]:
    """The sizes, for the printed object."""
    return {"connections": CONNECTIONS, "requests": plan.requests, "rate": plan.rate}
