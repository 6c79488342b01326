"""An agent runtime whose trained agent is sampled by an engine at a URL.

Agents, environments and training run here, the engine samples the tokens of every version of one agent: in
training, in service and in held-out evaluations. So no local engine is built for its model, which the local engine
need not support. The engine has one version's weights at a time: they are handed over before its rollouts start.
After rollouts for training, a sample of the tokens is scored again with these weights, so that an engine that
returns other tokens than it sampled is refused. Other agents are served in this process.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from upturn.agents import BranchPoint, PausedRollout, RolloutRequest
from upturn.config import Limits, OptimiserSettings
from upturn.environments import EnvironmentKit
from upturn.errors import ModelError
from upturn.loop.agent_runtime import AgentRuntime, Engine, Purpose
from upturn.loop.weight_sync import sync_with_engine
from upturn.models import Generation, GenerationRequest, LocalModel, RemoteEngine, load_local, model_folder
from upturn.records import AgentVersion, Task, Trajectory
from upturn.training import Scorer
from upturn.training.optimisation import Rescored, rescore

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upturn.training.runs import Stored

ADAPTER_FOLDER = "adapter"
"""In a version's folder: the adapter that is merged into its weights."""


class EngineHost:
    """An engine at a URL with the weights that it has now; shared by the runtimes of several threads."""

    def __init__(self, remote: RemoteEngine, folder: Path, *, stored: "Stored | None" = None) -> None:
        """``folder``: of the weights that are handed over, see ``WeightSync``. ``stored``: data type of the files;
        None means that of the model's own folder."""
        self.remote = remote
        self.lock = Lock()
        """Held while weights are handed over and sampled from."""
        self._sync = sync_with_engine(remote, folder)
        self._stored = stored

    def push(self, model: "PreTrainedModel", name: str, version: str | None = None) -> str:
        """Hands over the present weights of the model ``name``, if the engine has others; returns their hash."""
        from upturn.training.runs import stored_type

        companions = model_folder(name)
        self._sync.stored = self._stored or stored_type(companions)
        pushed = self._sync.push(model, version=version, companions=companions)
        self.remote.use_loaded()  # after the base of an adapter
        return pushed

    def push_version(self, local: LocalModel, version: str) -> str:
        """Hands over a stored version in the engine's form. Raises ModelError where it has no such form."""
        if self.remote.form == "checkpoint":
            return self.push(local.model, local.name, version)
        folder = model_folder(local.name)
        base = asyncio.run(self.remote.base())
        if base.root in {local.name, str(folder), str(folder.resolve())}:
            self.remote.use(base.name, version)
            return version
        adapter = folder / ADAPTER_FOLDER
        if _base_of(adapter) not in {base.root, str(Path(base.root).resolve())}:
            raise ModelError(
                f"the engine serves {base.root!r} and loads adapters of it, but {local.name!r} is neither this "
                f"model nor saved with an adapter of it (in {str(adapter)!r}); start vLLM with {local.name!r}, or "
                "train without [lora], so that whole models are loaded"
            )
        pushed = self._sync.push_folder(adapter, version)
        self.remote.use_loaded()
        return pushed

    def close(self) -> None:
        """Removes the folders of weights, and adapters from the engine."""
        self._sync.close()


def _base_of(adapter: Path) -> str | None:
    """Path or name of an adapter's base model; None means that there is no adapter."""
    try:
        base: str = json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"]
    except (OSError, ValueError, KeyError):
        return None
    return base


class HostedModel:
    """An engine that samples from one model's weights, which ``refresh`` hands over."""

    def __init__(self, host: EngineHost, local: LocalModel, *, is_trained: bool) -> None:
        """``is_trained``: its weights change, and it may have an adapter."""
        self._host = host
        self._local = local
        self._is_trained = is_trained
        self._version = ""
        self._scorer: Scorer | None = None

    def refresh(self) -> None:
        """Hands over the present weights; no requests may run."""
        from upturn.models.engine import weights_hash

        if self._is_trained:
            self._version = self._host.push(self._local.model, self._local.name)
        else:
            self._version = self._host.push_version(self._local, self._version or weights_hash(self._local.model))

    @property
    def version(self) -> str:
        """Hash of the weights of the latest ``refresh``; empty = there was none."""
        return self._version

    @property
    def scorer(self) -> Scorer:
        """Scores rows with the present weights."""
        from upturn.training.optimisation import Trainer

        if self._scorer is None:  # it never takes a step
            self._scorer = Trainer(self._local.model, OptimiserSettings(learning_rate=1.0)).score
        return self._scorer

    async def generate(self, request: GenerationRequest) -> Generation:
        """The engine's continuation."""
        return await self._host.remote.generate(request)

    async def interrupt(self) -> None:
        """Ends all requests early."""
        await self._host.remote.interrupt()

    def release(self, session: str) -> None:
        """Frees a session's cache."""
        self._host.remote.release(session)


