"""A warning before held-out evaluations: too few tasks for the guardrails of validation.

With few tasks in many families, an unchanged version seems to lose over a strong family often. This is simulated
before anything is evaluated, with the incumbent's success rates in the pool.
"""

from upturn.deployment import FALSE_FAILURES, HeldoutDesign, tasks_needed, validation_shares
from upturn.loop.evaluation.evaluate import heldout_tasks
from upturn.loop.run import Context
from upturn.pool import Selection, statistics
from upturn.records import AgentVersion

_RUNS = 60
"""Simulated validations: the share has a standard error of 4 points at 10 %."""


def warn_of_few_tasks(context: Context, step: str, incumbent: AgentVersion) -> None:
    """Notes how often validation fails an unchanged version, if that is over ``FALSE_FAILURES``, and the number of
    tasks that would do. Does nothing if ``step``, the evaluation, is done, or without evidence of the incumbent."""
    if context.journal.has_finished(step):
        return
    rates, settings = family_rates(context, incumbent), context.config.validation
    tasks = heldout_tasks(context)
    units = len({task.episode or f"task {task.id}" for task in tasks})
    if not rates or units < settings.min_tasks:
        return
    design = HeldoutDesign(rates)
    failed = validation_shares(design, units, settings, runs=_RUNS, seed=context.seed).failed.mean
    if failed <= FALSE_FAILURES:
        return
    needed = tasks_needed(design, settings, power=None, runs=_RUNS, seed=context.seed)
    would_do = "no number up to 50,000 does" if needed is None else f"{needed} would do"
    context.progress.note(
        f"validation on {units} held-out tasks of {len(rates)} families fails an unchanged version in about "
        f"{100 * failed:.0f} % of cases; {would_do} (tasks.heldout_count; at most {100 * FALSE_FAILURES:.0f} %). "
        "`upturn release plan` shows the design"
    )


def family_rates(context: Context, incumbent: AgentVersion) -> tuple[float, ...]:
    """The incumbent's success rate in every trained family, (s + 1)/(n + 2) of its n training tasks in the pool; a
    family without any has the mean of the others. Empty = there is no evidence."""
    selection = Selection(agent_versions=(incumbent.id,), splits=("train",))
    families = context.trained_families
    counted = {
        row.family: (row.successes + 1) / (row.trajectories + 2)
        for row in statistics(context.pool, tenant=context.tenant, selection=selection).families
        if row.family in families and row.trajectories
    }
    if not counted:
        return ()
    mean = sum(counted.values()) / len(counted)
    return tuple(counted.get(family, mean) for family in families)
