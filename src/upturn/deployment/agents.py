"""The registry of agents for operators and trainers: what agents may do, what they can do, their improved versions.

Every function reads or changes a pool. Changes take effect in a running service before its next decision.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from upturn.arbiter import Capability, DiscountedThompson, Learner, Tally, capabilities
from upturn.config import CanarySettings, MetricConfig, ValidationSettings
from upturn.deployment.release import Override, check_free, history_of, incumbent_of, start
from upturn.deployment.validation import Validation, pairs_of, validate
from upturn.errors import ReleaseError, UnknownNameError
from upturn.pool import Pool, Scope, Selection, States
from upturn.records import AgentLimits, AgentVersion, Evaluation, Release, Split, Task, record

VERSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
HIGHEST_TEMPERATURE = 5.0
"""As of ``agents.temperature`` in the configuration."""


@record
class CapabilityUpdate:
    """What to change about an agent; None = leave it as it is."""

    agent: str
    capabilities: tuple[str, ...] | None = None
    """Environments that it may act in; empty = any."""
    tenants: tuple[str, ...] | None = None
    """Tenants that it may serve."""
    max_concurrent: int | None = None
    """Maximum number of tasks in flight, at least 1."""
    is_suspended: bool | None = None
    """Whether it gets no tasks."""


def update_agent_capabilities(pool: Pool, update: CapabilityUpdate, override: Override) -> AgentLimits:
    """Returns the agent's limits after the update, once they are durable.

    Raises UnknownNameError for an agent without a version in the pool, ReleaseError for an update that changes
    nothing, a load cap below 1, or without who and why.
    """
    _check_agent(pool, update.agent)
    note = override.note("updated")
    changed = {
        name: value
        for name in ("capabilities", "tenants", "max_concurrent", "is_suspended")
        if (value := getattr(update, name)) is not None
    }
    if not changed:
        raise ReleaseError("an update names at least one of environments, tenants, max_concurrent and is_suspended")
    if update.max_concurrent is not None and update.max_concurrent < 1:
        raise ReleaseError(
            f"max_concurrent must be at least 1, got {update.max_concurrent!r}; suspend the agent instead"
        )

    def change(states: States[AgentLimits]) -> AgentLimits:
        current = states.get(update.agent) or AgentLimits(update.agent, "")
        return replace(current, reason=note, **changed)

    return pool.change(AgentLimits, change)


def deploy_improved_agent(  # noqa: PLR0917 - as ``start``
    pool: Pool,
    incumbent: str,
    candidate: str,
    ground: Validation | Override,
    settings: CanarySettings,
) -> Release:
    """Returns the started release of a version over the serving one, once it is durable.

    ``incumbent``, ``candidate``: ids of versions in the pool. Raises UnknownNameError for others, ReleaseError as
    ``start`` does, if a release of the agent is open, and if the incumbent was replaced.
    """
    versions = {version.id: version for version in pool.agent_versions()}
    pair = _version(versions, incumbent), _version(versions, candidate)

    def begin(states: States[Release]) -> Release:
        releases = states.all()
        check_free(pair[0].agent, releases)
        if (serving := incumbent_of(incumbent, releases)) != incumbent:
            raise ReleaseError(
                f"{incumbent} serves no more: {serving} was promoted over it; start the release over it"
            )
        history = history_of(releases, incumbent, candidate, pair[0].agent)
        return start(*pair, settings, ground, history=history)

    return pool.change(Release, begin)


def validate_agent_performance(
    pool: Pool,
    incumbent: str,
    candidate: str,
    settings: ValidationSettings,
    *,
    tenant: Scope,
    split: Split = "heldout",
) -> Validation:
    """Returns the verdict on a candidate from stored evaluations of both versions, paired by task.

    Only tasks that both have done count. Equal evidence gives an equal record. Raises UnknownNameError for versions
    that are not in the pool.
    """
    versions = {version.id: version for version in pool.agent_versions()}
    tasks: dict[str, Task] = {}
    evaluated: list[dict[str, list[Evaluation]]] = []
    for name in (incumbent, candidate):
        _version(versions, name)
        by_task: dict[str, list[Evaluation]] = defaultdict(list)
        selection = Selection(agent_versions=(name,), splits=(split,))
        for experience in pool.experiences(selection, tenant=tenant, has_tokens=False):
            tasks[experience.task.id] = experience.task
            evaluations = by_task[experience.task.id]
            if experience.evaluation is not None and experience.evaluation.verdict != "missing":
                evaluations.append(experience.evaluation)
        evaluated.append(by_task)
    shared = [tasks[name] for name in sorted(evaluated[0].keys() & evaluated[1].keys())]
    return validate(pairs_of(shared, evaluated[0], evaluated[1], ("safety",)), settings, seed=0)


class CapabilityProfiles:
    """The results of every version in every family of the routed tasks; each look reads what came since the last.

    All outcomes count the same, without discount and without other families. For one thread at a time.
    """

    def __init__(self, pool: Pool, *, tenant: Scope, metrics: Sequence[MetricConfig] = ()) -> None:
        """``metrics``: the configured ones of feedback; () = the default ones."""
        self._tally = Tally(discount=1.0, borrow=0.0)
        policy = DiscountedThompson(tally=self._tally)
        self._learner = Learner(pool, policy, tenant=tenant, metrics=metrics, may_freeze=False)

    def of(self, agents: Sequence[str] = ()) -> list[Capability]:
        """Returns the profiles with 95 % credible intervals; ``agents``: only these; empty = all."""
        self._learner.catch_up()
        return [
            capability
            for capability in capabilities(self._tally)
            if not agents or capability.version.rpartition("@")[0] in agents
        ]


def capability_profiles(
    pool: Pool, *, tenant: Scope, agents: Sequence[str] = (), metrics: Sequence[MetricConfig] = ()
) -> list[Capability]:
    """Returns the results of every version in every family; see ``CapabilityProfiles``."""
    return CapabilityProfiles(pool, tenant=tenant, metrics=metrics).of(agents)


@record
class VersionChange:
    """What a new version does otherwise; None = as the version that it comes from."""

    base: str
    """Id of a version in the pool."""
    name: str
    """Name of the new version, without its agent."""
    model: str | None = None
    """For an endpoint: the name of another model at the same server."""
    prompt: str | None = None
    """For a local model or an endpoint: the system prompt; empty = none."""
    temperature: float | None = None
    """For a local model or an endpoint: at least 0 (greedy)."""


def add_version(pool: Pool, change: VersionChange) -> AgentVersion:
    """Returns the new version of an agent once it is stored; it serves when a release promotes it.

    Its server or model folder is that of the base. Raises UnknownNameError for an unknown base, ReleaseError for a
    change without effect on its kind, an unusable name, and a name that another version has.
    """
    versions = {version.id: version for version in pool.agent_versions()}
    base = _version(versions, change.base)
    if problems := list(_problems(base, change)):
        raise ReleaseError("; ".join(problems))
    parameters = dict(base.parameters)
    if change.temperature is not None:
        parameters["temperature"] = change.temperature
    version = replace(
        base,
        version=change.name,
        model_name=base.model_name if change.model is None else change.model,
        prompt=base.prompt if change.prompt is None else change.prompt,
        parameters=parameters,
        parent=base.id,
        run=None,
    )
    if versions.get(version.id, version) != version:
        raise ReleaseError(f"{version.id!r} is stored with other content; give the new version another name")
    pool.append(version)
    return version


def _problems(base: AgentVersion, change: VersionChange) -> Iterator[str]:
    if not VERSION_NAME.fullmatch(change.name):
        yield (
            f"a version's name has 1 to 100 letters, digits and the characters . _ -, beginning with a letter or a "
            f"digit, got {change.name!r:.120}"
        )
    if change.model is None and change.prompt is None and change.temperature is None:
        yield "a new version names at least one of model, prompt and temperature"
    if change.model is not None and (base.kind != "endpoint" or not change.model.strip()):
        yield f"model names another model at the server of an endpoint, got {change.model!r} for kind {base.kind!r}"
    if base.kind not in ("local_model", "endpoint") and (change.prompt, change.temperature) != (None, None):
        yield f"prompt and temperature have no effect on kind {base.kind!r}"
    if change.temperature is not None and not 0 <= change.temperature <= HIGHEST_TEMPERATURE:
        yield f"temperature must lie in [0, {HIGHEST_TEMPERATURE:g}], got {change.temperature!r}"


def _check_agent(pool: Pool, agent: str) -> None:
    known = sorted({version.agent for version in pool.agent_versions()})
    if agent not in known:
        raise UnknownNameError(f"unknown agent {agent!r}; in this pool: {', '.join(known) or 'none'}")


def _version(versions: Mapping[str, AgentVersion], version_id: str) -> AgentVersion:
    if version_id not in versions:
        known = ", ".join(versions) or "none"
        raise UnknownNameError(f"agent version {version_id!r} is not in the pool; known: {known}")
    return versions[version_id]
