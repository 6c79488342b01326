"""A version in training that an engine at a URL samples from: it gets the weights, and what it returns is checked.

``RemoteRuntime`` stands where a ``AgentRuntime`` would: the agents, their environments and the training are here,
the tokens come from there. Before attempts begin the present weights are handed over; afterwards a sample of what
came back is scored again with them, so that an engine that returns other tokens than it sampled is refused before
anything is trained on.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.agents import BranchPoint
from upturn.config import Limits, OptimiserSettings
from upturn.environments import EnvironmentKit
from upturn.errors import ModelError
from upturn.loop.agent_runtime import AgentRuntime, Engine, Purpose
from upturn.loop.rollouts.weight_sync import EngineReceiver, Handover
from upturn.models import RemoteEngine, Renderer
from upturn.records import AgentVersion, Task, Trajectory
from upturn.training import Scorer
from upturn.training.optimisation import Rescored, RescoringSettings, rescore

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class RemoteRuntime(AgentRuntime):
    """A runtime whose version in training is sampled by an engine elsewhere. Not thread-safe."""

    def __init__(
        self,
        kit: EnvironmentKit,
        limits: Limits,
        engine: RemoteEngine,
        folder: Path,
        *,
        rescoring: RescoringSettings | None = None,
    ) -> None:
        """``folder``: where weights are handed over, see ``Handover``. ``rescoring``: None = the usual."""
        super().__init__(kit, limits)
        self._remote = engine
        self._folder = folder
        self._rescoring = rescoring or RescoringSettings()
        self._handover: Handover | None = None
        self._scorer: Scorer | None = None
        self.rescored: Rescored | None = None
        """Of the latest attempts; None = there were none at temperature 1."""

    def follow(self, model: "PreTrainedModel", *, companions: Path | None = None) -> None:
        """Attempts are made with this model's weights from now on, as they are when the attempts begin."""
        from upturn.training.optimisation import Trainer

        self._handover = Handover(model, EngineReceiver(self._remote), self._folder, companions=companions)
        self._scorer = Trainer(model, OptimiserSettings(learning_rate=1.0)).score  # it never takes a step

    def adopt(self, version: AgentVersion, engine: Engine, renderer: Renderer) -> None:  # noqa: ARG002
        """The version is served by the engine elsewhere, whatever samples from its model here."""
        super().adopt(version, self._remote, renderer)

    def rollout(
        self,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        branch_points: Sequence[BranchPoint] | None = None,
    ) -> list[Trajectory]:
        """See ``AgentRuntime.rollout``. Raises TrainingError when a sample of the tokens is not what these weights
        sample; at temperatures other than 1 nothing is scored again, nor trained on.
        """
        if self._handover is None or self._scorer is None:
            raise ModelError("an engine elsewhere needs the weights of a model: call follow() first")
        version = self._handover.give()
        trajectories = super().rollout(jobs, purpose, branch_points)
        if purpose.temperature == 1.0:
            self.rescored = rescore(
                trajectories, self._scorer, version=version, seed=purpose.seed, settings=self._rescoring
            )
        return trajectories
