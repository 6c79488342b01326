"""Reward models as components of an evaluation: ``[rewards] weights`` names one as ``model:`` and its folder.

The scores are in [0, 1] (``training.reward_models``). They are components only: gates, verdict and score stay the
verifier's, so no reward model decides whether a task succeeded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from upturn.agents import matches_tokenizer, render_trajectory
from upturn.agents.context import GrowingPrompt
from upturn.config import Config
from upturn.environments import Verifier, verify_all
from upturn.errors import ConfigError, JournalError, ModelError
from upturn.loop.run.journal import Journal
from upturn.models import Renderer, choose_device, with_tokenizer
from upturn.records import Evaluation, Task, Tool, Trajectory, record
from upturn.rewards import evaluation_id
from upturn.training import last_turn

if TYPE_CHECKING:
    from upturn.training.reward_models import RewardModel, StoredDescription

COMPONENT = "model:"
"""Prefix of the components that reward models give."""


def with_reward_models(verifier: Verifier, tools: Sequence[Tool], config: Config) -> Verifier:
    """The verifier, with the components of the reward models that ``[rewards] weights`` names, if any.

    ``tools``: of the environment, for rendering. Raises ConfigError for folders that are not reward models, or of
    other tenants' data. Loads no weights.
    """
    models, problems = dict[str, ComponentModel](), list[str]()
    for name in config.rewards.weights:
        if name.startswith(COMPONENT):
            folder = Path(name.removeprefix(COMPONENT))
            try:
                models[name] = ComponentModel(folder, tools, device=config.run.device)
            except ModelError as exc:
                problems.append(f"rewards.weights names {name!r}: {exc}")
                continue
            if sum(Path(other).name == folder.name for other in models) > 1:
                problems.append(
                    f"rewards.weights names two reward models in folders called {folder.name!r}, which evaluations "
                    "and curves could not tell apart; rename one folder"
                )
            tenants = models[name].stored.description.tenants
            if config.pool.tenant not in tenants:
                problems.append(
                    f"rewards.weights names {name!r}, which was trained on data of {', '.join(tenants)} and scores "
                    f"no trajectories of pool.tenant = {config.pool.tenant!r}; train one on this tenant's data"
                )
    if problems:
        raise ConfigError(problems)
    return ModelJudgedVerifier(verifier, models) if models else verifier


def proxy_scores(rewards: Mapping[str, float | None]) -> dict[str, float | None]:
    """The components by reward models, by the names of their folders."""
    return {Path(name).name: value for name, value in rewards.items() if name.startswith(COMPONENT)}


class ModelJudgedVerifier:
    """A verifier's evaluations with a component from each reward model; a ``BatchVerifier``.

    Its name contains those of the models with the ids of their weights, so an evaluation says which models judged.
    """

    def __init__(self, verifier: Verifier, models: "Mapping[str, ComponentModel]") -> None:
        """``models``: by component."""
        self.name = "+".join((verifier.name, *(model.name for model in models.values())))
        self._verifier = verifier
        self._models = models

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """The evaluation of one trajectory. Raises what the verifier raises; ModelError for a damaged folder."""
        return self._judge([self._verifier.verify(task, trajectory)], [trajectory])[0]

    def verify_all(self, finished: Sequence[tuple[Task, Trajectory]]) -> list[Evaluation]:
        """The evaluations, in order, scored in batches; a component that a model cannot compute is None.

        A missing evaluation has no components. Raises ModelError for a damaged folder.
        """
        evaluations = verify_all(self._verifier, finished)
        return self._judge(evaluations, [trajectory for _, trajectory in finished])

    def _judge(self, evaluations: Sequence[Evaluation], trajectories: Sequence[Trajectory]) -> list[Evaluation]:
        judged = [index for index, item in enumerate(evaluations) if item.verdict != "missing"]
        chosen = [trajectories[index] for index in judged]
        components = {name: model.scores(chosen) for name, model in self._models.items()}
        scores = {index: {name: components[name][at] for name in components} for at, index in enumerate(judged)}
        return [
            replace(
                item,
                id=evaluation_id(self.name, item.trajectory_id),
                evaluator=self.name,
                rewards={**item.rewards, **scores.get(index, {})},
            )
            for index, item in enumerate(evaluations)
        ]


@record
class RecordedJudge:
    """The verifier of a run, as its journal has it."""

    name: str


def check_same_models(journal: Journal, verifier: Verifier) -> None:
    """Raises JournalError where a run goes on with other reward models than it started with: a folder may have been
    replaced, and the configuration names folders only."""
    if not isinstance(verifier, ModelJudgedVerifier):
        return
    started = journal.record_step("reward-models", RecordedJudge, lambda: RecordedJudge(verifier.name))
    if started.name != verifier.name:
        raise JournalError(
            f"the run started with the rewards of {started.name!r}, and the folders in rewards.weights now give "
            f"{verifier.name!r}; restore them, or start a new run"
        )


class ComponentModel:
    """A reward model with its renderer; loaded when it scores for the first time."""

    def __init__(self, folder: Path, tools: Sequence[Tool], *, device: str = "auto") -> None:
        """``device``: as in ``run.device``. Raises ModelError for a folder that is not a reward model's."""
        from upturn.training.reward_models import read_description

        self.stored: StoredDescription = read_description(folder)
        self.name = f"{folder.name}@{self.stored.id}"
        self._folder = folder
        self._tools = tuple(tools)
        self._device = device
        self._loaded: _Loaded | None = None

    def scores(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        """The score of each trajectory. None = it has no turns, cannot be written with the model's tokens as a
        whole, or does not fit the model; see ``RewardModel.scores``.

        Recorded tokens are read as they are where they are the model's, else the trajectory is rendered.
        """
        if not any(trajectory.turns for trajectory in trajectories):
            return [None] * len(trajectories)
        loaded = self._load()
        return loaded.model.scores([self._in_tokens(trajectory, loaded.renderer) for trajectory in trajectories])

    def _in_tokens(self, trajectory: Trajectory, renderer: Renderer) -> Trajectory:
        if trajectory.rows and matches_tokenizer(trajectory, renderer):
            return trajectory
        prompts = GrowingPrompt(renderer, self.stored.description.prompt)
        rendered = render_trajectory(trajectory, renderer, prompts)
        is_whole = last_turn(rendered) == len(rendered.turns) - 1
        return rendered if is_whole else replace(rendered, rows=())

    def _load(self) -> "_Loaded":
        if self._loaded is None:
            from upturn.training.reward_models import load_reward_model

            model = load_reward_model(self._folder, device=choose_device(self._device))
            local = with_tokenizer(self.name, self._folder, model.model)
            options = self.stored.description.template_options
            self._loaded = _Loaded(model, local.renderer(self._tools, options=options))
        return self._loaded


class _Loaded(NamedTuple):
    model: "RewardModel"
    renderer: Renderer
