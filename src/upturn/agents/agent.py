"""The contract of an agent: one observation in, one action out, with as many model calls between as it likes."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from upturn.models import Generation
from upturn.records import Action, Observation, Turn, Usage


class Reply(NamedTuple):
    """An agent's answer to an observation."""

    text: str
    """What was written, before it was read as an action."""
    action: Action | None
    """None: the text cannot be read as an action; the environment is told and answers with an error."""
    usage: Usage = Usage()
    """Tokens of calls that did not go through the session (foreign endpoints); seconds are not read."""


class ModelSession(Protocol):
    """A model as one attempt sees it: every call is recorded, and seeded by its place in the attempt."""

    @property
    def history(self) -> tuple[int, ...]:
        """Prompt and output of the latest call; empty before the first. A prompt that extends it is cheap."""

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        stop_ids: tuple[int, ...],
        fork_cause: str | None = None,
    ) -> Generation:
        """The continuation; raises ModelError. The attempt's token limit may cut ``max_tokens`` short.

        ``fork_cause``: why the prompt does not extend what was read and written before, where it does not; None =
        the agent does not say.
        """


class Agent(Protocol):
    """How an agent acts. Holds no state of an attempt: one agent serves many attempts at the same time."""

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        """The answer to ``observation``, after ``turns``. What it raises ends this attempt as a model error."""
