"""Training on records of other tenants: by consent, and without what identifies anybody."""

from dataclasses import replace

import pytest

from tests.pool.conftest import build_point, share
from upturn.errors import SharingError
from upturn.pool import Pool, learnable_in, take_snapshot
from upturn.pool.access import admin_acts
from upturn.records import Observation, fields_json

MAIL = "maria.silva@corp.de"


def add(pool: Pool, name: str, tenant: str) -> None:
    """A data point whose texts have an address."""
    task, trajectory, evaluation = build_point(name, tenant=tenant)
    turn = replace(trajectory.turns[0], observation=Observation(f"one mail from {MAIL}"))
    task = replace(task, instruction=f"Answer {MAIL}.", context={MAIL: MAIL})
    trajectory = replace(trajectory, turns=(turn,), final_state={"mail": MAIL})
    pool.append(task, replace(trajectory, rows=()) if tenant == "default" else trajectory, evaluation)


def test_others_are_read_anonymised_and_without_tokens_and_the_own_records_as_they_are(pool: Pool) -> None:
    for name, tenant in (("a", "default"), ("b", "bank"), ("c", "clinic")):
        add(pool, name, tenant)
    share(pool, "bank")
    snapshot = take_snapshot(pool, tenants=["default", "bank"], trainer="default")
    own, other = learnable_in(pool, snapshot.id, tenant="default")
    assert own == next(iter(pool.experiences(tenant="default")))
    assert other.task.tenant == "bank"
    assert other.task.instruction == "Answer <EMAIL>."
    assert other.trajectory.turns[0].observation.text == "one mail from <EMAIL>"
    assert other.trajectory.rows == ()
    assert MAIL not in "".join(map(fields_json, filter(None, other)))


def test_clean_records_of_others_lose_their_tokens_too(pool: Pool) -> None:
    pool.append(*build_point("a"), *build_point("b", tenant="bank"))
    share(pool, "bank")
    snapshot = take_snapshot(pool, tenants=["default", "bank"], trainer="default")
    assert [len(item.trajectory.rows) for item in learnable_in(pool, snapshot.id, tenant="default")] == [1, 0]


def test_tenants_that_did_not_opt_in_are_refused_by_name(pool: Pool) -> None:
    for name in ("default", "bank", "clinic"):
        add(pool, name, name)
    share(pool, "bank")
    with pytest.raises(SharingError, match="'clinic' has not opted in to training by other tenants"):
        take_snapshot(pool, tenants=["default", "bank", "clinic"], trainer="default")
    with pytest.raises(SharingError, match="'clinic', 'default' have not opted in"):
        take_snapshot(pool, tenants=["default", "bank", "clinic"])
    assert list(pool.snapshots()) == []


def test_a_revoked_consent_ends_the_reading_of_earlier_snapshots(pool: Pool) -> None:
    add(pool, "a", "default")
    add(pool, "b", "bank")
    share(pool, "bank")
    snapshot = take_snapshot(pool, tenants=["default", "bank"], trainer="default")
    share(pool, "bank", is_shared=False)
    with pytest.raises(SharingError, match="'bank' has not opted in"):
        list(learnable_in(pool, snapshot.id, tenant="default"))
    assert [act.what for act in admin_acts(pool.engine, tenant="bank")] == [
        "policy set share=True",
        "policy set share=False",
    ]
