"""Tasks that clients submit: durable, run once, cancellable, per client."""

import asyncio
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.dialects import RequestError
from upturn.loop.online import Client, TaskQueue
from upturn.pool import Pool, tags_of
from upturn.pool.access import Border, set_policy
from upturn.pool.calls import set_states, submit_task
from upturn.records import Task

CLIENT = Client("default")


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``toy_desk.py``: agents that solve sums and products, or refuse."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    return importlib.import_module("toy_desk")


@pytest.fixture
def run(toys: ModuleType, tmp_path: Path) -> Iterator[ModuleType]:
    with toys.opened(tmp_path / "run") as context:
        yield context


async def finished(queue: TaskQueue, *tasks: Task) -> list[str]:
    """The states of the tasks once none is queued or running."""
    while True:
        states: list[str] = [queue.find(task.id, CLIENT).state for task in tasks]
        if not set(states) & {"queued", "running"}:
            return states
        await asyncio.sleep(0.01)


async def test_submitted_tasks_are_routed_run_evaluated_and_stored(run: ModuleType) -> None:
    waves: list[int] = []
    queue = TaskQueue(run.pool, run.service, lambda: waves.append(1))
    tasks = run.next_tasks(5)
    queue.start()
    for task in tasks:
        assert (await queue.submit(task, CLIENT)).state in ("queued", "running", "done")
    assert await finished(queue, *tasks) == ["done"] * 5
    await queue.stop()
    assert waves
    assert sorted(decision.task_id for decision in run.pool.decisions(tenant="default")) == sorted(
        task.id for task in tasks
    )
    for task in tasks:
        experience = queue.experience(queue.find(task.id, CLIENT))
        assert experience is not None
        assert experience.task == task
        assert experience.evaluation is not None


async def test_the_same_task_again_is_the_same_submission_and_runs_once(run: ModuleType) -> None:
    queue = TaskQueue(run.pool, run.service)
    [task] = run.next_tasks(1)
    queue.start()
    for _ in range(3):
        await queue.submit(task, CLIENT)
        await finished(queue, task)
    await queue.stop()
    assert len(list(run.pool.trajectories(tenant="default"))) == 1
    assert len(queue.submitted(CLIENT)) == 1


async def test_a_task_that_the_environment_cannot_begin_is_refused_and_not_stored(run: ModuleType) -> None:
    queue = TaskQueue(run.pool, run.service)
    [task] = run.next_tasks(1)
    with pytest.raises(
        RequestError, match="the environment 'desk' cannot begin this task: desk has no family"
    ) as caught:
        await queue.submit(replace(task, id="other", family="no-such"), CLIENT)
    assert (caught.value.status, caught.value.code) == (400, "unfit_task")
    assert queue.submitted(CLIENT) == []


async def test_the_latest_tasks_are_listed_first_and_by_state(run: ModuleType) -> None:
    queue = TaskQueue(run.pool, run.service)
    tasks = run.next_tasks(3)
    for task in tasks:
        await queue.submit(task, CLIENT)
    await queue.cancel(tasks[1].id, CLIENT)
    assert [member.task for member in queue.submitted(CLIENT, limit=2)] == [tasks[2], tasks[1]]
    assert [member.task for member in queue.submitted(CLIENT, states=("cancelled",))] == [tasks[1]]


async def test_an_id_of_another_task_or_client_is_refused(run: ModuleType) -> None:
    queue = TaskQueue(run.pool, run.service)
    [task] = run.next_tasks(1)
    await queue.submit(task, CLIENT)
    for changed, client in ((replace(task, level=3), CLIENT), (task, Client("default", "other"))):
        with pytest.raises(RequestError) as caught:
            await queue.submit(changed, client)
        assert caught.value.status == 409
    with pytest.raises(RequestError, match="no task") as caught:
        queue.find(task.id, Client("default", "other"))
    assert caught.value.status == 404


async def test_a_queued_task_can_be_cancelled_and_does_not_run(run: ModuleType) -> None:
    queue = TaskQueue(run.pool, run.service)
    first, second = run.next_tasks(2)
    for task in (first, second):
        await queue.submit(task, CLIENT)
    assert (await queue.cancel(first.id, CLIENT)).state == "cancelled"
    queue.start()
    assert await finished(queue, first, second) == ["cancelled", "done"]
    assert (await queue.cancel(second.id, CLIENT)).state == "done"
    await queue.stop()
    assert [trajectory.task_id for trajectory in run.pool.trajectories(tenant="default")] == [second.id]


async def test_tasks_that_an_earlier_process_left_run_at_the_start_and_done_ones_do_not(run: ModuleType) -> None:
    left, half_done, new = run.next_tasks(3)
    for task in (left, half_done, new):
        submit_task(run.pool, task, "")
    await asyncio.to_thread(run.service.serve, [half_done])
    set_states(run.pool, [left.id, half_done.id], "running")
    queue = TaskQueue(run.pool, run.service)
    queue.start()
    assert await finished(queue, left, half_done, new) == ["done"] * 3
    await queue.stop()
    assert len(list(run.pool.trajectories(tenant="default"))) == 3


async def test_a_task_that_no_agent_may_do_fails_with_the_reason(run: ModuleType) -> None:
    queue = TaskQueue(run.pool, run.service)
    [task] = run.next_tasks(1)
    for agent in list(run.router.registry.agents()):
        run.router.registry.remove(agent)
    queue.start()
    await queue.submit(task, CLIENT)
    assert await finished(queue, task) == ["failed"]
    await queue.stop()
    assert "no agent is in service" in queue.find(task.id, CLIENT).reason


