"""Tenants never see each other: every read of the pool has a tenant, and another's id is like an unknown one."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from sqlalchemy import Engine

import upturn.pool
from upturn.errors import UpturnError
from upturn.pool import Pool, Selection
from upturn.pool.access import KeyStore, make_key
from upturn.pool.reader import PoolReader
from upturn.records import (
    AgentVersion,
    Alternative,
    ApiKey,
    Decision,
    Evaluation,
    Feedback,
    Observation,
    Task,
    Trajectory,
    Turn,
)

OPERATORS = {"agent_versions", "snapshots", "states"}
"""Reads of what belongs to the operator and not to a tenant; a route needs the permission ``observe`` for them."""
OPERATORS |= {"integrity_problems", "ledger_problems"}  # `upturn pool validate`
OPERATORS |= {"lineage", "plan_pruning", "prove"}  # `upturn pool lineage` and `prune`, `upturn audit prove`
OPERATORS |= {"check_head", "make_engine", "reading_engine", "writing_engine"}  # no records
OPERATORS |= {"evaluated_until", "is_at_head", "last_sequence", "load_router"}  # the state of routers, and a number
OPERATORS |= {"values_of"}  # of decisions that the caller has read
OPERATORS |= {"current_freeze", "records_after"}  # the state of routers, and a number
OPERATORS |= {"check_sharing", "current_policies"}  # what tenants have decided, no records
WITHOUT_CONTENT = {"add", "close", "last_point", "revoke", "version"}
"""Writes, of which ``revoke`` has a tenant, and numbers of the latest change and of the last point."""


def public_methods(cls: type) -> dict[str, Callable[..., Any]]:
    return {name: member for name, member in inspect.getmembers(cls, inspect.isfunction) if name[0] != "_"}


def engine_functions() -> dict[str, Callable[..., Any]]:
    """Public functions of the pool, in all its modules, that get a database."""
    functions: dict[str, Callable[..., Any]] = {}
    for module in walk_packages(upturn.pool.__path__, "upturn.pool."):
        if "migrations" not in module.name:
            for name, member in inspect.getmembers(import_module(module.name), inspect.isfunction):
                is_public = name[0] != "_" and member.__module__ == module.name
                if is_public and Engine in inspect.get_annotations(member, eval_str=True).values():
                    functions[name] = member
    return functions


def test_every_read_names_its_tenant_without_a_default() -> None:
    reads = {**public_methods(PoolReader), **public_methods(KeyStore), **engine_functions()}
    assert {"tasks", "keys", "spending", "admin_acts"} <= reads.keys()
    for name in reads.keys() - OPERATORS - WITHOUT_CONTENT:
        parameter = inspect.signature(reads[name]).parameters.get("tenant")
        assert parameter is not None, f"{name} reads all tenants; give it a tenant, or list it in OPERATORS"
        assert parameter.default is inspect.Parameter.empty, f"{name} has a default tenant"


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    """A pool with a record of each kind that belongs to the tenant acme."""
    with Pool.open(tmp_path / "pool.db") as opened:
        opened.append(AgentVersion("small", "1", "endpoint"))
        opened.append(Task("t1", "do", "mail", "call", tenant="acme"))
        alternatives = (Alternative("small@1", 1.0, None),)
        opened.append(
            Decision(
                id="d1", task_id="t1", family="mail", tenant="acme", policy="uniform", policy_snapshot="s",
                alternatives=alternatives, chosen="small@1", propensity=1.0, reason="only one", agent="small",
            )
        )  # fmt: skip
        turn = Turn(Observation("hi"), "hello", None)
        opened.append(Trajectory("j1", "t1", "small@1", (turn,), Observation(""), "finished", "rendered"))
        opened.append(Evaluation("e1", "t1", "j1", "human", "success", (), {}, {}, 1.0))
        opened.append(Feedback("f1", "decision", "d1", "thumbs", 1.0, tenant="acme"))
        yield opened


Read = Callable[[Pool, str, str], Any]
READS: dict[str, tuple[str, Read]] = {
    "tasks": ("t1", lambda pool, tenant, record: list(pool.tasks(tenant=tenant, ids=[record]))),
    "decisions": ("t1", lambda pool, tenant, record: list(pool.decisions(tenant=tenant, task_ids=[record]))),
    "feedback": ("d1", lambda pool, tenant, record: list(pool.feedback(tenant=tenant, subject_id=record))),
    "trajectory_ids": ("d1", lambda pool, tenant, record: pool.trajectory_ids(record, tenant=tenant)),
    "evaluation_of": ("j1", lambda pool, tenant, record: pool.evaluation_of(record, tenant=tenant)),
    "experiences_of": ("j1", lambda pool, tenant, record: list(pool.experiences_of([record], tenant=tenant))),
}
"""By name: the id that the tenant acme has, and the read."""


def result(read: Callable[[], Any], record: str) -> Any:
    """The result, or the error with the id left out."""
    try:
        return read()
    except UpturnError as error:
        return type(error), str(error).replace(record, "ID")


@pytest.mark.parametrize("name", READS)
def test_another_tenants_id_answers_like_an_unknown_one(pool: Pool, name: str) -> None:
    record, read = READS[name]
    assert read(pool, "acme", record), "its own tenant finds it"
    foreign = result(lambda: read(pool, "other", record), record)
    unknown = result(lambda: read(pool, "other", "zz"), "zz")
    assert foreign == unknown


def test_selections_have_nothing_of_other_tenants(pool: Pool) -> None:
    assert len(pool.selected(Selection(), tenant="acme")) == 1
    assert pool.selected(Selection(), tenant="other") == []
    assert list(pool.trajectories(Selection(), tenant="other")) == []


def test_keys_of_other_tenants_are_not_listed(pool: Pool) -> None:
    made = make_key()
    with KeyStore(pool.location) as store:
        store.add(ApiKey(made.id, made.digest, "acme", "web", ("admin",), 1.0), who="ana")
        assert store.keys(tenant="other") == store.keys(tenant="nobody") == []
