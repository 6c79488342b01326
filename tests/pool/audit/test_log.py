"""The log in the pool: its entries, its proofs, and that a change at any position is found and named."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, text

from upturn.pool import Pool
from upturn.pool.audit import Frontier, StoredNodes, audit_problems, find_entries, read_head
from upturn.pool.audit.log_check import log_problems
from upturn.pool.audit.merkle import (
    TreeHead,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    root_of,
)
from upturn.pool.database import writing_engine
from upturn.records import Feedback, Release

SIZE = 1_000
CLOCK = 1_700_000_000.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A pool of 1,000 records, written in transactions of several sizes."""
    path = tmp_path_factory.mktemp("log") / "pool.db"
    rows = [Feedback(f"f{number}", "episode", "e", "thumbs", number % 2) for number in range(SIZE)]
    with Pool.open(path, clock=lambda: CLOCK) as pool:
        start, size = 0, 1
        while start < SIZE:
            pool.append(*rows[start : start + size])
            start, size = start + size, size * 2 % 97 + 1
    opened = writing_engine(path)
    yield opened
    opened.dispose()


def test_an_entry_has_what_identifies_a_record_and_no_content(engine: Engine) -> None:
    with engine.connect() as connection:
        (entry,) = find_entries(connection, "f2")
        digest = connection.execute(text("SELECT digest FROM feedback WHERE id = 'f2'")).scalar_one()
    assert tuple(entry) == (2, "feedback", "f2", "default", digest, 3, CLOCK)
    assert entry.leaf() == f'[2,"feedback","f2","default","{digest}",3,1700000000.0]'.encode()


def test_states_of_a_release_have_an_entry_each(tmp_path: Path) -> None:
    release = Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0)
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(release)
        pool.append(release)
        pool.change(Release, lambda _: Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "watch", 0))
        with pool.engine.connect() as connection:
            entries = find_entries(connection, "r")
    assert [(entry.position, entry.kind, entry.sequence) for entry in entries] == [
        (0, "releases", 1), (1, "releases", 2)
    ]  # fmt: skip


def test_stored_nodes_prove_every_entry_and_every_earlier_tree(engine: Engine) -> None:
    tree = Frontier()
    with engine.connect() as connection:
        assert list(log_problems(connection, tree)) == []
        nodes = StoredNodes(connection)
        head = read_head(connection)
        assert (head.size, head.root()) == (SIZE, tree.root())
        assert root_of(SIZE, nodes) == tree.root()
        for position in (0, 1, 255, 256, 511, 767, 768, 998, 999):
            (entry,) = find_entries(connection, f"f{position}")
            path = inclusion_proof(position, SIZE, nodes)
            assert is_included(entry.hash(), position, tree.head(), path)
            path = consistency_proof(position, SIZE, nodes)
            assert is_consistent(TreeHead(position, root_of(position, nodes)), tree.head(), path)


def edited(position: int) -> list[str]:
    return [f"UPDATE feedback SET value = 7 WHERE id = 'f{position}'"]


def edited_with_its_digest(position: int) -> list[str]:
    return [f"UPDATE feedback SET digest = 'd' WHERE id = 'f{position}'"]


def edited_entry(position: int) -> list[str]:
    return [f"UPDATE audit_entries SET record_id = 'other' WHERE position = {position}"]


def deleted(position: int) -> list[str]:
    return [f"DELETE FROM feedback WHERE id = 'f{position}'"]


def deleted_with_its_entry(position: int) -> list[str]:
    return [*deleted(position), f"DELETE FROM audit_entries WHERE position = {position}"]


def reordered(position: int) -> list[str]:
    """Two entries change places, with their hashes."""
    other = (position + 1) % SIZE
    return [
        f"UPDATE audit_entries SET position = -1 WHERE position = {position}",
        f"UPDATE audit_entries SET position = {position} WHERE position = {other}",
        f"UPDATE audit_entries SET position = {other} WHERE position = -1",
    ]


def truncated(position: int) -> list[str]:
    """The records from this one on are deleted with their entries."""
    return [
        f"DELETE FROM feedback WHERE sequence > {position}",
        f"DELETE FROM audit_entries WHERE position >= {position}",
    ]


CHANGES: dict[Callable[[int], list[str]], Callable[[int], tuple[str, str]]] = {
    edited: lambda position: ("feedback", f"f{position}"),
    edited_with_its_digest: lambda position: ("feedback", f"f{position}"),
    edited_entry: lambda position: ("audit_entries", str(position)),
    deleted: lambda position: ("feedback", f"f{position}"),
    deleted_with_its_entry: lambda position: ("audit_entries", str(position)),
    reordered: lambda position: ("audit_entries", str(position)),
    truncated: lambda position: ("audit_entries", "999" if position == 999 else f"{position} to 999"),
}
"""Kind and id of the problem that names the position."""


def found_after(connection: Connection, statements: list[str], *, is_whole: bool = True) -> set[tuple[str, str]]:
    """Returns what is reported after the statements, and undoes them; of the log alone unless ``is_whole``."""
    with connection.begin() as transaction:
        for statement in statements:
            assert connection.execute(text(statement)).rowcount > 0
        check = audit_problems if is_whole else log_problems
        found = {(problem.kind, problem.record_id) for problem in check(connection, Frontier())}
        transaction.rollback()
    return found


def named(make: Callable[[int], list[str]], positions: Sequence[int], found: set[tuple[str, str]]) -> bool:
    return {CHANGES[make](position) for position in positions} <= found


@pytest.mark.parametrize("make", CHANGES)
def test_a_single_change_is_found_and_named(engine: Engine, make: Callable[[int], list[str]]) -> None:
    with engine.connect() as connection:
        for position in (0, 255, 256, 999):
            found = found_after(connection, make(position))
            assert named(make, [position], found), (position, found)
        assert list(audit_problems(connection, Frontier())) == []


@pytest.mark.parametrize("make", [edited, edited_with_its_digest, edited_entry, deleted])
def test_changes_at_all_positions_are_found_and_named(engine: Engine, make: Callable[[int], list[str]]) -> None:
    """At all positions at once: every record and entry is checked alone."""
    with engine.connect() as connection:
        found = found_after(connection, [line for position in range(SIZE) for line in make(position)])
        assert named(make, range(SIZE), found)


@pytest.mark.parametrize("first", [0, 1])
def test_deletion_and_exchange_at_all_positions_are_found_and_named(engine: Engine, first: int) -> None:
    """At every second position at once."""
    with engine.connect() as connection:
        positions = range(first, SIZE - 1, 2)
        for make in (deleted_with_its_entry, reordered):
            statements = [line for position in positions for line in make(position)]
            assert named(make, positions, found_after(connection, statements, is_whole=False))


def test_a_log_truncated_anywhere_is_found(engine: Engine) -> None:
    with engine.connect() as connection:
        for position in range(0, SIZE, 37):
            found = found_after(connection, truncated(position), is_whole=False)
            assert named(truncated, [position], found)


@pytest.mark.slow
def test_a_change_of_the_log_at_every_position_alone_is_found_and_named(engine: Engine) -> None:
    with engine.connect() as connection:
        for position in range(SIZE):
            for make in (edited_entry, deleted_with_its_entry, reordered, truncated):
                assert named(make, [position], found_after(connection, make(position), is_whole=False))
