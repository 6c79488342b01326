"""The choice between the versions of a cycle's training stages, on validation tasks.

Training may make a version worse. So the version of every stage runs the same validation tasks, and the one with
the most successes goes on to the held-out comparison and the canary. The tasks are neither trained on nor held-out:
a choice on held-out tasks would bias their figures upwards.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from upturn.loop.evaluation.evaluate import HeldoutResult, evaluate_version, evaluation_tasks
from upturn.loop.evaluation.model_selection import SelectionTasks, selection_tasks
from upturn.loop.rollouts import rollout_runtime
from upturn.loop.run import FEWEST_SET_ASIDE, Context, FileKit
from upturn.records import AgentVersion, Result, Task, record

STAGE_TASKS = 216
"""Maximum number of validation tasks of each stage, before rounding up to full rounds over the families; never more
than ``tasks.heldout_count``. Of two versions near 90 % that differ by 5 points, the better one is then chosen in
about 95 % of cases: Φ(.05 / sqrt(2 · .9 · .1 / 216))."""
STAGE_SEED = 15_013
"""Added to the run's seed for these tasks, so that model selection during training uses others."""


@record
class Stage:
    """One stage's version and its success on the validation tasks."""

    name: str
    """For example ``SFT``."""
    version: str
    success: float
    low: float
    """Of the 95 % interval."""
    high: float
    n: int
    is_within_limits: bool = True
    """Whether the mean of every limited cost is within its limit (``grpo.cost_limits``)."""


@record
class StageChoice:
    """The stages in the order of training, and the chosen one."""

    stages: tuple[Stage, ...]
    chosen: str
    """Name of the stage."""
    measure: str
    """Description of success on the validation tasks."""

    @property
    def sentence(self) -> str:
        """The successes of all stages and the choice, for cards and reports."""
        parts = " and ".join(
            f"{100 * stage.success:.1f} % after {stage.name}"
            + ("" if stage.is_within_limits else ", above its limits on costs")
            for stage in self.stages
        )
        count = self.stages[0].n
        return f"On {count} validation tasks, {parts}: the version after {self.chosen} was chosen ({self.measure})."

    def results(self, prefix: str = "") -> list[Result]:
        """Success of every stage, and the chosen one."""
        rates = [
            Result(f"{prefix}stage_{stage.name.lower()}", stage.success, "share", stage.low, stage.high, stage.n)
            for stage in self.stages
        ]
        return [*rates, Result(f"{prefix}stage", self.chosen)]


def choose_stage(
    context: Context, prefix: str, versions: Mapping[str, AgentVersion], limits: Mapping[str, float]
) -> StageChoice:
    """Evaluates the version of every stage, in the order of training, and chooses one.

    The best is within the ``limits`` on mean costs if any stage is, and has the most successes; of equal ones the
    last is chosen. Each evaluation is a step of the journal: ``PREFIXstage-NAME``. The trajectories are not stored,
    since the next cycle would train on them.
    """
    chosen_from = stage_tasks(context)
    results = {
        name: _evaluate(context, f"{prefix}stage-{name.lower()}", version, chosen_from.tasks)
        for name, version in versions.items()
    }
    stages = tuple(_stage(name, result, limits) for name, result in results.items())
    best = max(enumerate(stages), key=lambda item: (item[1].is_within_limits, item[1].success, item[0]))[1]
    choice = StageChoice(stages, best.name, chosen_from.measure)
    context.progress.note(choice.sentence)
    return choice


def stage_tasks(context: Context) -> SelectionTasks:
    """Training templates in unseen worlds. Of a file, tasks that are set aside; if it has enough, others than model
    selection uses."""
    count = min(STAGE_TASKS, context.config.tasks.heldout_count)
    if not isinstance(context.kit, FileKit):
        tasks = evaluation_tasks(
            context.kit, context.trained_families, count, seed=context.seed + STAGE_SEED, split="train"
        )
        return SelectionTasks(tasks, "training templates in unseen worlds")
    families = context.trained_families
    aside = context.kit.set_aside(seed=context.seed + STAGE_SEED, families=families)
    used = {task.id for task in selection_tasks(context).tasks}
    fresh = list(islice((task for task in aside if task.id not in used), count))
    if len(fresh) >= FEWEST_SET_ASIDE:
        return SelectionTasks(fresh, "training tasks that are set aside and used for nothing else")
    shared = selection_tasks(context)
    measure = "the tasks of model selection, which favour the stage whose weights were selected on them"
    return SelectionTasks(shared.tasks[:count], measure, shared.is_unseen)


def _evaluate(context: Context, step: str, version: AgentVersion, tasks: Sequence[Task]) -> HeldoutResult:
    def work() -> HeldoutResult:
        context.progress.stage(f"Evaluate {version.id} on {len(tasks)} validation tasks", len(tasks))
        with rollout_runtime(context, version, step) as runtime:
            result = evaluate_version(runtime, version, tasks, context.purpose(step), pool=None)
        context.progress.advance(len(tasks), success=result.rate())
        return result

    return context.journal.record_step(step, HeldoutResult, work)


def _stage(name: str, result: HeldoutResult, limits: Mapping[str, float]) -> Stage:
    interval, costs = result.interval(), result.costs()
    is_within = all(name not in costs or costs[name].mean <= limit for name, limit in limits.items())
    return Stage(name, result.agent_version, interval.mean, interval.low, interval.high, interval.n, is_within)
