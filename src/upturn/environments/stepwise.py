"""Episodes stepped by a caller, action by action: by another framework's loop or a client of a server.

Upturn's agents use rollouts (``upturn.agents``), which call the agent. An episode ends when the environment ends it
or its turns are used up, and is then verified once; later actions change nothing. An environment that raises ends
it without an evaluation, and the error propagates. Not covered: token and time limits.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from upturn.environments.action import MALFORMED, action_text, recordable_action, recordable_text
from upturn.environments.environment import Info, verify
from upturn.environments.kit import EnvironmentKit, draw_tasks
from upturn.environments.scripted_policy import MAX_TURNS
from upturn.errors import UnknownNameError, WorldError, error_text
from upturn.models import JSON, read_call
from upturn.records import Action, Evaluation, Observation, Outcome, Split, Task, Trajectory, Turn, fields_json


class TaskSelection(NamedTuple):
    """Selects tasks of a kit."""

    family: str | None = None
    """None = all."""
    level: int | None = None
    """None = all."""
    split: Split = "train"

    def stream(self, kit: EnvironmentKit, seed: int) -> Iterator[Task]:
        """The selected tasks, in the kit's order for the seed; raises UnknownNameError if there are none."""
        if self.family is not None and self.family not in kit.families:
            raise UnknownNameError(f"{kit.name} has no family {self.family!r}; it has: {', '.join(kit.families)}")
        named = list(kit.families) if self.family is None else [self.family]
        families = [name for name in named if self.level in (None, kit.families[name])]
        if not families:
            levels = ", ".join(map(str, sorted({kit.families[name] for name in named})))
            raise UnknownNameError(f"{self.family or kit.name} has no level {self.level!r}; it has: {levels}")
        if self.split not in ("train", "heldout"):
            raise UnknownNameError(f"unknown split {self.split!r}; known: train, heldout")
        return draw_tasks(kit, seed=seed, split=self.split, families=families)


def read_action(text: str) -> Action | None:
    """The action in the text; None if there is none or the text cannot be recorded. Never raises.

    ``target.operation name=value; name=value``, or thoughts followed by ``{"name": "target.operation",
    "arguments": {…}}``, the format requested from general chat models, or by ``{"target_app": …, "operation": …,
    "parameters": {…}, "reasoning": …}``.
    """
    if recordable_text(text) != text:
        return None
    action = read_call(text.strip())
    if action is not None:
        return action
    return JSON.read_action(text)


class StepResult(NamedTuple):
    """The result of an action."""

    observation: Observation
    reward: float | None
    """The environment's reward for this action, plus the verifier's score with the last one; None = the evaluation
    is missing, which is not 0."""
    is_terminated: bool
    is_truncated: bool
    """The turns are used up, or the environment truncated the episode."""
    info: Info
    evaluation: Evaluation | None
    """With the last action only; None before and after."""


TASK_OVER = Observation("the task is over; reset starts another", "is_over")


class StepwiseEpisode:
    """One episode: ``start``, then ``act`` until a result carries an evaluation. Single use.

    ``start``, ``act`` and ``trajectory`` call the environment: run them in a thread if it blocks (``is_blocking``).
    """

    observation: Observation
    """The latest observation."""
    info: Info
    """The info of the latest step."""

    def __init__(
        self, kit: EnvironmentKit, task: Task, *, max_turns: int = MAX_TURNS, agent_version: str = "outside@1"
    ) -> None:
        """``max_turns``: the most actions."""
        if max_turns < 1:
            raise WorldError(f"max_turns must be positive, got {max_turns!r}")
        self.kit, self.task, self.max_turns, self.agent_version = kit, task, max_turns, agent_version
        self.environment = kit.environment(task)
        self.turns: list[Turn] = []
        self.faults: list[tuple[str, ...]] = []
        """Injected faults of each step."""
        self.outcome: Outcome | None = None
        """None while the episode runs."""
        self.evaluation: Evaluation | None = None
        """None while the episode runs, or if the environment raised; ``missing`` if the verifier raised."""
        self._ends = (False, False)
        """(is terminated, is truncated)."""
        self._error = ""

    def start(self) -> Observation:
        """The first observation. Raises WorldError when the environment cannot build the task's world."""
        self.observation, self.info = self.environment.reset(self.task)
        return self.observation

    def act(self, request: Action | str) -> StepResult:
        """Takes an action, or text that contains one. Actions after the end have no effect.

        Propagates the environment's exceptions, which end the episode.
        """
        if self.outcome is not None:
            info = replace(self.info, reward_components={}, cost_components={}, faults=())
            return StepResult(TASK_OVER, 0.0, *self._ends, info, None)
        text = recordable_text(request if isinstance(request, str) else action_text(request))
        action = read_action(request) if isinstance(request, str) else request
        action = None if action is None else recordable_action(action)
        before = self.info
        turn = Turn(self.observation, text, action, state_hash=before.state_hash, potential=before.potential)
        try:
            step = self.environment.step(MALFORMED if action is None else action)
        except (Exception, SystemExit) as exc:
            self.turns.append(turn)
            self.outcome, self._ends, self._error = "environment_error", (False, True), error_text(exc)
            raise
        costs = dict(step.info.cost_components)
        self.turns.append(replace(turn, reward=float(step.reward), costs=costs))
        self.faults.append(step.info.faults)
        self.observation, self.info = step.observation, step.info
        if not (step.is_terminated or step.is_truncated or len(self.turns) >= self.max_turns):
            return StepResult(self.observation, float(step.reward), False, False, self.info, None)
        self.outcome = "finished" if step.is_terminated else "step_limit"
        self._ends = (step.is_terminated, not step.is_terminated)
        self.evaluation = evaluation = verify(self.kit.verifier, self.task, self.trajectory())
        reward = None if evaluation.score is None else float(step.reward) + evaluation.score
        return StepResult(self.observation, reward, *self._ends, self.info, evaluation)

    def trajectory(self) -> Trajectory:
        """The episode so far, for the pool.

        Equal episodes have equal ids; an unfinished one counts as truncated.
        """
        trajectory = Trajectory(
            id="",
            task_id=self.task.id,
            agent_version=self.agent_version,
            turns=tuple(self.turns),
            final_observation=self.observation,
            outcome=self.outcome or "step_limit",
            origin="rendered",
            final_state={} if self._error else dict(self.environment.state()),
            error=self._error,
        )
        return replace(trajectory, id=hashlib.blake2b(fields_json(trajectory).encode(), digest_size=16).hexdigest())


def info_fields(info: Info) -> dict[str, Any]:
    """A new dict of a step's info without the potential, which no agent may see."""
    fields = asdict(info)
    del fields["potential"]
    return fields


def record_fields(record: object) -> dict[str, Any]:
    """A record, such as a task or an evaluation, as a JSON object."""
    fields: dict[str, Any] = json.loads(fields_json(record))
    return fields
