"""The card of an ``upturn train`` run: the version, its training data, its evaluation and its cost."""

from upturn import __version__
from upturn.interval import Interval
from upturn.loop.evaluation import families_of
from upturn.loop.run import Context
from upturn.loop.trainers.train_command import STEPS, TrainingResult
from upturn.report import Estimate, difference, duration, percent_estimate

FILE = "card.md"


def write_card(context: Context, result: TrainingResult) -> str:
    """Writes ``card.md`` into the run's folder and returns its path."""
    path = context.run_dir / FILE
    path.write_text(card(context, result), encoding="utf-8")
    return str(path)


def card(context: Context, result: TrainingResult) -> str:
    """The card as Markdown."""
    candidate, incumbent = result.candidate, result.incumbent
    data = []
    if candidate.snapshot and candidate.snapshot != incumbent.snapshot:
        pool = context.config.pool.path or str(context.run_dir / "pool.db")
        data = [f"| training data | snapshot `{candidate.snapshot}` of `{pool}` |"]
    lines = [
        f"# {candidate.id}",
        "",
        *_evaluation(result),
        "",
        "| | |",
        "|---|---|",
        f"| algorithm | `upturn train {result.algorithm}` |",
        f"| parent | `{incumbent.id}` |",
        *data,
        f"| weights | `{candidate.weights_hash or 'as configured'}` in `{candidate.model}` |",
        f"| environment | {context.kit.name}: {', '.join(context.trained_families)} |",
        f"| verifier | {context.kit.verifier.name} |",
        f"| tenants | {', '.join(candidate.tenants or ('any',))} |",
        f"| seed, configuration | {context.seed}, `{context.config.config_hash}` (config.json) |",
        f"| time | {_time(context)} |",
        f"| Upturn | {__version__} |",
        "",
        *_by_family(result),
    ]
    return "\n".join(lines) + "\n"


def _evaluation(result: TrainingResult) -> list[str]:
    if result.validation is None:
        return [f"There is no new version. {result.ending or 'No weights were kept.'}"]
    before, after = (_percent(heldout.interval()) for heldout in (result.before, result.after))
    gain = result.after.gain_over(result.before)
    lines = [
        f"On {gain.n:,} held-out tasks, success went from {before} to {after}. Compared task by task: "
        f"{difference(_estimate(gain))}. Intervals are 95 %, by bootstrap over tasks; training had one seed, and "
        "other seeds may differ.",
        "",
        f"Validation: {result.validation.summary}.",
    ]
    if result.ending:
        lines += ["", result.ending]
    return [*lines, *result.trained.lines]


def _time(context: Context) -> str:
    """Of the run's own steps, which may have others within."""
    steps = [step for step in context.journal.progress().steps if step.name in STEPS]
    interrupted = ", without interrupted and repeated work" if any(step.starts > 1 for step in steps) else ""
    return f"{duration(sum(step.seconds or 0.0 for step in steps))}, held-out evaluations included{interrupted}"


def _by_family(result: TrainingResult) -> list[str]:
    if result.validation is None:
        return []
    rows = [
        f"| {family} | {len(result.after.outcomes(family=family))} | "
        f"{100 * result.before.rate(family=family):.0f} % | {100 * result.after.rate(family=family):.0f} % |"
        for family in families_of(result.after.marks)
    ]
    return ["| family | held-out tasks | before | after |", "|---|---|---|---|", *rows]


def _percent(interval: Interval) -> str:
    return percent_estimate(_estimate(interval))


def _estimate(interval: Interval) -> Estimate:
    return Estimate(interval.mean, interval.low, interval.high, interval.n)
