import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from upturn.errors import IngestError
from upturn.pool import (
    ExportFile,
    Pool,
    PoolExport,
    experiences_in,
    import_export,
    integrity_problems,
    ledger_problems,
    schema,
    take_snapshot,
)
from upturn.records import (
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Evaluation,
    Feedback,
    Task,
    Trajectory,
)

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]

KINDS = (
    "tasks",
    "decisions",
    "calls",
    "call_contents",
    "trajectories",
    "evaluations",
    "feedback",
    "agent_versions",
    "snapshots",
)


def write(pool: Pool, path: Path, *, is_anonymised: bool = False) -> Path:
    path.write_text("".join(PoolExport(pool, tenant="default", is_anonymised=is_anonymised).lines()))
    return path


@contextmanager
def imported(path: Path, target: Path) -> Iterator[Pool]:
    with Pool.open(target) as pool:
        import_export(pool, ExportFile(path))
        yield pool


def content(pool: Pool) -> dict[str, list[tuple[object, ...]]]:
    """Ids, digests, times and fields of all records by table, in their order."""
    with pool.engine.connect() as connection:
        return {
            name: [
                tuple(row)
                for row in connection.execute(
                    select(table.c.id, table.c.digest, table.c.recorded_at, table.c.fields).order_by(
                        table.c.sequence
                    )
                )
            ]
            for name in KINDS
            for table in [schema.metadata.tables[name]]
        }


@pytest.fixture
def filled(tmp_path: Path, make_point: MakePoint) -> Iterator[Pool]:
    """Every kind of record, and an evaluation that arrives after the snapshot."""
    times = iter(range(1, 1_000))
    with Pool.open(tmp_path / "filled.db", clock=lambda: float(next(times))) as pool:
        first, second = make_point("a"), make_point("b", verdict="missing", score=None)
        decided = Decision("d", "c", "mail", "default", "fixed", "0", (), "nano", "nano@1", 0.5, "by lot", "e")
        pool.append(decided, Call("d", "default", "e", "", "chat", "nano@1", "answered", cost_usd=0.25))
        pool.append(CallContent("d", "default", '{"messages":[]}'))
        pool.append(AgentVersion("nano", "1", "local_model", "nano"))
        pool.append(*first)
        pool.append(*second)
        take_snapshot(pool, tenants=["default"])
        pool.append(replace(first[2], id="later", verdict="failure", score=0.0))
        pool.append(Feedback("f", "trajectory", first[1].id, "thumbs", 1.0, comment="naïve ☃ \u2028"))
        yield pool


