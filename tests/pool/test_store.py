import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import event, select

from upturn.errors import RecordError, StoreBusyError, StoreError
from upturn.pool import ALL_TENANTS, Experience, Location, Pool, Selection, ledger_problems, schema
from upturn.pool.database import backend_in
from upturn.pool.statistics import counts
from upturn.records import (
    Action,
    AgentVersion,
    Alternative,
    Decision,
    Evaluation,
    Feedback,
    Release,
    Run,
    Snapshot,
    Task,
    Trajectory,
    Usage,
)

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]


def add(pool: Pool, *points: Point) -> int:
    return pool.append(*(record for point in points for record in point))


def decision(name: str, tenant: str = "default") -> Decision:
    alternatives = (Alternative("nano@1", 0.75, 0.5), Alternative("rules@1", 0.25, None))
    return Decision(
        f"decision-{name}",
        f"task-{name}",
        "mail",
        tenant,
        "thompson",
        "hash",
        alternatives,
        "nano",
        "nano@1",
        0.75,
        "best so far",
    )


def test_every_kind_of_record_is_read_back_equal(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    feedback = Feedback("f", "trajectory", trajectory.id, "thumbs", 1.0, comment="good")
    version = AgentVersion("nano", "1", "local_model", parameters={"temperature": 1.0}, tenants=("default",))
    release = Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0)
    run = Run("run", "demo", "hash", 3, "0.1.0")
    snapshot = Snapshot("s", (trajectory.id,), "{}", ("default",))
    choice = decision("a")
    records = (run, release, snapshot, version, feedback, evaluation, trajectory, choice, task)
    assert pool.append(*records) == 9
    assert list(pool.tasks(tenant="default")) == [task]
    assert list(pool.decisions(tenant="default")) == [choice]
    assert list(pool.experiences(tenant="default")) == [Experience(task, trajectory, evaluation)]
    assert pool.evaluation_of(trajectory.id, tenant="default") == evaluation
    assert list(pool.feedback(tenant="default")) == [feedback]
    assert pool.agent_versions() == [version]
    assert pool.snapshots() == [snapshot]
    assert pool.states(Release) == [release]
    assert pool.states(Run) == [run]
    assert pool.append(*records) == 0


def test_evidence_survives_reopening(tmp_path: Path, make_point: MakePoint) -> None:
    points = [make_point(str(index)) for index in range(3)]
    with Pool.open(tmp_path / "pool.db") as pool:
        add(pool, *points[:2])
    with Pool.open(tmp_path / "pool.db") as pool:
        add(pool, points[2])
        assert list(pool.trajectories(tenant="default")) == [trajectory for _, trajectory, _ in points]


def test_closed_pool_is_complete_in_its_one_file(tmp_path: Path, make_point: MakePoint) -> None:
    points = [make_point(str(index)) for index in range(3)]
    with Pool.open(tmp_path / "pool.db") as pool:
        add(pool, *points)
        reader = Pool.open(tmp_path / "pool.db", read_only=True)  # one that stays open keeps the other files
        assert len(list(reader.trajectories(tenant="default"))) == 3
    shutil.copy(tmp_path / "pool.db", tmp_path / "copy.db")
    reader.close()
    with Pool.open(tmp_path / "copy.db", read_only=True) as copy:
        assert list(copy.trajectories(tenant="default")) == [trajectory for _, trajectory, _ in points]


@pytest.mark.parametrize("name", ["a b.db", "50%.db", "what?.db", "#1.db", "ä.db"])
def test_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    with Pool.open(tmp_path / name) as pool:
        pool.append(Task("t", "do", "mail", "office"))
        assert [task.id for task in pool.tasks(tenant="default")] == ["t"]
    assert (tmp_path / name).is_file()


def test_tokens_are_omitted_on_request(pool: Pool, make_point: MakePoint) -> None:
    point = make_point("a")
    add(pool, point)
    assert list(pool.trajectories(tenant="default", has_tokens=False)) == [replace(point[1], rows=())]


