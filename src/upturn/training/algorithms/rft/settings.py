"""The settings of reinforcement from a few tasks. No torch here.

Reinforcement fine-tuning as a vendor describes it (10 prompts, a 32-billion-parameter model, one family of tasks,
no interval; no settings published), on the GRPO of DeepSeekMath, arXiv 2402.03300. Departures: a KL term to the
weights before training, with the unbiased estimate, because nothing else preserves behaviour that the few tasks do
not need; one optimiser step per iteration, because a second one on the same few groups overfits to them; rewards
are centred, not standardised, because the small deviation of a group without any acceptance would scale the format
reward up to the size of an acceptance."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from upturn.config import Count, FilePath, settings
from upturn.training.policy_settings import KlSettings, ObjectiveSettings, PolicyGradientSettings
from upturn.training.run_settings import Keep


@settings
class RftSettings(PolicyGradientSettings):
    """``upturn train rft``: reinforcement from ten to fifty tasks, with controls that test whether its gain is
    real: the same training with other rewards, from several seeds, on a second model."""

    iterations: Count = 20
    """Iterations of sampling and updating."""
    minibatches: Count = 1
    """Optimiser steps per iteration."""
    objective: ObjectiveSettings = ObjectiveSettings(
        clip_low=0.2, clip_high=0.2, kl=KlSettings(0.04, unbiased=True)
    )
    """The loss."""
    evaluate_every: Count | None = None
    """Must be omitted: model selection would need more tasks than the examples."""
    keep: Keep = "final"
    """The last weights are kept."""
    examples: Annotated[int, Field(ge=2, le=1000)] = 30
    """Number of tasks that are trained on."""
    tasks_per_iteration: Count = 10
    """Tasks in one iteration, sampled from the examples."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Trajectories per task."""
    seeds: Count = 3
    """Number of runs with each reward, with the seed of the run and the following ones."""
    controls: tuple[Literal["random", "format"], ...] = ("random", "format")
    """Control rewards: ``random``, at the success rate on the examples before training (0.5 where that is 0 or 1),
    and ``format``, valid actions alone."""
    replication_model: FilePath = ""
    """Another local model (``nano``, a folder or a name) on which all runs are repeated; empty = none, as the model
    card then notes."""

    def local_models(self) -> Iterator[tuple[str, str]]:
        """Yields the replication model."""
        yield "replication_model", self.replication_model

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        if self.evaluate_every is not None:
            yield (
                f"evaluate_every={self.evaluate_every!r} would select weights on more tasks than the examples; "
                "leave it out"
            )
        if self.dynamic_sampling is not None:
            yield "dynamic_sampling samples further tasks, and there are only the examples; leave it out"
        if self.advantage.estimator == "components":
            yield (
                "advantage.estimator='components' compares the components of [rewards], and the controls' rewards "
                "have none; take 'trajectory'"
            )
        if self.tasks_per_iteration > self.examples:
            yield (
                f"tasks_per_iteration = {self.tasks_per_iteration} is more than examples = {self.examples}, and an "
                "iteration uses each example once; set it to that many or fewer"
            )
