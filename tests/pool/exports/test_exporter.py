import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pool.conftest import share
from upturn.errors import ConfigError, UnknownNameError
from upturn.pool import Choice, Pool, PoolRecord, Selection, take_snapshot
from upturn.pool.exports import PoolExport, anonymise
from upturn.pool.exports.form import EXPORTED, ExportEnd, ExportHeader
from upturn.records import (
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Evaluation,
    Feedback,
    Task,
    Trajectory,
    from_fields,
)

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]


def read(line: str) -> Any:
    envelope = json.loads(line)
    return from_fields(EXPORTED[envelope["kind"]], json.dumps(envelope["record"]))


def records(pool: Pool, tenant: str = "default", **options: Any) -> list[Any]:
    """The exported records."""
    return [read(line) for line in list(PoolExport(pool, tenant=tenant, **options).lines())[1:-1]]


def test_raw_export_has_the_tenants_records_in_their_order(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a", task="t")
    second = make_point("b", task="t", verdict="missing", score=None)
    later = replace(evaluation, id="later", verdict="failure")
    feedback = Feedback("f", "trajectory", trajectory.id, "thumbs", 1.0)
    pool.append(task, trajectory, evaluation, *second[1:])
    pool.append(*make_point("c", tenant="bob"))
    pool.append(feedback)
    pool.append(later)
    expected = [task, trajectory, second[1], evaluation, second[2], feedback, later]
    assert records(pool, is_anonymised=False) == expected
    export = PoolExport(pool, tenant="default")
    lines = list(export.lines())
    assert [read(line) for line in lines[1:-1]] == expected
    assert (export.changed, export.written["Trajectory"], export.total) == (0, 2, 7)
    assert json.loads(lines[1])["recorded_at"] == 1000.0
    header = from_fields(ExportHeader, json.dumps(json.loads(lines[0])["record"]))
    assert (header.tenant, header.is_anonymised, header.criteria, header.snapshot) == ("default", True, "", None)
    assert from_fields(ExportEnd, json.dumps(json.loads(lines[-1])["record"])).records == 7
    assert records(pool, "eve") == []


def test_anonymised_export_drops_personal_data_and_its_tokens(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    private_task = replace(task, instruction="Write to ruth@gmail.com.", context={"to": ["ruth@gmail.com"]})
    message = json.dumps({"content": "\nann@corp.de", "id": 1})
    turn = replace(trajectory.turns[0], text="mail.send to=ruth@gmail.com", message=message)
    private_trajectory = replace(trajectory, turns=(turn, trajectory.turns[1]))
    feedback = Feedback("f", "trajectory", trajectory.id, "thumbs", 1.0, comment="ask eve@corp.de")
    pool.append(private_task, private_trajectory, evaluation, feedback)
    export = PoolExport(pool, tenant="default")
    lines = list(export.lines())
    assert not any("gmail" in line or "corp.de" in line for line in lines)
    assert export.changed == 3
    clean_message = '{"content":"\\n<EMAIL>","id":1}'
    clean_turn = replace(turn, text="mail.send to=<EMAIL>", message=clean_message)
    assert [read(line) for line in lines[1:-1]] == [
        replace(private_task, instruction="Write to <EMAIL>.", context={"to": ["<EMAIL>"]}),
        replace(private_trajectory, turns=(clean_turn, trajectory.turns[1]), rows=()),
        evaluation,
        replace(feedback, comment="ask <EMAIL>"),
    ]


def test_record_without_findings_is_returned_unchanged(make_point: MakePoint) -> None:
    for record in make_point("a"):
        assert anonymise(record) is record


def test_anonymised_content_of_a_call_has_no_tokens() -> None:
    content = CallContent("c", "default", '{"messages":["a\\nann@corp.de"]}', tools="", tokens='{"token_ids":[1]}')
    clean = replace(content, messages='{"messages":["a\\n<EMAIL>"]}', tokens="")
    assert anonymise(content) == clean
    assert anonymise(replace(content, messages="{}")) == replace(content, messages="{}")


def test_an_export_has_the_agent_versions_of_its_tenant_only(pool: Pool, make_point: MakePoint) -> None:
    base = AgentVersion("nano", "0", "local_model", "nano")
    named = AgentVersion("nano", "1", "local_model", "nano", parent="nano@0", tenants=("default",))
    shared = AgentVersion("joint", "1", "local_model", "nano", tenants=("canary-tenant", "default"))
    unused = AgentVersion("other", "1", "local_model", "nano", prompt="canary-prompt")
    pool.append(base, named, shared, unused, *make_point("a"), *make_point("b", agent="joint@1"))
    export = PoolExport(pool, tenant="default", is_anonymised=False)
    text = "".join(export.lines())
    assert [read(line) for line in text.splitlines() if '"AgentVersion"' in line] == [base, named]
    assert export.omitted == {"versions_of_other_tenants": 1}
    assert "canary" not in text


def test_a_snapshot_of_several_tenants_is_omitted_and_counted(pool: Pool, make_point: MakePoint) -> None:
    pool.append(*make_point("a"), *make_point("canary", tenant="bob"))
    take_snapshot(pool, tenants=["bob"])
    share(pool, "bob")
    take_snapshot(pool, tenants=["bob", "default"], trainer="default")
    own = take_snapshot(pool, tenants=["default"])
    export = PoolExport(pool, tenant="default")
    text = "".join(export.lines())
    assert "canary" not in text
    assert "bob" not in text
    assert read(text.splitlines()[-2]) == own
    assert export.omitted == {"snapshots_of_other_tenants": 1}


def decision(name: str, task: str, episode: str | None = None) -> Decision:
    return Decision(name, task, "mail", "default", "fixed", "0", (), "nano", "nano@1", 1.0, "only one", episode)


def test_a_selection_has_the_records_that_refer_to_it(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    task = replace(task, episode="e")
    other = make_point("b", family="calendar")
    chosen: list[PoolRecord] = [
        decision("d1", task.id),
        Call("c1", "default", "e", "", "chat", "nano@1", "answered"),
        CallContent("c1", "default", "{}"),
        task,
        trajectory,
        evaluation,
        Feedback("f1", "trajectory", trajectory.id, "thumbs", 1.0),
        Feedback("f2", "decision", "d1", "thumbs", 1.0),
        Feedback("f3", "episode", "e", "thumbs", 1.0),
        Feedback("f4", "decision", "c1", "thumbs", 1.0),
    ]
    rest: list[PoolRecord] = [
        decision("d2", other[0].id),
        Call("c2", "default", "other", "", "chat", "nano@1", "answered"),
        CallContent("c2", "default", "{}"),
        *other,
        Feedback("f5", "trajectory", other[1].id, "thumbs", 1.0),
        Feedback("f6", "decision", "d2", "thumbs", 1.0),
    ]
    for one, two in zip(chosen, [*rest, *[None] * 3], strict=False):
        pool.append(one)
        if two is not None:
            pool.append(two)
    exported = records(pool, choice=Choice(Selection(families=("mail",))))
    assert exported == chosen
    assert len(records(pool)) == len(chosen) + len(rest)


def test_a_snapshot_is_exported_as_it_was(pool: Pool, make_point: MakePoint) -> None:
    first, second = make_point("a"), make_point("b", verdict="failure", score=0.0)
    pool.append(*first)
    pool.append(*second)
    snapshot = take_snapshot(pool, tenants=["default"], selection=Selection(verdicts=("success",)))
    pool.append(replace(first[2], id="later", verdict="failure"))
    assert records(pool, choice=Choice(snapshot=snapshot.id)) == [*first, snapshot]
    with pytest.raises(UnknownNameError, match="does not include tenant 'bob'"):
        PoolExport(pool, tenant="bob", choice=Choice(snapshot=snapshot.id))
    both = Choice(Selection(families=("mail",)), snapshot.id)
    with pytest.raises(ConfigError, match="omit one of them"):
        PoolExport(pool, tenant="default", choice=both)


def test_records_that_arrive_during_an_export_are_not_in_it(tmp_path: Path, make_point: MakePoint) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(*make_point("a"))
        lines = PoolExport(pool, tenant="default").lines()
        first = next(lines)
        pool.append(*make_point("b"))
        assert len([first, *lines]) == 5
