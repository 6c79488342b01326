"""The card of a trained version, of ``upturn train`` or the loop: data, evaluation, choice."""

from collections.abc import Mapping
from pathlib import Path

from upturn import __version__
from upturn.interval import Interval
from upturn.loop.evaluation import HeldoutResult, StageChoice, families_of
from upturn.loop.run import Context
from upturn.loop.trainers.train_command import STEPS, TrainingResult
from upturn.records import AgentVersion
from upturn.report import Estimate, difference, duration, percent_estimate

FILE = "card.md"


def write_card(context: Context, result: TrainingResult) -> str:
    """Writes ``card.md`` into the run's folder and returns its path."""
    path = context.run_dir / FILE
    path.write_text(card(context, result), encoding="utf-8")
    return str(path)


def card(context: Context, result: TrainingResult) -> str:
    """The card as Markdown."""
    lines = [
        f"# {result.candidate.id}",
        "",
        *_evaluation(result),
        "",
        *_table(context, result.incumbent, result.candidate, f"`upturn train {result.algorithm}`"),
        f"| time | {_time(context)} |",
        f"| Upturn | {__version__} |",
        "",
        *_by_family(result),
    ]
    return "\n".join(lines) + "\n"


def write_stage_card(
    context: Context,
    versions: tuple[AgentVersion, AgentVersion],
    results: Mapping[str, HeldoutResult],
    choice: StageChoice | None,
) -> Path | None:
    """Writes ``card.md`` into the folder of a cycle's candidate and returns its path; None = it has no folder.

    ``versions``: incumbent and candidate. ``results``: of held-out evaluations, before training and by stage.
    ``choice``: None = there was one stage.
    """
    incumbent, candidate = versions
    folder = Path(candidate.model)
    if not folder.is_dir():
        return None
    count, stages = len(next(iter(results.values())).marks), list(results)[1:]
    trained = stages[: stages.index(choice.chosen) + 1] if choice else stages
    lines = [
        f"# {candidate.id}",
        "",
        *([choice.sentence, ""] if choice else []),
        f"| stage | success on {count} held-out tasks |",
        "|---|---|",
        *(f"| {stage} | {_percent(result.interval())} |" for stage, result in results.items()),
        "",
        f"{'The choice does not depend on the held-out tasks. ' if choice else ''}Training had one seed.",
        "",
        *_table(context, incumbent, candidate, ", then ".join(trained)),
        f"| Upturn | {__version__} |",
    ]
    path = folder / FILE
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _table(context: Context, incumbent: AgentVersion, candidate: AgentVersion, command: str) -> list[str]:
    """Where the version is from."""
    data = []
    if candidate.snapshot and candidate.snapshot != incumbent.snapshot:
        pool = context.config.pool.path or str(context.run_dir / "pool.db")
        data = [f"| training data | snapshot `{candidate.snapshot}` of `{pool}` |"]
    return [
        "| | |",
        "|---|---|",
        f"| algorithm | {command} |",
        f"| parent | `{incumbent.id}` |",
        *data,
        f"| weights | `{candidate.weights_hash or 'as configured'}` in `{candidate.model}` |",
        *_measure(context),
        f"| tenants | {', '.join(candidate.tenants or ('any',))} |",
        f"| seed, configuration | {context.seed}, `{context.config.config_hash}` (config.json) |",
    ]


def _measure(context: Context) -> list[str]:
    """What success is measured by; empty = nothing is evaluated."""
    if context.config.traffic is not None and not context.config.traffic.evaluate:
        return []
    return [
        f"| environment | {context.kit.name}: {', '.join(context.trained_families)} |",
        f"| verifier | {context.kit.verifier.name} |",
    ]


def _evaluation(result: TrainingResult) -> list[str]:
    if result.trained.made:
        return [f"The agent is unchanged. {result.ending}", *result.trained.lines]
    if result.validation is None and result.candidate.id != result.incumbent.id:
        worth = (
            "The version is not evaluated (traffic.evaluate): a canary on live feedback decides what it is worth."
        )
        return [worth, "", result.ending, *result.trained.lines]
    if result.validation is None:
        return [f"There is no new version. {result.ending or 'No weights were kept.'}"]
    before, after = (_percent(heldout.interval()) for heldout in (result.before, result.after))
    gain = result.after.gain_over(result.before)
    lines = [
        f"On {gain.n:,} held-out tasks, success went from {before} to {after}. Compared task by task: "
        f"{difference(_estimate(gain))}. Intervals are 95 %, by bootstrap over tasks (exact where all "
        "are alike); training had one seed, and other seeds may differ.",
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
    evaluations = ", held-out evaluations included" if any(step.name == STEPS[0] for step in steps) else ""
    return f"{duration(sum(step.seconds or 0.0 for step in steps))}{evaluations}{interrupted}"


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
