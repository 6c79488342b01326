"""The contract of a model: how to get tokens out of it."""

from typing import Literal, Protocol

from upturn.records import record

FinishReason = Literal["stop", "length"]


@record
class GenerationRequest:
    """One call of a model.

    Requests of one trajectory share a ``session``: an engine may keep that session's cache between its turns, and
    may compute once what the prompts of several sessions begin with.
    """

    prompt_ids: tuple[int, ...]
    """The whole history. Extending the session's earlier prompt and output is what makes reuse possible."""
    max_tokens: int
    stop_ids: tuple[int, ...]
    """Sampling ends after one of these; it is part of the output."""
    temperature: float
    """0 = greedy."""
    session: str
    """Unique per attempt: (run, task, attempt)."""
    order: tuple[int, int]
    """(task index, attempt): batches are composed in this order, so results do not depend on arrival."""
    seed: int
    """Of this call's own generator, from (seed, task, attempt, turn)."""


@record
class Generation:
    """What a model wrote."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """log p of each token under the model at temperature 1, whatever it was sampled at."""
    finish_reason: FinishReason
    model_version: str
    """Hash of the weights."""


class Model(Protocol):
    """Anything that continues token ids. Whoever awaits at the same time is batched together."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """The continuation; raises ModelError when the request cannot be served."""

    def release(self, session: str) -> None:
        """Forgets a session's cache; unknown sessions are fine."""
