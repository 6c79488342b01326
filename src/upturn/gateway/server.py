"""The gateway of a configuration: pool, registry, router, upstreams and the HTTP application, opened together."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from starlette.types import ASGIApp

from upturn.arbiter import AgentRegistry, Router, RunKey
from upturn.config import Config
from upturn.gateway.access import open_guard, with_origins
from upturn.gateway.app import Parts, build_app
from upturn.gateway.observation import GatewayMetrics, open_telemetry
from upturn.gateway.observed_call import Observer
from upturn.gateway.upstreams import Upstreams
from upturn.loop import AgentRuntime, Purpose, Service
from upturn.loop.online import OnlineService, RouteTable, TaskQueue
from upturn.loop.run import limits_of, load_checked_kit, policy_of, store_agent_version, version_of
from upturn.pool import Pool
from upturn.threads import cpu_quota, default_threads, usable_cores

POOL_PATH = Path("upturn.db")
"""The gateway's pool where the configuration names none, in the current folder."""

_log = logging.getLogger("upturn.gateway")


class Gateway(NamedTuple):
    """An open gateway."""

    app: ASGIApp
    service: OnlineService


@contextmanager
def open_gateway(config: Config, keys: Mapping[str, str], *, host: str) -> Iterator[Gateway]:
    """Opens the gateway of a configuration; ``keys``: API keys of agents by environment variable;
    ``host``: the address that the server binds to.

    Raises StoreBusyError if another process writes the pool, and ConfigError for an address that anybody could use.
    """
    threads = config.run.threads or default_threads(usable_cores(), cpu_quota())
    upstreams = Upstreams(config, keys, threads=threads)
    with Pool.open(config.pool.path or POOL_PATH) as pool:
        registry = AgentRegistry()
        for agent in config.agents:
            version = store_agent_version(pool, version_of(agent))
            registry.add(version, max_concurrent=agent.load_cap)
            upstreams.add(version)
        router = Router(registry, policy_of(config), RunKey(f"gateway-{uuid4().hex}", config.run.seed))
        queue = _task_queue(config, keys, pool, router)
        service = OnlineService(pool, router, RouteTable(config.gateway, registry), upstreams.of)
        metrics = GatewayMetrics()
        guard = open_guard(config.access, pool, host=host, tenant=config.pool.tenant, on_queue=metrics.show_queue)
        telemetry = open_telemetry(config.telemetry)
        observer = Observer(metrics, None if telemetry is None else telemetry.tracer)
        app = build_app(Parts(service, guard, observer, config.gateway, tasks=queue, on_stop=upstreams.close))
        try:
            yield Gateway(with_origins(app, config.access), service)
        finally:
            if telemetry is not None:
                telemetry.close()


def _task_queue(config: Config, keys: Mapping[str, str], pool: Pool, router: Router) -> TaskQueue:
    """Returns the queue of tasks in the configured environment."""
    kit = load_checked_kit(config)
    agent_keys = {agent.name: keys.get(agent.api_key_env, "") for agent in config.agents}
    runtime = AgentRuntime(kit, limits_of(config), agent_keys, _log.warning)
    return TaskQueue(pool, Service(runtime, router, pool, Purpose("gateway/tasks", config.run.seed)))
