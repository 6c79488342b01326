"""Any kit as a Gymnasium environment: ``pip install 'upturn[gymnasium]'``.

Observations are texts. An action is a line in the grammar of calls, or a mapping with ``target``, ``operation`` and
``parameters`` (``target_app`` is the same as ``target``). A call that cannot be read or is refused is answered, as
agents are answered; what is not in the action space at all raises. The reward is what the kit's environment gives
and, at the end, the verifier's score: NaN where the verifier broke.
"""

import re
from collections.abc import Iterator, Mapping
from math import nan
from typing import Any, ClassVar

try:
    import gymnasium
except ImportError as exc:
    raise ImportError("Gymnasium is not installed: pip install 'upturn[gymnasium]'") from exc

from upturn.environments.adapters.gymnasium_space import CallSpace, TextSpace, structured
from upturn.environments.kit import EnvironmentKit, resolve_kit, tools_of
from upturn.environments.scripted_policy import MAX_TURNS
from upturn.environments.stepwise import StepwiseAttempt, TaskChoice, info_fields, record_fields
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Split, Task


class KitEnv(gymnasium.Env[str, str | Mapping[str, Any]]):
    """A kit's tasks, one an episode: ``reset(seed=s)`` begins the tasks of seed s, ``reset()`` goes on in them."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}
    """Texts have no rate, but Gymnasium asks for one."""

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
        """``family``, ``level``: None = all. Raises UnknownNameError for names that are not there."""
        self.kit = resolve_kit(kit) if isinstance(kit, str) else kit
        self.choice, self.max_turns, self.render_mode = TaskChoice(family, level, split), max_turns, render_mode
        self.action_space = CallSpace(tools_of(self.kit))
        self.observation_space = TextSpace()
        self.attempt: StepwiseAttempt | None = None
        """The present one; its ``trajectory()`` can be stored. None = there was no ``reset`` yet."""
        self._tasks: Iterator[Task] | None = None
        self.choice.stream(self.kit, 0)  # refuses what is not there now, not at the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The next task's instruction; its fields are in ``info["task"]``. ``options={"task": task}`` gives one."""
        super().reset(seed=seed)
        match options or {}:
            case {"task": Task() as task, **others} if not others:
                pass
            case {**others} if not others:
                task = self._next_task(seed)
            case wrong:
                raise UnknownNameError(f"reset has one option, task, a Task; got {wrong!r}")
        attempt = StepwiseAttempt(self.kit, task, max_turns=self.max_turns)
        observation = attempt.begin()
        self.attempt = attempt
        told = {"code": observation.code, "task": record_fields(task), **info_fields(attempt.info)}
        return observation.text, told

    def step(self, action: str | Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Acts. After the end nothing counts: the answer is ``is_over``, the reward 0.

        ``info["code"]`` is ``ok`` or what was wrong with the action; the last one's info has ``evaluation``.
        Raises ResetNeeded before ``reset`` and InvalidAction for what is not in the action space.
        """
        if self.attempt is None:
            raise gymnasium.error.ResetNeeded("there is no task yet; call reset first")
        asked = action if isinstance(action, str) else structured(action)
        if asked is None:
            raise gymnasium.error.InvalidAction(
                f"an action is a text or a mapping with target, operation, parameters and thought; got {action!r}"
            )
        answer = self.attempt.act(asked)
        told = {"code": answer.observation.code, **info_fields(answer.info)}
        if answer.evaluation is not None:
            told["evaluation"] = record_fields(answer.evaluation)
        reward = nan if answer.reward is None else answer.reward
        return answer.observation.text, reward, answer.is_terminated, answer.is_truncated, told

    def render(self) -> str | None:
        """The latest observation; None without a render mode, or before ``reset``."""
        return None if self.attempt is None or self.render_mode is None else self.attempt.observation.text

    def _next_task(self, seed: int | None) -> Task:
        if seed is not None or self._tasks is None:
            number = int(self.np_random.integers(2**31)) if seed is None else seed
            self._tasks = self.choice.stream(self.kit, number)
        try:
            return next(self._tasks)
        except StopIteration:
            raise WorldError(f"{self.kit.name} has no further task; reset(seed=…) begins again") from None


def register(kit: str = "office") -> str:
    """Makes a kit known to ``gymnasium.make`` and returns its id there, such as ``upturn/office-v4``.

    ``kit``: a registered name, or ``module:factory``. The number is that of the kit's verifier: what it judges
    differently is another environment. ``gymnasium.make`` takes ``KitEnv``'s arguments.
    """
    made = resolve_kit(kit)
    version = re.search(r"/(\d+)\Z", made.verifier.name)
    if version is None:
        raise WorldError(f"the verifier of {kit!r} needs a version, such as 'shop/1'; got {made.verifier.name!r}")
    name = f"upturn/{made.name}-v{version[1]}"
    known = gymnasium.registry.get(name)
    if known is not None and known.kwargs != {"kit": kit}:
        raise WorldError(f"{name!r} is known to Gymnasium already, as another environment: {known.kwargs!r}")
    if known is None:
        gymnasium.register(name, entry_point=f"{__name__}:{KitEnv.__name__}", kwargs={"kit": kit})
    return name
