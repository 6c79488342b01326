"""Which curves a page about a training run shows, what each is called, and what a good one looks like."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from upturn.report.training.content import TrainingReport
from upturn.report.training.curriculum_panel import NOT_DRAWN, curriculum_panels
from upturn.report.training.panel_kind import Line, Panel, Scale
from upturn.training.runs import PHASES, metric_of


class _Loss(NamedTuple):
    """What a run minimises."""

    good: str
    axis: str
    scale: Scale = "from zero"


_POLICY_LOSS = _Loss(
    "Of a policy gradient the loss itself says little. Look for jumps, not for a trend.",
    "loss a written token",
    "free",
)
_SUPERVISED_LOSS = _Loss(
    "Mean −log probability of what is to be written. It should fall, fast at first. Flat from the start: the "
    "learning rate is too low, or there is nothing to learn.",
    "nats a written token",
)
_PREFERENCE_LOSS = _Loss(
    "Of what was preferred: it begins where nothing is (DPO's sigmoid: ln 2, KTO: ½) and should fall. Near 0 on "
    "few rows: they are learned by heart.",
    "loss a pair",
)
_LOSSES: Mapping[str, _Loss] = {
    "grpo": _POLICY_LOSS,
    "ppo": _POLICY_LOSS,
    "sft": _SUPERVISED_LOSS,
    "imitation": _SUPERVISED_LOSS,
    "pretraining": _SUPERVISED_LOSS,
    "dpo": _PREFERENCE_LOSS,
    "dpo rounds": _PREFERENCE_LOSS,
    "kto": _PREFERENCE_LOSS._replace(axis="loss a rated attempt"),
    "mixture": _Loss(
        "The sum of its parts, each with its own weight. Look for jumps, not for a trend.",
        "sum of the parts",
        "free",
    ),
}
"""By what a run's description calls its algorithm."""
_EVALUATION = Panel(
    "score",
    "Held-out evaluations",
    "score",
    "It should rise and stay up. The weights to keep are chosen by it, which flatters the best one a little: "
    "compare on tasks that nothing was chosen on.",
    (Line("score", "score"),),
    "score",
    "free",
    is_wide=True,
)
_FIXED = (
    Panel(
        "reward",
        "Reward while practising",
        "mean reward",
        "It should rise. Every point is sampled anew on other tasks, so trust the bold line, a mean of the latest "
        "points.",
        (Line("mean_return", "reward"),),
        "noisy",
        "free",
        is_wide=True,
    ),
    Panel(
        "gradient",
        "Gradient norm",
        "2-norm before clipping",
        "It should keep its order of magnitude. Single spikes are cut down; growth over many steps comes before "
        "divergence.",
        (Line("grad_norm", "gradient"),),
        "noisy",
    ),
    Panel(
        "learning-rate",
        "Learning rate",
        "learning rate",
        "As the schedule says: warm-up, then constant or falling.",
        (Line("learning_rate", "learning rate"),),
    ),
    Panel(
        "entropy",
        "Entropy",
        "nats a token",
        "How undecided the policy is. A slow fall is learning; a fast fall to 0 is collapse: nothing new is tried. "
        "A rise means that it comes apart.",
        (Line("entropy", "entropy"),),
        "noisy",
    ),
    Panel(
        "kl",
        "How far the policy has moved",
        "KL divergence, nats a token",
        "Small and steady. The sampler is the policy before the iteration's steps, the reference the one before "
        "training; sudden growth means that steps are too long.",
        (Line("kl_sampler", "from its sampler"), Line("kl_reference", "from the reference")),
        "noisy",
    ),
    Panel(
        "ratio",
        "Probability ratio",
        "model ÷ sampler, mean",
        "Close to 1. Far from it, what was sampled says little about the policy that learns from it.",
        (Line("ratio", "ratio"),),
        "noisy",
        "free",
        ideal=1.0,
    ),
    Panel(
        "clip",
        "Clipped tokens",
        "share of written tokens",
        "A few per cent at most. Much more: steps go too far for one batch. Never any: the clip does not matter.",
        (
            Line("clip_fraction_low", "made unlikelier"),
            Line("clip_fraction_high", "made likelier"),
            Line("clip_fraction_dual", "second clip"),
        ),
        "noisy",
    ),
    Panel(
        "agreement",
        "Sampler and trainer agree",
        "largest |Δ log π|, nats",
        "Rounding only: below 10⁻³ in float32. More means that the sampler is another policy than the one trained.",
        (Line("max_logprob_gap", "before the first step"), Line("verify_gap", "shared against plain computation")),
        scale="log",
        ideal=0.0,
    ),
    Panel(
        "groups",
        "Groups that teach",
        "groups",
        "Where all attempts at a task earn the same there is nothing to compare. Many such groups early: tasks too "
        "hard; many late: tasks solved.",
        (Line("groups", "sampled"), Line("filtered_groups", "all earned the same")),
    ),
    Panel(
        "tokens",
        "Tokens of an update",
        "tokens",
        "Shared beginnings are computed once: the gap between recorded and computed is work that was saved.",
        (Line("logical_tokens", "as recorded"), Line("physical_tokens", "computed")),
        "noisy",
    ),
    Panel(
        "share",
        "Work saved by sharing",
        "row by row ÷ as done",
        "1: nothing was shared. 2: half of the work was saved. It grows with group size and prompt length.",
        (Line("share_ratio", "ratio"),),
        "noisy",
    ),
    Panel(
        "action",
        "What is trained on",
        "written ÷ recorded tokens",
        "Only what the model wrote carries a loss. A falling share means that prompts and tool output outgrow it.",
        (Line("action_fraction", "share"),),
        "noisy",
    ),
    Panel(
        "fallbacks",
        "Fallbacks",
        "micro-batches",
        "It should be 0. Else shared computation was asked for and could not be used; the warning says why.",
        (Line("fallbacks", "row by row"),),
        ideal=0.0,
    ),
    Panel(
        "trouble",
        "Unscorable and forked",
        "a unit",
        "Both should be near 0. Attempts without a reward teach nothing; forked rows were begun anew because a "
        "prompt changed its own past, which a context with a budget does on purpose.",
        (
            Line("unscorable", "attempts without reward"),
            Line("forks", "forked rows"),
            Line("compactions", "of these for a budget"),
            Line("curriculum_missing", "attempts that nobody judged"),
        ),
        ideal=0.0,
    ),
    Panel(
        "seconds",
        "Where the time goes",
        "seconds",
        "Sampling, update and evaluation; writing checkpoints is not in it. The tallest band is the one worth "
        "making faster.",
        tuple(
            Line(phase, word)
            for phase, word in zip(PHASES, ("sampling and judging", "update", "evaluation"), strict=True)
        ),
        "stack",
    ),
    Panel(
        "speed",
        "Speed of the update",
        "tokens a second",
        "Recorded tokens over the time of the update: higher is better, and the same machine should hold it.",
        (Line("tokens_per_second", "tokens a second"),),
        "noisy",
    ),
)
_NOT_DRAWN = frozenset(
    {
        "score_low",  # the whiskers of the score
        "score_high",
        "score_tasks",  # said in words
        "optimiser_steps",
        "epoch",
        "trajectories",
        "trained_rows",
        "written_tokens",  # a total on the page
        "ratio_squared",
        "clip_fraction",  # the sum of its parts
        "token_logprob",  # minus the loss
    }
)


