from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import update

from tests.pool.conftest import share
from upturn.errors import UnknownNameError
from upturn.pool import Pool, Selection, schema, take_snapshot
from upturn.pool.exports import snapshot_card, write_card
from upturn.records import AgentVersion, Evaluation, Snapshot, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def section(text: str, title: str) -> list[str]:
    """The lines of a section of the card that are not empty."""
    _, _, after = text.partition(f"## {title}\n")
    return [line for line in after.partition("\n## ")[0].splitlines() if line]


@pytest.fixture
def snapshot(pool: Pool, make_point: MakePoint) -> Snapshot:
    """Three data points of two families and two agents, one with an e-mail address."""
    private = make_point("c", family="a|b", agent="other@1", verdict="missing", score=None)
    pool.append(*make_point("a", task="t"), *make_point("b", task="t", verdict="failure", score=0.0)[1:])
    pool.append(replace(private[0], instruction="Ask ann@corp.de."), *private[1:])
    taken = take_snapshot(pool, tenants=["default"], selection=Selection(environments=("office",)))
    pool.append(AgentVersion("nano", "2", "local_model", "nano", snapshot=taken.id))
    return taken


def test_the_card_counts_what_the_snapshot_has(pool: Pool, snapshot: Snapshot, make_point: MakePoint) -> None:
    pool.append(*make_point("later"), replace(make_point("a", task="t")[2], id="later", verdict="failure"))
    card = snapshot_card(pool, snapshot.id, tenant="default")
    text = write_card(card, licence="CC BY 4.0")
    assert "Trajectories: 3, tasks: 2.\n" in text
    for line in (
        "| tenants | default |",
        "| recorded | 1970-01-01 00:16 UTC to 1970-01-01 00:16 UTC |",
        "| turns | 6 |",
        "| written tokens | 9 |",
        "| origin | sampled 3 |",
        "| licence | CC BY 4.0 |",
        "| trained on it | nano@2 |",
        "1 of 3 trajectories have personal data or secrets that the patterns find; there may be more.",
        "Verdicts: failure 1, missing 1, success 1.",
        "How the trajectories ended: finished 3.",
        "2 of 3 trajectories (66.7%) pass all gates.",
        '  "environments": [',
        f"upturn pool export --snapshot {snapshot.id} --tenant default --out snapshot.jsonl",
    ):
        assert line in text
    assert section(text, "Families")[2:] == [
        "| a\\|b | 1 | 1 | 0 | 0 | 1 | 0.0% |",
        "| mail | 1 | 2 | 1 | 1 | 0 | 50.0% |",
    ]
    assert section(text, "Agents")[2:] == [
        "| nano@1 | 1 | 2 | 1 | 1 | 0 | 50.0% |",
        "| other@1 | 1 | 1 | 0 | 0 | 1 | 0.0% |",
    ]
    assert "| evaluated | 2 | 66.7% |" in section(text, "Quality")
    assert "| manifest: the snapshot's id, which matches what is stored | criteria, tenants, ids of" in text
    assert "not stated" in write_card(card)


def test_equal_records_have_equal_digests_and_changed_ones_do_not(pool: Pool, snapshot: Snapshot) -> None:
    first = snapshot_card(pool, snapshot.id, tenant="default")
    assert snapshot_card(pool, snapshot.id, tenant="default").content_digest == first.content_digest
    table = schema.evaluations
    pool.write(
        lambda connection: connection.execute(
            update(table).where(table.c.id == "evaluation-a").values(id="evaluation-x")
        )
    )
    changed = snapshot_card(pool, snapshot.id, tenant="default")
    assert (first.is_manifest_valid, changed.is_manifest_valid) == (True, False)
    assert "**does not match what is stored**" in write_card(changed)


def test_a_tenants_card_has_nothing_of_others(pool: Pool, make_point: MakePoint) -> None:
    pool.append(*make_point("a"))
    pool.append(*make_point("canary", tenant="eve", family="canary", agent="canary@1"))
    share(pool, "eve")
    snapshot = take_snapshot(pool, tenants=["default", "eve"], trainer="default")
    text = write_card(snapshot_card(pool, snapshot.id, tenant="default"))
    assert "Trajectories: 1, tasks: 1, a part of a snapshot that has 1 other tenants too." in text
    assert "canary" not in text
    assert "eve" not in text.replace("ever", "")
    whole = write_card(snapshot_card(pool, snapshot.id, tenant=None))
    assert "| tenants | default, eve |" in whole
    assert "Trajectories: 2, tasks: 2.\n" in whole
    with pytest.raises(UnknownNameError, match="does not include tenant 'bob'"):
        snapshot_card(pool, snapshot.id, tenant="bob")


def test_an_empty_snapshot_has_a_card(pool: Pool) -> None:
    snapshot = take_snapshot(pool, tenants=["default"])
    text = write_card(snapshot_card(pool, snapshot.id, tenant="default"))
    assert "| recorded | no trajectories |" in text
    assert "0 of 0 trajectories (-) pass all gates." in text
    assert "| content | the records of the trajectories above | `none` |" in text
