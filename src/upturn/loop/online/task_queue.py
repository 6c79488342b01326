"""Whole tasks that clients submit to the agents that Upturn runs: a durable queue, served in waves.

A task is stored before it is acknowledged. Waves go through ``loop.service``: the router decides here, in the event
loop; rollouts and evaluations run in one thread. Tasks that were queued or running when the process ended run again
at the next start, unless their evaluation is stored.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from uuid import uuid4

from upturn.dialects import RequestError
from upturn.environments import is_blocking
from upturn.errors import RoutingError, StoreConflictError, StoreError, UpturnError, error_text
from upturn.loop.online.account import TaskAccounts
from upturn.loop.online.episode import Client
from upturn.loop.service import Service
from upturn.pool import ALL_TENANTS, TAG_RULE, Experience, Pool, imported_tag, is_tag
from upturn.pool.access import Border
from upturn.pool.calls import (
    Submission,
    SubmissionState,
    cancel_queued,
    find_submission,
    set_states,
    submissions_in,
    submit_task,
)
from upturn.pool.leases import Lease
from upturn.records import Feedback, Task

_POLL_SECONDS = 1.0
_WAVE = 32
"""Tasks in one wave: a new one begins when the last of them is done."""
_MOST_HELD = 1_000
"""Waiting tasks whose text is in memory only."""
_HELD = "stored anonymised; the text that the agent gets is in the gateway's memory until the task has run"
"""Note of such a task."""
_LOST = (
    "the task was stored anonymised, and the gateway that had its text in memory has ended; submit it again "
    "with another id"
)
_log = logging.getLogger("upturn.gateway")


class TaskQueue:
    """The queue of one server. For one event loop."""

    def __init__(
        self,
        pool: Pool,
        service: Service,
        on_done: Callable[[], None] = lambda: None,
        *,
        accounts: TaskAccounts | None = None,
        lease: Lease | None = None,
        border: Border | None = None,
    ) -> None:
        """``on_done`` is called after each wave. ``accounts``: pay for tasks; None = nobody counts them.
        ``lease``: under which the service stores what it runs; None = one of its own. ``border``: decides what is
        stored of a task; None = all of it."""
        self._pool = pool
        self._lease = Lease(pool, "tasks") if lease is None else lease
        self._service = service
        self._on_done = on_done
        self._accounts = accounts
        self._border = border
        self._held: dict[str, Task] = {}
        """By id, the waiting tasks that are stored anonymised."""
        self._is_wanted = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    @property
    def environment(self) -> str:
        """Name of the environment that tasks run in."""
        return self._service.runtime.kit.name

    def replace_keys(self, api_keys: Mapping[str, str]) -> None:
        """Continues with other API keys of agents, by agent."""
        self._service.runtime.replace_keys(api_keys)

    def start(self) -> None:
        """Begins with the tasks that an earlier process left."""
        self._is_wanted.set()
        self._worker = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Lets the running wave finish; queued tasks stay queued."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.wait([worker])
        await asyncio.to_thread(self._lease.release)

    async def submit(self, task: Task, client: Client, *, tags: Sequence[str] = ()) -> Submission:
        """Returns the submission once it is durable; the same task again is the same submission.

        Where the tenant anonymises before anything is stored, the original is in memory only, until it has run.
        ``tags``: of the task. Raises RequestError for a task that the environment cannot begin and for a name that
        is no tag (400), for an id of another task (409), for one that would be kept in memory where other processes
        may run it (409), and where too many are (429).
        """
        await asyncio.to_thread(self._check, task)
        tagged = self._tagged(task, tags)
        stored = task if self._border is None else self._border.stored(task, tenant=task.tenant)
        is_held = stored is not task
        is_new = is_held and task.id not in self._held
        if is_new:
            self._check_room()
            self._held[task.id] = task  # before it is stored, as it may run at once
        try:
            await asyncio.to_thread(submit_task, self._pool, stored, client.key, note=_HELD if is_held else "")
            if tagged:
                await asyncio.to_thread(self._pool.append, *tagged)
        except BaseException as exc:
            if is_new:
                del self._held[task.id]
            if not isinstance(exc, StoreConflictError):
                raise
            raise RequestError(str(exc), status=409, code="task_conflict", field="id") from exc
        submission = self.find(task.id, client)
        self._let_go(submission)
        self._is_wanted.set()
        return submission

    def _tagged(self, task: Task, tags: Sequence[str]) -> list[Feedback]:
        """Returns the records of the tags, as they are stored; raises RequestError."""
        if wrong := [tag for tag in tags if not is_tag(tag)]:
            raise RequestError(f"a tag has {TAG_RULE}, got {wrong[0]!r:.100}", field="tags")
        records = [imported_tag(task.id, tag, tenant=task.tenant) for tag in tags]
        if (border := self._border) is None:
            return records
        return [border.stored(record, tenant=task.tenant) for record in records]

    def find(self, task_id: str, client: Client) -> Submission:
        """Returns the client's submission; raises RequestError (404) for an unknown id."""
        stored = find_submission(self._pool.engine, task_id, tenant=client.tenant, key=client.key)
        if stored is None:
            raise RequestError(f"no task {task_id!r}; POST /v1/tasks makes one", status=404, code="unknown_task")
        return stored

    def submitted(
        self, client: Client, *, limit: int = 100, states: Sequence[SubmissionState] = ()
    ) -> Sequence[Submission]:
        """Returns the client's latest submissions, the latest first; ``states``: only in one of these; () = any."""
        return submissions_in(
            self._pool.engine,
            tenant=client.tenant,
            key=client.key,
            states=states,
            limit=limit,
            is_latest_first=True,
        )

    async def cancel(self, task_id: str, client: Client) -> Submission:
        """Returns the submission after its cancellation; a task that runs or has run is not changed."""
        self.find(task_id, client)
        await asyncio.to_thread(cancel_queued, self._pool, task_id, tenant=client.tenant, key=client.key)
        submission = self.find(task_id, client)
        self._let_go(submission)
        return submission

    def experience(self, submission: Submission) -> Experience | None:
        """Returns the trajectory and evaluation of a task that has run; None = it has not."""
        tenant = submission.task.tenant
        ids = self._pool.trajectory_ids(submission.task.id, tenant=tenant)
        if not ids:
            return None
        return next(iter(self._pool.experiences_of(ids[-1:], tenant=tenant, has_tokens=False)))

    def cost_usd(self, submission: Submission) -> float | None:
        """Returns what a task has cost; None = unknown, or nobody counts it."""
        if self._accounts is None:
            return None
        return self._accounts.cost_usd(submission.task.id, submission.task.tenant)

    def _check(self, task: Task) -> None:
        """Raises RequestError if the task's world cannot be built.

        Environments that wait for a network or another process are not asked: the task then fails when it runs.
        """
        try:
            environment = self._service.runtime.kit.environment(task)
            if not is_blocking(environment):
                environment.reset(task)
        except UpturnError as exc:
            raise RequestError(
                f"the environment {self.environment!r} cannot begin this task: {exc}", code="unfit_task"
            ) from exc

    def _let_go(self, submission: Submission) -> None:
        """Forgets the text of a task that neither waits nor runs."""
        if submission.state not in ("queued", "running"):
            self._held.pop(submission.task.id, None)

    def _check_room(self) -> None:
        """Raises RequestError if no further task can be kept in memory."""
        if not self._pool.has_one_writer:
            raise RequestError(
                "the task has personal data or secrets, its tenant anonymises before anything is stored, and "
                "several processes may run tasks of this pool; take them out of the task",
                status=409,
                code="not_anonymous",
            )
        if len(self._held) >= _MOST_HELD:
            raise RequestError(
                f"{_MOST_HELD} tasks that are stored anonymised wait already; submit it later",
                status=429,
                code="too_many_tasks",
                retry_after_seconds=10,
            )

    async def _work(self) -> None:
        """Runs tasks whenever there are some. Of several processes on a pool, one does; the others take over."""
        while True:
            await self._wanted()
            try:
                while await asyncio.to_thread(self._lease.take) and (
                    wave := submissions_in(
                        self._pool.engine, tenant=ALL_TENANTS, states=("queued", "running"), limit=_WAVE
                    )
                ):
                    await self._serve(wave)
                    self._on_done()
            except StoreError:
                _log.exception("the queue cannot use the pool; it tries again in a second")
                await asyncio.sleep(_POLL_SECONDS)
                self._is_wanted.set()

    async def _wanted(self) -> None:
        """Waits for a task; other processes do not say when they have stored one."""
        patience = None if self._pool.has_one_writer else _POLL_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):  # wait_for may lose a cancellation (CPython issue 86296)
                await self._is_wanted.wait()
        self._is_wanted.clear()

    async def _serve(self, wave: Sequence[Submission]) -> None:
        fresh = [
            member for member in wave if not self._pool.trajectory_ids(member.task.id, tenant=member.task.tenant)
        ]
        done = [member.task.id for member in wave if member not in fresh]
        if done:
            await asyncio.to_thread(set_states, self._lease.pool, done, "done")
        lost = [member.task.id for member in fresh if member.reason == _HELD and member.task.id not in self._held]
        if lost:
            await asyncio.to_thread(set_states, self._lease.pool, lost, "failed", _LOST)
        fresh = [
            member._replace(task=self._held.get(member.task.id, member.task))
            for member in fresh
            if member.task.id not in lost
        ]
        for owner in dict.fromkeys((member.task.tenant, member.key) for member in fresh):
            tasks = [member.task for member in fresh if (member.task.tenant, member.key) == owner]
            refusal = "" if self._accounts is None else self._accounts.refusal(*owner)
            if refusal:
                await asyncio.to_thread(
                    set_states, self._lease.pool, [task.id for task in tasks], "failed", refusal
                )
            else:
                await self._serve_owner(tasks)

    async def _serve_owner(self, tasks: Sequence[Task]) -> None:
        """Runs tasks of one tenant and API key."""
        await self._run(tasks)
        for task in tasks:
            self._held.pop(task.id, None)

    async def _run(self, tasks: Sequence[Task]) -> None:
        ids = [task.id for task in tasks]
        try:
            # Taken together: a version may be taken out of service before the wave begins.
            decisions, versions = self._service.decide(tasks), self._service.versions()
            await asyncio.to_thread(set_states, self._lease.pool, ids, "running")
            await asyncio.shield(asyncio.to_thread(self._service.run, tasks, decisions, versions))
        except (RoutingError, UpturnError) as exc:
            await asyncio.to_thread(set_states, self._lease.pool, ids, "failed", str(exc))
        except Exception as exc:  # noqa: BLE001  boundary: an environment may raise anything, and others wait
            _log.exception("a wave of tasks failed")
            await asyncio.to_thread(set_states, self._lease.pool, ids, "failed", error_text(exc))
        else:
            if self._accounts is not None:
                self._accounts.charge(ids)
            await asyncio.to_thread(set_states, self._lease.pool, ids, "done")


def new_task_id() -> str:
    """Returns an id for a task whose client names none."""
    return f"task-{uuid4().hex}"
