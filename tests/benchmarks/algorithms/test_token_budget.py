"""Token budgets: all sampled tokens count, and nothing starts once the budget is spent."""

import asyncio

import pytest

from benchmarks.algorithms.token_budget import BudgetedSampler, BudgetExceededError, TokenBudget
from benchmarks.credit import written_tokens
from upturn.models import Generation, GenerationRequest
from upturn.records import Observation, Task, Trajectory, Usage
from upturn.training.advantage import ScoredGroup, ScoredTrajectory


class _FakeSampler:
    """Writes three tokens per request."""

    def __init__(self) -> None:
        self.refreshed = 0
        self.released: list[str] = []

    def refresh(self) -> None:
        self.refreshed += 1

    def release(self, session: str) -> None:
        self.released.append(session)

    async def generate(self, request: GenerationRequest) -> Generation:
        return Generation((7, 8, 9), (0.0,) * 3, "stop", "weights")


def _group(*written: int) -> ScoredGroup:
    members = [
        ScoredTrajectory(
            Trajectory(
                f"{index}",
                "x",
                "a@1",
                (),
                Observation(""),
                "finished",
                "sampled",
                usage=Usage(written_tokens=count),
            ),
            None,
        )
        for index, count in enumerate(written)
    ]
    return ScoredGroup(Task("x", "", "f", "e"), tuple(members))


def test_attempts_count_whether_they_could_be_scored_or_not() -> None:
    budget = TokenBudget(10)
    budget.add([_group(2, 3), _group(4)])
    assert budget.tokens == written_tokens([_group(2, 3), _group(4)]) == 9
    budget.check()
    budget.add([_group(1)])
    with pytest.raises(BudgetExceededError):
        budget.check()


def test_a_sampler_counts_what_it_writes_and_stops_before_new_weights() -> None:
    sampler, budget = _FakeSampler(), TokenBudget(5)
    budgeted = BudgetedSampler(sampler, budget)
    request = GenerationRequest((1,), 4, (), 1.0, session="s", order=(0, 0), seed=0)
    budgeted.refresh()
    for _ in range(2):
        assert asyncio.run(budgeted.generate(request)).token_ids == (7, 8, 9)
    budgeted.release("s")
    assert (budget.tokens, sampler.released) == (6, ["s"])
    with pytest.raises(BudgetExceededError):
        budgeted.refresh()
    assert sampler.refreshed == 1
