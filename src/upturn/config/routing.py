"""The section ``[routing]``: the policy that chooses an agent for each task."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from upturn.config.settings import NotNegative, Positive, Probability, Settings, WholeNumber, settings

PolicyName = Literal[
    "thompson",
    "linear_thompson",
    "logistic_thompson",
    "nearest_neighbours",
    "gaussian_thompson",
    "sliding_thompson",
    "discounted_thompson",
    "lin_ucb",
    "ucb1",
    "epsilon_greedy",
    "fixed_weights",
    "cheapest",
    "rule_based",
    "uniform",
]


@settings
class ObjectiveConfig(Settings):
    """What the choice maximises: quality − ``cost_weight`` · USD − ``latency_weight`` · seconds −
    ``switch_weight`` · switch, with costs and seconds as expected of each agent after its earlier calls
    (docs/routing.md)."""

    cost_weight: NotNegative = 0.0
    """Reward that is given up to save 1 USD in one call or task, such as 5 to give up .01 for 0.002 USD. Above 0,
    every agent needs a price."""
    latency_weight: NotNegative = 0.0
    """Reward that is given up to save 1 second in one call or task."""
    switch_weight: NotNegative | None = None
    """Reward that is given up to keep an episode's agent for one more call, besides the prompt cache that a switch
    loses. Unset = an episode's version changes only if it may not serve any more."""


@settings
class EveryPolicy(Settings):
    """The settings of all routing policies."""

    min_outcomes: WholeNumber = 0
    """Number of outcomes in a family up to which an agent gets ``min_outcomes_share``, whatever it achieved. 0 = no
    such share."""
    min_outcomes_share: Probability = 0.1
    """Share of a family's decisions for all of its agents with fewer than ``min_outcomes`` outcomes."""
    frozen: bool = False
    """Whether the router stops learning, so that its probabilities stay as they are. What is stored meanwhile is
    learned once it is false again. An operator can do the same with ``upturn route freeze``."""


@settings
class RoutingConfig(EveryPolicy):
    """The choice of an agent for each task."""

    policy: PolicyName = "thompson"
    """Routing policy (docs/routing.md). ``thompson``: Thompson sampling on the outcomes by task family, which
    borrows from other families and forgets on evidence of change. ``linear_thompson``: the same on 64 features
    of the task. ``logistic_thompson``: the same by logistic regressions. ``nearest_neighbours``: on the
    outcomes of similar tasks. ``gaussian_thompson``: by family, on graded outcomes of unknown variance.
    ``sliding_thompson``: by family, on the latest outcomes. ``discounted_thompson``: on outcomes that lose
    weight by ``discount``. ``lin_ucb``, ``ucb1``: the highest upper confidence limit. ``epsilon_greedy``: the
    highest mean. ``fixed_weights``: by ``weights``. ``cheapest``: the lowest cost among agents with a mean of
    at least ``bar``. ``rule_based``: the agent in ``rules``. ``uniform``: all agents with equal probability, as
    a control."""
    floor: Annotated[float, Field(gt=0, le=0.05)] = 0.01
    """Share of decisions that explore all agents with equal probability. Not for epsilon_greedy and uniform."""
    threshold: Positive | None = None
    """For thompson, linear_thompson and logistic_thompson: evidence of a change, in natural log units, at which
    earlier outcomes are forgotten. Without a change, the mean time between alarms is at least e^threshold
    outcomes for each detector. Unset = 12 for thompson, 8 for linear_thompson, 6 for logistic_thompson."""
    discount: Annotated[float, Field(gt=0, le=1)] | None = None
    """For discounted_thompson and gaussian_thompson: factor on the weight of earlier outcomes after each new
    outcome in their family. 1 = earlier outcomes keep their weight. Unset = 0.995 for discounted_thompson, 1
    for gaussian_thompson."""
    window: Annotated[int, Field(ge=1)] | None = None
    """For sliding_thompson and gaussian_thompson: number of latest outcomes in a family that count. Unset = 400 for
    sliding_thompson, all for gaussian_thompson."""
    neighbours: Annotated[int, Field(ge=1, le=500)] = 100
    """For nearest_neighbours: number of an agent's nearest past tasks that count, of its latest 500."""
    alpha: NotNegative = 0.5
    """For lin_ucb: weight of the standard deviation."""
    epsilon: Annotated[float, Field(gt=0, le=1)] = 0.1
    """For epsilon_greedy: share of decisions that explore all agents with equal probability."""
    bar: Annotated[float, Field(gt=0, le=1)] = 0.8
    """For cheapest: mean success rate in the family that an agent must reach."""
    weights: Mapping[str, NotNegative] = field(default_factory=dict)
    """For fixed_weights: share by agent; shares are scaled to sum to 1 over the eligible agents."""
    default_agent: str = ""
    """For rule_based: agent for families without a rule."""
    rules: dict[str, str] = field(default_factory=dict)
    """For rule_based: agent by task family."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """What the choice maximises. Not for discounted_thompson, fixed_weights, rule_based and uniform."""


USED_BY_POLICY: Mapping[PolicyName, frozenset[str]] = {
    "thompson": frozenset({"floor", "threshold"}),
    "linear_thompson": frozenset({"floor", "threshold"}),
    "logistic_thompson": frozenset({"floor", "threshold"}),
    "nearest_neighbours": frozenset({"floor", "neighbours"}),
    "gaussian_thompson": frozenset({"floor", "discount", "window"}),
    "sliding_thompson": frozenset({"floor", "window"}),
    "discounted_thompson": frozenset({"floor", "discount"}),
    "lin_ucb": frozenset({"floor", "alpha"}),
    "ucb1": frozenset({"floor"}),
    "epsilon_greedy": frozenset({"epsilon"}),
    "fixed_weights": frozenset({"floor", "weights"}),
    "cheapest": frozenset({"floor", "bar"}),
    "rule_based": frozenset({"floor", "default_agent", "rules"}),
    "uniform": frozenset(),
}
"""The settings that each policy uses; another one that is not at its default is an error."""
FEATURE_POLICIES = frozenset({"linear_thompson", "logistic_thompson", "lin_ucb", "nearest_neighbours"})
"""The policies that look at the features of a task."""

WITHOUT_OBJECTIVE: frozenset[PolicyName] = frozenset(
    {"discounted_thompson", "fixed_weights", "rule_based", "uniform"}
)
"""The policies that weigh neither costs nor latencies."""
