"""Where lessons that learn from what is there already find it: the pool that is configured."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from upturn.agents import matches_tokenizer, rendered_rows
from upturn.agents.context import PromptBuilder
from upturn.config import Config
from upturn.errors import ConfigError, RecordError, TrainingError
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.models import Renderer
from upturn.pool import IMPORTED, Pool, Selection, experiences_in
from upturn.records import Snapshot, Trajectory

_CURE = (
    "Set pool.path to the database of an earlier run, such as runs/<id>/pool.db, or to one that `upturn ingest` "
    "filled"
)


_CAUSES: Mapping[str, str] = {
    "one_sided": "attempts without one of the other version at the same task",
    "unjudged": "without a score on one side",
    "equal": "with scores that do not differ enough",
    "unusable": "of which nothing can be learned, such as two that wrote the same",
    "failed": "whose better-scored side failed while the other did not",
    "unwritable": "with actions that the agent cannot write",
    "undecided": "with thumbs that add up to nothing",
    "dangling": "on what must not or cannot be trained on: held-out tasks, or attempts that are not there",
    "unselected": "on tasks of families or environments that are not trained on",
}
"""Why stored preferences are left out, for people."""


def left_out_words(*counts: Mapping[str, int]) -> str:
    """How many preferences are left out, and why; empty = none. Those without tokens are rendered, not left out."""
    return ", ".join(
        f"{count} {_CAUSES[cause]}"
        for each in counts
        for cause, count in each.items()
        if count and cause != "tokenless"
    )


def trained_selection(context: Context) -> Selection:
    """Trajectories of the trained families in the run's environment, recordings of elsewhere among them."""
    return Selection(families=tuple(context.trained_families), environments=(context.kit.name, IMPORTED))


def needed_pool(context: Context, algorithm: str) -> None:
    """Raises ConfigError where the run has a pool of its own, which is empty."""
    check_evidence(context.config, algorithm)


def check_evidence(config: Config, algorithm: str) -> None:
    """Raises ConfigError where there is no pool for an algorithm that needs one: opening it would make one."""
    path = config.pool.path
    learns = f"`upturn train {algorithm}` learns from evidence that is there already"
    if not path:
        raise ConfigError(
            [f"{learns}, and pool.path is empty: the run would begin with an empty pool of its own. {_CURE}"]
        )
    if not Path(path).is_file():
        raise ConfigError([f"{learns}, and there is no file pool.path = {path!r} in {str(Path.cwd())!r}. {_CURE}"])


def with_copied_pool(config: Config, folder: Path, *, is_read: bool) -> Config:
    """The configuration with a copy of its pool in the folder, so that looking leaves no trace in it.

    ``is_read``: False = nothing is learned from it, so that an empty pool does. Raises StoreError for what is no
    pool.
    """
    path = Path(config.pool.path)
    if not is_read:
        return replace(config, pool=replace(config.pool, path=""))
    copy = folder / "copy.db"
    with (
        Pool.open(path, read_only=True),
        closing(sqlite3.connect(path)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return replace(config, pool=replace(config.pool, path=str(copy)))


def demonstrations_in(context: Context, snapshot: Snapshot) -> list[Trajectory]:
    """The snapshot's trajectories by task and agent version, so that all runs of one seed learn in one order.

    Trajectory ids hold the run's id, and with it the time of its start.
    """
    found = [each.trajectory for each in experiences_in(context.pool, snapshot.id, tenant=context.tenant)]
    return sorted(found, key=lambda each: (each.task_id, each.agent_version, each.id))


class Rendered(NamedTuple):
    """Stored attempts in the tokens of one agent."""

    attempts: tuple[Trajectory, ...]
    """With something to learn."""
    unwritable: int
    """How many have nothing."""


def rendered(attempts: Iterable[Trajectory], worker: PolicyWorker) -> Rendered:
    """The attempts with token rows of the worker's renderer, see ``with_rows``."""
    found = [with_rows(each, worker.renderer, worker.prompts) for each in attempts]
    written = tuple(each for each in found if any(row.spans for row in each.rows))
    return Rendered(written, len(found) - len(written))


def rendered_demonstrations(context: Context, snapshot: Snapshot, worker: PolicyWorker) -> tuple[Trajectory, ...]:
    """``demonstrations_in`` in the worker's tokens; notes how many it cannot write.

    Raises TrainingError where it can write none.
    """
    found = rendered(demonstrations_in(context, snapshot), worker)
    if not found.attempts:
        raise TrainingError(
            f"{worker.version.agent!r} can write the first action of none of the {found.unwritable} verified "
            "successes that it should learn from; take a pool with attempts in its environment, or an agent with "
            "another renderer"
        )
    if found.unwritable:
        context.progress.note(f"left out of the successes: {found.unwritable} that the agent cannot write")
    return found.attempts


def with_rows(trajectory: Trajectory, renderer: Renderer, prompts: PromptBuilder | None = None) -> Trajectory:
    """The trajectory with token rows: its own if they are tokens of this renderer, else rendered from its actions.

    What a model with another tokenizer sampled counts as rendered then: its log-probs are of other tokens. Without
    rows where the renderer cannot write an action, or none could be read: there is nothing to learn from it.
    """
    if trajectory.rows and matches_tokenizer(trajectory, renderer):
        return trajectory
    try:
        rows = rendered_rows(trajectory, renderer, prompts)
    except RecordError:  # one foreign name must not end the training on all others
        rows = ()
    return replace(trajectory, rows=rows, origin="rendered", temperature=None, model_version="")
