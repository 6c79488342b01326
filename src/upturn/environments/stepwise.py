"""An attempt that somebody outside drives, action by action: another framework's loop, a client of a server.

For what our own agents do there are rollouts (``upturn.agents``): they ask, here we are asked. An attempt ends when
the environment says so or its actions are used up, and is judged then, once; what is asked of it later changes
nothing. An environment that breaks ends it too, unjudged, and its error goes to whoever drives. Not covered: token
and time limits.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from upturn.environments.action import MALFORMED, action_text, recordable_action, recordable_text
from upturn.environments.environment import Info, judge
from upturn.environments.kit import EnvironmentKit
from upturn.environments.scripted_policy import MAX_TURNS
from upturn.errors import UnknownNameError, WorldError, described
from upturn.models import JSON, read_call
from upturn.records import Action, Evaluation, Observation, Outcome, Split, Task, Trajectory, Turn, fields_json


def families_at(kit: EnvironmentKit, *, family: str | None = None, level: int | None = None) -> list[str]:
    """The kit's families with this name and level (None = any); raises UnknownNameError when there are none."""
    if family is not None and family not in kit.families:
        raise UnknownNameError(f"{kit.name} has no family {family!r}; it has: {', '.join(kit.families)}")
    chosen = list(kit.families) if family is None else [family]
    found = [each for each in chosen if level is None or kit.families[each] == level]
    if not found:
        levels = sorted({kit.families[each] for each in chosen})
        raise UnknownNameError(
            f"{family or kit.name} has no level {level!r}; it has: {', '.join(map(str, levels))}"
        )
    return found


class TaskChoice(NamedTuple):
    """Which tasks of a kit are attempted."""

    family: str | None = None
    """None = all."""
    level: int | None = None
    """None = all."""
    split: Split = "train"

    def stream(self, kit: EnvironmentKit, seed: int) -> Iterator[Task]:
        """Those tasks, in the kit's order for the seed; raises UnknownNameError when there are none."""
        families = families_at(kit, family=self.family, level=self.level)
        if self.split not in ("train", "heldout"):
            raise UnknownNameError(f"unknown split {self.split!r}; known: train, heldout")
        return kit.tasks(seed=seed, split=self.split, families=families)


def read_action(text: str) -> Action | None:
    """The action that the text asks for; None = none, or a text that cannot be recorded. Never raises.

    ``target.operation name=value; name=value``, or thoughts followed by ``{"name": "target.operation",
    "arguments": {…}}``, which is what general chat models are asked for, or by ``{"target_app": …, "operation": …,
    "parameters": {…}, "reasoning": …}``.
    """
    if recordable_text(text) != text:
        return None
    action = read_call(text.strip())
    if action is not None:
        return action
    call = JSON.read(text)
    return None if call is None else call.action


class Answer(NamedTuple):
    """What an action led to."""

    observation: Observation
    reward: float | None
    """The environment's for this action, and with the last one the score of the attempt; None = it could not be
    judged, which is not 0."""
    is_terminated: bool
    is_truncated: bool
    """It was the last action that the attempt may have, or the environment cuts it short."""
    info: Info
    evaluation: Evaluation | None
    """With the last action; None before, and afterwards."""


OVER = Observation("the task is over; reset starts another", "is_over")


class StepwiseAttempt:
    """One attempt at one task: ``begin``, then ``act`` until an answer comes with an evaluation. Single use.

    An environment that ``blocks`` may be given a thread: ``begin``, ``act`` and ``trajectory`` call it.
    """

    observation: Observation
    """What the next action answers."""
    info: Info
    """Of the latest step."""

    def __init__(
        self, kit: EnvironmentKit, task: Task, *, max_turns: int = MAX_TURNS, agent_version: str = "outside@1"
    ) -> None:
        """``max_turns``: actions that it may have."""
        if max_turns < 1:
            raise WorldError(f"max_turns must be positive, got {max_turns!r}")
        self.kit, self.task, self.max_turns, self.agent_version = kit, task, max_turns, agent_version
        self.environment = kit.environment(task)
        self.turns: list[Turn] = []
        self.faults: list[tuple[str, ...]] = []
        """What went wrong in the environment, for each turn that it answered."""
        self.outcome: Outcome | None = None
        """None = it goes on."""
        self.evaluation: Evaluation | None = None
        """None = it goes on, or the environment broke. A verifier that broke gives one that is ``missing``."""
        self._ends = (False, False)
        """Whether it was terminated, and whether it was truncated."""
        self._error = ""

    def begin(self) -> Observation:
        """What to answer first. Raises WorldError when the environment cannot build the task's world."""
        self.observation, self.info = self.environment.reset(self.task)
        return self.observation

    def act(self, asked: Action | str) -> Answer:
        """An action, or text that asks for one. Whatever is asked is answered; nothing counts after the end.

        Raises what the environment raises, which ends the attempt.
        """
        if self.outcome is not None:
            info = replace(self.info, reward_components={}, cost_components={}, faults=())
            return Answer(OVER, 0.0, *self._ends, info, None)
        text = recordable_text(asked if isinstance(asked, str) else action_text(asked))
        action = read_action(asked) if isinstance(asked, str) else asked
        action = None if action is None else recordable_action(action)
        before = self.info
        turn = Turn(self.observation, text, action, state_hash=before.state_hash, potential=before.potential)
        try:
            step = self.environment.step(MALFORMED if action is None else action)
        except Exception as exc:
            self.turns.append(turn)
            self.outcome, self._ends, self._error = "environment_error", (False, True), described(exc)
            raise
        costs = dict(step.info.cost_components)
        self.turns.append(replace(turn, reward=float(step.reward), costs=costs))
        self.faults.append(step.info.faults)
        self.observation, self.info = step.observation, step.info
        if not (step.is_terminated or step.is_truncated or len(self.turns) >= self.max_turns):
            return Answer(self.observation, float(step.reward), False, False, self.info, None)
        self.outcome = "finished" if step.is_terminated else "step_limit"
        self._ends = (step.is_terminated, not step.is_terminated)
        self.evaluation = evaluation = judge(self.kit.verifier, self.task, self.trajectory())
        reward = None if evaluation.score is None else float(step.reward) + evaluation.score
        return Answer(self.observation, reward, *self._ends, self.info, evaluation)

    def trajectory(self) -> Trajectory:
        """The attempt so far, for the pool. Equal attempts have equal ids; one that goes on counts as cut short."""
        made = Trajectory(
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
        return replace(made, id=hashlib.blake2b(fields_json(made).encode(), digest_size=16).hexdigest())


def info_fields(info: Info) -> dict[str, Any]:
    """What others are told of a step, new each time: all but the potential, which no agent may see."""
    told = asdict(info)
    del told["potential"]
    return told


def record_fields(record: object) -> dict[str, Any]:
    """A record, such as a task or an evaluation, as a JSON object of its fields."""
    told: dict[str, Any] = json.loads(fields_json(record))
    return told
