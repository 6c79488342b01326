"""Gates over a whole selection: shares, reasons, duplicates, contamination and families out of range."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from upturn.pool import Pool
from upturn.pool.quality import GATES, GateReport, inspect, validate_quality
from upturn.pool.quality.anomalies import anomalies
from upturn.pool.quality.contamination import HeldOut, leak
from upturn.pool.quality.duplicates import DuplicateFinder
from upturn.pool.reader import Experience
from upturn.records import AgentVersion, Evaluation, Observation, Task, Trajectory, Usage

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def gates(pool: Pool, **options: object) -> dict[str, GateReport]:
    report = validate_quality(pool, tenant="default", **options)  # type: ignore[arg-type]
    return {item.gate.name: item for item in report.gates}


def said(point: tuple[Task, Trajectory, Evaluation], *texts: str) -> tuple[Task, Trajectory, Evaluation]:
    """The point with other words."""
    task, trajectory, evaluation = point
    turns = tuple(replace(trajectory.turns[0], text=text) for text in texts)
    return task, replace(trajectory, turns=turns, origin="rendered", rows=()), evaluation


def words(seed: int, count: int = 60) -> list[str]:
    rng = Random(seed)
    return ["".join(rng.choices("abcdefghij", k=6)) for _ in range(count)]


def test_every_gate_reports_its_share_in_the_order_of_the_list(pool: Pool, make_point: MakePoint) -> None:
    broken = make_point("b")
    pool.append(*make_point("a"))
    pool.append(broken[0], replace(broken[1], outcome="model_error", error="boom"), broken[2])
    report = validate_quality(pool, tenant="default")
    assert [item.gate for item in report.gates] == list(GATES)
    assert (report.points, report.clean) == (2, 1)
    complete = report.gates[0]
    assert (complete.points, complete.failed, complete.share) == (2, 1, 0.5)
    assert [(failure.record_id, failure.problem) for failure in complete.examples] == [
        (broken[1].id, "outcome model_error: boom")
    ]


def test_the_required_gates_are_those_of_a_data_point(make_point: MakePoint) -> None:
    found = [gate.name for gate in inspect(Experience(*make_point("a"))).gates]
    assert found == [gate.name for gate in GATES if gate.is_required]


@pytest.mark.parametrize(
    ("usage", "problem"),
    [
        (Usage(seconds=-1.0), "-1.0 seconds"),
        (Usage(written_tokens=5_000, seconds=0.001), "5000 tokens written in 0.001 s"),
        (Usage(written_tokens=5_000, seconds=0.1), ""),
        (Usage(written_tokens=5_000), ""),  # no time is recorded
    ],
)
def test_times_that_cannot_be(make_point: MakePoint, usage: Usage, problem: str) -> None:
    task, trajectory, evaluation = make_point("a")
    inspection = inspect(Experience(task, replace(trajectory, usage=usage), evaluation))
    assert [gate.detail for gate in inspection.gates if gate.name == "times"] == [problem]


def test_limits_are_truncation_and_only_a_warning(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    pool.append(task, replace(trajectory, outcome="token_limit"), evaluation)
    report = validate_quality(pool, tenant="default")
    assert report.clean == 1
    [untruncated] = [item for item in report.gates if item.gate.name == "untruncated"]
    assert [failure.problem for failure in untruncated.examples] == ["token_limit"]


def test_equal_words_of_another_task_are_a_duplicate_and_attempts_at_one_task_are_none() -> None:
    finder = DuplicateFinder()
    for task in ("a", "a", "b", "c"):
        finder.add(task, words(0 if task != "c" else 1))
    assert list(finder.equal()) == [(0, 2, 1.0)]
    assert list(finder.similar()) == []


def test_almost_equal_words_are_found_with_their_similarity() -> None:
    """One word of 200 changed: 5 of 196 runs differ, Jaccard 191/201 = .95. Missed with probability below 1e-9 by
    the bands; the estimate has a standard error of .027, so it is above .8 with probability above 1 − 1e-7."""
    finder = DuplicateFinder()
    base = words(3, 200)
    finder.add("a", base)
    finder.add("b", [*base[:100], "other", *base[101:]])
    finder.add("c", words(4, 200))
    [twin] = finder.similar()
    assert (twin.first, twin.second) == (0, 1)
    assert 0.8 <= twin.similarity < 1


def test_the_estimate_agrees_with_the_exact_similarity() -> None:
    """A standard error of .05 at .85: outside of five of them with probability below 1e-6."""
    base = words(7, 400)
    other = [*base[:385], *words(8, 15)]
    runs = [{tuple(part[i : i + 5]) for i in range(len(part) - 4)} for part in (base, other)]
    exact = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
    finder = DuplicateFinder()
    finder.add("a", base)
    finder.add("b", other)
    [twin] = finder.similar()
    assert twin.similarity == pytest.approx(exact, abs=0.25 * (1 - exact) + 0.05)


def test_a_few_words_are_not_compared() -> None:
    finder = DuplicateFinder()
    finder.add("a", ["move", "the", "mail"])
    finder.add("b", ["move", "the", "letter"])
    assert list(finder.similar()) == []


def test_a_duplicate_of_another_task_names_the_first_one(pool: Pool, make_point: MakePoint) -> None:
    text = " ".join(words(5))
    for name in ("a", "b"):
        task, trajectory, evaluation = said(make_point(name), text)
        pool.append(replace(task, instruction="Do it."), trajectory, evaluation)
    unique = gates(pool)["unique"]
    assert (unique.points, unique.failed) == (2, 1)
    assert unique.examples[0].problem == f"the words of {make_point('a')[1].id}, of another task"


INSTRUCTION = "Move every mail from Ann that mentions the budget of March into the folder Finance, please."


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [
        (INSTRUCTION, "the instruction of held-out task h"),
        (INSTRUCTION.upper().replace(",", " -"), "the instruction of held-out task h"),
        (f"Today: {INSTRUCTION} Thank you.", "100% of the instruction of held-out task h"),
        ("Move every mail from Ben that mentions the budget of March into the folder Finance, please.", ""),
        ("Move it.", ""),
    ],
)
def test_instructions_of_held_out_tasks_are_recognised(instruction: str, problem: str) -> None:
    """The fourth has another name in the fifth place: 4 of 9 runs of eight words are the same."""
    assert HeldOut([("task h", INSTRUCTION), ("short", "Move it.")]).problem(instruction) == problem


def test_training_tasks_with_a_held_out_instruction_are_contaminated(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    pool.append(replace(task, instruction=INSTRUCTION), trajectory, evaluation)
    assert gates(pool)["uncontaminated"].failed == 0
    found = gates(pool, held_out=[("line 1 of suite.txt", INSTRUCTION)])["uncontaminated"]
    assert [failure.problem for failure in found.examples] == ["the instruction of held-out line 1 of suite.txt"]
    held = replace(make_point("h")[0], instruction=INSTRUCTION, split="heldout")
    pool.append(held)
    assert gates(pool)["uncontaminated"].examples[0].problem == f"the instruction of held-out task {held.id}"


def test_an_expected_answer_in_the_prompt_is_a_leak(make_point: MakePoint) -> None:
    task, trajectory, _ = make_point("a")
    answer = "The meeting is on Tuesday"
    known = replace(task, context={"expected": answer})
    first = replace(trajectory.turns[0], observation=Observation(f"Hint: the meeting is on Tuesday, {answer[:3]}"))
    shown = replace(trajectory, turns=(first, *trajectory.turns[1:]))
    assert leak(known, shown) == "the prompt contains the text of context.expected"
    assert leak(known, trajectory) == ""
    assert leak(replace(task, context={"answer": "No"}), shown) == "", "short answers occur by chance"


def test_a_family_far_from_its_agents_others_is_out_of_range() -> None:
    """Six families at 40 to 60 %, one at 100 %: the others' deviation is .08, the sampling error of 100 is .05."""
    rates = {"a": 40, "b": 45, "c": 50, "d": 50, "e": 55, "f": 60, "g": 100}
    [found] = anomalies({("bot@1", family): (rate, 100) for family, rate in rates.items()})
    assert (found.agent, found.family, found.rate, found.expected) == ("bot@1", "g", 1.0, 0.5)
    assert found.deviations == pytest.approx(0.5 / (0.005 + 0.0025) ** 0.5)
    few = {("bot@1", family): (rate // 10, 10) for family, rate in rates.items()}
    assert anomalies(few) == [], "ten trajectories say too little"


def test_tokens_of_earlier_weights_are_named(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    agent = trajectory.agent_version.split("@")[0]
    pool.append(AgentVersion(agent, "2", "local_model", weights_hash="new"))
    pool.append(task, replace(trajectory, model_version="old" * 10), evaluation)
    current = gates(pool)["current"]
    assert (current.points, current.failed) == (1, 1)
    assert current.examples[0].problem == "sampled by oldoldoldold"
