"""The measurement of examples, with a few tasks."""

from benchmarks.recall import measure_recall
from upturn.records import AgentVersion


def test_success_and_gains_are_measured_on_the_same_tasks() -> None:
    done: list[None] = []
    results = measure_recall(
        ["mail_number", "mail_flag"],
        stored=4,
        heldout=2,
        numbers=(1,),
        on_done=lambda: done.append(None),
        agent=AgentVersion("rules", "base", "callable", model="benchmarks.errands.rules:act"),
    )
    assert [result.name for result in results] == [
        "same_family",
        "same_family_by_chance",
        "success_with_0",
        "success_with_1",
        "gain_with_1",
    ]
    assert [result.n for result in results] == [2] * 5
    assert results[1].value == 0.5
    assert len(done) == 2
