"""The names, units and meanings of all metrics of a learning curve. No torch here.

``docs/training_metrics.md`` is generated from this file. Algorithms from outside the package may add metrics; they
are in the group ``other``."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from upturn.training.runs.curve import CurvePoint

MetricGroup = Literal["score", "cost", "reward", "policy", "critic", "update", "tokens", "time", "other"]

GROUPS: Mapping[MetricGroup, str] = {
    "score": "Held-out evaluations",
    "cost": "Costs",
    "reward": "Sampling and data",
    "policy": "The policy and its sampler",
    "critic": "The critic and reward models",
    "update": "The optimiser",
    "tokens": "Tokens",
    "time": "Time",
    "other": "Other",
}
"""Titles, in display order."""


class Metric(NamedTuple):
    """A metric, or all metrics with a prefix."""

    name: str
    """With ``*`` at its end: every name with this prefix."""
    group: MetricGroup
    unit: str
    """Empty = a plain number."""
    meaning: str


_TABLE: Mapping[MetricGroup, tuple[tuple[str, str, str], ...]] = {
    "score": (
        ("score", "", "Score of the evaluation; higher is better. The best weights are selected by it."),
        ("score_low", "", "Lower end of the score's 95 % interval, where the evaluation reports one."),
        ("score_high", "", "Upper end of that interval."),
        ("score_tasks", "tasks", "Number of evaluated tasks (or rows)."),
        (
            "held_out_*",
            "",
            "Further measurements of the evaluation, which select nothing. For a world model: `right`, the share "
            "of observations predicted correctly; `usual`, the share for which a tool's most common output is "
            "correct; `similarity`, the mean similarity. For a reward model see docs/training.md. `proxy_*`: the "
            "mean score of a reward model over the evaluated trajectories.",
        ),
    ),
    "cost": (
        ("cost_*", "", "A held-out cost; lower is better. Never added to the score."),
        ("missing_cost_*", "tasks", "Tasks without this cost, which are excluded from its mean."),
        ("rollout_cost_*", "", "Mean over the iteration's trajectories of a cost with a budget."),
        ("multiplier_*", "", "Reward subtracted per unit of that cost; rises while the cost is above its budget."),
    ),
    "reward": (
        ("mean_return", "", "Mean undiscounted return of the scorable trajectories, before any baseline."),
        ("trajectories", "trajectories", "Trajectories sampled in the iteration."),
        ("groups", "groups", "Groups of trajectories of the same task in the iteration."),
        ("filtered_groups", "groups", "Groups whose trajectories have equal rewards, and so no training signal."),
        (
            "masked_truncated",
            "trajectories",
            "Trajectories that a limit ended and that `objective.mask_truncated` leaves without a loss.",
        ),
        ("staleness", "iterations", "Age of the weights that sampled the trajectories."),
        ("partial_open", "tasks", "Tasks whose trajectories continue in the next iteration."),
        ("partial_age", "iterations", "Mean number of iterations since the finished tasks were started."),
        ("partial_masked", "share", "Written tokens that are not trained on, because their weights are too old."),
        (
            "prediction_usual",
            "share",
            "Transitions for which a tool's most common output is the correct prediction.",
        ),
        ("prediction_lift", "share", "Share of correct predictions, minus `prediction_usual`."),
        ("prediction_similarity", "", "Mean similarity of the predictions to the real outputs, in [0, 1]."),
        ("curriculum_level", "", "The current level, from which most tasks are sampled."),
        ("curriculum_final", "", "1 once the highest level is learned and the final mix is sampled, else 0."),
        ("curriculum_closed", "pools", "Pools of tasks without a training signal, which are sampled rarely."),
        ("curriculum_missing", "trajectories", "Trajectories without an evaluation, which no estimate includes."),
        ("sampled_level_*", "share", "Share of the iteration's tasks at this level."),
        ("success_level_*", "share", "Success rate of recent trajectories, as a mean over the level's pools."),
        ("best_level_*", "share", "Highest success rate of the level so far."),
        ("drop_level_*", "share", "Highest success rate of the level minus the current one: forgetting."),
        ("stored_epoch", "epochs", "Completed passes over the stored trajectories."),
        ("stored_age", "versions", "Mean age of the weights that sampled the stored trajectories."),
        ("stored_left_out_*", "trajectories", "Stored trajectories that are not trained on, by reason."),
        ("sampling_rounds", "rounds", "Rounds of dynamic sampling, including the first."),
        (
            "proxy_reward_*",
            "",
            "Mean score, in [0, 1], of a reward model over the iteration's verified trajectories.",
        ),
        (
            "proxy_success_*",
            "share",
            "Verified successes among the same trajectories. Where the score rises and this does not, the reward "
            "model is overoptimised.",
        ),
        ("proxy_separation_*", "", "Probability that a success among them scores above a failure; 0.5 = chance."),
        (
            "unscorable",
            "trajectories",
            "Trajectories without a usable reward; they are excluded from the baseline.",
        ),
        ("forks", "rows", "Rows started because a prompt did not extend the previous tokens."),
        ("compactions", "rows", "Forks caused by rewriting the history to fit a context budget."),
        ("refused_outputs", "turns", "Turns whose text was no call, or one that was refused."),
        ("repaired_calls", "turns", "Turns whose call was written almost right and was made."),
        (
            "dropped_calls",
            "calls",
            "Calls that were not made because an earlier one of their message was the last.",
        ),
        ("failed", "trajectories", "Trajectories with a reward below the success threshold."),
        ("duplicates", "trajectories", "Successes with the same written tokens as another of the same task."),
        ("surplus", "trajectories", "Successes beyond the limit per task."),
        ("unsolved_groups", "groups", "Groups of tasks with scorable trajectories and no success."),
        (
            "hinted_trajectories",
            "trajectories",
            "Rollouts with a hint for unsolved tasks; included in trajectories.",
        ),
        ("rationalised", "trajectories", "Trajectories trained on whose hint was the answer."),
        (
            "repaired",
            "trajectories",
            "Trajectories trained on whose hint was what went wrong in an earlier trajectory.",
        ),
        ("leaked", "trajectories", "Successful hinted trajectories that mention the hint; not trained on."),
        ("kept", "trajectories", "Trajectories trained on, hinted ones included."),
        ("kept_length", "tokens", "Mean number of written tokens of these trajectories."),
        ("tokenless", "trajectories", "Trajectories without written tokens, which cannot be paired."),
        ("pairs", "pairs", "Pairs of a better and a worse trajectory, or action, that are trained on."),
        ("equal_pairs", "pairs", "Comparisons dropped because both sides have the same value."),
        ("close_pairs", "pairs", "Comparisons dropped because the values differ by at most the minimum margin."),
        ("identical_pairs", "pairs", "Comparisons dropped because both sides wrote the same tokens."),
        ("unvalued", "actions", "Actions dropped because their value is unknown."),
        ("trained_rows", "rows", "Rows that have a gradient."),
    ),
    "policy": (
        ("ratio", "", "Mean probability ratio of model and sampler over the written tokens."),
        ("ratio_squared", "", "Mean of its square; ratio² / ratio_squared is the effective sample share."),
        ("kl_sampler", "nats a token", "KL divergence of the model from its sampler (estimator k3)."),
        ("kernel_weight", "", "Mean weight φ(W) of the written tokens, for `vespo`; 1 = on policy."),
        ("clip_fraction", "share", "Written tokens whose gradient the clip removes."),
        ("clip_fraction_low", "share", "Tokens at the lower clip: negative advantage, already less likely."),
        ("clip_fraction_high", "share", "Tokens at the upper clip: positive advantage, already more likely."),
        ("clip_fraction_dual", "share", "Tokens at the dual clip: negative advantage, but far more likely."),
        ("stale_fraction", "share", "Tokens with negative advantage dropped as too far from the sampler."),
        ("kl_reference", "nats a token", "KL divergence from the weights before training (k3)."),
        ("kl_coefficient", "", "β of the iteration, where it adapts."),
        (
            "teacher_kl",
            "nats a token",
            "Mean log π − log π_teacher over the written tokens that a teacher scored: the reverse KL divergence.",
        ),
        ("teacher_missing", "tokens", "Written tokens not trained on because the teacher's score is missing."),
        ("mismatch_weight_mean", "", "Mean of w, the trainer's probability over the sampler's."),
        ("mismatch_weight_max", "", "The largest w of any token."),
        ("mismatch_ess", "share", "Effective share of the sample under w: 1 = no mismatch."),
        ("mismatch_kl", "nats a token", "KL divergence of the sampler from the trainer (k3)."),
        ("mismatch_masked", "share", "Written tokens that the mismatch mask drops."),
        ("entropy", "nats a token", "Entropy of the sampler, as the mean −log π of its written tokens."),
        ("entropy_exact", "nats a token", "Entropy of the model's distribution at the written tokens."),
        ("entropy_bonus", "", "1 in iterations in which the entropy bonus acts, else 0."),
        ("token_logprob", "nats a token", "Mean log π of the written tokens in supervised training."),
        ("pair_accuracy", "share", "Pairs whose chosen side gained more probability than the rejected one."),
        ("chosen_reward", "", "Mean β·log(π/π_reference) of the chosen sides of pairs."),
        ("rejected_reward", "", "The same for the rejected sides."),
        ("rating_accuracy", "share", "Rated trajectories on their rating's side of the reference point."),
        ("rating_margin", "", "Mean distance to the reference point on that side, times β."),
        ("reference_point", "nats", "z of KTO: the model's divergence from the reference, at least 0."),
        (
            "max_logprob_gap",
            "nats",
            "Largest |log π − log π_sampler| before the first step: 0 up to rounding where sampler and trainer "
            "agree.",
        ),
    ),
    "critic": (
        ("mean_value", "", "Mean of the critic's values, before it is trained on the iteration."),
        (
            "explained_variance",
            "",
            "1 − Var(return − value) / Var(return) over the steps: 1 = perfect values, 0 = no better than a mean.",
        ),
        ("advantage_std", "", "Standard deviation of the advantages before whitening."),
        ("value_loss", "", "Mean of half the squared error of the values over the critic's steps."),
        ("value_clip_fraction", "share", "Steps whose value has no gradient because of the value clip."),
        ("ranking_accuracy", "share", "Pairs whose chosen side has the higher output of the reward model."),
        ("ranking_margin", "", "Mean difference of the outputs of both sides."),
        ("ranking_centre", "", "Mean output over both sides; centring pulls it to 0."),
        ("turn_loss", "nats a turn", "Mean cross-entropy of a process model's probabilities with their targets."),
        ("turn_brier", "", "Mean squared error of these probabilities."),
        ("critic_optimiser_steps", "steps", "Optimiser steps of the critic."),
        ("critic_grad_norm", "", "Mean 2-norm of the critic's gradient before clipping."),
        ("critic_learning_rate", "", "Learning rate of the critic's last step."),
    ),
    "update": (
        ("steps", "steps", "Optimiser steps of the unit that include a part of a mixture."),
        ("optimiser_steps", "steps", "Optimiser steps of the unit."),
        ("loss", "", "Mean loss of the unit's steps. Not a measure of progress for a policy gradient."),
        ("grad_norm", "", "Mean 2-norm of the gradient before clipping."),
        ("learning_rate", "", "Learning rate of the unit's last step."),
        ("epoch", "epochs", "Completed passes over the rows before this step."),
    ),
    "tokens": (
        ("written_tokens", "tokens", "Tokens that the model wrote in all sampled trajectories."),
        ("logical_tokens", "tokens", "Tokens of the trained rows as recorded."),
        ("physical_tokens", "tokens", "Positions computed by the model: shared prefixes once, padding included."),
        (
            "share_ratio",
            "",
            "Tokens to compute without shared prefixes, over physical_tokens: 2 = half of the work is saved.",
        ),
        ("action_fraction", "share", "Written tokens among the logical ones."),
        (
            "attention_*",
            "share",
            "Computed positions by attention: `streamed`, `flash`, `flex` or `by_node` over a tree, or `padded`.",
        ),
        ("fallbacks", "micro-batches", "Micro-batches computed row by row instead of with shared prefixes."),
        ("verify_gap", "nats", "Largest |Δ log π| between shared and plain computation at the last check."),
    ),
    "time": (
        ("collect_seconds", "s", "Building the unit: sampling, evaluation of trajectories, advantages."),
        ("critic_seconds", "s", "Values and training of the critic; part of collect_seconds."),
        ("update_seconds", "s", "The optimiser steps, forward and backward passes included."),
        ("evaluate_seconds", "s", "The evaluation, in units with one."),
        ("tokens_per_second", "tokens/s", "Logical tokens over update_seconds."),
    ),
}

METRICS = tuple(
    Metric(name, group, unit, meaning) for group, rows in _TABLE.items() for name, unit, meaning in rows
)

PHASES = ("collect_seconds", "update_seconds", "evaluate_seconds")
"""The parts of a unit's time, in order; writing checkpoints is not included."""
UNREPEATED = frozenset({*PHASES, "critic_seconds", "tokens_per_second", "verify_gap"})
"""The only metrics in which a resumed run may differ from an uninterrupted one: ``verify_gap`` is measured on other
rows."""

_EXACT = {metric.name: metric for metric in METRICS}
_PREFIXES = {metric.name[:-1]: metric for metric in METRICS if metric.name.endswith("*")}


def metric_of(name: str) -> Metric | None:
    """Returns the metric of a name on the curve, with or without the ``part/`` prefix of a mixture; None =
    unknown."""
    name = name.rpartition("/")[2]
    if name in _EXACT:
        return _EXACT[name]
    return next((metric for prefix, metric in _PREFIXES.items() if name.startswith(prefix)), None)


def group_of(name: str) -> MetricGroup:
    """Returns the group of a name on the curve."""
    metric = metric_of(name)
    return "other" if metric is None else metric.group


def seconds_of(point: CurvePoint) -> float:
    """Returns the duration of a point's unit."""
    return sum(point.metrics.get(phase) or 0.0 for phase in PHASES)
