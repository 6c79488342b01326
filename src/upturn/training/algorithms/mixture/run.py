"""Several ways of learning in one run: their streams meet in the same optimiser steps, each with its denominator.

A unit of the mixture is one unit of each part that is under way. The unit has as many optimiser steps as the part
with the most; a part with n of the N steps has its i-th minibatch (from 0) in step ⌊i·N/n⌋, so that every minibatch
is trained on exactly once and they are spread evenly. A step's loss is the sum of the streams in it, each divided
by its own denominator and multiplied by its part's weight: more rows in one part change nothing about the others.
Parts for the common ways of learning stand in ``mixture_parts``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from transformers import PreTrainedModel

from upturn.errors import ConfigError, TrainingError
from upturn.training.algorithms.mixture.settings import MixtureSettings
from upturn.training.optimisation import IterationSchedule, Trainer
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import (
    Run,
    RunOptions,
    RunPlace,
    check_evaluation,
    identity_of,
    plan_of,
)
from upturn.training.stream import (
    NO_STATE,
    Algorithm,
    Minibatch,
    State,
    Stream,
    Unit,
    joined,
    parted,
    restore,
    state_of,
)

Make: TypeAlias = Callable[[Trainer, int], Algorithm]
"""``(trainer, seed)`` to the algorithm, which may ask the trainer for log-probs and must leave its steps alone."""


@dataclass(frozen=True, slots=True)
class Part:
    """One way of learning in a mixture."""

    name: str
    """Before its metrics and in its state; letters, digits and underscores."""
    make: Make
    weight: float = 1.0
    """What its loss is multiplied by; positive."""
    start: int = 0
    """The mixture's unit in which it does its first one."""
    stop: int | None = None
    """The mixture's unit from which on it does none any more; None = goes on to the end."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """By name, what decides what it teaches; a checkpoint of a mixture with others is refused."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        problems = []
        if not self.name.isidentifier():
            problems.append(f"a part's name is made of letters, digits and underscores, got {self.name!r}")
        if not (math.isfinite(self.weight) and self.weight > 0):
            problems.append(
                f"part {self.name!r} has weight={self.weight!r}; it must be positive: with 0 the part would be "
                "computed and teach nothing, so leave the part out"
            )
        if self.start < 0 or (self.stop is not None and self.stop <= self.start):
            problems.append(
                f"part {self.name!r} would never be under way with start={self.start!r} and stop={self.stop!r}; "
                "stop comes after start, and start is 0 or more"
            )
        if problems:
            raise ConfigError(problems)

    def is_under_way(self, unit: int) -> bool:
        """Whether it takes part in this unit of the mixture."""
        return self.start <= unit and (self.stop is None or unit < self.stop)


class Mixture:
    """The parts as one algorithm. Single use: one run."""

    def __init__(
        self, parts: Sequence[Part], algorithms: Sequence[Algorithm], rate: IterationSchedule | None = None
    ) -> None:
        """``algorithms``: those of the parts, in their order. ``rate``: hears of every unit before its steps."""
        self._parts = list(zip(parts, algorithms, strict=True))
        self._rate = rate

    def unit(self, index: int) -> Unit:
        """One unit of each part under way, counted from the part's start; metrics as ``part/metric``.

        Metric ``part/steps``: in how many of the steps the part has a minibatch.
        """
        if self._rate is not None:
            self._rate.iteration = index
        found = [
            (part, algorithm.unit(index - part.start))
            for part, algorithm in self._parts
            if part.is_under_way(index)
        ]
        steps = max((len(unit.minibatches) for _, unit in found), default=0)
        minibatches: list[list[Stream]] = [[] for _ in range(steps)]
        metrics: dict[str, float] = {}
        for part, unit in found:
            for place, minibatch in enumerate(unit.minibatches):
                minibatches[place * steps // len(unit.minibatches)] += _weighed(minibatch, part.weight)
            metrics[f"{part.name}/steps"] = float(len(unit.minibatches))
            metrics |= {f"{part.name}/{name}": value for name, value in unit.metrics.items()}
        return Unit(minibatches, metrics)

    def state(self) -> State:
        """What the parts remember, each under its name."""
        return joined({part.name: state_of(algorithm) for part, algorithm in self._parts})

    def load_state(self, state: State) -> None:
        """Gives each part its own."""
        parts = parted(state)
        for part, algorithm in self._parts:
            restore(algorithm, parts.get(part.name, NO_STATE))


def _weighed(minibatch: Minibatch, weight: float) -> list[Stream]:
    return [replace(stream, denominator=stream.denominator / weight) for stream in minibatch]


def run_mixture(
    model: PreTrainedModel,
    parts: Sequence[Part],
    settings: MixtureSettings,
    options: RunOptions,
) -> TrainingOutcome:
    """Trains the model in place on all parts at once; resumes from the options' folder.

    ``evaluate(units)`` gives the score after that many, first with 0. Resuming needs the model as it was before
    training, and the same parts, settings and seed. Raises TrainingError and ConfigError.
    """
    check_evaluation(options.evaluation, settings.evaluate_every)
    _check(parts, settings.iterations)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate)
    mixture = Mixture(parts, [part.make(trainer, options.seed) for part in parts], rate)
    facts = {f"part {part.name}": (part.weight, part.start, part.stop, dict(part.facts)) for part in parts}
    place = RunPlace(options.folder, identity_of(trainer, "mixture", settings, seed=options.seed, **facts))
    plan = plan_of(settings, settings.iterations)
    return Run(trainer, mixture, plan, place, options.evaluation, options.progress).finish()


def _check(parts: Sequence[Part], units: int) -> None:
    names = [part.name for part in parts]
    if len(parts) < 2:
        raise TrainingError(f"a mixture needs at least two parts, got {names!r}; run the one by itself")
    if len(set(names)) < len(names):
        raise TrainingError(f"the parts of a mixture need names of their own, got {names!r}")
    for part in parts:
        if part.start >= units:
            raise TrainingError(
                f"part {part.name!r} starts at unit {part.start}, but the run has {units} units only; start it "
                "earlier"
            )
        if part.stop is not None and part.stop >= units:
            raise TrainingError(
                f"part {part.name!r}: stop={part.stop} would do nothing in a run of {units} units; leave it out"
            )
    idle = [unit for unit in range(units) if not any(part.is_under_way(unit) for part in parts)]
    if idle:
        raise TrainingError(f"no part is under way in unit {idle[0]}, so nothing would be learned; fill the gap")
