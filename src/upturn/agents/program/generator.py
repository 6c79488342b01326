"""The tokens of a program's calls, from the model of its rollout, which records them."""

import itertools
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace

from upturn.agents.recorder import LimitReachedError, Recorder, derived_seed
from upturn.dialects import ModelRequest
from upturn.errors import ModelError
from upturn.models import Generation, GenerationRequest, Model
from upturn.models.upstreams import UpstreamError


@dataclass
class Completion:
    """One call of the program on its way, as the server and the rollout's recorder see it."""

    request: ModelRequest
    turn: int | None = None
    """Index of the turn that its answer is; None = it is none yet."""
    text: str | None = None
    """The answer as the model wrote it; None = its tokens are not known."""


COMPLETION: ContextVar[Completion] = ContextVar("completion")
"""The call that the current task works for."""


class SessionGenerator:
    """A Generator on the rollout's recorder: seeds, limits and rows are those of every agent."""

    def __init__(self, model: Recorder, fail: Callable[[ModelError], None]) -> None:
        """``fail``: gets an error of the model, which is none of the program."""
        self._model = model
        self._fail = fail
        self._numbers = itertools.count()
        self._is_busy = False

    def number(self) -> int:
        """The number of a call of this attempt."""
        return next(self._numbers)

    async def generate(
        self,
        request: GenerationRequest,
        fork_cause: str | None,
        seen: Callable[[tuple[int, ...]], None] | None,  # noqa: ARG002  a rollout's answers come whole
    ) -> Generation:
        """The continuation, recorded in the turn of the current completion.

        Raises UpstreamError where the context has no room, and ModelError.
        """
        session = self._model.request.session
        if is_own := self._is_busy:  # calls of one session run one after another
            session = f"{session}/{request.session}"
        self._is_busy = True
        try:
            generation = await self._model.call(
                replace(request, session=session, order=self._model.request.order), fork_cause
            )
        except LimitReachedError as exc:
            message = "the conversation has no room for another token (environment.max_tokens); shorten it"
            raise UpstreamError(message, kind="status", status=400) from exc
        except ModelError as exc:
            self._fail(exc)
            raise
        finally:
            if not is_own:
                self._is_busy = False
            elif self._model.model is not None:
                self._model.model.release(session)
        COMPLETION.get().turn = self._model.turn
        return generation

    async def close(self) -> None:
        """Nothing: the rollout releases its session."""


class ModelGenerator:
    """A Generator on another model of this process, whose tokens are not recorded."""

    def __init__(self, model: Model, name: str, rollout: GenerationRequest) -> None:
        """``name``: of the model. ``rollout``: its session, seed and order are the rollout's."""
        self._model, self._name, self._rollout = model, name, rollout
        self._numbers = itertools.count()

    def number(self) -> int:
        """The number of a call of this attempt."""
        return next(self._numbers)

    async def generate(
        self,
        request: GenerationRequest,
        fork_cause: str | None,  # noqa: ARG002  its rows are not recorded
        seen: Callable[[tuple[int, ...]], None] | None,  # noqa: ARG002  as above
    ) -> Generation:
        """The continuation."""
        rollout, session = self._rollout, f"{self._rollout.session}/{self._name}/{request.session}"
        seed = derived_seed(rollout.seed, self._name, request.seed)
        try:
            return await self._model.generate(replace(request, session=session, order=rollout.order, seed=seed))
        finally:
            self._model.release(session)

    async def close(self) -> None:
        """Nothing: the runtime owns the model."""
