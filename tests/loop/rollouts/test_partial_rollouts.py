"""Iterations that end at their first finished tasks, and go on with the others."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.config import Limits
from upturn.environments.kit import resolve_kit
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.rollouts.partial_rollouts import PartialRollouts
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec, TaskSampler
from upturn.models.engine import weights_hash
from upturn.records import AgentVersion, Trajectory
from upturn.training import PartialSettings, ScoredGroup, written_count
from upturn.training.data.collection import StatefulCollect

KIT = resolve_kit(ENVIRONMENT)
LIMITS = Limits(max_turns=4, max_tokens=200, max_action_tokens=24)
VERSION = AgentVersion("nano", "1", "local_model", model=MODEL)
FAMILIES = {"mail_file": 1.0, "cell_ask": 1.0}


class Sink:
    """Remembers what it gets."""

    def __init__(self) -> None:
        self.stored: dict[int, list[Trajectory]] = {}

    def append(self, run: str, iteration: int, finished: Sequence[Any]) -> None:
        self.stored.setdefault(iteration, [trajectory for _, trajectory, _ in finished])


def flattened() -> PolicyWorker:
    """Nano with smaller embeddings, which writes texts of very different length."""
    worker = PolicyWorker(AgentRuntime(KIT, LIMITS), VERSION)
    change(worker, 0.5)
    return worker


def change(worker: PolicyWorker, factor: float) -> None:
    with torch.no_grad():
        next(iter(worker.model.parameters())).mul_(factor)


def collect_of(worker: PolicyWorker, sink: Sink, **settings: int) -> PartialRollouts:
    sampler = TaskSampler(KIT, FAMILIES, 3, seed=4)
    partial = PartialSettings(**{"extra_tasks": 3, **settings})
    return PartialRollouts(worker, sampler, RolloutSpec("run", 4, 3), sink, tasks=3, settings=partial)


def trajectories(groups: Sequence[ScoredGroup]) -> list[Trajectory]:
    return [member.trajectory for group in groups for member in group.members]


def rows(groups: Sequence[ScoredGroup]) -> list[Any]:
    return [(item.id, item.rows, item.model_version) for item in trajectories(groups)]


@cache
def run(
    iterations: int, *, restart: bool = False, **settings: int
) -> tuple[list[Any], list[dict[str, float]], Sink]:
    """Groups by iteration, with other weights in each; ``restart``: each iteration in a new process."""
    worker, sink = flattened(), Sink()
    collect = collect_of(worker, sink, **settings)
    groups, metrics = [], []
    for iteration in range(iterations):
        groups.append(collect(iteration))
        metrics.append(dict(collect.metrics()))
        if restart:
            state, collect = collect.state(), collect_of(worker, sink, **settings)
            collect.load_state(state)
        change(worker, 1.01)
    return groups, metrics, sink


def test_unfinished_tasks_go_on_with_the_next_weights() -> None:
    groups, metrics, sink = run(4)
    assert [len(found) for found in groups] == [3] * 4 and [values["partial_open"] for values in metrics] == [
        3.0
    ] * 4
    members = [item for found in groups for item in trajectories(found)]
    assert len({item.id for item in members}) == len(members) == 36
    assert {item.error for item in members} == {""}
    assert max(len(item.model_versions) for item in members) >= 2, "some trajectories span several iterations"
    assert metrics[0]["partial_age"] == 0.0 and metrics[-1]["partial_age"] > 0.0
    stored = [item.id for found in sink.stored.values() for item in found]
    assert len(stored) == len(set(stored)) and {item.id for item in members} <= set(stored)


def test_tokens_of_weights_that_are_too_old_become_context() -> None:
    """Rows and rewards stay; only what is trained on differs."""
    masked, metrics, sink = run(4, max_age=0)
    whole, _, _ = run(4, max_age=99)
    worker, versions = flattened(), []
    for _ in range(4):
        versions.append(weights_hash(worker.model))
        change(worker, 1.01)
    for iteration, (left, right) in enumerate(zip(masked, whole, strict=True)):
        assert [item.turn_rewards for found in left for item in found.members] == [
            item.turn_rewards for found in right for item in found.members
        ]
        for one, other in zip(trajectories(left), trajectories(right), strict=True):
            assert [row.token_ids for row in one.rows] == [row.token_ids for row in other.rows]
            assert not written_count(one) or one.model_versions == (versions[iteration],)
    written = [sum(map(written_count, trajectories(found))) for found in whole]
    left_over = [sum(map(written_count, trajectories(found))) for found in masked]
    assert left_over[0] == written[0] and left_over[3] < written[3]
    assert metrics[3]["partial_masked"] == pytest.approx(1 - left_over[3] / written[3])
    stored = {item.id: item for found in sink.stored.values() for item in found}
    for item in trajectories(whole[3]):
        assert stored[item.id].rows == item.rows, "the sink gets all tokens"


def test_a_restart_between_iterations_changes_nothing() -> None:
    groups, metrics, sink = run(4)
    again, same_metrics, other_sink = run(4, restart=True)
    assert [rows(found) for found in groups] == [rows(found) for found in again]
    assert metrics == same_metrics
    assert [[item.id for item in found] for found in sink.stored.values()] == [
        [item.id for item in found] for found in other_sink.stored.values()
    ]


def test_it_is_a_stateful_collect_with_an_identity() -> None:
    collect = collect_of(flattened(), Sink(), max_age=0)
    assert isinstance(collect, StatefulCollect)
    assert collect.identity() == {"partial": {"extra_tasks": 3, "max_age": 0}}
