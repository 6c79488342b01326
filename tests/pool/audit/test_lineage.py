"""What a record was made from and what was made from it, from every kind of record."""

from collections.abc import Callable

import pytest

from upturn.errors import UnknownNameError
from upturn.pool import Location, Pool, RolloutKey, take_snapshot_of
from upturn.pool.audit import Branch, lineage
from upturn.records import AgentVersion, Evaluation, Release, Run, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def tree(branch: Branch) -> object:
    """Returns ``kind id`` of the branches, with what is below them."""
    below = [tree(inner) for inner in branch.branches] + ([branch.omitted] if branch.omitted else [])
    named = f"{branch.node.kind} {branch.node.id}{' again' * branch.is_repeated}"
    return {named: below} if below else named


@pytest.fixture
def pool(location: Location, make_point: MakePoint) -> Pool:
    """A snapshot of a and b, and rollouts of c, became version 2, which was released; version 3 follows it."""
    opened = Pool.open(location)
    opened.append(*make_point("a"), *make_point("b"))
    opened.append(*make_point("c"), rollout=RolloutKey("run-1/train", 0))
    snapshot = take_snapshot_of(opened, ["trajectory-a", "trajectory-b"], tenant="default", criteria="{}")
    opened.append(
        AgentVersion("nano", "1", "local_model"),
        AgentVersion("nano", "2", "local_model", parent="nano@1", snapshot=snapshot.id, run="run-1"),
        AgentVersion("nano", "3", "local_model", parent="nano@2", run="run-1"),
        Run("run-1", "train sft", "hash", 3, "0.1.0"),
        Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0),
    )
    return opened


def test_effects_lead_from_a_trajectory_to_the_release(pool: Pool) -> None:
    with pool:
        (snapshot,) = pool.snapshots()
        found = lineage(pool.engine, "trajectory-a")
        assert tree(found.effects) == {
            "trajectory trajectory-a": [
                {f"snapshot {snapshot.id}": [{"version nano@2": ["version nano@3", "release r"]}]}
            ]
        }
        assert tree(found.causes) == {"trajectory trajectory-a": ["task task-a"]}
        assert tree(lineage(pool.engine, "trajectory-c").effects) == {
            "trajectory trajectory-c": [
                {"run run-1": [{"version nano@2": ["version nano@3", "release r"]}, "version nano@3 again"]}
            ]
        }


def test_causes_lead_from_a_release_to_the_trajectories(pool: Pool) -> None:
    with pool:
        (snapshot,) = pool.snapshots()
        causes = [{f"trajectory trajectory-{name}": [f"task task-{name}"]} for name in "ab"]
        of_run = {"run run-1": [{"trajectory trajectory-c": ["task task-c"]}]}
        version = {"version nano@2": [{f"snapshot {snapshot.id}": causes}, of_run, "version nano@1"]}
        assert tree(lineage(pool.engine, "r").causes) == {"release r": [version]}
        assert tree(lineage(pool.engine, "r").effects) == "release r"
        assert tree(lineage(pool.engine, "nano@3").causes) == {
            "version nano@3": [
                of_run,
                {"version nano@2": [{f"snapshot {snapshot.id}": causes}, "run run-1 again", "version nano@1"]},
            ]
        }  # fmt: skip
        assert tree(lineage(pool.engine, snapshot.id).causes) == {f"snapshot {snapshot.id}": causes}


def test_branches_are_limited_and_the_others_counted(pool: Pool) -> None:
    with pool:
        (snapshot,) = pool.snapshots()
        causes = lineage(pool.engine, snapshot.id, limit=1).causes
        assert tree(causes) == {f"snapshot {snapshot.id}": [{"trajectory trajectory-a": ["task task-a"]}, 1]}


def test_an_unknown_id_is_refused(pool: Pool) -> None:
    with pool, pytest.raises(UnknownNameError, match="has the id 'x'; check the id"):
        lineage(pool.engine, "x")
