"""Why an action is refused: what an agent is told instead of a result."""


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
        """Simulated seconds after which the same may work; None = waiting does not help."""
        super().__init__(message)
