"""Metrics of the gateway in Prometheus's form. Each server has its own registry; nothing is global.

Labels come from
clients only after they were checked, and each metric has at most ``MAX_SERIES`` combinations of labels; later ones
are counted under ``other``, so that nobody can fill the memory.
"""

from collections.abc import Mapping
from typing import Generic, Literal, NamedTuple, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.process_collector import ProcessCollector

from upturn.pool import Pruned

MAX_SERIES = 1_000
"""Combinations of labels of one metric. A histogram has about fifteen numbers for each."""

CONTENT_TYPE = CONTENT_TYPE_LATEST
OTHER = "other"

OVERHEAD_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
"""Seconds; the bars are 2 and 10 ms."""
_CALL_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

BreakerState = Literal["closed", "half_open", "open"]
_BREAKER_VALUES: Mapping[BreakerState, float] = {"closed": 0.0, "half_open": 0.5, "open": 1.0}
FeedbackOutcome = Literal["stored", "repeated", "refused"]
MetricT = TypeVar("MetricT", bound=MetricWrapperBase)


class ServedCall(NamedTuple):
    """What is counted of one call."""

    route: str
    """Empty = the client named an agent."""
    agent: str
    """Empty = none was chosen."""
    dialect: str
    status: int
    """HTTP status of the answer."""
    seconds: float
    """From arrival to the answer's end."""
    overhead_seconds: float
    """The part that was not spent waiting for the upstream."""
    first_token_seconds: float | None = None
    """None = nothing was answered."""
    input_tokens: int = 0
    """All of the prompt, cached ones included."""
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cache_write_tokens: int = 0
    """Of ``input_tokens``."""
    hedge: str = ""
    """Which attempt answered a call that was sent twice; empty = it was sent once."""


class _Series(Generic[MetricT]):
    """The children of one metric by their labels; looking one up takes a dictionary access."""

    def __init__(self, metric: MetricT, label_count: int) -> None:
        self._metric = metric
        self._others = (OTHER,) * label_count
        self._children: dict[tuple[str, ...], MetricT] = {}

    def of(self, *labels: str) -> MetricT:
        """The child with these labels, or with ``other`` for all of them."""
        child = self._children.get(labels)
        if child is None:
            if not labels:
                return self._metric
            if len(self._children) >= MAX_SERIES:
                labels = self._others
            child = self._children[labels] = self._metric.labels(*labels)
        return child


class GatewayMetrics:
    """The numbers of one server. Methods may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        """For further collectors of the same server."""
        ProcessCollector(registry=self.registry)
        count, measure, show = self._counter, self._histogram, self._gauge
        self._requests = count("requests", "Answered requests.", "route", "agent", "dialect", "status")
        self._refused = count("refused", "Requests refused before an agent was chosen.", "reason")
        self._tokens = count("tokens", "Tokens of calls.", "agent", "kind")
        self._cost = count("cost_usd", "Cost of calls in USD.", "agent")
        self._hedges = count("hedges", "Calls that were sent a second time.", "agent", "answered_by")
        self._feedback = count("feedback", "Feedback values.", "outcome")
        self._overhead = measure("overhead_seconds", "Time in the gateway itself.", OVERHEAD_BUCKETS, "dialect")
        self._seconds = measure(
            "request_seconds", "From arrival to the answer's end.", _CALL_BUCKETS, "route", "agent"
        )
        self._first = measure(
            "first_token_seconds", "From arrival to the first token.", _CALL_BUCKETS, "route", "agent"
        )
        self._in_flight = show("in_flight", "Calls in service.")
        self._waiting = show("waiting", "Calls that wait for their turn.")
        self._breakers = show("breaker", "Circuit breaker: 0 closed, 0.5 half open, 1 open.", "agent")
        self._pool_bytes = show("pool_bytes", "Size of the pool's database.")
        self._pruned = count("pruned", "Trajectories deleted because they were beyond pool.retention.")
        self._protected = show("protected", "Trajectories beyond pool.retention that a version or snapshot needs.")
        self._lag = show("learner_lag_records", "Records stored since the learner last looked.")

    def observe(self, call: ServedCall) -> None:
        """Counts an answered call, also one that failed."""
        status = str(call.status)
        self._requests.of(call.route, call.agent, call.dialect, status).inc()
        self._overhead.of(call.dialect).observe(call.overhead_seconds)
        self._seconds.of(call.route, call.agent).observe(call.seconds)
        if call.first_token_seconds is not None:
            self._first.of(call.route, call.agent).observe(call.first_token_seconds)
        for kind, tokens in (
            ("input", call.input_tokens - call.cached_input_tokens - call.cache_write_tokens),
            ("cached_input", call.cached_input_tokens),
            ("cache_write", call.cache_write_tokens),
            ("output", call.output_tokens),
        ):
            if tokens > 0:
                self._tokens.of(call.agent, kind).inc(tokens)
        if call.hedge:
            self._hedges.of(call.agent, call.hedge).inc()
        if call.cost_usd > 0:
            self._cost.of(call.agent).inc(call.cost_usd)

    def refuse(self, code: str) -> None:
        """Counts a refused request by the code of its error."""
        self._refused.of(code).inc()

    def feedback(self, outcome: FeedbackOutcome) -> None:
        """Counts a feedback value."""
        self._feedback.of(outcome).inc()

    def show_queue(self, in_flight: int, waiting: int) -> None:
        """Sets the numbers of served and waiting calls; ``AdmissionQueue.on_change``."""
        self._in_flight.of().set(in_flight)
        self._waiting.of().set(waiting)

    def show_pool(self, pruned: Pruned) -> None:
        """Sets the size of the pool and what its retention did."""
        self._pool_bytes.of().set(pruned.stored_bytes)
        self._pruned.of().inc(pruned.deleted)
        self._protected.of().set(pruned.protected)

    def show_breaker(self, agent: str, state: BreakerState) -> None:
        """Sets the state of an agent's circuit breaker."""
        self._breakers.of(agent).set(_BREAKER_VALUES[state])

    def show_learner_lag(self, records: int) -> None:
        """Sets how many records were stored since the learner last looked."""
        self._lag.of().set(records)

    def page(self) -> bytes:
        """Returns the numbers in Prometheus's text form."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> _Series[Counter]:
        return _Series(Counter(f"upturn_{name}", text, labels, registry=self.registry), len(labels))

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> _Series[Histogram]:
        metric = Histogram(f"upturn_{name}", text, labels, registry=self.registry, buckets=buckets)
        return _Series(metric, len(labels))

    def _gauge(self, name: str, text: str, *labels: str) -> _Series[Gauge]:
        metric = Gauge(f"upturn_{name}", text, labels, registry=self.registry)
        return _Series(metric, len(labels))
