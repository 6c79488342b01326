"""The registry of agents for operators and trainers: what agents may do, what they can do, their improved versions.

Every function reads or changes a pool. Changes take effect in a running service before its next decision.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from upturn.arbiter import Capability, DiscountedThompson, Learner, Tally, capabilities
from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.release import Override, check_free, history_of, incumbent_of, start
from upturn.deployment.validation import Validation, pairs_of, validate
from upturn.errors import ReleaseError, UnknownNameError
from upturn.pool import Pool, Scope, Selection, States
from upturn.records import AgentLimits, AgentVersion, Evaluation, Release, Split, Task, record


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
        raise ReleaseError("an update names at least one of capabilities, tenants, max_concurrent and is_suspended")
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


def capability_profiles(pool: Pool, *, tenant: Scope, agents: Sequence[str] = ()) -> Iterator[Capability]:
    """Yields the results of every version in every family of the routed tasks, with 95 % credible intervals.

    All outcomes count the same, without discount and without other families. ``agents``: only these; empty = all.
    """
    policy = DiscountedThompson(tally=Tally(discount=1.0, borrow=0.0))
    learner = Learner(pool, policy, tenant=tenant)
    learner.catch_up()
    for capability in capabilities(policy.tally):
        if not agents or capability.version.rpartition("@")[0] in agents:
            yield capability


def _check_agent(pool: Pool, agent: str) -> None:
    known = sorted({version.agent for version in pool.agent_versions()})
    if agent not in known:
        raise UnknownNameError(f"unknown agent {agent!r}; in this pool: {', '.join(known) or 'none'}")


def _version(versions: Mapping[str, AgentVersion], version_id: str) -> AgentVersion:
    if version_id not in versions:
        known = ", ".join(versions) or "none"
        raise UnknownNameError(f"agent version {version_id!r} is not in the pool; known: {known}")
    return versions[version_id]
