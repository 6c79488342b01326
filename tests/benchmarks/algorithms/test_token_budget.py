"""Budgets of tokens: everything sampled counts, and nothing begins once it is spent."""

import asyncio

import pytest

from benchmarks.algorithms.token_budget import Meter, MeteredSampler, SpentError, written_in
from upturn.models import Generation, GenerationRequest
from upturn.records import Observation, Task, Trajectory, Usage
from upturn.training.advantage import ScoredGroup, ScoredTrajectory


class _Says:
    """Writes three tokens whenever it is asked."""

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
                f"{place}", "x", "a@1", (), Observation(""), "finished", "sampled", usage=Usage(written_tokens=each)
            ),
            None,
        )
        for place, each in enumerate(written)
    ]
    return ScoredGroup(Task("x", "", "f", "e"), tuple(members))


def test_attempts_count_whether_they_could_be_scored_or_not() -> None:
    meter = Meter(10)
    meter.count([_group(2, 3), _group(4)])
    assert meter.tokens == written_in([_group(2, 3), _group(4)]) == 9
    meter.check()
    meter.count([_group(1)])
    with pytest.raises(SpentError):
        meter.check()


def test_a_sampler_counts_what_it_writes_and_stops_before_new_weights() -> None:
    sampler, meter = _Says(), Meter(5)
    metered = MeteredSampler(sampler, meter)
    request = GenerationRequest((1,), 4, (), 1.0, session="s", order=(0, 0), seed=0)
    metered.refresh()
    for _ in range(2):
        assert asyncio.run(metered.generate(request)).token_ids == (7, 8, 9)
    metered.release("s")
    assert (meter.tokens, sampler.released) == (6, ["s"])
    with pytest.raises(SpentError):
        metered.refresh()
    assert sampler.refreshed == 1
