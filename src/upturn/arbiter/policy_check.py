"""The check of a new routing policy on the log of the current one, before it may route.

The policy is evaluated as a learner: its probabilities for a decision are those after learning all logged outcomes
before it, whoever chose them. They depend on the past only, so the off-policy estimates stay valid
(``off_policy``). It chooses among the agents that were eligible then; a canary keeps the logged split between the
versions of its agent.

``check_new_policy`` reads and stores nothing. Its verdict is ``pass`` only if the log shows that the policy loses
at most the margin.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Literal

from upturn.arbiter.objective_value import (
    agent_name,
    eligible,
    mean_used,
    option_handicaps,
    weighed,
    with_forecasts,
)
from upturn.arbiter.off_policy import (
    LoggedOutcome,
    OffPolicyEstimate,
    Target,
    all_estimates,
    policy_gain,
    running_means,
    self_normalised,
)
from upturn.arbiter.policy import Candidate, RoutingOutcome, RoutingPolicy
from upturn.config import ObjectiveConfig
from upturn.records import Alternative, Decision, Task

PolicyVerdict = Literal["pass", "fail", "refused"]
"""``refused``: the log cannot answer. ``fail``: it does not show that the policy is good enough."""

MAX_UPDATES = 1_000
"""Number of times that an evaluated policy learns: some seconds for a log of any length."""

QUALITY = ObjectiveConfig()
"""The objective without weights."""

NO_AGENT = "no agent of the new policy"
"""Stands for a version where the new policy has no agent that the log could have chosen."""


@dataclass(frozen=True, slots=True)
class PolicyGate:
    """What a new policy must show."""

    margin: float = 0.02
    """Loss of mean reward per decision that is accepted."""
    min_decisions: int = 100
    """Logged decisions with a reward that are needed; an episode counts as one."""

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise ValueError(f"margin must be at least 0 and below 1, got {self.margin!r}")
        if self.min_decisions < 2:
            raise ValueError(f"min_decisions must be at least 2, got {self.min_decisions!r}")


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """The result of a check, for the caller and for the record."""

    verdict: PolicyVerdict
    reasons: tuple[str, ...]
    """At least one sentence."""
    gain: OffPolicyEstimate
    """The new policy's mean reward minus that of the logged routing; with weights, its mean objective."""
    logged: OffPolicyEstimate
    """The mean reward, or objective, of the logged routing."""
    estimates: tuple[OffPolicyEstimate, ...]
    """IPS, SNIPS, DM, DR and switch-DR of the new policy."""
    shares: Mapping[str, float]
    """The new policy's mean probability of each agent over the decisions with a reward."""
    logged_shares: Mapping[str, float]
    """The logged routing's mean probability of each agent over the same decisions."""
    used: Mapping[str, tuple[OffPolicyEstimate, OffPolicyEstimate]] = field(default_factory=dict)
    """Mean ``cost`` in USD and ``seconds`` of the new policy and of the logged routing, where they are known."""

    @property
    def is_passed(self) -> bool:
        """True = the policy may route."""
        return self.verdict == "pass"


