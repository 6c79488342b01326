"""Forgetting leaves nothing of the subject in rows and files, everything else as it was, and a valid audit log."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from upturn.errors import ConfigError, StoreBusyError
from upturn.pool import Pool, experiences_in, ledger_problems, schema, take_snapshot
from upturn.pool.access import admin_acts
from upturn.pool.erasure import MASK, Forgotten, Subject, files_with, forget
from upturn.pool.imported import Imported, Quarantined
from upturn.records import (
    AdminAct,
    AgentVersion,
    Call,
    CallContent,
    Evaluation,
    Feedback,
    Task,
    Trajectory,
)

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]
MARIA = "maria.silva@corp.de"
ACT = AdminAct("ada", "pool forget", "a person", 5.0, "default", "asked for it")


@pytest.mark.parametrize(
    ("subject", "texts"),
    [
        (
            MARIA,
            (
                "to Maria.Silva@CORP.de.",
                "maria.silva%40corp.de",
                r"\nmaria.silva@corp.de",
                "maria.silva [at] corp.de",
            ),
        ),
        ("+49 30 1234567", ("030 1234567", "0049-30-1234567", "(030) 123 45 67", "+49 (0)30 1234567")),
        ("(415) 867-5309", ("4158675309", "+1 415 867 5309", "1-415-867-5309")),
        ("4111 1111 1111 1111", ("4111111111111111", "4111-1111-1111-1111")),
        ("Maria Silva", ("MARIA  SILVA's", "dear maria\nsilva,", "Maria%20Silva")),
        ("DE89370400440532013000", ("de89 3704 0044 0532 0130 00",)),
    ],
)
def test_subject_is_recognised_in_all_spellings(subject: str, texts: tuple[str, ...]) -> None:
    found = [Subject(subject)(text) for text in texts]
    assert [len(matches) for matches in found] == [1] * len(texts), found


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (MARIA, "anna.maria.silva@corp.de, maria.silva@corp.dev"),
        ("Maria Silva", "Maria Silvana"),
        ("4158675309", "14158675309123"),
    ],
)
def test_other_values_are_not_the_subject(subject: str, text: str) -> None:
    assert Subject(subject)(text) == []


def test_short_subjects_are_refused() -> None:
    with pytest.raises(ConfigError, match="4 characters or more, got 'Al'"):
        Subject("Al")


@pytest.fixture
def path(tmp_path: Path, make_point: MakePoint) -> Path:
    """A pool in which Maria is in a task (a), in a turn (b), not at all (c), and with another tenant (d)."""
    file = tmp_path / "pool.db"
    with Pool.open(file) as pool:
        task, trajectory, evaluation = make_point("a")
        named = replace(task, instruction=f"write to {MARIA}", context={MARIA: 1, "n": [2]})
        pool.append(named, trajectory, evaluation)
        task, trajectory, evaluation = make_point("b")
        turn = replace(trajectory.turns[0], text=json.dumps({"to": MARIA, "n": 1}))
        pool.append(task, replace(trajectory, turns=(turn, *trajectory.turns[1:])), evaluation)
        pool.append(*make_point("c"))
        other, trajectory, evaluation = make_point("d", tenant="other")
        pool.append(replace(other, instruction=f"write to {MARIA}"), trajectory, evaluation)
        pool.append(Feedback("f", "trajectory", "trajectory-c", "thumbs", 1.0, comment=f"ask {MARIA.upper()}"))
        for name, extra in (("call-1", MARIA), ("call-2", "nothing")):
            pool.append(
                Call(name, "default", "e1", "", "chat", "a@1", "answered"),
                CallContent(name, "default", json.dumps([extra]), tokens='{"token_ids":[1,2]}'),
            )
    return file


def _forget(path: Path, value: str = MARIA, **options: bool) -> Forgotten:
    return forget(path, Subject(value), act=ACT, **options)


def _problems(path: Path) -> list[str]:
    with Pool.open(path, read_only=True) as pool:
        return [str(problem) for problem in ledger_problems(pool.engine)]


def test_forgotten_subject_is_in_no_row_and_no_file(path: Path) -> None:
    before = _forget(path, is_dry_run=True)
    assert before.records == {"call_contents": 1, "feedback": 1, "tasks": 1, "trajectories": 1}
    assert files_with(path, MARIA) == ["pool.db"]
    done = _forget(path)
    assert (done.records, done.dropped_tokens) == (before.records, before.dropped_tokens)
    assert (done.remaining, done.shared_files) == ((), ("pool.db",)), "another tenant's task names her"
    done = forget(path, Subject(MARIA), act=replace(ACT, tenant="other"))
    assert (done.remaining, done.shared_files) == ((), ())
    assert files_with(path, MARIA) == []
    assert _problems(path) == []
    assert _forget(path).records == {}


def test_records_stay_with_the_mask_and_without_tokens(path: Path) -> None:
    _forget(path)
    with Pool.open(path, read_only=True) as pool:
        points = {point.task.id: point for point in pool.experiences(tenant="default")}
        first, second, third = points["task-a"], points["task-b"], points["task-c"]
        assert first.task.instruction == f"write to {MASK}"
        assert first.task.context == {MASK: 1, "n": [2]}
        assert json.loads(second.trajectory.turns[0].text) == {"to": MASK, "n": 1}
        assert (first.trajectory.rows, second.trajectory.rows) == ((), ())
        assert third.trajectory.rows != ()
        assert next(iter(pool.feedback(tenant="default"))).comment == f"ask {MASK}"
        with pool.engine.connect() as connection:
            fields = connection.execute(schema.call_contents.select().order_by(schema.call_contents.c.id)).all()
        assert ["token_ids" in row.fields for row in fields] == [False, False], "both calls are of the episode"
        assert [act.what for act in admin_acts(pool.engine, tenant="default")] == ["pool forget"]
        assert MARIA in next(iter(pool.tasks(tenant="other"))).instruction


def test_a_repeated_import_does_not_bring_the_subject_back(path: Path, make_point: MakePoint) -> None:
    task, *_ = make_point("a")
    _forget(path)
    with Pool.open(path) as pool:
        assert pool.append(replace(task, instruction=f"write to {MARIA}", context={MARIA: 1, "n": [2]})) == 0
        stored = next(iter(pool.tasks(tenant="default", ids=["task-a"])))
    assert MARIA not in stored.instruction


def test_snapshots_and_versions_that_saw_the_subject_are_listed(path: Path) -> None:
    with Pool.open(path) as pool:
        snapshot = take_snapshot(pool, tenants=["default"])
        trained = AgentVersion("nano", "2", "local_model", snapshot=snapshot.id)
        tuned = AgentVersion("nano", "3", "local_model", parent=trained.id)
        pool.append(trained, tuned, AgentVersion("nano", "4", "local_model"))
    done = _forget(path)
    assert done.snapshots == (snapshot.id,)
    assert done.versions == ("nano@2", "nano@3")
    with Pool.open(path, read_only=True) as pool:
        assert len(list(experiences_in(pool, snapshot.id, tenant="default"))) == 3
        with pool.engine.connect() as connection:
            tombstones = connection.execute(schema.erasures.select()).all()
    assert ("snapshots", snapshot.id) in {(row.kind, row.record_id) for row in tombstones}
    assert _problems(path) == []


def test_ids_that_name_the_subject_are_reported(path: Path) -> None:
    with Pool.open(path) as pool:
        pool.append(Task(f"ticket:{MARIA}", "do", "mail", "office"))
    remaining = _forget(path).remaining
    assert f"tasks ticket:{MARIA}" in remaining
    assert any(name.startswith("audit_entries ") for name in remaining)


def test_reason_must_not_name_the_subject_and_a_writer_excludes(path: Path) -> None:
    with pytest.raises(ConfigError, match="describe it without its value"):
        forget(path, Subject(MARIA), act=replace(ACT, why=f"{MARIA} asked"))
    with Pool.open(path), pytest.raises(StoreBusyError):
        _forget(path)


def test_quarantined_lines_and_names_of_files_are_rewritten(path: Path) -> None:
    with Pool.open(path) as pool:
        bad = Quarantined(3, f"no role in {MARIA}", f'{{"to": "{MARIA}", "n": 4')
        pool.append(imported=Imported("default", "s", f"{MARIA}.jsonl", 3, 2, (bad,)))
    assert _forget(path).remaining == ()
    with Pool.open(path, read_only=True) as pool, pool.engine.connect() as connection:
        line = connection.execute(schema.quarantine.select()).one()
        assert (line.reason, line.text) == (f"no role in {MASK}", f'{{"to": "{MASK}", "n": 4')
        assert connection.execute(schema.imports.select()).one().path == f"{MASK}.jsonl"
