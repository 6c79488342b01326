"""The contract of a model: requests for tokens and generations."""

from typing import Literal, Protocol

from upturn.config import FULL_DISTRIBUTION, SamplingSettings
from upturn.models.calls import CallSchema
from upturn.records import record

FinishReason = Literal["stop", "length", "interrupted"]
"""``interrupted``: the caller ended it early, and may continue after the tokens so far."""


@record
class GenerationRequest:
    """One call of a model.

    Requests of one trajectory share a ``session``: an engine may keep that session's cache between its turns, and
    may share the cache of a common prefix among sessions.
    """

    prompt_ids: tuple[int, ...]
    """The whole history. The cache is reused where it extends the session's earlier prompt and output."""
    max_tokens: int
    stop_ids: tuple[int, ...]
    """Sampling ends after one of these; it is part of the output."""
    temperature: float
    """0 = greedy."""
    session: str
    """Unique per rollout."""
    order: tuple[int, int]
    """(task index, rollout number): batches are sorted by it, so results do not depend on arrival order."""
    seed: int
    """Seed of this call's random numbers."""
    sampling: SamplingSettings = FULL_DISTRIBUTION
    """Changes of the distribution besides the temperature."""
    calls: CallSchema | None = None
    """The calls that the output must be one of, for ``sampling.calls_only``; None = it may be any text."""
    drawn: int = 0
    """Tokens at the end of the prompt that an interrupted call with this seed wrote: an engine in this process goes
    on with that call's random numbers."""

    @property
    def is_sampled_from_model(self) -> bool:
        """True if tokens are drawn from the model's own distribution, at temperature 1."""
        return self.temperature == 1.0 and not self.sampling.is_reshaped and self.calls is None


@record
class Generation:
    """A model's output."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """log p of each token under the model at temperature 1, whatever the sampling temperature. Empty where an
    engine reports only ``sampling_logprobs``."""
    finish_reason: FinishReason
    model_version: str
    """Hash of the weights."""
    sampling_logprobs: tuple[float, ...] = ()
    """log p of each token in the distribution that it was drawn from: after temperature and options, normalised.
    Empty where this is the model's distribution at temperature 1, and where it is not known."""


class Model(Protocol):
    """Anything that continues token ids. Concurrent calls are batched together."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """The continuation; raises ModelError when the request cannot be served."""

    def release(self, session: str) -> None:
        """Frees a session's cache; unknown sessions are ignored."""
