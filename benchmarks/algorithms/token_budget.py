"""The budget of sampled tokens, which is the same for every algorithm in errands."""

from collections.abc import Sequence

from benchmarks.credit import written_tokens
from upturn.models import Generation, GenerationRequest
from upturn.training import ScoredGroup
from upturn.training.algorithms.world_model import Sampler


class BudgetExceededError(Exception):
    """Ends a training run with its present weights."""


class TokenBudget:
    """Counts sampled tokens."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.tokens = 0

    def check(self) -> None:
        """Raises BudgetExceededError once the budget is spent. Sampling that has started may exceed it."""
        if self.tokens >= self.limit:
            raise BudgetExceededError

    def add(self, groups: Sequence[ScoredGroup]) -> None:
        """Counts the tokens that the model wrote in the groups."""
        self.tokens += written_tokens(groups)


class BudgetedSampler:
    """A sampler with a budget, which is checked whenever the sampler takes new weights."""

    def __init__(self, sampler: Sampler, budget: TokenBudget) -> None:
        self._sampler = sampler
        self._budget = budget

    def refresh(self) -> None:
        """Takes new weights. Raises BudgetExceededError once the budget is spent."""
        self._budget.check()
        self._sampler.refresh()

    def release(self, session: str) -> None:
        """Releases a session."""
        self._sampler.release(session)

    async def generate(self, request: GenerationRequest) -> Generation:
        """Generates, and counts the tokens."""
        generation = await self._sampler.generate(request)
        self._budget.tokens += len(generation.token_ids)
        return generation
