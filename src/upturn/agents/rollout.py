"""Attempts at tasks: many environments in one process, on one event loop.

An attempt begins with its task, or goes on from a state inside another attempt. It asks its agent, steps its
environment, and stops when the environment ends it, a limit is reached or something breaks. What breaks is recorded
as the attempt's outcome; its siblings go on. An agent is given copies: what it does to them, or later to its own
answers, changes nothing that was recorded.

An environment is called on the event loop; one that blocks, in a thread of its attempt's own, while models go on
writing for the others. Nothing here depends on how fast anything ran, except the time limit, the measured seconds
and, with environments that block, which calls a model's batch is composed of: the model's concern, as it is with
agents that wait. A local engine's tokens do not depend on it, but for rounding; their log-probs' last digits do.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, TypeVar

from upturn.agents.agent import Agent, Reply
from upturn.agents.branch_point import Beginning
from upturn.agents.limit import limit_reached
from upturn.agents.recorder import LimitReachedError, Recorder, derived_seed
from upturn.agents.sanitize import recordable
from upturn.agents.worker import Worker
from upturn.config import Limits
from upturn.environments import MALFORMED, Environment, Info, Step, blocks, is_potential
from upturn.errors import RecordError, WorldError, described
from upturn.models import GenerationRequest, Model
from upturn.records import (
    JsonValue,
    Observation,
    Outcome,
    Task,
    Trajectory,
    Turn,
    Usage,
    fields_json,
    record,
)

EnvironmentFactory: TypeAlias = Callable[[Task], Environment]
ResultT = TypeVar("ResultT")
_BROKEN = Observation(text="", code="environment_error")


@record
class Attempt:
    """One try at one task."""

    task: Task
    number: int
    """Of the tries at this task, from 0."""
    index: int
    """Of the task within the collection: batches are composed in the order (index, number)."""
    beginning: Beginning | None = None
    """The state inside another attempt to go on from: its turns come first in the trajectory, its tokens are
    context. Attempts from one state need different numbers. None = from the task's beginning."""


@dataclass(frozen=True)
class Setting:
    """What the attempts of one agent version share."""

    key: str
    """Makes trajectory ids and sessions unique: run and iteration, or the like."""
    agent: Agent
    agent_version: str
    """``AgentVersion.id``"""
    model: Model | None
    """None: the agent calls no model of ours; its trajectories count as rendered."""
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    """Calls draw from (seed, task, attempt, call): iterations need different ones, or repeat each other's luck."""
    temperature: float = 1.0
    clock: Callable[[], float] = time.monotonic
    """Seconds."""


class Job(NamedTuple):
    """An attempt with the setting it runs in."""

    attempt: Attempt
    setting: Setting


