"""Training on one's own successes: rejection-sampling fine-tuning, iterated supervised training, STaR, self-repair.

Order of a round: tasks are sampled with the present weights and successes selected; if the settings say so, tasks
without a success are sampled again with a hint, and those successes are trained on without the hint; the initial
weights are restored if a round restarts; supervised steps follow. A round without any success takes no step and
leaves the weights unchanged."""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training.advantage import mean_return
from upturn.training.algorithms.expert_iteration.settings import ImitationSettings
from upturn.training.algorithms.policy_update import check_both_or_neither
from upturn.training.algorithms.sft import supervised_steps
from upturn.training.data import (
    AheadCollect,
    Collect,
    CollectHinted,
    attach_collect,
    check_groups,
    check_top,
    select,
    select_hinted,
)
from upturn.training.distributed import copy_tensors, restore_weights, trained_tensors
from upturn.training.optimisation import Trainer, schedule
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import supervised_rows, written_count
from upturn.training.runs import Run, RunOptions, check_evaluation, identity_of, plan_of
from upturn.training.stream import Minibatch, Unit


def run_imitation(
    model: PreTrainedModel,
    collect: Collect,
    settings: ImitationSettings,
    options: RunOptions,
    *,
    collect_hinted: CollectHinted | None = None,
) -> TrainingOutcome:
    """Trains the model in place, in rounds; resumes from the options' folder.

    ``collect(round)`` samples groups with the model's current weights, from round 0, and ``collect_hinted`` samples
    the failed tasks with a hint, where the settings have one; ``evaluate(rounds)`` returns the score after that
    many, first with 0. All may depend on their arguments, the seed and the weights only. Resuming needs the model
    with its initial weights, the same settings and seed. Raises TrainingError, also when no round had a success.
    """
    check_evaluation(options.evaluation, settings.evaluate_every)
    check_both_or_neither("settings.hint", settings.hint, "collect_hinted", collect_hinted)
    if isinstance(collect, AheadCollect):
        raise TrainingError(
            "each round samples with the weights of the previous one, so nothing can be sampled ahead; collect "
            "without staleness"
        )
    rate = _RoundRate(settings)
    trainer = Trainer(model, settings.optimiser, rate)
    rounds = ImitationRounds(
        collect, settings, options.seed, trainer=trainer, rate=rate, collect_hinted=collect_hinted
    )
    algorithm, facts = attach_collect(rounds, collect)
    identity = identity_of(trainer, "imitation", settings, seed=options.seed, **facts)
    outcome = Run(trainer, algorithm, plan_of(settings, "round"), identity, options).finish()
    if not outcome.steps and outcome.stopped != "target":
        raise TrainingError(
            f"none of {outcome.units} rounds had a trajectory with a reward of selection.threshold="
            f"{settings.selection.threshold!r} or more, so nothing was trained on; sample more trajectories, start "
            "with easier tasks or a model that solves some, lower the threshold, or set a hint"
        )
    return outcome


class _RoundRate:
    """A learning rate schedule with warm-up and decay within each round."""

    def __init__(self, settings: ImitationSettings) -> None:
        self._settings = settings
        self._start = 0
        self._factor = schedule("none", 1, 0)

    def start_round(self, done: int, total: int) -> None:
        """Starts a round of ``total`` steps after ``done`` steps."""
        self._start = done
        self._factor = schedule(self._settings.decay, total, self._settings.optimiser.warmup_steps)

    def __call__(self, step: int) -> float:
        """Returns the factor of the step after ``step`` steps."""
        return self._factor(step - self._start)


class ImitationRounds:
    """Rounds as weight streams. Single use: one run."""

    def __init__(
        self,
        collect: Collect,
        settings: ImitationSettings,
        seed: int,
        *,
        trainer: Trainer,
        rate: _RoundRate,
        collect_hinted: CollectHinted | None = None,
    ) -> None:
        """``trainer``: has the initial weights."""
        self.settings = settings
        self.seed = seed
        self._collect = collect
        self._collect_hinted = collect_hinted
        self._trainer = trainer
        self._rate = rate
        self._initial: Mapping[str, Tensor] = (
            copy_tensors(trained_tensors(trainer.model)) if settings.restarts else {}
        )

    def unit(self, index: int) -> Unit:
        """Returns round ``index``. Raises TrainingError for no trajectories, or unusable ones."""
        groups, settings = self._collect(index), self.settings
        if not any(group.members for group in groups):
            raise TrainingError(f"round {index} collected no trajectories; collect at least one group")
        check_groups(groups)
        check_top(groups, settings.selection)
        selection = select(groups, settings.selection)
        selected, sampled = selection.selected, list(groups)
        metrics = {
            "groups": float(len(groups)),
            "mean_return": mean_return(groups),
            "unscorable": float(selection.unscorable),
            "failed": float(selection.failed),
            "duplicates": float(selection.duplicates),
            "surplus": float(selection.surplus),
            "unsolved_groups": float(len(selection.unsolved)),
        }
        if self._collect_hinted is not None and settings.hint is not None:
            hinted = self._collect_hinted(index, selection.unsolved) if selection.unsolved else ()
            successes = select_hinted(hinted, selection.unsolved, settings.selection, settings.hint)
            selected, metrics = selected + successes.selected, {**metrics, **successes.metrics}
            sampled += (hinted_group.group for hinted_group in hinted)
        trajectories = [member.trajectory for group in sampled for member in group.members]
        lengths = list(map(written_count, selected))
        metrics |= {
            "trajectories": float(len(trajectories)),
            "written_tokens": float(sum(map(written_count, trajectories))),
            "kept": float(len(selected)),
            "kept_length": math.fsum(lengths) / len(lengths) if lengths else math.nan,
        }
        if not selected:
            return Unit((), metrics)
        minibatches = self._minibatches(index, selected)
        if settings.restarts:
            restore_weights(self._trainer.model, self._initial)
            self._trainer.load_state({}, self._trainer.steps)
        self._rate.start_round(self._trainer.steps, len(minibatches))
        return Unit(minibatches, metrics)

    def _minibatches(self, index: int, selected: Sequence[Trajectory]) -> list[Minibatch]:
        """All optimiser steps of a round. Its epochs are numbered after those of earlier rounds."""
        rows = supervised_rows(selected)
        steps = supervised_steps(rows, min(self.settings.batch_rows, len(rows)), self.seed)
        count = self.settings.epochs * steps.per_epoch
        units = (steps.unit(step) for step in range(index * count, (index + 1) * count))
        return [minibatch for unit in units for minibatch in unit.minibatches]
