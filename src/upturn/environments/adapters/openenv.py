"""Any kit behind OpenEnv's server, and a client for it: ``pip install 'upturn[openenv]'``.

``create_app(kit)`` makes the server's application, ``KitClient`` connects to it: one episode at a time per
connection. OpenEnv refuses a message that is not an action (422; VALIDATION_ERROR over a connection), an action
that cannot be executed gets an error observation, and calls in the wrong order give a 409. The reward is the
environment's, plus the verifier's score with ``done``; None where the verifier raised.

As everywhere in OpenEnv, plain HTTP is stateless: ``/reset`` returns a task that ``/step`` does not have. Episodes
need the connection.
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
from upturn.environments.environment import is_blocking
from upturn.environments.kit import EnvironmentKit, resolve_kit
from upturn.environments.scripted_policy import MAX_TURNS
from upturn.environments.stepwise import StepwiseEpisode, TaskSelection, info_fields, record_fields
from upturn.errors import UnknownNameError
from upturn.records import Action, Task

__all__ = ["KitAction", "KitClient", "KitEnvironment", "KitObservation", "KitState", "create_app"]

CallLock: TypeAlias = AbstractContextManager[object]
MAX_SESSIONS = 64
"""Concurrent connections: each has an environment and a thread."""


class KitEnvironment(Environment):
    """The episodes of one connection."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, kit: EnvironmentKit, max_turns: int = MAX_TURNS, lock: CallLock | None = None) -> None:
        """``lock``: held during calls of the kit and of environments that do not block; None = a new one."""
        super().__init__()
        self._kit, self._max_turns, self._lock = kit, max_turns, lock or Lock()
        self._tasks: Iterator[Task] = iter(())
        self._choice: TaskSelection | None = None
        self._episode: StepwiseEpisode | None = None
        self._state = KitState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **choice: Any) -> KitObservation:
        """The next task's instruction; arguments as in ``TaskRequest``."""
        try:
            request = TaskRequest(seed=seed, episode_id=episode_id, **choice)
            chosen = TaskSelection(request.family, request.level, request.split)
            if request.seed is not None or chosen != self._choice:
                number = Random().randrange(2**31) if request.seed is None else request.seed
                self._tasks, self._choice = chosen.stream(self._kit, number), chosen
        except (ValidationError, UnknownNameError) as exc:
            raise HTTPException(422, str(exc)) from exc
        with self._lock:
            task = next(self._tasks, None)
            if task is None:
                raise HTTPException(409, f"{self._kit.name} has no further task; reset with a seed starts again")
            episode = StepwiseEpisode(self._kit, task, max_turns=self._max_turns)
        with self._locked(episode):
            episode.start()
            self._episode, self._state = episode, _state(episode, request.episode_id)
        return KitObservation(text=episode.observation.text, info=info_fields(episode.info))

    def step(self, action: KitAction, timeout_s: float | None = None, **_: Any) -> KitObservation:  # noqa: ARG002
        """Takes an action. After the end it has no effect: the code is ``is_over``, the reward 0."""
        if self._episode is None:
            raise HTTPException(409, "there is no task yet; call reset first")
        parts = Action(action.target, action.operation, action.parameters, action.thought)
        with self._locked(self._episode) as episode:
            result = episode.act(parts if action.text is None else action.text)
            self._state = _state(episode, self._state.episode_id)
        return KitObservation(
            text=result.observation.text,
            code=result.observation.code,
            info=info_fields(result.info),
            is_truncated=result.is_truncated,
            evaluation=None if result.evaluation is None else record_fields(result.evaluation),
            reward=result.reward,
            done=result.is_terminated or result.is_truncated,
        )

    @property
    def state(self) -> KitState:
        """The current task and world, cached because OpenEnv reads it in another thread."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """The kit's name, families and verifier."""
        families = ", ".join(self._kit.families)
        return EnvironmentMetadata(
            name=self._kit.name, description=f"Task families: {families}", version=self._kit.verifier.name
        )

    @contextmanager
    def _locked(self, episode: StepwiseEpisode) -> Iterator[StepwiseEpisode]:
        with nullcontext() if is_blocking(episode.environment) else self._lock:
            yield episode


def _state(episode: StepwiseEpisode, episode_id: str | None) -> KitState:
    world = dict(episode.environment.state())
    task = record_fields(episode.task)
    return KitState(episode_id=episode_id, step_count=len(episode.turns), task=task, world=world)


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
    """The server's application, for uvicorn.

    ``kit``: a kit or its name; ``max_sessions``: concurrent connections.
    """
    resolved = resolve_kit(kit) if isinstance(kit, str) else kit
    environment = partial(KitEnvironment, resolved, max_turns, Lock())
    app: FastAPI = http_server.create_app(
        environment, KitAction, KitObservation, env_name=resolved.name, max_concurrent_envs=max_sessions
    )
    return app
