"""What an attempt may take, and which limit ended it.

Order of checks, before each turn: turns, tokens, seconds. The first that is reached names the outcome.
"""

from upturn.errors import ConfigError
from upturn.records import Outcome, record


@record
class Limits:
    """Limits of one attempt. Raises ConfigError with every unusable value."""

    max_turns: int = 16
    max_tokens: int | None = None
    """Tokens of the model's context: prompt, observations and everything written; None = unlimited."""
    max_action_tokens: int = 64
    """Tokens written in one call of the model."""
    max_seconds: float | None = None
    """Wall clock. An agent that is still asked when it is over is left behind, and the turn not recorded; an
    environment is never interrupted. None = unlimited."""

    def __post_init__(self) -> None:
        named = {
            "max_turns": self.max_turns,
            "max_tokens": self.max_tokens,
            "max_action_tokens": self.max_action_tokens,
            "max_seconds": self.max_seconds,
        }
        optional = ("max_tokens", "max_seconds")
        problems = [
            f"{name} must be positive{' or None (unlimited)' if name in optional else ''}, got {value!r}"
            for name, value in named.items()
            if value is not None and value <= 0
        ]
        if problems:
            raise ConfigError(problems)

    def reached(self, *, turns: int, tokens: int, seconds: float) -> Outcome | None:
        """The outcome of the first limit that leaves no room for another turn; None = go on."""
        if turns >= self.max_turns:
            return "step_limit"
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return "token_limit"
        if self.max_seconds is not None and seconds >= self.max_seconds:
            return "time_limit"
        return None
