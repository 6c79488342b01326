"""Embeddings by a server's model: asked for once, stored, checked and erased."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select, update

from tests.pool.conftest import Point
from upturn.errors import StoreError
from upturn.pool import Location, Pool, Question, SuccessIndex, ledger_problems, move_pool, stored_by
from upturn.pool.erasure import Subject, forget
from upturn.pool.schema import embeddings
from upturn.records import AdminAct

Make = Callable[..., Point]


class Server:
    """Counts letters; its vectors have two numbers, or as many as is set."""

    def __init__(self, size: int = 2) -> None:
        self.asked: list[str] = []
        self.size = size

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        return [[text.count("a") + 1.0, *[float(text.count("b"))] * (self.size - 1)] for text in texts]


def add(pool: Pool, make: Make, name: str, instruction: str, **options: object) -> None:
    task, trajectory, evaluation = make(name, **options)
    pool.append(replace(task, instruction=instruction), trajectory, evaluation)


def found(pool: Pool, server: Server, text: str, *, tenant: str = "default") -> list[tuple[str, float]]:
    index = SuccessIndex(pool, tenant=tenant, embedder=stored_by(pool, "m", server))
    return [(item.instruction, item.similarity) for item in index.search(Question(text), 9)]


def keys(pool: Pool) -> list[tuple[str, str]]:
    with pool.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(embeddings.c.tenant, embeddings.c.model))]


def test_each_instruction_is_sent_once_anonymised_and_for_its_tenant(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "a", "aaa of ann@corp.de")
    add(pool, make_point, "b", "bb")
    add(pool, make_point, "c", "bb", tenant="acme")
    server = Server()
    assert found(pool, server, "b") == [("bb", 0.948683), ("aaa of ann@corp.de", 0.707107)]
    assert server.asked == ["aaa of <EMAIL>", "bb", "b"]
    assert [name for name, _ in found(pool, server, "bb")] == ["bb", "aaa of ann@corp.de"]
    assert len(server.asked) == 3
    assert found(pool, server, "bb", tenant="acme") == [("bb", 1.0)]
    assert server.asked[3:] == ["bb"]
    assert sorted(keys(pool)) == [("acme", "m"), ("default", "m"), ("default", "m")]
    assert list(ledger_problems(pool.engine)) == []


def test_vectors_of_another_length_are_refused(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "a", "aaa")
    found(pool, Server(), "b")
    add(pool, make_point, "b", "bb")
    with pytest.raises(StoreError, match="model 'm' gives embeddings of 3 numbers, and others of it have 2"):
        found(pool, Server(3), "b")


def test_what_was_answered_before_a_failure_is_stored(pool: Pool, make_point: Make) -> None:
    for number in range(70):
        add(pool, make_point, f"{number}", f"a {number}")

    class Failing(Server):
        def __call__(self, texts: Sequence[str]) -> list[list[float]]:
            if self.asked:
                raise RuntimeError("down")
            return super().__call__(texts)

    with pytest.raises(RuntimeError, match="down"):
        found(pool, Failing(), "b")
    server = Server()
    found(pool, server, "b")
    assert len(server.asked) == 70 - 64 + 1


def test_changed_vectors_are_noticed(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "a", "aaa")
    add(pool, make_point, "b", "bb")
    found(pool, Server(), "b")
    for vector in (b"", b"abc", np.ones(2, "<f4").tobytes(), np.array([np.nan, 1], "<f4").tobytes()):
        change = update(embeddings).values(vector=vector)
        pool.write(lambda connection, change=change: connection.execute(change))  # type: ignore[misc]
        problems = [str(problem) for problem in ledger_problems(pool.engine)]
        assert len(problems) == 2
        assert "was changed after it was stored: it is no vector of its model" in problems[0]


def test_a_forgotten_instruction_loses_its_vector(location: Location, make_point: Make) -> None:
    with Pool.open(location) as pool:
        add(pool, make_point, "a", "aaa of marta-lopez")
        add(pool, make_point, "b", "bb")
        found(pool, Server(), "b")
    act = AdminAct("me", "forget", "s", 0.0, "default", "asked")
    assert forget(location, Subject("marta-lopez"), act=act).remaining == ()
    with Pool.open(location) as pool:
        assert len(keys(pool)) == 1
        server = Server()
        assert [name for name, _ in found(pool, server, "bb")] == ["bb", "aaa of <ERASED>"]
        assert server.asked == ["aaa of <ERASED>"]


def test_vectors_move_with_the_pool(pool: Pool, make_point: Make, tmp_path_factory: pytest.TempPathFactory) -> None:
    add(pool, make_point, "a", "aaa")
    found(pool, Server(), "b")
    pool.close()
    target = tmp_path_factory.mktemp("moved") / "pool.db"
    move_pool(pool.location, target)
    server = Server()
    with Pool.open(target) as moved:
        found(moved, server, "b")
    assert server.asked == ["b"]
