"""The agents in service as the pool has them: promotions, canaries, and operators' limits.

``sync`` is called before each wave, so what an operator changes in the pool takes effect with the next one.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from sqlalchemy import func, select

from upturn.arbiter import AgentRegistry, ServedAgent
from upturn.deployment import OPEN_STATES, candidate_share, incumbent_of
from upturn.errors import ReleaseError
from upturn.pool import Pool, schema
from upturn.records import AgentLimits, AgentVersion, Release


class InService:
    """Makes a registry serve what the pool says about the configured agents."""

    def __init__(self, pool: Pool, registry: AgentRegistry) -> None:
        self._pool = pool
        self._registry = registry
        self._configured: dict[str, ServedAgent] = {}
        self._seen: tuple[int, int] | None = None

    def configure(self, version: AgentVersion, *, max_concurrent: int | None = None) -> None:
        """Adds an agent of the configuration, or replaces it; ``version`` is stored in the pool."""
        self._configured[version.agent] = ServedAgent(version, max_concurrent)
        self._seen = None

    def reconfigure(self, changed: Iterable[ServedAgent], removed: Iterable[str]) -> None:
        """Adds, replaces and removes agents of the configuration, all or, if it raises ReleaseError, none."""
        gone = frozenset(removed)
        configured = {name: served for name, served in self._configured.items() if name not in gone}
        configured |= {served.agent: served for served in changed}
        latest, states = self._last_change(), self._states(configured)
        self._configured = configured
        for agent in gone & self._registry.agents().keys():
            self._registry.remove(agent)
        self._put(states)
        self._seen = latest

    def sync(self) -> bool:
        """Updates the registry if releases or limits have changed; returns whether they have.

        Raises ReleaseError, with nothing changed, for a promoted or candidate version that is not in the pool, or
        whose model is gone.
        """
        latest = self._last_change()
        if latest == self._seen:
            return False
        self._put(self._states(self._configured))
        self._seen = latest
        return True

    def _states(self, configured: Mapping[str, ServedAgent]) -> list[ServedAgent]:
        """Returns the configured agents as the pool has them."""
        releases = self._pool.states(Release)
        limits = {limit.id: limit for limit in self._pool.states(AgentLimits)}
        versions = {version.id: version for version in self._pool.agent_versions()}
        return [
            _served(agent, [release for release in releases if release.agent == name], limits.get(name), versions)
            for name, agent in configured.items()
        ]

    def _put(self, states: Iterable[ServedAgent]) -> None:
        for served in states:
            self._registry.put(served)

    def forget(self) -> None:
        """Makes the next ``sync`` read everything, e.g. because the registry was changed by something else."""
        self._seen = None

    def open_releases(self) -> list[Release]:
        """Returns the configured agents' releases that are not decided, in the order of their last change."""
        return [
            release
            for release in self._pool.states(Release)
            if release.state in OPEN_STATES and release.agent in self._configured
        ]

    def stranded_releases(self) -> list[Release]:
        """Returns the running canaries of agents that are not configured; nothing can decide them."""
        return [
            release
            for release in self._pool.states(Release)
            if release.state == "canary" and not release.is_held and release.agent not in self._configured
        ]

    def _last_change(self) -> tuple[int, int]:
        with self._pool.engine.connect() as connection:
            numbers = [
                connection.execute(select(func.max(table.c.sequence))).scalar() or 0
                for table in (schema.releases, schema.agent_limits)
            ]
        return numbers[0], numbers[1]


def _served(
    configured: ServedAgent,
    releases: list[Release],
    limits: AgentLimits | None,
    versions: Mapping[str, AgentVersion],
) -> ServedAgent:
    serving = incumbent_of(configured.incumbent.id, releases)
    canary = next(
        (release for release in releases if release.state == "canary" and release.incumbent == serving), None
    )
    incumbent = configured.incumbent if serving == configured.incumbent.id else _version(versions, serving)
    if canary is None:
        return ServedAgent(incumbent, configured.max_concurrent, limits=limits)
    candidate = _version(versions, canary.candidate)
    return ServedAgent(
        incumbent, configured.max_concurrent, candidate, candidate_share(canary), canary.id, limits=limits
    )


def _version(versions: Mapping[str, AgentVersion], version_id: str) -> AgentVersion:
    version = versions.get(version_id)
    if version is None:
        raise ReleaseError(f"version {version_id!r} of a release is not in the pool; store it, or restore the pool")
    is_folder = version.has_local_model and version.weights_hash and "/" in version.model
    if is_folder and not Path(version.model).exists():
        raise ReleaseError(
            f"version {version_id!r} serves, but its model {version.model!r} is gone; restore the folder, or start "
            "and promote a release of another version"
        )
    return version
