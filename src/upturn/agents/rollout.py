"""Rollouts: many agents and environments in one process, on one event loop.

A rollout starts with its task, or at a branch point of another trajectory. It calls its agent, steps its
environment, and stops when the environment ends it, a limit is reached or something fails. A failure is recorded as
the rollout's outcome; the others continue. An agent gets copies: changing them, or later its own answers, does not
change the record.

An environment is called on the event loop; a blocking one in a thread per rollout, while models keep generating for
the others. Results do not depend on speed, except for the time limit, the measured seconds and, with blocking
environments or agents, the composition of a model's batches. A local engine's tokens do not depend on the latter,
up to rounding; the last digits of their log-probs do.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, cast

from upturn.agents.agent import Agent, AttemptAgent, recordable, reply_of
from upturn.agents.branch_point import BranchPoint
from upturn.agents.paused import PausableRecorder, Pause, PausedRollout, RolloutPausedError
from upturn.agents.recorder import LimitReachedError, Recorder, derived_seed
from upturn.agents.stage import FAILED_OBSERVATION, Stage, copy_turn
from upturn.config import FULL_DISTRIBUTION, Limits, SamplingSettings
from upturn.environments import Environment, hinted
from upturn.errors import ModelError, RecordError, error_text
from upturn.models import CallSchema, GenerationRequest, Model
from upturn.records import JsonValue, Outcome, Task, Trajectory, Usage, fields_json, record

PROGRAM_SECONDS = 600.0
"""Limit of an attempt of a program where ``max_seconds`` is unset: a program may hang for ever."""
EnvironmentFactory: TypeAlias = Callable[[Task], Environment]


@record
class RolloutRequest:
    """One rollout of one task."""

    task: Task
    number: int
    """Index among the rollouts of this task, from 0."""
    index: int
    """Index of the task in the collection: batches are sorted by (index, number)."""
    branch_point: BranchPoint | None = None
    """The state of another trajectory to continue from: its turns come first in the trajectory, its tokens are
    context. Rollouts from one state need different numbers. None = from the start of the task."""
    paused: PausedRollout | None = None
    """The rollout that continues, under its id and seed; it has no branch point. None = it starts."""
    examples: str = ""
    """What the first observation begins with (``examples``); empty = nothing."""


@dataclass(frozen=True)
class Setting:
    """What all rollouts of one agent version share."""

    key: str
    """Part of trajectory ids and sessions, which it makes unique: run and iteration, for example."""
    agent: Agent | AttemptAgent
    agent_version: str
    """``AgentVersion.id``"""
    model: Model | None
    """None = the agent calls no local model; its trajectories count as rendered."""
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    """Calls are seeded by (seed, task, rollout number, call): use a different seed for each iteration."""
    temperature: float = 1.0
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    sampling: SamplingSettings = FULL_DISTRIBUTION
    """Options besides the temperature."""
    calls: CallSchema | None = None
    """For ``sampling.calls_only``."""
    fixes_sampling: bool = False
    """True = a program's calls have this temperature and these options, whatever it asks for, as in training."""


class Job(NamedTuple):
    """A rollout request with its setting."""

    request: RolloutRequest
    setting: Setting


