"""Records that are erased on purpose leave a tombstone, which the check accepts, and nothing else."""

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, delete, text, update

from upturn.errors import StoreConflictError
from upturn.pool import Location, Pool, ledger_problems, schema
from upturn.pool.access import admin_acts, record_erasure
from upturn.pool.audit import Erased
from upturn.pool.row import digest
from upturn.records import AdminAct, Evaluation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]
ACT = AdminAct("ada", "pool forget", "maria", 5.0, "default", "asked for it")


def problems(pool: Pool) -> list[str]:
    return [str(problem) for problem in ledger_problems(pool.engine)]


@pytest.fixture
def pool(location: Location, make_point: MakePoint) -> Pool:
    opened = Pool.open(location)
    for name in "ab":
        opened.append(*make_point(name))
    return opened


def forget_point(connection: Connection) -> None:
    erased = [
        Erased("tasks", "task-a"),
        Erased("trajectories", "trajectory-a"),
        Erased("evaluations", "evaluation-a"),
    ]
    for item in erased:
        table = schema.metadata.tables[item.kind]
        connection.execute(delete(table).where(table.c.id == item.record_id))
    connection.execute(delete(schema.points).where(schema.points.c.trajectory == 2))
    record_erasure(connection, erased, ACT)


def test_erased_rows_are_no_problem_and_the_act_says_who_and_why(pool: Pool, make_point: MakePoint) -> None:
    with pool:
        pool.write(forget_point)
        assert problems(pool) == []
        assert admin_acts(pool.engine, tenant="default") == [ACT]
        with pool.engine.connect() as connection:
            entries = connection.execute(text("SELECT record_id FROM audit_entries ORDER BY position")).scalars()
            assert "trajectory-a" in list(entries), "its digest stays"
        pool.append(*make_point("c"))
        assert problems(pool) == []


def test_sequence_numbers_of_erased_records_are_not_used_again(location: Location) -> None:
    with Pool.open(location) as pool:
        pool.append(Task("t1", "do", "mail", "office"), Task("t2", "do", "mail", "office"))

        def forget(connection: Connection) -> None:
            connection.execute(delete(schema.tasks).where(schema.tasks.c.id == "t2"))
            record_erasure(connection, [Erased("tasks", "t2")], ACT)

        pool.write(forget)
    with Pool.open(location) as pool:
        pool.append(Task("t3", "do", "mail", "office"))
        with pool.engine.connect() as connection:
            query = text("SELECT id, sequence FROM tasks ORDER BY sequence")
            assert connection.execute(query).all() == [("t1", 1), ("t3", 3)]
        assert problems(pool) == []


def test_what_remains_must_be_what_the_act_left(pool: Pool) -> None:
    with pool, pool.engine.connect() as connection:
        fields = connection.execute(text("SELECT fields FROM evaluations WHERE id = 'evaluation-b'")).scalar_one()
        masked = fields.replace('"evaluator":"', '"evaluator":"masked ')
    table = schema.evaluations

    def overwrite(content: str) -> Callable[[Connection], None]:
        def work(connection: Connection) -> None:
            values = {"fields": content, "evaluator": "masked exact"}
            connection.execute(update(table).where(table.c.id == "evaluation-b").values(values))
            record_erasure(connection, [Erased("evaluations", "evaluation-b", digest(masked))], ACT)

        return work

    with Pool.open(pool.location) as again:
        again.write(overwrite(masked))
        found = problems(again)
        again.write(overwrite(fields))
        assert problems(again)[0].endswith("its content does not match its digest (entry 5)")
    assert [problem for problem in found if "column" not in problem] == []


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM erasures WHERE kind = 'tasks'", "tasks 'task-a' was deleted"),
        ("INSERT INTO erasures VALUES ('tasks', 'task-b', 1, '')", "erasures of the operator's act 1 were changed"),
        ("INSERT INTO erasures VALUES ('tasks', 'task-b', 9, '')", "erasures of the operator's act 9 were changed"),
        ("DELETE FROM erasures", "erasures of the operator's act 1 were deleted"),
        ("UPDATE erasures SET remains = 'x' WHERE kind = 'tasks'", "tasks 'task-a' was deleted"),
    ],
)
def test_a_changed_tombstone_is_reported(pool: Pool, statement: str, expected: str) -> None:
    with pool:
        pool.write(forget_point)
        pool.write(lambda connection: connection.execute(text(statement)))
        assert any(problem.startswith(expected) for problem in problems(pool)), problems(pool)


def test_a_row_that_is_still_there_is_reported(pool: Pool) -> None:
    with pool:
        pool.write(lambda connection: record_erasure(connection, [Erased("tasks", "task-a")], ACT))
        assert problems(pool) == [
            "tasks 'task-a' was changed after it was stored: it is marked as erased, and its row is still there "
            "(entry 0)"
        ]


def test_a_record_is_erased_once_and_no_records_make_no_act(pool: Pool) -> None:
    with pool:
        pool.write(lambda connection: record_erasure(connection, [], ACT))
        assert admin_acts(pool.engine, tenant="default") == []
        pool.write(forget_point)
        with pytest.raises(StoreConflictError, match="tasks 'task-a' was erased before; leave it out"):
            pool.write(lambda connection: record_erasure(connection, [Erased("tasks", "task-a")], ACT))
