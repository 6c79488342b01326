"""A changed configuration for a running service: what changes, or why the whole file is refused.

Agents and the routing policy can change while a service runs. Everything else needs a new start.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from upturn.config import AgentConfig, Config, load_config
from upturn.errors import ConfigError
from upturn.loop.run.context import store_agent_version, version_of
from upturn.loop.run.in_service import InService
from upturn.pool import Pool
from upturn.records import AgentVersion

RELOADABLE = ("agents", "routing", "canary", "validation")
"""Sections that a running service applies."""


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
    sections: tuple[str, ...]
    """Other changed sections."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.added or self.removed or self.changed or self.is_policy_changed or self.sections)


def reload_config(old: Config, path: Path, environ: Mapping[str, str]) -> ConfigChanges:
    """Returns what the file changes; raises ConfigError with all problems, and then nothing may be applied.

    The file is read as at the start, with the sections of the same algorithms. A change of a section that a running
    service cannot apply is a problem too.
    """
    kinds = {name: type(section) for name, section in old.algorithms.items()}
    return config_changes(old, load_config(path, environ, kinds))


def config_changes(old: Config, new: Config) -> ConfigChanges:
    """Returns the difference; raises ConfigError for changes that need a new start."""
    before, after = old.to_dict(), new.to_dict()
    changed_sections = [name for name in after if after[name] != before.get(name)]
    problems = [
        f"{name} has changed, which takes effect with a new start only; restore it, or restart"
        for name in changed_sections
        if name not in RELOADABLE
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
        is_policy_changed="routing" in changed_sections,
        sections=tuple(name for name in changed_sections if name in ("canary", "validation")),
    )


def apply_agents(changes: ConfigChanges, pool: Pool, in_service: InService) -> tuple[AgentVersion, ...]:
    """Puts added and changed agents into service and takes removed ones out; returns the versions of the former.

    Call it between decisions. A changed agent is a new version, which serves instead of what was promoted over the
    earlier one.
    """
    for name in changes.removed:
        in_service.remove(name)
    versions = []
    for agent in (*changes.added, *changes.changed):
        version = store_agent_version(pool, version_of(agent))
        in_service.configure(version, max_concurrent=agent.load_cap)
        versions.append(version)
    in_service.sync()
    return tuple(versions)
