"""Rollouts that sample from an engine at a URL, which receives the weights and whose tokens are verified.

``RemoteRuntime`` replaces an ``AgentRuntime``: agents, environments and training run here, the engine samples
tokens. Before rollouts start it hands over the present weights. Afterwards it scores a sample of the tokens again
with these weights, so that an engine that returns other tokens than it sampled is refused before training.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.agents import BranchPoint
from upturn.config import Limits, OptimiserSettings
from upturn.environments import EnvironmentKit
from upturn.errors import ModelError
from upturn.loop.agent_runtime import AgentRuntime, Engine, Purpose
from upturn.loop.rollouts.weight_sync import WeightSync, sync_with_engine
from upturn.models import RemoteEngine, Renderer
from upturn.records import AgentVersion, Task, Trajectory
from upturn.training import Scorer
from upturn.training.optimisation import Rescored, RescoringSettings, rescore

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class RemoteRuntime(AgentRuntime):
    """A runtime whose version in training is sampled by a remote engine. Not thread-safe."""

    def __init__(
        self,
        kit: EnvironmentKit,
        limits: Limits,
        engine: RemoteEngine,
        folder: Path,
        *,
        rescoring: RescoringSettings | None = None,
    ) -> None:
        """``folder``: of the weights that are handed over, see ``WeightSync``. ``rescoring``: None for defaults."""
        super().__init__(kit, limits)
        self._remote = engine
        self._folder = folder
        self._rescoring = rescoring or RescoringSettings()
        self._sync: WeightSync | None = None
        self._scorer: Scorer | None = None
        self.rescored: Rescored | None = None
        """Result for the latest rollouts for training; None means that there were none."""

    def follow(self, model: "PreTrainedModel", *, companions: Path | None = None) -> None:
        """Makes further rollouts use this model's weights, as they are when the rollouts start."""
        from upturn.training.optimisation import Trainer

        self._sync = sync_with_engine(model, self._remote, self._folder, companions=companions)
        self._scorer = Trainer(model, OptimiserSettings(learning_rate=1.0)).score  # never takes a step

    def adopt(self, version: AgentVersion, engine: Engine, renderer: Renderer) -> None:  # noqa: ARG002
        """Serves the version from the remote engine, whatever engine has its model here."""
        super().adopt(version, self._remote, renderer)

    def rollout(
        self,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        branch_points: Sequence[BranchPoint] | None = None,
    ) -> list[Trajectory]:
        """See ``AgentRuntime.rollout``. Raises TrainingError when a sample of the tokens does not fit the weights;
        those at a serving temperature, and greedy ones, are not trained on and not scored again.
        """
        if self._sync is None or self._scorer is None:
            raise ModelError("a remote engine needs the weights of a model: call follow() first")
        version = self._sync.push()
        trajectories = super().rollout(jobs, purpose, branch_points)
        if purpose.temperature:
            self.rescored = rescore(
                trajectories, self._scorer, version=version, seed=purpose.seed, settings=self._rescoring
            )
        return trajectories
