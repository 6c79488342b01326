"""The contract of an agent: one observation in, one action out, with any number of model calls between."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from upturn.dialects import ModelRequest, Part, TokenUsage, credible_usage, estimated_usage
from upturn.environments import recordable_action, recordable_text
from upturn.models import Generation
from upturn.records import Action, ModelUsage, Observation, Outcome, Turn

if TYPE_CHECKING:
    from upturn.agents.recorder import Recorder
    from upturn.agents.stage import Stage


class Reply(NamedTuple):
    """An agent's answer to an observation."""

    text: str
    """The raw text, before parsing."""
    action: Action | None
    """None = the text is not an action; the environment returns an error observation."""
    usage: ModelUsage = ModelUsage()
    """Of calls outside the session, by endpoints and programs."""
    repairs: tuple[str, ...] = ()
    """``Turn.repairs``"""
    refusal: str = ""
    """``Turn.refusal``"""
    call: int = 0
    """``Turn.call``"""
    message: str = ""
    """``Turn.message``"""


def recordable(reply: Any) -> Reply:  # Any: agents are third-party code
    """The reply as it can be recorded, its action copied; raises TypeError for anything that is not a Reply.

    Order of checks: it is a Reply with a text; the text is Unicode and not too long; the action round-trips through
    its record. If the second or third fails, the reply is recorded as text without an action: the environment
    returns an error observation, and the agent may continue.
    """
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise TypeError(f"an agent must answer with a Reply that has a text, got a {type(reply).__name__}")
    text = recordable_text(reply.text)
    action = None if reply.action is None or text != reply.text else recordable_action(reply.action)
    message = reply.message if recordable_text(reply.message) == reply.message else ""
    return reply._replace(text=text, action=action, refusal=recordable_text(reply.refusal), message=message)


def model_usage(
    reported: TokenUsage | None, request: ModelRequest, parts: Sequence[Part], *, is_complete: bool = True
) -> ModelUsage:
    """Returns what a call used, estimated by length if its server has not reported it, or has broken off.

    ``parts``: what it answered; a call without an answer used what was reported, mostly nothing.
    """
    known = credible_usage(reported)
    used = known
    if parts and not (is_complete and known != TokenUsage()):
        used = estimated_usage(known, request, parts)
    return ModelUsage(
        used.input, used.output, used.cached_input, used.cache_write, used.cache_write_1h, used != known
    )


def reply_of(turn: Turn) -> Reply:
    """The reply that the turn records."""
    return Reply(
        turn.text,
        turn.action,
        repairs=turn.repairs,
        refusal=turn.refusal,
        call=turn.call,
        message=turn.message,
    )


class ModelSession(Protocol):
    """A model as seen by one rollout: every call is recorded, and seeded by its index in the rollout."""

    @property
    def history(self) -> tuple[int, ...]:
        """Prompt and output of the latest call; empty before the first.

        A prompt that extends it reuses the cache.
        """

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        stop_ids: tuple[int, ...],
        fork_cause: str | None = None,
    ) -> Generation:
        """The continuation; raises ModelError. The rollout's token limit may lower ``max_tokens``.

        ``fork_cause``: why the prompt does not extend the history, where it does not; None = unknown.
        """

    def divide(self, replies: Sequence[Reply], stops: Sequence[int]) -> None:
        """Divides the latest output among turns: reply i, from this turn on, has its tokens up to ``stops[i]``.

        All replies but the first are kept for the following turns.
        """

    def defer(self, replies: Sequence[Reply]) -> None:
        """Keeps replies of a message without tokens for the following turns."""

    def pending(self) -> Reply | None:
        """The next reply of the latest output, whose turn this is; None = the model is to be called."""


class Agent(Protocol):
    """How an agent acts. Stateless: one agent serves many rollouts concurrently."""

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        """The answer to ``observation``, after ``turns``. An exception ends this rollout with ``model_error``."""


class AttemptEnd(NamedTuple):
    """How an attempt ended."""

    outcome: Outcome
    error: str = ""
    """For the outcomes that are errors."""


@runtime_checkable
class AttemptAgent(Protocol):
    """An agent that works on a whole attempt by itself. Stateless, as ``Agent``."""

    parallel: int
    """Maximum number of attempts at a time."""

    async def attempt(self, stage: "Stage", model: "Recorder") -> AttemptEnd:
        """Works on the stage's task until it is over, and writes its turns. An exception is ``model_error``."""

    async def close(self) -> None:
        """Ends what the attempts of this event loop share; none runs any more."""