def test_an_export_reads_back_without_loss(filled: Pool, tmp_path: Path) -> None:
    path = write(filled, tmp_path / "out.jsonl")
    with imported(path, tmp_path / "copy.db") as pool:
        assert content(pool) == content(filled)
        assert list(pool.experiences(tenant="default")) == list(filled.experiences(tenant="default"))
        snapshot = filled.snapshots()[0]
        read = [list(experiences_in(one, snapshot.id, tenant="default")) for one in (pool, filled)]
        assert read[0] == read[1]
        assert read[0][0].evaluation is not None
        assert read[0][0].evaluation.id == "evaluation-a"
        assert integrity_problems(pool.engine) == []
        assert list(ledger_problems(pool.engine)) == []
        assert write(pool, tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


def test_importing_again_or_into_the_same_pool_adds_nothing(filled: Pool, tmp_path: Path) -> None:
    path = write(filled, tmp_path / "out.jsonl")
    report = import_export(filled, ExportFile(path))
    assert (report.added.total(), report.known, report.quarantined, report.is_repeated) == (0, 13, (), False)
    report = import_export(filled, ExportFile(path))
    assert (report.added.total(), report.known, report.is_repeated) == (0, 13, True)
    with Pool.open(tmp_path / "copy.db") as pool:
        report = import_export(pool, ExportFile(path))
        assert report.added == {
            "tasks": 2,
            "decisions": 1,
            "calls": 1,
            "call_contents": 1,
            "trajectories": 2,
            "evaluations": 3,
            "feedback": 1,
            "agent_versions": 1,
            "snapshots": 1,
        }


def test_an_anonymised_export_reads_back_and_says_so(pool: Pool, tmp_path: Path, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    pool.append(replace(task, instruction="Ask ruth@gmail.com."), trajectory, evaluation)
    path = write(pool, tmp_path / "out.jsonl", is_anonymised=True)
    with imported(path, tmp_path / "copy.db") as copy:
        report = import_export(copy, ExportFile(path))
        assert report.header.is_anonymised
        assert [stored.instruction for stored in copy.tasks(tenant="default")] == ["Ask <EMAIL>."]
    conflict = import_export(pool, ExportFile(path))
    assert [bad.line for bad in conflict.quarantined] == [2]
    assert "is stored with other content" in conflict.quarantined[0].reason
    assert conflict.known == 2


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_file_cut_anywhere_gives_whole_records_and_the_place(filled: Pool, tmp_path: Path, cut: int) -> None:
    whole = write(filled, tmp_path / "out.jsonl").read_bytes()
    header = whole.index(b"\n") + 1
    stop = header + (len(whole) - header) * cut // 60
    path = tmp_path / "cut.jsonl"
    path.write_bytes(whole[:stop])
    lines = whole[:stop].count(b"\n")
    with Pool.open(tmp_path / "copy.db") as pool:
        report = import_export(pool, ExportFile(path))
        reasons = [bad.reason for bad in report.quarantined]
        assert report.added.total() == lines - 1
        assert f"cut off after line {lines + 1} ({stop} bytes)" in reasons[-1]
        assert list(ledger_problems(pool.engine)) == []
        rest = import_export(pool, ExportFile(tmp_path / "out.jsonl"))
        assert (rest.added.total(), rest.quarantined) == (13 - lines + 1, ())


def test_a_changed_file_is_refused_whole(filled: Pool, tmp_path: Path) -> None:
    text = write(filled, tmp_path / "out.jsonl").read_text()
    lines = text.splitlines(keepends=True)
    for changed in (text.replace('"score":0.0', '"score":1.0'), "".join(lines[:3] + lines[4:]), text + text):
        path = tmp_path / "changed.jsonl"
        path.write_text(changed)
        with (
            Pool.open(tmp_path / "copy.db") as pool,
            pytest.raises(IngestError, match="was changed after it was written"),
        ):
            import_export(pool, ExportFile(path))
        with Pool.open(tmp_path / "copy.db") as pool:
            assert not any(content(pool).values())


def test_other_files_and_newer_versions_are_refused_by_name(filled: Pool, tmp_path: Path) -> None:
    text = write(filled, tmp_path / "out.jsonl").read_text()
    path = tmp_path / "other.jsonl"
    for wrong, message in (
        ("", "is not an export of a pool"),
        ('{"messages": []}\n', "is not an export of a pool"),
        ("\x00\xff", "is not an export of a pool"),
        (text.replace('"version":1', '"version":2', 1), "an export of version 2; this Upturn reads version 1"),
        (
            text.replace('"tenant":"default"', '"tenant":7', 1),
            "the header of .* cannot be read: not a ExportHeader",
        ),
    ):
        path.write_text(wrong)
        with pytest.raises(IngestError, match=message):
            ExportFile(path)
    with pytest.raises(IngestError, match="cannot be read"):
        ExportFile(tmp_path)


def without_end(lines: list[str]) -> str:
    """A file whose lines were changed has no valid end, so it is read as one that is cut off."""
    return "".join(lines)


def test_unusable_lines_are_quarantined_with_the_reason(filled: Pool, tmp_path: Path) -> None:
    lines = write(filled, tmp_path / "out.jsonl").read_text().splitlines(keepends=True)[:-1]
    task = next(line for line in lines if '"kind":"Task"' in line)
    bad = {
        "{": "not JSON",
        "[]": "a record is an object with the keys",
        task.replace('"Task"', '"Tusk"').strip(): "unknown kind 'Tusk'; known: Task, Decision",
        task.replace('"version":1', '"version":9').strip(): "record version 9 is not readable",
        task.replace('"level":1', '"level":"x"').strip(): "not a Task: level",
        task.replace('"tenant":"default"', '"tenant":"bob"').strip(): "belongs to bob, the export to 'default'",
        task.replace('"recorded_at":', '"recorded_at":"1",').strip(): "not JSON",
    }
    path = tmp_path / "bad.jsonl"
    path.write_text(without_end([lines[0], *(line + "\n" for line in bad), *lines[1:]]))
    with Pool.open(tmp_path / "copy.db") as pool:
        report = import_export(pool, ExportFile(path))
        assert report.added.total() == 13
        assert [line.line for line in report.quarantined] == [2, 3, 4, 5, 6, 7, 8, len(bad) + 15]
        for line, reason in zip(report.quarantined, bad.values(), strict=False):
            assert reason in line.reason


def test_a_file_cannot_write_into_another_tenant(pool: Pool, tmp_path: Path, make_point: MakePoint) -> None:
    victim = make_point("victim", tenant="bob")
    attack = make_point("attack", task="attack-task")
    pool.append(*victim)
    with Pool.open(tmp_path / "source.db") as source:
        source.append(*attack)
        lines = write(source, tmp_path / "out.jsonl").read_text().splitlines(keepends=True)
    path = tmp_path / "attack.jsonl"
    path.write_text(without_end([line.replace("attack-task", victim[0].id) for line in lines[:-1]]))
    report = import_export(pool, ExportFile(path))
    assert report.added.total() == 0
    assert [bad.line for bad in report.quarantined] == [2, 3, 4, 5]
    assert "belongs to another tenant than 'default'" in report.quarantined[1].reason
    assert [stored.id for stored in pool.trajectories(tenant="bob")] == [victim[1].id]
    assert list(pool.trajectories(tenant="default")) == []


def test_an_interrupted_import_is_completed_by_another(tmp_path: Path, make_point: MakePoint) -> None:
    with Pool.open(tmp_path / "source.db") as source:
        for number in range(150):
            source.append(*make_point(str(number)))
        path = write(source, tmp_path / "out.jsonl")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "copy.db"
    with Pool.open(target) as pool, pytest.raises(KeyboardInterrupt):
        import_export(pool, ExportFile(path), interrupt)
    with Pool.open(target) as pool:
        report = import_export(pool, ExportFile(path))
        assert (report.added.total(), report.known, report.is_repeated) == (250, 200, False)
        assert write(pool, tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


def test_records_between_conflicts_keep_their_order(tmp_path: Path, make_point: MakePoint) -> None:
    points = [make_point(name) for name in "abcdef"]
    with Pool.open(tmp_path / "source.db") as source:
        for point in points:
            source.append(*point)
        path = write(source, tmp_path / "out.jsonl")
    with Pool.open(tmp_path / "copy.db") as pool:
        pool.append(replace(points[2][0], instruction="another"))
        report = import_export(pool, ExportFile(path))
        assert [bad.line for bad in report.quarantined] == [8]
        stored = [experience.trajectory.id for experience in pool.experiences(tenant="default")]
        assert stored == [point[1].id for point in points]
        assert json.loads(path.read_text().splitlines()[7])["record"]["id"] == points[2][0].id
