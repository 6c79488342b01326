import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from upturn.pool import Pool, Selection
from upturn.pool.exporter import anonymise, export
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
    again = make_point("b", task="t", verdict="missing", score=None)
    said = Feedback("f", "trajectory", trajectory.id, "thumbs", 1.0)
    foreign = make_point("c", tenant="bob")
    pool.append(task, trajectory, evaluation, *again[1:], *foreign, said)
    lines = [exported.line for exported in export(pool, tenant="default", is_anonymised=False)]
    assert [read(line) for line in lines] == [task, trajectory, evaluation, again[1], again[2], said]
    anonymised = list(export(pool, tenant="default"))
    assert [exported.line for exported in anonymised] == lines
    assert not any(exported.is_changed for exported in anonymised)
    assert [read(found.line) for found in export(pool, tenant="bob", selection=Selection(families=("x",)))] == []


def test_anonymised_export_drops_personal_data_and_its_tokens(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    named = replace(task, instruction="Write to ruth@gmail.com.", context={"to": ["ruth@gmail.com"]})
    turn = replace(trajectory.turns[0], text="mail.send to=ruth@gmail.com")
    written = replace(trajectory, turns=(turn, trajectory.turns[1]))
    said = Feedback("f", "trajectory", trajectory.id, "thumbs", 1.0, comment="ask eve@corp.de")
    pool.append(named, written, evaluation, said)
    exported = list(export(pool, tenant="default"))
    assert not any("gmail" in found.line or "corp.de" in found.line for found in exported)
    assert [found.is_changed for found in exported] == [True, True, False, True]
    clean = replace(written, turns=(replace(turn, text="mail.send to=<EMAIL>"), trajectory.turns[1]), rows=())
    assert [read(found.line) for found in exported] == [
        replace(named, instruction="Write to <EMAIL>.", context={"to": ["<EMAIL>"]}),
        clean,
        evaluation,
        replace(said, comment="ask <EMAIL>"),
    ]


def test_a_record_without_findings_is_returned_unchanged(make_point: MakePoint) -> None:
    for record in make_point("a"):
        assert anonymise(record) is record
