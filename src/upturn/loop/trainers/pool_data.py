"""Training data from the configured pool, for algorithms that train on stored trajectories."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from upturn.config import Config
from upturn.errors import ConfigError, TrainingError
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.pool import IMPORTED, Experience, Selection, copy_pool, learnable_in, pool_exists
from upturn.records import Snapshot, Trajectory

_OMISSIONS: Mapping[str, str] = {
    "one_sided": "trajectories without one of the other version on the same task",
    "unjudged": "without a score on one side",
    "equal": "with scores that do not differ enough",
    "unusable": "without anything to train on, such as two that wrote the same",
    "failed": "whose better-scored side failed while the other did not",
    "unwritable": "with actions that the agent cannot write",
    "undecided": "with ratings that add up to 0",
    "dangling": "on held-out tasks or missing trajectories, which cannot be trained on",
    "unselected": "on families or environments that are not trained",
}
"""Reasons for omitting stored preferences, for people."""


def describe_omissions(*counts: Mapping[str, int]) -> str:
    """How many preferences are omitted, and why; empty if none. Those without tokens are rendered, not omitted."""
    return ", ".join(
        f"{number} {_OMISSIONS[cause]}"
        for causes in counts
        for cause, number in causes.items()
        if number and cause != "tokenless"
    )


def trained_selection(context: Context) -> Selection:
    """Trajectories of the trained families in the run's environment, imported ones included."""
    return Selection(families=training_families(context), environments=(context.kit.name, IMPORTED))


def training_families(context: Context) -> tuple[str, ...]:
    """The trained families, and those of imported conversations that are trained on."""
    return tuple(dict.fromkeys((*context.trained_families, *context.config.pool.imported_families)))


def check_pool(config: Config, algorithm: str) -> None:
    """Raises ConfigError without an existing pool, which an algorithm on stored data needs."""
    path = config.pool.path
    hint = (
        "Set pool.path to the database of an earlier run, such as runs/<id>/pool.db, or to one that "
        "`upturn ingest` filled"
    )
    trains = f"`upturn train {algorithm}` trains on stored data"
    if not path:
        raise ConfigError([f"{trains}, and pool.path is empty: the run would start with an empty pool. {hint}"])
    if not pool_exists(path):
        raise ConfigError([f"{trains}, and there is no file pool.path = {path!r} in {str(Path.cwd())!r}. {hint}"])


def with_copied_pool(config: Config, folder: Path, *, is_read: bool) -> Config:
    """The configuration with a copy of its pool in the folder, so that a plan does not change the pool.

    ``is_read``: False means that no stored data is trained on, so that an empty pool does. Raises StoreError where
    the file is not a pool.
    """
    if not is_read:
        return replace(config, pool=replace(config.pool, path=""))
    copy = folder / "copy.db"
    copy_pool(config.pool.path, copy)
    return replace(config, pool=replace(config.pool, path=str(copy)))


def stored_extremes(context: Context) -> list[list[Experience]]:
    """The best and the worst scored trajectory of each trained task, the earlier of equal ones; by task id.

    Tasks with one scored trajectory are omitted, and trajectories that a model or an environment broke.
    """
    selection = replace(trained_selection(context), splits=("train",))
    tasks: dict[str, list[Experience]] = {}
    for item in context.pool.experiences(selection, tenant=context.tenant):
        score = None if item.evaluation is None else item.evaluation.score
        if score is None or not item.trajectory.turns:
            continue
        if item.trajectory.outcome in ("model_error", "environment_error"):
            continue
        known = sorted([*tasks.get(item.task.id, ()), item], key=_score)
        tasks[item.task.id] = known if len(known) < 2 else [known[0], known[-1]]
    return [found for _, found in sorted(tasks.items()) if len(found) > 1]


def _score(item: Experience) -> float:
    assert item.evaluation is not None
    assert item.evaluation.score is not None
    return item.evaluation.score


def load_demonstrations(context: Context, snapshot: Snapshot) -> list[Trajectory]:
    """The snapshot's trajectories by task and agent version, so that all runs of one seed have one order.

    Trajectory ids contain the run's id, and with it the time of its start.
    """
    experiences = learnable_in(context.pool, snapshot.id, tenant=context.tenant)
    trajectories = [experience.trajectory for experience in experiences]
    return sorted(
        trajectories, key=lambda trajectory: (trajectory.task_id, trajectory.agent_version, trajectory.id)
    )


def render_writable(trajectories: Iterable[Trajectory], worker: PolicyWorker) -> list[Trajectory]:
    """The trajectories in the worker's tokens (``PolicyWorker.rendered``), without those that it cannot write."""
    rendered = map(worker.rendered, trajectories)
    return [trajectory for trajectory in rendered if any(row.spans for row in trajectory.rows)]


def render_demonstrations(context: Context, snapshot: Snapshot, worker: PolicyWorker) -> list[Trajectory]:
    """``load_demonstrations`` in the worker's tokens; notes how many it cannot write.

    Raises TrainingError where it can write none.
    """
    stored = load_demonstrations(context, snapshot)
    demonstrations = render_writable(stored, worker)
    if not demonstrations:
        raise TrainingError(
            f"{worker.version.agent!r} can write the first action of none of the {len(stored)} verified successes"
            f"{describe_refusals(worker)}; use a pool with trajectories in its environment, or an agent with "
            "another renderer"
        )
    if len(demonstrations) < len(stored):
        omitted = len(stored) - len(demonstrations)
        context.progress.note(f"omitted {omitted} successes that the agent cannot write{describe_refusals(worker)}")
    return demonstrations


def describe_refusals(worker: PolicyWorker) -> str:
    """Why imported conversations are not rendered, with their numbers, in parentheses; empty = all of them are."""
    reasons = [f"{number} imported: {reason}" for reason, number in worker.refusals.most_common(_MOST_REASONS)]
    return f" ({'; '.join(reasons)})" if reasons else ""


_MOST_REASONS = 5
