"""The refusal of an action."""


class OperationError(Exception):
    """An action is refused and changes nothing; ``code`` is for machines, the message for the agent."""

    def __init__(
        self, code: str, message: str, *, hard: str = "", soft: str = "", retry_after: float | None = None
    ) -> None:
        self.code = code
        self.hard = hard
        """The violated hard constraint; empty = none."""
        self.soft = soft
        """The violated soft constraint; empty = none."""
        self.retry_after = retry_after
        """Simulated seconds after which a retry may succeed; None = waiting does not help."""
        super().__init__(message)
