"""The settings of learning from one's own successes, and the named ways of doing it. No torch here.

All of them are iterations of: sample trajectories with the present weights, select what went well, train supervised
on it. They differ in three things: how many iterations, whether an iteration trains the weights from before
training or goes on with those of the one before, and whether what failed is tried a second time with help.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from upturn.config import Count, OptimiserSettings, settings
from upturn.errors import ConfigError
from upturn.training.run_settings import Decay, OnlineSettings
from upturn.training.selection_settings import SecondSettings, SelectionSettings

FEW_OF_A_TASK = SelectionSettings(top=4)
"""So that easy tasks do not crowd out the others."""


@settings
class ImitationSettings(OnlineSettings):
    """Iterations of supervised training on what the agent itself did well."""

    iterations: Count = 5
    """Iterations of sampling, selecting and training."""
    tasks_per_iteration: Count = 96
    """Tasks in one iteration."""
    optimiser: OptimiserSettings = OptimiserSettings(learning_rate=1e-3)
    """AdamW."""
    decay: Decay = "linear"
    """How the learning rate falls within each iteration; warm-up too is at the start of each."""
    evaluate_every: Count | None = 1
    """Iterations between two evaluations; the first comes before any training."""
    epochs: Count = 4
    """Passes over what an iteration selected."""
    batch_rows: Count = 32
    """Rows in one optimiser step."""
    selection: SelectionSettings = SelectionSettings()
    """Which trajectories are learned from."""
    restart: bool = False
    """Whether each iteration trains the weights from before training, with a new optimiser; it samples with what
    the one before trained all the same. Keeps a copy of these weights."""
    second: SecondSettings | None = None
    """Second tries where everything failed; left out = there are none."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield from super().problems()
        top = self.selection.top
        if top is not None and top != FEW_OF_A_TASK.top and top > self.group_size:
            yield (
                f"selection.top={top!r} has no effect with group_size={self.group_size!r}: a task has no more; "
                f"lower "
                "it, or sample more"
            )

    @property
    def restarts(self) -> bool:
        """Whether there is an iteration for which ``restart`` makes a difference."""
        return self.restart and self.iterations > 1


@settings
class RejectionSettings(ImitationSettings):
    """``upturn train rejection``: many trajectories of each task, the best distinct successes trained on, once."""

    iterations: Annotated[int, Field(ge=1, le=1)] = 1
    """One; for more there is ``iterated``."""
    tasks_per_iteration: Count = 192
    """Tasks that are tried."""
    group_size: Count = 16
    """Trajectories of each task."""
    selection: SelectionSettings = FEW_OF_A_TASK
    """Which trajectories are learned from."""


@settings
class IteratedSettings(ImitationSettings):
    """``upturn train iterated``: iterations of sampling and training on the successes, each from where the last
    ended."""

    selection: SelectionSettings = FEW_OF_A_TASK
    """Which trajectories are learned from."""


@settings
class StarSettings(ImitationSettings):
    """``upturn train star``: what failed is tried again with the answer as a hint, successes are trained on as if
    there had been none, and every iteration starts from the weights before training."""

    restart: bool = True
    """Whether each iteration trains the weights from before training."""
    selection: SelectionSettings = FEW_OF_A_TASK
    """Which trajectories are learned from."""
    second: SecondSettings | None = SecondSettings("rationalisation")
    """Second tries where everything failed."""


@settings
class SelfRepairSettings(ImitationSettings):
    """``upturn train self-repair``: as ``star``, but the second try is told what went wrong, not the answer."""

    restart: bool = True
    """Whether each iteration trains the weights from before training."""
    selection: SelectionSettings = FEW_OF_A_TASK
    """Which trajectories are learned from."""
    second: SecondSettings | None = SecondSettings("self_repair")
    """Second tries where everything failed."""


@dataclass(frozen=True, slots=True)
class ImitationPreset:
    """One named way."""

    settings: ImitationSettings
    source: str
    departures: tuple[str, ...] = ()
    """What differs from the source, each with its reason."""


def imitation(name: str) -> ImitationSettings:
    """The settings of a named way; raises ConfigError for a name that is not in ``IMITATIONS``."""
    preset = IMITATIONS.get(name)
    if preset is None:
        raise ConfigError([f"unknown way of imitation {name!r}; known: {', '.join(IMITATIONS)}"])
    return preset.settings


_OWN_STEPS = (
    "passes over what was kept instead of step counts that grow by 20 % a round: more successes are more steps by "
    "themselves"
)

IMITATIONS: Mapping[str, ImitationPreset] = MappingProxyType(
    {
        "rejection": ImitationPreset(
            RejectionSettings(),
            "Rejection-sampling fine-tuning, arXiv 2308.01825: many trajectories of each task, the distinct "
            "right ones "
            "trained on, once",
            (
                "at most 4 of a task: the paper keeps all, and easy tasks then outnumber the others",
                "distinct by written tokens: the paper compares the equations in them, which most tasks lack",
            ),
        ),
        "iterated": ImitationPreset(
            IteratedSettings(),
            "Expert iteration, arXiv 1705.08439, for language models 2308.08998: each iteration goes on from "
            "the last",
            ("the threshold stays: raising it from round to round needs rewards finer than success",),
        ),
        "star": ImitationPreset(
            StarSettings(),
            "STaR, arXiv 2203.14465, algorithm 1: what failed is tried again with the answer as a hint, "
            "successes are trained on as if there had been none, each iteration from the weights before training",
            (
                _OWN_STEPS,
                "trajectories are sampled, several of each task: the paper takes one greedy one",
                "an iteration without any success leaves the weights as they are instead of going back",
            ),
        ),
        "self_repair": ImitationPreset(
            SelfRepairSettings(),
            "Self-repair: as STaR, but the second try is told what went wrong in the first, not the answer",
            ("not STaR, although it goes by that name in places: nothing is rationalised",),
        ),
    }
)
"""By name."""
