"""The gateway of a configuration: pool, registry, router, upstreams and the HTTP application, opened together."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from fastapi import APIRouter
from starlette.types import ASGIApp

from upturn.arbiter import AgentRegistry, Constraints, Learner, Router, RunKey
from upturn.config import ApiKeys, Config, api_keys
from upturn.gateway.access import BudgetPrices, Guard, PricedTasks, open_guard, with_origins
from upturn.gateway.app import Parts, build_app
from upturn.gateway.background import Background
from upturn.gateway.evidence import Evidence, pool_routes
from upturn.gateway.observation import GatewayMetrics, open_telemetry
from upturn.gateway.observed_call import Observer
from upturn.gateway.operations import (
    Agents,
    Operators,
    Reloaded,
    Reloader,
    Source,
    admin_routes,
    agent_routes,
    policy_routes,
    release_routes,
    router_routes,
)
from upturn.gateway.texts import Texts, open_texts
from upturn.gateway.upstreams import Upstreams
from upturn.loop import AgentRuntime, Purpose, Service, embedder_of
from upturn.loop.online import CanaryEvidence, OnlineService, RouteTable, TaskQueue
from upturn.loop.run import (
    InService,
    apply_configured_freeze,
    limits_of,
    load_checked_kit,
    objective_of,
    policy_of,
    store_agent_version,
    version_of,
)
from upturn.pool import ALL_TENANTS, Pool, PoolRecall
from upturn.pool.checkpoints import checkpointed_pool
from upturn.pool.leases import Lease
from upturn.threads import cpu_quota, default_threads, usable_cores

POOL_PATH = "upturn.db"
"""The gateway's pool where the configuration names none, in the current folder."""

_log = logging.getLogger("upturn.gateway")


class Gateway(NamedTuple):
    """An open gateway."""

    app: ASGIApp
    service: OnlineService
    background: Background
    """What it does once a second; ``app`` runs it while it serves."""
    needs_key: bool
    """Whether requests without an API key are refused, when it was opened."""


@contextmanager
def open_gateway(config: Config, source: Source, *, host: str) -> Iterator[Gateway]:
    """Opens the gateway of a configuration; ``source``: where it was read, for a reload, and the environment that
    has the API keys of agents; ``host``: the address that the server binds to.

    Raises StoreBusyError if another process writes the pool, and ConfigError for an address that anybody could use.
    """
    keys = api_keys(config, source.environ, source.path)
    threads = config.run.threads or default_threads(usable_cores(), cpu_quota())
    upstreams = Upstreams(config, keys, threads=threads)
    with checkpointed_pool(config.pool.path or POOL_PATH, config.pool.checkpoints, has_journal=True) as pool:
        registry = AgentRegistry()
        in_service = _in_service(config, pool, registry)
        apply_configured_freeze(pool, config.routing)
        policy, metrics = policy_of(config), GatewayMetrics()
        learner = Learner(pool, policy, tenant=ALL_TENANTS, metrics=config.gateway.metrics)
        router = _router(config, registry, learner)
        evidence = CanaryEvidence(pool, metrics=config.gateway.metrics)
        background = Background(in_service, router, upstreams, learner, evidence=evidence, metrics=metrics)
        background.canary = config.canary
        background.sync()
        upstreams.load()
        learner.start()
        texts = open_texts(config, keys, pool)
        background.texts = texts.learner
        routes = RouteTable(config.gateway, registry)
        telemetry = open_telemetry(config.telemetry)
        guard, budgets = _guarded(config, pool, metrics, host=host)
        operators = Operators(pool, guard, background.sync)
        accounts = PricedTasks(pool, guard.limiter, guard.gate, upstreams.price_of)
        service = OnlineService(pool, router, routes, upstreams.of, price=upstreams.price, texts=texts.calls)
        tasks = _task_queue(config, keys, service, learner, learn=background.learn, accounts=accounts)
        reloaded = Reloaded(background, router, upstreams, routes, tasks, texts.calls, budgets, guard.limiter)
        reloader = Reloader(config, source, reloaded, operators, keys=keys)
        parts = Parts(
            service,
            guard,
            Observer(metrics, None if telemetry is None else telemetry.tracer),
            config.gateway,
            tasks=tasks,
            learn=background.learn,
            further=_operations(operators, reloader, service, learn=background.learn),
            background=partial(_run, reloader, background),
            keep_days=lambda: reloader.config.gateway.keep_days,
            retention=config.pool.retention,
            on_stop=partial(_close, upstreams, texts),
        )
        for warning in (*keys.warnings, *_waiting(in_service)):
            _log.warning("%s", warning)
        try:
            app = with_origins(build_app(parts), config.access)
            yield Gateway(app, parts.service, background, guard.gate.needs_key)
        finally:
            background.save()
            evidence.close()
            if telemetry is not None:
                telemetry.close()


