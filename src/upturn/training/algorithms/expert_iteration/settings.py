"""The settings of training on one's own successes, for four named algorithms. No torch here.

All are iterations of: sample trajectories with the present weights, select successes, train supervised on them.
They differ in the number of iterations, in whether an iteration trains the initial weights or continues from the
previous one, and in whether failed tasks are sampled again with a hint. Departures from the papers:

- At most 4 trajectories of a task are selected: the papers keep all, and easy tasks then dominate.
- ``rejection``: trajectories are distinct by written tokens; the paper compares the equations in them, which most
tasks lack.
- ``iterated``: the threshold is constant; raising it from round to round needs rewards finer than success.
- ``star``: passes over the selection instead of step counts that grow by 20 % a round: more successes are more
steps anyway. Several trajectories of each task are sampled; the paper takes one greedy one. An iteration without
any success leaves the weights unchanged instead of restoring the initial ones.
- ``self_repair`` is also called STaR in places, but nothing is rationalised."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from upturn.config import Count, OptimiserSettings, settings
from upturn.training.run_settings import Decay, OnlineSettings
from upturn.training.selection_settings import HintSettings, SelectionSettings

FEW_PER_TASK = SelectionSettings(top=4)
"""Keeps easy tasks from dominating."""


@settings
class ImitationSettings(OnlineSettings):
    """Iterations of supervised training on the agent's own successes."""

    iterations: Count = 5
    """Iterations of sampling, selecting and training."""
    tasks_per_iteration: Count = 96
    """Tasks in one iteration."""
    optimiser: OptimiserSettings = OptimiserSettings(learning_rate=1e-3)
    """AdamW."""
    decay: Decay = "linear"
    """Decay of the learning rate within each iteration; each iteration has its own warm-up."""
    evaluate_every: Count | None = 1
    """Iterations between two evaluations; the first is before training."""
    epochs: Count = 4
    """Passes over the selected trajectories of an iteration."""
    batch_rows: Count = 32
    """Rows in one optimiser step."""
    selection: SelectionSettings = SelectionSettings()
    """Which trajectories are trained on."""
    restart: bool = False
    """Whether each iteration trains the initial weights with a new optimiser; it still samples with the weights of
    the previous iteration. Keeps a copy of the initial weights."""
    hint: HintSettings | None = None
    """Rollouts with a hint for tasks where every trajectory failed; omit for none."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        top = self.selection.top
        if top is not None and top != FEW_PER_TASK.top and top > self.group_size:
            yield (
                f"selection.top={top!r} has no effect with group_size={self.group_size!r}: a task has no more; "
                "lower it, or sample more"
            )

    @property
    def restarts(self) -> bool:
        """Whether ``restart`` has an effect in any iteration."""
        return self.restart and self.iterations > 1


@settings
class RejectionSettings(ImitationSettings):
    """``upturn train rejection``: many trajectories per task, one training on the best distinct successes (arXiv
    2308.01825)."""

    iterations: Annotated[int, Field(ge=1, le=1)] = 1
    """One; for more there is ``iterated``."""
    tasks_per_iteration: Count = 192
    """Tasks that are sampled."""
    group_size: Count = 16
    """Trajectories per task."""
    selection: SelectionSettings = FEW_PER_TASK
    """Which trajectories are trained on."""


@settings
class IteratedSettings(ImitationSettings):
    """``upturn train iterated``: iterations of sampling and training on the successes, each continuing from the
    previous one (expert iteration, arXiv 1705.08439; for language models 2308.08998)."""

    selection: SelectionSettings = FEW_PER_TASK
    """Which trajectories are trained on."""


@settings
class StarSettings(ImitationSettings):
    """``upturn train star``: failed tasks are sampled again with the answer as a hint, the successes are trained on
    without the hint, and every iteration starts from the initial weights (STaR, arXiv 2203.14465, algorithm 1)."""

    restart: bool = True
    """Whether each iteration trains the initial weights."""
    selection: SelectionSettings = FEW_PER_TASK
    """Which trajectories are trained on."""
    hint: HintSettings | None = HintSettings("rationalisation")
    """Rollouts with a hint for tasks where every trajectory failed."""


@settings
class SelfRepairSettings(ImitationSettings):
    """``upturn train self-repair``: as ``star``, but the hint is what went wrong, not the answer."""

    restart: bool = True
    """Whether each iteration trains the initial weights."""
    selection: SelectionSettings = FEW_PER_TASK
    """Which trajectories are trained on."""
    hint: HintSettings | None = HintSettings("self_repair")
    """Rollouts with a hint for tasks where every trajectory failed."""
