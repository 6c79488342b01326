"""Learning from one's own successes: rejection-sampling fine-tuning, iterated supervised training, STaR,
self-repair.

Order of a round: tasks are attempted with the present weights; what went well is selected; where the settings
ask for it, tasks of which nothing went well are attempted again with help, and what goes well then is learned
without the help; the weights go back to those from before training, where a round restarts; supervised steps
follow. A round without any success takes no step and leaves the weights as they are.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training.advantage import ScoredGroup, mean_return
from upturn.training.algorithms.expert_iteration.settings import ImitationSettings
from upturn.training.algorithms.sft import SupervisedSteps
from upturn.training.data import (
    AheadCollect,
    Collect,
    Collecting,
    CollectSecond,
    Selection,
    StatefulCollect,
    check_group,
    check_ids,
    learnable,
    refuse_idle_top,
    select,
)
from upturn.training.distributed import copy_tensors, restore_weights, weight_tensors
from upturn.training.optimisation import Trainer, schedule
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import supervised_rows, written_count
from upturn.training.runs import (
    Run,
    RunOptions,
    RunPlace,
    check_evaluation,
    identity_of,
    plan_of,
)
from upturn.training.stream import Algorithm, Minibatch, Unit


def run_imitation(
    model: PreTrainedModel,
    collect: Collect,
    settings: ImitationSettings,
    options: RunOptions,
    *,
    second: CollectSecond | None = None,
) -> TrainingOutcome:
    """Trains the model in place, in rounds; resumes from the options' folder.

    ``collect(round)`` attempts tasks with the model's current weights, from round 0, and ``second`` those that
    failed once more, where the settings have second attempts; ``evaluate(rounds)`` gives the score after that
    many, first with 0. All may depend on their arguments, the seed and the weights only. Resuming needs the
    model as it was before training, the same settings and seed. Raises TrainingError, also when no round had a
    success to learn from.
    """
    check_evaluation(options.evaluation, settings.evaluate_every)
    if (settings.second is None) != (second is None):
        given, missing = ("settings.second", "second") if second is None else ("second", "settings.second")
        raise TrainingError(f"{given} without {missing} does nothing; give both or neither")
    if isinstance(collect, AheadCollect):
        raise TrainingError(
            "each round samples with what the round before learned, so there is nothing to sample ahead; collect "
            "without staleness"
        )
    rate = _RoundRate(settings)
    trainer = Trainer(model, settings.optimiser, rate)
    plan = plan_of(settings, settings.iterations, "round")
    algorithm: Algorithm = ImitationRounds(
        collect, settings, options.seed, trainer=trainer, begin=rate.begin, second=second
    )
    facts: Mapping[str, object] = {}
    if isinstance(collect, StatefulCollect):
        algorithm, facts = Collecting(algorithm, collect), collect.identity()
    place = RunPlace(options.folder, identity_of(trainer, "imitation", settings, seed=options.seed, **facts))
    outcome = Run(trainer, algorithm, plan, place, options.evaluation, options.progress).finish()
    if not outcome.steps and outcome.stopped != "target":
        raise TrainingError(
            f"none of {outcome.units} rounds had an attempt that earned selection.threshold="
            f"{settings.selection.threshold!r} or more, so nothing was learned; make more attempts, begin with "
            "easier tasks or a model that solves some, lower the threshold, or give second attempts a hint"
        )
    return outcome


class ImitationRounds:
    """Rounds as weight streams. Single use: one run."""

    def __init__(
        self,
        collect: Collect,
        settings: ImitationSettings,
        seed: int,
        *,
        trainer: Trainer,
        begin: Callable[[int, int], None],
        second: CollectSecond | None = None,
    ) -> None:
        """``trainer``: holds the weights from before training. ``begin(steps done, steps to come)`` is told of each
        round that takes steps, before them."""
        self.settings = settings
        self.seed = seed
        self._collect = collect
        self._second = second
        self._trainer = trainer
        self._begin = begin
        self._base: Mapping[str, Tensor] = copy_tensors(weight_tensors(trainer.model)) if settings.restarts else {}

    def unit(self, index: int) -> Unit:
        """Round ``index``. Raises TrainingError when there is nothing to select from, or something unusable."""
        groups = self._collect(index)
        if not any(group.members for group in groups):
            raise TrainingError(f"round {index} collected no trajectories; collect at least one group")
        for group in groups:
            check_group(group)
        check_ids(groups)
        refuse_idle_top(groups, self.settings.selection)
        found = select(groups, self.settings.selection)
        kept, metrics, sampled = found.kept, _metrics(groups, found), list(groups)
        if self._second is not None and self.settings.second is not None:
            seconds = self._second(index, found.unsolved) if found.unsolved else ()
            again = learnable(seconds, found.unsolved, self.settings.selection, self.settings.second)
            kept, metrics = kept + again.kept, {**metrics, **again.metrics}
            sampled += (each.group for each in seconds)
        metrics |= _sampled_metrics(sampled) | _kept_metrics(kept)
        if not kept:
            return Unit((), metrics)
        minibatches = self._minibatches(index, kept)
        if self.settings.restarts:
            restore_weights(self._trainer.model, self._base)
            self._trainer.load_state({}, self._trainer.steps)
        self._begin(self._trainer.steps, len(minibatches))
        return Unit(minibatches, metrics)

    def _minibatches(self, index: int, kept: Sequence[Trajectory]) -> list[Minibatch]:
        """All optimiser steps of a round. Its epochs are numbered on from those of earlier rounds."""
        rows = supervised_rows(kept)
        steps = SupervisedSteps(rows, min(self.settings.batch_rows, len(rows)), self.seed)
        count = self.settings.epochs * steps.steps_per_epoch
        units = (steps.unit(step) for step in range(index * count, (index + 1) * count))
        return [minibatch for unit in units for minibatch in unit.minibatches]


class _RoundRate:
    """The learning rate's share by steps done: warm-up and decay within each round."""

    def __init__(self, settings: ImitationSettings) -> None:
        self._settings = settings
        self._start = 0
        self._share = schedule("none", 1, 0)

    def begin(self, start: int, total: int) -> None:
        """A round of ``total`` steps begins after ``start`` steps."""
        self._start = start
        self._share = schedule(self._settings.decay, total, self._settings.optimiser.warmup_steps)

    def __call__(self, step: int) -> float:
        """For the step after ``step`` steps."""
        return self._share(step - self._start)


def _metrics(groups: Sequence[ScoredGroup], found: Selection) -> dict[str, float]:
    """Of first attempts."""
    return {
        "groups": float(len(groups)),
        "mean_return": mean_return(groups),
        "unscorable": float(found.unscorable),
        "failed": float(found.failed),
        "duplicates": float(found.duplicates),
        "surplus": float(found.surplus),
        "unsolved_groups": float(len(found.unsolved)),
    }


def _sampled_metrics(groups: Sequence[ScoredGroup]) -> dict[str, float]:
    """Of first and second attempts: what the round cost."""
    members = [member for group in groups for member in group.members]
    return {
        "trajectories": float(len(members)),
        "written_tokens": float(sum(written_count(member.trajectory) for member in members)),
    }


def _kept_metrics(kept: Sequence[Trajectory]) -> dict[str, float]:
    """Of all that is learned from. ``kept_length``: NaN when there is nothing."""
    lengths = [written_count(each) for each in kept]
    return {"kept": float(len(kept)), "kept_length": math.fsum(lengths) / len(lengths) if lengths else math.nan}
