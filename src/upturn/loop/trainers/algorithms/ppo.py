"""PPO: RL training with a critic."""

from collections.abc import Mapping

from upturn.loop.evaluation import HeldoutResult
from upturn.loop.run import Context
from upturn.loop.trainers.distributed_training import SHARDED_CRITIC
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import RlSpec, family_weights, rollout_spec, train_on_rollouts
from upturn.loop.trainers.training_plan import Overhead, Plan, plan_on_rollouts
from upturn.records import AgentVersion
from upturn.training.algorithms.ppo import PpoSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run."""
    settings = context.config.section(PpoSettings)
    spec = _spec(context, "ppo")
    return plan_on_rollouts(context, parent, "ppo", spec, passes=settings.passes, overhead=Overhead(critics=1))


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version; families that failed more in ``before`` are sampled more."""
    from upturn.training.algorithms.ppo import run_ppo

    spec = _spec(context, name, family_weights(before))
    return train_on_rollouts(
        context, parent, name, spec=spec, run=run_ppo, extras=lambda _: {"critic": SHARDED_CRITIC}
    )


def _spec(context: Context, name: str, weights: Mapping[str, float] | None = None) -> RlSpec:
    settings = context.config.section(PpoSettings)
    rollouts = rollout_spec(context, name, settings.group_size, source=settings)
    title = "Reinforcement learning with a critic (PPO)"
    return RlSpec(title, settings, rollouts, weights, curriculum=context.config.curriculum)


PPO = Algorithm(PpoSettings, plan, train, frozenset({"rollouts", "rewards", "curriculum"}))