async def run_rollouts(
    jobs: Sequence[Job],
    environments: EnvironmentFactory,
    *,
    slots: int = 64,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """All trajectories in the order of the jobs; at most ``slots`` with a model run at a time, and as many without.

    An agent that works on whole attempts has slots of its own, as many as it says. The other two kinds have
    separate slots because agents without a model take arbitrary time: with shared slots, the clock would decide the
    composition of a model's batches. ``on_finish`` is called with each trajectory as it finishes.
    """
    results = await _run_all(jobs, environments, slots=slots, on_finish=on_finish)
    return [result for result in results if isinstance(result, Trajectory)]


async def run_until(
    jobs: Sequence[Job],
    environments: EnvironmentFactory,
    *,
    slots: int = 64,
    is_enough: Callable[[Trajectory], bool],
) -> list[Trajectory | PausedRollout]:
    """As ``run_rollouts``, until ``is_enough`` is True for a finished trajectory; all others are then paused.

    Their models are interrupted between two tokens, and agents without a model after their turn. With a local
    engine, environments and agents that do not block, where they pause depends on the jobs only.
    """
    pause, models = Pause(), {id(job.setting.model): job.setting.model for job in jobs}

    async def check(trajectory: Trajectory) -> None:
        if is_enough(trajectory) and not pause.is_set:
            pause.is_set = True
            for model in models.values():
                if model is not None:
                    await _interruptible(model).interrupt()

    return await _run_all(jobs, environments, slots=slots, after=check, pause=pause)


class Interruptible(Protocol):
    """A model whose requests can be ended early."""

    async def interrupt(self) -> None:
        """Ends all requests with the tokens that they have so far, with ``interrupted``."""


def _interruptible(model: Model) -> Interruptible:
    """Raises ModelError for a model that cannot be interrupted."""
    if not callable(getattr(model, "interrupt", None)):
        raise ModelError(f"a {type(model).__name__} cannot be interrupted: sample without partial rollouts")
    return cast(Interruptible, model)


async def _run_all(
    jobs: Sequence[Job],
    environments: EnvironmentFactory,
    *,
    slots: int,
    on_finish: Callable[[Trajectory], None] | None = None,
    after: Callable[[Trajectory], Awaitable[None]] | None = None,
    pause: Pause | None = None,
) -> list[Trajectory | PausedRollout]:
    if slots < 1:
        raise ValueError(f"slots must be at least 1, got {slots!r}")
    finished: list[Trajectory | PausedRollout | None] = [None] * len(jobs)
    parts: dict[object, list[tuple[int, Job]]] = {}
    for index, job in enumerate(jobs):
        agent = job.setting.agent
        kind = id(agent) if isinstance(agent, AttemptAgent) else job.setting.model is not None
        parts.setdefault(kind, []).append((index, job))

    async def work(queue: Iterator[tuple[int, Job]]) -> None:
        for index, job in queue:
            result = await _rollout(job.request, environments, job.setting, pause)
            finished[index] = result
            if isinstance(result, PausedRollout):
                continue
            if on_finish is not None:
                on_finish(result)
            if after is not None:
                await after(result)

    agents = [part[0][1].setting.agent for part in parts.values()]
    try:
        async with asyncio.TaskGroup() as group:
            for part, agent in zip(parts.values(), agents, strict=True):
                pending = iter(part)
                most = min(slots, agent.parallel) if isinstance(agent, AttemptAgent) else slots
                for _ in range(min(most, len(part))):
                    group.create_task(work(pending))
    finally:
        for agent in agents:
            if isinstance(agent, AttemptAgent):
                await agent.close()
    return [result for result in finished if result is not None]


async def rollout(request: RolloutRequest, environments: EnvironmentFactory, setting: Setting) -> Trajectory:
    """One rollout in a new environment; its agent is not closed. Raises only when it is cancelled."""
    result = await _rollout(request, environments, setting, None)
    assert isinstance(result, Trajectory)
    return result


async def _rollout(
    request: RolloutRequest, environments: EnvironmentFactory, setting: Setting, pause: Pause | None
) -> Trajectory | PausedRollout:
    run = _Run(request, setting, pause)
    try:
        outcome = await run.run(environments)
    finally:
        run.close()
    return run.paused() if outcome is None else run.trajectory(outcome)


def trajectory_id(
    key: str, task_id: str, agent_version: str, number: int, *, branch_point: BranchPoint | None = None
) -> str:
    """The id of a rollout's trajectory, the same whenever and wherever it runs."""
    position = [] if branch_point is None else [branch_point.source, len(branch_point.turns)]
    parts = json.dumps([key, task_id, agent_version, number, *position]).encode()
    return hashlib.blake2b(parts, digest_size=16).hexdigest()


def rollout_id(request: RolloutRequest, key: str, agent_version: str) -> str:
    """The id of the rollout's trajectory."""
    return trajectory_id(key, request.task.id, agent_version, request.number, branch_point=request.branch_point)


def rollout_seed(request: RolloutRequest, seed: int) -> int:
    """The seed of the rollout's calls, in a setting with this seed."""
    branch_point = request.branch_point
    position = () if branch_point is None else (branch_point.source_seed, len(branch_point.turns))
    return derived_seed(seed, request.task.id, request.number, *position)


def limit_reached(limits: Limits, *, turns: int, tokens: int, seconds: float) -> Outcome | None:
    """The outcome of the first limit reached, in the order turns, tokens, seconds; None = continue."""
    if turns >= limits.max_turns:
        return "step_limit"
    if limits.max_tokens is not None and tokens >= limits.max_tokens:
        return "token_limit"
    if limits.max_seconds is not None and seconds >= limits.max_seconds:
        return "time_limit"
    return None


class _Run:
    """The mutable state of one rollout."""

    def __init__(self, request: RolloutRequest, setting: Setting, pause: Pause | None = None) -> None:
        self.request, self.setting, self.pause = request, setting, pause
        earlier = request.paused
        if earlier is None:
            self.id = rollout_id(request, setting.key, setting.agent_version)
            self.seed = rollout_seed(request, setting.seed)
        else:
            self.id, self.seed = earlier.id, earlier.seed
        call = GenerationRequest(
            prompt_ids=(),
            max_tokens=0,
            stop_ids=(),
            temperature=setting.temperature,
            session=self.id,
            order=(request.index, request.number),
            seed=self.seed,
            sampling=setting.sampling,
            calls=setting.calls,
        )
        if pause is None and earlier is None:
            self.recorder = Recorder(setting.model, call, max_tokens=setting.limits.max_tokens)
        else:
            self.recorder = PausableRecorder(
                setting.model, call, max_tokens=setting.limits.max_tokens, pause=pause or Pause()
            )
        self.started = setting.clock() - (0.0 if earlier is None else earlier.seconds)
        self.stage = Stage(request.task, setting.limits, fixes_sampling=setting.fixes_sampling)
        self.final_state: dict[str, JsonValue] = {}
        self.is_continued = False
        """Whether the state of the paused rollout has been restored."""
        self.error = ""

    async def run(self, environments: EnvironmentFactory) -> Outcome | None:
        """The outcome; None = the rollout is paused."""
        if self._is_paused():
            return None
        request, agent = self.request, self.setting.agent
        try:
            environment = environments(request.task)
            await self.stage.open(hinted(environment, request.examples) if request.examples else environment)
            if request.branch_point is not None:
                await self._enter(request.branch_point, environment)
            if request.paused is not None:
                await self._continue(request.paused, environment)
        except (Exception, SystemExit) as exc:  # noqa: BLE001  a failed environment is recorded; other rollouts continue
            return self._fail("environment_error", exc)
        try:
            outcome = await (self._attempt(agent) if isinstance(agent, AttemptAgent) else self._take_turns(agent))
        except RolloutPausedError:
            return None
        try:
            self.final_state = await self.stage.call(lambda: dict(environment.state()))
        except (Exception, SystemExit) as exc:  # noqa: BLE001  as above
            return self._fail("environment_error", exc)
        return outcome

    def close(self) -> None:
        """Releases the rollout's environment and session, however it ended."""
        self.stage.close()
        if self.setting.model is not None:
            self.setting.model.release(self.id)

    async def _take_turns(self, agent: Agent) -> Outcome:
        outcome: Outcome | None = None
        while outcome is None:
            seconds = self.setting.clock() - self.started
            outcome = limit_reached(
                self.setting.limits,
                turns=len(self.stage.turns),
                tokens=len(self.recorder.history),
                seconds=seconds,
            ) or await self._turn(agent, seconds)
        return outcome

    async def _attempt(self, agent: AttemptAgent) -> Outcome:
        if self.pause is not None or self.request.branch_point is not None:
            message = "a program cannot be paused or continued from a state; sample without these"
            return self._fail("model_error", ModelError(message))
        timer = asyncio.timeout(self.setting.limits.max_seconds or PROGRAM_SECONDS)
        try:
            async with timer:
                outcome, self.error = await agent.attempt(self.stage, self.recorder)
        except (Exception, SystemExit) as exc:  # noqa: BLE001  a failing agent or model is this rollout's outcome
            return "time_limit" if timer.expired() else self._fail("model_error", exc)
        return outcome

    async def _enter(self, branch_point: BranchPoint, environment: Environment) -> None:
        stage = self.stage
        await stage.call(lambda: branch_point.enter(environment))
        stage.observation, stage.state_hash = branch_point.observation, branch_point.state_hash
        stage.potential = branch_point.potential
        stage.turns = list(branch_point.turns)
        stage.visible_turns = [copy_turn(turn) for turn in branch_point.turns]
        self.recorder.resume(branch_point.rows, branch_point.history, list(map(reply_of, branch_point.pending)))

    async def _continue(self, paused: PausedRollout, environment: Environment) -> None:
        """Repeats the actions in the new environment; raises WorldError where they lead to another state."""
        assert isinstance(self.recorder, PausableRecorder)
        self.is_continued = True
        if not paused.turns and not paused.calls:
            return  # it was paused before its first token
        start = BranchPoint(
            paused.id,
            paused.seed,
            paused.turns,
            (),
            (),
            paused.observation,
            paused.state_hash,
            None,
            paused.potential,
        )
        await self._enter(start, environment)
        self.recorder.restore(paused)
        self.stage.external = paused.external

    def _is_paused(self) -> bool:
        return self.pause is not None and self.pause.is_set

    def paused(self) -> PausedRollout:
        """The state of a rollout that was paused."""
        if self.request.paused is not None and not self.is_continued:
            return self.request.paused
        recorder = self.recorder
        assert isinstance(recorder, PausableRecorder)
        return PausedRollout(
            self.id,
            self.request.task,
            self.request.number,
            self.seed,
            tuple(self.stage.turns),
            self.stage.observation,
            self.stage.state_hash,
            self.stage.potential,
            recorder.stamped_rows(),
            recorder.turn_history,
            recorder.calls,
            recorder.unfinished_calls(),
            self.setting.clock() - self.started,
            recorder.version,
            self.stage.external,
        )

    async def _turn(self, agent: Agent, seconds: float) -> Outcome | None:
        stage = self.stage
        self.recorder.start_turn(len(stage.turns))
        if self._is_paused() and not self.recorder.dropped_calls:  # pending calls need no model
            raise RolloutPausedError
        limit = self.setting.limits.max_seconds
        timer = asyncio.timeout(None if limit is None else limit - seconds)
        try:
            async with timer:
                answer = await agent.act(tuple(stage.visible_turns), stage.observation, self.recorder)
            reply = recordable(answer)
        except LimitReachedError:
            return "token_limit"
        except RolloutPausedError:
            raise
        except (Exception, SystemExit) as exc:  # noqa: BLE001  a failing agent or model is this rollout's outcome
            return "time_limit" if timer.expired() else self._fail("model_error", exc)
        try:
            return await stage.step(reply)
        except (Exception, SystemExit) as exc:  # noqa: BLE001  a failed environment is recorded; other rollouts continue
            return self._fail("environment_error", exc)

    def _fail(self, outcome: Outcome, exc: BaseException) -> Outcome:
        self.error = error_text(exc)
        return outcome

    def trajectory(self, outcome: Outcome) -> Trajectory:
        """The rollout as a record. If its observations cannot be written, it counts as failed from the start."""
        trajectory = self._trajectory(outcome)
        try:
            fields_json(trajectory)
        except RecordError as exc:
            self.stage.turns, self.stage.observation, self.final_state = [], FAILED_OBSERVATION, {}
            return self._trajectory(self._fail("environment_error", exc))
        return trajectory

    def _trajectory(self, outcome: Outcome) -> Trajectory:
        is_sampled, stage, external = self.setting.model is not None, self.stage, self.stage.external
        return Trajectory(
            id=self.id,
            task_id=self.request.task.id,
            agent_version=self.setting.agent_version,
            turns=tuple(stage.turns),
            final_observation=stage.observation,
            outcome=outcome,
            origin="sampled" if is_sampled else "rendered",
            rows=self.recorder.rows(len(stage.turns)),
            attempt=self.request.number,
            seed=self.seed,
            temperature=self.recorder.temperature if is_sampled else None,
            model_version=self.recorder.version,
            final_state=self.final_state,
            usage=Usage(
                self.recorder.prompt_tokens + external.prompt_tokens,
                self.recorder.written_tokens + external.written_tokens,
                self.setting.clock() - self.started,
            ),
            dropped_calls=self.recorder.dropped_calls,
            error=self.error,
            sampling=self.recorder.sampling.as_parameters() if is_sampled else {},
            cached_tokens=external.cached_tokens,
            cache_write_tokens=external.cache_write_tokens,
            cache_write_1h_tokens=external.cache_write_1h_tokens,
            is_usage_estimated=external.is_estimated,
        )
