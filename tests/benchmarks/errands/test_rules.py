"""The rule-based agent solves two families completely, and no family that the model is trained on."""

import asyncio
from itertools import islice

import pytest

from benchmarks.errands import LEARNED, task_stream
from benchmarks.errands.kit import ErrandsKit
from benchmarks.errands.rules import act
from upturn.agents import CallableAgent, Job, RolloutRequest, Setting, run_rollouts
from upturn.records import Action, Observation, Split, Turn


def rate(family: str, count: int, split: Split = "train") -> float:
    kit = ErrandsKit()
    tasks = list(islice(task_stream([family], seed=11, split=split), count))
    setting = Setting(key="rules", agent=CallableAgent(act), agent_version="rules@1", model=None)
    jobs = [Job(RolloutRequest(task, 0, index), setting) for index, task in enumerate(tasks)]
    trajectories = asyncio.run(run_rollouts(jobs, kit.environment, slots=8))
    evaluations = [
        kit.verifier.verify(task, trajectory) for task, trajectory in zip(tasks, trajectories, strict=True)
    ]
    assert all(evaluation.costs["safety"] == 0 for evaluation in evaluations)
    return sum(evaluation.is_success for evaluation in evaluations) / count


@pytest.mark.parametrize("family", ["unread_count", "day_clash"])
@pytest.mark.parametrize("split", ["train", "heldout"])
def test_it_solves_its_families_completely(family: str, split: Split) -> None:
    assert rate(family, 40, split) == 1.0


@pytest.mark.parametrize("family", LEARNED)
def test_it_is_not_an_oracle_on_learned_families(family: str) -> None:
    # Two or three of nine phrasings: at most 3/9 a task; 42 of 60 would be 6 standard deviations above.
    assert rate(family, 60) < 0.7


def test_it_refuses_unknown_instructions_and_stops_after_an_error() -> None:
    opening = Observation("bake a cake")
    refusal = Action("user", "refuse", {"text": "no rule for this"})
    assert act(opening.text, (), opening) == refusal
    instruction = Observation("how many unread mails are in my inbox?")
    listing = act(instruction.text, (), instruction)
    assert listing == Action("mail", "list", {"folder": "inbox"})
    turn = Turn(instruction, "", listing)
    assert act(instruction.text, (turn,), Observation("gone", "not_found")) == (
        Action("user", "refuse", {"text": "stopped at not_found"})
    )
    shown = Observation("m11 ann: menu *\nm12 bob: visit\nm13 cid: offer *")
    assert act(instruction.text, (turn,), shown) == Action("user", "answer", {"text": "2"})


def test_it_reads_clashes_from_a_listing() -> None:
    instruction = Observation("which events clash on fri?")
    turn = Turn(instruction, "", Action("calendar", "list", {"day": "fri"}))
    clash = Observation("e40 review 9-11\ne12 lunch 10-12\ne13 call 12-13")
    assert act(instruction.text, (turn,), clash).parameters == {"text": "e12 e40"}
    free = Observation("e40 review 9-10\ne12 lunch 10-12")
    assert act(instruction.text, (turn,), free).parameters == {"text": "none"}
