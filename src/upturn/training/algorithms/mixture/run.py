"""Several algorithms in one run, whose streams share optimiser steps, each with its own denominator.

A unit of the mixture is one unit of each active part. The unit has as many optimiser steps as the part with the
most; a part with n of the N steps has its i-th minibatch (from 0) in step ⌊i·N/n⌋, so that every minibatch is
trained on exactly once and they are spread evenly. A step's loss is the sum of its streams, each divided by its own
denominator and multiplied by its part's weight: more rows in one part do not affect the others."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from transformers import PreTrainedModel

from upturn.config import refuse
from upturn.errors import TrainingError
from upturn.training.algorithms.mixture.settings import MixtureSettings
from upturn.training.optimisation import IterationSchedule, Trainer
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import Run, RunOptions, check_evaluation, identity_of, plan_of
from upturn.training.stream import (
    NO_STATE,
    Algorithm,
    State,
    Stream,
    Unit,
    join_states,
    restore_state,
    split_state,
    state_of,
)

CreateAlgorithm: TypeAlias = Callable[[Trainer, int], Algorithm]
"""``(trainer, seed)`` to the algorithm, which may use the trainer's log-probs and must not take steps."""


@dataclass(frozen=True, slots=True)
class Part:
    """One algorithm of a mixture. Raises ConfigError."""

    name: str
    """Prefix of its metrics and its state; letters, digits and underscores."""
    create: CreateAlgorithm
    weight: float = 1.0
    """Factor of its loss; positive."""
    start: int = 0
    """The mixture's unit in which the part has its first unit."""
    stop: int | None = None
    """The mixture's first unit without the part; None = active to the end."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """By name, what determines its training signal; a checkpoint of a mixture with other facts is refused."""

    def __post_init__(self) -> None:
        problems = []
        if not self.name.isidentifier():
            problems.append(f"a part's name consists of letters, digits and underscores, got {self.name!r}")
        if not (math.isfinite(self.weight) and self.weight > 0):
            problems.append(
                f"part {self.name!r} has weight={self.weight!r}; it must be positive: with 0 the part would be "
                "computed without effect, so leave the part out"
            )
        if self.start < 0 or (self.stop is not None and self.stop <= self.start):
            problems.append(
                f"part {self.name!r} would never be active with start={self.start!r} and stop={self.stop!r}; "
                "stop comes after start, and start is 0 or more"
            )
        refuse(*problems)

    def is_active(self, unit: int) -> bool:
        """Whether it takes part in this unit of the mixture."""
        return self.start <= unit and (self.stop is None or unit < self.stop)


class Mixture:
    """The parts as one algorithm. Single use: one run."""

    def __init__(
        self, parts: Sequence[Part], algorithms: Sequence[Algorithm], rate: IterationSchedule | None = None
    ) -> None:
        """``algorithms``: those of the parts, in their order. ``rate``: is set to every unit before its steps."""
        self._parts = list(zip(parts, algorithms, strict=True))
        self._rate = rate

    def unit(self, index: int) -> Unit:
        """Returns one unit of each active part, counted from the part's start; metrics as ``part/metric``.

        Metric ``part/steps``: number of steps with a minibatch of the part.
        """
        if self._rate is not None:
            self._rate.iteration = index
        units = [
            (part, algorithm.unit(index - part.start)) for part, algorithm in self._parts if part.is_active(index)
        ]
        steps = max((len(unit.minibatches) for _, unit in units), default=0)
        minibatches: list[list[Stream]] = [[] for _ in range(steps)]
        metrics: dict[str, float] = {}
        for part, unit in units:
            for number, minibatch in enumerate(unit.minibatches):
                minibatches[number * steps // len(unit.minibatches)] += [
                    replace(stream, denominator=stream.denominator / part.weight) for stream in minibatch
                ]
            metrics[f"{part.name}/steps"] = float(len(unit.minibatches))
            metrics |= {f"{part.name}/{name}": value for name, value in unit.metrics.items()}
        return Unit(minibatches, metrics)

    def state(self) -> State:
        """Returns the states of the parts, each under its name."""
        return join_states({part.name: state_of(algorithm) for part, algorithm in self._parts})

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        states = split_state(state)
        for part, algorithm in self._parts:
            restore_state(algorithm, states.get(part.name, NO_STATE))


def run_mixture(
    model: PreTrainedModel, parts: Sequence[Part], settings: MixtureSettings, options: RunOptions
) -> TrainingOutcome:
    """Trains the model in place on all parts at once; resumes from the options' folder.

    ``evaluate(units)`` returns the score after that many, first with 0. Resuming needs the model with its initial
    weights, and the same parts, settings and seed. Raises TrainingError and ConfigError.
    """
    check_evaluation(options.evaluation, settings.evaluate_every)
    _check_parts(parts, settings.iterations)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate)
    mixture = Mixture(parts, [part.create(trainer, options.seed) for part in parts], rate)
    facts = {f"part {part.name}": (part.weight, part.start, part.stop, dict(part.facts)) for part in parts}
    identity = identity_of(trainer, "mixture", settings, seed=options.seed, **facts)
    return Run(trainer, mixture, plan_of(settings), identity, options).finish()


def _check_parts(parts: Sequence[Part], units: int) -> None:
    names = [part.name for part in parts]
    if len(parts) < 2:
        raise TrainingError(f"a mixture needs at least two parts, got {names!r}; run a single one alone")
    if len(set(names)) < len(names):
        raise TrainingError(f"the parts of a mixture need different names, got {names!r}")
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
    inactive = [unit for unit in range(units) if not any(part.is_active(unit) for part in parts)]
    if inactive:
        raise TrainingError(f"no part is active in unit {inactive[0]}, so nothing would be trained; fill the gap")