def test_same_id_with_other_content_is_rejected_with_its_whole_batch(pool: Pool, make_point: MakePoint) -> None:
    first, second = make_point("a"), make_point("b")
    add(pool, first)
    changed = replace(first[1], seed=8)
    with pytest.raises(StoreError, match=r"trajectory-a.*other content"):
        add(pool, second, (first[0], changed, first[2]))
    assert list(pool.trajectories(tenant="default")) == [first[1]]
    assert [task.id for task in pool.tasks(tenant="default")] == ["task-a"]


def test_same_id_twice_in_one_batch_must_be_the_same_record(pool: Pool) -> None:
    task = Task("t", "do", "mail", "office")
    assert pool.append(task, task) == 1
    with pytest.raises(StoreError, match="'u'"):
        pool.append(replace(task, id="u"), replace(task, id="u", level=2))
    assert [stored.id for stored in pool.tasks(tenant="default")] == ["t"]


def test_repeated_records_between_new_ones_are_not_counted(pool: Pool) -> None:
    tasks = [Task(f"t{number}", "do", "mail", "office") for number in range(5)]
    pool.append(tasks[1], tasks[3])
    assert pool.append(*tasks) == 3
    assert [task.id for task in pool.tasks(tenant="default")] == ["t1", "t3", "t0", "t2", "t4"]
    assert list(ledger_problems(pool.engine)) == []