def panels(report: TrainingReport) -> tuple[Panel, ...]:
    """The pictures that this run has figures for, in the page's order; curves that nobody here knows come last.

    Left out are those in which nothing ever went wrong: see ``Panel.ideal``.
    """
    costs = [name for name in report.metrics if name.startswith("cost_")]
    loss = _loss(report)
    course = curriculum_panels(report.metrics)
    first = [_EVALUATION, _FIXED[0], *course, *([_costs(costs)] if costs else []), loss, *_FIXED[1:]]
    drawn = {line.metric for panel in first for line in panel.lines}
    unknown = [name for name in report.metrics if name not in drawn | _NOT_DRAWN and not name.startswith(NOT_DRAWN)]
    further = [_own(index, name) for index, name in enumerate(unknown)]
    found = (_with_figures(panel, report) for panel in (*first, *further))
    return tuple(panel for panel in found if panel.lines)


def _loss(report: TrainingReport) -> Panel:
    """As the run's algorithm has it; of one that nobody here knows, a policy's where there was practice."""
    practises = "mean_return" in report.metrics
    known = _LOSSES.get(report.description.identity.get("algorithm", ""))
    loss = known or (_POLICY_LOSS if practises else _SUPERVISED_LOSS)
    lines = (Line("loss", "loss"),)
    return Panel("loss", "Loss", loss.axis, loss.good, lines, "noisy", loss.scale, is_wide=not practises)


def _costs(names: Sequence[str]) -> Panel:
    return Panel(
        "costs",
        "Held-out costs",
        "cost",
        "Lower is better. Costs are never added to the score; weights above a dashed limit are not kept.",
        tuple(Line(name, name.removeprefix("cost_")) for name in names),
        is_wide=True,
        ideal=0.0,
    )


def _own(index: int, name: str) -> Panel:
    """A picture for a metric that has none of its own; any text may be its name."""
    known = metric_of(name)
    words = name.replace("_", " ").replace("/", ", ")
    title, lines = words[:1].upper() + words[1:], (Line(name, words),)
    if known is None:
        return Panel(f"own-{index}", title, words, "A figure of the run's own algorithm.", lines, "noisy", "free")
    return Panel(f"own-{index}", title, known.unit or words, known.meaning, lines, "noisy", "free")


def _with_figures(panel: Panel, report: TrainingReport) -> Panel:
    """The panel with the lines that the run has figures of; with none where they are ideal throughout."""
    known = tuple(line for line in panel.lines if report.values(line.metric))
    values = {value for line in known for _, value in report.values(line.metric)}
    return panel._replace(lines=() if values == {panel.ideal} else known)
