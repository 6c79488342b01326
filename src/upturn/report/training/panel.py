"""The panels of a training run's page: their curves, and what a good curve looks like."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from upturn.report.training.content import TrainingReport
from upturn.training.runs import PHASES, metric_of

Kind = Literal["score", "noisy", "line", "stack"]
"""``score``: dots with intervals. ``noisy``: points under a bold moving mean. ``line``: as measured. ``stack``:
stacked parts of a whole."""
Scale = Literal["free", "from zero", "log"]
"""``free``: the range of the figures."""


class Line(NamedTuple):
    """One curve within a panel."""

    metric: str
    label: str


class Panel(NamedTuple):
    """A picture of one or a few curves on the same axis."""

    name: str
    title: str
    axis: str
    """What the vertical axis shows, with its unit."""
    good: str
    """One or two sentences: the quantity, and what a good curve looks like."""
    lines: tuple[Line, ...]
    kind: Kind = "line"
    scale: Scale = "from zero"
    is_wide: bool = False
    ideal: float | None = None
    """The panel is omitted if all its curves are constant at this value. None = never omitted."""


class _Loss(NamedTuple):
    """The training loss of an algorithm."""

    good: str
    axis: str
    scale: Scale = "from zero"


_POLICY_LOSS = _Loss(
    "The value of a policy-gradient loss says little. Look for jumps, not for a trend.",
    "loss a written token",
    "free",
)
_SUPERVISED_LOSS = _Loss(
    "Mean −log probability of the target tokens. It should fall, fast at first. Flat from the start: the learning "
    "rate is too low, or there is nothing to learn.",
    "nats a written token",
)
_PREFERENCE_LOSS = _Loss(
    "It starts at its value without any preference (DPO's sigmoid: ln 2, KTO: ½) and should fall. Near 0 on few "
    "rows: they are memorised.",
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
    "kto": _PREFERENCE_LOSS._replace(axis="loss a rated trajectory"),
    "mixture": _Loss(
        "The sum of its parts, each with its own weight. Look for jumps, not for a trend.",
        "sum of the parts",
        "free",
    ),
}
"""By the algorithm in a run's description."""
_EVALUATION = Panel(
    "score",
    "Held-out evaluations",
    "score",
    "It should rise and stay up. It selects the weights to keep, so the best score is slightly optimistic: compare "
    "versions on other held-out tasks.",
    (Line("score", "score"),),
    "score",
    "free",
    is_wide=True,
)
_FIXED = (
    Panel(
        "reward",
        "Reward in training rollouts",
        "mean reward",
        "It should rise. Every point is sampled on other tasks: read the bold line, a mean of the latest points.",
        (Line("mean_return", "reward"),),
        "noisy",
        "free",
        is_wide=True,
    ),
    Panel(
        "gradient",
        "Gradient norm",
        "2-norm before clipping",
        "It should keep its order of magnitude. Single spikes are clipped; growth over many steps precedes "
        "divergence.",
        (Line("grad_norm", "gradient"),),
        "noisy",
    ),
    Panel(
        "learning-rate",
        "Learning rate",
        "learning rate",
        "It follows the schedule: warm-up, then constant or falling.",
        (Line("learning_rate", "learning rate"),),
    ),
    Panel(
        "entropy",
        "Entropy",
        "nats a token",
        "The policy's uncertainty. A slow fall is learning; a fast fall to 0 is collapse: exploration ends. "
        "A rise means that the policy degenerates.",
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
        "Close to 1. Far from it, the samples say little about the policy that is trained.",
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
            Line("clip_fraction_low", "probability decreased"),
            Line("clip_fraction_high", "probability increased"),
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
        "Groups with a signal",
        "groups",
        "Groups with equal rewards have no relative advantage. Many such groups early: tasks too hard; many late: "
        "tasks solved.",
        (Line("groups", "sampled"), Line("filtered_groups", "equal rewards")),
    ),
    Panel(
        "tokens",
        "Tokens of an update",
        "tokens",
        "Shared prefixes are computed once: the gap between recorded and computed is saved work.",
        (Line("logical_tokens", "as recorded"), Line("physical_tokens", "computed")),
        "noisy",
    ),
    Panel(
        "share",
        "Work saved by sharing",
        "row by row ÷ as done",
        "1: nothing is shared. 2: half of the work is saved. It grows with group size and prompt length.",
        (Line("share_ratio", "ratio"),),
        "noisy",
    ),
    Panel(
        "action",
        "What is trained on",
        "written ÷ recorded tokens",
        "Only model-written tokens carry a loss. A falling share means that prompts and tool output grow faster.",
        (Line("action_fraction", "share"),),
        "noisy",
    ),
    Panel(
        "fallbacks",
        "Fallbacks",
        "micro-batches",
        "It should be 0. Otherwise shared computation was requested and could not be used; the warning says why.",
        (Line("fallbacks", "row by row"),),
        ideal=0.0,
    ),
    Panel(
        "trouble",
        "Unscorable and forked",
        "a unit",
        "Both should be near 0. Trajectories without a reward are not trained; a forked row starts where a prompt "
        "does not extend the earlier tokens, which a context with a budget does on purpose.",
        (
            Line("unscorable", "trajectories without reward"),
            Line("forks", "forked rows"),
            Line("compactions", "of these for a context budget"),
            Line("repaired_calls", "repaired calls"),
            Line("curriculum_missing", "trajectories without a verdict"),
        ),
        ideal=0.0,
    ),
    Panel(
        "seconds",
        "Where the time goes",
        "seconds",
        "Sampling, update and evaluation, without writing checkpoints. The tallest band is the first to optimise.",
        tuple(
            Line(phase, label)
            for phase, label in zip(PHASES, ("sampling and grading", "update", "evaluation"), strict=True)
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
        "score_tasks",  # in the sentences
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
SUCCESS = "levels"
"""Name of the panel of success by level."""
_CURRICULUM_MARKS = ("curriculum_level", "curriculum_final", "best_level_")
"""Prefixes of metrics that other panels mark, or that follow from them."""


def panels(report: TrainingReport) -> tuple[Panel, ...]:
    """The panels that the run has data for, in the page's order; curves of unknown metrics come last.

    Panels that are ideal throughout are omitted, see ``Panel.ideal``.
    """
    costs = [name for name in report.metrics if name.startswith("cost_")]
    loss = _loss(report)
    course = curriculum_panels(report.metrics)
    first = [_EVALUATION, _FIXED[0], *course, *([_costs(costs)] if costs else []), loss, *_FIXED[1:]]
    drawn = {line.metric for panel in first for line in panel.lines}
    unknown = [
        name for name in report.metrics if name not in drawn | _NOT_DRAWN and not name.startswith(_CURRICULUM_MARKS)
    ]
    further = [_other(index, name) for index, name in enumerate(unknown)]
    drawable = (_with_figures(panel, report) for panel in (*first, *further))
    return tuple(panel for panel in drawable if panel.lines)


def _loss(report: TrainingReport) -> Panel:
    """The loss panel of the run's algorithm; for an unknown algorithm, that of a policy if there are rollouts."""
    has_rollouts = "mean_return" in report.metrics
    known = _LOSSES.get(report.description.identity.get("algorithm", ""))
    loss = known or (_POLICY_LOSS if has_rollouts else _SUPERVISED_LOSS)
    lines = (Line("loss", "loss"),)
    return Panel("loss", "Loss", loss.axis, loss.good, lines, "noisy", loss.scale, is_wide=not has_rollouts)


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


def _other(index: int, name: str) -> Panel:
    """A panel for a metric without a fixed one; any text may be its name."""
    known = metric_of(name)
    label = name.replace("_", " ").replace("/", ", ")
    title, lines = label[:1].upper() + label[1:], (Line(name, label),)
    if known is None:
        return Panel(f"own-{index}", title, label, "A metric of the run's algorithm.", lines, "noisy", "free")
    return Panel(f"own-{index}", title, known.unit or label, known.meaning, lines, "noisy", "free")


def _with_figures(panel: Panel, report: TrainingReport) -> Panel:
    """The panel with the lines that the run has data for; without lines if all are ideal throughout."""
    known = tuple(line for line in panel.lines if report.values(line.metric))
    values = {value for line in known for _, value in report.values(line.metric)}
    return panel._replace(lines=() if values == {panel.ideal} else known)


def curriculum_panels(metrics: Sequence[str]) -> list[Panel]:
    """One curve or band for each level; empty for a run without a curriculum."""
    if not _levels(metrics, "sampled_level_"):
        return []
    return [
        Panel(
            SUCCESS,
            "Success by level",
            "recent successes",
            "Each level should rise in turn and stay up. Dashed marks: that level becomes the most sampled; "
            "“all”: the last level is learned, and all are mixed.",
            _levels(metrics, "success_level_"),
            is_wide=True,
        ),
        Panel(
            "mix",
            "Tasks sampled",
            "share of the tasks",
            "By level. Most tasks should move to higher levels while a part of the easier ones stays.",
            _levels(metrics, "sampled_level_"),
            "stack",
        ),
        Panel(
            "forgotten",
            "Forgetting",
            "best minus now",
            "Near 0. A level below its best was learned and is being forgotten.",
            _levels(metrics, "drop_level_"),
            ideal=0.0,
        ),
        Panel(
            "resting",
            "Families paused",
            "families",
            "Families that nearly always or never succeed give little signal and are sampled rarely. All paused: "
            "the tasks are too easy or too hard.",
            (Line("curriculum_closed", "paused"),),
            ideal=0.0,
        ),
    ]


def promotions(report: TrainingReport) -> list[tuple[int, str]]:
    """(units, text) wherever the current level changes, and where the final mix starts."""
    levels, final = pairwise(report.values("curriculum_level")), pairwise(report.values("curriculum_final"))
    marks = [(units, f"level {now:g}") for (_, before), (units, now) in levels if now != before]
    return sorted(marks + [(units, "all") for (_, before), (units, now) in final if now > before])


def _levels(metrics: Sequence[str], prefix: str) -> tuple[Line, ...]:
    """By level, easiest first; other metrics with the same prefix are not levels."""
    endings = (name.removeprefix(prefix) for name in metrics if name.startswith(prefix))
    return tuple(
        Line(f"{prefix}{level}", f"level {level}") for level in sorted(int(e) for e in endings if e.isdecimal())
    )
