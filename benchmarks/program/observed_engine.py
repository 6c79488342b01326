"""A model that notes what it was asked and what it returned."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from upturn.models import Generation, GenerationRequest, Model

Calls: TypeAlias = Sequence[tuple[GenerationRequest, Generation]]


@dataclass
class ObservedEngine:
    """A ``Model`` over another one."""

    model: Model
    calls: list[tuple[GenerationRequest, Generation]] = field(default_factory=list)
    """In the order in which they ended."""
    sessions: set[str] = field(default_factory=set)
    """That were not released."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """The model's generation."""
        self.sessions.add(request.session)
        generation = await self.model.generate(request)
        self.calls.append((request, generation))
        return generation

    def release(self, session: str) -> None:
        """Frees the session."""
        self.sessions.discard(session)
        self.model.release(session)

    def taken(self) -> list[tuple[GenerationRequest, Generation]]:
        """The calls so far, which are then forgotten."""
        calls, self.calls = self.calls, []
        return calls
