"""The settings of calls to a server for the gateway."""

from collections.abc import Iterator
from typing import Literal

from upturn.config.settings import Count, NotNegative, Positive, Settings, WholeNumber, settings


@settings
class TimeoutConfig(Settings):
    """Time limits of a call, in seconds."""

    connect: Positive = 5.0
    """To connect."""
    first_token: Positive = 120.0
    """From the request to the first token of a stream, and the longest wait for a place (``max_waiting``). Models
    that hide their thoughts need most of it."""
    between_tokens: Positive = 60.0
    """Between two parts of the answer."""
    whole: Positive = 600.0
    """From the request to the answer's end, retries included; the only limit to the first byte of an answer that is
    not streamed."""

    def problems(self) -> Iterator[str | None]:
        """Yields limits that another one makes unreachable."""
        for name in ("connect", "first_token", "between_tokens"):
            value = getattr(self, name)
            yield f"{name}={value!r} is never reached with whole={self.whole!r}" if value > self.whole else None


@settings
class UpstreamConfig(Settings):
    """Calls of the gateway to the agent's server: form, time limits, retries, limits of load."""

    dialect: Literal["chat", "responses", "messages"] = "chat"
    """Form of the server's API: OpenAI's chat completions or Responses, or Anthropic's Messages. Calls of clients
    with the same form are passed through. It holds in environments as well."""
    tokens: Literal["none", "vllm"] = "none"
    """Whether token ids and log-probs are asked for, which training needs. ``vllm``: with ``return_token_ids``."""
    timeouts: TimeoutConfig = TimeoutConfig()
    """Time limits."""
    retries: WholeNumber = 2
    """Further tries after a failure before the first byte."""
    retry_share: NotNegative = 0.2
    """Largest share of retries in the calls of the last 10 seconds, so that retries do not overload a server that
    fails; ten retries are always allowed."""
    hedge_after_seconds: Positive | None = None
    """Seconds after which a call whose answer has not begun is sent a second time to the same server; the first to
    answer is used, the other is cancelled, and the server may charge for both. It counts as a retry in
    ``retry_share``, and needs a free place of ``max_concurrent``. An answer that is not streamed begins when all of
    it is written. Unset = never."""
    max_concurrent: Count = 256
    """Calls at the same time; further ones wait."""
    max_waiting: WholeNumber = 256
    """Waiting calls; further ones are refused (503)."""
    breaker_failures: Count = 10
    """Failures in a row, also in the middle of a stream, after which calls are refused at once."""
    breaker_seconds: Positive = 10.0
    """Seconds after which one call tries whether the server works again."""
    max_answer_bytes: Count = 64_000_000
    """Largest answer; a larger one is refused."""

    def problems(self) -> Iterator[str | None]:
        """Yields a capture of tokens that the API does not have, and second attempts that cannot begin."""
        has_none = self.tokens != "none" and self.dialect != "chat"
        yield f"tokens={self.tokens!r} needs dialect='chat', got {self.dialect!r}" if has_none else None
        if (after := self.hedge_after_seconds) is not None:
            hedge, limit = f"hedge_after_seconds={after!r}", self.timeouts.first_token
            yield f"{hedge} is never reached with timeouts.first_token={limit!r}" if after >= limit else None
            yield f"{hedge} needs max_concurrent of at least 2, got 1" if self.max_concurrent == 1 else None