def test_repeated_trajectory_may_differ_in_wall_clock_seconds(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    add(pool, (task, trajectory, evaluation))
    assert pool.append(replace(trajectory, usage=Usage(3, 3, 99.0))) == 0
    assert next(pool.trajectories(tenant="default")).usage.seconds == 0.25
    with pytest.raises(StoreError, match="other content"):
        pool.append(replace(trajectory, usage=Usage(3, 4, 0.25)))


def test_trajectory_needs_its_task_and_evaluation_its_trajectory(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    with pytest.raises(StoreError, match="tasks 'task-a', which is not stored"):
        pool.append(trajectory)
    pool.append(task)
    with pytest.raises(StoreError, match="trajectories 'trajectory-a', which is not stored"):
        pool.append(evaluation)
    pool.append(trajectory)
    with pytest.raises(StoreError, match="names task 'other'"):
        pool.append(replace(evaluation, task_id="other"))
    assert pool.append(evaluation) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_unreadable_values_are_rejected(pool: Pool, make_point: MakePoint, value: float) -> None:
    task, trajectory, evaluation = make_point("a")
    pool.append(task)
    bad_row = replace(trajectory.rows[0], logprobs=(value, -1.0, -1.0))
    bad_turn = replace(trajectory.turns[0], action=Action("mail", "move", {"id": value}))
    for bad in (replace(trajectory, rows=(bad_row,)), replace(trajectory, turns=(bad_turn,))):
        with pytest.raises(RecordError):
            pool.append(bad)
    with pytest.raises(RecordError):
        pool.append(replace(evaluation, score=value))
    with pytest.raises(RecordError, match="JSON"):
        pool.append(replace(task, id="u", instruction="\ud800"))
    with pytest.raises(RecordError, match="level"):
        pool.append(replace(task, id="v", level=2**40))
    assert counts(pool, tenant=ALL_TENANTS) == (1, 0, 0, 0, 0)


def test_text_containing_nan_and_infinity_is_stored(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, _ = make_point("a")
    pool.append(replace(task, instruction="NaN to Infinity"))
    turn = replace(trajectory.turns[0], text="NaN")
    pool.append(replace(trajectory, turns=(turn,)))
    assert next(pool.trajectories(tenant="default")).turns[0].text == "NaN"


def test_tenants_are_isolated(pool: Pool, make_point: MakePoint) -> None:
    own, foreign = make_point("own", tenant="ada"), make_point("foreign", tenant="bob")
    add(pool, own, foreign)
    pool.append(decision("own", "ada"), decision("foreign", "bob"))
    pool.append(Feedback("f", "trajectory", foreign[1].id, "thumbs", 1.0, tenant="bob"))
    assert [task.id for task in pool.tasks(tenant="ada")] == ["task-own"]
    assert list(pool.tasks(tenant="ada", ids=["task-foreign"])) == []
    assert [stored.id for stored in pool.decisions(tenant="ada")] == ["decision-own"]
    assert list(pool.decisions(tenant="ada", task_ids=["task-foreign"])) == []
    assert list(pool.trajectories(tenant="ada")) == [own[1]]
    assert [row.trajectory_id for row in pool.selected(tenant="ada")] == [own[1].id]
    assert pool.evaluation_of(foreign[1].id, tenant="ada") is None
    assert list(pool.feedback(tenant="ada")) == []
    with pytest.raises(StoreError, match="trajectory-foreign"):
        list(pool.experiences_of([foreign[1].id], tenant="ada"))
    assert counts(pool, tenant="ada") == (1, 1, 1, 1, 0)
    assert counts(pool, tenant=ALL_TENANTS) == (2, 2, 2, 2, 1)


def test_releases_and_runs_change_state_and_earlier_states_stay(pool: Pool) -> None:
    first = Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0)
    second = replace(first, stage=1)
    third = replace(first, stage=1, state="promoted")
    assert [pool.append(state) for state in (first, first, second, third)] == [1, 0, 1, 1]
    assert pool.states(Release) == [third]
    assert pool.states(Release, "r") == [first, second, third]
    run = Run("x", "demo", "hash", 0, "0.1.0")
    pool.append(run)
    pool.append(replace(run, state="done"))
    assert [state.state for state in pool.states(Run, "x")] == ["running", "done"]


def test_agent_versions_are_frozen(pool: Pool) -> None:
    version = AgentVersion("nano", "1", "local_model")
    assert [pool.append(version), pool.append(version)] == [1, 0]
    with pytest.raises(StoreError, match="nano@1"):
        pool.append(replace(version, prompt="be kind"))


def test_latest_evaluation_counts(pool: Pool, make_point: MakePoint) -> None:
    point = make_point("a", verdict="missing", score=None)
    add(pool, point)
    later = replace(point[2], id="later", verdict="success", score=1.0)
    pool.append(later)
    assert pool.evaluation_of(point[1].id, tenant="default") == later
    assert [point.evaluation for point in pool.experiences(tenant="default")] == [later]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), "abcde"),
        (Selection(families=("mail",)), "abe"),
        (Selection(families=("mail",), verdicts=("success",)), "a"),
        (Selection(agent_versions=("rules@1",)), "d"),
        (Selection(verdicts=("missing",)), "e"),
        (Selection(verdicts=("failure", "missing")), "bce"),
        (Selection(min_score=0.5), "ad"),
        (Selection(origins=("rendered",)), ""),
        (Selection(splits=("heldout",)), ""),
        (Selection(environments=("office",)), "abcde"),
        (Selection(limit=2), "de"),
        (Selection(limit=0), ""),
        (Selection(limit_per_family=1), "de"),
        (Selection(limit_per_family=2, limit=3), "cde"),
        (Selection(since=1000.0), "abcde"),
        (Selection(since=1000.5), ""),
        (Selection(run="unknown"), ""),
    ],
)
def test_each_selection_field_filters(
    pool: Pool, make_point: MakePoint, selection: Selection, expected: str
) -> None:
    add(
        pool,
        make_point("a"),
        make_point("b", verdict="failure", score=0.25),
        make_point("c", family="sheet", verdict="failure", score=0.0),
        make_point("d", family="sheet", agent="rules@1"),
    )
    task, trajectory, _ = make_point("e")
    pool.append(task, trajectory)
    selected = "".join(trajectory.id[-1] for trajectory in pool.trajectories(selection, tenant="default"))
    assert selected == expected
    assert "".join(row.trajectory_id[-1] for row in pool.selected(selection, tenant="default")) == expected


