"""Any kit behind OpenEnv's server, and the client to it: ``pip install 'upturn[openenv]'``.

``create_app(kit)`` is what a server serves, ``KitClient`` what talks to it: one attempt at a time over a connection
of its own. A message that is no action is refused by OpenEnv (422; VALIDATION_ERROR over a connection), an action
that cannot be done is answered as agents are, and what comes in the wrong order is a 409. The reward is what the
kit's environment gives and, with ``done``, the verifier's score; None where the verifier broke.

As in all of OpenEnv, plain HTTP has no memory: ``/reset`` shows a task, ``/step`` knows of none. Attempts need the
connection.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from random import Random
from threading import Lock
from typing import Any, TypeAlias

try:
    from fastapi import FastAPI, HTTPException
    from openenv.core import EnvClient
    from openenv.core.client_types import StepResult
    from openenv.core.env_server import http_server
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import EnvironmentMetadata
except ImportError as exc:
    raise ImportError("OpenEnv is not installed: pip install 'upturn[openenv]'") from exc

from pydantic import ValidationError

from upturn.environments.adapters.openenv_types import KitAction, KitObservation, KitState, TaskRequest
from upturn.environments.environment import blocks
from upturn.environments.kit import EnvironmentKit, resolve_kit
from upturn.environments.scripted_policy import MAX_TURNS
from upturn.environments.stepwise import StepwiseAttempt, TaskChoice, info_fields, record_fields
from upturn.errors import UnknownNameError
from upturn.records import Action, Task

__all__ = ["KitAction", "KitClient", "KitEnvironment", "KitObservation", "KitState", "create_app"]

Alone: TypeAlias = AbstractContextManager[object]
MAX_SESSIONS = 64
"""Connections at a time: each has an environment and a thread of its own."""


class KitEnvironment(Environment):
    """The attempts of one connection."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, kit: EnvironmentKit, max_turns: int = MAX_TURNS, alone: Alone | None = None) -> None:
        """``alone``: held while kit and environment are called, which environments that block need not be."""
        super().__init__()
        self._kit, self._max_turns, self._alone = kit, max_turns, alone or Lock()
        self._tasks: Iterator[Task] = iter(())
        self._choice: TaskChoice | None = None
        self._attempt: StepwiseAttempt | None = None
        self._state = KitState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **choice: Any) -> KitObservation:
        """The next task's instruction, as ``TaskRequest`` asks."""
        try:
            asked = TaskRequest(seed=seed, episode_id=episode_id, **choice)
            chosen = TaskChoice(asked.family, asked.level, asked.split)
            if asked.seed is not None or chosen != self._choice:
                number = Random().randrange(2**31) if asked.seed is None else asked.seed
                self._tasks, self._choice = chosen.stream(self._kit, number), chosen
        except (ValidationError, UnknownNameError) as exc:
            raise HTTPException(422, str(exc)) from exc
        with self._alone:
            task = next(self._tasks, None)
            if task is None:
                raise HTTPException(409, f"{self._kit.name} has no further task; reset with a seed begins again")
            attempt = StepwiseAttempt(self._kit, task, max_turns=self._max_turns)
        with self._called(attempt):
            attempt.begin()
            self._attempt, self._state = attempt, _state(attempt, asked.episode_id)
        return KitObservation(text=attempt.observation.text, info=info_fields(attempt.info))

    def step(self, action: KitAction, timeout_s: float | None = None, **_: Any) -> KitObservation:  # noqa: ARG002
        """Acts. After the end nothing counts: the answer is ``is_over``, the reward 0."""
        if self._attempt is None:
            raise HTTPException(409, "there is no task yet; call reset first")
        parts = Action(action.target, action.operation, action.parameters, action.thought)
        with self._called(self._attempt) as attempt:
            answer = attempt.act(parts if action.text is None else action.text)
            self._state = _state(attempt, self._state.episode_id)
        return KitObservation(
            text=answer.observation.text,
            code=answer.observation.code,
            info=info_fields(answer.info),
            is_truncated=answer.is_truncated,
            evaluation=None if answer.evaluation is None else record_fields(answer.evaluation),
            reward=answer.reward,
            done=answer.is_terminated or answer.is_truncated,
        )

    @property
    def state(self) -> KitState:
        """The task and its world as they are now. OpenEnv asks in another thread, so the environment is not."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """The kit's name, families and verifier."""
        families = ", ".join(self._kit.families)
        return EnvironmentMetadata(
            name=self._kit.name, description=f"Task families: {families}", version=self._kit.verifier.name
        )

    @contextmanager
    def _called(self, attempt: StepwiseAttempt) -> Iterator[StepwiseAttempt]:
        with nullcontext() if blocks(attempt.environment) else self._alone:
            yield attempt


def _state(attempt: StepwiseAttempt, episode_id: str | None) -> KitState:
    world = dict(attempt.environment.state())
    task = record_fields(attempt.task)
    return KitState(episode_id=episode_id, step_count=len(attempt.turns), task=task, world=world)


class KitClient(EnvClient[KitAction, KitObservation, KitState]):
    """``async with KitClient(url) as env``, or ``with KitClient(url).sync() as env``."""

    def _step_payload(self, action: KitAction) -> dict[str, Any]:
        payload: dict[str, Any] = action.model_dump(exclude_defaults=True)
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[KitObservation]:
        reward, done = payload["reward"], payload["done"]
        observation = KitObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> KitState:
        return KitState(**payload)


def create_app(
    kit: EnvironmentKit | str, *, max_turns: int = MAX_TURNS, max_sessions: int = MAX_SESSIONS
) -> FastAPI:
    """The server's application, for uvicorn. ``kit``: one, or its name; ``max_sessions``: connections at a time."""
    made = resolve_kit(kit) if isinstance(kit, str) else kit
    environment = partial(KitEnvironment, made, max_turns, Lock())
    return http_server.create_app(
        environment, KitAction, KitObservation, env_name=made.name, max_concurrent_envs=max_sessions
    )
