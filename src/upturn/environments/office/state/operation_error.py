"""The refusal of an action."""


class OperationError(Exception):
    """An action that is refused; ``code`` is for machines, the message for the agent. Nothing has changed then."""

    def __init__(
        self, code: str, message: str, *, hard: str = "", soft: str = "", retry_after: float | None = None
    ) -> None:
        self.code = code
        self.hard = hard
        """The hard constraint that was violated; empty = none was."""
        self.soft = soft
        """The soft constraint that was violated; empty = none was."""
        self.retry_after = retry_after
        """Simulated seconds after which a retry may succeed; None = waiting does not help."""
        super().__init__(message)