def test_contradictory_selections_are_rejected() -> None:
    with pytest.raises(ValueError, match="limit must be zero or more"):
        Selection(limit=-1)
    with pytest.raises(ValueError, match="needs its run"):
        Selection(iteration=3)


def test_long_reads_are_paged_and_ignore_later_writes(pool: Pool) -> None:
    pool.append(*(Task(f"t{index:04}", "do", "mail", "office") for index in range(1203)))
    reading = pool.tasks(tenant="default")
    first = next(reading)
    pool.append(Task("late", "do", "mail", "office"))
    ids = [first.id, *(task.id for task in reading)]
    assert ids == [f"t{index:04}" for index in range(1203)]
    even = [f"t{index:04}" for index in range(0, 1203, 2)]
    assert [task.id for task in pool.tasks(tenant="default", ids=even)] == even


def test_second_writer_is_rejected_with_path_and_process(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    script = (
        "import sys; from upturn.pool import Pool; from upturn.errors import StoreBusyError\n"
        "try: Pool.open(sys.argv[1])\n"
        "except StoreBusyError as exc: print(exc)"
    )
    with Pool.open(path) as pool:
        message = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        with pytest.raises(StoreBusyError):
            Pool.open(path)
        pool.append(Task("t", "do", "mail", "office"))
        with Pool.open(path, read_only=True) as reader:
            assert [task.id for task in reader.tasks(tenant="default")] == ["t"]
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait(timeout=60)
    assert str(path) in message
    assert "is being written by process" in message
    with Pool.open(path) as reopened:
        assert reopened.location == path


def test_closed_and_read_only_pools_reject_writes(tmp_path: Path) -> None:
    pool = Pool.open(tmp_path / "pool.db")
    pool.close()
    pool.close()
    with pytest.raises(StoreError, match="closed or read-only"):
        pool.append(Task("t", "do", "mail", "office"))
    with (
        Pool.open(tmp_path / "pool.db", read_only=True) as reader,
        pytest.raises(StoreError, match="closed or read-only"),
    ):
        reader.append(Task("t", "do", "mail", "office"))


def test_unusable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no pool at"):
        Pool.open(tmp_path / "none.db", read_only=True)
    with pytest.raises(StoreError, match="is a folder"):
        Pool.open(tmp_path)
    with pytest.raises(StoreError, match="cannot be locked"):
        Pool.open(tmp_path / "missing" / "pool.db")
    (tmp_path / "text.db").write_text("this is not a database, and long enough to be read as one " * 20)
    with pytest.raises(StoreError, match=r"text\.db.*cannot be used"):
        Pool.open(tmp_path / "text.db")
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE mine (id TEXT)")
    foreign.close()
    with pytest.raises(StoreError, match="not a pool"):
        Pool.open(tmp_path / "foreign.db")
    with pytest.raises(StoreError, match="not a pool"):
        Pool.open(tmp_path / "foreign.db", read_only=True)


def test_pool_of_a_newer_version_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    Pool.open(path).close()
    newer = sqlite3.connect(path)
    newer.execute("UPDATE alembic_version SET version_num = '9999'")
    newer.commit()
    newer.close()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="9999"):
            Pool.open(path, read_only=read_only)


def test_threads_share_a_commit_and_get_their_own_errors(pool: Pool) -> None:
    pool.append(Task("taken", "do", "mail", "office"))

    def write(index: int) -> Any:
        task = Task("taken" if index % 10 == 0 else f"t{index}", f"do {index}", "mail", "office")
        try:
            return pool.append(task)
        except StoreError:
            return "rejected"

    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(write, range(200)))
    assert results == ["rejected" if index % 10 == 0 else 1 for index in range(200)]
    assert counts(pool, tenant="default").tasks == 181