def learned_target(
    policy: RoutingPolicy,
    logged: Sequence[LoggedOutcome],
    *,
    tasks: Mapping[str, Task] | None = None,
    agents: Collection[str] | None = None,
    weights: ObjectiveConfig = QUALITY,
) -> Target:
    """Returns the policy's probabilities for the decisions of ``logged``; the policy learns their outcomes.

    ``policy`` is new: it has learned none of them. ``tasks``: by id; other tasks are built from their decision.
    ``agents``: the agents that the policy may choose; None = all. ``weights``: of the forecasts in the log. Later
    decisions of an episode have the probabilities of its first one.

    The policy learns after every decision, and in a log of n > ``MAX_UPDATES`` decisions after every ⌈n /
    ``MAX_UPDATES``⌉, because probabilities are computed anew after each update."""
    known = {} if tasks is None else tasks
    shares: dict[str, Mapping[str, float]] = {}
    first: dict[tuple[str, str], str] = {}
    wave, learned = -(-len(logged) // MAX_UPDATES), 0
    for number, outcome in enumerate(logged, start=1):
        decision = outcome.decision
        start = decision.id
        if decision.episode is not None:
            if decision.current is not None:  # another draw in the same episode
                first[decision.tenant, decision.episode] = decision.id
            start = first.setdefault((decision.tenant, decision.episode), decision.id)
        if start == decision.id:
            options = _options(decision, agents)
            shares[decision.id] = _shares(policy, _task(decision, known), decision, options, weights=weights)
        else:
            shares[decision.id] = shares[start]
        if number - learned == wave:
            for earlier in logged[learned:number]:
                policy.learn(earlier.decision, RoutingOutcome(earlier.decision.id, earlier.reward))
            learned = number
    return lambda decision: shares[decision.id]


def check_new_policy(
    policy: RoutingPolicy,
    logged: Sequence[LoggedOutcome],
    gate: PolicyGate | None = None,
    *,
    tasks: Mapping[str, Task] | None = None,
    agents: Collection[str] = (),
    weights: ObjectiveConfig = QUALITY,
) -> PolicyCheck:
    """Returns the check of a new policy, which learns the outcomes of ``logged`` on the way.

    ``tasks``: see ``learned_target``. ``agents``: those that the policy may choose, each of which the log must have
    offered; empty = those in the log. ``weights``: of its objective. With weights, decisions without forecasts are
    left out, because it cannot weigh their alternatives."""
    usable = logged if weights == QUALITY else with_forecasts(logged)
    target = learned_target(policy, usable, tasks=tasks, agents=agents or None, weights=weights)
    return check_policy(usable, target, gate, agents=agents, weights=weights)


def check_policy(
    logged: Sequence[LoggedOutcome],
    target: Target,
    gate: PolicyGate | None = None,
    *,
    agents: Collection[str] = (),
    weights: ObjectiveConfig = QUALITY,
) -> PolicyCheck:
    """Returns the check of a target on the log. ``agents``: those that the new policy knows, to name missing ones.
    ``weights``: of the objective that it must not lose; its costs and seconds are those that calls really took.

    Order: refused if the log could not choose what the target chooses, or an agent has never been eligible, or
    there are too few decisions; passed if the lower 95 % limit of the gain is at least −margin; otherwise failed.
    All three reasons to refuse are independent of the outcomes."""
    rule = gate if gate is not None else PolicyGate()
    values, scale = weighed(logged, weights)
    model = running_means(values)
    gain = scale.value(policy_gain(values, target, model))
    judged = [outcome.decision for outcome in logged if outcome.reward is not None]
    verdict, reasons = _verdict(gain, rule, _refusals(gain, judged, rule, agents))
    return PolicyCheck(
        verdict,
        reasons,
        gain,
        scale.value(self_normalised(values, _logged_shares)),
        tuple(scale.value(estimate) for estimate in all_estimates(values, target, model)),
        _mean_shares([target(decision) for decision in judged]),
        _mean_shares([_logged_shares(decision) for decision in judged]),
        _used(logged, target),
    )


def _used(
    logged: Sequence[LoggedOutcome], target: Target
) -> Mapping[str, tuple[OffPolicyEstimate, OffPolicyEstimate]]:
    kinds: list[Literal["cost", "seconds"]] = []
    if any(outcome.cost_usd for outcome in logged):
        kinds.append("cost")
    if any(outcome.seconds for outcome in logged):
        kinds.append("seconds")
    return {kind: (mean_used(logged, target, kind), mean_used(logged, _logged_shares, kind)) for kind in kinds}


def _refusals(
    gain: OffPolicyEstimate, judged: Sequence[Decision], gate: PolicyGate, agents: Collection[str]
) -> list[str]:
    refusals = [gain.refusal] if gain.refusal else []
    offered = {
        agent_of(option) for decision in judged for option in decision.alternatives if option.probability > 0
    }
    unknown = sorted(set(agents) - offered)
    if unknown and judged:
        refusals.append(
            f"the log never offered {', '.join(map(repr, unknown))}: nothing is known about routing to it; let the "
            "current policy route to it first"
        )
    draws = len({_draw_of(decision) for decision in judged})
    if draws < gate.min_decisions:
        refusals.append(
            f"{draws} independent decisions have a reward, but {gate.min_decisions} are needed; log more of them"
        )
    return refusals


def _draw_of(decision: Decision) -> tuple[str, str]:
    """Returns what the decisions of one draw share: the episode, unless its version could switch."""
    is_one = decision.episode is not None and decision.current is None
    return decision.tenant, decision.episode or "" if is_one else f"\0{decision.id}"


def _verdict(
    gain: OffPolicyEstimate, gate: PolicyGate, refusals: Sequence[str]
) -> tuple[PolicyVerdict, tuple[str, ...]]:
    if refusals or gain.value is None or gain.low is None or gain.high is None:
        return "refused", tuple(refusals)
    interval = f"the gain is {gain.value:+.4f} with the 95 % interval {gain.low:+.4f} to {gain.high:+.4f}"
    if gain.low >= -gate.margin:
        return "pass", (f"{interval}: a loss of more than {gate.margin:g} is excluded",)
    if gain.high < 0:
        return "fail", (f"{interval}: the policy is shown to be worse than the logged routing",)
    return "fail", (
        f"{interval}: a loss of more than {gate.margin:g} is not excluded; log more decisions, or explore more of "
        "what the policy chooses",
    )


def _options(decision: Decision, agents: Collection[str] | None) -> list[Alternative]:
    """Returns the versions that the log could have chosen, of these agents."""
    return [option for option in eligible(decision) if agents is None or agent_of(option) in agents]


def _shares(
    policy: RoutingPolicy,
    task: Task,
    decision: Decision,
    options: Sequence[Alternative],
    *,
    weights: ObjectiveConfig,
) -> Mapping[str, float]:
    """Returns the probability of each of the versions."""
    if not options:
        return {NO_AGENT: 1.0}
    if weights.switch_weight is None and any(option.agent_version == decision.current for option in options):
        return {str(decision.current): 1.0}  # such a policy never switches
    burdens = dict(
        zip((option.agent_version for option in options), option_handicaps(decision, options, weights), strict=True)
    )
    versions: dict[str, list[Alternative]] = {}
    for option in options:
        versions.setdefault(agent_of(option), []).append(option)
    # A router lists an agent's incumbent before its candidate.
    candidates = [
        Candidate(agent, members[0].agent_version, burdens[members[0].agent_version])
        for agent, members in versions.items()
    ]
    probabilities = policy.probabilities(task, candidates)
    shares: dict[str, float] = {}
    for members, probability in zip(versions.values(), probabilities, strict=True):
        total = sum(option.probability for option in members)
        for option in members:
            shares[option.agent_version] = probability * option.probability / total
    return shares


def agent_of(option: Alternative) -> str:
    """Returns the agent's name, which is the part of a version's id before the last ``@``."""
    return agent_name(option.agent_version)


def _task(decision: Decision, known: Mapping[str, Task]) -> Task:
    return known.get(decision.task_id) or Task(
        id=decision.task_id,
        instruction="",
        family=decision.family,
        environment="call",
        tenant=decision.tenant,
        episode=decision.episode,
    )


def _logged_shares(decision: Decision) -> Mapping[str, float]:
    return {option.agent_version: option.probability for option in decision.alternatives if option.probability > 0}


def _mean_shares(shares: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    by_agent: dict[str, list[float]] = {}
    for by_version in shares:
        for version, share in by_version.items():
            by_agent.setdefault(version.rpartition("@")[0] or version, []).append(share)
    return {agent: fsum(values) / len(shares) for agent, values in sorted(by_agent.items())}
