"""The settings of reinforcement from a few tasks. No torch here.

Reinforcement fine-tuning as a vendor describes it (10 prompts, a 32-billion-parameter model, one family of tasks,
no interval; no settings published), on the GRPO of DeepSeekMath, arXiv 2402.03300. Departures: a KL term to the
weights before training, with the unbiased estimate, because nothing else holds what the few tasks do not ask for;
one optimiser step an iteration, because a second one on the same few groups fits them before it helps others;
rewards are centred, not standardised, because with acceptance and format the deviation of a group without any
acceptance would blow the format up to the size of an acceptance.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from upturn.config import Count, FilePath, settings
from upturn.training.policy_settings import KlSettings, ObjectiveSettings, PolicyGradientSettings
from upturn.training.run_settings import Keep


@settings
class RftSettings(PolicyGradientSettings):
    """``upturn train rft``: reinforcement from ten to fifty tasks, with the controls that say whether its gain is
    real: the same training with other rewards, from several seeds, on a second model."""

    iterations: Count = 20
    """Iterations of sampling and updating."""
    minibatches: Count = 1
    """Optimiser steps of an iteration."""
    objective: ObjectiveSettings = ObjectiveSettings(
        clip_low=0.2, clip_high=0.2, kl=KlSettings(0.04, unbiased=True)
    )
    """The loss."""
    evaluate_every: Count | None = None
    """Must be left out: choosing weights would take more tasks than the examples."""
    keep: Keep = "final"
    """The last weights are kept."""
    examples: Annotated[int, Field(ge=2, le=1000)] = 30
    """Training tasks, the only ones that are trained on."""
    tasks_per_iteration: Count = 10
    """Tasks in one iteration, drawn from the examples."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Trajectories of each task."""
    seeds: Count = 3
    """Trainings with each reward, the seed of the run and those after it."""
    controls: tuple[Literal["random", "format"], ...] = ("random", "format")
    """What the training is repeated with: chance, at the success rate on the examples before training (0.5 where
    that is 0 or 1), and the form of actions alone."""
    second_base: FilePath = ""
    """Another local model (``nano``, a folder or a name) that all of it is repeated on; empty = none, and the card
    says so."""

    def local_models(self) -> Iterator[tuple[str, str]]:
        """The second model."""
        yield "second_base", self.second_base

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield from super().problems()
        if self.evaluate_every is not None:
            yield (
                f"evaluate_every={self.evaluate_every!r} would choose weights on more tasks than the examples; "
                "leave it out"
            )
        if self.dynamic_sampling is not None:
            yield "dynamic_sampling draws further tasks, and the examples are all there are; leave it out"
        if self.tasks_per_iteration > self.examples:
            yield (
                f"tasks_per_iteration = {self.tasks_per_iteration} is more than examples = {self.examples}, and an "
                "iteration uses each example once; set it to that many or fewer"
            )