async def _run(reloader: Reloader, background: Background) -> None:
    """Runs beside the calls."""
    reloader.listen()
    await background.run()


def _operations(
    operators: Operators, reloader: Reloader, online: OnlineService, *, learn: Callable[[], None]
) -> Sequence[APIRouter]:
    """Returns the endpoints for operators."""
    agents = Agents(operators, online.router, lambda: reloader.config)
    return (
        agent_routes(agents),
        release_routes(operators, agents.config),
        router_routes(operators, agents.config, learn),
        admin_routes(operators, reloader),
        policy_routes(operators, online.border),
        pool_routes(Evidence(online, operators, learn)),
    )


def _in_service(config: Config, pool: Pool, registry: AgentRegistry) -> InService:
    """Returns the configured agents, whose versions are stored now."""
    in_service = InService(pool, registry)
    for agent in config.agents:
        version = store_agent_version(pool, version_of(agent, config.agents))
        in_service.configure(version, max_concurrent=agent.load_cap)
    return in_service


def _waiting(in_service: InService) -> Iterator[str]:
    for release in in_service.stranded_releases():
        yield f"release {release.id} waits: agent {release.agent!r} is not configured"


def _guarded(config: Config, pool: Pool, metrics: GatewayMetrics, *, host: str) -> tuple[Guard, BudgetPrices]:
    """Returns the checks of requests, and what warns of budgets without prices."""
    budgets = BudgetPrices(config, partial(_log.warning, "%s"))
    guard = open_guard(
        config.access,
        pool,
        host=host,
        tenant=config.pool.tenant,
        on_queue=metrics.show_queue,
        on_keys=budgets.follow_keys,
    )
    budgets.follow_config(config)
    return guard, budgets


def _router(config: Config, registry: AgentRegistry, learner: Learner) -> Router:
    """Returns the router with the configured objective and constraints; call it before the learner starts."""
    key = RunKey(f"gateway-{uuid4().hex}", config.run.seed)
    router = Router(registry, learner.policy, key, objective=objective_of(config, registry, learner))
    router.constraints = Constraints(config.agents, config.access.tenants)
    return router


def _task_queue(
    config: Config,
    keys: ApiKeys,
    online: OnlineService,
    learner: Learner,
    *,
    learn: Callable[[], None],
    accounts: PricedTasks,
) -> TaskQueue:
    """Returns the queue of tasks in the configured environment."""
    kit = load_checked_kit(config)
    agent_keys = {agent.name: keys.of(agent) for agent in config.agents}
    recall = PoolRecall(learner.pool, embedder=embedder_of(config.pool, keys, learner.pool))
    runtime = AgentRuntime(kit, limits_of(config), agent_keys, _log.warning, recall=recall)
    purpose = Purpose("gateway/tasks", config.run.seed)
    accounts.start()
    lease = Lease(learner.pool, "tasks")
    service = Service(runtime, online.router, lease.pool, purpose, learner=learner, border=online.border)
    return TaskQueue(learner.pool, service, learn, accounts=accounts, lease=lease, border=online.border)


async def _close(upstreams: Upstreams, texts: Texts) -> None:
    await upstreams.close()
    await texts.close()
