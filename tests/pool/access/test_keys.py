"""The table of API keys, on real pool files and with other processes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text

from upturn.errors import StoreConflictError, StoreError, UnknownNameError
from upturn.pool import ALL_TENANTS, Pool, ledger_problems
from upturn.pool.access import KeyStore, admin_acts, key_digest, key_id, make_key, record_act
from upturn.pool.database import writing_engine
from upturn.records import AdminAct, ApiKey, Task


def build_key(identifier: str, tenant: str = "default", created_at: float = 10.0) -> ApiKey:
    return ApiKey(identifier, key_digest(identifier), tenant, "web", ("client",), created_at)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Pool.open(tmp_path / "pool.db").close()
    return tmp_path / "pool.db"


def test_a_key_has_256_random_bits_and_its_repr_has_none_of_them() -> None:
    made = make_key()
    assert key_id(made.key) == made.id
    assert made.key.startswith(f"up-{made.id}-")
    secret = made.key.removeprefix(f"up-{made.id}-")
    assert len(secret) == 43, "32 bytes in base64 without padding"
    assert secret not in repr(made)
    assert made.digest == key_digest(made.key)
    assert len({make_key().key for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "text",
    ["", "up-", "up-0123456789ab-short", "sk-0123456789ab-" + "a" * 43, "up-0123456789AB-" + "a" * 43, "up-é" * 20],
)
def test_other_texts_have_no_id(text: str) -> None:
    assert key_id(text) == ""


def test_keys_are_returned_to_their_tenant_only(path: Path) -> None:
    with KeyStore(path) as store:
        first, second = build_key("a"), build_key("b", "other", 5.0)
        store.add(first, who="ana")
        store.add(second, who="ana")
        assert store.keys(tenant="default") == [first]
        assert store.keys(tenant="other") == [second]
        assert store.keys(tenant=ALL_TENANTS) == [second, first], "by time of creation"
        assert store.keys(tenant="nobody") == []


def test_revoking_keeps_the_key_and_raises_the_version(path: Path) -> None:
    with KeyStore(path) as store:
        assert store.version() == 0
        store.add(build_key("a"), who="ana")
        assert store.version() == 1
        revoked = store.revoke("a", when=20.0, who="ben", why="leaked")
        assert revoked == replace(build_key("a"), revoked_at=20.0)
        assert store.revoke("a", when=30.0, who="ben") == revoked, "the first time counts"
        assert store.version() == 2
        assert store.keys(tenant="default") == [revoked]


def test_another_tenants_key_is_revoked_like_an_unknown_one(path: Path) -> None:
    with KeyStore(path) as store:
        store.add(build_key("a"), who="ana")
        with pytest.raises(UnknownNameError) as foreign:
            store.revoke("a", when=20.0, who="eve", tenant="other")
        with pytest.raises(UnknownNameError) as unknown:
            store.revoke("z", when=20.0, who="eve", tenant="other")
        assert str(foreign.value).replace("'a'", "'z'") == str(unknown.value)
        assert store.keys(tenant="default") == [build_key("a")]


def test_an_id_is_stored_once(path: Path) -> None:
    with KeyStore(path) as store:
        store.add(build_key("a"), who="ana")
        with pytest.raises(StoreConflictError, match="'a' is stored already"):
            store.add(build_key("a", "other"), who="ana")
        assert store.version() == 1


def test_acts_say_who_what_and_when_and_belong_to_a_tenant_or_to_the_installation(path: Path) -> None:
    with KeyStore(path) as store:
        store.add(build_key("a"), who="ana", why="for the shop")
        store.revoke("a", when=20.0, who="ben", why="leaked")
        record_act(path, AdminAct("ana", "reload", "upturn.toml", 30.0, ""))
        assert admin_acts(store.engine, tenant="default") == [
            AdminAct("ana", "keys add", "a", 10.0, "default", "for the shop"),
            AdminAct("ben", "keys revoke", "a", 20.0, "default", "leaked"),
            AdminAct("ana", "reload", "upturn.toml", 30.0, ""),
        ]
        assert [act.what for act in admin_acts(store.engine, tenant="other")] == ["reload"]
        assert len(admin_acts(store.engine, tenant=ALL_TENANTS)) == 3
        assert store.version() == 2, "an act that changes no key is no new version"


def test_a_missing_pool_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no pool at"):
        KeyStore(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE api_keys SET fields = replace(fields, '20.0', 'null')", "api_keys 'a' was changed"),
        ("DELETE FROM api_keys", "api_keys 'a' was deleted"),
        (
            "UPDATE admin_acts SET act = replace(act, 'ana', 'eve')",
            "admin_acts 'a' was changed after it was stored",
        ),
        ("DELETE FROM admin_acts WHERE sequence = 1", "admin_acts 'a' was deleted"),
    ],
)
def test_changes_by_something_else_are_noticed(path: Path, change: str, problem: str) -> None:
    with KeyStore(path) as store:
        store.add(build_key("a"), who="ana")
        store.revoke("a", when=20.0, who="ana")
        assert list(ledger_problems(store.engine)) == []
        engine = writing_engine(path)
        with engine.begin() as connection:
            connection.execute(text(change))
        engine.dispose()
        assert any(str(found).startswith(problem) for found in ledger_problems(store.engine))


def test_keys_change_while_another_thread_writes_records(path: Path) -> None:
    with Pool.open(path) as pool, KeyStore(path) as store:

        def write(start: int) -> None:
            for index in range(start, start + 60):
                pool.append(Task(f"t{index}", "do", "mail", "office"))

        writers = [Thread(target=write, args=(start,)) for start in (0, 60)]
        for writer in writers:
            writer.start()
        for index in range(20):
            store.add(build_key(f"k{index}"), who="ana")
        for writer in writers:
            writer.join()
        assert len(list(pool.tasks(tenant="default"))) == 120
        assert len(store.keys(tenant="default")) == 20
        assert list(ledger_problems(pool.engine)) == []


ADD = """
import os, sys
from pathlib import Path
from upturn.pool.access import KeyStore
from upturn.records import ApiKey
is_first = os.fork() > 0
with KeyStore(Path(sys.argv[1])) as store:
    for index in range(6):
        store.add(ApiKey(f"{is_first}{index}", "d", "default", "n", ("client",), 1.0), who="ana")
if is_first:
    sys.exit(os.wait()[1])
"""
"""Two processes that add six keys each."""


def test_processes_add_keys_at_the_same_time(path: Path) -> None:
    subprocess.run([sys.executable, "-c", ADD, str(path)], check=True)
    with KeyStore(path) as store:
        assert len(store.keys(tenant="default")) == 12
        assert store.version() == 12
        assert list(ledger_problems(store.engine)) == []