async def run_rollouts(
    jobs: Sequence[Job],
    environments: EnvironmentFactory,
    *,
    slots: int = 64,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """All trajectories in the order of the jobs; alive are at most ``slots`` with a model, and as many without.

    They have slots of their own because agents without a model take as long as they like: were they to share, the
    clock would decide which attempts a model's batch is composed of. ``on_finish`` is called with each as it
    finishes, in the order of finishing.
    """
    if slots < 1:
        raise ValueError(f"slots must be at least 1, got {slots!r}")
    finished: list[Trajectory | None] = [None] * len(jobs)
    with_model = [(place, job) for place, job in enumerate(jobs) if job.setting.model is not None]
    without = [(place, job) for place, job in enumerate(jobs) if job.setting.model is None]

    async def work(queue: Iterator[tuple[int, Job]]) -> None:
        for place, job in queue:
            trajectory = await rollout(job.attempt, environments, job.setting)
            finished[place] = trajectory
            if on_finish is not None:
                on_finish(trajectory)

    async with asyncio.TaskGroup() as group:
        for part in (with_model, without):
            pending = iter(part)
            for _ in range(min(slots, len(part))):
                group.create_task(work(pending))
    return [trajectory for trajectory in finished if trajectory is not None]


async def rollout(attempt: Attempt, environments: EnvironmentFactory, setting: Setting) -> Trajectory:
    """One attempt, from a new environment to its end. Raises only when it is cancelled."""
    run = _Run(attempt, setting)
    try:
        outcome = await run.play(environments)
    finally:
        run.end()
    return run.trajectory(outcome)


def trajectory_id(
    key: str, task_id: str, agent_version: str, number: int, *, beginning: Beginning | None = None
) -> str:
    """The same for the same attempt, whenever and wherever it is made."""
    place = [] if beginning is None else [beginning.source, len(beginning.turns)]
    parts = json.dumps([key, task_id, agent_version, number, *place]).encode()
    return hashlib.blake2b(parts, digest_size=16).hexdigest()


def attempt_id(attempt: Attempt, key: str, agent_version: str) -> str:
    """Of the trajectory that the attempt becomes."""
    return trajectory_id(key, attempt.task.id, agent_version, attempt.number, beginning=attempt.beginning)


def attempt_seed(attempt: Attempt, seed: int) -> int:
    """What the attempt's calls draw from, in a setting with this seed."""
    beginning = attempt.beginning
    place = () if beginning is None else (beginning.source_seed, len(beginning.turns))
    return derived_seed(seed, attempt.task.id, attempt.number, *place)


class _Run:
    """The moving parts of one attempt."""

    def __init__(self, attempt: Attempt, setting: Setting) -> None:
        self.attempt, self.setting = attempt, setting
        self.id = attempt_id(attempt, setting.key, setting.agent_version)
        self.session = self.id
        self.seed = attempt_seed(attempt, setting.seed)
        shared = GenerationRequest(
            prompt_ids=(),
            max_tokens=0,
            stop_ids=(),
            temperature=setting.temperature,
            session=self.session,
            order=(attempt.index, attempt.number),
            seed=self.seed,
        )
        self.recorder = Recorder(setting.model, shared, max_tokens=setting.limits.max_tokens)
        self.started = setting.clock()
        self.turns: list[Turn] = []
        self.shown: list[Turn] = []
        """Equal to ``turns`` but for potentials, which agents never see, and the agent's to do with as it likes."""
        self.observation = _BROKEN
        self.state_hash = ""
        self.potential: float | None = None
        self.final_state: dict[str, JsonValue] = {}
        self.foreign = Usage()
        self.error = ""
        self.worker: Worker | None = None
        """Calls the environment; None = it does not block, it is called right here."""

    async def play(self, environments: EnvironmentFactory) -> Outcome:
        try:
            environment = environments(self.attempt.task)
            self.worker = Worker() if blocks(environment) else None
            observation, info = await self._ask(lambda: environment.reset(self.attempt.task))
            self.potential = _potential(info)
            self.observation, self.state_hash = observation, info.state_hash
            if self.attempt.beginning is not None:
                await self._begin(self.attempt.beginning, environment)
        except Exception as exc:  # noqa: BLE001 — a broken world is recorded, its siblings go on
            return self._broke("environment_error", exc)
        outcome: Outcome | None = None
        while outcome is None:
            seconds = self.setting.clock() - self.started
            outcome = self._limit(seconds) or await self._turn(environment, seconds)
        try:
            self.final_state = await self._ask(lambda: dict(environment.state()))
        except Exception as exc:  # noqa: BLE001 — as above
            return self._broke("environment_error", exc)
        return outcome

    def end(self) -> None:
        """Gives back what the attempt holds, however it ended."""
        if self.worker is not None:
            self.worker.end()
        if self.setting.model is not None:
            self.setting.model.release(self.session)

    async def _ask(self, call: Callable[[], ResultT]) -> ResultT:
        """What the environment answers; it is called at once, or by the worker."""
        return call() if self.worker is None else await self.worker.do(call)

    async def _begin(self, beginning: Beginning, environment: Environment) -> None:
        await self._ask(lambda: beginning.enter(environment))
        self.observation, self.state_hash = beginning.observation, beginning.state_hash
        self.potential = beginning.potential
        self.turns = list(beginning.turns)
        self.shown = [_copied(turn) for turn in beginning.turns]
        self.recorder.resume(beginning.rows, beginning.history)

    def _limit(self, seconds: float) -> Outcome | None:
        return limit_reached(
            self.setting.limits, turns=len(self.turns), tokens=len(self.recorder.history), seconds=seconds
        )

    async def _turn(self, environment: Environment, seconds: float) -> Outcome | None:
        self.recorder.turn = len(self.turns)
        limit = self.setting.limits.max_seconds
        timer = asyncio.timeout(None if limit is None else limit - seconds)
        try:
            async with timer:
                answer = await self.setting.agent.act(tuple(self.shown), self.observation, self.recorder)
            reply = recordable(answer)
        except LimitReachedError:
            return "token_limit"
        except Exception as exc:  # noqa: BLE001 — an agent or model that breaks is this attempt's outcome
            return "time_limit" if timer.expired() else self._broke("model_error", exc)
        self.foreign = Usage(
            self.foreign.prompt_tokens + reply.usage.prompt_tokens,
            self.foreign.written_tokens + reply.usage.written_tokens,
        )
        action = MALFORMED if reply.action is None else reply.action
        try:
            return self._stepped(reply, await self._ask(lambda: environment.step(action)))
        except Exception as exc:  # noqa: BLE001 — a broken world is recorded, its siblings go on
            self.turns.append(
                Turn(
                    self.observation,
                    reply.text,
                    reply.action,
                    state_hash=self.state_hash,
                    potential=self.potential,
                )
            )
            self.observation = _BROKEN
            return self._broke("environment_error", exc)

    def _stepped(self, reply: Reply, step: Step) -> Outcome | None:
        observation, reward, is_terminated, is_truncated, info = step
        potential = _potential(info)
        turn = Turn(
            observation=self.observation,
            text=reply.text,
            action=reply.action,
            reward=float(reward),
            costs=dict(info.cost_components),
            state_hash=self.state_hash,
            potential=self.potential,
        )
        self.shown.append(_copied(turn))
        self.turns.append(turn)
        self.observation, self.state_hash, self.potential = observation, info.state_hash, potential
        if is_terminated:
            return "finished"
        return "step_limit" if is_truncated else None

    def _broke(self, outcome: Outcome, exc: Exception) -> Outcome:
        self.error = described(exc)
        return outcome

    def trajectory(self, outcome: Outcome) -> Trajectory:
        """The attempt as a record. Where its environment's answers cannot be written, it broke from the start."""
        made = self._trajectory(outcome)
        try:
            fields_json(made)
        except RecordError as exc:
            self.turns, self.observation, self.final_state = [], _BROKEN, {}
            return self._trajectory(self._broke("environment_error", exc))
        return made

    def _trajectory(self, outcome: Outcome) -> Trajectory:
        is_ours = self.setting.model is not None
        return Trajectory(
            id=self.id,
            task_id=self.attempt.task.id,
            agent_version=self.setting.agent_version,
            turns=tuple(self.turns),
            final_observation=self.observation,
            outcome=outcome,
            origin="sampled" if is_ours else "rendered",
            rows=self.recorder.rows(len(self.turns)),
            attempt=self.attempt.number,
            seed=self.seed,
            temperature=self.setting.temperature if is_ours else None,
            model_version=self.recorder.model_version,
            final_state=self.final_state,
            usage=Usage(
                self.recorder.prompt_tokens + self.foreign.prompt_tokens,
                self.recorder.written_tokens + self.foreign.written_tokens,
                self.setting.clock() - self.started,
            ),
            error=self.error,
        )


def _potential(info: Info) -> float | None:
    """Raises WorldError where it is none: shaping by it would train on rewards that nobody meant."""
    if not is_potential(info.potential):
        raise WorldError(
            f"the environment gave the potential {info.potential!r}; potentials are floats in [0, 1], or None"
        )
    return info.potential


def _copied(turn: Turn) -> Turn:
    action = turn.action
    if action is not None:
        action = replace(action, parameters=deepcopy(action.parameters))
    return replace(turn, action=action, costs=dict(turn.costs), potential=None)
