"""What a way of learning may sample, and what it did: every way in errands has the same budget of tokens."""

from collections.abc import Sequence

from upturn.models import Generation, GenerationRequest
from upturn.training import ScoredGroup
from upturn.training.algorithms.world_model import Sampler


class SpentError(Exception):
    """The budget is spent: the run ends here, with the weights as they are."""


class Meter:
    """Counts sampled tokens."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.tokens = 0

    def check(self) -> None:
        """Raises SpentError once the budget is spent. What was begun before may go beyond it, and counts."""
        if self.tokens >= self.budget:
            raise SpentError

    def count(self, groups: Sequence[ScoredGroup]) -> None:
        """What these attempts wrote."""
        self.tokens += sum(member.trajectory.usage.written_tokens for group in groups for member in group.members)


def written_in(groups: Sequence[ScoredGroup]) -> int:
    """Tokens that the attempts sampled."""
    return sum(member.trajectory.usage.written_tokens for group in groups for member in group.members)


class MeteredSampler:
    """A sampler whose tokens count; the budget is looked at whenever it takes new weights."""

    def __init__(self, sampler: Sampler, meter: Meter) -> None:
        self._sampler = sampler
        self._meter = meter

    def refresh(self) -> None:
        """Raises SpentError once the budget is spent."""
        self._meter.check()
        self._sampler.refresh()

    def release(self, session: str) -> None:
        """The sampler's."""
        self._sampler.release(session)

    async def generate(self, request: GenerationRequest) -> Generation:
        """The sampler's, counted."""
        found = await self._sampler.generate(request)
        self._meter.tokens += len(found.token_ids)
        return found
