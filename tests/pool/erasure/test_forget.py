"""Forgetting leaves nothing of the subject in rows and files, everything else as it was, and a valid audit log."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from tests.postgres_server import PostgresServer
from upturn.errors import ConfigError, StoreBusyError, StoreError
from upturn.pool import Location, Pool, PoolUrl, experiences_in, ledger_problems, schema, take_snapshot
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
    """As ``place``, in a file."""
    fill(tmp_path / "pool.db", make_point)
    return tmp_path / "pool.db"


@pytest.fixture
def place(location: Location, make_point: MakePoint) -> Location:
    """A pool in which Maria is in a task (a), in a turn (b), not at all (c), and with another tenant (d)."""
    fill(location, make_point)
    return location


def fill(place: Location, make_point: MakePoint) -> None:
    with Pool.open(place) as pool:
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


def _forget(path: Location, value: str = MARIA, **options: bool) -> Forgotten:
    return forget(path, Subject(value), act=ACT, **options)


def _problems(path: Location) -> list[str]:
    with Pool.open(path, read_only=True) as pool:
        return [str(problem) for problem in ledger_problems(pool.engine)]


def test_forgotten_subject_is_in_no_row_and_no_file(place: Location) -> None:
    before = _forget(place, is_dry_run=True)
    assert before.records == {"call_contents": 1, "feedback": 1, "tasks": 1, "trajectories": 1}
    shared = ("pool.db",) if isinstance(place, Path) else ()
    assert files_with(place, MARIA) == [*shared]
    done = _forget(place)
    assert (done.records, done.dropped_tokens) == (before.records, before.dropped_tokens)
    assert (done.remaining, done.shared_files) == ((), shared), "another tenant's task names her"
    done = forget(place, Subject(MARIA), act=replace(ACT, tenant="other"))
    assert (done.remaining, done.shared_files) == ((), ())
    assert files_with(place, MARIA) == []
    assert _problems(place) == []
    assert _forget(place, is_dry_run=True).records == {}


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


def test_reason_must_not_name_the_subject_and_a_writer_excludes(place: Location) -> None:
    with pytest.raises(ConfigError, match="describe it without its value"):
        forget(place, Subject(MARIA), act=replace(ACT, why=f"{MARIA} asked"))
    with Pool.open(place), pytest.raises(StoreBusyError, match="is being written by"):
        _forget(place)
    with Pool.open(place, read_only=True):  # whoever only reads does not exclude it
        assert _forget(place, is_dry_run=True).records


def test_quarantined_lines_and_names_of_files_are_rewritten(path: Path) -> None:
    with Pool.open(path) as pool:
        bad = Quarantined(3, f"no role in {MARIA}", f'{{"to": "{MARIA}", "n": 4')
        pool.append(imported=Imported("default", "s", f"{MARIA}.jsonl", 3, 2, (bad,)))
    assert _forget(path).remaining == ()
    with Pool.open(path, read_only=True) as pool, pool.engine.connect() as connection:
        line = connection.execute(schema.quarantine.select()).one()
        assert (line.reason, line.text) == (f"no role in {MASK}", f'{{"to": "{MASK}", "n": 4')
        assert connection.execute(schema.imports.select()).one().path == f"{MASK}.jsonl"


@pytest.mark.parametrize("step", ["record_erasure", "scrub"])
def test_an_interrupted_erasure_is_done_by_the_next_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def stop(*_arguments: object, **_named: object) -> None:
        raise StoreError("the process ends here")

    with monkeypatch.context() as patch:
        patch.setattr(import_module("upturn.pool.erasure.forget"), step, stop)
        with pytest.raises(StoreError, match="ends here"):
            _forget(path)
    assert _problems(path) == []
    done = _forget(path)
    assert bool(done.records) == (step == "record_erasure")  # otherwise they are rewritten already
    assert done.remaining == ()
    forget(path, Subject(MARIA), act=replace(ACT, tenant="other"))
    assert files_with(path, MARIA) == []
    with Pool.open(path, read_only=True) as pool:
        assert [act.what for act in admin_acts(pool.engine, tenant="default")] == ["pool forget"]


def test_the_servers_files_of_the_tables_do_not_hold_the_subject(
    postgres_server: PostgresServer, make_point: MakePoint
) -> None:
    location = postgres_server.clean_pool()
    with Pool.open(location) as pool:
        task, trajectory, evaluation = make_point("a")
        pool.append(replace(task, instruction=f"write to {MARIA}"), trajectory, evaluation)
    before = _server_files(location)
    _forget(location)
    after = _server_files(location)
    if before is None or after is None:
        pytest.skip("the files of this server cannot be read")
    assert MARIA.encode() in before
    assert MARIA.encode() not in after


def _server_files(location: PoolUrl) -> bytes | None:
    """The content of the table with tasks on the disk; None = it cannot be read here."""
    engine = create_engine(location.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("CHECKPOINT")
        folder = str(connection.exec_driver_sql("SHOW data_directory").scalar_one())
        name: str = connection.exec_driver_sql("SELECT pg_relation_filepath('tasks')").scalar_one()
    engine.dispose()
    try:
        return Path(folder, name).read_bytes()
    except OSError:
        return None
