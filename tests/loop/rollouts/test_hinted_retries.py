"""Hinted retries in errands: hints per task, evaluation as for first rollouts, training rows without hints."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pytest
import torch

from benchmarks.errands import MODEL
from benchmarks.errands.kit import ErrandsKit
from upturn.config import Limits
from upturn.environments import EnvironmentKit, one_step
from upturn.environments.hint import HintingKit, hint_of
from upturn.errors import TrainingError
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.rollouts.hinted_retries import HintedRetries, describe_trouble
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec
from upturn.loop.run.task_source import FileKit, WrappedKit
from upturn.records import AgentVersion, Evaluation, Observation, Task, Trajectory, Turn
from upturn.training import ScoredGroup, supervised_rows
from upturn.training.data.hinted_groups import HintedGroup, select_hinted
from upturn.training.selection_settings import HintSettings, SelectionSettings

NANO = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
LIMITS = Limits(max_turns=10, max_tokens=400, max_action_tokens=40)
ROLLOUTS = RolloutSpec("run/star", seed=3, group_size=2)


class _CountingSink:
    """Counts trajectories."""

    def __init__(self) -> None:
        self.count = 0

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        assert run
        assert iteration >= 0
        self.count += len(finished)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def worker() -> PolicyWorker:
    """The shipped model in errands."""
    return PolicyWorker(AgentRuntime(ErrandsKit(), LIMITS), NANO)


@pytest.fixture(scope="module")
def failed(worker: PolicyWorker) -> list[ScoredGroup]:
    """Rollouts on tasks of the third level, all with reward 0."""
    families = [family for family, level in worker.runtime.kit.families.items() if level == 3][:2]
    tasks = list(islice(worker.runtime.kit.tasks(seed=3, split="train", families=families), len(families)))
    failing = replace(ROLLOUTS, reward=lambda *_: 0.0)
    return worker.sample_groups(tasks, 0, failing, _CountingSink())


@pytest.fixture(scope="module")
def hinted(worker: PolicyWorker, failed: list[ScoredGroup]) -> list[HintedGroup]:
    """Retries of these tasks with the answer, all with reward 1."""
    return HintedRetries(worker, replace(ROLLOUTS, reward=lambda *_: 1.0), "rationalisation")(0, failed)


def test_each_retry_has_the_answer_to_its_own_task_as_a_hint(
    worker: PolicyWorker, failed: list[ScoredGroup], hinted: list[HintedGroup]
) -> None:
    assert [item.group.task for item in hinted] == [group.task for group in failed]
    for item in hinted:
        answer = hint_of(worker.runtime.kit, item.group.task)
        assert len(item.group.members) == len(item.hints) == 2
        for member, hint in zip(item.group.members, item.hints, strict=True):
            assert hint.text == f"hint: {answer}"
            assert hint.observation.text == item.group.task.instruction
            assert member.trajectory.turns[0].observation.text == f"{hint.text}\n{hint.observation.text}"
            assert member.trajectory.rows[0].token_ids[: len(hint.hinted_ids)] == hint.hinted_ids
            assert member.trajectory.origin == "sampled"
    ids = [
        member.trajectory.id for group in (*failed, *(item.group for item in hinted)) for member in group.members
    ]
    assert len(set(ids)) == len(ids)


def test_training_rows_have_no_hint(worker: PolicyWorker, hinted: list[HintedGroup]) -> None:
    """Rows start like those of first rollouts, and no prompt contains a line of the answer."""
    failed = [item.group for item in hinted]
    selection = select_hinted(hinted, failed, SelectionSettings(), HintSettings("rationalisation"))
    assert selection.metrics["hinted_trajectories"] == 4
    assert len(selection.selected) + selection.metrics["leaked"] >= 1
    openings = {item.group.task.id: item.hints[0].plain_ids for item in hinted}
    for trajectory in selection.selected:
        opening = openings[trajectory.task_id]
        (row, *_) = supervised_rows([trajectory])
        assert tuple(row.token_ids[: len(opening)]) == opening
        assert row.positions[0] == len(opening)
        assert worker.renderer.open(trajectory.turns[0].observation, "") == opening


def test_the_same_iteration_samples_the_same_retries(worker: PolicyWorker, failed: list[ScoredGroup]) -> None:
    retries = HintedRetries(worker, ROLLOUTS, "rationalisation")
    rows = [
        [member.trajectory.rows for retry in retries(iteration, failed) for member in retry.group.members]
        for iteration in (0, 0, *range(1, 8))
    ]
    assert rows[0] == rows[1]
    assert any(later != rows[0] for later in rows[2:]), (
        "of 20 iterations 12 were like the first: 7 by chance in 3 %"
    )


def test_self_repair_hints_at_the_trouble_of_each_trajectory_and_no_answer(
    worker: PolicyWorker, failed: list[ScoredGroup]
) -> None:
    retries = HintedRetries(worker, ROLLOUTS, "self_repair")(0, failed)
    for each, group in zip(retries, failed, strict=True):
        for hint, first in zip(each.hints, group.members, strict=True):
            assert hint.text == f"hint: this went wrong before: {describe_trouble(first.trajectory)}"


def test_trouble_is_the_last_refused_action_or_else_the_last_one(failed: list[ScoredGroup]) -> None:
    trajectory = failed[0].members[0].trajectory
    turns = tuple(Turn(Observation(""), text, None) for text in ("mail.list", "mail.red id=m1", "user.finish"))
    answer = Observation("mail has no 'red'", "unknown_operation")
    answered = replace(trajectory, turns=turns, final_observation=Observation("done"))
    assert describe_trouble(answered) == "user.finish -> not what was asked for"
    refused_turns = (*turns[:2], replace(turns[2], observation=answer))
    assert (
        describe_trouble(replace(answered, turns=refused_turns))
        == "mail.red id=m1 -> error unknown_operation: mail has no 'red'"
    )
    last = replace(answered, final_observation=Observation("over", "is_over"))
    assert describe_trouble(last) == "user.finish -> error is_over: over"


def test_wrapped_kits_have_the_hints_of_the_inner_kit() -> None:
    errands = ErrandsKit()
    (task,) = islice(errands.tasks(seed=0, split="train", families=["mail_file"]), 1)
    wrapped: list[EnvironmentKit] = [
        WrappedKit(errands, errands.verifier, "acme"),
        FileKit(errands, errands.verifier, [task]),
    ]
    for kit in wrapped:
        assert isinstance(kit, HintingKit)
        assert hint_of(kit, task) == hint_of(errands, task)


def test_an_environment_without_hints_is_refused_with_the_remedy(
    worker: PolicyWorker, failed: list[ScoredGroup]
) -> None:
    plain = one_step("desk", lambda _: ("say yes", {}), lambda _action, _right: True)
    other = PolicyWorker(AgentRuntime(plain, LIMITS), NANO)
    with pytest.raises(
        TrainingError, match="'desk' gives no hint for any of 2 failed tasks; give its kit a method"
    ):
        HintedRetries(other, ROLLOUTS, "rationalisation")(0, failed)
    assert HintedRetries(other, ROLLOUTS, "rationalisation")(0, []) == []