class Purse:
    """The accounts of a test: the key ``poor`` may run nothing."""

    def __init__(self) -> None:
        self.charged: list[str] = []

    def refusal(self, tenant: str, key: str) -> str:
        return f"{tenant} has spent all of it" if key == "poor" else ""

    def charge(self, task_ids: Sequence[str]) -> None:
        self.charged += task_ids

    def cost_usd(self, task_id: str, tenant: str) -> float | None:
        return None


async def test_tasks_are_charged_and_not_run_without_means(run: ModuleType) -> None:
    purse = Purse()
    queue = TaskQueue(run.pool, run.service, accounts=purse)
    paid, unpaid = run.next_tasks(2)
    poor = Client("default", "poor")
    await queue.submit(paid, CLIENT)
    await queue.submit(unpaid, poor)
    queue.start()
    assert await finished(queue, paid) == ["done"]
    while (submission := queue.find(unpaid.id, poor)).state in ("queued", "running"):
        await asyncio.sleep(0.01)
    await queue.stop()
    assert (submission.state, submission.reason) == ("failed", "default has spent all of it")
    assert purse.charged == [paid.id]
    assert not run.pool.trajectory_ids(unpaid.id, tenant="default")


@pytest.mark.parametrize("turns", range(4))
async def test_a_queue_that_stops_as_a_task_arrives_ends(
    run: ModuleType, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pool, "has_one_writer", False)  # only then it looks for tasks of others while it waits
    queue = TaskQueue(run.pool, run.service)
    queue.start()
    while not queue._is_wanted._waiters:
        await asyncio.sleep(0)
    queue._is_wanted.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await queue.stop()


async def test_a_version_that_is_taken_out_of_service_after_the_decision_still_does_the_task(
    run: ModuleType,
) -> None:
    [task] = run.next_tasks(1)
    decisions, versions = run.service.decide([task]), run.service.versions()
    run.router.registry.remove(decisions[0].agent)
    [served] = await asyncio.to_thread(run.service.run, [task], decisions, versions)
    assert served.trajectory.agent_version == decisions[0].chosen


async def test_tags_of_a_submitted_task_are_stored_once(run: ModuleType) -> None:
    queue = TaskQueue(run.pool, run.service)
    (task,) = run.next_tasks(1)
    with pytest.raises(RequestError, match="a tag has 1 to 64 printable characters"):
        await queue.submit(task, CLIENT, tags=["vip", " "])
    for _ in range(2):
        await queue.submit(task, CLIENT, tags=["vip", "march"])
    assert tags_of(run.pool, [task.id], tenant="default") == {task.id: ["march", "vip"]}
    assert len(list(run.pool.feedback(tenant="default"))) == 2


@pytest.fixture
def private(run: ModuleType) -> Iterator[ModuleType]:
    """A run whose tenant anonymises before anything is stored."""
    set_policy(run.pool, {"anonymise": "write"}, tenant="default", who="ana", why="contract", when=1.0)
    run.service.border = Border(run.pool)
    yield run


def with_mail(task: Task) -> Task:
    return replace(task, context={**task.context, "mail": "maria.silva@corp.de"})


async def test_a_task_runs_as_it_was_sent_and_is_stored_anonymised(private: ModuleType) -> None:
    queue = TaskQueue(private.pool, private.service, border=private.service.border)
    task, clean = private.next_tasks(2)
    sent = with_mail(task)
    for _ in range(2):
        submission = await queue.submit(sent, CLIENT)
        assert submission.task.context["mail"] == "<EMAIL>"
        assert submission.reason.startswith("stored anonymised")
    await queue.submit(clean, CLIENT)
    queue.start()
    assert await finished(queue, sent, clean) == ["done", "done"]
    await queue.stop()
    done = queue.find(task.id, CLIENT)
    assert (done.task.context["mail"], done.reason) == ("<EMAIL>", "")
    experience = queue.experience(done)
    assert experience is not None
    assert experience.evaluation is not None
    assert experience.evaluation.verdict == "success"  # the agent got the sum


async def test_a_task_whose_text_is_lost_with_its_process_fails_by_name(private: ModuleType) -> None:
    task, again = map(with_mail, private.next_tasks(2))
    earlier = TaskQueue(private.pool, private.service, border=private.service.border)
    for sent in (task, again):
        await earlier.submit(sent, CLIENT)
    set_states(private.pool, [task.id], "running")
    queue = TaskQueue(private.pool, private.service, border=private.service.border)
    await queue.submit(again, CLIENT)  # a client that sends it again gives its text back
    queue.start()
    assert await finished(queue, task, again) == ["failed", "done"]
    await queue.stop()
    assert "submit it again with another id" in queue.find(task.id, CLIENT).reason


async def test_a_refused_or_cancelled_task_leaves_no_text_in_memory(private: ModuleType) -> None:
    queue = TaskQueue(private.pool, private.service, border=private.service.border)
    task, other = map(with_mail, private.next_tasks(2))
    submit_task(private.pool, replace(other, context={}), "")
    with pytest.raises(RequestError, match="stored"):
        await queue.submit(other, CLIENT)
    await queue.submit(task, CLIENT)
    assert list(queue._held) == [task.id]
    await queue.cancel(task.id, CLIENT)
    assert queue._held == {}


async def test_tags_are_anonymised_where_tasks_are(private: ModuleType) -> None:
    queue = TaskQueue(private.pool, private.service, border=private.service.border)
    (task,) = private.next_tasks(1)
    await queue.submit(task, CLIENT, tags=["of maria.silva@corp.de"])
    assert tags_of(private.pool, [task.id], tenant="default") == {task.id: ["of <EMAIL>"]}
