"""A changed configuration for a running service: what changes, or why the whole file is refused.

Agents, prices, routes, rules for families, the routing policy, the gates of releases, limits of tenants and keys,
and the retention can change while a service runs. Everything else needs a new start.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from upturn.arbiter import ServedAgent
from upturn.config import AgentConfig, Config, load_config, overlaps
from upturn.errors import ConfigError
from upturn.loop.run.context import store_agent_version, version_of
from upturn.loop.run.in_service import InService
from upturn.loop.run.preflight import load_checked_kit, name_problems
from upturn.pool import Pool
from upturn.records import AgentVersion, JsonValue

RELOADABLE = (
    "agents",
    "prices",
    "routing",
    "canary",
    "validation",
    "gateway.routes",
    "gateway.families",
    "gateway.keep_days",
    "access.key_limits",
    "access.tenants",
)
"""Sections, and settings of sections, that a running service applies."""


class ConfigChanges(NamedTuple):
    """What a new configuration changes."""

    config: Config
    """The new configuration, complete."""
    added: tuple[AgentConfig, ...]
    removed: tuple[str, ...]
    changed: tuple[AgentConfig, ...]
    """Agents of the same name with other settings."""
    is_policy_changed: bool
    """The new policy learns from the beginning of the pool."""
    settings: tuple[str, ...]
    """Other changed settings, such as ``canary.alpha``."""
    keys: tuple[str, ...] = ()
    """Agents, and ``gateway.embeddings``, with another API key."""
    warnings: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Ids of releases that are held because their agent is removed."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (
            self.added or self.removed or self.changed or self.is_policy_changed or self.settings or self.keys
        )


def reload_config(old: Config, path: Path, environ: Mapping[str, str]) -> ConfigChanges:
    """Returns what the file changes; raises ConfigError with all problems, and then nothing may be applied.

    The file is read and checked as at the start, with the sections of the same algorithms. A change that a running
    service cannot apply is a problem too.
    """
    kinds = {name: type(section) for name, section in old.algorithms.items()}
    new = load_config(path, environ, kinds, name_problems)
    changes = config_changes(old, new)
    load_checked_kit(new)
    return changes


def config_changes(old: Config, new: Config) -> ConfigChanges:
    """Returns the difference; raises ConfigError for changes that need a new start."""
    changed = list(_changes("", old.to_dict(), new.to_dict()))
    problems = [
        f"{change.name} was {change.before} and is now {change.after}, which takes effect with a new start only; "
        "restore it, or restart"
        for change in changed
        if not _is_in(change.name, RELOADABLE)
    ]
    old_agents = {agent.name: agent for agent in old.agents}
    new_agents = {agent.name: agent for agent in new.agents}
    for name, agent in new_agents.items():
        known = old_agents.get(name)
        if known is not None and known.kind != agent.kind:
            problems.append(
                f"agent {name!r} was of kind {known.kind!r} and is now {agent.kind!r}; give it a new name"
            )
    if problems:
        raise ConfigError(problems)
    return ConfigChanges(
        new,
        added=tuple(agent for name, agent in new_agents.items() if name not in old_agents),
        removed=tuple(name for name in old_agents if name not in new_agents),
        changed=tuple(agent for name, agent in new_agents.items() if old_agents.get(name, agent) != agent),
        is_policy_changed=old.routing != new.routing,
        settings=tuple(change.name for change in changed if not _is_in(change.name, ("agents", "routing"))),
    )


class _Change(NamedTuple):
    """A changed setting, with its values as text."""

    name: str
    before: str
    after: str


def _changes(name: str, before: JsonValue, after: JsonValue) -> Iterator[_Change]:
    """Yields the settings that differ, by their full names; a list is one setting."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if before != after:
            yield _Change(name, f"{before!r:.60}", f"{after!r:.60}")
        return
    for key in sorted(before.keys() | after.keys()):
        yield from _changes(f"{name}.{key}" if name else key, before.get(key), after.get(key))


def _is_in(name: str, others: Iterable[str]) -> bool:
    """Whether the setting is one of the others, or in one of them."""
    return any(overlaps(name, other) for other in others)


def apply_agents(changes: ConfigChanges, pool: Pool, in_service: InService) -> tuple[AgentVersion, ...]:
    """Puts added and changed agents into service and takes removed ones out; returns the versions of the former.

    Call it between decisions. A changed agent is a new version, which serves instead of what was promoted over the
    earlier one. Raises ReleaseError, with the agents in service as before, as ``InService.sync`` does.
    """
    served = [
        ServedAgent(store_agent_version(pool, version_of(agent, changes.config.agents)), agent.load_cap)
        for agent in (*changes.added, *changes.changed)
    ]
    in_service.reconfigure(served, changes.removed)
    return tuple(agent.incumbent for agent in served)
