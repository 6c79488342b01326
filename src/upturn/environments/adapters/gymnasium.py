"""Any kit as a Gymnasium environment: ``pip install 'upturn[gymnasium]'``.

Observations are texts. An action is a line in the call grammar, or a mapping with ``target`` (or ``target_app``),
``operation`` and ``parameters``. An unparsable or refused call gets an error observation; a value outside the
action space raises. The reward is the environment's, plus the verifier's score at the end; NaN where the verifier
raised.
"""

import re
from collections.abc import Iterator, Mapping
from math import nan
from typing import Any, ClassVar

try:
    import gymnasium
except ImportError as exc:
    raise ImportError("Gymnasium is not installed: pip install 'upturn[gymnasium]'") from exc

from upturn.environments.adapters.gymnasium_space import CallSpace, TextSpace, action_from_mapping
from upturn.environments.kit import EnvironmentKit, resolve_kit, tools_of
from upturn.environments.scripted_policy import MAX_TURNS
from upturn.environments.stepwise import StepwiseEpisode, TaskSelection, info_fields, record_fields
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Split, Task


class KitEnv(gymnasium.Env[str, str | Mapping[str, Any]]):
    """A kit's tasks, one per episode: ``reset(seed=s)`` starts those of seed s, ``reset()`` takes the next one."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}
    """Texts have no frame rate, but Gymnasium requires one."""

    def __init__(
        self,
        kit: EnvironmentKit | str,
        *,
        family: str | None = None,
        level: int | None = None,
        split: Split = "train",
        max_turns: int = MAX_TURNS,
        render_mode: str | None = None,
    ) -> None:
        """``family``, ``level``: None = all. Raises UnknownNameError for unknown names."""
        self.kit = resolve_kit(kit) if isinstance(kit, str) else kit
        self.choice, self.max_turns, self.render_mode = TaskSelection(family, level, split), max_turns, render_mode
        self.action_space = CallSpace(tools_of(self.kit))
        self.observation_space = TextSpace()
        self.episode: StepwiseEpisode | None = None
        """The current episode; its ``trajectory()`` can be stored. None = no ``reset`` yet."""
        self._tasks: Iterator[Task] | None = None
        self.choice.stream(self.kit, 0)  # raises for unknown names now, not at the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The next task's instruction; its fields are in ``info["task"]``.

        ``options={"task": task}`` sets the task.
        """
        super().reset(seed=seed)
        match options or {}:
            case {"task": Task() as task, **rest} if not rest:
                pass
            case {**rest} if not rest:
                task = self._next_task(seed)
            case wrong:
                raise UnknownNameError(f"reset takes one option, task, a Task; got {wrong!r}")
        episode = StepwiseEpisode(self.kit, task, max_turns=self.max_turns)
        observation = episode.start()
        self.episode = episode
        info = {"code": observation.code, "task": record_fields(task), **info_fields(episode.info)}
        return observation.text, info

    def step(self, action: str | Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes an action. After the end it has no effect: the code is ``is_over``, the reward 0.

        ``info["code"]`` is ``ok`` or the action's error; the last step's info has ``evaluation``. Raises
        ResetNeeded before ``reset`` and InvalidAction for values outside the action space.
        """
        if self.episode is None:
            raise gymnasium.error.ResetNeeded("there is no task yet; call reset first")
        request = action if isinstance(action, str) else action_from_mapping(action)
        if request is None:
            raise gymnasium.error.InvalidAction(
                f"an action is a text or a mapping with target, operation, parameters and thought; got {action!r}"
            )
        answer = self.episode.act(request)
        info = {"code": answer.observation.code, **info_fields(answer.info)}
        if answer.evaluation is not None:
            info["evaluation"] = record_fields(answer.evaluation)
        reward = nan if answer.reward is None else answer.reward
        return answer.observation.text, reward, answer.is_terminated, answer.is_truncated, info

    def render(self) -> str | None:
        """The latest observation; None without a render mode, or before ``reset``."""
        return None if self.episode is None or self.render_mode is None else self.episode.observation.text

    def _next_task(self, seed: int | None) -> Task:
        if seed is not None or self._tasks is None:
            number = int(self.np_random.integers(2**31)) if seed is None else seed
            self._tasks = self.choice.stream(self.kit, number)
        task = next(self._tasks, None)
        if task is None:
            raise WorldError(f"{self.kit.name} has no further task; reset(seed=…) starts again")
        return task


def register(kit: str = "office") -> str:
    """Registers a kit with Gymnasium and returns its id there, such as ``upturn/office-v5``.

    ``kit``: a registered name, or ``module:factory``. The number is the version of the kit's verifier: a changed
    verifier is another environment. ``gymnasium.make`` takes ``KitEnv``'s arguments.
    """
    resolved = resolve_kit(kit)
    version = re.search(r"/(\d+)\Z", resolved.verifier.name)
    if version is None:
        raise WorldError(
            f"the verifier of {kit!r} needs a version, such as 'shop/1'; got {resolved.verifier.name!r}"
        )
    name = f"upturn/{resolved.name}-v{version[1]}"
    registered = gymnasium.registry.get(name)
    if registered is not None and registered.kwargs != {"kit": kit}:
        raise WorldError(
            f"{name!r} is already registered with Gymnasium as another environment: {registered.kwargs!r}"
        )
    if registered is None:
        gymnasium.register(name, entry_point=f"{__name__}:{KitEnv.__name__}", kwargs={"kit": kit})
    return name
