"""Another configuration for a running server: the whole file is checked first, and applied between two calls.

Order of steps: read and check the file; refuse what needs a new start; learn with a new policy, in a thread; then,
without a pause, agents, upstreams, routes and policy. Up to there everything stays as it was. Last, the releases of
agents that are gone are held, new local models are loaded, and the act is recorded.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from upturn.arbiter import AgentRegistry, Constraints, Learner, Objective, Router
from upturn.config import ApiKeys, Config, api_keys
from upturn.deployment import Override
from upturn.errors import ConfigError, ReleaseError, UpturnError
from upturn.gateway.access import BudgetPrices, Limiter
from upturn.gateway.background import Background
from upturn.gateway.operations.operator import Operators
from upturn.gateway.texts import embeddings_upstream
from upturn.gateway.upstreams import Upstreams
from upturn.loop.online import CallTexts, FamilyGuess, RouteTable, TaskQueue
from upturn.loop.run import ConfigChanges, apply_configured_freeze, objective_of, policy_of, reload_config
from upturn.pool import ALL_TENANTS, Pool

_log = logging.getLogger("upturn.gateway")


class Reloaded(NamedTuple):
    """The parts of a server that a configuration changes."""

    background: Background
    router: Router
    upstreams: Upstreams
    routes: RouteTable
    tasks: TaskQueue
    texts: CallTexts
    budgets: BudgetPrices
    limiter: Limiter


class Source(NamedTuple):
    """Where the configuration comes from."""

    path: Path | None
    """None = there is no file."""
    environ: Mapping[str, str]
    """Environment variables, for API keys."""


class Reloader:
    """Reloads the configuration of one server. For one event loop."""

    def __init__(
        self, config: Config, source: Source, parts: Reloaded, operators: Operators, *, keys: ApiKeys
    ) -> None:
        """``keys``: those of ``config``."""
        self.config = config
        """The configuration in effect."""
        self.keys = keys
        """The API keys in effect."""
        self._source = source
        self._parts = parts
        self._operators = operators
        self._lock = asyncio.Lock()
        self._running: asyncio.Future[None] | None = None

    async def reload(self, override: Override) -> ConfigChanges:
        """Returns what has changed, once it is in effect and recorded.

        Raises ConfigError with all problems; then nothing has changed.
        """
        async with self._lock:
            if self._source.path is None:
                raise ConfigError(["the server was started without a configuration file; start it with --config"])
            changes = await asyncio.to_thread(reload_config, self.config, self._source.path, self._source.environ)
            keys = await asyncio.to_thread(api_keys, changes.config, self._source.environ, self._source.path)
            before, after = _keys_by_name(self.config, self.keys), _keys_by_name(changes.config, keys)
            changed_keys = tuple(name for name in after if name in before and before[name] != after[name])
            changes = changes._replace(keys=changed_keys)
            await asyncio.to_thread(apply_configured_freeze, self._operators.pool, changes.config.routing)
            registry = self._parts.router.registry
            routing = await asyncio.to_thread(_trained, self._operators.pool, changes.config, registry)
            self._apply(changes, routing, keys)
            await asyncio.to_thread(self._parts.upstreams.load)
            held = await asyncio.to_thread(self._parts.background.hold_stranded, changes.removed, override)
            changes = changes._replace(held=held)
            for warning in keys.warnings:
                _log.warning("%s", warning)
            of_budgets = self._parts.budgets.follow_config(changes.config)
            changes = changes._replace(warnings=(*keys.warnings, *filter(None, [of_budgets])))
            await self._operators.record("reload", override, changes.config.config_hash)
            return changes

    def _apply(self, changes: ConfigChanges, routing: "_Routing", keys: ApiKeys) -> None:
        config, parts = changes.config, self._parts
        try:
            parts.background.reconfigure(changes)
        except ReleaseError as exc:
            raise ConfigError([str(exc)]) from exc
        parts.upstreams.replace(config, keys)
        parts.tasks.replace_keys({agent.name: keys.of(agent) for agent in config.agents})
        embedder, server = parts.texts.embedder, config.gateway.embeddings
        if embedder is not None and server is not None and "gateway.embeddings" in changes.keys:
            embedder.replace(embeddings_upstream(server, keys))
        parts.routes.replace(config.gateway)
        parts.limiter.configure(config.access)
        parts.texts.families = FamilyGuess(config.gateway.families, parts.texts.families.clusters)
        parts.router.objective = routing.objective
        parts.router.constraints = Constraints(config.agents, config.access.tenants)
        parts.background.replace_learner(routing.learner)
        self.config, self.keys = config, keys

    def listen(self) -> None:
        """Reloads at SIGHUP; only in the main thread, where signals can be handled."""
        if threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_signal)

    def _on_signal(self) -> None:
        self._running = asyncio.ensure_future(self._reload_logged())  # a task without a reference may be deleted

    async def _reload_logged(self) -> None:
        try:
            changes = await self.reload(Override("SIGHUP", "signal"))
        except UpturnError as exc:
            _log.error("the configuration is not reloaded, and the server goes on with the one before: %s", exc)
        else:
            _log.warning("the configuration is reloaded: %s", summary(changes))


def summary(changes: ConfigChanges) -> str:
    """Returns what changes as a sentence."""
    parts = [
        *(f"agent {agent.name} added" for agent in changes.added),
        *(f"agent {agent} removed" for agent in changes.removed),
        *(f"agent {agent.name} changed" for agent in changes.changed),
        *(["routing"] if changes.is_policy_changed else []),
        *changes.settings,
        *(f"API key of {name}" for name in changes.keys),
        *(f"release {release} held" for release in changes.held),
    ]
    return ", ".join(parts) or "nothing has changed"


def _keys_by_name(config: Config, keys: ApiKeys) -> dict[str, str]:
    """Returns the key of each agent, and that of ``gateway.embeddings``; empty = none is sent."""
    embeddings = config.gateway.embeddings
    named = {} if embeddings is None else {"gateway.embeddings": keys.of(embeddings)}
    return named | {agent.name: keys.of(agent) for agent in config.agents}


class _Routing(NamedTuple):
    """What a router decides by."""

    learner: Learner
    objective: Objective | None


def _trained(pool: Pool, config: Config, registry: AgentRegistry) -> _Routing:
    """Returns the configured policy, which has learned what is stored; from its snapshot on, if it has one."""
    learner = Learner(pool, policy_of(config), tenant=ALL_TENANTS, metrics=config.gateway.metrics)
    objective = objective_of(config, registry, learner)
    learner.start()
    return _Routing(learner, objective)
