import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from upturn.pool import Pool, Selection
from upturn.pool.exports import anonymise, export
from upturn.records import Evaluation, Feedback, Task, Trajectory, from_json

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]

CLASSES: dict[str, type[Any]] = {
    "Task": Task,
    "Trajectory": Trajectory,
    "Evaluation": Evaluation,
    "Feedback": Feedback,
}


def read(line: str) -> object:
    return from_json(CLASSES[json.loads(line)["kind"]], line)


def test_raw_export_reads_back_equal(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a", task="t")
    second = make_point("b", task="t", verdict="missing", score=None)
    feedback = Feedback("f", "trajectory", trajectory.id, "thumbs", 1.0)
    foreign = make_point("c", tenant="bob")
    pool.append(task, trajectory, evaluation, *second[1:], *foreign, feedback)
    lines = [exported.line for exported in export(pool, tenant="default", is_anonymised=False)]
    assert [read(line) for line in lines] == [task, trajectory, evaluation, second[1], second[2], feedback]
    anonymised = list(export(pool, tenant="default"))
    assert [exported.line for exported in anonymised] == lines
    assert not any(exported.is_changed for exported in anonymised)
    assert [
        read(exported_record.line)
        for exported_record in export(pool, tenant="bob", selection=Selection(families=("x",)))
    ] == []


def test_anonymised_export_drops_personal_data_and_its_tokens(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    private_task = replace(task, instruction="Write to ruth@gmail.com.", context={"to": ["ruth@gmail.com"]})
    turn = replace(trajectory.turns[0], text="mail.send to=ruth@gmail.com")
    private_trajectory = replace(trajectory, turns=(turn, trajectory.turns[1]))
    feedback = Feedback("f", "trajectory", trajectory.id, "thumbs", 1.0, comment="ask eve@corp.de")
    pool.append(private_task, private_trajectory, evaluation, feedback)
    exported = list(export(pool, tenant="default"))
    assert not any(
        "gmail" in exported_record.line or "corp.de" in exported_record.line for exported_record in exported
    )
    assert [exported_record.is_changed for exported_record in exported] == [True, True, False, True]
    clean = replace(
        private_trajectory, turns=(replace(turn, text="mail.send to=<EMAIL>"), trajectory.turns[1]), rows=()
    )
    assert [read(exported_record.line) for exported_record in exported] == [
        replace(private_task, instruction="Write to <EMAIL>.", context={"to": ["<EMAIL>"]}),
        clean,
        evaluation,
        replace(feedback, comment="ask <EMAIL>"),
    ]


def test_record_without_findings_is_returned_unchanged(make_point: MakePoint) -> None:
    for record in make_point("a"):
        assert anonymise(record) is record
