"""How long work tells a person where it stands, without knowing how that is shown."""

from typing import Protocol


class Progress(Protocol):
    """Receives what happens; showing it is somebody else's concern and never changes the work."""

    def stage(self, name: str, total: int | None = None) -> None:
        """The next stage begins and the one before is done; ``total`` units of work, None = not known."""

    def advance(self, count: int = 1, **figures: float) -> None:
        """``count`` more units of the present stage are done; ``figures`` are latest values by name."""

    def note(self, text: str) -> None:
        """A sentence worth keeping, such as a verdict."""

    def figure(self, name: str, value: float | str) -> None:
        """The latest value of something worth watching; numbers are remembered, to show their course."""


class NoProgress:
    """Shows nothing: for tests and for work nobody watches."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Nothing."""

    def advance(self, count: int = 1, **figures: float) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def figure(self, name: str, value: float | str) -> None:
        """Nothing."""