def test_reads_by_id_use_the_primary_key_also_with_a_tenant(tmp_path: Path, make_point: MakePoint) -> None:
    """With the tenant's index SQLite read all of the tenant's trajectories for each page of ids."""
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(*make_point("a"), *make_point("b", tenant="other"))
        plans: list[str] = []

        def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            if "FROM trajectories" in statement and "EXPLAIN" not in statement and "max" not in statement[:20]:
                rows = connection.connection.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                plans.extend(str(row[-1]) for row in rows)

        event.listen(pool.engine, "before_cursor_execute", explain)
        (found,) = pool.experiences_of(["trajectory-a"], tenant="default")
        assert found.trajectory.id == "trajectory-a"
        assert "SEARCH trajectories USING INDEX sqlite_autoindex_trajectories_1 (id=?)" in plans
        with pytest.raises(StoreError, match="no trajectory 'trajectory-b' is stored for 'default'"):
            list(pool.experiences_of(["trajectory-b"], tenant="default"))


@contextmanager
def writer_held(pool: Pool) -> Iterator[None]:
    """What is submitted in the block waits, and is written in one transaction after it."""
    begun, resume = Event(), Event()

    def wait(_: Any) -> None:
        begun.set()
        assert resume.wait(timeout=30)

    first = threading.Thread(target=pool.write, args=(wait,))
    first.start()
    assert begun.wait(timeout=30)
    yield
    resume.set()
    first.join()


def test_joined_writes_store_the_rows_of_separate_ones(
    location: Location, tmp_path: Path, make_point: MakePoint
) -> None:
    """The same numbers, the same entries of the audit log, and the errors of those that cannot be joined."""
    points = [make_point(str(number), task=f"task-{number // 3}") for number in range(30)]
    conflict = replace(points[4][1], seed=99)

    def contents(pool: Pool) -> list[Any]:
        with pool.engine.connect() as connection:
            tables = (schema.tasks, schema.trajectories, schema.evaluations, schema.audit_entries)
            return [connection.execute(select(table).order_by(table.c.sequence)).all() for table in tables]

    with (
        Pool.open(location, clock=lambda: 5.0) as joined,
        Pool.open(tmp_path / "one.db", clock=lambda: 5.0) as one_by_one,
    ):
        for point in points[:10]:
            one_by_one.append(*point)
            joined.append(*point)
        outcomes = []
        for group in (points[10:20], [*points[20:25], points[2], (conflict,), *points[25:]]):
            with writer_held(joined):
                futures = [joined.submit(*records) for records in group]
            outcomes += [future.exception() or future.result() for future in futures]
        expected = [one_by_one.append(*point) for point in (*points[10:25], points[2])]
        with pytest.raises(StoreError, match="other content"):
            one_by_one.append(conflict)
        expected += [0, *(one_by_one.append(*point) for point in points[25:])]
        assert [0 if isinstance(outcome, StoreError) else outcome for outcome in outcomes] == expected
        assert contents(joined) == contents(one_by_one)
        assert list(ledger_problems(joined.engine)) == []


def test_joined_writes_share_their_statements(pool: Pool, make_point: MakePoint) -> None:
    statements: list[str] = []
    driver = type(backend_in(pool.engine).driver)
    execute = driver.execute

    def counted(this: Any, raw: Any, statement: str, rows: Any) -> Any:
        statements.append(statement)
        return execute(this, raw, statement, rows)

    with pytest.MonkeyPatch.context() as patch:
        with writer_held(pool):
            futures = [pool.submit(*make_point(str(number))) for number in range(50)]
            patch.setattr(driver, "execute", counted)
        assert [future.result() for future in futures] == [3] * 50
    assert sum(statement.startswith("INSERT") for statement in statements) < 12, "not one for each record"
