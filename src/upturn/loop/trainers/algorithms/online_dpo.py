"""Online DPO: preference optimisation on pairs of the agent's own fresh trajectories."""

from collections.abc import Mapping
from dataclasses import replace

from upturn.config import Config
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.run import Context
from upturn.loop.trainers.distributed_training import SHARDED_CRITIC
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import CONTINUATIONS, RlSpec, family_weights, rollout_spec, train_on_rollouts
from upturn.loop.trainers.training_plan import Overhead, Plan, plan_on_rollouts
from upturn.records import AgentVersion
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.ppo import CriticSettings


def configured(config: Config) -> OnlineDpoSettings:
    """``[online_dpo]``, with the default critic where one is needed and not configured."""
    settings = config.section(OnlineDpoSettings)
    needs_critic = settings.critic is None and settings.pairs.monte_carlo_share < 1
    return replace(settings, critic=CriticSettings()) if needs_critic else settings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run, as if every trajectory were part of a pair."""
    settings = configured(context.config)
    references, critics = int(settings.reference == "initial"), int(settings.critic is not None)
    overhead = Overhead(copies=references, critics=critics, scorings=references + critics)
    spec = _spec(context, "online-dpo")
    return plan_on_rollouts(context, parent, "online-dpo", spec, passes=settings.epochs, overhead=overhead)


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version; families that failed more in ``before`` are sampled more."""
    from upturn.training.algorithms.online_dpo import run_online_dpo

    spec = _spec(context, name, family_weights(before))
    has_critic = configured(context.config).critic is not None
    extras = {"critic": SHARDED_CRITIC if has_critic else None}
    return train_on_rollouts(context, parent, name, spec=spec, run=run_online_dpo, extras=lambda _: extras)


def _spec(context: Context, name: str, weights: Mapping[str, float] | None = None) -> RlSpec:
    settings = configured(context.config)
    rollouts = replace(
        rollout_spec(context, name, settings.group_size, source=settings), gamma=settings.pairs.gamma
    )
    if settings.pairs.valued_by == "state_values":
        rollouts = replace(rollouts, continuations=settings.pairs.continuations or CONTINUATIONS)
    title = "Preference optimisation on its own fresh trajectories (online DPO)"
    return RlSpec(title, settings, rollouts, weights)


ONLINE_DPO = Algorithm(OnlineDpoSettings, plan, train, frozenset({"rollouts", "rewards"}))