class EngineRuntime(AgentRuntime):
    """A runtime whose versions of the trained agent are sampled by an engine. Not thread-safe: see ``sibling``."""

    def __init__(
        self,
        kit: EnvironmentKit,
        limits: Limits,
        host: EngineHost,
        *,
        served_here: frozenset[str] = frozenset(),
        api_keys: Mapping[str, str] | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``served_here``: agents whose local models are served in this process. The rest as for
        ``AgentRuntime``."""
        super().__init__(kit, limits, api_keys, note)
        self.host = host
        self._served_here = served_here
        self._stored: dict[str, tuple[HostedModel, LocalModel]] = {}
        """Stored versions that the engine samples, by model."""
        self.rescored: Rescored | None = None
        """Result for the latest rollouts for training; None means that there were none."""

    def sibling(self, kit: EnvironmentKit | None = None) -> AgentRuntime:
        """Another runtime on the same engine."""
        runtime = EngineRuntime(
            kit or self.kit, self.limits, self.host, served_here=self._served_here, note=self._note
        )
        runtime.device, runtime.recall = self.device, self.recall
        return runtime

    def keep_only(self, versions: Iterable[AgentVersion]) -> None:
        """See ``AgentRuntime.keep_only``."""
        kept = list(versions)
        super().keep_only(kept)
        models = {version.model for version in kept}
        self._stored = {name: stored for name, stored in self._stored.items() if name in models}

    def engine_for(self, local: LocalModel) -> Engine:
        """An engine that samples from the model's present weights, without building a local one."""
        return HostedModel(self.host, local, is_trained=True)

    def rollout(
        self,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        branch_points: Sequence[BranchPoint] | None = None,
    ) -> list[Trajectory]:
        """See ``AgentRuntime.rollout``; versions that share the engine are rolled out one after another.

        Raises TrainingError when a sample of the tokens does not fit weights in training; those at a serving
        temperature, and greedy ones, are not trained on and not scored again.
        """
        parts: dict[HostedModel | None, list[int]] = {}
        for index, (version, _, _) in enumerate(jobs):
            parts.setdefault(self._hosted(version, purpose), []).append(index)
        trajectories: dict[int, Trajectory] = {}
        for hosted, indices in parts.items():
            chosen = [jobs[index] for index in indices]
            starts = None if branch_points is None else [branch_points[index] for index in indices]
            if hosted is None:
                rolled_out = super().rollout(chosen, purpose, starts)
            else:
                rolled_out = self._sample(hosted, chosen, purpose, starts)
            trajectories |= dict(zip(indices, rolled_out, strict=True))
        return [trajectories[index] for index in range(len(jobs))]

    def rollout_until(
        self,
        version: AgentVersion,
        requests: Sequence[RolloutRequest],
        purpose: Purpose,
        *,
        is_enough: Callable[[Trajectory], bool],
    ) -> list[Trajectory | PausedRollout]:
        """See ``AgentRuntime.rollout_until``; finished ones are scored again as in ``rollout``."""
        with self.host.lock:
            results = super().rollout_until(version, requests, purpose, is_enough=is_enough)
        hosted = self._hosted(version, purpose)
        if hosted is not None:
            self._rescore(hosted, [result for result in results if isinstance(result, Trajectory)], purpose)
        return results

    def _hosted(self, version: AgentVersion, purpose: Purpose) -> HostedModel | None:
        """None means that the engine does not sample the version."""
        model = self._setting(version, purpose).model
        return model if isinstance(model, HostedModel) else None

    def _sample(
        self,
        hosted: HostedModel,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        branch_points: Sequence[BranchPoint] | None,
    ) -> list[Trajectory]:
        with self.host.lock:
            trajectories = super().rollout(jobs, purpose, branch_points)
        self._rescore(hosted, trajectories, purpose)
        return trajectories

    def _rescore(self, hosted: HostedModel, trajectories: Sequence[Trajectory], purpose: Purpose) -> None:
        if purpose.temperature:
            self.rescored = rescore(trajectories, hosted.scorer, version=hosted.version, seed=purpose.seed)

    def _engine(self, version: AgentVersion) -> tuple[Engine, LocalModel]:
        if version.agent in self._served_here:
            return super()._engine(version)
        if version.model not in self._stored:
            local = load_local(version.model, device=self.device)
            self._stored[version.model] = (HostedModel(self.host, local, is_trained=False), local)
        return self._stored[version.model]
