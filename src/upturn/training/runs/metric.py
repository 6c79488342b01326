"""What every number on a training curve means. No torch here.

``docs/training_metrics.md`` is made from this file. Algorithms of other people may add metrics of their own; those
stand under ``other`` wherever metrics are grouped.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from upturn.training.runs.curve import CurvePoint

MetricGroup = Literal["score", "cost", "reward", "policy", "critic", "update", "tokens", "time", "other"]

GROUPS: Mapping[MetricGroup, str] = {
    "score": "Held-out evaluations",
    "cost": "Held-out costs",
    "reward": "What was sampled",
    "policy": "The policy and its sampler",
    "critic": "The critic",
    "update": "The optimiser",
    "tokens": "Tokens",
    "time": "Time",
    "other": "Other",
}
"""In the order in which they are shown."""


class Metric(NamedTuple):
    """One name on the curve."""

    name: str
    """With ``*`` at its end: every name that begins so."""
    group: MetricGroup
    unit: str
    """Empty = a plain number."""
    meaning: str


METRICS: tuple[Metric, ...] = (
    Metric("score", "score", "", "What the evaluation gave; higher is better. The best weights are chosen by it."),
    Metric("score_low", "score", "", "Lower end of the score's 95 % interval, where the evaluation gives one."),
    Metric("score_high", "score", "", "Upper end of it."),
    Metric("score_tasks", "score", "tasks", "How many tasks (or rows) the score is of."),
    Metric(
        "held_out_*",
        "score",
        "",
        "What the evaluation measured beside its score; nothing is chosen by it. Of a world model: the share of "
        "observations predicted right, the share that a tool's most common output would be right, and the mean "
        "similarity.",
    ),
    Metric("cost_*", "cost", "", "A cost that the evaluation gave; lower is better. Never added to the score."),
    Metric(
        "missing_cost_*", "cost", "tasks", "Tasks that were not judged for a cost; they are left out of its mean."
    ),
    Metric(
        "mean_return",
        "reward",
        "",
        "Mean reward of the trajectories that could be scored, undiscounted, before any baseline.",
    ),
    Metric("practice_cost_*", "cost", "", "A cost with a budget: its mean over the iteration's attempts."),
    Metric(
        "multiplier_*", "cost", "", "What a unit of that cost took off the reward; rises while it is above budget."
    ),
    Metric("trajectories", "reward", "trajectories", "Attempts that were sampled in the iteration."),
    Metric("groups", "reward", "groups", "Tasks that they are attempts at."),
    Metric("filtered_groups", "reward", "groups", "Groups whose attempts all earned the same: they teach nothing."),
    Metric(
        "staleness", "reward", "iterations", "How many iterations old the weights were that the attempts came from."
    ),
    Metric(
        "prediction_usual",
        "reward",
        "share",
        "Transitions of the iteration that a tool's most common output would be right for.",
    ),
    Metric("prediction_lift", "reward", "share", "Predictions that were right, less that share."),
    Metric("prediction_similarity", "reward", "", "Mean similarity of the predictions to what came, in [0, 1]."),
    Metric("curriculum_level", "reward", "", "The level that most of the practice is at."),
    Metric(
        "curriculum_final", "reward", "", "1 once the highest level is learned and the final mix sampled, else 0."
    ),
    Metric(
        "curriculum_closed", "reward", "pools", "Pools of tasks that are only probed: they would teach nothing."
    ),
    Metric("curriculum_missing", "reward", "trajectories", "Attempts that nobody judged; no estimate counts them."),
    Metric("practice_level_*", "reward", "share", "Of the iteration's tasks, those of this level."),
    Metric(
        "success_level_*", "reward", "share", "Recent attempts that succeeded, as a mean over the level's pools."
    ),
    Metric("best_level_*", "reward", "share", "The most that this was so far."),
    Metric("drop_level_*", "reward", "share", "How much less it is now: what was forgotten."),
    Metric("stored_epoch", "reward", "epochs", "Passes over the stored attempts that were finished before."),
    Metric("stored_age", "reward", "versions", "Mean age of the weights that sampled the stored attempts."),
    Metric("stored_left_out_*", "reward", "trajectories", "Stored attempts that are not trained on, by reason."),
    Metric("sampling_rounds", "reward", "rounds", "Rounds of dynamic sampling, the first included."),
    Metric(
        "unscorable", "reward", "trajectories", "Attempts without a usable reward; they stay out of the baseline."
    ),
    Metric("forks", "reward", "rows", "Rows begun because a prompt did not extend the tokens before it."),
    Metric(
        "compactions", "reward", "rows", "Those of the forks where history was rewritten to fit a context's budget."
    ),
    Metric(
        "failed", "reward", "trajectories", "Attempts that earned less than a success, where successes are learned."
    ),
    Metric("duplicates", "reward", "trajectories", "Successes that wrote what another at the same task wrote."),
    Metric("surplus", "reward", "trajectories", "Successes beyond what is kept of one task."),
    Metric("unsolved_groups", "reward", "groups", "Groups of tasks that could be judged and had no success."),
    Metric(
        "second_attempts",
        "reward",
        "trajectories",
        "Attempts with help, which are among the sampled ones, at tasks that had no success.",
    ),
    Metric("rationalised", "reward", "trajectories", "Those with the answer as a hint that are learned from."),
    Metric(
        "repaired", "reward", "trajectories", "Those told of the first attempt's trouble that are learned from."
    ),
    Metric("leaked", "reward", "trajectories", "Those that succeeded and speak of the help: not learned from."),
    Metric("kept", "reward", "trajectories", "Attempts that are learned from, second ones included."),
    Metric("kept_length", "reward", "tokens", "Mean number of tokens that these wrote."),
    Metric(
        "tokenless", "reward", "trajectories", "Attempts in which nothing was written, so nothing can be preferred."
    ),
    Metric("pairs", "reward", "pairs", "Pairs of a better and a worse attempt, or action, that are learned from."),
    Metric("equal_pairs", "reward", "pairs", "Comparisons left out because both sides were worth the same."),
    Metric(
        "close_pairs", "reward", "pairs", "Those left out because they differed by no more than the least margin."
    ),
    Metric("identical_pairs", "reward", "pairs", "Those left out because both sides wrote the same."),
    Metric("unvalued", "reward", "actions", "Actions left out because what they are worth is not known."),
    Metric("trained_rows", "reward", "rows", "Rows that have a gradient."),
    Metric("written_tokens", "tokens", "tokens", "Tokens that the model wrote in all sampled attempts."),
    Metric("ratio", "policy", "", "Mean probability ratio of model and sampler over the written tokens."),
    Metric(
        "ratio_squared", "policy", "", "Mean of its square; ratio² / ratio_squared is the effective sample share."
    ),
    Metric("kl_sampler", "policy", "nats a token", "KL divergence of the model from its sampler (estimator k3)."),
    Metric("clip_fraction", "policy", "share", "Written tokens whose gradient the clip removes."),
    Metric("clip_fraction_low", "policy", "share", "Those at the lower clip: unlikelier already, and bad."),
    Metric("clip_fraction_high", "policy", "share", "Those at the upper clip: likelier already, and good."),
    Metric("clip_fraction_dual", "policy", "share", "Those at the dual clip: far likelier already, though bad."),
    Metric("stale_fraction", "policy", "share", "Written tokens of bad turns dropped as too far from the sampler."),
    Metric("kl_reference", "policy", "nats a token", "KL divergence from the weights before training (k3)."),
    Metric("kl_coefficient", "policy", "", "β of the iteration, where it adapts."),
    Metric("mismatch_weight_mean", "policy", "", "Mean of w, the trainer's probability over the sampler's."),
    Metric("mismatch_weight_max", "policy", "", "The largest w of any token."),
    Metric("mismatch_ess", "policy", "share", "Effective share of the sample under w: 1 = no mismatch."),
    Metric("mismatch_kl", "policy", "nats a token", "KL divergence of the sampler from the trainer (k3)."),
    Metric("mismatch_masked", "policy", "share", "Written tokens that the mismatch mask leaves out."),
    Metric("entropy", "policy", "nats a token", "Mean −log π of what the sampler wrote: how undecided it is."),
    Metric("token_logprob", "policy", "nats a token", "Mean log π of the written tokens in supervised training."),
    Metric(
        "pair_accuracy",
        "policy",
        "share",
        "Pairs whose better side the model has moved towards more than the other.",
    ),
    Metric("chosen_reward", "policy", "", "Mean β·log(π/π_reference) of the better sides of pairs."),
    Metric("rejected_reward", "policy", "", "The same of the worse sides; the loss falls as the two part."),
    Metric("rating_accuracy", "policy", "share", "Rated attempts on their rating's side of the reference point."),
    Metric("rating_margin", "policy", "", "Mean of how far on that side they are, times β."),
    Metric("reference_point", "policy", "nats", "z of KTO: how far the model is from the reference, at least 0."),
    Metric(
        "max_logprob_gap",
        "policy",
        "nats",
        "Largest |log π − log π_sampler| before the first step: 0 but for "
        "rounding where sampler and trainer agree.",
    ),
    Metric(
        "mean_value", "critic", "", "Mean of what the critic expected of the steps, before it learned from them."
    ),
    Metric(
        "explained_variance",
        "critic",
        "",
        "1 − Var(earned − expected) / Var(earned) over the steps: 1 = the critic knew, 0 = no more than a mean.",
    ),
    Metric("advantage_std", "critic", "", "Standard deviation of the steps' advantages, before they are whitened."),
    Metric("value_loss", "critic", "", "Mean of half the squared error of the values over the critic's steps."),
    Metric(
        "value_clip_fraction", "critic", "share", "Steps whose value has no gradient because of the value clip."
    ),
    Metric("critic_optimiser_steps", "critic", "steps", "Optimiser steps of the critic."),
    Metric("critic_grad_norm", "critic", "", "Mean 2-norm of the critic's gradient before clipping."),
    Metric("critic_learning_rate", "critic", "", "Of the critic's last step."),
    Metric("steps", "update", "steps", "Optimiser steps of the unit that a part of a mixture has a share in."),
    Metric("optimiser_steps", "update", "steps", "Optimiser steps of the unit."),
    Metric("loss", "update", "", "Mean loss of the unit's steps. Of a policy gradient its value says little."),
    Metric("grad_norm", "update", "", "Mean 2-norm of the gradient before clipping."),
    Metric("learning_rate", "update", "", "Of the unit's last step."),
    Metric("epoch", "update", "epochs", "Passes over the rows that were finished before this step."),
    Metric("logical_tokens", "tokens", "tokens", "Tokens of the trained rows as recorded."),
    Metric(
        "physical_tokens",
        "tokens",
        "tokens",
        "Positions that went through the model: shared beginnings once, padding included.",
    ),
    Metric(
        "share_ratio",
        "tokens",
        "",
        "Tokens that rows computed each by itself would feed, over physical_tokens: "
        "2 = half of the work was saved.",
    ),
    Metric("action_fraction", "tokens", "share", "Written tokens among the logical ones."),
    Metric(
        "fallbacks", "tokens", "micro-batches", "Micro-batches computed row by row although sharing was asked for."
    ),
    Metric(
        "verify_gap", "tokens", "nats", "Largest |Δ log π| between shared and plain computation when last checked."
    ),
    Metric("collect_seconds", "time", "s", "Making the unit: sampling, judging, advantages."),
    Metric("critic_seconds", "time", "s", "Asking the critic and training it; part of collect_seconds."),
    Metric("update_seconds", "time", "s", "The optimiser steps, forward and backward passes included."),
    Metric("evaluate_seconds", "time", "s", "The evaluation, where there was one."),
    Metric("tokens_per_second", "time", "tokens/s", "Logical tokens over update_seconds."),
)

PHASES = ("collect_seconds", "update_seconds", "evaluate_seconds")
"""What a unit's time goes into, in order; writing checkpoints is not in them."""
UNREPEATED = frozenset({*PHASES, "critic_seconds", "tokens_per_second", "verify_gap"})
"""The only metrics in which a resumed run may differ from an undisturbed one: what is computed once for several
rows is checked anew, on other rows."""

_EXACT = {metric.name: metric for metric in METRICS}
_BEGINNINGS = tuple((metric.name[:-1], metric) for metric in METRICS if metric.name.endswith("*"))


def metric_of(name: str) -> Metric | None:
    """What is known of a name on the curve; None = nothing, it is somebody's own.

    The parts of a mixture put their own names before: ``part/name``.
    """
    own = name.rpartition("/")[2]
    if own in _EXACT:
        return _EXACT[own]
    return next((metric for beginning, metric in _BEGINNINGS if own.startswith(beginning)), None)


def group_of(name: str) -> MetricGroup:
    """Where a metric is shown."""
    metric = metric_of(name)
    return "other" if metric is None else metric.group


def seconds_of(point: CurvePoint) -> float:
    """How long a point's unit took."""
    return sum(point.metrics.get(phase) or 0.0 for phase in PHASES)
