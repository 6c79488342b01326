"""The card of a run that trained by itself: what it made of what, what was shown of it, and what it took."""

from upturn import __version__
from upturn.deployment import Interval
from upturn.loop.evaluation import HeldoutResult, families_of
from upturn.loop.run import Context
from upturn.loop.trainers.train_command import STEPS, TrainingResult
from upturn.report import Estimate, difference, duration, percent_estimate

FILE = "card.md"


def write_card(context: Context, taught: TrainingResult) -> str:
    """Writes ``card.md`` into the run's folder and returns its path."""
    path = context.run_dir / FILE
    path.write_text(card(context, taught), encoding="utf-8")
    return str(path)


def card(context: Context, taught: TrainingResult) -> str:
    """The card as Markdown."""
    lines = [
        f"# {taught.candidate.id}",
        "",
        *_shown(taught),
        "",
        "| | |",
        "|---|---|",
        f"| way of learning | `upturn train {taught.algorithm}` |",
        f"| made from | `{taught.incumbent.id}` |",
        *_evidence(context, taught),
        f"| weights | `{taught.candidate.weights_hash or 'as they were given'}` in `{taught.candidate.model}` |",
        f"| environment | {context.kit.name}: {', '.join(context.trained_families)} |",
        f"| judged by | {context.kit.verifier.name} |",
        f"| serves | {', '.join(taught.candidate.tenants or ('anyone',))} |",
        f"| seed, configuration | {context.seed}, `{context.config.config_hash}` (config.json) |",
        f"| time | {_time(context)} |",
        f"| made by | Upturn {__version__} |",
        "",
        *_by_family(taught),
    ]
    return "\n".join(lines) + "\n"


def _shown(taught: TrainingResult) -> list[str]:
    if taught.validation is None:
        why = taught.ending or "No weights were kept."
        return [f"No new version was made. {why}"]
    before, after = taught.before.interval(), taught.after.interval()
    gain = taught.after.gain_over(taught.before)
    found = [
        f"On {gain.n:,} held-out tasks, success went from {percent_estimate(_estimate(before))} to "
        f"{percent_estimate(_estimate(after))}. Compared task by task: {difference(_estimate(gain))}. "
        "Intervals are 95 %, by bootstrap over tasks; one seed of training, so they say nothing of other seeds.",
        "",
        f"Validation: {taught.validation.summary}.",
    ]
    if taught.ending:
        found += ["", taught.ending]
    return [*found, *taught.learned.lines]


def _time(context: Context) -> str:
    """Of the lesson's own steps: some have others within."""
    steps = [step for step in context.journal.progress().steps if step.name in STEPS]
    interrupted = ", without what was interrupted and done again" if any(step.starts > 1 for step in steps) else ""
    return f"{duration(sum(step.seconds or 0.0 for step in steps))}, held-out evaluations included{interrupted}"


def _evidence(context: Context, taught: TrainingResult) -> list[str]:
    snapshot = taught.candidate.snapshot
    if not snapshot or snapshot == taught.incumbent.snapshot:
        return []
    where = context.config.pool.path or str(context.run_dir / "pool.db")
    return [f"| learned from | snapshot `{snapshot}` of `{where}` |"]


def _by_family(taught: TrainingResult) -> list[str]:
    if taught.validation is None:
        return []
    rows = [
        f"| {family} | {len(taught.after.outcomes(family=family))} | {_share(taught.before, family)} | "
        f"{_share(taught.after, family)} |"
        for family in families_of(taught.after.marks)
    ]
    return ["| family | held-out tasks | before | after |", "|---|---|---|---|", *rows]


def _share(heldout: HeldoutResult, family: str) -> str:
    return f"{100 * heldout.rate(family=family):.0f} %"


def _estimate(found: Interval) -> Estimate:
    return Estimate(found.mean, found.low, found.high, found.n)
