"""Group-relative policy optimisation: rollouts of the current weights, scored in groups, become one weight stream.

Advantages come from ``upturn.training.advantage``; the loss is the token-level clipped objective against the
sampler's recorded log-probs. A token's weight is its turn's advantage over *all* written tokens of the iteration,
those of groups without a signal included (they are counted, but not computed: their gradient is exactly 0).
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.advantage import Advantage, GroupAdvantages, ScoredGroup, unscorable_count
from upturn.training.advantages import advantage_of, rescaled
from upturn.training.losses import ClippedPolicy
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import TrainingRow, policy_rows, written_count
from upturn.training.run import Evaluate, Progress, Run, RunPlace, RunPlan, check_evaluation, identity_of
from upturn.training.schedule import schedule
from upturn.training.settings import GrpoSettings
from upturn.training.stream import Stream, Unit
from upturn.training.trainer import Trainer


def run_grpo(  # noqa: PLR0913  # a run's seed, place and two callbacks are independent of each other
    model: PreTrainedModel,
    collect: Callable[[int], Sequence[ScoredGroup]],
    settings: GrpoSettings,
    *,
    seed: int,
    run_dir: Path,
    evaluate: Evaluate | None = None,
    progress: Progress | None = None,
) -> TrainingOutcome:
    """Trains the model in place; resumes from ``run_dir``.

    ``collect(iteration)`` samples groups with the model's current weights, from iteration 0;
    ``evaluate(iterations)`` gives the score after that many, first with 0. Both may depend on their
    argument, the seed and the weights only. When the run returns, the model holds the weights of the best
    evaluation (``keep="best"``) or the last ones (``"final"``). Resuming needs the model as it was before training,
    the same settings and seed. Raises TrainingError.
    """
    if seed < 0:
        raise TrainingError(f"seed must be 0 or more, got {seed!r}")
    check_evaluation(evaluate, settings.evaluate_every)
    total = settings.iterations * settings.minibatches
    trainer = Trainer(model, settings.optimiser, schedule(settings.decay, total, settings.optimiser.warmup_steps))
    algorithm = GroupRelativeUpdates(collect, settings, seed)
    plan = RunPlan(
        units=settings.iterations,
        evaluate_every=settings.evaluate_every,
        checkpoint_every=settings.checkpoint_every,
        keep=settings.keep,
        target_score=settings.target_score,
        patience=settings.patience,
    )
    identity = identity_of(trainer, "grpo", settings, seed=seed)
    return Run(trainer, algorithm, plan, RunPlace(run_dir, identity), evaluate, progress).finish()


class GroupRelativeUpdates:
    """Iterations as weight streams: collects groups, compares their members, splits them over minibatches."""

    def __init__(
        self,
        collect: Callable[[int], Sequence[ScoredGroup]],
        settings: GrpoSettings,
        seed: int,
        advantage: Advantage | None = None,
    ) -> None:
        """``advantage``: None = the estimator that the settings name."""
        self.collect = collect
        self.settings = settings
        self.seed = seed
        self.advantage = advantage or advantage_of(settings.advantage)
        self.objective = ClippedPolicy(settings.clip_low, settings.clip_high)

    def unit(self, index: int) -> Unit:
        """Iteration ``index``. Raises TrainingError when there is nothing, or something unusable, to train on."""
        groups = self.collect(index)
        if not any(group.members for group in groups):
            raise TrainingError(f"iteration {index} collected no trajectories; collect at least one group")
        for group in groups:
            _check_group(group)
        compared = [self.advantage(group) for group in groups]
        advantages = rescaled(groups, compared, by=self.settings.advantage.scale)
        by_group = [_group_rows(group, found) for group, found in zip(groups, advantages, strict=True)]
        active = [rows for rows in by_group if rows]
        metrics = _metrics(groups, advantages)
        metrics["trained_rows"] = float(sum(len(rows) for rows in active))
        share = metrics["written_tokens"] / self.settings.minibatches
        order = np.random.default_rng([self.seed, index]).permutation(len(active))
        minibatches = [
            [Stream([row for each in part for row in active[int(each)]], self.objective, share)]
            for part in np.array_split(order, min(self.settings.minibatches, max(1, len(active))))
            if len(part)
        ]
        return Unit(minibatches, metrics)


def _check_group(group: ScoredGroup) -> None:
    for member in group.members:
        if member.trajectory.task_id != group.task.id:
            raise TrainingError(
                f"trajectory {member.trajectory.id!r} is an attempt at task {member.trajectory.task_id!r} but "
                f"stands in a group of task {group.task.id!r}; a group holds attempts at one task"
            )


def _group_rows(group: ScoredGroup, advantages: GroupAdvantages) -> list[TrainingRow]:
    """The rows that have a gradient; a row whose weights are all 0 has none."""
    rows = [
        row
        for member, turns in zip(group.members, advantages.turns, strict=True)
        for row in policy_rows(member.trajectory, turns)
    ]
    return [row for row in rows if row.weights.any()]


def _metrics(groups: Sequence[ScoredGroup], advantages: Sequence[GroupAdvantages]) -> dict[str, float]:
    """What the groups were like. ``mean_return`` is NaN when no trajectory could be scored."""
    trajectories = [member.trajectory for group in groups for member in group.members]
    returns = [value for found in advantages for value in found.returns if value is not None]
    return {
        "trajectories": float(len(trajectories)),
        "mean_return": math.fsum(returns) / len(returns) if returns else math.nan,
        "groups": float(len(groups)),
        "filtered_groups": float(sum(not found.is_informative for found in advantages)),
        "unscorable": float(unscorable_count(groups)),
        "forks": float(sum(row.fork_cause is not None for each in trajectories for row in each.rows)),
        "written_tokens": float(sum(written_count(each) for each in trajectories)),
    }
